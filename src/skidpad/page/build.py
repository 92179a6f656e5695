"""The page that every kind of campaign shares: verdict, pictures, plots, tables, how to reproduce.

A campaign's own module turns what it measured into a Page; `render` draws any Page.
"""

import shlex
from dataclasses import dataclass

from skidpad.page.model import Fact, Headline, Tone
from skidpad.page.pictures import Gallery, PairCard
from skidpad.page.wording import plain
from skidpad.runs.doubts import run_doubts
from skidpad.runs.folder import Run
from skidpad.runs.refereed import Refereed
from skidpad.runs.tags import Tags


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
    """Everything on the page, in its order; a part that is empty is left out. warnings stand right below the verdict.

    remarks: what happened in this run. notes: how its figures are to be read, which a terminal leaves out. lead_tables, lead_charts: what
    stands right below the verdict and before the pictures, where that is what a reader came for.
    """

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
    remarks: tuple[str, ...] = ()
    lead_tables: tuple[Table, ...] = ()
    lead_charts: tuple[Chart, ...] = ()


def commands_of(run: Run) -> tuple[str, ...]:
    """Returns what makes the run once more, in a folder beside it, what finishes it, and what writes its report."""
    path = shlex.quote(run.place)
    return (shlex.join(_elsewhere(run.manifest.command)), f"skidpad resume {path}", f"skidpad report {path}")


def run_warnings(run: Run) -> tuple[str, ...]:
    """Returns what a reader of any run must know first: odd answers, what is wrong with the evidence, and what the referee set apart."""
    refereed = Refereed.of(run)
    said = tuple(words for words in (refereed.said, refereed.compared) if words)
    return (*(doubt.said for doubt in run_doubts(run)), *damage_of(run), *said)


def damage_of(run: Run) -> tuple[str, ...]:
    """Returns what is wrong with the evidence: files that were changed, findings and tags that were damaged; nothing where all is whole."""
    told = (run.integrity.doubt, run.damage(), Tags.of(run.path).damage())
    return tuple(plain(f"{words}.", 1000) for words in told if words)


def doubt_words(run: Run) -> str:
    """Returns what stands before the verdict of a run whose answers make no sense before anything is changed; "" where they do."""
    in_doubt = any(doubt.refuses for doubt in run_doubts(run))
    return "In doubt: the answers on unchanged frames make no sense, as said below. " if in_doubt else ""


def _elsewhere(command: tuple[str, ...] | list[str]) -> list[str]:
    """Returns the command with another --out: the folder that it named holds the run, and is refused."""
    words = list(command)
    for place, word in enumerate(words):
        if word == "--out" and place + 1 < len(words):
            words[place + 1] = f"{words[place + 1].rstrip('/')}-again"
        elif word.startswith("--out="):
            words[place] = f"{word.rstrip('/')}-again"
    return words
