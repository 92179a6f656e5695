"""Files on servers, by any URL that fsspec knows; tries again, and then says in clear words that a server is gone."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import disk_usage
from time import sleep
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from skidpad.core.errors import MissingExtraError, SkidpadError
from skidpad.drives.http_files import HttpFiles, TooLargeError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

T = TypeVar("T")

WAITS_S = (0.5, 2.0, 8.0)
"""How long to wait before each further try; a server that restarts is back within ten seconds."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://.+", re.ASCII)
_TAGS = ("ETag", "etag", "md5Hash", "content_md5", "LastModified", "Last-Modified", "last_modified", "updated", "mtime", "created")
"""What file systems call that which changes with a file's content, the surest first."""

_WITHOUT_FOLDERS = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss"})
"""Object stores: a folder there is a part of a name, and making one would make a bucket."""

_FINAL = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError, NotImplementedError)
"""Answers of a server that is there: trying again would not change them."""


class ServerGoneError(SkidpadError):
    """A server did not answer, however often it was asked."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file of a listing.

    path: relative to the listed URL. size: in bytes, None where the server does not tell. tag: changes with the content, as far as
    the server tells.
    """

    path: str
    size: int | None
    tag: str


def is_url(text: str) -> bool:
    """Tells a URL from a path."""
    return _URL.fullmatch(text) is not None


def cache_folder() -> Path:
    """Returns where copies of remote files are kept: SKIDPAD_CACHE, else the user's cache folder. It may be deleted at any time."""
    own = os.environ.get("SKIDPAD_CACHE")
    shared = os.environ.get("XDG_CACHE_HOME")
    return Path(own) if own else Path(shared or Path.home() / ".cache") / "skidpad"


@dataclass(frozen=True, slots=True)
class RemoteFiles:
    """The files under one URL; holds no connection, so that it can be sent to another process."""

    url: str

    def listing(self) -> tuple[RemoteFile, ...]:
        """Returns every file below the URL by name, or the file itself with an empty path; none where nothing is there."""

        def ask() -> tuple[RemoteFile, ...]:
            system, root = self._system()
            system.invalidate_cache()
            info: Mapping[str, Any] = system.info(root)
            if info.get("type") == "file" and not str(info.get("mimetype", "")).startswith("text/html"):
                return (_file(system, root, "", info),)
            root = root.rstrip("/")
            found: Mapping[str, Mapping[str, Any]] = system.find(root, detail=True)
            files = [
                _file(system, name, name.removeprefix(root).lstrip("/"), each)
                for name, each in found.items()
                if each.get("type") != "directory"
            ]
            return tuple(sorted(files, key=lambda file: file.path))

        return self._tried("list", ask)

    def read(self, path: str) -> bytes:
        """Returns the content of one file."""

        def ask() -> bytes:
            system, root = self._system()
            return bytes(system.cat_file(_joined(root, path)))

        return self._tried(f"read {path or 'the file'} of", ask)

    def download(self, file: RemoteFile, target: Path) -> None:
        """Copies one file to this machine, piece by piece; it appears when it is whole."""
        temporary = target.with_name(f".{target.name}.{uuid4().hex}.tmp")
        free = disk_usage(target.parent).free
        if (file.size or 0) > free:
            what = f"{file.path or 'the file'} of {self.url}"
            raise TooLargeError(f"{what} is too large: the server announces {file.size:,} bytes, and {free:,} are free in {target.parent}")

        def ask() -> None:
            system, root = self._system()
            system.get_file(_joined(root, file.path), str(temporary))
            got = temporary.stat().st_size
            if file.size is not None and got != file.size:
                raise ConnectionError(f"{got} of {file.size} bytes came")

        try:
            self._tried(f"read {file.path or 'the file'} of", ask)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)

    def write(self, path: str, data: bytes, *, new: bool = False) -> None:
        """Puts a file in its place at once, as object stores do; `new`: FileExistsError where there is one."""

        def ask() -> None:
            system, root = self._system()
            target = _joined(root, path)
            if self.url.partition("://")[0] not in _WITHOUT_FOLDERS:
                system.makedirs(target.rpartition("/")[0], exist_ok=True)
            try:
                system.pipe_file(target, data, mode="create" if new else "overwrite")
            except OSError as error:
                if new and "PreconditionFailed" in str(error):  # how S3 says that the object is there
                    raise FileExistsError(target) from error
                raise

        self._tried(f"write {path} to", ask)

    def _system(self) -> tuple[AbstractFileSystem | HttpFiles, str]:
        scheme = self.url.partition("://")[0]
        if scheme in {"http", "https"}:
            return HttpFiles(), self.url
        try:
            from fsspec.core import url_to_fs  # noqa: PLC0415 - comes with the extra
        except ImportError as error:
            raise MissingExtraError.of("fsspec", "remote", f"reading {scheme}://") from error
        try:
            system, root = url_to_fs(self.url, **_storage_options(scheme))
        except ImportError as error:
            if scheme in {"s3", "s3a"}:
                raise MissingExtraError.of("s3fs", "remote", f"reading {scheme}://") from error
            raise SkidpadError(f"{scheme}:// needs a package of its own: {error}") from error
        except ValueError as error:
            raise SkidpadError(f"cannot open {self.url!r}: {error}; URLs are those of fsspec, as s3://bucket/folder") from error
        return system, str(root)

    def _tried(self, what: str, ask: Callable[[], T]) -> T:
        for wait_s in (*WAITS_S, None):
            try:
                return ask()
            except (*_FINAL, SkidpadError):
                raise
            except Exception as error:
                # Every file system has exceptions of its own for a server that does not answer.
                if wait_s is None:
                    raise ServerGoneError(
                        f"cannot {what} {self.url}: {_words(error)} (tries: {len(WAITS_S) + 1}); check the server and your credentials"
                    ) from error
                sleep(wait_s)
        raise AssertionError("the last try returns or raises")


def _storage_options(scheme: str) -> dict[str, Any]:
    """Has S3's client ask once where the user's settings say nothing else: it would ask up to five times at each of our tries."""
    if scheme not in {"s3", "s3a"} or "AWS_MAX_ATTEMPTS" in os.environ:
        return {}
    from fsspec.config import conf  # noqa: PLC0415 - comes with the extra

    own = [conf.get(name, {}).get("config_kwargs", {}) for name in ("s3", "s3a")]
    return {"config_kwargs": {"retries": {"total_max_attempts": 1}, **own[0], **own[1]}}


def _file(system: AbstractFileSystem | HttpFiles, name: str, path: str, info: Mapping[str, Any]) -> RemoteFile:
    size = info.get("size")
    if size is None:
        info = system.info(name)
        size = info.get("size")
    tag = next((str(info[key]) for key in _TAGS if info.get(key)), "")
    return RemoteFile(path, None if size is None else int(size), tag)


def _joined(root: str, path: str) -> str:
    return f"{root.rstrip('/')}/{path}" if path else root


def _words(error: BaseException) -> str:
    return str(error).strip() or type(error).__name__
