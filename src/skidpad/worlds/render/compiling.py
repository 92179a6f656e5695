"""How the functions of the renderer are compiled, and the memory that they share.

Compiled code counts the references to every array that it takes, in memory that all threads share and with instructions that lock it. In
functions that are called for every card of every row that was a third of a frame's time, and more with two threads than with one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

_Function = TypeVar("_Function", bound=Callable[..., Any])


class _Compiler(Protocol):
    def __call__(self, function: _Function, /) -> _Function: ...


_FAST: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy"}
# A private option of numba, there since its first releases.
_UNCOUNTED: dict[str, Any] = {**_FAST, "_nrt": False}

compiled = cast("_Compiler", njit(**_FAST))
"""For functions that make or return arrays."""
uncounted = cast("_Compiler", njit(**_UNCOUNTED))
"""For functions that neither make nor return arrays: they count no references, whoever calls them holds the arrays."""
inlined = cast("_Compiler", njit(**_UNCOUNTED, forceinline=True))
"""Likewise, for the arithmetic of one pixel: it becomes a part of the loop that calls it."""

CHUNK = 64
"""Rows are painted in pieces of so many pixels; loops of fixed length become vector instructions."""

Scratch: TypeAlias = NDArray[np.float32]
"""Scratch memory of a kernel: lines of CHUNK values."""
