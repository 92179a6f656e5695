"""How likely a subject fails in a domain: drives that an estimator asks for, kept as any others.

A shard is one batch of the estimator. It follows from the records of those before it, so that a run that was stopped goes on alike, and
so that the estimate of a finished run is read from its records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

import numpy as np

from skidpad.core.images import BoolArray, FloatArray
from skidpad.core.progress import Progress, silent
from skidpad.core.stimuli import Recipe
from skidpad.kinds.drives.loop import Wheel
from skidpad.kinds.drives.records import Case, build_records
from skidpad.kinds.drives.settings import OnlineSettings
from skidpad.page.model import Fact, Headline
from skidpad.page.wording import NOTHING, count, counted
from skidpad.runs.segments import ShardResult
from skidpad.runs.shards import one_by_one, run_shards
from skidpad.statistics.rare import Batch, Estimate, Estimator, Goal, Method, estimator

if TYPE_CHECKING:
    import pyarrow as pa

    from skidpad.kinds.drives.work import ClosedLoopRunner
    from skidpad.runs.folder import Run
    from skidpad.runs.workers.protocol import Crew
    from skidpad.worlds.scenario.domain import Domain
    from skidpad.worlds.scenario.scenario import Scenario


PHASE = "estimate"
BATCH = 32
"""Drives that an estimator asks for at once, where nobody says; plain Monte Carlo is looked at after so many."""


def criticality_of(row: Mapping[str, Any]) -> float:
    """Returns the largest distance from the lane in caps: at least 1 of a drive that failed, below 1 of others; NaN without a verdict."""
    excess = float(row["excess"])
    if row["violated"]:
        return max(excess, 1.0)
    return min(excess, 1.0 - 1e-9) if isfinite(excess) else nan


@dataclass(frozen=True, eq=False)
class FailureEstimate:
    """The estimate of one campaign: the settings say the method, the budget and when to stop."""

    settings: OnlineSettings
    domain: Domain
    runner: ClosedLoopRunner

    def execute(self, run: Run, crew: Crew, progress: Progress = silent) -> int:
        """Makes the drives that the estimator asks for and the run lacks; returns how many shards there are."""
        work = self._work()
        batch, index, driven = next(work), 0, 0
        kept = dict(zip(sorted(run.completed(PHASE)), run.iter_records(PHASE, ("excess", "violated")), strict=True))
        while True:
            if index not in kept:
                # bound now: the next round has another batch
                def shard(number: int, batch: Batch = batch, first: int = driven) -> ShardResult:
                    kept[number] = self._driven(batch, first, crew)
                    return ShardResult(PHASE, number, kept[number])

                run_shards(run, PHASE, max(index, *kept, 0) + 1, one_by_one(shard))
            driven += len(batch.points)
            progress(driven, max(self.settings.scenarios, driven), batch.stage)
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
        s = self.settings
        goal = Goal(s.scenarios, s.stop_below, s.within, batch=s.width or BATCH)
        return estimator(Method(s.estimate), len(self.domain.variables), goal, s.seed, self._is_valid)

    def _scenario(self, point: FloatArray) -> Scenario:
        # A scenario's own seed hangs on its point alone, so that the same point drives the same.
        seed = int.from_bytes(blake2b(point.tobytes(), digest_size=4).digest(), "big")
        return self.domain.decode(point, seed)

    def _is_valid(self, points: FloatArray) -> BoolArray:
        return np.array([not self.domain.violations(self._scenario(point)) for point in points], np.bool_)

    def _driven(self, batch: Batch, first: int, crew: Crew) -> pa.Table:
        cases = [
            Case(f"{PHASE}-{first + place:05d}", self._scenario(point), batch.stage, Recipe(), slot=first + place)
            for place, point in enumerate(batch.points)
        ]
        courses = self.runner.courses_by(crew, cases, Wheel.SUBJECT) if cases else []
        return build_records(cases, courses, Wheel.SUBJECT, self.runner.world, self.runner.subject.sha256)


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


def verdict_of(found: Estimate, name: str, domain: str) -> str:
    """Words the estimate."""
    low, high = found.interval.low, found.interval.high
    rate = f"fails with a probability of {probability(found.interval.estimate)} a drive"
    bounds = f"{probability(low)} to {probability(high)} with {found.interval.confidence:.0%} confidence"
    made = f"by {METHODS[found.method]}, {counted(found.simulations, 'drive')}"
    return f"{name} {rate} in the domain {domain}: {bounds}, {made}; {found.stopped}."


def headlines_of(found: Estimate) -> tuple[Headline, ...]:
    """The figures at the top of the page."""
    plain = found.plain_simulations
    worth = f"plain Monte Carlo of a fixed size needs about {count(round(plain))} for the same width" if isfinite(plain) else ""
    return (
        Headline(
            "probability of a failure a drive",
            probability(found.interval.estimate),
            f"{probability(found.interval.low)} to {probability(found.interval.high)}",
        ),
        Headline("drives", count(found.simulations), worth),
        Headline("drives that failed", count(found.failures), f"{count(found.unjudged)} could not be judged"),
    )


def facts_of(found: Estimate) -> tuple[Fact, ...]:
    """What was done and why."""
    return (Fact("Method", f"{METHODS[found.method]}: {found.chosen}"),)


def figures_of(found: Estimate) -> Mapping[str, object]:
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
        "drives": found.simulations,
        "failures": found.failures,
        "unjudged": found.unjudged,
        "plain_drives": plain if isfinite(plain) else None,
    }
