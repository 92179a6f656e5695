"""What is checked before a run folder is read, which may come from a stranger: plain files of a sane size, and nothing that leads out."""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from skidpad.core.errors import BadRunError

MAX_SMALL_BYTES = 16 << 20
"""Settings, manifest, columns and the mark of a finished run are far smaller."""
MAX_SEGMENT_BYTES = 1 << 30
MAX_SEGMENTS = 50_000
"""For the page, which looks at them before every answer."""
_SMALL = ("manifest.json", "config.toml", "schema.json")
_FOLDERS = ("segments", "state")


def is_run(folder: Path) -> bool:
    """Tells whether a folder has a manifest, be it one that is refused later."""
    return _exists(folder / "manifest.json")


def check_run(folder: Path, max_segments: int | None = None) -> None:
    """Refuses a run folder with links, devices, pipes or huge files in the places that are read; nothing is opened."""
    for name in _SMALL:
        _check_file(folder / name, MAX_SMALL_BYTES)
    for name in _FOLDERS:
        path = folder / name
        if _exists(path) and not stat.S_ISDIR(path.lstat().st_mode):
            raise BadRunError(f"{path} is not a folder, or a link to one; a run that was made by skidpad has neither")
    for number, path in enumerate(_segments(folder)):
        if max_segments is not None and number >= max_segments:
            raise BadRunError(f"it has more than {max_segments} segments, too many for the page; `skidpad report` reads it")
        _check_file(path, MAX_SEGMENT_BYTES)


def checked_file(path: Path, max_bytes: int) -> bool:
    """Tells whether a file is there, plain, not a link, and no larger than allowed."""
    try:
        _check_file(path, max_bytes)
    except BadRunError:
        return False
    return _exists(path)


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


def _segments(folder: Path) -> Iterator[Path]:
    place = folder / "segments"
    return iter(sorted(place.glob("*.parquet"))) if place.is_dir() else iter(())


def _check_file(path: Path, max_bytes: int) -> None:
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


def _exists(path: Path) -> bool:
    try:
        path.lstat()
    except OSError:
        return False
    return True


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
