"""Files that are there whole or not at all."""

import os
from pathlib import Path

from skidpad.core.errors import BadSubjectError


def write_atomically(path: Path, data: bytes) -> None:
    """Writes beside `path`, brings it to the disk, then renames; a crash leaves the old file or the new one."""
    passing = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with passing.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        passing.replace(path)
    except OSError as error:
        passing.unlink(missing_ok=True)
        raise BadSubjectError(f"cannot write {path}: {error.strerror or error}; choose a place that can be written") from error


def discard(path: Path) -> None:
    """Removes a file that may not be there; makes the folder it would be in, so that a bad place is known before the work."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
    except OSError as error:
        raise BadSubjectError(f"cannot write {path}: {error.strerror or error}; choose a place that can be written") from error
