"""Files on web servers: asked with timeouts of seconds, bounded in time and size, with other words for each way in which a server fails.

The file system of fsspec waits five minutes for a silent server and then says, as for an error 500, that there is no such file;
it sets no bound to what a server sends. Its connections are used here, its requests are not.
"""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import SEEK_END, BytesIO
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import urldefrag, urljoin

from skidpad.core.errors import SkidpadError, optional
from skidpad.core.images import MAX_PICTURE_BYTES

if TYPE_CHECKING:
    from aiohttp import ClientResponse

MAX_PAGE_BYTES = 32 << 20
"""Of a page that lists a folder: a hundred thousand links are a tenth of it."""

MAX_UNANNOUNCED_BYTES = 1 << 30
"""Of a file whose size the server does not tell beforehand."""

MAX_FOLDERS = 1000
"""Of one drive; a site whose pages link to ever deeper ones has no end."""

_LINK = re.compile(r"""href\s*=\s*["']?([^"'\s>]+)""", re.IGNORECASE)
_TOLD = ("ETag", "Last-Modified")


class TooLargeError(SkidpadError):
    """A server sends more than a file of its kind can have."""


class TooSlowError(SkidpadError):
    """A server sends a file so slowly that it would take hours."""


class RedirectError(SkidpadError):
    """A server sends its readers to an address that is not on the web, such as a file of this machine."""


class _RangeError(ConnectionError):
    """A server has nothing from this byte on."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a server may take.

    connect_s: to accept a connection. silence_s: without sending a byte. grace_s: for a file, however slow; after that it must have
    come with `slowest_bytes_per_s` on average.
    """

    connect_s: float = 5.0
    silence_s: float = 10.0
    grace_s: float = 60.0
    slowest_bytes_per_s: float = 64 << 10


PATIENCE = Patience()


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a server said of a file. url: after redirections. size: in bytes, None where it does not tell."""

    url: str
    size: int | None
    headers: Mapping[str, str]

    @property
    def mimetype(self) -> str:
        """The kind of content, without its parameters."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip()


@dataclass(frozen=True, slots=True)
class HttpFiles:
    """The part of a file system that reading needs, named as fsspec names it; raises the exceptions of a local one."""

    def info(self, url: str) -> dict[str, Any]:
        """Asks for size and tags without fetching the file."""
        try:
            answer = _asked("HEAD", url)
        except NotImplementedError:
            answer = _asked("GET", url)  # the answer is closed before its body comes
        tags = {name: answer.headers[name] for name in _TOLD if name in answer.headers}
        return {"type": "file", "size": answer.size, "mimetype": answer.mimetype, **tags}

    def find(self, root: str, *, detail: bool = True) -> dict[str, dict[str, Any]]:  # noqa: ARG002 - fsspec's signature
        """Returns the files that the pages of a folder link to, those of its folders among them; their sizes are not known yet."""
        found: dict[str, dict[str, Any]] = {}
        waiting, seen = [""], {""}
        while waiting:
            inner = waiting.pop()
            page = BytesIO()
            answer = _asked("GET", f"{root}/{inner}", page, MAX_PAGE_BYTES)
            for link in _LINK.findall(page.getvalue().decode("utf-8", "replace")):
                target = urldefrag(urljoin(answer.url, html.unescape(link))).url.partition("?")[0]
                name = inner + target.removeprefix(answer.url)
                if target == answer.url or not target.startswith(answer.url) or name in seen:
                    continue
                if not name.endswith("/"):
                    found[f"{root}/{name}"] = {"type": "file"}
                    continue
                seen.add(name)
                waiting.append(name)
                if len(seen) > MAX_FOLDERS:
                    raise TooLargeError(f"{root} has more than {MAX_FOLDERS:,} folders; name the one that holds the drive")
        return found

    def cat_file(self, url: str, max_bytes: int = MAX_PICTURE_BYTES) -> bytes:
        """Returns the content of a file, by default one that may be as large as a picture."""
        sink = BytesIO()
        _asked("GET", url, sink, max_bytes)
        return sink.getvalue()

    def complete_file(self, url: str, file: BinaryIO, max_bytes: int) -> None:
        """Adds the bytes that `file` lacks, at most `max_bytes` in all; begins anew if the server cannot continue in the middle."""
        start = file.seek(0, SEEK_END)
        try:
            _asked("GET", url, file, max_bytes, start)
        except _RangeError:
            file.truncate(0)
            file.seek(0)
            _asked("GET", url, file, max_bytes)

    def get_file(self, url: str, target: str) -> None:
        """Copies a file to this machine, of any size that the server announces."""
        with Path(target).open("wb") as file:
            _asked("GET", url, file, None)

    def invalidate_cache(self) -> None:
        """Nothing is kept."""

    def makedirs(self, path: str, *, exist_ok: bool = False) -> None:
        """Folders of a web server come with their files."""

    def pipe_file(self, path: str, data: bytes, mode: str = "overwrite") -> None:
        """Nothing can be written."""
        raise NotImplementedError("web servers are only read from; write to a folder or to s3://")


def _asked(method: str, url: str, sink: BinaryIO | None = None, max_bytes: int | None = 0, start: int = 0) -> _Answer:
    """Sends one request.

    sink: where the body goes; None: nowhere. max_bytes: of the file; None: what the server announces. start: the bytes of it that the
    sink already has; it is emptied if the server sends the file from its beginning.
    """
    system = optional("fsspec.implementations.http", "aiohttp", "remote", "reading http://").HTTPFileSystem()
    answer: _Answer = optional("fsspec.asyn", "aiohttp", "remote", "reading http://").sync(
        system.loop, _exchange, system, method, url, sink, max_bytes, start
    )
    return answer


async def _exchange(system: Any, method: str, url: str, sink: BinaryIO | None, max_bytes: int | None, start: int) -> _Answer:
    from aiohttp import ClientTimeout  # noqa: PLC0415 - comes with the extra

    patience = PATIENCE
    limits = ClientTimeout(total=None, sock_connect=patience.connect_s, sock_read=patience.silence_s)
    session = await system.set_session()
    options = {**system.kwargs, "timeout": limits, "allow_redirects": True}
    if start:
        options["headers"] = {**options.get("headers", {}), "Range": f"bytes={start}-", "Accept-Encoding": "identity"}
    with _in_plain_words(patience, url):
        request = session.request(method, system.encode_url(url), **options)
        # a header that drips byte by byte is never silent
        response = await asyncio.wait_for(request, patience.connect_s + patience.silence_s)
        async with response:
            _check_status(response)
            # a body that is packed on its way is longer than announced once it is unpacked
            size = None if "Content-Encoding" in response.headers else response.content_length
            answer = _Answer(str(response.url), size, dict(response.headers))
            if sink is not None:
                if start and not _continues(response, start):
                    start = 0
                    sink.truncate(0)
                    sink.seek(0)
                await _receive(response, url, sink, max_bytes or size or MAX_UNANNOUNCED_BYTES, patience, start)
            else:
                response.close()
            return answer


def _continues(response: ClientResponse, start: int) -> bool:
    """Tells whether a server sends the rest of a file and not all of it."""
    from_there = response.headers.get("Content-Range", "").startswith(f"bytes {start}-")
    return response.status == 206 and from_there and "Content-Encoding" not in response.headers


async def _receive(response: ClientResponse, url: str, sink: BinaryIO, max_bytes: int, patience: Patience, start: int = 0) -> None:
    begun, got = monotonic(), 0
    announced = start + (response.content_length or 0)
    if announced > max_bytes:
        raise TooLargeError(f"{url} is too large: the server announces {announced:,} bytes, and {max_bytes:,} are read at most")
    async for piece in response.content.iter_any():
        got += len(piece)
        taken_s = monotonic() - begun
        if start + got > max_bytes:
            raise TooLargeError(f"{url} is too large: more than {max_bytes:,} bytes came")
        if taken_s > patience.grace_s and got < taken_s * patience.slowest_bytes_per_s:
            raise TooSlowError(f"{url} comes too slowly: {got:,} bytes in {taken_s:.0f} s; copy the drive to this machine first")
        sink.write(piece)


def _check_status(response: ClientResponse) -> None:
    status, words = response.status, f"the server answers {response.status} {response.reason or ''}".rstrip()
    if status < 400:
        return
    if status in {404, 410}:
        raise FileNotFoundError(words)
    if status in {401, 403, 407}:
        raise PermissionError(words)
    if status == 416:
        raise _RangeError(words)
    if status in {405, 501}:
        raise NotImplementedError(words)
    raise ConnectionError(words)


@contextmanager
def _in_plain_words(patience: Patience, url: str) -> Iterator[None]:
    from aiohttp import (  # noqa: PLC0415 - comes with the extra
        ClientConnectorError,
        ClientError,
        ConnectionTimeoutError,
        RedirectClientError,
    )

    try:
        yield
    except RedirectClientError as error:
        raise RedirectError(
            f"{url} redirects to {error}, and only http:// and https:// are followed; use the file's own address"
        ) from error
    except ConnectionTimeoutError as error:
        raise ConnectionError(f"the server accepts no connection within {patience.connect_s:g} s") from error
    except TimeoutError as error:
        raise ConnectionError(f"the server is silent: nothing came within {patience.silence_s:g} s") from error
    except ClientConnectorError as error:
        refused = isinstance(error.os_error, ConnectionRefusedError)
        raise ConnectionError("the server refuses connections" if refused else f"no connection: {error.os_error}") from error
    except ClientError as error:
        raise ConnectionError(f"the connection broke off: {error or type(error).__name__}") from error
