"""What is checked before a foreign folder is read: plain files of a sane size, and nothing that leads out of the folder."""

import stat
from collections.abc import Iterator
from pathlib import Path

from skidpad.core.errors import BadRunError

MAX_SMALL_BYTES = 4 << 20
MAX_SEGMENT_BYTES = 1 << 30
MAX_SEGMENTS = 50_000
_SMALL = ("manifest.json", "config.toml", "schema.json")
_FOLDERS = ("segments", "state")


def is_run(folder: Path) -> bool:
    """Tells whether a folder has a manifest, be it one that is refused later."""
    return _exists(folder / "manifest.json")


def check_run(folder: Path) -> None:
    """Refuses a run folder with links, devices, pipes or huge files in the places that are read; nothing is opened."""
    for name in _SMALL:
        _check_file(folder / name, MAX_SMALL_BYTES)
    for name in _FOLDERS:
        path = folder / name
        if _exists(path) and not stat.S_ISDIR(path.lstat().st_mode):
            raise BadRunError(f"{name} is not a folder, or a link to one; a run that was made by skidpad has neither")
    for number, path in enumerate(_segments(folder)):
        if number >= MAX_SEGMENTS:
            raise BadRunError(f"it has more than {MAX_SEGMENTS} segments, too many for the page; `skidpad report` reads it")
        _check_file(path, MAX_SEGMENT_BYTES)


def checked_file(path: Path, max_bytes: int) -> bool:
    """Tells whether a file is there, plain, not a link, and no larger than allowed."""
    try:
        _check_file(path, max_bytes)
    except BadRunError:
        return False
    return _exists(path)


def _segments(folder: Path) -> Iterator[Path]:
    place = folder / "segments"
    return iter(sorted(place.glob("*.parquet"))) if place.is_dir() else iter(())


def _check_file(path: Path, max_bytes: int) -> None:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return  # whoever reads it says so better
    except OSError as error:
        raise BadRunError(f"{path.name} cannot be looked at: {error.strerror}; check its permissions") from error
    if not stat.S_ISREG(status.st_mode):
        raise BadRunError(f"{path.name} is a link or no plain file, and is not opened; replace it by the file itself")
    if status.st_size > max_bytes:
        raise BadRunError(f"{path.name} has {status.st_size} bytes, and at most {max_bytes} are read; it is too large for the page")


def _exists(path: Path) -> bool:
    try:
        path.lstat()
    except OSError:
        return False
    return True
