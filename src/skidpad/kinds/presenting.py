"""How a kind of campaign speaks on the command line: one presenter for each kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from skidpad.page.terminal import say

if TYPE_CHECKING:
    from skidpad.runs.replay import Reproduction


class Presenter(Protocol):
    """Shows one run of one campaign."""

    def payload(self) -> Mapping[str, object]:
        """Returns the figures of the run for `--json`; the paths of run and report are added."""
        ...

    def show(self) -> None:
        """Prints the figures of the run."""
        ...

    def write_report(self, path: Path) -> None:
        """Writes the self-contained HTML page."""
        ...

    def replay(self, finding: str, picture: Path | None, json: bool) -> bool:
        """Computes a case again, prints how it compares, and tells whether it is the same; writes a picture where asked."""
        ...


def show_reproduction(found: Reproduction) -> None:
    """Prints what has changed since the run, and whether the case is the same."""
    for change in found.changes:
        say(f"changed since: {change}")
    say(found.said)


def reproduction_json(found: Reproduction) -> dict[str, object]:
    """Returns the same for `--json`."""
    return {
        "replay": found.outcome.value,
        "reproduced": found.is_reproduced,
        "said": found.said,
        "differences": list(found.differences),
        "version_changes": [str(change) for change in found.changes],
    }
