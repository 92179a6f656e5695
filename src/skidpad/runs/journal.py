"""A file of lines that only grows: what people say about a run while it may still be computed.

Every line is one JSON object with a checksum. A writer that is killed leaves at most one line that the checksum gives away, and the
next writer begins a new one.
"""

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from skidpad.core.errors import BadRunError
from skidpad.core.files import sync_folder
from skidpad.runs.guarding import open_plain, read_plain

MAX_BYTES = 64 << 20
"""A journal of answers given by hand is far smaller; what is larger is something else."""

_CHECK = "check"


@dataclass(frozen=True, slots=True)
class Entries:
    """What a journal holds, in the order of writing. damaged: lines that are no whole entry and were left out."""

    rows: tuple[Mapping[str, str], ...]
    damaged: int = 0


@dataclass(frozen=True, slots=True)
class Journal:
    """One append-only file; any number of processes may write to it."""

    path: Path

    def append(self, row: Mapping[str, str]) -> None:
        """Adds one entry, whole or not at all, and forces it to disk; a link is not followed."""
        if _CHECK in row:
            raise ValueError(f"{_CHECK!r} is the journal's own; got {row!r}")
        line = _line(row).encode()
        is_new = not self.path.exists()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = open_plain(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        except OSError as error:
            raise BadRunError(f"cannot write to {self.path}: {error.strerror}; make its folder writable") from error
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                _append(file.fileno(), line)
            except OSError as error:
                raise BadRunError(f"cannot write to {self.path}: {error.strerror}; free some space or mend the disk") from error
        if is_new:
            sync_folder(self.path.parent)

    def read(self) -> Entries:
        """Reads every whole entry; a file that is not there holds none."""
        try:
            lines = read_plain(self.path, MAX_BYTES).decode("utf-8", "replace").splitlines()
        except FileNotFoundError:
            return Entries(())
        except OSError as error:
            raise BadRunError(f"cannot read {self.path}: {error.strerror}; it must be a plain file") from error
        rows = [_row(line) for line in lines if line]
        whole = tuple(row for row in rows if row is not None)
        return Entries(whole, len(rows) - len(whole))

    @property
    def signature(self) -> tuple[int, int]:
        """Changes with every entry, so that a reader knows when to look again."""
        try:
            status = self.path.lstat()
        except OSError:
            return (0, 0)
        return (status.st_size, status.st_mtime_ns)


def _append(descriptor: int, line: bytes) -> None:
    size = os.fstat(descriptor).st_size
    # A writer that was killed may have left a line without its end.
    torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
    data = b"\n" + line if torn else line
    try:
        written = 0
        while written < len(data):
            written += os.write(descriptor, data[written:])
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def _line(row: Mapping[str, str]) -> str:
    return json.dumps({**row, _CHECK: _digest(row)}, sort_keys=True) + "\n"


def _row(line: str) -> Mapping[str, str] | None:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or not all(isinstance(value, str) for value in content.values()):
        return None
    check = content.pop(_CHECK, "")
    return content if check == _digest(content) else None


def _digest(row: Mapping[str, str]) -> str:
    return blake2b(json.dumps(dict(row), sort_keys=True).encode(), digest_size=4).hexdigest()
