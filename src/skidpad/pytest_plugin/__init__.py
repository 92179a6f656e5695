"""Driving networks in pytest: fixtures, assertions that show the worst pair of pictures when they fail, and the test that runs now.

The plugin (`plugin`) is loaded by every pytest run once skidpad is installed, so nothing here imports more than the standard library
until a test uses it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
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


DEFAULT_FOLDER = Path("runs") / "pytest"
_LONGEST = 80


def _nobody(name: str, value: str) -> None:
    """Takes no notice: there is no test."""
    del name, value


@dataclass(frozen=True, slots=True)
class CurrentTest:
    """One test. note: adds a property to its report, which JUnit XML shows."""

    folder: Path
    note: Callable[[str, str], None] = _nobody
    _pictures: list[Path] = field(default_factory=list)

    def next_picture(self, suffix: str = ".png") -> Path:
        """Returns the file of the test's next picture, as `worst.png`, then `worst-2.png`; its folder is made, and old ones are gone."""
        if not self._pictures and self.folder.is_dir():
            for old in self.folder.glob("worst*"):
                old.unlink()
        number = f"-{len(self._pictures) + 1}" if self._pictures else ""
        path = self.folder / f"worst{number}{suffix}"
        self._pictures.append(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def folder_of(root: Path, node: str) -> Path:
    """Returns the folder of a test: its name as far as a file may bear it, and a few digits that keep two apart."""
    name = re.sub(r"[^\w.-]+", "-", node.rpartition("/")[2]).strip("-.")[:_LONGEST]
    return root / f"{name}-{blake2b(node.encode('utf-8', 'surrogatepass'), digest_size=3).hexdigest()}"


_RUNNING: list[CurrentTest] = []


def begin(test: CurrentTest) -> None:
    """Makes a test the current one."""
    _RUNNING.append(test)


def end() -> None:
    """Takes back the last `begin`."""
    _RUNNING.pop()


def current() -> CurrentTest:
    """Returns the test that runs; outside of pytest one that nobody reads the report of."""
    return _RUNNING[-1] if _RUNNING else CurrentTest(DEFAULT_FOLDER / "no-test")


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("skidpad.pytest_plugin.assertions"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
