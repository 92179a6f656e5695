"""Files that are either there and whole, or not there; and opening nothing but files."""

import errno
import os
import re
import stat
from io import BufferedReader
from pathlib import Path

TEMPORARY_SUFFIX = ".tmp"

LFS_ADVICE = "it is a git-lfs pointer, not the file itself; run `git lfs pull`"
_LFS_START = b"version https://git-lfs"

_KINDS = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://.+", re.ASCII)


def is_url(text: str) -> bool:
    """Tells a URL from a path."""
    return _URL.fullmatch(text) is not None


class NotAFileError(OSError):
    """Something that bears a file's name and is none: a pipe or device that might never end, or a pointer to the file."""


def open_regular(path: Path) -> BufferedReader:
    """Opens a file for reading; raises NotAFileError for a pipe, a socket, a device, a link to one, and a git-lfs pointer.

    A named pipe would wait for a writer for ever, and some devices never end.
    """
    _check_regular(path.stat(), path)
    # without waiting, and looked at again: a pipe may have taken its place in between
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        _check_regular(os.fstat(descriptor), path)
    except OSError:
        os.close(descriptor)
        raise
    file = os.fdopen(descriptor, "rb")
    if is_lfs_pointer(file.peek(len(_LFS_START))):
        file.close()
        raise NotAFileError(errno.EINVAL, LFS_ADVICE, str(path))
    return file


def _check_regular(status: os.stat_result, path: Path) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if kind != stat.S_IFREG:
        raise NotAFileError(errno.EINVAL, f"it is {_KINDS.get(kind, 'something else')}, not a file; replace it by a file", str(path))


def is_lfs_pointer(start: bytes) -> bool:
    """Tells by the first bytes whether a file only says where git-lfs keeps the real one."""
    return start.startswith(_LFS_START)


def write_atomically(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Writes beside the target, forces it to disk and renames it; on any failure nothing is left behind.

    The directory is forced to disk too, or the rename itself could be lost with the power. What bears the temporary name is replaced and
    never written into: in a folder from a stranger it may be a link to a file of ours. The name has the process in it, so that several can
    write the same file. mode: the most that anybody may do with it.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY_SUFFIX}")
    try:
        temporary.unlink(missing_ok=True)
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Forces the names in a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_temporary(folder: Path) -> None:
    """Removes what a writer that was killed left half written; only the one writer may call this."""
    for path in folder.glob(f".*{TEMPORARY_SUFFIX}"):
        path.unlink(missing_ok=True)
