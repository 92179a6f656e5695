"""The test that runs now: where its pictures go, and what its report is told."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

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
