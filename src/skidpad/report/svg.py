"""Small pieces of SVG, built as an element tree so that every text is escaped by construction."""

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from enum import Enum
from math import ceil, floor, log10

from skidpad.report.wording import plain

WIDTH = 480.0
"""Every plot's own width: text of 12 units stays readable on a phone (x 0.75) and calm on a desk (x 1.2)."""

Attribute = str | float


class Unit(Enum):
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
    unit: Unit = Unit.NUMBER
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
        if self.unit is Unit.PERCENT:
            return f"{100.0 * value:.3g}%"
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
