"""Indexes of long recordings, made once: every process that opens the same file again finds it in the cache."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skidpad.core.files import write_atomically
from skidpad.drives.drive import Problem, ProblemKind
from skidpad.drives.remote import cache_folder

WORTH_BYTES = 64 << 20
"""A recording below this is gone through in less time than it takes to think about it."""

_FORMAT = 1
_PROBLEMS = "problems"
_UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True, eq=False, slots=True)
class Index:
    """What one pass over a recording brought: arrays by name, and the problems found."""

    arrays: Mapping[str, NDArray[np.int64] | NDArray[np.float64]]
    problems: tuple[Problem, ...]


def cached(files: Sequence[Path], words: str, make: Callable[[], Index]) -> Index:
    """Returns the index of some files, from the cache where they are as they were; `words` say what was looked for in them."""
    status = [(path, path.stat()) for path in files]
    if sum(each.st_size for _, each in status) < WORTH_BYTES:
        return make()
    identity = [[str(path.absolute()), each.st_size, each.st_mtime_ns] for path, each in status]
    key = sha256(json.dumps([_FORMAT, identity, words]).encode()).hexdigest()[:40]
    kept = cache_folder() / "indexes" / f"{key}.npz"
    with suppress(*_UNREADABLE):
        return _unpacked(kept.read_bytes())
    index = make()
    with suppress(OSError):  # a cache that cannot be written to costs time, nothing else
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(kept, _packed(index))
    return index


def _packed(index: Index) -> bytes:
    rows = [[problem.kind.name, problem.frame_id, problem.detail] for problem in index.problems]
    arrays: dict[str, Any] = {**index.arrays, _PROBLEMS: np.frombuffer(json.dumps(rows).encode(), np.uint8)}
    sink = BytesIO()
    np.savez(sink, **arrays)
    return sink.getvalue()


def _unpacked(data: bytes) -> Index:
    with np.load(BytesIO(data), allow_pickle=False) as file:
        rows = json.loads(file[_PROBLEMS].tobytes())
        arrays = {name: file[name] for name in file.files if name != _PROBLEMS}
    return Index(arrays, tuple(Problem(ProblemKind[kind], frame_id, detail) for kind, frame_id, detail in rows))
