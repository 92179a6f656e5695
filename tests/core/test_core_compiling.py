"""Functions are compiled with and without a folder that compiled code can be kept in."""

import pytest

from skidpad.core import compiling


def added(number: int) -> int:
    return number + 1


def test_a_function_is_compiled_and_kept() -> None:
    made = compiling.compiler()(added)
    assert made(1) == 2
    assert made.targetoptions["nogil"]  # type: ignore[attr-defined] # numba's
    assert made.stats.cache_path  # type: ignore[attr-defined] # likewise


def test_where_nothing_can_be_kept_it_is_compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = compiling.njit

    def without_folder(**options: object) -> object:
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return plain(**options)

    monkeypatch.setattr(compiling, "njit", without_folder)
    assert compiling.compiler()(added)(1) == 2
