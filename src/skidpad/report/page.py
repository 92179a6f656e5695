"""The page that every kind of campaign shares: verdict, pictures, plots, tables, how to reproduce.

A campaign's own module turns what it measured into a Page; `render` draws any Page.
"""

from dataclasses import dataclass

from skidpad.report.gallery import Gallery
from skidpad.report.model import Fact, Headline, Tone
from skidpad.report.pictures import PairCard


@dataclass(frozen=True, slots=True)
class Chart:
    """A finished plot with the words around it; svg comes from plots.py or charts.py, which escape every text."""

    title: str
    caption: str
    svg: str


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of words under named columns; columns from `numbers_from` on hold numbers and stand to the right."""

    key: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers_from: int = 1
    note: str = ""


@dataclass(frozen=True, slots=True)
class Film:
    """A finding that moves, with the words around it; its drawings escape every text, as those of a Chart.

    moving: an animation, hidden from readers who asked for no motion. strip: the same as a row of moments. is_bad: whether the badge
    tells of a failure.
    """

    title: str
    badge: str
    moving: str
    strip: str
    said: str
    case_id: str
    replay: str = ""
    is_bad: bool = True
    tag: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """Everything on the page, in its order; a part that is empty is left out. warnings stand right below the verdict."""

    title: str
    tone: Tone
    verdict: str
    headlines: tuple[Headline, ...]
    context: tuple[Fact, ...]
    notes: tuple[str, ...]
    pictures: tuple[PairCard, ...]
    pictures_note: str
    charts: tuple[Chart, ...]
    tables: tuple[Table, ...]
    configuration: tuple[Fact, ...]
    manifest: tuple[Fact, ...]
    commands: tuple[str, ...]
    films: tuple[Film, ...] = ()
    galleries: tuple[Gallery, ...] = ()
    warnings: tuple[str, ...] = ()
