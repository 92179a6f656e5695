"""Objects that a Python caller hands over: in a config each stands as a text, and whoever opens that text is given the object.

So every kind of campaign takes a network or a drive in memory as it takes a name, and keeps plain texts in its settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from skidpad.core.errors import SkidpadError

T = TypeVar("T")

MEMORY = "python:"
"""How the text of an object begins that has no file."""

_given: ContextVar[Mapping[str, object]] = ContextVar("skidpad_given", default={})  # noqa: B039 - it is replaced, never changed


@contextmanager
def giving(objects: Mapping[str, object]) -> Iterator[None]:
    """Hands objects over, by the text that stands for each, while the context lasts."""
    token = _given.set({**_given.get(), **objects})
    try:
        yield
    finally:
        _given.reset(token)


def given(text: str, kind: type[T] | tuple[type[T], ...] | None = None) -> T | None:
    """Returns the object that stands under a text, None where it is to be opened; a text of an object that is gone is refused."""
    found = _given.get().get(text)
    if found is not None and (kind is None or isinstance(found, kind)):
        return found  # type: ignore[return-value] # without a kind the caller knows what stands under the text
    if text.startswith(MEMORY):
        name = text.removeprefix(MEMORY)
        raise SkidpadError(
            f"{name!r} was an object in the Python process that made the run, and is not in this one; the run's report and gate work, but "
            "nothing can be computed again: save the object as a file, describe it, and test that"
        )
    return None
