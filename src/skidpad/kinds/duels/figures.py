"""The figures of a run of duels as plain values, and what the repairs are worth, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, nan
from typing import TYPE_CHECKING

from skidpad.highway.layout import Side
from skidpad.kinds.duels.drivers import AGGRESSIVE, IDM, ORACLE, RANDOM, SEARCH, SLOW, trained_name
from skidpad.kinds.duels.estimate import duel_estimate
from skidpad.kinds.duels.names import EGO, OWN, POOL, POPULATION, after_column, populations, repair_family, round_phase
from skidpad.kinds.duels.rounds import LITTLE
from skidpad.kinds.duels.summary import DuelColumn, can_decide, summarise
from skidpad.kinds.estimating import figures_of
from skidpad.statistics.ranks import Effect, a12, mann_whitney

if TYPE_CHECKING:
    from skidpad.highway.training import Validation
    from skidpad.kinds.duels.campaign import Duel
    from skidpad.kinds.duels.settings import DuelSettings
    from skidpad.kinds.duels.summary import DuelSummary
    from skidpad.runs.folder import Run


@dataclass(frozen=True, slots=True)
class RepairComparison:
    """The ego, the paper's repair and the repair against a population, against one kind of front vehicle; None where untested."""

    front: str
    ego: DuelColumn | None
    paper: DuelColumn | None
    population: DuelColumn
    unavoidable: int
    """Crashes of the last that no sequence of the ego's actions avoids; among those that the run keeps."""
    unavoidable_before: int
    """The same of the ego."""
    unavoidable_paper: int
    """The same of the paper's repair."""
    oracle: DuelColumn | None
    """The ego that knows what this front vehicle will do: about what is possible with it."""
    over_ego: Effect | None
    """A12 over all tests of all trainings: how likely the repaired ego crashes more often; None where the tests are too few."""
    over_paper: Effect | None


def comparisons(summary: DuelSummary, settings: DuelSettings) -> tuple[RepairComparison, ...]:
    """Compares the repairs of a run; empty where none was made in rounds."""
    group = settings.repaired[0] if settings.repaired else ""
    paper = repair_family(settings, group, 0) if group else ""
    found = []
    for front in (IDM, RANDOM, SEARCH, SLOW, AGGRESSIVE, *settings.groups, POOL, *map(after_column, settings.after_rewards)):
        ours = summary.column(POPULATION, front)
        if ours is None:
            continue
        before, whom = summary.before(front), OWN if front == group else front
        retrained = summary.column(paper, whom)
        found.append(
            RepairComparison(
                front=front,
                ego=before,
                paper=retrained,
                population=ours,
                unavoidable=summary.unavoidable(POPULATION, front),
                unavoidable_before=summary.unavoidable(EGO, front),
                unavoidable_paper=summary.unavoidable(paper, whom),
                oracle=summary.column(ORACLE, front),
                over_ego=_effect(ours, before),
                over_paper=_effect(ours, retrained),
            )
        )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Trade:
    """What one cost of a crash buys: the columns of the egos that were repaired with it."""

    cost: float
    columns: tuple[DuelColumn, ...]

    @property
    def worst_rate(self) -> float:
        """The greatest failure rate with any front vehicle."""
        return max(column.across_trainings.mean for column in self.columns)

    @property
    def speed_mps(self) -> float:
        """The mean speed, every front vehicle counting the same."""
        return sum(column.speed.mean for column in self.columns) / len(self.columns)

    def with_front(self, *fronts: str) -> DuelColumn | None:
        """Returns the column of one kind of front vehicle; of several, the one with the greatest failure rate."""
        found = [column for column in self.columns if column.column in fronts]
        return max(found, key=lambda column: column.across_trainings.mean, default=None)


def frontier(summary: DuelSummary, settings: DuelSettings) -> tuple[Trade, ...]:
    """Returns what each cost of a crash buys, the cheapest first; empty where nothing was repaired in rounds."""
    found = []
    for cost, family in sorted(zip(settings.crash_cost, populations(settings), strict=False)):
        columns = tuple(column for column in summary.columns if column.family == family and column.judged)
        if columns:
            found.append(Trade(cost, columns))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class RepairedEgo:
    """One ego that was repaired against everybody: how it did on the episodes that chose it, and in each column of the tests."""

    policy: str
    cost: float
    validation: Validation
    tests: Mapping[str, tuple[float, float]]
    """Failure rate and mean speed (m/s) by kind of front vehicle."""
    is_recommended: bool = False

    def worst(self, *fronts: str) -> tuple[float, float]:
        """Returns the greatest failure rate among some kinds of front vehicles, and the speed there."""
        return max((self.tests[front] for front in fronts if front in self.tests), default=(nan, nan))


def repaired_egos(summary: DuelSummary, settings: DuelSettings) -> tuple[RepairedEgo, ...]:
    """Returns the egos of the last round; recommended is the best on the validation episodes, so that no test takes part in the choice."""
    trainings = summary.training(round_phase(settings.rounds))
    found = []
    for index, record in enumerate(trainings.records if trainings else ()):
        place, training = divmod(index, settings.repairs)
        columns = [column for column in summary.columns if column.family == populations(settings)[place] and training < len(column.rates)]
        tests = {column.column: (column.by_training[training].mean, column.speeds_mps[training]) for column in columns}
        kept = max(record.validations, key=_safe_and_fast)
        found.append(RepairedEgo(trained_name(round_phase(settings.rounds), index), settings.crash_cost[place], kept, tests))
    told = [ego for ego in found if isfinite(ego.validation.worst_rate)]  # runs before this choice do not tell
    best = max(told, key=lambda ego: _safe_and_fast(ego.validation)[:2], default=None)
    return tuple(replace(ego, is_recommended=ego is best) for ego in found)


def _safe_and_fast(validation: Validation) -> tuple[float, float, int]:
    return validation.rank(Side.EGO, LITTLE)


def _effect(ours: DuelColumn, other: DuelColumn | None) -> Effect | None:
    mine, theirs = ([rate for tests in column.rates for rate in tests] if column else [] for column in (ours, other))
    if not mine or not theirs or not can_decide(mann_whitney(mine, theirs)):
        return None
    return a12(mine, theirs)


def duel_figures(campaign: Duel, run: Run) -> Mapping[str, object]:
    """Returns the failure rates, the comparisons with chance, the trainings and the crashes as plain values."""
    work = campaign.work(run)
    summary = summarise(work)
    found = duel_estimate(work).read(run) if campaign.settings.estimate else None
    return {
        "estimate": None if found is None else figures_of(found, "duel"),
        "unmeasured": summary.unmeasured,
        "ego": summary.best_ego,
        "columns": [
            _column_json(column) | {"unavoidable": summary.unavoidable(column.family, column.column)} for column in summary.columns
        ],
        "each_given": [_column_json(column) for column in summary.each_given],
        "versus_random": [
            {
                "group": versus.group,
                "p_value": test.p_value if can_decide(test) else None,
                "a12": effect.size if can_decide(test) else None,
                "is_enough": can_decide(test),
            }
            for versus in summary.versus
            for test, effect in (versus.over_trainings,)
        ],
        "trainings": [{"phase": found.phase, "failure_rates": list(found.failure_rates)} for found in summary.trainings],
        "crashes": [
            {
                "family": found.family,
                "column": found.column,
                "kept": found.count,
                "avoidable_1s_before": found.avoidable_before(1.0),
                "avoidable_2s_before": found.avoidable_before(2.0),
                "avoidable_3s_before": found.avoidable_before(3.0),
                "never": found.never,
                "undecided": found.undecided,
                "broken_by": dict(found.broken_by),
            }
            for found in summary.crashes
        ],
        "repairs": [
            {
                "front": found.front,
                "ego": _column_json(found.ego) if found.ego else None,
                "paper": _column_json(found.paper) if found.paper else None,
                "population": _column_json(found.population),
                "unavoidable": found.unavoidable,
                "unavoidable_ego": found.unavoidable_before,
                "unavoidable_paper": found.unavoidable_paper,
                "oracle": _column_json(found.oracle) if found.oracle else None,
                "a12_over_ego": found.over_ego.size if found.over_ego else None,
                "a12_over_paper": found.over_paper.size if found.over_paper else None,
            }
            for found in comparisons(summary, campaign.settings)
        ],
        "frontier": [
            {"crash_cost": trade.cost, "worst_rate": trade.worst_rate, "ego_mps": trade.speed_mps, "columns": _named(trade.columns)}
            for trade in frontier(summary, campaign.settings)
        ],
        "repaired_egos": [
            {
                "policy": ego.policy,
                "crash_cost": ego.cost,
                "validation_worst_rate": ego.validation.worst_rate,
                "validation_mps": ego.validation.ego_mps,
                "is_recommended": ego.is_recommended,
                "tests": {front: {"failure_rate": rate, "ego_mps": mps} for front, (rate, mps) in ego.tests.items()},
            }
            for ego in repaired_egos(summary, campaign.settings)
        ],
        "policies": str(run.path / "policies"),
    }


def _named(columns: Sequence[DuelColumn]) -> dict[str, object]:
    return {column.column: _column_json(column) for column in columns}


def _column_json(column: DuelColumn) -> dict[str, object]:
    return {
        "family": column.family,
        "column": column.column,
        "failure_rate": column.across_trainings.mean,
        "sem": column.across_trainings.sem,
        "low": column.interval.low,
        "high": column.interval.high,
        "ego_mps": column.ego_mps,
        "ego_mps_sem": column.speed.sem,
        "front_mps": column.front_mps,
        "trainings": len(column.rates),
        "episodes": column.episodes,
        "crashes": column.crashes,
        "overtaken": column.overtaken,
        "timeouts": column.timeouts,
        "errors": column.errors,
        "problem": column.problem,
    }
