"""Plots of duels as inline SVG: speeds over time with their spread (Figure 6), and how episodes ended."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import TYPE_CHECKING

import numpy as np

from skidpad.core.errors import BadSubjectError
from skidpad.core.seeding import child_seed
from skidpad.highway.evaluation import evaluate
from skidpad.highway.layout import EGO, FRONT, Outcome
from skidpad.highway.opponents import Idm
from skidpad.kinds.duels.drivers import IDM, trained_name
from skidpad.kinds.duels.phases import OWN, front_name, repair_family, repair_phase
from skidpad.page.charts import SERIES
from skidpad.page.model import Chart
from skidpad.page.svg import WIDTH, Axis, Unit, add, drawing, short, tip, write
from skidpad.page.wording import count, percent, plain

if TYPE_CHECKING:
    from skidpad.core.images import FloatArray
    from skidpad.kinds.duels.phases import DuelWork
    from skidpad.kinds.duels.summary import DuelSummary


_LEFT, _RIGHT, _TOP, _BOTTOM, _HEIGHT = 52.0, WIDTH - 10.0, 14.0, 226.0, 268.0
_ROW, _GUTTER = 24.0, 226.0
OUTCOMES = ("crash", "overtaken", "timeout", "error")


@dataclass(frozen=True, slots=True)
class Band:
    """A named line with the spread to both sides of it; all as long as x."""

    label: str
    x: tuple[float, ...]
    middle: tuple[float, ...]
    spread: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Ends:
    """How the episodes of one row ended, in the order of OUTCOMES."""

    label: str
    counts: tuple[int, int, int, int]


def bands(key: str, title: str, description: str, axes: tuple[str, str], lines: Sequence[Band], range_y: tuple[float, float]) -> str:
    """Draws lines with shaded spreads over shared axes, the names beneath them."""
    root = drawing(key, title, description, _HEIGHT + 20.0 * len(lines))
    x = Axis(min(line.x[0] for line in lines), max(line.x[-1] for line in lines), _LEFT, _RIGHT)
    y = Axis(*range_y, _BOTTOM, _TOP)
    _frame(root, x, y, axes)
    for index, line in enumerate(lines):
        name = f"series-{index % SERIES}"
        above = [(a, b + c) for a, b, c in zip(line.x, line.middle, line.spread, strict=True)]
        below = [(a, b - c) for a, b, c in zip(line.x, line.middle, line.spread, strict=True)]
        add(root, "polygon", class_=f"band {name}", points=_path(x, y, [*above, *reversed(below)]))
        points = _path(x, y, list(zip(line.x, line.middle, strict=True)))
        tip(add(root, "polyline", class_=f"curve {name}", points=points), line.label)
        top = _HEIGHT + 20.0 * index + 10.0
        add(root, "line", class_=f"curve {name}", x1=_LEFT, x2=_LEFT + 26.0, y1=top - 4.0, y2=top - 4.0)
        add(root, "text", short(line.label, 60), class_="label", x=_LEFT + 34.0, y=top)
    return write(root)


def stacked(key: str, title: str, description: str, rows: Sequence[Ends]) -> str:
    """Draws for each row one bar that the shares of its outcomes fill."""
    bottom = len(rows) * _ROW + 8.0
    root = drawing(key, title, description, bottom + 30.0)
    axis = Axis(0.0, 1.0, _GUTTER, WIDTH - 8.0, Unit.PERCENT)
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


def _frame(root: ET.Element, x: Axis, y: Axis, axes: tuple[str, str]) -> None:
    for value in y.ticks(4):
        at = y.at(value)
        add(root, "line", class_="grid", x1=_LEFT, x2=_RIGHT, y1=at, y2=at)
        add(root, "text", y.word(value), class_="tick", x=_LEFT - 6.0, y=at + 4.0, text_anchor="end")
    for value in x.ticks(6):
        add(root, "text", x.word(value), class_="tick", x=x.at(value), y=_BOTTOM + 16.0, text_anchor="middle")
    add(root, "line", class_="axis", x1=_LEFT, x2=_RIGHT, y1=_BOTTOM, y2=_BOTTOM)
    add(root, "text", axes[0], class_="name", x=(_LEFT + _RIGHT) / 2.0, y=_BOTTOM + 36.0, text_anchor="middle")
    middle = (_TOP + _BOTTOM) / 2.0
    add(root, "text", axes[1], class_="name", x=12.0, y=middle, text_anchor="middle", transform=f"rotate(-90 12 {middle:g})")


def _path(x: Axis, y: Axis, points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x.at(a):.2f},{y.at(b):.2f}" for a, b in points)


EPISODES = 100
START_MPS = 25.0
_RANGE_MPS = (8.0, 32.0)


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
        Band(name, times, tuple(speeds[:, :, side].mean(axis=0).tolist()), tuple(speeds[:, :, side].std(axis=0).tolist()))
        for side, name in ((EGO, "ego"), (FRONT, "front vehicle"))
    ]
    name = f"Speeds, {title} (Figure 6 {letter})"
    said = "; ".join(f"{line.label} from {line.middle[0]:.1f} to {line.middle[-1]:.1f} m/s" for line in lines)
    caption = (
        f"Mean and standard deviation over {len(speeds)} episodes from {START_MPS:g} m/s; an episode that has ended keeps its last speed."
    )
    low = min(_RANGE_MPS[0], *(min(a - b for a, b in zip(line.middle, line.spread, strict=True)) for line in lines))
    return Chart(
        name, caption, bands(f"speeds-{letter.lower()}", name, said, ("policy step (s)", "forward speed, m/s"), lines, (low, _RANGE_MPS[1]))
    )


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
