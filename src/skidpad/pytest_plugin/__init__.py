"""Driving networks in pytest: fixtures, and assertions that show the worst pair of pictures when they fail.

The plugin (`plugin`) is loaded by every pytest run once skidpad is installed, so nothing here imports more than the standard library
until a test uses it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skidpad.pytest_plugin.assertions import (
        StimulusLike,
        assert_answers_alike,
        assert_decides_alike,
        assert_holds,
        assert_mended,
        assert_steers_alike,
    )

__all__ = ["StimulusLike", "assert_answers_alike", "assert_decides_alike", "assert_holds", "assert_mended", "assert_steers_alike"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("skidpad.pytest_plugin.assertions"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
