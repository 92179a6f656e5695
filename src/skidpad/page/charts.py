"""Plots over two axes as inline SVG: histogram, curves, scatter; and whole charts with their captions."""

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import log10, nan

import numpy as np

from skidpad.page.model import Chart
from skidpad.page.svg import WIDTH, Axis, AxisUnit, Bar, add, bars, drawable, drawing, round_up, short, tip, write
from skidpad.page.wording import DEGREES, counted, percent, with_unit

_LEFT, _RIGHT, _TOP, _BOTTOM, _HEIGHT = 52.0, WIDTH - 10.0, 14.0, 226.0, 268.0
SERIES = 6
"""How many curves have a colour and a dash of their own."""


@dataclass(frozen=True, slots=True)
class DeviationHistogram:
    """How far the mutants' answers lie from the originals', in `unit`.

    edges: increasing, one more than counts. tolerance: where the relation begins to be broken, NaN where it has no such place.
    not_finite: cases left out because an answer was not finite.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    tolerance: float = nan
    not_finite: int = 0
    unit: str = "deg"

    def __post_init__(self) -> None:
        if self.counts and len(self.edges) != len(self.counts) + 1:
            raise ValueError(f"{len(self.counts)} counts need {len(self.counts) + 1} edges; got {len(self.edges)}")


@dataclass(frozen=True, slots=True)
class Curve:
    """A named line of points, as cumulative coverage over cases; NaN breaks the line. spread: to both sides of it, shaded."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    spread: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"curve {self.label!r} needs as many x as y; got {len(self.x)} and {len(self.y)}")


@dataclass(frozen=True, slots=True)
class Point:
    """One mark of a scatter; a point that is not finite (or beyond 1e12) is left out."""

    label: str
    x: float
    y: float


def bar_chart(key: str, title: str, caption: str, marks: Sequence[Bar]) -> Chart:
    """Draws shares as bars, and says them to those who do not see them."""
    return Chart(title, caption, bars(key, title, "; ".join(f"{mark.label} {percent(mark.value)}" for mark in marks), marks))


def curve_chart(
    key: str, title: str, caption: str, axes: tuple[str, str], lines: Sequence[Curve], said: str = "", *, reach: tuple[float, ...] = ()
) -> Chart:
    """Draws lines over shared axes. said: the plot in words; by default where each line ends."""
    words = said or "; ".join(f"{line.label} ends at {line.y[-1]:.3g}" for line in lines if line.y)
    return Chart(title, caption, curves(key, title, words, axes, lines, reach=reach))


def histogram(key: str, title: str, description: str, data: DeviationHistogram) -> str:
    """Draws counts over the histogram's unit; bars beyond the tolerance have another colour, and rare ones stay visible.

    Where the fullest bin holds over a hundred times the emptiest, the counts stand on a logarithmic scale, which
    the axis says. Bins of unequal width are drawn equally wide with every edge named, since a bar's area would
    otherwise tell of the bin and not of the cases.
    """
    root = drawing(key, title, description, _HEIGHT)
    filled = [number for number in data.counts if number > 0]
    logarithmic = bool(filled) and max(filled) > 100 * min(filled)
    edges = data.edges
    even = is_even(edges)
    places = edges if even else tuple(float(index) for index in range(len(edges)))
    turns = data.unit == DEGREES
    x = _axis(places, _LEFT, _RIGHT, AxisUnit.DEGREES if turns else AxisUnit.NUMBER)
    y = _log_axis(max(filled)) if logarithmic else Axis(0.0, round_up(max(filled, default=1)), _BOTTOM, _TOP)
    ticks = [(log10(1.0 + 10.0**power), f"{10**power:,}") for power in range(int(y.high) + 1)] if logarithmic else None
    name = "mutant − original, left is positive" if edges and edges[0] < 0.0 else "|mutant − original|"
    name = name if turns or not data.unit else f"{name}, {data.unit}"
    names = None if even else [(place, x.word(edge)) for place, edge in zip(places, edges, strict=True)]
    plot_frame(root, x, y, (name, "cases (log scale)" if logarithmic else "cases"), names, ticks)
    for (low, high), (start, stop), number in zip(pairwise(edges), pairwise(places), data.counts, strict=True):
        if number > 0:
            top = y.at(log10(1.0 + number) if logarithmic else number)
            beyond = abs(low + high) / 2.0 > data.tolerance
            left, right = x.at(start) + 0.5, x.at(stop) - 0.5
            mark = add(
                root, "rect", class_="bar beyond" if beyond else "bar", x=left, y=top, width=max(right - left, 0.5), height=_BOTTOM - top
            )
            tip(mark, f"{with_unit(low, data.unit)} to {with_unit(high, data.unit)}: {counted(number, 'case')}")
    for edge in (-data.tolerance, data.tolerance):
        if edges and edges[0] < edge < edges[-1]:
            at = x.at(float(np.interp(edge, edges, places)))
            add(root, "line", class_="limit", x1=at, x2=at, y1=_TOP, y2=_BOTTOM)
    return write(root)


def is_even(edges: Sequence[float]) -> bool:
    """Tells whether bins are about equally wide."""
    widths = np.diff(edges)
    return len(widths) == 0 or float(widths.max()) <= 1.5 * float(widths.min())


def curves(key: str, title: str, description: str, axes: tuple[str, str], series: Sequence[Curve], *, reach: tuple[float, ...] = ()) -> str:
    """Draws named lines over shared axes, the names beneath them; the first few have a colour and a dash each.

    reach: heights that the upper axis must have, as 0 where heights are read as amounts.
    """
    points = [(x, y) for line in series for x, y in zip(line.x, line.y, strict=True) if drawable(x) and drawable(y)]
    x = _axis([point[0] for point in points], _LEFT, _RIGHT)
    x = replace(x, is_whole=all(point[0] == round(point[0]) for point in points))
    wide = [b + way * c for line in series for b, c in zip(line.y, line.spread, strict=False) for way in (1.0, -1.0)]
    y = _axis([*(point[1] for point in points), *wide, *reach], _BOTTOM, _TOP)
    root = drawing(key, title, description, _HEIGHT + 20.0 * len(series))
    plot_frame(root, x, y, axes)
    for index, line in enumerate(series):
        name = f"series-{index % SERIES}"
        if line.spread:
            edges = [[(a, b + way * c) for a, b, c in zip(line.x, line.y, line.spread, strict=True)] for way in (1.0, -1.0)]
            path = " ".join(f"{x.at(a):.2f},{y.at(b):.2f}" for a, b in (*edges[0], *reversed(edges[1])))
            add(root, "polygon", class_=f"band {name}", points=path)
        for piece in _pieces(line):
            path = " ".join(f"{x.at(a):.2f},{y.at(b):.2f}" for a, b in piece)
            tip(add(root, "polyline", class_=f"curve {name}", points=path), line.label)
        top = _HEIGHT + 20.0 * index + 10.0
        add(root, "line", class_=f"curve {name}", x1=_LEFT, x2=_LEFT + 26.0, y1=top - 4.0, y2=top - 4.0)
        add(root, "text", short(line.label, 60), class_="label", x=_LEFT + 34.0, y=top)
    return write(root)


def scatter(
    key: str, title: str, description: str, axes: tuple[str, str], points: Sequence[Point], *, reach: tuple[float, ...] = ()
) -> str:
    """Draws one mark for each finite point; a point's name shows when it is pointed at. reach: as of curves."""
    seen = [point for point in points if drawable(point.x) and drawable(point.y)]
    x = _axis([point.x for point in seen], _LEFT, _RIGHT)
    y = _axis([*(point.y for point in seen), *reach], _BOTTOM, _TOP)
    root = drawing(key, title, description, _HEIGHT)
    plot_frame(root, x, y, axes)
    for point in seen:
        tip(add(root, "circle", class_="point", cx=x.at(point.x), cy=y.at(point.y), r=4.0), f"{point.label}: {point.x:g}, {point.y:g}")
    return write(root)


def _axis(values: Sequence[float], start: float, stop: float, unit: AxisUnit = AxisUnit.NUMBER) -> Axis:
    numbers = [value for value in values if drawable(value)]
    low, high = min(numbers, default=0.0), max(numbers, default=1.0)
    # One value alone has no range; a little to each side gives it a place.
    room = max(0.5, 1e-3 * abs(low))
    return (
        Axis(low, high, start, stop, unit)
        if high - low > 1e-9 * max(abs(low), abs(high), 1e-6)
        else Axis(low - room, low + room, start, stop, unit)
    )


def _log_axis(most: int) -> Axis:
    return Axis(0.0, log10(1.0 + most), _BOTTOM, _TOP)


def _words(axis: Axis, about: int = 4) -> list[tuple[float, str]]:
    return [(value, axis.word(value)) for value in axis.ticks(about)]


def _pieces(line: Curve) -> list[list[tuple[float, float]]]:
    pieces: list[list[tuple[float, float]]] = [[]]
    for a, b in [*zip(line.x, line.y, strict=True), (nan, nan)]:
        if drawable(a) and drawable(b):
            pieces[-1].append((a, b))
        elif pieces[-1]:
            pieces.append([])
    return [piece for piece in pieces if piece]


def plot_frame(
    root: ET.Element,
    x: Axis,
    y: Axis,
    axes: tuple[str, str],
    x_ticks: list[tuple[float, str]] | None = None,
    y_ticks: list[tuple[float, str]] | None = None,
) -> None:
    """Draws grid, ticks, the lower axis and the names of both axes, which lie where theirs begin and end."""
    left, right, bottom, top = x.start, x.stop, y.start, y.stop
    for value, words in y_ticks or _words(y):
        at = y.at(value)
        add(root, "line", class_="grid", x1=left, x2=right, y1=at, y2=at)
        add(root, "text", words, class_="tick", x=left - 6.0, y=at + 4.0, text_anchor="end")
    for value, words in x_ticks or _words(x, 6):
        add(root, "text", words, class_="tick", x=x.at(value), y=bottom + 16.0, text_anchor="middle")
    add(root, "line", class_="axis", x1=left, x2=right, y1=bottom, y2=bottom)
    add(root, "text", short(axes[0], 60), class_="name", x=(left + right) / 2.0, y=bottom + 36.0, text_anchor="middle")
    middle = (top + bottom) / 2.0
    add(root, "text", short(axes[1], 34), class_="name", x=12.0, y=middle, text_anchor="middle", transform=f"rotate(-90 12 {middle:g})")
