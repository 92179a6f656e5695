"""What a run found, in figures: counted shard by shard, so memory does not grow with the run."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skidpad.campaigns.guided import merged_coverage
from skidpad.campaigns.originals import ORIGINALS
from skidpad.core.angles import AngleUnit
from skidpad.core.stimuli import Recipe
from skidpad.oracles.error import squared_to_rad2
from skidpad.statistics.intervals import wilson

if TYPE_CHECKING:
    from skidpad.campaigns.outputs import JudgedOutput
    from skidpad.core.images import IntArray
    from skidpad.coverage.tracker import CoverageTracker
    from skidpad.drives.drive import Problem
    from skidpad.runs.folder import Run

EPSILON_RAD2 = squared_to_rad2(0.03, AngleUnit.SCALED_25)
"""DeepTest's highlighted epsilon of Eq. 3 (section 5, Table 8), which is in (degrees / 25)^2."""


@dataclass(frozen=True, slots=True)
class Rate:
    """How often cases of one kind broke the relation, with its 95 % Wilson interval; the MSE is against the labels."""

    name: str
    parameters: str
    cases: int
    findings: int
    low: float
    high: float
    mse_rad2: float = nan

    @classmethod
    def of(cls, name: str, parameters: str, cases: int, findings: int, mse_rad2: float = nan) -> Rate:
        """Computes the interval."""
        interval = wilson(findings, cases)
        return cls(name, parameters, cases, findings, interval.low, interval.high, mse_rad2)

    @property
    def rate(self) -> float:
        """The share of findings; NaN without cases."""
        return self.findings / self.cases if self.cases else float("nan")


@dataclass(frozen=True, slots=True)
class CoverageGain:
    """Regions of one criterion covered by the originals, and together with the mutants of `stimulus` ("" is all)."""

    criterion: str
    stimulus: str
    originals: int
    together: int
    total: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of one run. deviations: cases by |mutant - original|, between the edges of the judged output."""

    originals: int
    mse_original_rad2: float
    overall: Rate
    by_stimulus: tuple[Rate, ...]
    by_parameters: tuple[Rate, ...]
    coverage: tuple[CoverageGain, ...]
    deviations: IntArray
    not_finite: int
    problems: tuple[Problem, ...]

    def near_original(self, epsilon_rad2: float = EPSILON_RAD2) -> tuple[Rate, ...]:
        """Returns the (transformation, parameters) that Eq. 3 keeps: those whose MSE is close to that of the originals.

        Reference: DeepTest 5 (RQ4), Eq. 3.
        """
        return tuple(rate for rate in self.by_parameters if abs(rate.mse_rad2 - self.mse_original_rad2) <= epsilon_rad2)


def summarise(run: Run, blank: CoverageTracker, judged: JudgedOutput) -> Summary:
    """Counts the records of a run; grid cases by transformation and parameters, searched ones by their search."""
    cases: Counter[tuple[str, str]] = Counter()
    order: dict[str, None] = {}
    findings: Counter[tuple[str, str]] = Counter()
    errors: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    edges = judged.edges
    deviations = np.zeros(len(edges) - 1, np.int64)
    not_finite = 0
    for phase in _phases(run):
        for table in run.iter_records(phase, ("stimulus", "recipe", "violated", "label", "original", "mutant")):
            order |= dict.fromkeys(table["recipe"].unique().to_pylist())  # as computed: Arrow's groups come in any order
            squared = (table["mutant"].to_numpy() - table["label"].to_numpy()) ** 2
            with_error = table.append_column("squared", pa.array(squared, mask=~np.isfinite(squared)))
            sums = [("violated", "count"), ("violated", "sum"), ("squared", "count"), ("squared", "sum")]
            for row in with_error.group_by(["stimulus", "recipe"], use_threads=False).aggregate(sums).to_pylist():
                # pairs drawn by a search are too many kinds for a table of their own
                key = (row["stimulus"], row["recipe"]) if phase == "grid" else (phase, "")
                cases[key] += row["violated_count"]
                findings[key] += row["violated_sum"]
                errors[key][0] += row["squared_sum"] or 0.0
                errors[key][1] += row["squared_count"]
            deviation = np.abs(table["mutant"].to_numpy() - table["original"].to_numpy()) * judged.shown(1.0)
            finite = deviation[np.isfinite(deviation)]
            not_finite += len(deviation) - len(finite)
            deviations += np.histogram(np.minimum(finite, edges[-1]), edges)[0]
    places = {recipe: place for place, recipe in enumerate(order)}
    originals = run.records(ORIGINALS, ("original", "label"))
    squared = (originals["original"].to_numpy() - originals["label"].to_numpy()) ** 2
    return Summary(
        originals=originals.num_rows,
        mse_original_rad2=_mean([float(np.nansum(squared)), float(np.isfinite(squared).sum())]),
        overall=Rate.of("all", "", cases.total(), findings.total()),
        by_stimulus=_by_stimulus(cases, findings),
        by_parameters=tuple(
            Rate.of(name, str(Recipe.from_json(recipe).steps[0].params), count, findings[name, recipe], _mean(errors[name, recipe]))
            for (name, recipe), count in sorted(cases.items(), key=lambda item: places.get(item[0][1], -1))
            if recipe
        ),
        coverage=coverage_gains(run, blank),
        deviations=deviations,
        not_finite=not_finite,
        problems=run.problems(),
    )


def coverage_gains(run: Run, blank: CoverageTracker) -> tuple[CoverageGain, ...]:
    """Returns what each stimulus, and all together, added to the coverage of the originals."""
    originals = blank.fresh()
    for tracker in merged_coverage(run, ORIGINALS, blank).values():
        originals.merge(tracker)
    groups = {name: tracker for phase in _phases(run) for name, tracker in merged_coverage(run, phase, blank).items()}
    everything = blank.fresh()
    everything.merge(originals)
    for tracker in groups.values():
        everything.merge(tracker)
        tracker.merge(originals)
    return tuple(
        CoverageGain(before.criterion, name, before.covered, after.covered, before.total)
        for name, tracker in [("", everything), *groups.items()]
        for before, after in zip(originals.coverage(), tracker.coverage(), strict=True)
    )


def _mean(total_and_count: list[float]) -> float:
    total, count = total_and_count
    return total / count if count else nan


def _phases(run: Run) -> list[str]:
    return [phase for phase in run.phases() if phase != ORIGINALS]


def _by_stimulus(cases: Counter[tuple[str, str]], findings: Counter[tuple[str, str]]) -> tuple[Rate, ...]:
    totals: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for key, count in cases.items():
        totals[key[0]][0] += count
        totals[key[0]][1] += findings[key]
    return tuple(Rate.of(name, "", count, found) for name, (count, found) in totals.items())
