"""Public collections of scenarios: fetched from a server, and kept only if nothing of them has changed."""

import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from skidpad.core.errors import SkidpadError
from skidpad.worlds.openx.documents import Collection, content_sha256, fetch

pytest.importorskip("aiohttp")
FILES = {"LICENSE": b"MPL", "roads/road.xodr": b"<OpenDRIVE/>", "tests/cut_in.xosc": b"<OpenSCENARIO/>"}


def packed(files: Mapping[str, bytes]) -> bytes:
    sink = BytesIO()
    with tarfile.open(fileobj=sink, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"repository-de21f22/{name}")
            member.size = len(content)
            archive.addfile(member, BytesIO(content))
    return sink.getvalue()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *words: Any) -> None:
        pass


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A server of the folder `served`, and the address of the collection there."""
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "repository.tar.gz").write_bytes(packed({**FILES, "tools/run.bat": b"del *"}))

    class Handler(Quiet):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given, directory=str(tmp_path / "served"))

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/repository.tar.gz"
        server.shutdown()
        thread.join()


@pytest.fixture
def collection(address: str) -> Collection:
    return Collection("tiny ones", address, content_sha256(FILES), "tests")


def test_what_is_as_it_was_is_kept_without_programs(tmp_path: Path, collection: Collection) -> None:
    paths = fetch(collection, tmp_path / "out")
    found = {str(path.relative_to(tmp_path / "out")): path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert found == FILES
    assert sorted(map(str, paths)) == sorted(str(tmp_path / "out" / name) for name in FILES)
    with pytest.raises(SkidpadError, match="is in use; name an empty or a new folder"):
        fetch(collection, tmp_path / "out")


def test_of_what_has_changed_nothing_is_kept(tmp_path: Path, collection: Collection) -> None:
    changed = {**FILES, "tests/cut_in.xosc": b"<OpenSCENARIO> </OpenSCENARIO>"}
    (tmp_path / "served" / "repository.tar.gz").write_bytes(packed(changed))
    with pytest.raises(SkidpadError, match=f"its SHA-256 is {content_sha256(changed)}, and should be {content_sha256(FILES)}"):
        fetch(collection, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_names_that_lead_elsewhere_are_left_out(tmp_path: Path, collection: Collection) -> None:
    (tmp_path / "served" / "repository.tar.gz").write_bytes(packed({**FILES, "../../escaped.xosc": b"<OpenSCENARIO/>"}))
    fetch(collection, tmp_path / "out")
    assert not list(tmp_path.parent.rglob("escaped.xosc"))


def test_a_server_without_it_and_a_file_that_is_none_are_said(tmp_path: Path, collection: Collection) -> None:
    with pytest.raises(SkidpadError, match=r"cannot fetch .*nothing: .*404"):
        fetch(replace(collection, address=collection.address.replace("repository.tar.gz", "nothing")), tmp_path / "out")
    (tmp_path / "served" / "repository.tar.gz").write_bytes(b"not packed")
    with pytest.raises(SkidpadError, match="is no packed repository"):
        fetch(collection, tmp_path / "out")
