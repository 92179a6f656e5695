"""What a search for critical conditions found: for every repeat of every search, coverage and errors; and how searches compare.

Reference: TACTIC, section 4.1 (metrics), Tables 5 to 7 and 11 to 14 (means over repeats), 8, 9, 15 and 16 (tests).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan, radians
from typing import TYPE_CHECKING

import numpy as np

from skidpad.core.errors import BadRunError
from skidpad.kinds.pictures.styles.campaign import COVERED, GUIDES, condition_file, covered_by, phase_name
from skidpad.kinds.pictures.styles.condition import Condition
from skidpad.statistics.intervals import Interval, wilson
from skidpad.statistics.ranks import Alternative, a12, mann_whitney

if TYPE_CHECKING:
    from skidpad.core.images import FloatArray
    from skidpad.coverage.tracker import CoverageTracker
    from skidpad.kinds.pictures.styles.campaign import Tactic
    from skidpad.runs.folder import Run


ALPHA = 0.05
"""TACTIC, appendix C.1."""

FAILED = "FAILED"
"""The paper's word for a test that cannot be made: every repeat of both searches gave the same number."""


@dataclass(frozen=True)
class ConditionSummary:
    """One condition with its errors: errors[i] scenes moved by bounds_deg[i] or more, of `judged`; coverage of its scenes alone."""

    condition: Condition
    errors: tuple[int, ...]
    judged: int
    scenes: int
    coverage: tuple[float, ...]
    mean_divergence_deg: float

    @property
    def rejection_rate(self) -> Interval:
        """The share of scenes that the filter refused."""
        return wilson(self.condition.rejected, self.scenes)

    def error_rate(self, bound: int) -> Interval:
        """The share of judged scenes that are errors at a bound."""
        return wilson(self.errors[bound], self.judged)


@dataclass(frozen=True)
class Repeat:
    """One repeat of one search: all its conditions together; coverage in the order of GUIDES."""

    search: str
    number: int
    conditions: tuple[ConditionSummary, ...]
    coverage: tuple[float, ...]

    @cached_property
    def errors(self) -> tuple[int, ...]:
        """Errors at each bound, over all conditions."""
        return tuple(int(total) for total in np.sum([each.errors for each in self.conditions], axis=0))

    @property
    def judged(self) -> int:
        """How many answers the errors are among."""
        return sum(each.judged for each in self.conditions)


@dataclass(frozen=True, slots=True)
class Compared:
    """One metric of two searches over repeats: means, p of the smaller tail of Mann and Whitney's U, and A12.

    Both are NaN where there is no test: with fewer than two repeats of a search, or where the test FAILED.

    Deviates: the p-value is exact up to a few dozen repeats, where the paper's is the normal approximation of the same tail.
    """

    metric: str
    mean: float
    other_mean: float
    p_value: float
    a12: float
    enough: bool

    @property
    def tested(self) -> bool:
        """Whether there is a p-value."""
        return not isnan(self.p_value)

    @property
    def failed(self) -> bool:
        """Whether there were repeats enough, but every one of both searches gave the same number."""
        return self.enough and not self.tested

    @property
    def better(self) -> bool:
        """Whether the first search is significantly better."""
        return self.tested and self.p_value < ALPHA and self.a12 > 0.5


@dataclass(frozen=True)
class TacticSummary:
    """A run: its searches, each with those repeats that are finished; problems: frames that were to be scenes and are broken.

    reachable: in the order of GUIDES, the share of all regions that can be covered under the profile; coverage is of all, as in the paper.
    """

    bounds_deg: tuple[float, ...]
    criterion: str
    repeats: tuple[Repeat, ...]
    problems: int = 0
    reachable: tuple[float, ...] = (1.0,) * len(GUIDES)

    @property
    def searches(self) -> tuple[str, ...]:
        """The searches that have a finished repeat, in the order of the run."""
        return tuple(dict.fromkeys(repeat.search for repeat in self.repeats))

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics: criteria, then bounds."""
        return (*(name.upper() for name in GUIDES), *(f"{bound:g}°" for bound in self.bounds_deg))

    def of(self, search: str) -> tuple[Repeat, ...]:
        """Returns the repeats of a search."""
        return tuple(repeat for repeat in self.repeats if repeat.search == search)

    def worst_of(self, search: str) -> Repeat:
        """Returns the repeat of a search with the most errors, which is the one that is shown; of equals the first."""
        return max(self.of(search), key=lambda repeat: repeat.errors)

    def values(self, search: str) -> FloatArray:
        """Returns every metric of every repeat, (repeats, metrics): coverage within 0..1, then errors."""
        rows = [[*repeat.coverage, *repeat.errors] for repeat in self.of(search)]
        return np.array(rows, np.float64).reshape(len(rows), len(self.metrics))

    def means(self, search: str) -> FloatArray:
        """Returns the mean of every metric over repeats."""
        return np.asarray(self.values(search).mean(axis=0), np.float64)

    def means_of_one(self, search: str) -> FloatArray:
        """Returns the mean of every metric over single conditions, as in Tables 11 and 12."""
        rows = [[*each.coverage, *each.errors] for repeat in self.of(search) for each in repeat.conditions]
        return np.asarray(np.array(rows, np.float64).mean(axis=0), np.float64)

    def compare(self, search: str, other: str) -> tuple[Compared, ...]:
        """Compares two searches metric by metric, over repeats."""
        first, second = self.values(search), self.values(other)
        return tuple(compared(name, first[:, column], second[:, column]) for column, name in enumerate(self.metrics))


def compared(metric: str, first: FloatArray, second: FloatArray) -> Compared:
    """Compares two samples as the paper does."""
    means = (float(first.mean()) if len(first) else float("nan"), float(second.mean()) if len(second) else float("nan"))
    together = np.concatenate([first, second])
    enough = min(len(first), len(second)) >= 2
    if not enough or np.ptp(together) == 0.0:
        return Compared(metric, *means, float("nan"), float("nan"), enough)
    size = a12(first, second).size
    tail = Alternative.GREATER if size >= 0.5 else Alternative.LESS
    return Compared(metric, *means, mann_whitney(first, second, tail).p_value, size, enough)


def summarise(campaign: Tactic, run: Run) -> TacticSummary:
    """Counts the finished repeats of a run."""
    settings = campaign.settings
    blank = campaign.tracker(campaign.profile(run))
    repeats = []
    for phase, search, number in campaign.phases():
        done = run.completed(phase)
        if not done >= set(range(settings.conditions)):
            continue
        conditions = tuple(
            _condition(run, phase, place, settings.bounds_deg, _coverage_of_one(run, phase, place, blank))
            for place in range(settings.conditions)
        )
        covered = covered_by(run, phase, blank)
        repeats.append(Repeat(search, number, conditions, tuple(covered.state(name).ratio for name in GUIDES)))
    found = [blank.state(name).coverage() for name in GUIDES]
    reachable = tuple(each.reachable / each.total for each in found)
    return TacticSummary(settings.bounds_deg, settings.criterion, tuple(repeats), len(run.problems()), reachable)


def load_condition(run: Run, phase: str, number: int) -> Condition:
    """Reads one condition of a run."""
    data = run.read_state(condition_file(phase, number))
    if data is None:
        raise BadRunError(f"the run {run.path} lacks its file {condition_file(phase, number)}; restore it from a copy")
    return Condition.from_json(data)


def conditions_of(run: Run, search: str, repeat: int, count: int) -> tuple[Condition, ...]:
    """Reads the conditions of one repeat of a search, as far as they are found."""
    phase = phase_name(search, repeat)
    return tuple(load_condition(run, phase, number) for number in range(count) if number in run.completed(phase))


def errors_at(divergence_rad: FloatArray, bounds_deg: Sequence[float]) -> tuple[int, ...]:
    """Counts the divergences of each bound or more; what is not finite is an error at every bound.

    Reference: TACTIC, section 3.2.2: |theta_o - theta_t| < epsilon is consistent.
    """
    broken = ~np.isfinite(divergence_rad)
    with np.errstate(invalid="ignore"):
        return tuple(int((broken | (divergence_rad >= radians(bound))).sum()) for bound in bounds_deg)


def _condition(run: Run, phase: str, number: int, bounds_deg: tuple[float, ...], coverage: tuple[float, ...]) -> ConditionSummary:
    columns = ("original", "mutant", "excess")
    table = next(table for place, table in enumerate(run.iter_records(phase, columns)) if place == number)
    original, mutant, excess = (table[name].to_numpy() for name in columns)
    judged = ~np.isnan(excess)
    divergence = np.abs(mutant - original)[judged]
    finite = divergence[np.isfinite(divergence)]
    mean_deg = float(np.degrees(finite.mean())) if len(finite) else float("nan")
    condition = load_condition(run, phase, number)
    return ConditionSummary(condition, errors_at(divergence, bounds_deg), int(judged.sum()), len(excess), coverage, mean_deg)


def _coverage_of_one(run: Run, phase: str, number: int, blank: CoverageTracker) -> tuple[float, ...]:
    # Merging by taking the later one leaves the last of those before `number + 1`: the one itself.
    packed = run.coverage(phase, bytes, lambda _, later: later, number + 1)[COVERED]
    tracker = blank.fresh()
    tracker.unpack(packed)
    return tuple(tracker.state(name).ratio for name in GUIDES)
