"""RQ1: does the number of activated neurons go with the steering?

Reference: DeepTest, section 5 (RQ1), Table 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skidpad.kinds.pictures.guided import merged_coverage
from skidpad.papers.deeptest import paper
from skidpad.papers.scoreboard import Figure, Row, Sheet, increase_percent, p_text, ratio
from skidpad.runs.records import ORIGINALS
from skidpad.statistics.ranks import compare_directions, spearman

if TYPE_CHECKING:
    from skidpad.coverage.tracker import CoverageTracker
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


@dataclass(frozen=True, slots=True)
class ActivatedNeurons:
    """Neurons that one way of making pictures activates together with the seeds, out of all; and how many pictures it kept."""

    way: str
    pictures: int
    covered: int
    neurons: int

    @property
    def percent(self) -> float:
        """The covered share in percent."""
        return 100.0 * ratio(self.covered, self.neurons)


@dataclass(frozen=True, slots=True)
class Combination:
    """Table 6 on one subject; `random` makes as many tries as `guided`, and keeps them all."""

    seeds: int
    baseline: ActivatedNeurons
    cumulative: ActivatedNeurons
    guided: ActivatedNeurons
    random: ActivatedNeurons

    def rows(self) -> tuple[Row, ...]:
        """Returns the scoreboard's rows."""
        epoch, *others = paper.TABLE_6
        rows = [
            Row.compared(
                "RQ3",
                f"neuron coverage, {way} (%)",
                100.0 * published / epoch.neurons,
                ours.percent,
                f"{ours.covered} of {ours.neurons} neurons, {ours.pictures} pictures on {self.seeds} seeds",
                ", ".join(f"{other.model} {100 * getattr(other, way) / other.neurons:.0f} %" for other in others),
            )
            for way, published, ours in (
                ("baseline", epoch.baseline, self.baseline),
                ("cumulative", epoch.cumulative, self.cumulative),
                ("guided", epoch.guided, self.guided),
            )
        ]
        rows.append(
            Row.beside(
                "RQ3",
                "neuron coverage, random pairs (%)",
                None,
                self.random.percent,
                f"{self.random.covered} neurons by {self.random.pictures} pictures, as many tries as guided; not in the paper",
            )
        )
        for quantity, ours, published in (
            ("guided over baseline (%)", increase_percent(self.guided.covered, self.baseline.covered), _guided_over("baseline")),
            ("guided over cumulative (%)", increase_percent(self.guided.covered, self.cumulative.covered), _guided_over("cumulative")),
        ):
            text = ", ".join(f"{model} {value:.3g} %" for model, value in published[1:])
            rows.append(Row.compared("RQ3", quantity, published[0][1], ours, "increase in neurons", text))
        note = "pictures that raised coverage, with maxFailedTries 10; the paper does not give its own"
        rows.append(
            Row.beside("RQ3", "pictures of guided search", paper.GUIDED_IMAGES, self.guided.pictures, note, paper.GUIDED_IMAGES_OTHERS)
        )
        return tuple(rows)

    def sheet(self) -> Sheet:
        """Returns Table 6 with our row and the random column."""
        columns = ("model", "neurons", "baseline", "cumulative", "guided", "random", "guided over baseline (%)", "over cumulative (%)")
        published = tuple(
            (
                row.model,
                row.neurons,
                row.baseline,
                row.cumulative,
                row.guided,
                None,
                increase_percent(row.guided, row.baseline),
                increase_percent(row.guided, row.cumulative),
            )
            for row in paper.TABLE_6
        )
        covered = [way.covered for way in (self.baseline, self.cumulative, self.guided, self.random)]
        increases = (increase_percent(covered[2], covered[0]), increase_percent(covered[2], covered[1]))
        ours: tuple[Figure, ...] = ("ours", self.baseline.neurons, *covered, *increases)
        return Sheet("RQ3, Table 6: activated neurons", columns, (*published, ours), "Ours count the seeds' neurons in every column.")


def combine(run: Run, blank: CoverageTracker) -> Combination:
    """Answers RQ3 from the run over the seeds."""
    seeds = _pictures(run, ORIGINALS)
    ways = {phase: _coverage(run, phase, blank) for phase in ("grid", "greedy", "random")}
    return Combination(
        seeds=seeds,
        baseline=_coverage(run, ORIGINALS, blank),
        cumulative=ways["grid"],
        guided=ways["greedy"],
        random=ways["random"],
    )


def _coverage(run: Run, phase: str, blank: CoverageTracker) -> ActivatedNeurons:
    together = blank.fresh()
    for part in {ORIGINALS, phase}:
        for tracker in merged_coverage(run, part, blank).values():
            together.merge(tracker)
    nc = together.state("nc").coverage()
    return ActivatedNeurons(phase, _pictures(run, phase), nc.covered, nc.total)


def _pictures(run: Run, phase: str) -> int:
    return sum(table.num_rows for table in run.iter_records(phase, ("frame_index",)))


def _guided_over(way: str) -> list[tuple[str, float]]:
    return [(row.model, increase_percent(row.guided, getattr(row, way))) for row in paper.TABLE_6]
