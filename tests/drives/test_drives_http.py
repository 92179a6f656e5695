"""Drives on web servers: each way in which a server fails has its own words, and none costs more than seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import create_server
from threading import Event, Thread

import numpy as np
import pytest
from drive_files import STAMPS, write_udacity

from skidpad.core.errors import SkidpadError
from skidpad.drives import ProblemKind, http_files, open_drive
from skidpad.drives import remote as remote_files
from skidpad.drives.http_files import HttpFiles, Patience, TooLargeError, TooSlowError
from skidpad.drives.remote import RemoteFiles

pytestmark = pytest.mark.usefixtures("hasty")
ENDLESS = b"x" * 65536


class Hostile(BaseHTTPRequestHandler):
    """Behaves as badly as its path says."""

    protocol_version = "HTTP/1.1"
    server: HostileServer

    def do_GET(self) -> None:
        getattr(self, f"_{self.path.strip('/').partition('/')[0].partition('.')[0]}")()

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        pass

    def _silent(self) -> None:
        self.server.over.wait()

    def _drip(self) -> None:
        self._begin(10_000)
        while self.command == "GET" and not self.server.over.wait(0.01):
            self.wfile.write(b"x")

    def _header(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
        while not self.server.over.wait(0.01):
            self.wfile.write(b"x")

    def _endless(self) -> None:
        self._begin(None)
        try:
            while self.command == "GET" and not self.server.over.is_set():
                self.wfile.write(ENDLESS)
        except OSError:  # nobody listens any more
            pass

    def _huge(self) -> None:
        self._begin(1 << 60)

    def _deep(self) -> None:
        page = b'<a href="a/">a</a> <a href="b/">b</a>'
        self._begin(len(page), "text/html")
        if self.command == "GET":
            self.wfile.write(page)

    def _broken(self) -> None:
        self._begin(1000)
        self.wfile.write(b"x" * 10)

    def _404(self) -> None:
        self.send_error(404)

    _403 = _500 = lambda self: self.send_error(int(self.path.strip("/").partition(".")[0]))

    def _begin(self, size: int | None, kind: str = "image/png") -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        if size is not None:
            self.send_header("Content-Length", str(size))
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True


class HostileServer(ThreadingHTTPServer):
    """Ends every wait of its handlers when the test is over."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, handler: Callable[..., BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.over = Event()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that gives up is what the tests are about."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def hasty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKIDPAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(remote_files, "WAITS_S", (0.0,))
    monkeypatch.setattr(http_files, "PATIENCE", Patience(connect_s=0.5, silence_s=0.2, grace_s=0.1))


@pytest.fixture
def serve() -> Iterator[Callable[..., HostileServer]]:
    servers: list[tuple[HostileServer, Thread]] = []

    def begin(handler: Callable[..., BaseHTTPRequestHandler] = Hostile) -> HostileServer:
        server = HostileServer(handler)
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        servers.append((server, thread))
        return server

    yield begin
    for server, thread in servers:
        server.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("silent.mcap", r"the server is silent: nothing came within 0\.2 s \(tries: 2\); check the server"),
        ("header.mcap", r"the server is silent"),
        ("500.mcap", r"the server answers 500 Internal Server Error \(tries: 2\)"),
        ("404.mcap", "nothing lies at '.*404.mcap'"),
        ("403.mcap", "cannot list '.*403.mcap': the server answers 403 Forbidden; check your credentials"),
        ("drip.mcap", r"drip.mcap comes too slowly: [\d,]+ bytes in 0 s; copy the drive"),
        ("huge.mcap", r"too large: the server announces 1,152,921,504,606,846,976 bytes, and [\d,]+ are free"),
        ("broken.mcap", "the connection broke off"),
        ("deep", "has more than 1,000 folders; name the one that holds the drive"),
    ],
)
def test_each_failure_has_its_words(path: str, words: str, serve: Callable[..., HostileServer]) -> None:
    with pytest.raises(SkidpadError, match=words):
        open_drive(f"{serve().url}/{path}")


def test_an_endless_file_ends(serve: Callable[..., HostileServer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_files, "MAX_UNANNOUNCED_BYTES", 1 << 20)
    with pytest.raises(TooLargeError, match=r"endless.mcap is too large: more than 1,048,576 bytes came"):
        open_drive(f"{serve().url}/endless.mcap")


def test_a_server_that_is_not_there_refuses() -> None:
    with create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(SkidpadError, match=r"cannot list http://.*: the server refuses connections \(tries: 2\)"):
        open_drive(f"http://127.0.0.1:{port}/drive.mcap")


def test_a_web_server_that_lists_its_folders_is_read_like_a_disk(serve: Callable[..., HostileServer], tmp_path: Path) -> None:
    class Quiet(SimpleHTTPRequestHandler):
        log_message = Hostile.log_message

    folder = write_udacity(tmp_path / "drives" / "ch2")
    local = open_drive(str(folder))
    remote = open_drive(f"{serve(partial(Quiet, directory=str(tmp_path))).url}/drives/ch2")
    assert (remote.sha256, remote.frame_ids) == (local.sha256, local.frame_ids)
    np.testing.assert_array_equal(remote.read(range(7)).frames, local.read(range(7)).frames)


def test_a_picture_too_large_is_counted_and_a_slow_server_is_not_a_broken_frame(
    serve: Callable[..., HostileServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mode = "whole"

    class Turning(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.endswith(f"{STAMPS[3]}.png") and mode != "whole":
                getattr(Hostile, f"_{mode}")(self)
            else:
                super().do_GET()

        _begin = Hostile._begin
        log_message = Hostile.log_message

    write_udacity(tmp_path / "ch2")
    drive = open_drive(f"{serve(partial(Turning, directory=str(tmp_path))).url}/ch2")
    mode = "drip"
    with pytest.raises(SkidpadError, match=r"too slowly.*skidpad resume goes on"):
        drive.read(range(7))
    mode = "huge"
    batch = drive.read(range(7))
    assert [(problem.kind, problem.frame_id) for problem in batch.problems] == [(ProblemKind.CORRUPT, STAMPS[3])]
    assert "more than the 256 MiB" in batch.problems[0].detail


def test_the_slow_and_the_large_are_told_apart(serve: Callable[..., HostileServer]) -> None:
    files = HttpFiles()
    url = serve().url
    with pytest.raises(TooSlowError):
        files.cat_file(f"{url}/drip.png")
    with pytest.raises(TooLargeError, match=r"announces .* and 268,435,456 are read at most"):
        files.cat_file(f"{url}/huge.png")


def test_a_web_server_is_not_written_to(serve: Callable[..., HostileServer]) -> None:
    with pytest.raises(NotImplementedError, match="only read from"):
        RemoteFiles(serve().url).write("a", b"x")
