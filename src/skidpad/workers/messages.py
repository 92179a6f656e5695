"""What a driver says to its local workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skidpad.workers.protocol import Reload
    from skidpad.workers.sharing import Shared


@dataclass(frozen=True, slots=True)
class Begin:
    """The first message: where to find modules and files, what to load, and the hashes of the code that may run (`core.trust`)."""

    path: tuple[str, ...]
    folder: str
    reload: Reload
    trusted: frozenset[str]


@dataclass(frozen=True, slots=True)
class Prepare:
    """Another step begins."""

    number: int
    step: str
    given: Shared


@dataclass(frozen=True, slots=True)
class Task:
    """One item of the step."""

    number: int
    item: Any
