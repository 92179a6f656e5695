"""What rules know of a duel before it is driven: who drives, and how the two vehicles start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skidpad.highway.engine import (
    START_EGO_LANE,
    START_EGO_SPEED,
    START_EGO_X,
    START_FIELDS,
    START_FRONT_LANE,
    START_FRONT_SPEED,
    START_FRONT_X,
)
from skidpad.highway.layout import VEHICLE_LENGTH_M
from skidpad.kinds.duels.charts import ego_words, front_words
from skidpad.kinds.duels.names import EGO, EVERY_EGO
from skidpad.kinds.ruling import failed_of, judged_rows
from skidpad.statistics.rules import Cases, Trait

if TYPE_CHECKING:
    from skidpad.runs.folder import Run


def duel_cases(campaign: Any, run: Run) -> Cases:
    """Reads the episodes of a run; each is a cluster of its own."""
    rows = judged_rows(run, ("case_id", "family", "column", "start"))
    starts = np.array([row["start"][:START_FIELDS] for row in rows], np.float64).reshape(len(rows), START_FIELDS)
    same = starts[:, START_EGO_LANE] == starts[:, START_FRONT_LANE]
    traits = (
        Trait("the ego", [_ego(campaign, row["family"]) for row in rows]),
        Trait("the front vehicle", [front_words(row["column"]) for row in rows]),
        Trait("the gap at the start", starts[:, START_FRONT_X] - starts[:, START_EGO_X] - VEHICLE_LENGTH_M, "m"),
        Trait("the ego's speed at the start", starts[:, START_EGO_SPEED], "m/s"),
        Trait("the front vehicle's speed at the start", starts[:, START_FRONT_SPEED], "m/s"),
        Trait("the ego's lane at the start", [f"number {lane + 1:g} from the left" for lane in starts[:, START_EGO_LANE]]),
        Trait("the front vehicle's lane at the start", np.where(same, "the ego's", "another").tolist()),
    )
    return Cases(failed_of(rows), traits, [row["case_id"] for row in rows])


def _ego(campaign: Any, family: str) -> str:
    if family in {EGO, EVERY_EGO}:
        return "the given one" if campaign.settings.ego else "the trained one, not repaired"
    return ego_words(campaign.settings, family)
