import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest
from box_toys import described, grey, means, write_toml

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.boxes import subject as endpoint
from skidpad.subjects.boxes.protocol import Failures
from skidpad.subjects.boxes.subject import BoxSubject
from skidpad.subjects.description import Box
from skidpad.subjects.loading import load_subject

Answer = Callable[[BaseHTTPRequestHandler], None]


class Server:
    """Answers every POST by `answer`, which a test may change; `release` ends whoever waits."""

    def __init__(self) -> None:
        self.answer: Answer = good
        self.release = Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """A client that has gone is what these tests are about."""

        self.server = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/steer?net=1"
        self.thread = Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self) -> None:
        self.release.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def asked(request: BaseHTTPRequestHandler) -> np.ndarray:
    line, _, data = request.rfile.read(int(request.headers["Content-Length"])).partition(b"\n")
    header = json.loads(line)
    return np.frombuffer(data, header["dtype"]).reshape(header["shape"])


def send(request: BaseHTTPRequestHandler, body: bytes, status: int = 200) -> None:
    request.send_response(status)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def good(request: BaseHTTPRequestHandler) -> None:
    send(request, json.dumps({"answers": asked(request).mean((1, 2, 3)).tolist()}).encode())


def of_url(url: str, *, timeout_s: float = 60.0, restarts: int = 0) -> BoxSubject:
    return BoxSubject(described(Box(url=url, timeout_s=timeout_s, restarts=restarts)), Path())


def test_an_address_answers_as_a_network_does(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    subject = load_subject(write_toml(tmp_path, Box(url=server.url)))
    frames = np.random.default_rng(3).integers(0, 256, (5, 66, 200, 3), dtype=np.uint8)
    np.testing.assert_allclose(subject.predict(frames), means(frames), atol=1e-5)
    assert subject.observe(frames).values.shape == (5, 0)
    assert subject.sha256 != of_url(server.url.replace("net=1", "net=2")).sha256


def refusing(request: BaseHTTPRequestHandler) -> None:
    send(request, b"no such\nnetwork", 404)


def failing(request: BaseHTTPRequestHandler) -> None:
    asked(request)
    send(request, b"", 500)


def moved(request: BaseHTTPRequestHandler) -> None:
    asked(request)
    request.send_response(302)
    request.send_header("Location", "http://127.0.0.1:1/")
    request.end_headers()


def talkative(request: BaseHTTPRequestHandler) -> None:
    asked(request)
    send(request, b"[" + b"0," * 10**6)


def hanging_up(request: BaseHTTPRequestHandler) -> None:
    asked(request)
    request.connection.close()


def short(request: BaseHTTPRequestHandler) -> None:
    asked(request)
    request.send_response(200)
    request.send_header("Content-Length", "1000")
    request.end_headers()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (refusing, "answered with status 404 Not Found: no such network|broke off the connection"),
        (failing, "answered with status 500 Internal Server Error: nothing more"),
        (moved, "answered with status 302"),
        (talkative, "answered more than the 4224 bytes"),
        (hanging_up, "broke off the connection"),
        (short, "broke off its answer 1000 bytes before the end"),
        (lambda request: send(request, b"<html>" + asked(request).tobytes()[:9]), "answered what is not JSON: <html>"),
        (lambda request: send(request, b'{"answers": [%d]}' % len(asked(request))), "must answer 2 rows for 2 pictures; got 1 rows"),
    ],
)
def test_a_bad_answer_is_told_in_clear_words(answer: Answer, message: str, server: Server) -> None:
    server.answer = answer
    with pytest.raises(BadSubjectError, match=message) as caught:
        of_url(server.url)
    assert "\n" not in str(caught.value)
    assert "start the server, correct url" in str(caught.value)


@pytest.mark.parametrize("kind", ["silent", "dripping", "deaf"])
def test_a_slow_server_is_not_waited_for(kind: str, server: Server) -> None:
    def slow(request: BaseHTTPRequestHandler) -> None:
        if kind != "deaf":
            asked(request)
        while kind == "dripping" and not server.release.wait(0.02):
            request.wfile.write(b"H")
        server.release.wait()

    server.answer = slow
    with pytest.raises(BadSubjectError, match=r"had not answered after 0.3 s"):
        of_url(server.url, timeout_s=0.3)


def test_a_server_that_comes_back_is_waited_for_a_little(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = of_url(server.url, restarts=3)
    pauses: list[float] = []
    monkeypatch.setattr(endpoint.time, "sleep", lambda pause_s: (pauses.append(pause_s), setattr(subject._box._channel, "_port", port))[0])
    channel = subject._box._channel
    port, channel._port = channel._port, 1
    np.testing.assert_allclose(subject.predict(grey(3, 200)), means(grey(3, 200)), atol=1e-5)
    assert pauses == [0.1]
    assert subject.failures.pictures == 0
    assert "cannot be reached" in subject.failures.last


def test_a_server_that_is_not_there_is_told_with_growing_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(endpoint.time, "sleep", pauses.append)
    with pytest.raises(BadSubjectError, match=r"http://127.0.0.1:1/ was asked 4 times in a row.*cannot be reached \(.*refused\)"):
        of_url("http://127.0.0.1:1/", restarts=3)
    np.testing.assert_allclose(pauses, [0.1, 0.4, 1.6])


@pytest.mark.parametrize("url", ["ftp://host/", "steer", "http://", "http://host:port/", "http://[::1/", "http://me:secret@host/"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(BadSubjectError, match=r"http://127\.0\.0\.1:8000/steer"):
        of_url(url)


def test_failures_of_a_server_are_counted(server: Server) -> None:
    subject = of_url(server.url, restarts=1)
    server.answer = lambda request: good(request) if request.headers["Content-Length"] != longest else send(request, b"", 503)
    longest = str(len(endpoint.question(3, np.zeros((3, 66, 200, 3), np.float32), ("steering",))[0]) + 3 * 66 * 200 * 3 * 4)
    np.testing.assert_allclose(subject.predict(grey(1, 2, 3)), means(grey(1, 2, 3)), atol=1e-5)
    assert subject.failures == Failures(0, 1, "answered with status 503 Service Unavailable: nothing more")
