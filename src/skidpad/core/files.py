"""Files that are either there and whole, or not there."""

import os
from pathlib import Path

TEMPORARY_SUFFIX = ".tmp"


def write_atomically(path: Path, data: bytes) -> None:
    """Writes beside the target, forces it to disk and renames it; on any failure nothing is left behind.

    The directory is forced to disk too, or the rename itself could be lost with the power. What bears the temporary name is replaced and
    never written into: in a folder from a stranger it may be a link to a file of ours.
    """
    temporary = path.with_name(f".{path.name}{TEMPORARY_SUFFIX}")
    try:
        temporary.unlink(missing_ok=True)
        with temporary.open("xb") as file:
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
