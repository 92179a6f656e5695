"""What can be shown of one case: pictures, frames, tables and a check, for bundles and for shrunk findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from skidpad.core.errors import UnknownNameError
from skidpad.core.registry import Registry
from skidpad.kinds.kind import campaign_name
from skidpad.kinds.pictures.shrinking import PictureCampaign

if TYPE_CHECKING:
    from skidpad.kinds.bundles import Check
    from skidpad.runs.folder import Run


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was written of a case into a folder.

    title: the case in one line. said: what went wrong, in a sentence. subject: the text that names whom to ask, "" where there is none.
    files: what was written, with what each is, by its name within the folder. recipe: the stimulus as plain values.
    """

    title: str
    said: str
    subject: str
    files: Mapping[str, str]
    recipe: object
    answers: Mapping[str, object]
    check: Check | None


class Witness(Protocol):
    """Shows the cases of one run; rows have the columns of the run, and need not be among its records."""

    def draw(self, row: Mapping[str, Any], folder: Path, stem: str) -> tuple[Path, ...]:
        """Draws a case as one picture or film strip (and what moves), named after the stem."""
        ...

    def testify(self, row: Mapping[str, Any], folder: Path) -> Evidence:
        """Writes everything that there is of a case."""
        ...


WITNESSES: Registry[Callable[[Any, Run], Witness]] = Registry(
    "campaign whose findings can be exported",
    "witnesses",
    (
        "skidpad.kinds.pictures.evidence",
        "skidpad.kinds.pictures.styles.shrinking",
        "skidpad.kinds.drives.evidence",
        "skidpad.kinds.duels.evidence",
    ),
)
"""By the name of the campaign; a row takes (campaign, run). A campaign that answers to `PictureCampaign` needs no row."""


def witness_of(campaign: Any, run: Run) -> Witness:
    """Returns what shows the cases of a run."""
    try:
        return WITNESSES.get(campaign_name(run.config, str(run.path)))(campaign, run)
    except UnknownNameError:
        if isinstance(campaign, PictureCampaign):
            return WITNESSES.get("deeptest")(campaign, run)
        raise
