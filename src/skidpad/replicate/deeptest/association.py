"""RQ1: does the number of activated neurons go with the steering?

Reference: DeepTest, section 5 (RQ1), Table 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skidpad.campaigns.originals import ORIGINALS
from skidpad.replicate.deeptest import paper
from skidpad.replicate.render import p_text
from skidpad.replicate.rows import Row
from skidpad.statistics.effects import compare_directions
from skidpad.statistics.ranks import spearman

if TYPE_CHECKING:
    from skidpad.runs.folder import Run

_SIDES = {"positive > negative": "left > right", "positive < negative": "left < right"}


@dataclass(frozen=True, slots=True)
class Association:
    """Activated neurons of each original against the network's own answer; left is positive."""

    frames: int
    neurons: int
    median_active: float
    spearman: float
    spearman_p: float
    left: int
    right: int
    direction: str
    direction_p: float
    cohens_d: float
    effect: str

    def rows(self) -> tuple[Row, ...]:
        """Returns the scoreboard's rows."""
        sides = f"{self.left} left, {self.right} right, {p_text(self.direction_p)}"
        return (
            Row.compared(
                "RQ1",
                "Spearman, active neurons with steering",
                paper.SPEARMAN,
                self.spearman,
                f"{self.frames} frames, {p_text(self.spearman_p)}; the sign is the network's, not the method's",
                paper.SPEARMAN_OTHERS,
            ),
            Row.compared("RQ1", "active neurons by direction (rank-sum)", paper.DIRECTION, self.direction, sides, paper.DIRECTION_OTHERS),
            Row.compared(
                "RQ1",
                "effect of direction (Cohen's d)",
                paper.DIRECTION_EFFECT,
                self.effect,
                f"d = {self.cohens_d:.3g}",
                paper.DIRECTION_EFFECT_OTHERS,
            ),
        )


def associate(run: Run, neurons: int) -> Association:
    """Answers RQ1 from the originals of a run."""
    table = run.records(ORIGINALS, ("active_neurons", "original"))
    active, answer_rad = table["active_neurons"].to_numpy().astype(np.float64), table["original"].to_numpy()
    correlation = spearman(active, answer_rad)
    sides = compare_directions(active, answer_rad)
    return Association(
        frames=len(active),
        neurons=neurons,
        median_active=float(np.median(active)) if len(active) else float("nan"),
        spearman=correlation.rho,
        spearman_p=correlation.p_value,
        left=sides.positive,
        right=sides.negative,
        direction=_SIDES.get(sides.verdict, sides.verdict),
        direction_p=sides.test.p_value,
        cohens_d=sides.effect.size,
        effect=sides.effect.magnitude.value,
    )
