"""How functions are compiled by numba: other threads go on while one runs, and later processes find it compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

from numba import njit

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Compiler(Protocol):
    """A decorator that compiles."""

    def __call__(self, function: _Function, /) -> _Function:
        """Returns the function compiled."""
        ...


def compiler(**options: Any) -> Compiler:
    """Returns a decorator with these options of numba beside the usual ones.

    Numba keeps compiled code beside the source or in the user's cache folder. If neither can be written to, each process compiles anew.
    """
    usual = {"nogil": True, "error_model": "numpy", **options}

    def compiled(function: _Function) -> _Function:
        try:
            made = njit(**usual, cache=True)(function)
        except RuntimeError:
            made = njit(**usual)(function)
        return cast("_Function", made)

    return compiled
