"""The plots on the page of a run of duels: outcomes, learning (Figure 4), speeds (Figure 6), avoidability, risk aversion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skidpad.kinds.duels.drivers import IDM, RANDOM, SLOW
from skidpad.kinds.duels.phases import EGO, OWN, TRAIN_EGO, repair_family, repair_phase
from skidpad.kinds.duels.plots import Ends, speed_plots, stacked
from skidpad.kinds.duels.summary import WINDOW
from skidpad.kinds.duels.words import ego_words, front_words, phase_words
from skidpad.page.charts import Curve, curve_chart
from skidpad.page.model import Chart
from skidpad.page.wording import percent, plain

if TYPE_CHECKING:
    from skidpad.kinds.duels.phases import DuelWork
    from skidpad.kinds.duels.summary import DuelSummary


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
    return charts + _sweep_charts(work, summary)


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
