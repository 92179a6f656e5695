"""One writer a run folder."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from skidpad.core.errors import BadRunError

LOCK_FILE = ".skidpad-lock"


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


def _locked_file(folder: Path) -> TextIO:
    try:
        file = (folder / LOCK_FILE).open("a+", encoding="ascii", errors="replace")
    except OSError as error:
        raise BadRunError(f"cannot write to the run folder {folder}: {error.strerror}; make it writable or choose another --out") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.seek(0)
        owner = file.read(20).strip()
        file.close()
        raise BadRunError(
            f"the run folder {folder} is in use by another skidpad{f' (process {owner})' if owner else ''}; "
            "wait until it ends or choose another --out"
        ) from error
    except OSError as error:
        file.close()
        raise BadRunError(f"the file system of {folder} gives no locks: {error.strerror}; choose another --out") from error
    return file
