"""A served drive made again from what its client answered; the client itself is not there to be asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from skidpad.core.errors import SkidpadError
from skidpad.kinds.drives.records import Case, unpack
from skidpad.kinds.drives.replaying import OnlineReplay, replayed
from skidpad.kinds.drives.served.loop import serve_drive
from skidpad.worlds.serve.pilot import Answer, FaultError, Moment

if TYPE_CHECKING:
    from skidpad.kinds.drives.served.campaign import Served
    from skidpad.runs.folder import Run
    from skidpad.runs.replay import Replayed


class RecordedPilot:
    """Answers what a client answered in a recorded drive."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        self._problem = str(row["problem"])
        self._answers_rad, self._pedal = unpack(row["answers_rad"]), unpack(row["pedal"])

    def begin(self) -> None:
        """Is always there."""

    def ask(self, moment: Moment) -> Answer:
        """Answers from the record; where the client had failed, it fails again."""
        if moment.step >= len(self._answers_rad) or not np.isfinite(self._answers_rad[moment.step]):
            raise FaultError(self._problem)
        return Answer(float(self._answers_rad[moment.step]), float(self._pedal[moment.step]))

    def end(self, moment: Moment) -> None:
        """Needs no telling."""

    def close(self) -> None:
        """Has nothing to close."""


def replay_served(campaign: Served, run: Run, finding: str, picture: Path | None = None) -> Replayed:
    """Drives the world again with the recorded answers and compares the course and its judgement."""
    row = run.find_row(finding)
    course = serve_drive(campaign.simulator.world(), Case.from_row(row), campaign.stimuli, RecordedPilot(row))
    again = campaign.records(Case.from_row(row), course).to_pylist()[0]
    result = replayed(campaign.runner, OnlineReplay(row, again, run.manifest.changes()), picture)
    note = f"The world was driven again with the recorded answers; {campaign.name} was not asked."
    return replace(result, remarks=(*result.remarks, note))


def refuse_shrinking(*_: object) -> NoReturn:
    """Says why a served drive cannot be made smaller."""
    raise SkidpadError(
        "a served drive cannot be made smaller: every try needs the client's answers, and it is not there; "
        "describe its network in a file and use skidpad drive, whose findings shrink"
    )


def refuse_export(*_: object) -> NoReturn:
    """Says why a served drive cannot become a test."""
    raise SkidpadError(
        "a served drive cannot be exported as a test: its check would need the client, and it is not there; "
        "use skidpad replay --picture drive.svg for its film, or skidpad drive for a network in a file"
    )
