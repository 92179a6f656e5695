"""Summarises a run of duels: failure rates with errors, tests against a random front, costs of repairs, avoidability of crashes.

Reference: adversarial testing, section V-B. SEM is given across tests of one training and across trainings; the comparison with the
random front vehicle is made over the tests of each training, as in Table I, and with a training as the unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import comb, isfinite, nan
from typing import TYPE_CHECKING

import numpy as np

from skidpad.core.images import FloatArray
from skidpad.highway.avoidability import Avoidable
from skidpad.highway.layout import CRASH
from skidpad.highway.safe_distance import FirstBreak
from skidpad.kinds.duels.drivers import AGGRESSIVE, IDM, ORACLE, RANDOM, SEARCH, SLOW, TrainingRecord, trained_name
from skidpad.kinds.duels.names import (
    EGO,
    EVERY_EGO,
    OTHER_REWARDS,
    OTHER_SEEDS,
    OWN,
    POOL,
    after_column,
    front_name,
    populations,
    read_counts,
    repair_family,
)
from skidpad.kinds.duels.records import BoutCounts
from skidpad.kinds.duels.settings import GIVEN
from skidpad.statistics.intervals import Interval, MeanError, mean_error, wilson
from skidpad.statistics.ranks import Effect, RankTest, a12, mann_whitney

if TYPE_CHECKING:
    from skidpad.kinds.duels.phases import DuelWork
    from skidpad.kinds.duels.settings import DuelSettings
    from skidpad.runs.folder import Run


ALPHA = 0.05
WINDOW = 50
"""Training episodes that a point of a training curve averages; the paper's window (section V-A)."""


@dataclass(frozen=True, slots=True)
class DuelColumn:
    """An ego family against one kind of front vehicle: counts of all episodes, and the failure rate of every test of every training."""

    family: str
    column: str
    rates: tuple[tuple[float, ...], ...]
    """(trainings, tests)"""
    episodes: int
    crashes: int
    overtaken: int
    timeouts: int
    errors: int
    ego_mps: float
    front_mps: float
    problem: str = ""
    speeds_mps: tuple[float, ...] = ()
    """The ego's mean speed in each training."""

    @property
    def speed(self) -> MeanError:
        """The mean over trainings of the ego's mean speed, with the SEM across them."""
        return mean_error(self.speeds_mps)

    @property
    def judged(self) -> int:
        """Episodes that did not end as an error; a column without any has measured nothing."""
        return self.episodes - self.errors

    @property
    def by_training(self) -> tuple[MeanError, ...]:
        """The mean of each training with its SEM across tests."""
        return tuple(mean_error(tests) for tests in self.rates)

    @property
    def across_trainings(self) -> MeanError:
        """The mean over trainings with the SEM across them."""
        return mean_error([training.mean for training in self.by_training])

    @property
    def interval(self) -> Interval:
        """The rate over all episodes with Wilson's interval; trainings differ, so read it as a lower bound of the uncertainty."""
        return wilson(self.crashes, self.judged)


@dataclass(frozen=True, slots=True)
class Versus:
    """An adversary against the random front vehicle."""

    group: str
    by_training: tuple[tuple[RankTest, Effect], ...]
    """Over the tests of each training, as in Table I."""
    over_trainings: tuple[RankTest, Effect]
    """With a training as the unit."""


def can_decide(test: RankTest) -> bool:
    """Tells whether so many values could show a difference at all: complete separation would have a p-value below ALPHA."""
    return min(test.n, test.m) > 0 and 2.0 / comb(test.n + test.m, test.n) < ALPHA


@dataclass(frozen=True, slots=True, eq=False)
class Trainings:
    """The trainings of one phase."""

    phase: str
    records: tuple[TrainingRecord, ...]

    @property
    def failure_rates(self) -> tuple[float, ...]:
        """Of each training over its last 100 episodes."""
        return tuple(record.failure_rate for record in self.records)

    def curve(self, what: str) -> FloatArray:
        """Returns the mean over trainings, (episodes,): of `returns` or of `crashes`, over the last WINDOW episodes at each."""
        rows = [record.returns if what == "returns" else (record.outcomes == CRASH).astype(np.float64) for record in self.records]
        total = np.cumsum(np.mean(rows, axis=0))
        before = np.concatenate([np.zeros(min(WINDOW, len(total))), total[:-WINDOW]])
        return np.asarray((total - before) / np.minimum(np.arange(1, len(total) + 1), WINDOW), np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Crashes:
    """The crashes of one column that are kept in the run: when they could last be avoided, and who broke the safe distance first."""

    family: str
    column: str
    count: int
    notice_s: FloatArray
    """Seconds from the last moment at which the ego could still escape to the impact, of the crashes that have one."""
    never: int
    undecided: int
    broken_by: tuple[tuple[str, int], ...]

    def avoidable_before(self, seconds: float) -> float:
        """Returns the share that could still be avoided so many seconds before the impact; NaN where nothing was decided."""
        decided = len(self.notice_s) + self.never
        return float((self.notice_s <= seconds + 1e-9).sum()) / decided if decided else nan


@dataclass(frozen=True, slots=True, eq=False)
class DuelSummary:
    """Everything that a report of duels shows."""

    columns: tuple[DuelColumn, ...]
    trainings: tuple[Trainings, ...]
    versus: tuple[Versus, ...]
    crashes: tuple[Crashes, ...]
    best_ego: str
    best_fronts: tuple[tuple[str, int], ...]
    unrepaired: tuple[DuelColumn, ...] = ()
    """The ego before retraining: against IDM, and against the adversary of each group that it is retrained against."""
    each_given: tuple[DuelColumn, ...] = ()
    """The ego against each of several adversaries that were given, whose column `given` holds them together; named by their files."""

    def column(self, family: str, column: str) -> DuelColumn | None:
        """Returns one column; None where it was not tested."""
        return next((found for found in self.columns if (found.family, found.column) == (family, column)), None)

    def before(self, column: str) -> DuelColumn | None:
        """Returns what the ego that is retrained did against a front, or the best adversary of a group; None where it was not tested."""
        return next((found for found in self.unrepaired if found.column == column), None) or self.column(EGO, column)

    def unavoidable(self, family: str, column: str) -> int:
        """Returns how many of the kept crashes of a column no sequence of the ego's actions avoids."""
        return next((found.never for found in self.crashes if (found.family, found.column) == (family, column)), 0)

    def training(self, phase: str) -> Trainings | None:
        """Returns the trainings of a phase; None where there are none."""
        return next((found for found in self.trainings if found.phase == phase), None)

    @property
    def errors(self) -> int:
        """Episodes that a policy failed in."""
        return sum(column.errors for column in self.columns)

    @property
    def episodes(self) -> int:
        """All episodes of all tests."""
        return sum(column.episodes for column in self.columns)

    @property
    def unmeasured(self) -> str:
        """Says why nothing was measured about the ego; empty if an episode of it was judged, or none was driven."""
        own = [column for column in self.columns if column.family == EGO]
        if not own or any(column.judged for column in own):
            return ""
        total = sum(column.episodes for column in own)
        problem = next((column.problem for column in own if column.problem), "")
        return f"nothing was measured: {total:,} of {total:,} episodes of the ego ended by a policy's error; the first: {problem}"


def summarise(work: DuelWork) -> DuelSummary:
    """Counts a run; what it has not computed yet is left out."""
    run, settings = work.run, work.settings
    counts = [count for phase in run.phases() if phase.startswith("test-") for count in read_counts(run, phase)]
    names = dict.fromkeys((count.bout.family, count.bout.column) for count in counts)
    columns = {name: _column([count for count in counts if (count.bout.family, count.bout.column) == name]) for name in names}
    order = {family: place for place, family in enumerate(dict.fromkeys(_families(work)))}
    places = {column: place for place, column in enumerate(_columns(work))}
    best_ego = work.best_ego() if work.is_ego_known else ""
    fronts = tuple((group, work.best_front(group)) for group in settings.groups if work.is_front_known(group))
    met = {IDM: IDM} | {group: front_name(group, index) for group, index in fronts}
    ordered = sorted(columns.values(), key=lambda c: (order.get(c.family, 99), places.get(c.column, 99)))
    return DuelSummary(
        columns=tuple(ordered),
        trainings=tuple(_trainings(work, phase) for phase in _training_phases(run)),
        versus=tuple(
            _versus(group, columns[EGO, group], columns[EGO, RANDOM])
            for group in settings.groups
            if (EGO, group) in columns and (EGO, RANDOM) in columns
        ),
        crashes=_crashes(run, [(column.family, column.column) for column in ordered]),
        best_ego=best_ego,
        best_fronts=fronts,
        unrepaired=tuple(_column(found) for name, front in met.items() if (found := _duels(counts, name, best_ego, front))),
        each_given=tuple(_each_given(settings, counts, best_ego)) if len(settings.fronts) > 1 else (),
    )


def _each_given(settings: DuelSettings, counts: Sequence[BoutCounts], ego: str) -> Iterator[DuelColumn]:
    for index, text in enumerate(settings.fronts):
        found = _duels(counts, GIVEN, ego, front_name(GIVEN, index))
        if found:
            yield replace(_column(found), column=f"{index + 1}: {text.rpartition('/')[2]}")


def _duels(counts: Sequence[BoutCounts], column: str, ego: str, front: str) -> list[BoutCounts]:
    bouts = ((count, count.bout) for count in counts)
    return [count for count, b in bouts if (b.family, b.column, b.ego, b.front) == (EGO, column, ego, front)]


def _families(work: DuelWork) -> list[str]:
    s = work.settings
    return [
        EGO,
        EVERY_EGO,
        *(repair_family(s, group, weight) for group in s.repaired for weight in range(len(s.w_col))),
        *populations(s),
        SLOW,
        ORACLE,
    ]


def _columns(work: DuelWork) -> list[str]:
    s = work.settings
    after = map(after_column, s.after_rewards)
    return [IDM, RANDOM, SEARCH, SLOW, AGGRESSIVE, *s.groups, OWN, OTHER_SEEDS, OTHER_REWARDS, POOL, *after]


def _column(counts: Sequence[BoutCounts]) -> DuelColumn:
    bout = counts[0].bout
    tests: dict[int, dict[int, list[BoutCounts]]] = {}
    for count in counts:
        tests.setdefault(count.bout.training, {}).setdefault(count.bout.test, []).append(count)
    steps = sum(count.steps for count in counts)
    return DuelColumn(
        family=bout.family,
        column=bout.column,
        rates=tuple(tuple(_rate(parts) for _, parts in sorted(training.items())) for _, training in sorted(tests.items())),
        episodes=sum(count.bout.episodes for count in counts),
        crashes=sum(count.crashes for count in counts),
        overtaken=sum(count.overtaken for count in counts),
        timeouts=sum(count.timeouts for count in counts),
        errors=sum(count.errors for count in counts),
        ego_mps=_weighted([(count.ego_mps, count.steps) for count in counts], steps),
        front_mps=_weighted([(count.front_mps, count.steps) for count in counts], steps),
        problem=next((count.problem for count in counts if count.problem), ""),
        speeds_mps=tuple(_speed([count for part in tests[training].values() for count in part]) for training in sorted(tests)),
    )


def _speed(counts: Sequence[BoutCounts]) -> float:
    return _weighted([(count.ego_mps, count.steps) for count in counts], sum(count.steps for count in counts))


def _rate(parts: Sequence[BoutCounts]) -> float:
    judged = sum(part.judged for part in parts)
    return sum(part.crashes for part in parts) / judged if judged else nan


def _weighted(values: Sequence[tuple[float, int]], total: int) -> float:
    return sum(value * weight for value, weight in values if isfinite(value)) / total if total else nan


def _versus(group: str, adversary: DuelColumn, chance: DuelColumn) -> Versus:
    pairs = zip(adversary.rates, chance.rates, strict=False)
    means, chances = ([training.mean for training in column.by_training] for column in (adversary, chance))
    return Versus(
        group,
        tuple((mann_whitney(tests, others), a12(tests, others)) for tests, others in pairs),
        (mann_whitney(means, chances), a12(means, chances)),
    )


def _training_phases(run: Run) -> list[str]:
    return [phase for phase in run.phases() if phase.startswith(("train-", "repair-"))]


def _trainings(work: DuelWork, phase: str) -> Trainings:
    return Trainings(phase, tuple(work.drivers.training(trained_name(phase, index)) for index in sorted(work.run.completed(phase))))


def _crashes(run: Run, names: Sequence[tuple[str, str]]) -> tuple[Crashes, ...]:
    wanted = ["family", "column", "impact_s", "avoidable", "avoidable_until_s", "first_break", "violated"]
    rows: dict[tuple[str, str], list[dict[str, object]]] = {}
    for table in run.iter_records(columns=wanted):
        for row in table.filter(table["violated"]).to_pylist():
            rows.setdefault((row["family"], row["column"]), []).append(row)
    return tuple(_crash_column(name, rows[name]) for name in names if name in rows)


def _crash_column(name: tuple[str, str], rows: Sequence[dict[str, object]]) -> Crashes:
    kinds = [row["avoidable"] for row in rows]
    notice = [
        float(str(row["impact_s"])) - float(str(row["avoidable_until_s"])) for row in rows if row["avoidable"] == Avoidable.UNTIL.value
    ]
    who = [row["first_break"] for row in rows]
    return Crashes(
        *name,
        count=len(rows),
        notice_s=np.array(notice, np.float64),
        never=kinds.count(Avoidable.NEVER.value),
        undecided=kinds.count(Avoidable.UNDECIDED.value),
        broken_by=tuple((kind.value, who.count(kind.value)) for kind in FirstBreak),
    )
