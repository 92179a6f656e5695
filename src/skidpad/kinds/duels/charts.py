"""The plots on the page of a run of duels: outcomes, learning (Figure 4), speeds (Figure 6), avoidability, risk aversion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import TYPE_CHECKING

import numpy as np

from skidpad.core.errors import BadSubjectError
from skidpad.core.seeding import child_seed
from skidpad.highway.evaluation import evaluate
from skidpad.highway.layout import EGO as EGO_ROW
from skidpad.highway.layout import FRONT, Outcome
from skidpad.highway.opponents import Idm
from skidpad.kinds.duels.drivers import IDM, ORACLE, RANDOM, SLOW, trained_name
from skidpad.kinds.duels.figures import frontier
from skidpad.kinds.duels.names import (
    AFTERWARDS,
    EGO,
    OWN,
    POOL,
    POPULATION,
    TRAIN_EGO,
    after_column,
    front_name,
    populations,
    repair_family,
    repair_phase,
    round_phase,
)
from skidpad.kinds.duels.summary import WINDOW
from skidpad.page.charts import Curve, curve_chart
from skidpad.page.model import Chart
from skidpad.page.svg import WIDTH, Axis, AxisUnit, add, drawing, short, tip, write
from skidpad.page.wording import NOTHING, count, percent, plain

if TYPE_CHECKING:
    from skidpad.core.images import FloatArray
    from skidpad.kinds.duels.phases import DuelWork
    from skidpad.kinds.duels.settings import DuelSettings
    from skidpad.kinds.duels.summary import DuelColumn, DuelSummary


_POINTS = 200
"""Points of a training curve; more would not be seen."""


def duel_charts(work: DuelWork, summary: DuelSummary) -> list[Chart]:
    """Returns how episodes ended, Figures 4 and 6, until when crashes could be avoided, and the sweep of w_col."""
    charts = []
    shown = {EGO, SLOW, *(repair_family(work.settings, group, 0) for group in work.settings.repaired)}
    rows = [
        Ends(f"{ego_words(work.settings, c.family)} · {front_words(c.column)}", (c.crashes, c.overtaken, c.timeouts, c.errors))
        for c in summary.columns
        if c.family in shown
    ]
    if rows:
        title, caption = "How episodes ended", "Each row is an ego and the front vehicle that it met."
        said = "; ".join(f"{row.label}: {percent(row.counts[0] / max(sum(row.counts), 1))} crashes" for row in rows)
        charts.append(Chart(title, caption, stacked("ends", title, said, rows)))
    charts += _training_charts(work, summary)
    charts += speed_plots(work, summary)
    charts += _notice_chart(summary)
    return charts + _sweep_charts(work, summary) + _frontier_chart(work, summary)


def _training_charts(work: DuelWork, summary: DuelSummary) -> list[Chart]:
    """Returns Figure 4: reward and failure rate while adversaries learn; and the same rate while egos do."""
    fronts = [f"train-{group}" for group in work.settings.groups]
    egos = [TRAIN_EGO, *(repair_phase(group, weight) for group in work.settings.repaired for weight in range(len(work.settings.w_col)))]
    charts = []
    for key, phases, what, title, y_label in (
        ("reward", fronts, "returns", "Reward while adversaries learn (Figure 4 A)", "cumulative reward"),
        ("learning", fronts, "crashes", "Failure rate while adversaries learn (Figure 4 B)", "failure rate"),
        ("egos", egos, "crashes", "Failure rate while egos learn", "failure rate"),
    ):
        found = [trainings for phase in phases if (trainings := summary.training(phase)) and trainings.records]
        lines = []
        for trainings in found:
            values = trainings.curve(what)
            # the first points are means of few episodes, and would only stretch the axis
            first, every = WINDOW // 2 if len(values) > 2 * WINDOW else 0, max(1, len(values) // _POINTS)
            places = range(first, len(values), every)
            label = phase_words(work.settings, trainings.phase)
            lines.append(Curve(label, tuple(float(n + 1) for n in places), tuple(float(values[n]) for n in places)))
        if lines:
            caption = "Mean over trainings; each point averages the last 50 episodes, including exploration."
            charts.append(curve_chart(f"curve-{key}", title, caption, ("training episode", y_label), lines))
    return charts


def _notice_chart(summary: DuelSummary) -> list[Chart]:
    """Returns how many crashes could still be avoided, over the seconds before the impact."""
    wanted = [crashes for crashes in summary.crashes if crashes.family == EGO and crashes.count and len(crashes.notice_s)]
    if not wanted:
        return []
    times = [tenth / 10.0 for tenth in range(41)]
    lines = [
        Curve(front_words(crashes.column), tuple(times), tuple(100.0 * crashes.avoidable_before(time) for time in times))
        for crashes in wanted
    ]
    title = "Until when crashes could be avoided"
    said = "; ".join(f"{crashes.column}: {percent(crashes.avoidable_before(1.0))} one second before" for crashes in wanted)
    caption = "Share of crashes that the ego could still have avoided, by seconds before the impact."
    return [curve_chart("notice", title, caption, ("seconds before the impact", "still avoidable, %"), lines, said)]


def _sweep_charts(work: DuelWork, summary: DuelSummary) -> list[Chart]:
    """Returns failure rate over risk aversion, where more than one weight was tried."""
    weights = work.settings.w_col
    if len(weights) < 2:
        return []
    charts = []
    order = sorted(range(len(weights)), key=lambda place: weights[place])
    for group in work.settings.repaired:
        found = {
            (name, place): summary.column(repair_family(work.settings, group, place), name)
            for name in (OWN, RANDOM, IDM)
            for place in order
        }
        lines = []
        for name in (OWN, RANDOM, IDM):
            points = [(weights[place], column.across_trainings.mean) for place in order if (column := found[name, place])]
            lines.append(Curve(f"failure rate, {front_words(name)}", tuple(x for x, _ in points), tuple(y for _, y in points)))
        speeds = [(weights[place], (column.ego_mps - 20.0) / 10.0) for place in order if (column := found[OWN, place])]
        lines.append(Curve("ego's speed, 0 = 20 m/s, 1 = 30 m/s", tuple(x for x, _ in speeds), tuple(y for _, y in speeds)))
        title = f"Risk aversion: egos retrained against {group}"
        caption = "w_col is the weight of a collision in the ego's reward (Eq. 2); the paper uses −1, and 0 ignores collisions."
        said = "; ".join(f"{line.label}: {', '.join(f'{y:.3g}' for y in line.y)}" for line in lines)
        charts.append(curve_chart(f"sweep-{plain(group, 30)}", title, caption, ("w_col", "share"), lines, said))
    return charts


def _frontier_chart(work: DuelWork, summary: DuelSummary) -> list[Chart]:
    """Returns failure rate over speed, where the repair against everybody was made with more than one cost of a crash."""
    trades = frontier(summary, work.settings)
    if len(trades) < 2:
        return []
    lines = []
    after = tuple(map(after_column, work.settings.after_rewards))
    for label, fronts in ((front_words(IDM), (IDM,)), (RANDOM, (RANDOM,)), (POOL, (POOL,)), (f"{AFTERWARDS}, worst", after)):
        columns = [column for trade in trades if (column := trade.with_front(*fronts))]
        rates, errors = ([100.0 * value for value in part] for part in zip(*(_mean_and_sem(column) for column in columns), strict=True))
        lines.append(Curve(label, tuple(column.speed.mean for column in columns), tuple(rates), tuple(errors)))
    title, costs = "Crash rate and speed of the ego repaired against everybody", ", ".join(f"{trade.cost:g}" for trade in trades)
    caption = f"One point for each cost of a crash, in this order: {costs}. Shaded: SEM over trainings."
    said = "; ".join(
        f"{line.label}: {', '.join(f'{y:.2f} % at {x:.1f} m/s' for x, y in zip(line.x, line.y, strict=True))}" for line in lines
    )
    return [curve_chart("frontier", title, caption, ("ego's mean speed, m/s", "failure rate, %"), lines, said, reach=(0.0,))]


def _mean_and_sem(column: DuelColumn) -> tuple[float, float]:
    error = column.across_trainings
    return error.mean, error.sem if isfinite(error.sem) else 0.0


_ROW, _GUTTER = 24.0, 226.0
OUTCOMES = ("crash", "overtaken", "timeout", "error")


@dataclass(frozen=True, slots=True)
class Ends:
    """How the episodes of one row ended, in the order of OUTCOMES."""

    label: str
    counts: tuple[int, int, int, int]


def stacked(key: str, title: str, description: str, rows: Sequence[Ends]) -> str:
    """Draws for each row one bar that the shares of its outcomes fill."""
    bottom = len(rows) * _ROW + 8.0
    root = drawing(key, title, description, bottom + 30.0)
    axis = Axis(0.0, 1.0, _GUTTER, WIDTH - 8.0, AxisUnit.PERCENT)
    for index, row in enumerate(rows):
        top, total, done = 6.0 + index * _ROW, sum(row.counts), 0
        tip(add(root, "text", short(row.label, 36), class_="label", x=_GUTTER - 8.0, y=top + 14.0, text_anchor="end"), row.label)
        for outcome, number in zip(OUTCOMES, row.counts, strict=True):
            if number and total:
                left, right = axis.at(done / total), axis.at((done + number) / total)
                mark = add(root, "rect", class_=outcome, x=left, y=top + 2.0, width=max(right - left, 0.6), height=16.0)
                tip(mark, f"{row.label}: {outcome} {percent(number / total)} ({count(number)} of {count(total)})")
                done += number
    for index, outcome in enumerate(OUTCOMES):
        x = 90.0 + index * 96.0
        add(root, "rect", class_=outcome, x=x, y=bottom + 8.0, width=11.0, height=11.0, rx=2.0)
        add(root, "text", outcome, class_="tick", x=x + 16.0, y=bottom + 17.5)
    return write(root)


EPISODES = 100
START_MPS = 25.0
_RANGE_MPS = (8.0, 32.0)
"""All three plots have this range, so that they can be compared."""


def speed_plots(work: DuelWork, summary: DuelSummary) -> list[Chart]:
    """Drives the best drivers of each step and draws their speeds; on the engine only."""
    if not work.arena.is_judged or not summary.best_ego:
        return []
    pairs = [("A", "the ego before, IDM in front", summary.best_ego, IDM)]
    for group, best in summary.best_fronts[:1]:
        pairs.append(("B", f"the ego and the adversary ({group})", summary.best_ego, front_name(group, best)))
        if group in work.settings.repaired and work.run.completed(repair_phase(group, 0)):
            repaired = trained_name(repair_phase(group, 0), _best_repair(work, summary, group))
            pairs.append(("C", f"the repaired ego and the adversary ({group})", repaired, front_name(group, best)))
    return [chart for pair in pairs if (chart := _plot(work, *pair))]


def _best_repair(work: DuelWork, summary: DuelSummary, group: str) -> int:
    """Returns the retrained ego with the lowest failure rate, of equals the first; the first where none was tested yet."""
    column = summary.column(repair_family(work.settings, group, 0), OWN)
    rates = [training.mean if isfinite(training.mean) else inf for training in column.by_training] if column else []
    return rates.index(min(rates)) if rates else 0


def _plot(work: DuelWork, letter: str, title: str, ego: str, front: str) -> Chart | None:
    """Draws the episodes that no policy broke off; None where it broke off all. Says so where a given policy cannot be asked."""
    try:
        speeds = _speeds(work, ego, front)
    except BadSubjectError as error:
        return Chart(f"Speeds, {title} (Figure 6 {letter})", plain(f"Not drawn: {error}", 600), "")
    if not len(speeds):
        return None
    times = tuple(float(step) for step in range(speeds.shape[1]))
    lines = [
        Curve(name, times, tuple(speeds[:, :, side].mean(axis=0).tolist()), tuple(speeds[:, :, side].std(axis=0).tolist()))
        for side, name in ((EGO_ROW, "ego"), (FRONT, "front vehicle"))
    ]
    said = "; ".join(f"{line.label} from {line.y[0]:.1f} to {line.y[-1]:.1f} m/s" for line in lines)
    caption = (
        f"Mean and standard deviation over {len(speeds)} episodes from {START_MPS:g} m/s; an episode that has ended keeps its last speed."
    )
    name = f"Speeds, {title} (Figure 6 {letter})"
    return curve_chart(f"speeds-{letter.lower()}", name, caption, ("policy step (s)", "forward speed, m/s"), lines, said, reach=_RANGE_MPS)


def _speeds(work: DuelWork, ego: str, front: str) -> FloatArray:
    """Returns forward speeds, (episodes, steps + 1, 2), padded, of the episodes that did not end as errors."""
    opponent = work.drivers.front(front)
    scenario = work.arena.pretraining if isinstance(opponent, Idm) else work.arena.scenario
    # IDM keeps the speeds that it was trained among; only the ego's start is the paper's
    level = replace(
        scenario,
        ego_speed_mps=(START_MPS, START_MPS),
        front_speed_mps=scenario.front_speed_mps if isinstance(opponent, Idm) else (START_MPS, START_MPS),
    )
    episodes = evaluate(level, work.drivers.ego(ego), opponent, EPISODES, child_seed(work.settings.seed, "figure 6"))
    speeds = episodes.speeds_mps[episodes.outcomes != Outcome.ERROR.code].astype(np.float64)
    last = np.maximum.accumulate(np.where(np.isfinite(speeds[:, :, 0]), np.arange(speeds.shape[1]), 0), axis=1)
    return np.take_along_axis(speeds, last[:, :, None], axis=1)


def repairs_of(settings: DuelSettings) -> dict[str, tuple[str, str]]:
    """Returns each phase that retrains egos, with the family of those egos and the words for them."""
    found = {}
    for group in settings.repaired:
        whom = f"repaired ({group})" if len(settings.repaired) > 1 else "repaired"
        for place, weight in enumerate(settings.w_col):
            words = f"{whom}, w_col {weight:g}" if len(settings.w_col) > 1 else whom
            found[repair_phase(group, place)] = repair_family(settings, group, place), words
    found |= {round_phase(number): (POPULATION, f"repaired, round {number}") for number in range(1, settings.rounds + 1)}
    return found


def ego_words(settings: DuelSettings, family: str) -> str:
    """Returns what a family of egos is called."""
    if family == SLOW:
        return "always slower"
    if family in populations(settings):
        cost = settings.crash_cost[populations(settings).index(family)]
        return "repaired against everybody" + (f", a crash costs {cost:g}" if len(settings.crash_cost) > 1 else "")
    if family == ORACLE:
        return "knows its opponent"
    return dict(repairs_of(settings).values()).get(family, family)


def front_words(column: str) -> str:
    """Returns what a kind of front vehicle is called."""
    return "IDM" if column == IDM else column


def speed(mps: float) -> str:
    """Words a mean speed without its unit."""
    return f"{mps:.1f}" if isfinite(mps) else NOTHING


def slow_words(summary: DuelSummary) -> str:
    """Says how often an ego that always chooses SLOWER crashed in this run, and how fast it drove; empty where it was not tested."""
    tested = [column for column in summary.columns if column.family == SLOW and column.judged]
    if not tested:
        return ""
    rates = ", ".join(f"in {percent(column.across_trainings.mean)} with {front_words(column.column)}" for column in tested)
    speeds = sorted({speed(column.ego_mps) for column in tested})
    return f"An ego that always chooses SLOWER crashes {rates}, and drives {' to '.join(dict.fromkeys((speeds[0], speeds[-1])))} m/s."


def left_out(column: DuelColumn) -> str:
    """Warns of episodes that a rate leaves out; empty where it leaves out none."""
    if not column.errors:
        return ""
    return f"{count(column.errors)} of {count(column.episodes)} episodes ended by a policy's error and are left out"


def phase_words(settings: DuelSettings, phase: str) -> str:
    """Returns what a phase of trainings is called."""
    if phase == TRAIN_EGO:
        return "ego"
    _, words = repairs_of(settings).get(phase, ("", phase.removeprefix("train-")))
    return words
