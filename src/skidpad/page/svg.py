"""Small pieces of SVG, built as an element tree so that every text is escaped by construction."""

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import ceil, floor, isfinite, log10, nan
from pathlib import Path

from skidpad.core.errors import SkidpadError
from skidpad.core.files import write_atomically
from skidpad.page.wording import NOTHING, percent, plain

WIDTH = 480.0
"""Every plot's own width: text of 12 units stays readable on a phone (x 0.75) and calm on a desk (x 1.2)."""

Attribute = str | float


class AxisUnit(Enum):
    """How the numbers along an axis are written."""

    NUMBER = ""
    PERCENT = "%"
    DEGREES = "°"


@dataclass(frozen=True, slots=True)
class Axis:
    """A straight scale: values `low` to `high` lie along `start` to `stop` of the drawing. is_whole: it counts, and has no half ticks."""

    low: float
    high: float
    start: float
    stop: float
    unit: AxisUnit = AxisUnit.NUMBER
    is_whole: bool = False

    def at(self, value: float) -> float:
        """Returns the position of a value, held within the axis."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.stop - self.start)

    def ticks(self, about: int = 5) -> list[float]:
        """Returns round values within the axis, roughly `about` of them."""
        wanted = (self.high - self.low) / about
        step = max(_round_step(wanted, (1.0, 2.0, 5.0, 10.0)), 1.0) if self.is_whole else _round_step(wanted)
        first, last = ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9)
        return [index * step for index in range(first, last + 1)]

    def word(self, value: float) -> str:
        """Writes a tick's value."""
        if self.unit is AxisUnit.PERCENT:
            return f"{100.0 * value:.3g}\N{NO-BREAK SPACE}%"
        text = f"{value:.4g}" if abs(value) < 1e4 else f"{value:.2g}"
        return f"{'0' if text == '-0' else text}{self.unit.value}".replace("-", "−")


def drawable(value: float) -> bool:
    """Tells whether a value has a place on an axis; beyond 1e12 the steps of an axis lose their digits."""
    return abs(value) <= 1e12


def _round_step(step: float, factors: tuple[float, ...] = (1.0, 2.0, 2.5, 5.0, 10.0)) -> float:
    scale = 10.0 ** floor(log10(step))
    return scale * next(factor for factor in factors if factor * scale >= step * (1.0 - 1e-9))


def round_up(value: float, ceiling: float = float("inf")) -> float:
    """Returns the round end of an axis that must reach `value`, and something where nothing is there to reach."""
    if not 1e-12 < value <= 1e12:
        return min(1.0, ceiling)
    step = _round_step(value / 4.0)
    return min(step * ceil(value / step - 1e-9), ceiling)


def add(parent: ET.Element, tag: str, text: str = "", **attributes: Attribute) -> ET.Element:
    """Adds one element; `class_` and `text_anchor` are written as `class` and `text-anchor`."""
    node = ET.SubElement(parent, tag, {_name(name): _value(value) for name, value in attributes.items()})
    if text:
        node.text = plain(text)
    return node


def tip(node: ET.Element, text: str) -> ET.Element:
    """Gives a mark the words that show when it is pointed at."""
    ET.SubElement(node, "title").text = plain(text)
    return node


def drawing(key: str, title: str, description: str, height: float, width: float = WIDTH) -> ET.Element:
    """Starts a picture with its name and its description for those who do not see it; `key` is unique on the page."""
    root = ET.Element(
        "svg",
        {
            "viewBox": f"0 0 {_value(width)} {_value(height)}",
            "role": "img",
            "class": "plot",
            "aria-labelledby": f"{key}-title",
            "aria-describedby": f"{key}-desc",
        },
    )
    add(root, "title", title, id=f"{key}-title")
    # The description stands for the whole plot, so it may be long.
    add(root, "desc", id=f"{key}-desc").text = plain(description, 4000)
    return root


def write(root: ET.Element) -> str:
    """Writes a finished picture."""
    return ET.tostring(root, encoding="unicode")


def short(text: str, letters: int) -> str:
    """Cuts a label to what its place holds."""
    return plain(text, max(letters, 4))


def _name(name: str) -> str:
    return name.rstrip("_").replace("_", "-") if name != "viewBox" else name


def _value(value: Attribute) -> str:
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


_ROW = 26.0
_UNDER = 14.0
_LETTER, _SMALL_LETTER = 6.6, 5.2
HEAT_STEPS = 8


@dataclass(frozen=True, slots=True)
class Bar:
    """One row of a bar plot; NaN draws nothing and says so in words."""

    label: str
    value: float
    low: float = nan
    high: float = nan
    note: str = ""


@dataclass(frozen=True, slots=True)
class PairedBar:
    """One row of two bars back to back: shares from 0 to 1."""

    label: str
    left: float
    right: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a heat map: a share from 0 to 1, NaN where nothing was measured. under: what it is of, where rows differ in that."""

    value: float
    note: str = ""
    under: str = ""


@dataclass(frozen=True, slots=True)
class HeatRow:
    """One row of a heat map."""

    label: str
    cells: tuple[Cell, ...]


def bars(key: str, title: str, description: str, rows: Sequence[Bar]) -> str:
    """Draws shares as horizontal bars with whiskers from low to high."""
    gutter = _gutter([row.label for row in rows])
    bottom = len(rows) * _ROW + 8.0
    # Never less than one percent, or the whiskers of a run without failures would fill the plot.
    reach = max((max(value, 0.01) for row in rows for value in (row.value, row.high) if isfinite(value)), default=1.0)
    axis = Axis(0.0, round_up(reach, 1.0), gutter, WIDTH - 62.0, AxisUnit.PERCENT)
    root = drawing(key, title, description, bottom + 26.0)
    _grid_below(root, axis, 4.0, bottom)
    for index, row in enumerate(rows):
        middle = 4.0 + (index + 0.5) * _ROW
        group = tip(add(root, "g"), row.note or f"{row.label}: {percent(row.value)}")
        add(group, "rect", class_="hit", x=0.0, y=middle - _ROW / 2, width=WIDTH, height=_ROW)
        add(group, "text", short(row.label, int(gutter / _LETTER)), class_="label", x=gutter - 8.0, y=middle + 4.0, text_anchor="end")
        if isfinite(row.value):
            add(group, "rect", class_="bar", x=gutter, y=middle - 7.0, width=axis.at(row.value) - gutter, height=14.0, rx=2.0)
        if isfinite(row.low) and isfinite(row.high):
            _whisker(group, axis.at(row.low), axis.at(row.high), middle)
        add(group, "text", percent(row.value), class_="value", x=WIDTH - 4.0, y=middle + 4.0, text_anchor="end")
    return write(root)


def paired_bars(key: str, title: str, description: str, sides: tuple[str, str], rows: Sequence[PairedBar]) -> str:
    """Draws two shares of each row back to back, each side on its own scale; `sides` names them."""
    gutter = _gutter([row.label for row in rows])
    bottom = 24.0 + len(rows) * _ROW
    half = (WIDTH - gutter) / 2.0
    left = Axis(0.0, _reach(row.left for row in rows), gutter + half - 8.0, gutter + 46.0, AxisUnit.PERCENT)
    right = Axis(0.0, _reach(row.right for row in rows), gutter + half + 8.0, WIDTH - 46.0, AxisUnit.PERCENT)
    root = drawing(key, title, description, bottom + 6.0)
    add(root, "text", sides[0], class_="side left", x=left.start, y=14.0, text_anchor="end")
    add(root, "text", sides[1], class_="side right", x=right.start, y=14.0)
    add(root, "line", class_="axis", x1=left.start, x2=left.start, y1=22.0, y2=bottom)
    add(root, "line", class_="axis", x1=right.start, x2=right.start, y1=22.0, y2=bottom)
    for index, row in enumerate(rows):
        middle = 24.0 + (index + 0.5) * _ROW
        group = tip(add(root, "g"), row.note or row.label)
        add(group, "rect", class_="hit", x=0.0, y=middle - _ROW / 2, width=WIDTH, height=_ROW)
        add(group, "text", short(row.label, int(gutter / _LETTER)), class_="label", x=gutter - 8.0, y=middle + 4.0, text_anchor="end")
        for side, axis, value in (("left", left, row.left), ("right", right, row.right)):
            end = axis.at(value) if isfinite(value) else axis.start
            x, width = min(end, axis.start), abs(end - axis.start)
            add(group, "rect", class_=f"bar {side}", x=x, y=middle - 7.0, width=width, height=14.0, rx=2.0)
            anchor, shift = ("end", -5.0) if side == "left" else ("start", 5.0)
            add(group, "text", percent(value), class_="value", x=end + shift, y=middle + 4.0, text_anchor=anchor)
    return write(root)


def heat_map(key: str, title: str, description: str, rows: Sequence[HeatRow]) -> str:
    """Draws shares as coloured cells, one row each; every cell also bears its number, so colour is not needed.

    Columns are numbered unless the cells say themselves what they are of.
    """
    gutter = _gutter([row.label for row in rows])
    columns = max((len(row.cells) for row in rows), default=1) or 1
    width = min((WIDTH - gutter) / columns, 60.0)
    named = any(cell.under for row in rows for cell in row.cells)
    step, head = (_ROW + _UNDER, 4.0) if named else (_ROW, 18.0)
    root = drawing(key, title, description, len(rows) * step + head + 30.0)
    for index in range(0 if named else columns):
        add(root, "text", str(index + 1), class_="tick", x=gutter + (index + 0.5) * width, y=12.0, text_anchor="middle")
    for index, row in enumerate(rows):
        top = head + index * step
        label = short(row.label, int(gutter / _LETTER))
        tip(add(root, "text", label, class_="label", x=gutter - 8.0, y=top + 17.0, text_anchor="end"), row.label)
        for column, cell in enumerate(row.cells):
            _cell(root, cell, gutter + column * width, top, width)
    top = head + len(rows) * step + 10.0
    add(root, "text", "0\N{NO-BREAK SPACE}%", class_="tick", x=gutter, y=top + 10.0)
    for step in range(HEAT_STEPS):
        add(root, "rect", class_=f"heat heat-{step}", x=gutter + 26.0 + step * 18.0, y=top, width=18.0, height=12.0)
    add(root, "text", "100\N{NO-BREAK SPACE}% of cases fail", class_="tick", x=gutter + 32.0 + HEAT_STEPS * 18.0, y=top + 10.0)
    return write(root)


def heat_step(share: float) -> str:
    """Names the colour class of a share; exact zero has the first to itself, so that one failure is seen."""
    if not isfinite(share):
        return "heat-none"
    return f"heat-{0 if share <= 0.0 else min(1 + int(min(share, 1.0) * (HEAT_STEPS - 1)), HEAT_STEPS - 1)}"


def _cell(root: ET.Element, cell: Cell, x: float, y: float, width: float) -> None:
    group = tip(add(root, "g", class_=f"cell {heat_step(cell.value)}"), cell.note or percent(cell.value))
    add(group, "rect", x=x + 1.0, y=y + 1.0, width=width - 2.0, height=_ROW - 2.0, rx=2.0)
    if width >= 20.0:
        words = f"{100.0 * cell.value:.0f}" if isfinite(cell.value) else NOTHING
        words = "<1" if 0.0 < cell.value < 0.005 else words
        add(group, "text", words, x=x + width / 2.0, y=y + 17.0, text_anchor="middle")
        if cell.under:
            said = short(cell.under, int(width / _SMALL_LETTER))
            add(root, "text", said, class_="tick under", x=x + width / 2.0, y=y + _ROW + 9.0, text_anchor="middle")


def _whisker(parent: ET.Element, low: float, high: float, middle: float) -> None:
    add(parent, "line", class_="whisker", x1=low, x2=high, y1=middle, y2=middle)
    for end in (low, high):
        add(parent, "line", class_="whisker", x1=end, x2=end, y1=middle - 4.0, y2=middle + 4.0)


def _grid_below(root: ET.Element, axis: Axis, top: float, bottom: float) -> None:
    for value in axis.ticks(4):
        x = axis.at(value)
        add(root, "line", class_="grid", x1=x, x2=x, y1=top, y2=bottom)
        add(root, "text", axis.word(value), class_="tick", x=x, y=bottom + 16.0, text_anchor="middle")


def _gutter(labels: Sequence[str]) -> float:
    longest = max((len(label) for label in labels), default=0)
    return min(max(longest, 6), 20) * _LETTER + 14.0


def _reach(values: Iterable[float]) -> float:
    numbers = [value for value in values if isfinite(value)]
    return round_up(max(numbers, default=1.0), 1.0)


_STYLE = (
    "text{font-family:system-ui,'Segoe UI','Noto Sans','Liberation Sans',sans-serif;fill:#12171f}"
    ".muted{fill:#566173}.car-name{fill:#fff}.chance{fill:#b3261e}"
)


def standalone(svg: str) -> str:
    """Returns a drawing as a standalone file, with the background and fonts that a page would give it."""
    root = ET.fromstring(svg)  # noqa: S314  our own drawing, not foreign XML
    root.set("xmlns", "http://www.w3.org/2000/svg")
    _, _, width, height = root.get("viewBox", "0 0 0 0").split()
    root.set("viewBox", f"-16 -16 {float(width) + 32:g} {float(height) + 32:g}")
    ground = ET.Element(
        "rect", {"x": "-16", "y": "-16", "width": f"{float(width) + 32:g}", "height": f"{float(height) + 32:g}", "fill": "#ffffff"}
    )
    style = ET.Element("style")
    style.text = _STYLE
    root.insert(0, style)
    root.insert(1, ground)
    return ET.tostring(root, encoding="unicode") + "\n"


def write_film(path: Path, strip: str, moving: str) -> tuple[Path, Path]:
    """Writes a film as two files, the strip and `NAME.moving.svg` beside it; returns both paths."""
    if path.suffix != ".svg":
        raise SkidpadError(f"a film is drawn as SVG, which any browser opens; name the file {path.with_suffix('.svg').name}")
    beside = path.with_name(f"{path.stem}.moving.svg")
    path.parent.mkdir(parents=True, exist_ok=True)
    for target, drawn in ((path, strip), (beside, moving)):
        write_atomically(target, standalone(drawn).encode())
    return path, beside
