"""Dose-response curves and maps of pairs as inline SVG."""

from __future__ import annotations

from itertools import pairwise
from math import isfinite, nan
from typing import TYPE_CHECKING

from skidpad.kinds.limits.curves import Standing
from skidpad.page.model import Chart
from skidpad.page.svg import WIDTH, Axis, AxisUnit, add, drawing, heat_step, round_up, tip, write
from skidpad.page.wording import NOTHING, interval, percent, plain

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET

    from skidpad.kinds.limits.summary import Limit, PairMap

_LEFT, _RIGHT, _TOP, _BOTTOM, _HEIGHT = 52.0, WIDTH - 14.0, 14.0, 196.0, 240.0
_CELL_WIDTH, _CELL_HEIGHT = 70.0, 30.0


def curve_chart(limit: Limit, accepted: float) -> Chart:
    """Draws the failing share over the severity with its interval, the accepted share, and where it holds to and fails from."""
    row, curve = limit.row, limit.curve
    name = plain(row.name, 60)
    title = f"{name}, {plain(row.severity.unit, 20)}" if row.severity.unit else name
    points = [point for point in curve.points if point.failing.n]
    high = max([2.0 * accepted, *(point.failing.high for point in points if isfinite(point.failing.high))])
    x, y = Axis(0.0, float(row.steps), _LEFT, _RIGHT), Axis(0.0, round_up(high, 1.0), _BOTTOM, _TOP, AxisUnit.PERCENT)
    said = "; ".join(f"{row.words(point.position)}: {percent(point.failing.estimate)}" for point in points)
    root = drawing(f"curve-{row.stimulus}-{name}".replace(" ", "-"), title, said, _HEIGHT)
    for value in y.ticks(4):
        add(root, "line", class_="grid", x1=_LEFT, x2=_RIGHT, y1=y.at(value), y2=y.at(value))
        add(root, "text", y.word(value), class_="tick", x=_LEFT - 6.0, y=y.at(value) + 4.0, text_anchor="end")
    for quarter in range(5):
        position = row.steps * quarter // 4
        anchor = "end" if quarter == 4 else "middle"
        add(root, "text", row.words(position), class_="tick", x=x.at(position), y=_BOTTOM + 16.0, text_anchor=anchor)
    add(root, "line", class_="axis", x1=_LEFT, x2=_RIGHT, y1=_BOTTOM, y2=_BOTTOM)
    add(root, "line", class_="limit", x1=_LEFT, x2=_RIGHT, y1=y.at(accepted), y2=y.at(accepted))
    band = [(point.position, point.failing.low) for point in points] + [(point.position, point.failing.high) for point in reversed(points)]
    add(root, "polygon", class_="bar", points=_path(x, y, band), fill_opacity="0.22", style="stroke:none")
    add(root, "polyline", class_="curve series-0", points=_path(x, y, [(point.position, point.failing.estimate) for point in points]))
    for point in points:
        standing = point.standing(accepted)
        mark = add(root, "circle", class_="point", cx=x.at(point.position), cy=y.at(point.failing.estimate), r=4.0)
        if standing is Standing.FAILS:
            mark.set("style", "fill:var(--fail)")
        elif standing is Standing.REFUSED:
            mark.set("style", "fill:none;stroke:currentColor")
        span = interval(point.failing.low, point.failing.high)
        tip(mark, f"{row.words(point.position)}: {percent(point.failing.estimate)} of frames fail ({span}): {standing.value}")
    for found in (curve.holds_to, curve.fails_from):
        if found is not None:
            at = x.at(found.position)
            add(root, "line", class_="limit", x1=at, x2=at, y1=_TOP, y2=_BOTTOM)
    middle = (_LEFT + _RIGHT) / 2.0
    add(root, "text", "harmless to worst", class_="name", x=middle, y=_BOTTOM + 36.0, text_anchor="middle")
    caption = f"Share of frames that fail, with its 95 % interval; {percent(accepted)} is accepted (dashed). Upright lines: holds to, "
    caption += "fails from. Hollow: refused by the referee."
    return Chart(title, caption, write(root))


def _path(x: Axis, y: Axis, points: list[tuple[int, float]]) -> str:
    return " ".join(f"{x.at(a):.2f},{y.at(b):.2f}" for a, b in points if isfinite(b))


def map_chart(pair: PairMap, accepted: float) -> Chart:
    """Draws the failing share under two conditions at once, with the line up to which the network holds."""
    first, second = pair.first, pair.second
    title = f"{plain(first.name, 40)} with {plain(second.name, 40)}"
    many = len(pair.positions)
    left, top = 96.0, 34.0
    root = drawing(f"map-{first.name}-{second.name}", title, _map_words(pair), top + many * _CELL_HEIGHT + 12.0)
    for column, two in enumerate(pair.positions):
        middle = left + (column + 0.5) * _CELL_WIDTH
        add(root, "text", second.words(two) if two else "none", class_="tick", x=middle, y=top - 6.0, text_anchor="middle")
    add(root, "text", plain(second.name, 40), class_="name", x=left, y=12.0)
    add(root, "text", plain(first.name, 14), class_="name", x=4.0, y=top - 6.0)
    for line, one in enumerate(pair.positions):
        y = top + line * _CELL_HEIGHT
        add(root, "text", first.words(one) if one else "none", class_="tick", x=left - 6.0, y=y + 19.0, text_anchor="end")
        for column, two in enumerate(pair.positions):
            _cell(root, pair, one, two, left + column * _CELL_WIDTH, y)
    _edge(root, pair, left, top)
    caption = "Percent of frames that fail. The thick line surrounds the cells that hold, as every milder cell does: no frame fails there, "
    caption += f"or the upper end of the 95 % interval is below {percent(accepted)}."
    return Chart(title, caption, write(root))


def _cell(root: ET.Element, pair: PairMap, one: int, two: int, x: float, y: float) -> None:
    point = pair.cells[one, two]
    share = 0.0 if point is None else point.failing.estimate
    known = point is not None or (one == 0 and two == 0)
    group = add(root, "g", class_=f"cell {heat_step(share if known else nan)}")
    add(group, "rect", x=x, y=y, width=_CELL_WIDTH - 2.0, height=_CELL_HEIGHT - 2.0, rx=2.0)
    words = "<1" if 0.0 < share < 0.005 else f"{100.0 * share:.0f}" if known and isfinite(share) else NOTHING
    add(group, "text", words, x=x + _CELL_WIDTH / 2.0, y=y + 18.0, text_anchor="middle")
    if point is not None:
        tip(group, f"{percent(share)} of frames fail ({interval(point.failing.low, point.failing.high)})")


def _edge(root: ET.Element, pair: PairMap, left: float, top: float) -> None:
    """Draws the frontier as a stair between the cells that hold and the others."""
    reach = [pair.positions.index(two) + 1 if two >= 0 else 0 for _, two in pair.edge]
    corners = [(left + reach[0] * _CELL_WIDTH - 1.0, top)]
    for line, (now, following) in enumerate(pairwise([*reach, 0])):
        y = top + (line + 1) * _CELL_HEIGHT - 1.0
        corners += [(left + now * _CELL_WIDTH - 1.0, y), (left + following * _CELL_WIDTH - 1.0, y)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    add(root, "polyline", points=path, style="fill:none;stroke:currentColor;stroke-width:3")


def _map_words(pair: PairMap) -> str:
    held = [
        f"{pair.first.words(one) if one else 'none'}: {pair.second.words(two) if two > 0 else 'none' if two == 0 else 'fails'}"
        for one, two in pair.edge
    ]
    return f"How far {pair.second.name} may go for each {pair.first.name}: {'; '.join(held)}."
