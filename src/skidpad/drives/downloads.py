"""Files that are fetched to be kept: from the web or a folder, within bounds, continued after an interruption, checked by their hash."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from hashlib import sha256
from io import SEEK_END
from pathlib import Path
from shutil import copyfileobj
from typing import BinaryIO, TypeVar
from urllib.parse import SplitResult, urlsplit
from urllib.request import url2pathname

from skidpad.core.errors import SkidpadError
from skidpad.core.files import is_lfs_pointer, open_plain, open_regular, sync_folder
from skidpad.drives.http_files import HttpFiles, TooLargeError
from skidpad.drives.remote import tried

T = TypeVar("T")

SCHEMES = ("http", "https", "file")
PART_SUFFIX = ".part"
_PIECE_BYTES = 1 << 20


def split_address(url: str) -> SplitResult:
    """Takes an address apart; only those of SCHEMES are fetched from."""
    form = "use one such as https://example.org/weathers/night.toml or file:///share/weathers/night.toml"
    try:
        parts = urlsplit(url)
        complete = bool(parts.path) and (parts.netloc in {"", "localhost"} if parts.scheme == "file" else bool(parts.hostname))
        _ = parts.port  # raises where it is no number
    except ValueError as error:
        raise SkidpadError(f"invalid address {url!r} ({error}); {form}") from error
    if parts.scheme not in SCHEMES:
        raise SkidpadError(f"only http://, https:// and file:// addresses are fetched from; got {url!r}; {form}")
    if not complete:
        raise SkidpadError(f"the address {url!r} names no file; {form}")
    return parts


def fetch_bytes(url: str, max_bytes: int) -> bytes:
    """Returns the content of a small file; tries again where a server does not answer."""
    parts = split_address(url)
    if parts.scheme == "file":
        with _local(parts, max_bytes) as file:
            return file.read(max_bytes)
    return _in_plain_words(url, lambda: HttpFiles().cat_file(url, max_bytes))


def fetch_file(url: str, target: Path, max_bytes: int, wanted_sha256: str, check: Callable[[Path], None] | None = None) -> None:
    """Fetches a large file piece by piece; it appears at `target` when it is whole, has the hash and passes `check`.

    What came before an interruption waits beside the target in a file named after the hash, and the next call continues it.
    """
    part = target.with_name(f".{target.name}.{wanted_sha256[:16]}{PART_SUFFIX}")
    with os.fdopen(open_plain(part, os.O_RDWR | os.O_CREAT), "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SkidpadError(f"another skidpad fetches {target} at this moment; wait until it ends") from error
        try:
            found = _completed_or_anew(url, file, max_bytes, wanted_sha256)
        except BaseException:
            if not file.seek(0, SEEK_END):  # nothing to continue
                part.unlink(missing_ok=True)
            raise
        size = file.seek(0, SEEK_END)
        file.seek(0)
        start = file.read(64)
        os.fsync(file.fileno())
        try:
            check_content(url, start, size, wanted_sha256, found)
            if check is not None:
                check(part)
        except SkidpadError:
            part.unlink(missing_ok=True)
            raise
        part.replace(target)
    sync_folder(target.parent)


def _completed_or_anew(url: str, file: BinaryIO, max_bytes: int, wanted_sha256: str) -> str:
    """Adds what the file lacks and returns its hash; begins again where that is wrong, as what was there may have been another file's."""
    begun = file.seek(0, SEEK_END)
    found = _completed(url, file, max_bytes, wanted_sha256)
    if begun and found != wanted_sha256:
        file.truncate(0)
        found = _completed(url, file, max_bytes, wanted_sha256)
    return found


def check_content(url: str, start: bytes, size: int, wanted_sha256: str, found_sha256: str) -> None:
    """Refuses a web page, a git-lfs pointer, and what has another hash than it should have; start: the first bytes of so many."""
    hashes = "" if found_sha256 == wanted_sha256 else f" Its SHA-256 is {found_sha256}, and should be {wanted_sha256}."
    advice = "check the address and the hash with whoever published it"
    if _is_page(start):
        shown = start.decode("utf-8", "replace").strip().partition("\n")[0]
        what, advice = f"is a web page that begins with {shown!r}", "use the address behind its download link"
    elif is_lfs_pointer(start):
        what, advice = "is a git-lfs pointer", "use the address of the file itself"
    elif hashes:
        what = f"is not the file that was asked for ({size:,} bytes came)"
    else:
        return
    raise SkidpadError(f"{url} {what}, and was not kept.{hashes} Please {advice}")


def _is_page(start: bytes) -> bool:
    return start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")


def _completed(url: str, file: BinaryIO, max_bytes: int, wanted_sha256: str) -> str:
    """Adds what the file lacks and returns its hash; a file that is whole already is not asked for."""
    if file.seek(0, SEEK_END) > max_bytes:
        file.truncate(0)
    if file.seek(0, SEEK_END):
        found = _digest(file)
        if found == wanted_sha256:
            return found
    parts = split_address(url)
    if parts.scheme == "file":
        file.truncate(0)
        file.seek(0)
        with _local(parts, max_bytes) as source:
            _in_plain_words(url, lambda: copyfileobj(source, file))
    else:
        _in_plain_words(url, lambda: HttpFiles().complete_file(url, file, max_bytes))
    return _digest(file)


def _digest(file: BinaryIO) -> str:
    file.flush()
    file.seek(0)
    digest = sha256()
    while piece := file.read(_PIECE_BYTES):
        digest.update(piece)
    return digest.hexdigest()


def _local(parts: SplitResult, max_bytes: int) -> BinaryIO:
    path = Path(url2pathname(parts.path))
    try:
        file = open_regular(path)
    except OSError as error:
        raise SkidpadError(f"cannot fetch {parts.geturl()}: {error.strerror or error}; check the address") from error
    size = os.fstat(file.fileno()).st_size
    if size > max_bytes:
        file.close()
        raise TooLargeError(f"{parts.geturl()} is too large: it has {size:,} bytes, and {max_bytes:,} are read at most")
    return file


def _in_plain_words(url: str, ask: Callable[[], T]) -> T:
    def ask_once() -> T:
        try:
            return ask()
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                raise SkidpadError(f"the disk is full ({error.strerror}); make room, and fetch {url} again") from error
            raise

    try:
        return tried(f"fetch {url}", ask_once)
    except (OSError, NotImplementedError) as error:
        raise SkidpadError(f"cannot fetch {url}: {error}; check the address") from error
