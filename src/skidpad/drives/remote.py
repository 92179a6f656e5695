"""Drives on servers: what a reader must see is copied here at once, pictures when they are read.

A folder of pictures becomes a tree of the same names in the cache, whose csv files are real and whose pictures are empty; the
frames come from the server, one by one, and are kept by URL, size and tag (S3's ETag). A recording is copied whole, because
indexing it reads all of it anyway.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path, PurePosixPath
from uuid import uuid4

from skidpad.core.errors import BadDriveError, SkidpadError
from skidpad.core.images import MAX_PICTURE_BYTES, NumpyFrames, decode, why_not_decoded
from skidpad.drives.drive import Drive, Problem, ProblemKind
from skidpad.drives.http_files import TooLargeError
from skidpad.drives.pictures import TOO_MANY_BYTES, PictureSource, frame_id_of, is_picture
from skidpad.drives.remote_files import RemoteFile, RemoteFiles, cache_folder, is_url

__all__ = ["Mirror", "RemotePictures", "is_url", "mirror_of"]

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
class Mirror:
    """The tree in the cache that readers look at, and the files that it stands for by relative path."""

    remote: RemoteFiles
    path: Path
    files: Mapping[str, RemoteFile]

    def attached(self, drive: Drive) -> Drive:
        """Returns the drive with its frames on the server."""
        source = drive.source
        if not isinstance(source, PictureSource):
            return drive
        inner = source.folder.relative_to(self.path).as_posix()
        files = tuple(self.files[name if inner == "." else f"{inner}/{name}"] for name in source.names)
        return replace(drive, source=RemotePictures(self.remote, source.folder.name, source.names, files))


def mirror_of(url: str) -> Mirror:
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
    return Mirror(remote, place / name, {file.path: file for file in listing})


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
