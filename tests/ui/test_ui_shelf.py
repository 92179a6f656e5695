"""Foreign folders: nothing leads out of them, nothing in them is run, and one that is broken stops nobody."""

import os
import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ui_runs import MARKUP, Server, make_drive, make_odd_run, make_picture_run, serve

from skidpad.core.errors import SkidpadError, UnknownNameError
from skidpad.runs.manifest import MAX_SEGMENT_BYTES
from skidpad.runs.records import SCHEMA
from skidpad.ui import rows
from skidpad.ui.library import RunsFolder

SEGMENT = "grid-000000-0123456789abcdef.parquet"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    make_picture_run(tmp_path / "runs" / "good", rows=4)
    make_picture_run(tmp_path / "runs" / "bad", rows=4)
    with serve(tmp_path / "runs") as server:
        yield server


def check_only_bad_is_refused(server: Server, words: str) -> None:
    """The list says what is wrong with the bad run, the good one is shown, and the bad one's own page is an error, not a crash."""
    listed = server.get("/")
    assert listed.status_code == 200
    assert words in listed.text
    assert server.get(f"/runs/{server.key('good')}").status_code == 200
    refused = server.get(f"/runs/{server.key('bad')}")
    assert refused.status_code == 422
    assert words in refused.text


def test_runs_are_found_at_any_depth_and_links_are_not_followed(tmp_path: Path) -> None:
    make_picture_run(tmp_path / "shelf" / "a" / "b" / "deep", rows=1)
    make_picture_run(tmp_path / "outside", rows=1)
    (tmp_path / "shelf" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "shelf" / "up").symlink_to(tmp_path)
    assert [found.name for found in RunsFolder(tmp_path / "shelf").scan()] == ["a/b/deep"]
    assert [found.name for found in RunsFolder(tmp_path / "outside").scan()] == ["outside"]


def test_keys_do_not_hang_on_who_else_is_there(tmp_path: Path) -> None:
    make_picture_run(tmp_path / "one", rows=1)
    before = RunsFolder(tmp_path).scan()[0].key
    make_picture_run(tmp_path / "another", rows=1)
    assert {found.name: found.key for found in RunsFolder(tmp_path).scan()}["one"] == before


def test_a_folder_that_is_not_there_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(SkidpadError, match="no folder"):
        RunsFolder(tmp_path / "nowhere")


@pytest.mark.parametrize("key", ["%2e%2e", "..%2f..%2fetc%2fpasswd", "%2Fetc%2Fpasswd", "good", "0" * 12, "a/../../etc"])
def test_no_address_leads_out_of_the_folder(server: Server, key: str) -> None:
    answer = server.get(f"/runs/{key}")
    assert answer.status_code in {307, 404}
    assert "root:" not in answer.text
    with pytest.raises(UnknownNameError):
        server.library.folder.find(key)


@pytest.mark.parametrize("case", ["..%2f..%2fmanifest.json", "zzz", "%00", "' OR '1'='1"])
def test_no_case_leads_anywhere_else(server: Server, case: str) -> None:
    for rest in ("", "/original.jpg", "/moving.svg"):
        assert server.get(f"/runs/{server.key('good')}/cases/{case}{rest}").status_code == 404


@pytest.mark.parametrize("name", ["manifest.json", "config.toml", "schema.json", SEGMENT])
def test_a_link_in_a_run_is_not_opened(server: Server, tmp_path: Path, name: str) -> None:
    place = tmp_path / "runs" / "bad" / ("segments" if name == SEGMENT else ".") / name
    outside = tmp_path / "secret"
    shutil.copy(place, outside) if place.exists() else outside.write_text("secret")
    place.unlink(missing_ok=True)
    place.symlink_to(outside)
    check_only_bad_is_refused(server, "is a link or no plain file")


@pytest.mark.parametrize("folder", ["segments", "state"])
def test_a_folder_that_is_a_link_is_not_read(server: Server, tmp_path: Path, folder: str) -> None:
    place = tmp_path / "runs" / "bad" / folder
    place.rename(tmp_path / "moved")
    place.symlink_to(tmp_path / "moved")
    check_only_bad_is_refused(server, f"{folder} is not a folder")


def test_a_pipe_does_not_hold_up_the_server(server: Server, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "runs" / "bad" / "segments" / SEGMENT)
    check_only_bad_is_refused(server, "no plain file")


def test_a_huge_file_is_not_read(server: Server, tmp_path: Path) -> None:
    with (tmp_path / "runs" / "bad" / "segments" / SEGMENT).open("wb") as file:
        file.truncate(MAX_SEGMENT_BYTES + 1)
    check_only_bad_is_refused(server, "a run that was made by skidpad has no such file")


def with_true_name(folder: Path, data: bytes) -> Path:
    """Writes a segment whose name carries the hash of its content, so that it counts as whole."""
    path = folder / "segments" / f"grid-000000-{sha256(data).hexdigest()[:16]}.parquet"
    for other in (folder / "segments").glob("grid-000000-*"):
        other.unlink()
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" + b"\xff" * 200 + b"PAR1", b"<html>"])
def test_broken_parquet_is_reported_for_its_run_alone(server: Server, tmp_path: Path, data: bytes) -> None:
    with_true_name(tmp_path / "runs" / "bad", data)
    check_only_bad_is_refused(server, "cannot be read")


def test_parquet_with_other_columns_is_reported(server: Server, tmp_path: Path) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"case_id": ["a"], "excess": ["much"]}), sink)
    with_true_name(tmp_path / "runs" / "bad", sink.getvalue().to_pybytes())
    check_only_bad_is_refused(server, "cannot be read")


def test_a_small_file_that_unfolds_to_far_too_much_is_refused(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MAX_ROWS", 1000)
    empty = {field.name: pa.nulls(2000, field.type) for field in SCHEMA}
    full = {**empty, "violated": pa.array([True] * 2000), "excess": pa.array([2.0] * 2000), "case_id": pa.array(["ab"] * 2000)}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(full), sink, compression="zstd")
    with_true_name(tmp_path / "runs" / "bad", sink.getvalue().to_pybytes())
    assert server.get("/").status_code == 200
    refused = server.get(f"/runs/{server.key('bad')}")
    assert (refused.status_code, "too many for the page" in refused.text) == (422, True)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("manifest.json", b"{"),
        ("manifest.json", b"[" * 100_000),
        ("manifest.json", b"\xff\xfe"),
        ("config.toml", b"a = " + b"[" * 20_000),
        ("config.toml", b"= broken"),
        ("schema.json", b'{"columns": []}'),
        ("schema.json", b'{"columns": [{"name": "case_id", "type": "string", "nullable": false}, 7]}'),
    ],
)
def test_broken_small_files_are_reported(server: Server, tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / "runs" / "bad" / name).write_bytes(content)
    listed = server.get("/")
    assert listed.status_code == 200
    assert "unreadable" in listed.text
    assert server.get(f"/runs/{server.key('good')}").status_code == 200
    assert server.get(f"/runs/{server.key('bad')}").status_code == 422


def test_a_damaged_segment_is_named_and_left_alone(server: Server, tmp_path: Path) -> None:
    segment = next((tmp_path / "runs" / "bad" / "segments").glob("grid-000001-*"))
    segment.write_bytes(segment.read_bytes()[:-1])
    page = server.get(f"/runs/{server.key('bad')}")
    assert page.status_code == 200
    assert segment.name in page.text
    assert segment.exists()


def test_looking_changes_nothing_in_a_run(server: Server, tmp_path: Path) -> None:
    def contents() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in sorted((tmp_path / "runs").rglob("*")) if path.is_file()}

    before = contents()
    for address in ("/", f"/runs/{server.key('good')}", f"/runs/{server.key('good')}?view=pictures", f"/runs/{server.key('good')}/status"):
        assert server.get(address).status_code == 200
    assert contents() == before


def test_names_with_markup_are_shown_and_do_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "<img src=x onerror=alert(1)>"
    make_odd_run(folder)
    with serve(tmp_path) as server:
        key = server.key(folder.name)
        for address in (
            "/",
            f"/runs/{key}",
            f"/runs/{key}?show=all&view=pictures",
            f"/runs/{key}/cases/0000",
            f"/compare?run={key}&run={key}",
        ):
            page = server.get(address)
            assert page.status_code == 200
            assert "<img src=x" not in page.text
            assert "<script>alert" not in page.text
            assert "\u202e" not in page.text
            assert "\x07" not in page.text
        assert "&lt;script&gt;alert(1)" in server.get(f"/runs/{key}/cases/0000").text
        assert MARKUP not in server.get(f"/runs/{key}").text


def test_a_run_cannot_name_a_program_that_looking_at_it_starts(tmp_path: Path) -> None:
    """The subject is a description of a program; every page and picture of the run leaves it alone."""
    trap = tmp_path / "sprung"
    description = tmp_path / "trap.toml"
    description.write_text(f'name = "trap"\nformat = "program"\ncommand = ["touch", "{trap}"]\n')
    make_picture_run(tmp_path / "runs" / "trap", make_drive(tmp_path / "drive"), rows=4, subject=str(description))
    with serve(tmp_path / "runs") as server:
        key = server.key("trap")
        line = server.failing(key)[0]
        for rest in ("", f"/cases/{line}", f"/cases/{line}/original.jpg", f"/cases/{line}/mutant.jpg", "/status"):
            assert server.get(f"/runs/{key}{rest}").status_code == 200
        assert not trap.exists()


def test_the_database_reads_nothing_outside_the_folder(server: Server, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    with pytest.raises(rows.FAILURES, match=r"(?i)permission|disabled"):
        server.library._database.ask("SELECT * FROM read_csv(?)", [str(secret)])
    with pytest.raises(rows.FAILURES):
        server.library._database.ask("SET enable_external_access = true")
