"""Writing a subject's files, with errors that say where."""

from pathlib import Path

from skidpad.core import files
from skidpad.core.errors import BadSubjectError


def write_atomically(path: Path, data: bytes) -> None:
    """Writes the file, and the folder it is to be in, or says that the place cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_atomically(path, data)
    except OSError as error:
        raise BadSubjectError(f"cannot write {path}: {error.strerror or error}; choose a place that can be written") from error


def discard(path: Path) -> None:
    """Removes a file that may not be there; makes the folder it would be in, so that a bad place is known before the work."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
    except OSError as error:
        raise BadSubjectError(f"cannot write {path}: {error.strerror or error}; choose a place that can be written") from error
