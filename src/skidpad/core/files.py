"""Files that are either there and whole, or not there; opening nothing but files, for a folder may come from a stranger; and locks."""

import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import TextIO

from skidpad.core.errors import BadRunError

TEMPORARY_SUFFIX = ".tmp"
MAX_SMALL_BYTES = 16 << 20
"""Settings, manifest, columns and the mark of a finished run are far smaller."""

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
    file = os.fdopen(_descriptor_of(path)[0], "rb")
    if is_lfs_pointer(file.peek(len(_LFS_START))):
        file.close()
        raise NotAFileError(errno.EINVAL, LFS_ADVICE, str(path))
    return file


def read_regular(path: Path, most_bytes: int, too_many: str) -> bytes:
    """Reads a whole file, raising what `open_regular` does but for pointers, and OSError (EFBIG) with `too_many` for a larger one.

    It makes few system calls: after each of them Python waits for its turn again, which takes long where many threads read.
    """
    descriptor, size = _descriptor_of(path)
    try:
        if size > most_bytes:
            raise OSError(errno.EFBIG, too_many, str(path))
        data = os.read(descriptor, size)
        while len(data) < size and (more := os.read(descriptor, size - len(data))):
            data += more
        return data
    finally:
        os.close(descriptor)


def _descriptor_of(path: Path) -> tuple[int, int]:
    """Opens a plain file for reading and returns its descriptor and its size."""
    _check_regular(path.stat(), path)
    # without waiting, and looked at again: a pipe may have taken its place in between
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        status = os.fstat(descriptor)
        _check_regular(status, path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor, status.st_size


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


def open_plain(path: Path, flags: int = os.O_RDONLY) -> int:
    """Opens a plain file and returns its descriptor: a link is not followed, and a pipe that nobody writes to is not waited for."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENXIO}:  # what a link and a socket answer
            raise _not_plain(path) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _not_plain(path)
    return descriptor


def read_plain(path: Path, max_bytes: int = MAX_SMALL_BYTES) -> bytes:
    """Reads a plain file of at most so many bytes; one that is not there is a FileNotFoundError."""
    with os.fdopen(open_plain(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > max_bytes:
            raise _too_large(path, size, max_bytes)
        return file.read(max_bytes)


def checked_file(path: Path, max_bytes: int) -> bool:
    """Tells whether a file is there, plain, not a link, and no larger than allowed."""
    try:
        check_plain(path, max_bytes)
    except BadRunError:
        return False
    return os.path.lexists(path)


def check_plain(path: Path, max_bytes: int) -> None:
    """Refuses what is no plain file, and a larger one than allowed, without opening it; what is not there is not refused."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return  # whoever reads it says so better
    except OSError as error:
        raise BadRunError(f"{path} cannot be looked at: {error.strerror}; check its permissions") from error
    if not stat.S_ISREG(status.st_mode):
        raise _not_plain(path)
    if status.st_size > max_bytes:
        raise _too_large(path, status.st_size, max_bytes)


def _not_plain(path: Path) -> BadRunError:
    return BadRunError(f"{path} is a link or no plain file, and is not opened; replace it by the file itself")


def _too_large(path: Path, size: int, max_bytes: int) -> BadRunError:
    return BadRunError(f"{path} has {size} bytes, and at most {max_bytes} are read; a run that was made by skidpad has no such file")


LOCK_FILE = ".skidpad-lock"
_KERNEL_LOCKS = Path("/proc/locks")


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Holds the folder's lock; refused at once where another process holds it.

    The kernel lets go of the lock when the process ends, however it ends, so no stale lock ever needs a hand. A forked
    child shares it: workers must be spawned, or a killed parent's children would keep the folder locked.
    """
    with _locked_file(folder) as file:
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def is_held(folder: Path) -> bool:
    """Tells whether a process of this machine writes to the folder, without being in its way where the kernel lists its locks."""
    try:
        with os.fdopen(open_plain(folder / LOCK_FILE), "rb") as file:
            inode = str(os.fstat(file.fileno()).st_ino)
            if _KERNEL_LOCKS.exists():
                held = [line.split() for line in _KERNEL_LOCKS.read_text(encoding="ascii").splitlines()]
                return any("FLOCK" in words and words[-3].rpartition(":")[2] == inode for words in held if len(words) > 3)
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    except (OSError, BadRunError):
        return False  # what is no plain file locks nothing
    return False


def in_use(folder: Path, way_out: str = "") -> BadRunError:
    """Returns the error of one who comes second; way_out: what else to do than wait."""
    try:
        owner = read_plain(folder / LOCK_FILE).decode("ascii", "replace")[:20].strip()
    except (OSError, BadRunError):
        owner = ""
    who = f"another skidpad{f' (process {owner})' if owner else ''}"
    return BadRunError(f"the run folder {folder} is in use by {who}; wait until it ends{way_out}")


def _locked_file(folder: Path) -> TextIO:
    try:
        # the owner's number replaces whatever the file holds, so a link to another file must not be followed
        file = os.fdopen(open_plain(folder / LOCK_FILE, os.O_RDWR | os.O_APPEND | os.O_CREAT), "a+", encoding="ascii", errors="replace")
    except OSError as error:
        raise BadRunError(f"cannot write to the run folder {folder}: {error.strerror}; make it writable or choose another --out") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise in_use(folder) from error
    except OSError as error:
        file.close()
        raise BadRunError(f"the file system of {folder} gives no locks: {error.strerror}; choose another --out") from error
    return file
