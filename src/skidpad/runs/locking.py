"""One writer a run folder."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from skidpad.core.errors import BadRunError
from skidpad.runs.guarding import open_plain, read_plain

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
