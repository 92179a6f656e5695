"""Weathers from a server: checked before anything is kept, continued after an interruption, refused in one sentence."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import create_server
from threading import Event, Thread

import pytest
from weather_toys import TINY, toy_card, toy_weights

from skidpad.core.errors import SkidpadError
from skidpad.drives import http_files, remote
from skidpad.drives.http_files import Patience
from skidpad.stimuli.weather.fetching import MAX_CARD_BYTES, fetch_weather, most_weight_bytes
from skidpad.stimuli.weather.files import load_weather, save_weather
from skidpad.stimuli.weather.pretrained import weather_path
from skidpad.stimuli.weather.settings import Sizes

pytest.importorskip("aiohttp")
PAGE = b"<!DOCTYPE html>\n<html>sign in</html>"


@dataclass
class Server:
    """What a server sends for each path, and how; asked: the paths and ranges that it was asked for."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    ranges: bool = True
    cut_after: int | None = None
    """Bytes of the weights after which a connection breaks off or, with `stalls`, nothing more comes."""
    stalls: bool = False
    asked: list[tuple[str, str]] = field(default_factory=list)
    over: Event = field(default_factory=Event)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(remote, "WAITS_S", (0.0,))
    monkeypatch.setattr(http_files, "PATIENCE", Patience(connect_s=2.0, silence_s=2.0))
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *words: object) -> None:
            pass

        def do_GET(self) -> None:
            path, wanted = self.path, self.headers.get("Range", "")
            state.asked.append((path, wanted))
            if path in state.redirects:
                self.send_response(302)
                self.send_header("Location", state.redirects[path])
                self.end_headers()
                return
            if path not in state.files:
                self.send_error(404)
                return
            content, start = state.files[path], 0
            if wanted and state.ranges:
                start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])  # type: ignore[index] # what we send
                if start >= len(content):
                    self.send_error(416)
                    return
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            else:
                self.send_response(200)
            self.send_header("Content-Length", str(state.sizes.get(path, len(content) - start)))
            self.end_headers()
            end = None if state.cut_after is None or path.endswith(".toml") else max(start, state.cut_after)
            self.wfile.write(content[start:end])
            self.wfile.flush()
            if end is not None and state.stalls:
                state.over.wait()

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads, http.block_on_close = True, False
        thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        state.url = f"http://127.0.0.1:{http.server_address[1]}"
        yield state
        state.over.set()
        http.shutdown()
        thread.join()


@pytest.fixture
def published(server: Server, tmp_path: Path) -> str:
    return publish(server, tmp_path)


def publish(server: Server, tmp_path: Path, sizes: Sizes = TINY) -> str:
    """Puts a weather on the server; returns the hash of its card."""
    save_weather(tmp_path / "published" / "toy", toy_card(sizes), toy_weights(sizes))
    for file in (tmp_path / "published").iterdir():
        server.files[f"/w/{file.name}"] = file.read_bytes()
    return sha256(server.files["/w/toy.toml"]).hexdigest()


def kept(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()} if folder.exists() else {}


def files_of(server: Server) -> dict[str, bytes]:
    return {name.removeprefix("/w/"): content for name, content in server.files.items()}


def test_both_files_are_kept_as_published_and_not_fetched_twice(server: Server, published: str, tmp_path: Path) -> None:
    fetched = fetch_weather(f"{server.url}/w/toy.toml", published.upper(), tmp_path / "out")
    assert (fetched.path, fetched.sha256, fetched.downloaded) == (tmp_path / "out" / "toy", published, True)
    assert kept(tmp_path / "out") == files_of(server)
    assert load_weather(fetched.path)[0] == fetched.card
    assert [path for path, _ in server.asked] == ["/w/toy.toml", "/w/toy.safetensors"]
    assert not fetch_weather(f"{server.url}/w/toy.toml", published, tmp_path / "out").downloaded
    assert len(server.asked) == 2


def test_a_folder_is_fetched_from_as_a_server_is(published: str, tmp_path: Path) -> None:
    address = (tmp_path / "published" / "toy.toml").as_uri()
    assert fetch_weather(address, f"sha256:{published}", tmp_path / "out").downloaded
    assert kept(tmp_path / "out") == kept(tmp_path / "published")
    with pytest.raises(SkidpadError, match=r"cannot fetch file:///.*none.toml: No such file or directory; check the address"):
        fetch_weather(address.replace("toy.toml", "none.toml"), published, tmp_path / "out")
    os.mkfifo(tmp_path / "published" / "pipe.toml")
    with pytest.raises(SkidpadError, match=r"pipe.toml: it is a named pipe, not a file"):
        fetch_weather(address.replace("toy.toml", "pipe.toml"), published, tmp_path / "out")


def test_damaged_weights_are_fetched_again_and_another_weather_is_not_replaced(server: Server, published: str, tmp_path: Path) -> None:
    url = f"{server.url}/w/toy.toml"
    out = fetch_weather(url, published, tmp_path / "out").path
    (tmp_path / "out" / "toy.safetensors").write_bytes(b"half")
    assert fetch_weather(url, published, tmp_path / "out").downloaded
    assert kept(tmp_path / "out") == files_of(server)
    assert [path for path, _ in server.asked[2:]] == ["/w/toy.safetensors"]
    save_weather(out, replace(toy_card(), seed=1), toy_weights(seed=1))
    before = kept(tmp_path / "out")
    with pytest.raises(SkidpadError, match=r"out/toy.toml is another weather \(its SHA-256 is .*choose another --out, or remove it"):
        fetch_weather(url, published, tmp_path / "out")
    assert kept(tmp_path / "out") == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda server: server.files.update({"/w/toy.toml": b"x"}), r"toy.toml is not the file that was asked for \(1 bytes came\)"),
        (lambda server: server.files.update({"/w/toy.toml": PAGE}), "toy.toml is a web page that begins with '<!DOCTYPE html>'"),
        (lambda server: server.files.update({"/w/toy.safetensors": PAGE}), "toy.safetensors is a web page .* Its SHA-256 is"),
        (
            lambda server: server.files.update({"/w/toy.toml": b"version https://git-lfs.github.com/spec/v1\n"}),
            "toy.toml is a git-lfs pointer, and was not kept",
        ),
        (lambda server: server.files.update({"/w/toy.safetensors": b"short"}), r"toy.safetensors is not the file .*\(5 bytes came\)"),
        (lambda server: server.files.pop("/w/toy.safetensors"), "cannot fetch .*toy.safetensors: the server answers 404 Not Found; check"),
        (lambda server: server.redirects.update({"/w/toy.toml": "file:///etc/passwd"}), "redirects to file:///etc/passwd, and only http"),
        (lambda server: server.redirects.update({"/w/toy.safetensors": "ftp://example.org/x"}), "redirects to ftp://example.org/x"),
        (
            lambda server: server.files.update({"/w/toy.toml": b"x" * (MAX_CARD_BYTES + 1)}),
            f"toy.toml is too large: the server announces 262,145 bytes, and {MAX_CARD_BYTES:,} are read at most",
        ),
        (
            lambda server: server.sizes.update({"/w/toy.safetensors": 1 << 50}),
            f"too large: the server announces 1,125,899,906,842,624 bytes, and {most_weight_bytes(toy_card()):,} are read at most",
        ),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_kept(
    change: Callable[[Server], object], words: str, server: Server, published: str, tmp_path: Path
) -> None:
    change(server)
    with pytest.raises(SkidpadError, match=words):
        fetch_weather(f"{server.url}/w/toy.toml", published, tmp_path / "out")
    assert kept(tmp_path / "out") == {}


def test_a_redirect_within_the_web_is_followed(server: Server, published: str, tmp_path: Path) -> None:
    server.redirects = {f"/latest{suffix}": f"/w/toy{suffix}" for suffix in (".toml", ".safetensors")}
    assert fetch_weather(f"{server.url}/latest.toml", published, tmp_path / "out").path.name == "latest"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://example.org/toy.toml", "only http://, https:// and file:// addresses are fetched from; got 'ftp:"),
        ("weathers/toy.toml", "only http://, https:// and file:// addresses"),
        ("http:///toy.toml", "names no file; use one such as"),
        ("http://localhost:none/toy.toml", "invalid address"),
        ("file://elsewhere/toy.toml", "names no file"),
        ("http://localhost/toy.safetensors", "fetch the card of a weather, a file whose name ends in .toml"),
        ("http://localhost/a%2F..%2Fb%20c.toml", "is not made of letters"),
        ("http://localhost/.toml", "is not made of letters"),
    ],
)
def test_addresses_that_are_none_are_refused(url: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(SkidpadError, match=re.escape(words)):
        fetch_weather(url, "0" * 64, tmp_path)
    with pytest.raises(SkidpadError, match="--sha256 is the 64 digits"):
        fetch_weather("http://localhost/toy.toml", "123", tmp_path)


def test_a_server_that_is_not_there_is_named(server: Server, tmp_path: Path) -> None:
    with create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(SkidpadError, match=r"cannot fetch http://.*toy.toml: the server refuses connections \(tries: 2\)"):
        fetch_weather(f"http://127.0.0.1:{port}/toy.toml", "0" * 64, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_weights_of_other_shapes_are_refused_though_their_hash_is_right(server: Server, tmp_path: Path) -> None:
    sizes = Sizes(filters=4, blocks=2, style=3, hidden=9, scales=1)
    save_weather(tmp_path / "toy", toy_card(), toy_weights(sizes))
    for suffix in (".toml", ".safetensors"):
        server.files[f"/w/toy{suffix}"] = (tmp_path / f"toy{suffix}").read_bytes()
    with pytest.raises(SkidpadError, match=r"are not those of a munit with .* should be"):
        fetch_weather(f"{server.url}/w/toy.toml", sha256(server.files["/w/toy.toml"]).hexdigest(), tmp_path / "out")
    assert kept(tmp_path / "out") == {}


@pytest.mark.parametrize("ranges", [True, False])
def test_what_came_from_a_server_that_fell_silent_is_continued_or_begun_again(
    ranges: bool, server: Server, published: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = server.files["/w/toy.safetensors"]
    server.cut_after, server.ranges, server.stalls = len(whole) // 2, ranges, True
    monkeypatch.setattr(http_files, "PATIENCE", Patience(silence_s=0.3))
    with pytest.raises(SkidpadError, match=r"toy.safetensors: the server is silent: nothing came within 0.3 s \(tries: 2\)"):
        fetch_weather(f"{server.url}/w/toy.toml", published, tmp_path / "out")
    (part,) = (tmp_path / "out").iterdir()
    assert part.read_bytes() == whole[: server.cut_after]
    server.asked.clear()
    server.cut_after = None
    fetch_weather(f"{server.url}/w/toy.toml", published, tmp_path / "out")
    assert server.asked[-1] == ("/w/toy.safetensors", f"bytes={len(whole) // 2}-")
    assert kept(tmp_path / "out") == files_of(server)


def test_a_truncated_answer_is_not_kept(server: Server, published: str, tmp_path: Path) -> None:
    server.cut_after = 1000
    with pytest.raises(SkidpadError, match=r"toy.safetensors: the connection broke off: .*\(tries: 2\); check the server"):
        fetch_weather(f"{server.url}/w/toy.toml", published, tmp_path / "out")
    # the client may lose the first bytes with the connection; then there is nothing to continue
    assert all(path.suffix == ".part" and path.stat().st_size for path in (tmp_path / "out").iterdir())
    server.cut_after = None
    fetch_weather(f"{server.url}/w/toy.toml", published, tmp_path / "out")
    assert kept(tmp_path / "out") == files_of(server)


@pytest.mark.parametrize("left", [b"of another file", b"longer" * 100_000])
def test_what_was_left_by_something_else_does_no_harm(left: bytes, server: Server, published: str, tmp_path: Path) -> None:
    whole = server.files["/w/toy.safetensors"]
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / f".toy.safetensors.{sha256(whole).hexdigest()[:16]}.part").write_bytes(left)
    fetch_weather(f"{server.url}/w/toy.toml", published, tmp_path / "out")
    assert kept(tmp_path / "out") == files_of(server)


def test_a_file_that_is_as_long_as_the_servers_but_another_is_begun_again(server: Server, published: str, tmp_path: Path) -> None:
    whole = server.files["/w/toy.safetensors"]
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / f".toy.safetensors.{sha256(whole).hexdigest()[:16]}.part").write_bytes(bytes(len(whole)))
    fetch_weather(f"{server.url}/w/toy.toml", published, tmp_path / "out")
    assert kept(tmp_path / "out") == files_of(server)


def test_killed_in_the_middle_it_goes_on_from_there(server: Server, tmp_path: Path) -> None:
    published = publish(server, tmp_path, replace(TINY, filters=32))  # larger than what waits in memory to be written
    whole = server.files["/w/toy.safetensors"]
    server.cut_after, server.stalls = len(whole) // 2, True
    words = ("weather", "fetch", f"{server.url}/w/toy.toml", "--sha256", published, "--out", str(tmp_path / "out"))
    process = subprocess.Popen([sys.executable, "-m", "skidpad", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    seen = Event()
    while process.poll() is None and not any(file.stat().st_size for file in (tmp_path / "out").glob(".*.part")):
        seen.wait(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert [path.suffix for path in (tmp_path / "out").iterdir()] == [".part"]
    server.cut_after = None
    done = subprocess.run([sys.executable, "-m", "skidpad", *words], capture_output=True, text=True, check=True)
    assert "SHA-256 as it should be" in done.stdout
    assert server.asked[-1][1].startswith("bytes=")
    assert kept(tmp_path / "out") == files_of(server)


def test_a_place_that_cannot_hold_it_is_a_sentence_and_lonely_weights_stay(tmp_path: Path) -> None:
    card = weather_path("night").with_suffix(".toml")
    url, wanted = card.as_uri(), sha256(card.read_bytes()).hexdigest()
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(SkidpadError, match=r"cannot make the folder .*file .*choose another --out"):
        fetch_weather(url, wanted, tmp_path / "file")
    others = tmp_path / "others"
    others.mkdir()
    (others / "night.safetensors").write_bytes(b"somebody's own")
    with pytest.raises(SkidpadError, match="belongs to another weather, whose card is missing"):
        fetch_weather(url, wanted, others)
    assert (others / "night.safetensors").read_bytes() == b"somebody's own"
