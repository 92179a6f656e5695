"""The templates, which escape everything, and the few files that pages are dressed with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment
from starlette.responses import HTMLResponse, Response

from skidpad import __version__
from skidpad.kinds.exhibits import Form
from skidpad.oracles.error import ErrorScale
from skidpad.page.pictures import Overlay, overlay
from skidpad.page.svg import Axis, add, drawing, write
from skidpad.page.wording import DEGREES, NOTHING, answer, count, counted, how_far, interval, moved_words, percent, plain
from skidpad.page.writing import templates
from skidpad.runs.tags import Tag

if TYPE_CHECKING:
    from skidpad.kinds.exhibits import Column, PairAnswers, Row
    from skidpad.runs.tags import TaggedRates
    from skidpad.statistics.intervals import Interval


_STATIC = {
    "report.css": ("skidpad.page", "templates", "style.css", "text/css"),
    "page.css": ("skidpad.ui", "static", "page.css", "text/css"),
    "page.js": ("skidpad.ui", "static", "page.js", "text/javascript"),
    "icon.svg": ("skidpad.ui", "static", "icon.svg", "image/svg+xml"),
}
"""Every file that may be asked for; no address becomes a path."""

TAG_KEYS = (("1", Tag.REAL_FAULT), ("2", Tag.FALSE_ALARM), ("3", Tag.UNCLEAR))
"""The keys that tag a finding."""


def page(template: str, status: int = 200, **shown: Any) -> HTMLResponse:
    """Renders a template of this package."""
    html = _environment().get_template(template).render(version=__version__, tag_keys=TAG_KEYS, **shown)
    return HTMLResponse(html, status)


def static_file(name: str) -> Response | None:
    """Returns one of the files of the page, None where there is no such."""
    if name not in _STATIC:
        return None
    package, folder, file, kind = _STATIC[name]
    data = files(package).joinpath(folder, file).read_bytes()
    return Response(data, media_type=kind, headers={"cache-control": "no-cache"})


@cache
def _environment() -> Environment:
    environment = templates("skidpad.ui")
    environment.filters |= {"count": count, "counted": counted, "percent": percent}
    return environment


_BAR_WIDTH, _BAR_HEIGHT = 120.0, 18.0


@dataclass(frozen=True, slots=True)
class RateWords:
    """A rate as words and as a small bar with its interval."""

    share: str
    range: str
    of: str
    bar: str


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run in a list. kind: the command that made it. problem: why it cannot be read, "" where it can.

    cases, findings, rate: empty while they are still to be counted. apart: whether several were tested, whose cases make no rate
    together. altered: whether its settings were changed after it was made.
    """

    key: str
    name: str
    created: str = ""
    kind: str = ""
    subject: str = NOTHING
    drive: str = NOTHING
    date: str = ""
    state: str = "unreadable"
    cases: str = ""
    findings: str = ""
    rate: RateWords | None = None
    tagged: str = ""
    rule: str = ""
    problem: str = ""
    apart: bool = False
    altered: bool = False

    @property
    def is_counted(self) -> bool:
        """Whether its figures are known, or never will be."""
        return bool(self.findings) or bool(self.problem)


@dataclass(frozen=True, slots=True)
class PairView:
    """A pair with its answers as words and arrows."""

    original: str
    mutant: str
    label: str
    apart: str
    arrows: tuple[Overlay, ...]
    width: int
    height: int
    turns: bool


def rate_words(rate: Interval, hits: int, trials: int, key: str) -> RateWords:
    """Words a rate with its interval."""
    share, words = percent(rate.estimate), interval(rate.low, rate.high)
    return RateWords(share, words, f"{count(hits)} of {count(trials)}", _bar(key, share, words, rate) if trials else "")


def place_words(path: Path) -> str:
    """Words a path, as seen from where the page was started where it lies below."""
    here = Path.cwd()
    return plain(str(path.relative_to(here)) if path != here and path.is_relative_to(here) else str(path), 300)


def date_words(created: str) -> str:
    """Words a time of ISO 8601 to the minute."""
    return f"{created[:10]} {created[11:16]}" if len(created) >= 16 else created


def tagged_words(rates: TaggedRates, *, apart: bool = False) -> str:
    """Words how many findings were looked at, and the rate that this leaves where there is one; "" where none was."""
    done = rates.findings - rates.untagged
    without = f"; {percent(rates.without_false_alarms.estimate)} without {counted(rates.false_alarms, 'false alarm')}"
    return f"{count(done)} tagged, {count(rates.real_faults)} real{without if rates.false_alarms and not apart else ''}" if done else ""


def fact_rows(columns: Sequence[Column], row: Row) -> list[tuple[str, str]]:
    """Returns every column that can be read, with its value."""
    return [(column.title, column.word(row.get(column.name))) for column in columns if column.form is not Form.HIDDEN]


def pair_view(said: PairAnswers, width: int, height: int, scale: ErrorScale = ErrorScale.ERRORS) -> PairView:
    """Words the answers of a pair, and draws those that are angles as arrows over a picture of this size."""
    drawn = (("original", said.original), ("mutant", said.mutant), ("label", said.label)) if said.unit == DEGREES else ()
    arrows = tuple(overlay(kind, angle, width, height) for kind, angle in drawn if isfinite(angle) or kind == "mutant")
    words = moved_words(said.original, said.moved, said.unit)
    return PairView(
        original=answer(said.original - said.moved, said.unit) + (f" ({words})" if words else ""),
        mutant=answer(said.mutant, said.unit),
        label=answer(said.label, said.unit) if isfinite(said.label) else "",
        apart=how_far(said.original, said.mutant, said.label, said.unit, scale),
        arrows=arrows,
        width=width,
        height=height,
        turns=bool(arrows),
    )


def setting_rows(config: Mapping[str, object]) -> list[tuple[str, str]]:
    """Words a run's settings."""
    return [(plain(str(name), 60), plain(value if isinstance(value, str) else str(value), 300)) for name, value in config.items()]


def _bar(key: str, share: str, words: str, rate: Interval) -> str:
    axis = Axis(0.0, 1.0, 1.0, _BAR_WIDTH - 1.0)
    middle = _BAR_HEIGHT / 2.0
    root = drawing(key, share, f"95 % interval {words}", _BAR_HEIGHT, _BAR_WIDTH)
    root.set("class", "ratebar")
    add(root, "rect", x=0.0, y=middle - 4.0, width=_BAR_WIDTH, height=8.0, rx=4.0, class_="ground")
    add(root, "rect", x=0.0, y=middle - 4.0, width=max(axis.at(rate.estimate), 1.5), height=8.0, rx=4.0, class_="bar")
    add(root, "line", x1=axis.at(rate.low), x2=axis.at(rate.high), y1=middle, y2=middle, class_="whisker")
    for end in (rate.low, rate.high):
        add(root, "line", x1=axis.at(end), x2=axis.at(end), y1=middle - 4.0, y2=middle + 4.0, class_="whisker")
    return write(root)
