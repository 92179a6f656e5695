"""What a run found, in figures: counted shard by shard, so memory does not grow with the run."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skidpad.campaigns.guided import merged_coverage
from skidpad.campaigns.originals import ORIGINALS
from skidpad.core.stimuli import Recipe
from skidpad.statistics.intervals import wilson

if TYPE_CHECKING:
    from skidpad.core.images import IntArray
    from skidpad.coverage.tracker import CoverageTracker
    from skidpad.drives.drive import Problem
    from skidpad.runs.folder import Run

HISTOGRAM_DEG = tuple(float(edge) for edge in (0, 0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 40, 60, 90, 180))
"""Edges of the histogram of deviations: fine where relations are drawn, coarse where answers are absurd."""


@dataclass(frozen=True, slots=True)
class Rate:
    """How often cases of one kind broke the relation, with its 95 % Wilson interval."""

    name: str
    parameters: str
    cases: int
    findings: int
    low: float
    high: float

    @classmethod
    def of(cls, name: str, parameters: str, cases: int, findings: int) -> Rate:
        """Computes the interval."""
        interval = wilson(findings, cases)
        return cls(name, parameters, cases, findings, interval.low, interval.high)

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
    """The figures of one run; angles in degrees."""

    originals: int
    overall: Rate
    by_stimulus: tuple[Rate, ...]
    by_parameters: tuple[Rate, ...]
    coverage: tuple[CoverageGain, ...]
    deviations: IntArray
    not_finite: int
    problems: tuple[Problem, ...]


def summarise(run: Run, blank: CoverageTracker) -> Summary:
    """Counts the records of a run; grid cases by transformation and parameters, searched ones by their search."""
    cases: Counter[tuple[str, str]] = Counter()
    findings: Counter[tuple[str, str]] = Counter()
    deviations = np.zeros(len(HISTOGRAM_DEG) - 1, np.int64)
    not_finite = 0
    for phase in _phases(run):
        for table in run.iter_records(phase, ("stimulus", "recipe", "violated", "original_rad", "mutant_rad")):
            keys = (
                table.group_by(["stimulus", "recipe"], use_threads=False)
                .aggregate([("violated", "count"), ("violated", "sum")])
                .to_pylist()
            )
            for row in keys:
                # pairs drawn by a search are too many kinds for a table of their own
                key = (row["stimulus"], row["recipe"]) if phase == "grid" else (phase, "")
                cases[key] += row["violated_count"]
                findings[key] += row["violated_sum"]
            deviation_deg = np.degrees(np.abs(table["mutant_rad"].to_numpy() - table["original_rad"].to_numpy()))
            finite = deviation_deg[np.isfinite(deviation_deg)]
            not_finite += len(deviation_deg) - len(finite)
            deviations += np.histogram(np.minimum(finite, HISTOGRAM_DEG[-1]), HISTOGRAM_DEG)[0]
    return Summary(
        originals=sum(table.num_rows for table in run.iter_records(ORIGINALS, ("frame_index",))),
        overall=Rate.of("all", "", cases.total(), findings.total()),
        by_stimulus=_by_stimulus(cases, findings),
        by_parameters=tuple(
            Rate.of(name, str(Recipe.from_json(recipe).steps[0].params), count, findings[name, recipe])
            for (name, recipe), count in cases.items()
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


def _phases(run: Run) -> list[str]:
    return [phase for phase in run.phases() if phase != ORIGINALS]


def _by_stimulus(cases: Counter[tuple[str, str]], findings: Counter[tuple[str, str]]) -> tuple[Rate, ...]:
    totals: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for key, count in cases.items():
        totals[key[0]][0] += count
        totals[key[0]][1] += findings[key]
    return tuple(Rate.of(name, "", count, found) for name, (count, found) in totals.items())
