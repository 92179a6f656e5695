"""How likely a failure is: simulations that an estimator asks for, kept as any other cases of a run.

A shard is one batch of the estimator. It follows from the records of those before it, so that a run that was stopped goes on alike, and
so that the estimate of a finished run is read from its records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, nan
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from skidpad.core.images import BoolArray, FloatArray
from skidpad.core.progress import Progress, silent
from skidpad.kinds.shards import one_by_one, run_shards
from skidpad.page.model import Fact, Headline
from skidpad.page.wording import NOTHING, count, counted
from skidpad.runs.records import ShardResult
from skidpad.statistics.rare import Batch, Estimate, Estimator, Goal, Method, estimator

if TYPE_CHECKING:
    import pyarrow as pa

    from skidpad.runs.folder import Run
    from skidpad.runs.workers.protocol import Crew


PHASE = "estimate"


class Simulation(Protocol):
    """What is simulated at points of the unit cube."""

    @property
    def dimensions(self) -> int:
        """How many numbers a point has."""
        ...

    def is_valid(self, points: FloatArray, /) -> BoolArray:
        """Tells which points, (N, dimensions), are of the domain, (N,)."""
        ...

    def records(self, batch: Batch, first: int, crew: Crew, /) -> pa.Table:
        """Simulates a batch, whose first point is number `first` of all; a row a point, with `excess` and `violated`."""
        ...


def criticality_of(row: Mapping[str, Any]) -> float:
    """Returns how near to a failure a case came: at least 1 of one that failed, below 1 of others; NaN without a verdict."""
    excess = float(row["excess"])
    if row["violated"]:
        return max(excess, 1.0)
    return min(excess, 1.0 - 1e-9) if isfinite(excess) else nan


@dataclass(frozen=True, eq=False)
class FailureEstimate:
    """The estimate of one campaign."""

    simulation: Simulation
    method: Method
    goal: Goal
    seed: int

    def execute(self, run: Run, crew: Crew, progress: Progress = silent) -> int:
        """Simulates what the estimator asks for and the run lacks; returns how many shards there are."""
        work = self._work()
        batch, index, made = next(work), 0, 0
        kept = dict(zip(sorted(run.completed(PHASE)), run.iter_records(PHASE, ("excess", "violated")), strict=True))
        while True:
            if index not in kept:
                # bound now: the next round has another batch
                def shard(number: int, batch: Batch = batch, first: int = made) -> ShardResult:
                    kept[number] = self.simulation.records(batch, first, crew)
                    return ShardResult(PHASE, number, kept[number])

                run_shards(run, PHASE, max(index, *kept, 0) + 1, one_by_one(shard))
            made += len(batch.points)
            progress(made, max(self.goal.budget, made), batch.stage)
            try:
                batch = work.send(_criticalities(kept.pop(index)))
            except StopIteration:
                return index + 1
            index += 1

    def read(self, run: Run) -> Estimate | None:
        """Returns the estimate of a run from its records; None where it is not finished."""
        work = self._work()
        next(work)
        try:
            for table in run.iter_records(PHASE, ("excess", "violated")):
                work.send(_criticalities(table))
        except StopIteration as end:
            found: Estimate = end.value
            return found
        return None

    def _work(self) -> Estimator:
        return estimator(self.method, self.simulation.dimensions, self.goal, self.seed, self.simulation.is_valid)


def _criticalities(table: pa.Table) -> FloatArray:
    rows = table.select(["excess", "violated"]).to_pylist()
    return np.array([criticality_of(row) for row in rows], np.float64)


METHODS = {
    Method.MONTE_CARLO: "plain Monte Carlo",
    Method.IMPORTANCE: "importance sampling (cross-entropy)",
    Method.SPLITTING: "adaptive multilevel splitting",
}


def probability(value: float) -> str:
    """Words a probability with two digits, however small."""
    return NOTHING if not isfinite(value) else "0" if value == 0 else f"{value:.2g}"


def _percent(share: float) -> str:
    # two digits however small, since 0 % would say too much
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"


def verdict_of(found: Estimate, name: str, where: str, what: str = "drive") -> str:
    """Words the estimate. where: the distribution, as "in the domain restricted". what: one simulation."""
    low, high = found.interval.low, found.interval.high
    if found.interval.estimate == 0 and not found.failures:
        none = f"No failure in {counted(found.simulations - found.unjudged, what)} of {name} {where}"
        most = f"at most {_percent(high)} of {what}s fail ({100 * found.interval.confidence:.0f} % confidence)"
        return f"{none}: {most}, by {METHODS[found.method]}; {found.stopped}."
    rate = f"fails with a probability of {probability(found.interval.estimate)} a {what}"
    bounds = f"{probability(low)} to {probability(high)} with {100 * found.interval.confidence:.0f} % confidence"
    made = f"by {METHODS[found.method]}, {counted(found.simulations, what)}"
    return f"{name} {rate} {where}: {bounds}, {made}; {found.stopped}."


def headlines_of(found: Estimate, what: str = "drive") -> tuple[Headline, ...]:
    """The figures at the top of the page."""
    plain = found.plain_simulations
    is_compared = isfinite(plain) and found.method is not Method.MONTE_CARLO
    worth = f"plain Monte Carlo of a fixed size needs about {count(round(plain))} for the same width" if is_compared else ""
    return (
        Headline(
            f"probability of a failure a {what}",
            probability(found.interval.estimate),
            f"{probability(found.interval.low)} to {probability(found.interval.high)}",
        ),
        Headline(f"{what}s", count(found.simulations), worth),
        Headline(f"{what}s that failed", count(found.failures), f"{count(found.unjudged)} could not be judged"),
    )


def facts_of(found: Estimate) -> tuple[Fact, ...]:
    """What was done and why."""
    return (Fact("Method", f"{METHODS[found.method]}: {found.chosen}"),)


def figures_of(found: Estimate, what: str = "drive") -> Mapping[str, object]:
    """The estimate as plain values."""
    plain = found.plain_simulations
    return {
        "probability": found.interval.estimate,
        "low": found.interval.low,
        "high": found.interval.high,
        "confidence": found.interval.confidence,
        "note": found.interval.note,
        "method": found.method.value,
        "chosen": found.chosen,
        "stopped": found.stopped,
        f"{what}s": found.simulations,
        "failures": found.failures,
        "unjudged": found.unjudged,
        f"plain_{what}s": plain if isfinite(plain) else None,
    }


ESTIMATED = (
    "An estimate chooses its cases, so that shares of the cases below say nothing of the domain. The interval of plain Monte Carlo holds "
    "whatever the failures look like; those of importance sampling and splitting hold unless a whole kind of failure was never met."
)
