"""The tables on the page of a run of duels: repairs, what a crash may cost, failure rates, trainings, comparisons with chance, crashes."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from skidpad.kinds.duels.charts import ego_words, front_words, phase_words, repairs_of, speed
from skidpad.kinds.duels.drivers import IDM, RANDOM
from skidpad.kinds.duels.figures import comparisons, frontier, repaired_egos
from skidpad.kinds.duels.names import AFTERWARDS, EGO, OWN, TRAIN_EGO, after_column
from skidpad.kinds.duels.settings import GIVEN
from skidpad.kinds.duels.summary import can_decide
from skidpad.page.model import Table
from skidpad.page.wording import NOTHING, count, interval, percent

if TYPE_CHECKING:
    from skidpad.kinds.duels.settings import DuelSettings
    from skidpad.kinds.duels.summary import Crashes, DuelColumn, DuelSummary
    from skidpad.statistics.ranks import Effect, RankTest


_LEFT_OUT = (
    "Rates leave out episodes that ended because a policy failed. The others may be the easier or the harder ones; fix the policy before "
    "relying on such a rate."
)
_NOTICE_S = (0.5, 1.0, 1.5, 2.0, 3.0)


def duel_tables(summary: DuelSummary, settings: DuelSettings) -> list[Table]:
    """Returns the tables: failure rates, trainings, comparisons with chance, crashes."""
    rates = [
        (
            _label(settings, column.family, column.column),
            _rate(column),
            _sem(column.across_trainings.sem),
            interval(column.interval.low, column.interval.high),
            speed(column.ego_mps),
            speed(column.front_mps),
            count(len(column.rates)),
            count(column.episodes),
            count(summary.unavoidable(column.family, column.column)),
            count(column.errors),
        )
        for found in summary.columns
        for column in (found, *(summary.each_given if (found.family, found.column) == (EGO, GIVEN) else ()))
    ]
    names = (
        "Ego against front",
        "Failure rate",
        "SEM over trainings",
        "95 % interval",
        "Ego m/s",
        "Front m/s",
        "Trainings",
        "Episodes",
        "Unavoidable",
        "Errors",
    )
    trainings = [
        (
            phase_words(settings, found.phase),
            f"{index + 1}",
            percent(record.failure_rate),
            *_tested(summary, settings, found.phase, index),
            count(record.updates),
        )
        for found in summary.trainings
        for index, record in enumerate(found.records)
    ]
    versus = [
        (f"{against.group}, training {index + 1}", *_compared(test, effect, "tests"))
        for against in summary.versus
        for index, (test, effect) in enumerate(against.by_training)
    ] + [
        (f"{against.group}, a training as the unit", *_compared(test, effect, "trainings"))
        for against in summary.versus
        for test, effect in (against.over_trainings,)
    ]
    crashes = [_crash_row(settings, found) for found in summary.crashes]
    seconds = tuple(f"{second:g} s before" for second in _NOTICE_S)
    repairs = [
        (
            front_words(found.front),
            *_rate_speed_and_sem(found.ego),
            *_rate_speed_and_sem(found.paper),
            *_rate_speed_and_sem(found.population),
            speed(found.oracle.ego_mps) if found.oracle else NOTHING,
            *(
                count(never) if column else NOTHING
                for column, never in (
                    (found.ego, found.unavoidable_before),
                    (found.paper, found.unavoidable_paper),
                    (found.population, found.unavoidable),
                )
            ),
            f"{found.over_ego.size:.2f}" if found.over_ego else NOTHING,
            f"{found.over_paper.size:.2f}" if found.over_paper else NOTHING,
        )
        for found in comparisons(summary, settings)
    ]
    return [
        Table(
            "repairs",
            "Before the repair, the paper's repair, and the repair against everybody",
            (
                "Front",
                "Ego",
                "m/s",
                "SEM",
                "Paper's repair",
                "m/s",
                "SEM",
                "Against everybody",
                "m/s",
                "SEM",
                "Possible m/s",
                "Unavoidable: ego",
                "paper's",
                "everybody",
                "A12 to ego",
                "A12 to paper's",
            ),
            tuple(repairs),
            1,
            _REPAIRS,
        ),
        _egos_table(summary, settings),
        _frontier_table(summary, settings),
        Table("rates", "Failure rates", names, tuple(rates), 1, _LEFT_OUT if summary.errors else ""),
        Table(
            "trainings",
            "Trainings",
            ("Who learns", "Training", "Train failure rate", "Test failure rate", "SEM over tests", "Updates"),
            tuple(trainings),
            1,
        ),
        Table(
            "versus", "Adversary against random (exact Mann-Whitney U, A12)", ("Adversary", "p-value", "A12", "Effect"), tuple(versus), 1
        ),
        Table(
            "crashes",
            "Crashes: still avoidable, and who broke the safe distance first",
            ("Ego against front", "Crashes kept", *seconds, "Never", "Undecided", "Start", "Ego", "Front"),
            tuple(crashes),
            1,
        ),
    ]


def _frontier_table(summary: DuelSummary, settings: DuelSettings) -> Table:
    """Returns what each cost of a crash buys; without rows where there is but one."""
    trades = frontier(summary, settings)
    fronts = {"IDM": (IDM,), "random": (RANDOM,), f"{AFTERWARDS}, worst": tuple(map(after_column, settings.after_rewards))}
    rows = [
        (
            f"{trade.cost:g}",
            *(cell for columns in fronts.values() for cell in _trade_cells(trade.with_front(*columns))),
            percent(trade.worst_rate),
            speed(trade.speed_mps),
        )
        for trade in trades
    ]
    heads = tuple(head for front in fronts for head in (f"Crashes, {front}", "SEM", "m/s", "SEM"))
    title = "What a crash may cost: crash rate and speed of the ego repaired against everybody"
    note = "“Crashes” are failure rates, SEMs are over trainings. “Worst” and “mean” are over all front vehicles in the table of rates."
    return Table("frontier", title, ("Cost", *heads, "Worst", "Mean m/s"), tuple(rows) if len(rows) > 1 else (), 1, note)


def _trade_cells(column: DuelColumn | None) -> tuple[str, str, str, str]:
    if column is None:
        return NOTHING, NOTHING, NOTHING, NOTHING
    error = column.speed.sem
    return _rate(column), _sem(column.across_trainings.sem), speed(column.speed.mean), f"{error:.2f}" if isfinite(error) else NOTHING


_REPAIRS = (
    "“Trained afterwards” are adversaries trained against the repaired ego itself; for the ego before the repair these are the adversaries "
    "named by their reward. “Possible” is the speed of an ego that plans ahead without a crash and knows what this front vehicle will do. "
    "“Unavoidable” counts the kept crashes that no sequence of actions from the start on avoids. SEM is over trainings, and over the tests "
    "of a policy that was trained once; --repairs 3 --test-runs 4 give both. A12 is the probability that a test of the "
    "ego repaired against everybody has the greater failure rate; it is left out where there are too few tests to show any difference "
    "(3 against 12, or 4 against 4, are enough)."
)


def _rate_and_speed(column: DuelColumn | None) -> tuple[str, str]:
    return (_rate(column), speed(column.ego_mps)) if column else (NOTHING, NOTHING)


def _rate_speed_and_sem(column: DuelColumn | None) -> tuple[str, str, str]:
    """Words a rate, a speed and an SEM: across trainings, or across the tests of the only one."""
    if column is None:
        return NOTHING, NOTHING, NOTHING
    over = column.across_trainings if len(column.rates) > 1 else next(iter(column.by_training), column.across_trainings)
    return (*_rate_and_speed(column), _sem(over.sem))


def _egos_table(summary: DuelSummary, settings: DuelSettings) -> Table:
    """Returns every ego that was repaired against everybody, and which of them is recommended."""
    after = tuple(map(after_column, settings.after_rewards))
    egos = repaired_egos(summary, settings)
    rows = [
        (
            f"{ego.policy}{' (recommended)' if ego.is_recommended and len(egos) > 1 else ''}",
            f"{ego.cost:g}",
            percent(ego.validation.worst_rate),
            speed(ego.validation.ego_mps),
            *(cell for fronts in ((IDM,), (RANDOM,), after, ego.tests) for cell in _cells(*ego.worst(*fronts))),
        )
        for ego in egos
    ]
    heads = tuple(head for front in ("IDM", "random", f"{AFTERWARDS}, worst", "worst of all") for head in (f"Crashes, {front}", "m/s"))
    title = "Each ego repaired against everybody"
    return Table("egos", title, ("Ego", "Cost", "Validation, worst", "m/s", *heads), tuple(rows), 1, _EGOS)


_EGOS = (
    "Recommended is the best ego on the validation episodes, which it drives with the front vehicles that it was repaired against: of "
    "those that crash in at most 2 % with each of them the fastest, else the one with the lowest greatest failure rate. No test, and no "
    "adversary that was trained afterwards, takes part in the choice."
)


def _cells(rate: float, mps: float) -> tuple[str, str]:
    return percent(rate) if isfinite(rate) else NOTHING, speed(mps)


def _rate(column: DuelColumn) -> str:
    if not column.judged:
        return "not measured"
    beside = f" ({count(column.errors)} of {count(column.episodes)} left out)" if column.errors else ""
    return percent(column.across_trainings.mean) + beside


def _compared(test: RankTest, effect: Effect, units: str) -> tuple[str, str, str]:
    """Words a comparison; leaves the figures out if even complete separation would not be significant."""
    if not can_decide(test):
        return NOTHING, NOTHING, f"too few {units}"
    return f"{test.p_value:.2g}", f"{effect.size:.2f}", effect.magnitude.value


def _tested(summary: DuelSummary, settings: DuelSettings, phase: str, index: int) -> tuple[str, str]:
    """Words the tests of one training: an ego's against IDM, an adversary's against the ego, a repaired ego's against its adversary."""
    of_ego = EGO, IDM if phase == TRAIN_EGO else phase.removeprefix("train-")
    family, name = (repairs_of(settings)[phase][0], OWN) if phase in repairs_of(settings) else of_ego
    column = summary.column(family, name)
    if column is None or index >= len(column.rates):
        return NOTHING, NOTHING
    tested = column.by_training[index]
    return percent(tested.mean), _sem(tested.sem)


def _crash_row(settings: DuelSettings, crashes: Crashes) -> tuple[str, ...]:
    who = dict(crashes.broken_by)
    shares = tuple(percent(crashes.avoidable_before(second)) for second in _NOTICE_S)
    broke = tuple(count(who.get(name, 0)) for name in ("start", "ego", "front"))
    return (
        _label(settings, crashes.family, crashes.column),
        count(crashes.count),
        *shares,
        count(crashes.never),
        count(crashes.undecided),
        *broke,
    )


def _sem(value: float) -> str:
    return f"{100.0 * value:.2f} %" if isfinite(value) else NOTHING


def _label(settings: DuelSettings, family: str, column: str) -> str:
    return f"{ego_words(settings, family)} against {front_words(column)}"
