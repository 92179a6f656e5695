"""Drives on a server: the same drive byte for byte, fetched once, and clear words when the server is gone."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from drive_files import STAMPS, write_folder, write_simulator, write_tub, write_udacity
from recording_files import write_mcap, write_ros1, write_ros2
from s3_server import S3Server, s3_server
from video_files import write_video

from skidpad.core.errors import BadDriveError, MissingExtraError, SkidpadError
from skidpad.core.files import is_url
from skidpad.drives import ProblemKind, open_drive
from skidpad.drives import remote as remote_files
from skidpad.drives.remote import RemoteFiles, ServerGoneError


@pytest.fixture(scope="module")
def running() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def server(running: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server with nothing on it, and nobody waits between two tries."""
    running.objects.clear()
    running.got.clear()
    running.failing = 0
    monkeypatch.setenv("AWS_ENDPOINT_URL", running.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "tester")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("SKIDPAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(remote_files, "WAITS_S", (0.0, 0.0))
    return running


def upload(server: S3Server, path: Path, key: str) -> str:
    for file in [path] if path.is_file() else [entry for entry in path.rglob("*") if entry.is_file()]:
        inner = "" if file == path else f"/{file.relative_to(path).as_posix()}"
        server.objects[f"data/{key}{inner}"] = file.read_bytes()
    return f"s3://data/{key}"


KINDS = {
    "udacity": (write_udacity, ""),
    "simulator": (write_simulator, "?camera=left"),
    "tub": (write_tub, "?rotate=180&sign=1"),
    "folder": (write_folder, "?csv=angles.csv&id=frame&steering=angle&unit=deg"),
    "ros1.bag": (write_ros1, ""),
    "ros2": (write_ros2, ""),
    "a.mcap": (write_mcap, "?unit=deg"),
    "a.mp4": (write_video, ""),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_drive_on_a_url_is_the_local_drive(kind: str, server: S3Server, tmp_path: Path) -> None:
    make, tail = KINDS[kind]
    path = make(tmp_path / kind)
    local = open_drive(f"{path}{tail}")
    url = upload(server, path, f"drives/{kind}")
    remote = open_drive(f"{url}{tail}")
    assert (remote.name, remote.frame_ids, remote.sha256, remote.problems) == (local.name, local.frame_ids, local.sha256, local.problems)
    np.testing.assert_array_equal(remote.steering_rad, local.steering_rad)
    np.testing.assert_array_equal(remote.read(range(7)).frames, local.read(range(7)).frames)
    assert url in remote.origin
    server.got.clear()
    again = open_drive(remote.origin)
    assert again.sha256 == local.sha256
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(again)).read([2, 5]).frames, local.read([2, 5]).frames)
    assert server.got == []  # all of it came from the cache
    part = open_drive(f"{remote[1:4].origin}")
    assert part.sha256 == local[1:4].sha256


def test_pictures_come_when_they_are_read(server: S3Server, tmp_path: Path) -> None:
    url = upload(server, write_udacity(tmp_path / "ch2"), "ch2")
    drive = open_drive(url)
    assert server.got == ["data/ch2/CH2_final_evaluation.csv"]
    drive.read([3])
    assert server.got[1:] == [f"data/ch2/center/{STAMPS[0]}.png", f"data/ch2/center/{STAMPS[3]}.png"]  # the first tells the size


def test_what_changes_on_the_server_is_fetched_anew(server: S3Server, tmp_path: Path) -> None:
    url = upload(server, write_udacity(tmp_path / "ch2"), "ch2")
    before = open_drive(url).read(range(7)).frames
    names = [f"data/ch2/center/{stamp}.png" for stamp in STAMPS]
    server.objects[names[1]] = server.objects[names[2]]
    server.objects["data/ch2/CH2_final_evaluation.csv"] = server.objects["data/ch2/CH2_final_evaluation.csv"].replace(b"0.125", b"0.375")
    server.got.clear()
    after = open_drive(url)
    assert after.steering_rad[2] == 0.375
    np.testing.assert_array_equal(after.read(range(7)).frames, before[[0, 2, 2, 3, 4, 5, 6]])
    assert sorted(set(server.got)) == sorted(["data/ch2/CH2_final_evaluation.csv", names[1]])


def test_a_torn_copy_in_the_cache_is_fetched_again(server: S3Server, tmp_path: Path) -> None:
    url = upload(server, write_udacity(tmp_path / "ch2"), "ch2")
    expected = open_drive(url).read(range(7)).frames
    for kept in (tmp_path / "cache" / "objects").rglob("*"):
        if kept.is_file():
            kept.write_bytes(kept.read_bytes()[:-7])
    np.testing.assert_array_equal(open_drive(url).read(range(7)).frames, expected)


def test_vanished_and_broken_pictures_are_listed(server: S3Server, tmp_path: Path) -> None:
    folder = write_udacity(tmp_path / "ch2")
    url = upload(server, folder, "ch2")
    server.objects[f"data/ch2/center/{STAMPS[2]}.png"] = b"garbage"
    drive = open_drive(url)
    del server.objects[f"data/ch2/center/{STAMPS[4]}.png"]
    (batch,) = drive.batches(16)
    assert [(problem.kind, problem.frame_id) for problem in batch.problems] == [
        (ProblemKind.CORRUPT, STAMPS[2]),
        (ProblemKind.MISSING_FILE, STAMPS[4]),
    ]
    (folder / "center" / f"{STAMPS[2]}.png").write_bytes(b"garbage")
    local = open_drive(str(folder))
    (folder / "center" / f"{STAMPS[4]}.png").unlink()
    (expected,) = local.batches(16)
    assert batch.problems == expected.problems


def test_a_server_that_stumbles_is_asked_again(server: S3Server, tmp_path: Path) -> None:
    url = upload(server, write_udacity(tmp_path / "ch2"), "ch2")
    drive = open_drive(url)
    server.failing = 2
    assert len(drive.read(range(7))) == 7
    assert server.failing == 0


def test_our_tries_are_all_there_are(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    from fsspec.config import conf

    server.objects["data/a"] = b"content"
    monkeypatch.delenv("AWS_MAX_ATTEMPTS")
    server.failing = 3
    with pytest.raises(ServerGoneError, match=r"\(tries: 3\)"):
        RemoteFiles("s3://data").read("a")
    assert server.failing == 0
    monkeypatch.setitem(conf, "s3", {"config_kwargs": {"user_agent_extra": "theirs"}})
    assert RemoteFiles("s3://data")._system()[0].config_kwargs == {"retries": {"total_max_attempts": 1}, "user_agent_extra": "theirs"}


def test_a_server_that_is_gone_is_an_error_and_no_list_of_broken_frames(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = upload(server, write_udacity(tmp_path / "ch2"), "ch2")
    drive = open_drive(url)
    drive.read([0])
    tries: list[str] = []

    class _Gone:
        def cat_file(self, path: str) -> bytes:
            tries.append(path)
            raise ConnectionError("connection refused")

        def info(self, path: str) -> dict[str, object]:
            raise ConnectionError("connection refused")

        def invalidate_cache(self) -> None:
            pass

    monkeypatch.setattr(RemoteFiles, "_system", lambda self: (_Gone(), "data/ch2"))
    with pytest.raises(
        BadDriveError, match=rf"cannot read center/{STAMPS[1]}.png of s3://data/ch2: connection refused \(tries: 3\).*skidpad resume"
    ):
        drive.read(range(7))
    assert len(tries) == 3
    with pytest.raises(ServerGoneError, match=r"cannot list s3://data/ch2: connection refused \(tries: 3\); check the server"):
        open_drive(url)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("s3://data/nowhere", "nothing lies at 's3://data/nowhere'"),
        ("s3://data/notes", "no reader recognises the folder 's3://data/notes'"),
        ("udacity:s3://data/notes", "no folder 'center'"),
        ("nosuch://data/x", "cannot open 'nosuch://data/x'.*URLs are those of fsspec"),
    ],
)
def test_bad_urls(text: str, words: str, server: S3Server) -> None:
    server.objects["data/notes/readme.txt"] = b"hello"
    with pytest.raises(SkidpadError, match=words):
        open_drive(text)


def test_other_file_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec

    monkeypatch.setenv("SKIDPAD_CACHE", str(tmp_path / "cache"))
    folder = write_udacity(tmp_path / "ch2")
    local = open_drive(str(folder))
    assert open_drive(f"file://{folder}").sha256 == local.sha256
    memory = fsspec.filesystem("memory")
    memory.put(str(folder), "/somewhere/ch2", recursive=True)
    try:
        remote = open_drive("memory://somewhere/ch2")
        assert remote.sha256 == local.sha256
        np.testing.assert_array_equal(remote.read(range(7)).frames, local.read(range(7)).frames)
    finally:
        memory.rm("/somewhere", recursive=True)


def test_http(server: S3Server, tmp_path: Path) -> None:
    path = write_mcap(tmp_path / "a.mcap")
    upload(server, path, "a.mcap")
    remote = open_drive(f"{server.url}/data/a.mcap")
    assert remote.sha256 == open_drive(str(path)).sha256
    server.got.clear()
    assert open_drive(remote.origin).sha256 == remote.sha256
    assert server.got == []
    with pytest.raises(BadDriveError, match="nothing lies at"):
        open_drive(f"{server.url}/data/b.mcap")


def test_what_may_not_be_read_is_an_error(server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drive = open_drive(upload(server, write_udacity(tmp_path / "ch2"), "ch2"))

    def refused(self: RemoteFiles, path: str) -> bytes:
        raise PermissionError("Forbidden")

    monkeypatch.setattr(RemoteFiles, "read", refused)
    with pytest.raises(BadDriveError, match=rf"cannot read center/{STAMPS[0]}.png of s3://data/ch2: Forbidden"):
        drive.read([3])


def test_a_cache_that_cannot_be_written_to_costs_time_alone(server: S3Server, tmp_path: Path) -> None:
    folder = write_udacity(tmp_path / "ch2")
    drive = open_drive(upload(server, folder, "ch2"))
    (tmp_path / "cache" / "objects").write_text("a file in the way")
    for _ in range(2):
        np.testing.assert_array_equal(drive.read([3]).frames, open_drive(str(folder)).read([3]).frames)


def test_names_that_climb_out_of_the_cache_are_refused(server: S3Server) -> None:
    server.objects["data/evil/../../../center/1.png"] = b"x"
    with pytest.raises(SkidpadError, match="which no drive needs"):
        open_drive("s3://data/evil")


def test_what_is_a_url() -> None:
    assert all(map(is_url, ("s3://b/x", "gs://b", "https://h/x.mcap", "memory://x")))
    assert not any(map(is_url, ("s3:b", "/a/b", "C:\\x", "udacity:/a//b", "a://", "mcap:s3://b/x")))


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'skidpad\[remote\]'"):
        open_drive("s3://data/ch2")
