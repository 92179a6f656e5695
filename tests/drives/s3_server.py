"""A small S3 server in the test's own process: one that lists, gives, takes, and can be made to vanish."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


class S3Server(ThreadingHTTPServer):
    """Objects by `bucket/key`; `failing` answers that many requests with 503 before it is well again; `got` lists the keys read."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.failing = 0
        self.got: list[str] = []
        self.put: list[str] = []
        self.lock = Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: S3Server

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_HEAD(self) -> None:
        self._answer(self._get)

    def do_PUT(self) -> None:
        self._answer(self._put)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        pass

    def _answer(self, what) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.server.lock:
            if self.server.failing > 0:
                self.server.failing -= 1
                self._send(503, b"<Error><Code>ServiceUnavailable</Code></Error>")
            else:
                what(body)

    def _get(self, _: bytes) -> None:
        address = urlsplit(self.path)
        key = unquote(address.path).strip("/")
        if "list-type=2" in address.query:
            self._list(key, parse_qs(address.query, keep_blank_values=True))
        elif key in self.server.objects:
            self._object(key)
        else:
            self._send(404, b"<Error><Code>NoSuchKey</Code></Error>")

    def _object(self, key: str) -> None:
        data = self.server.objects[key]
        wanted = self.headers.get("Range", "")
        part = data
        if wanted:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            part = data[int(first) : int(last) + 1 if last else None]
        if self.command == "GET":
            self.server.got.append(key)
        headers = {"ETag": f'"{md5(data).hexdigest()}"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT", "Accept-Ranges": "bytes"}
        if wanted:
            headers["Content-Range"] = f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}"
        self._send(206 if wanted else 200, part, headers)

    def _list(self, bucket: str, query: dict[str, list[str]]) -> None:
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        rows, folders = [], set()
        for name, data in sorted(self.server.objects.items()):
            key = name.removeprefix(f"{bucket}/")
            if key == name or not key.startswith(prefix):
                continue
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
                continue
            rows.append(
                f"<Contents><Key>{escape(key)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
                f'<ETag>"{md5(data).hexdigest()}"</ETag><Size>{len(data)}</Size><StorageClass>STANDARD</StorageClass></Contents>'
            )
        rows += [f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>" for folder in sorted(folders)]
        text = f'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>{bucket}</Name><KeyCount>{len(rows)}</KeyCount>'
        self._send(200, f"{text}<IsTruncated>false</IsTruncated>{''.join(rows)}</ListBucketResult>".encode())

    def _put(self, body: bytes) -> None:
        key = unquote(urlsplit(self.path).path).strip("/")
        if "/" not in key:
            self._send(200, b"")
            return
        if self.headers.get("If-None-Match") == "*" and key in self.server.objects:
            self._send(412, b"<Error><Code>PreconditionFailed</Code></Error>")
            return
        if "aws-chunked" in self.headers.get("Content-Encoding", ""):
            body = _unchunked(body)
        self.server.objects[key] = body
        self.server.put.append(key)
        self._send(200, b"", {"ETag": f'"{md5(body).hexdigest()}"'})

    def _send(self, code: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in {"Content-Length": str(len(body)), "Content-Type": "application/xml", **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _unchunked(body: bytes) -> bytes:
    data = b""
    while body:
        line, _, body = body.partition(b"\r\n")
        size = int(line.partition(b";")[0], 16)
        if size == 0:
            break
        data, body = data + body[:size], body[size + 2 :]
    return data


@contextmanager
def s3_server() -> Iterator[S3Server]:
    server = S3Server()
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
