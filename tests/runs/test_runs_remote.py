"""Runs on a server: the same segments as in a folder, whoever computes them and whenever the server fails."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import fsspec
import pytest
from runs_toy_campaign import campaign, make, merged

from skidpad.core.errors import BadRunError, InterruptedRunError, SkidpadError
from skidpad.drives import remote as remote_files
from skidpad.runs.folder import Run
from skidpad.runs.remote import MARK, Mirror

FEW = {"guided": 3, "mutants": 5}
URL = Path("memory://runs/one")  # a Path swallows a slash, as on the command line


class Store:
    """The in-memory file system under /runs, and a switch that breaks it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.system: Any = fsspec.filesystem("memory")
        self.fails_after: int | None = None
        self.puts: list[str] = []
        real = type(self.system).pipe_file

        def pipe_file(system: Any, path: str, value: bytes, mode: str = "overwrite", **options: object) -> Any:
            if self.fails_after is not None and len(self.puts) >= self.fails_after:
                raise ConnectionError("connection reset by peer")
            self.puts.append(path)
            return real(system, path, value, mode=mode, **options)

        monkeypatch.setattr(type(self.system), "pipe_file", pipe_file)

    def files(self, folder: str = "segments") -> dict[str, bytes]:
        return {path.rpartition("/")[2]: self.system.cat_file(path) for path in self.system.find(f"/runs/one/{folder}")}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("SKIDPAD_CACHE", str(tmp_path / "first machine"))
    monkeypatch.setattr(remote_files, "WAITS_S", (0.0,))
    made = Store(monkeypatch)
    yield made
    if made.system.exists("/runs"):
        made.system.rm("/runs", recursive=True)


@pytest.fixture
def other_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda: monkeypatch.setenv("SKIDPAD_CACHE", str(tmp_path / "other machine"))


@pytest.fixture
def unharmed(tmp_path: Path) -> Run:
    run = make(tmp_path / "unharmed")
    campaign(run, shards=FEW)
    return run


def segments(run: Run) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (run.path / "segments").iterdir()}


def assert_same(run: Run, unharmed: Run, store: Store) -> None:
    assert run.is_finished
    assert run.place == "memory://runs/one"
    assert store.files() == segments(run) == segments(unharmed)
    assert run.findings().equals(unharmed.findings())
    assert run.problems() == unharmed.problems()
    assert (merged(run, "guided") == merged(unharmed, "guided")).all()


def test_a_run_on_a_url_is_the_run_in_a_folder(store: Store, unharmed: Run, other_machine: Any) -> None:
    run = make(URL)
    campaign(run, shards=FEW)
    assert_same(run, unharmed, store)
    assert [path.rpartition("/")[2] for path in store.puts[:3]] == ["config.toml", "schema.json", "manifest.json"]
    other_machine()
    opened = Run.open(URL)
    assert opened.path != run.path
    assert_same(opened, unharmed, store)
    assert (opened.config, opened.manifest) == (run.config, run.manifest)


@pytest.mark.parametrize("puts", range(3, 12))
def test_a_server_that_fails_at_any_moment_costs_no_finding(puts: int, store: Store, unharmed: Run, other_machine: Any) -> None:
    run = make(URL)
    store.fails_after = puts
    with pytest.raises(
        BadRunError, match=r"connection reset by peer .*tries: 2.*what is there stays; go on with: skidpad resume memory://runs/one"
    ):
        campaign(run, shards=FEW)
    assert len(store.files()) == min(puts - 3, sum(FEW.values()))
    store.fails_after = None
    if puts % 2:
        other_machine()
    resumed = Run.open(URL)
    assert segments(resumed) == store.files()
    campaign(resumed, shards=FEW)
    assert_same(resumed, unharmed, store)


def test_interrupted_it_goes_on_from_the_working_folder_too(store: Store, unharmed: Run) -> None:
    run = make(URL)

    def stop(done: int, total: int, note: str = "") -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError, match="skidpad resume") as stopped:
        campaign(run, stop, shards=FEW)
    assert "skidpad resume memory://runs/one" in str(stopped.value)
    resumed = Run.open(run.path)
    campaign(resumed, shards=FEW)
    assert_same(resumed, unharmed, store)


def test_a_url_that_holds_a_run_is_refused_and_one_half_made_is_not(store: Store) -> None:
    for puts, name in ((0, "config.toml"), (2, "manifest.json")):
        store.fails_after = puts
        with pytest.raises(BadRunError, match=rf"{name} to memory://runs/one.*; no run was begun; mend it or choose another --out$"):
            make(URL)
    with pytest.raises(BadRunError, match="no run at memory://runs/one"):
        Run.open(URL)
    store.fails_after = None
    make(URL)
    with pytest.raises(BadRunError, match=r"a run lies at memory://runs/one; go on with it \(skidpad resume memory://runs/one\)"):
        make(URL)


def test_of_two_that_begin_at_once_one_wins(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    make(URL)
    monkeypatch.setattr(Mirror, "_listing", lambda self: [])  # as seen before the other one had written
    with pytest.raises(BadRunError, match="another run was begun at memory://runs/one at the same time"):
        make(URL, {"other": True})
    assert b"toy" in store.system.cat_file("/runs/one/manifest.json")


def test_damage_on_the_server_is_computed_again(store: Store, unharmed: Run, other_machine: Any) -> None:
    run = make(URL)
    campaign(run, shards=FEW)
    name = sorted(store.files())[2]
    store.system.store[f"/runs/one/segments/{name}"].seek(50)
    store.system.store[f"/runs/one/segments/{name}"].write(b"????")
    other_machine()
    opened = Run.open(URL)
    assert opened.damaged == (f"{name}.damaged",)
    assert not opened.is_finished
    campaign(opened, shards=FEW)
    assert store.files()[name] == segments(unharmed)[name]


def test_a_reader_beside_a_writer_of_this_machine_disturbs_nothing(store: Store) -> None:
    run = make(URL)
    with run.lock():
        (run.path / "segments" / "mutants-000009-0123456789abcdef.parquet").write_bytes(b"being written")
        reader = Run.open(URL, set_aside=False)
        assert reader.path == run.path
        assert (run.path / "segments" / "mutants-000009-0123456789abcdef.parquet").exists()


def test_published_files_stand_beside_the_run(store: Store, tmp_path: Path) -> None:
    run = make(URL)
    (run.path / "report.html").write_text("<p>")
    run.publish(run.path / "report.html")
    assert store.files("report.html") == {"report.html": b"<p>"}
    local = make(tmp_path / "local")
    local.publish(tmp_path / "nothing.html")
    assert local.place == str(tmp_path / "local")


def test_names_that_are_not_a_runs_are_left_alone(store: Store, other_machine: Any) -> None:
    make(URL)
    store.system.pipe_file("/runs/one/segments/..%2fevil", b"x")
    store.system.pipe_file("/runs/one/holiday.jpg", b"x")
    other_machine()
    assert sorted(path.name for path in Run.open(URL).path.rglob("*") if path.is_file()) == [
        ".skidpad-lock",
        MARK,
        "config.toml",
        "manifest.json",
        "schema.json",
    ]


def test_what_is_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = Mirror.of(Path("s3://bucket/runs/a"))
    assert found is not None
    assert (found.remote.url, found.folder.name) == ("s3://bucket/runs/a", "a")
    local = Mirror.of(Path("file:///srv/runs/a"))
    assert local is not None
    assert local.remote.url == "file:///srv/runs/a"
    assert Mirror.of(Path("runs/a")) is None
    assert Mirror.of(Path("c:/runs/a")) is None
    (tmp_path / "s3:" / "bucket").mkdir(parents=True)
    assert Mirror.of(Path("s3:/bucket")) is None  # a folder of that name comes first


def test_on_a_server_of_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unharmed: Run) -> None:
    spec = spec_from_file_location("s3_server", Path(__file__).parents[1] / "drives" / "s3_server.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    monkeypatch.setenv("SKIDPAD_CACHE", str(tmp_path / "cache"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "us-east-1")
    with module.s3_server() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        run = make(Path("s3://bucket/runs/one"))
        campaign(run, shards=FEW)
        with pytest.raises(BadRunError, match="a run lies at"):
            make(Path("s3://bucket/runs/one"))
        monkeypatch.setattr(Mirror, "_listing", lambda self: [])
        with pytest.raises(BadRunError, match="at the same time"):
            make(Path("s3://bucket/runs/one"))
        monkeypatch.undo()
        kept = {key.rpartition("/")[2]: data for key, data in server.objects.items() if "/segments/" in key}
    s3fs.S3FileSystem.clear_instance_cache()
    assert kept == segments(unharmed)


def test_a_missing_extra_is_named(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(SkidpadError, match=r"pip install 'skidpad\[remote\]'"):
        Run.open(URL)
