"""Files on servers, by any URL that fsspec knows; tries again, and then says in clear words that a server is gone."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path, PurePosixPath
from shutil import disk_usage
from time import sleep
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from skidpad.core.errors import BadDriveError, MissingExtraError, SkidpadError, optional
from skidpad.core.images import MAX_PICTURE_BYTES, NumpyFrames, decode, why_not_decoded
from skidpad.drives.drive import Drive, FrameSource, Problem, ProblemKind, SideBySide
from skidpad.drives.frames import TOO_MANY_BYTES, PictureSource, frame_id_of, is_picture
from skidpad.drives.http_files import HttpFiles, TooLargeError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


T = TypeVar("T")

WAITS_S = (0.5, 2.0, 8.0)
"""How long to wait before each further try; a server that restarts is back within ten seconds."""

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
        if "::" in self.url:
            # one file system within another reads, caches and fills in templates as the inner files say
            raise SkidpadError(f"{self.url!r} chains several addresses; give one, as s3://bucket/folder")
        if scheme in {"http", "https"}:
            return HttpFiles(), self.url
        core = optional("fsspec.core", "fsspec", "remote", f"reading {scheme}://")
        try:
            system, root = core.url_to_fs(self.url, **_storage_options(scheme))
        except ImportError as error:
            if scheme in {"s3", "s3a"}:
                raise MissingExtraError.of("s3fs", "remote", f"reading {scheme}://") from error
            raise SkidpadError(f"{scheme}:// needs a package of its own: {error}") from error
        except ValueError as error:
            raise SkidpadError(f"cannot open {self.url!r}: {error}; URLs are those of fsspec, as s3://bucket/folder") from error
        return system, str(root)

    def _tried(self, what: str, ask: Callable[[], T]) -> T:
        return tried(f"{what} {self.url}", ask)


def tried(what: str, ask: Callable[[], T]) -> T:
    """Asks a server until it answers, at most `len(WAITS_S) + 1` times; what: ends the sentence "cannot ..."."""
    for wait_s in (*WAITS_S, None):
        try:
            return ask()
        except (*_FINAL, SkidpadError):
            raise
        except Exception as error:
            # Every file system has exceptions of its own for a server that does not answer.
            if wait_s is None:
                raise ServerGoneError(
                    f"cannot {what}: {_words(error)} (tries: {len(WAITS_S) + 1}); check the server and the address"
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


__all__ = ["DriveMirror", "RemotePictures", "mirror_of"]

_TABLES = frozenset({".csv", ".yaml", ".json", ".catalog"})


@dataclass(frozen=True, eq=False, slots=True)
class RemotePictures:
    """Frames that are picture files on a server; the same frames, problems and fingerprints as of a copy on disk.

    folder: the name of the folder they lie in. names: of the files. files: what the server said of each, in the same order.
    """

    remote: RemoteFiles
    folder: str
    names: Sequence[str]
    files: tuple[RemoteFile, ...]

    def read(self, index: int) -> NumpyFrames | Problem:
        """Fetches a picture once, keeps it in the cache and decodes it."""
        name = self.names[index]
        if (self.files[index].size or 0) > MAX_PICTURE_BYTES:
            return Problem(ProblemKind.CORRUPT, frame_id_of(name), f"{name}: {TOO_MANY_BYTES}")
        try:
            data = self._bytes(self.files[index])
        except FileNotFoundError:
            return Problem(ProblemKind.MISSING_FILE, frame_id_of(name), f"no file {name} in {self.folder}")
        except TooLargeError:
            return Problem(ProblemKind.CORRUPT, frame_id_of(name), f"{name}: {TOO_MANY_BYTES}")
        except (SkidpadError, OSError, NotImplementedError) as error:
            # Not a problem of the frame: a run that noted thousands of frames as broken would be worth nothing.
            what = error if isinstance(error, SkidpadError) else f"cannot read {self.files[index].path} of {self.remote.url}: {error}"
            raise BadDriveError(f"{what}; what a run has kept so far stays, and skidpad resume goes on with it") from error
        frame = decode(data)
        return Problem(ProblemKind.CORRUPT, frame_id_of(name), f"{name}: {why_not_decoded(data)}") if frame is None else frame

    def fingerprint(self, index: int) -> str:
        """Returns the size of the file."""
        return str(self.files[index].size)

    def _bytes(self, file: RemoteFile) -> bytes:
        key = _key(self.remote.url, file)
        kept = cache_folder() / "objects" / key[:2] / key
        try:
            data = kept.read_bytes()
        except OSError:
            data = None
        if data is not None and file.size in {None, len(data)}:
            return data
        data = self.remote.read(file.path)
        with suppress(OSError):  # a cache that is full costs time, nothing else
            kept.parent.mkdir(parents=True, exist_ok=True)
            temporary = kept.with_name(f".{kept.name}.{uuid4().hex}.tmp")
            try:
                temporary.write_bytes(data)
                temporary.replace(kept)
            finally:
                temporary.unlink(missing_ok=True)
        return data


@dataclass(frozen=True, slots=True)
class DriveMirror:
    """The tree in the cache that readers look at, and the files that it stands for by relative path."""

    remote: RemoteFiles
    path: Path
    files: Mapping[str, RemoteFile]

    def attached(self, drive: Drive) -> Drive:
        """Returns the drive with its frames on the server."""
        source = drive.source
        return replace(drive, source=source.each(self._remote) if isinstance(source, SideBySide) else self._remote(source))

    def _remote(self, source: FrameSource) -> FrameSource:
        if not isinstance(source, PictureSource):
            return source
        inner = source.folder.relative_to(self.path).as_posix()
        files = tuple(self.files[name if inner == "." else f"{inner}/{name}"] for name in source.names)
        return RemotePictures(self.remote, source.folder.name, source.names, files)


def mirror_of(url: str) -> DriveMirror:
    """Lists what lies at a URL and copies what readers need before the first frame; nothing where the cache has it already."""
    remote = RemoteFiles(url.rstrip("/"))
    try:
        listing = remote.listing()
    except FileNotFoundError:
        listing = ()
    except (PermissionError, NotImplementedError) as error:
        raise BadDriveError(f"cannot list {url!r}: {error or 'it is not allowed'}; check your credentials") from error
    if not listing:
        raise BadDriveError(f"nothing lies at {url!r}; check the bucket and the path")
    for file in listing:
        if ".." in PurePosixPath(file.path).parts or file.path.startswith("/"):
            raise BadDriveError(f"{url!r} has a file named {file.path!r}, which no drive needs; rename it")
    name = re.sub(r"[^\w.-]", "_", url.rstrip("/").rpartition("/")[2])
    key = sha256("\x1e".join([url, *(f"{file.path}\x1f{file.size}\x1f{file.tag}" for file in listing)]).encode()).hexdigest()[:40]
    place = cache_folder() / "trees" / key
    if not place.is_dir():
        _grow(remote, listing, place, name)
    return DriveMirror(remote, place / name, {file.path: file for file in listing})


def _grow(remote: RemoteFiles, listing: tuple[RemoteFile, ...], place: Path, name: str) -> None:
    """Makes the tree beside its place and renames it, so that a tree that is there is whole."""
    growing = place.with_name(f".{place.name}.{uuid4().hex}")
    has_pictures = any(is_picture(file.path) for file in listing)
    try:
        for file in listing:
            target = growing / name / file.path if file.path else growing / name
            target.parent.mkdir(parents=True, exist_ok=True)
            is_wanted = not is_picture(file.path) and (not has_pictures or target.suffix.lower() in _TABLES)
            if is_wanted or not file.path:
                remote.download(file, target)
            else:
                target.touch()
        try:
            growing.replace(place)
        except OSError:
            if not place.is_dir():  # else another process was faster
                raise
    finally:
        shutil.rmtree(growing, ignore_errors=True)


def _key(url: str, file: RemoteFile) -> str:
    return sha256(f"{url}/{file.path}\x1f{file.size}\x1f{file.tag}".encode()).hexdigest()[:40]
