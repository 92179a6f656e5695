"""The page of a run: every kind of campaign makes one `Page`, and any writer (HTML, Markdown, JSON, terminal, browser) shows it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from skidpad.page.pictures import Gallery, PairCard
from skidpad.page.wording import count, counted, interval, percent, plain
from skidpad.runs.findings import Refereed, run_doubts
from skidpad.runs.tags import Tag, TaggedRates, Tags, tagged_rates

if TYPE_CHECKING:
    from skidpad.runs.folder import Run

MAX_ROWS = 500
"""Rows of one table; a guided search can make thousands of combinations, and the run folder holds them all."""


class Tone(Enum):
    """The mood of the verdict; its words say the same, the colour only repeats it."""

    CALM = "calm"
    ALARM = "alarm"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Headline:
    """One of the figures beside the verdict, in words."""

    label: str
    value: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """One name with its value, of the configuration, the manifest or the subject."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A finished plot with the words around it; svg comes from `svg` or `charts`, which escape every text."""

    title: str
    caption: str
    svg: str


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of words under named columns; columns from `numbers_from` on hold numbers and are aligned right."""

    key: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers_from: int = 1
    note: str = ""


@dataclass(frozen=True, slots=True)
class FilmCard:
    """A finding that moves, with the words around it; its drawings escape every text, as those of a Chart.

    moving: an animation, hidden from readers who asked for no motion. strip: the same as a row of moments. is_bad: whether the badge
    tells of a failure. tag: what a person said about it.
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
    """Everything on the page, in its order; empty parts are left out. warnings stand right below the verdict.

    remarks: what happened in this run. notes: how to read its figures, which a terminal leaves out. tags: what people said about the
    findings; None where nobody has looked. lead_tables, lead_charts: what stands right below the verdict and before the pictures, where
    that is what a reader came for. pictures_title, pictures_legend: the heading of the pictures and what the arrows of each kind are, as
    (kind, words), where it is not findings that they show.
    """

    title: str
    tone: Tone
    verdict: str
    headlines: tuple[Headline, ...] = ()
    context: tuple[Fact, ...] = ()
    notes: tuple[str, ...] = ()
    pictures: tuple[PairCard, ...] = ()
    pictures_note: str = ""
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    configuration: tuple[Fact, ...] = ()
    manifest: tuple[Fact, ...] = ()
    commands: tuple[str, ...] = ()
    films: tuple[FilmCard, ...] = ()
    galleries: tuple[Gallery, ...] = ()
    warnings: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    tags: TaggedRates | None = None
    lead_tables: tuple[Table, ...] = ()
    lead_charts: tuple[Chart, ...] = ()
    pictures_title: str = ""
    pictures_legend: tuple[tuple[str, str], ...] = (("original", "on the original"), ("mutant", "on the mutant"), ("label", "label"))


def run_page(
    run: Run,
    *,
    title: str,
    tone: Tone,
    verdict: str,
    headlines: Iterable[Headline] = (),
    context: Mapping[str, str] | None = None,
    warnings: Iterable[str] = (),
    remarks: Iterable[str] = (),
    notes: Iterable[str] = (),
    pictures: tuple[PairCard, ...] = (),
    pictures_note: str = "",
    films: tuple[FilmCard, ...] = (),
    galleries: tuple[Gallery, ...] = (),
    charts: Iterable[Chart] = (),
    tables: Iterable[Table] = (),
    lead_tables: Iterable[Table] = (),
    lead_charts: Iterable[Chart] = (),
    unjudged: Collection[str] = (),
) -> Page:
    """Returns the page of a run: what its kind says, and what every run has: warnings, settings, versions, commands and tags.

    Texts are made safe and cut to a sane length, tables without rows and facts without a value are left out, and the verdict of a run
    that is not finished says so. unjudged: phases whose records are no cases.
    """
    page = Page(
        title=plain(title, 200),
        tone=tone,
        verdict=plain(f"{'' if run.is_finished else 'Not finished yet. '}{verdict}", 1000),
        headlines=tuple(Headline(plain(line.label, 80), plain(line.value, 40), plain(line.detail, 200)) for line in headlines),
        context=_facts({name: value for name, value in (context or {}).items() if value}, 600),
        notes=_lines(notes),
        pictures=pictures,
        pictures_note=plain(pictures_note, 1000),
        charts=tuple(charts),
        tables=tuple(map(_cut, filter(lambda table: table.rows, tables))),
        configuration=_facts(run.config),
        manifest=_facts(run.manifest.facts()),
        commands=_lines(commands_of(run)),
        films=films,
        galleries=galleries,
        warnings=(*run_warnings(run), *_lines(warnings)),
        remarks=_lines(remarks),
        lead_tables=tuple(lead_tables),
        lead_charts=tuple(lead_charts),
    )
    return with_tags(page, tags_of(run, unjudged), Tags.of(run.path).current())


def values_of(thing: object, names: str) -> dict[str, object]:
    """Returns some values of an object by name, for figures that a program reads; names: with spaces between."""
    return {name: getattr(thing, name) for name in names.split()}


def _lines(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(plain(text, 1000) for text in texts if text)


def _facts(values: Mapping[str, object], limit: int = 2000) -> tuple[Fact, ...]:
    worded = ((name, value if isinstance(value, str) else json.dumps(value)) for name, value in values.items())
    return tuple(Fact(plain(name, 120), plain(value, limit)) for name, value in worded)


def _cut(table: Table) -> Table:
    more = len(table.rows) - MAX_ROWS
    if more <= 0:
        return table
    return replace(table, rows=table.rows[:MAX_ROWS], note=f"{table.note} The run has {counted(more, 'row')} more.".strip())


def commands_of(run: Run) -> tuple[str, ...]:
    """Returns the commands that finish an unfinished run, make it again in a folder beside it, and write its report."""
    path = shlex.quote(run.place)
    go_on = () if run.is_finished else (f"skidpad resume {path}",)
    return (*go_on, shlex.join(_elsewhere(run.manifest.command)), f"skidpad report {path}")


def run_warnings(run: Run) -> tuple[str, ...]:
    """Returns what a reader of any run must know first: odd answers, damaged evidence, and what the referee set apart."""
    refereed = Refereed.of(run)
    said = tuple(words for words in (refereed.said, refereed.compared) if words)
    return (*(doubt.said for doubt in run_doubts(run)), *damage_of(run), *said)


def damage_of(run: Run) -> tuple[str, ...]:
    """Returns what is wrong with the evidence: changed files, damaged findings and tags; nothing where all is whole."""
    told = (run.integrity.doubt, run.damage(), Tags.of(run.path).damage())
    return tuple(plain(f"{words}.", 1000) for words in told if words)


def doubt_words(run: Run) -> str:
    """Returns what stands before the verdict of a run whose answers make no sense before anything is changed; "" where they do."""
    in_doubt = any(doubt.refuses for doubt in run_doubts(run))
    return "In doubt: the answers on unchanged frames make no sense, as said below. " if in_doubt else ""


def _elsewhere(command: Sequence[str]) -> list[str]:
    """Returns the command with another --out: the folder that it named holds the run, and is refused."""
    words = list(command)
    for place, word in enumerate(words):
        if word == "--out" and place + 1 < len(words):
            words[place + 1] = f"{words[place + 1].rstrip('/')}-again"
        elif word.startswith("--out="):
            words[place] = f"{word.rstrip('/')}-again"
    return words


def tags_of(run: Run, unjudged: Collection[str] = ()) -> TaggedRates | None:
    """Counts the tags of a run; None where nobody has tagged a finding."""
    rates = tagged_rates(run, unjudged) if Tags.of(run.path).current() else None
    return rates if rates is not None and rates.untagged < rates.findings else None


def tags_payload(rates: TaggedRates | None) -> Mapping[str, object]:
    """Returns the tags of a run as plain values: how many of each, and the rates that they leave; nothing where there are none."""
    if rates is None:
        return {}
    intervals = {"rate": rates.rate, "rate_without_false_alarms": rates.without_false_alarms, "confirmed_rate": rates.confirmed}
    found = {name: asdict(each) for name, each in intervals.items()}
    return {"tags": {**asdict(rates), "untagged": rates.untagged, **found}}


def with_tags(page: Page, rates: TaggedRates | None, tags: Mapping[str, Tag]) -> Page:
    """Returns the page with what people said: one more figure, one more table, and the tag beside each picture.

    Reference: DeepTest 5 (RQ4, Figure 8), where the authors look at findings by hand and count the false positives.
    """
    if rates is None:
        return page
    kept = rates.without_false_alarms
    alarms = f"{counted(rates.false_alarms, 'false alarm')} of {counted(rates.findings, 'finding')}"
    said = f"95 % interval {interval(kept.low, kept.high)}; {alarms}, {count(rates.untagged)} not looked at"
    words = {case_id: tag.value for case_id, tag in tags.items()}
    return replace(
        page,
        headlines=(*page.headlines, Headline("rate without false alarms", percent(kept.estimate), said)),
        tables=(_tag_table(rates), *page.tables),
        pictures=tuple(replace(card, tag=words.get(card.case_id, "")) for card in page.pictures),
        films=tuple(replace(film, tag=words.get(film.case_id, "")) for film in page.films),
        tags=rates,
    )


def _tag_table(rates: TaggedRates) -> Table:
    rows = (
        ("as the oracle judges", rates.findings, rates.cases, rates.rate),
        ("without those that people call false alarms", rates.findings - rates.false_alarms, rates.cases, rates.without_false_alarms),
        ("those that people call real faults", rates.real_faults, rates.cases, rates.confirmed),
        ("real faults among the decided", rates.real_faults, rates.real_faults + rates.false_alarms, rates.precision),
    )
    words = tuple(
        (name, count(hits), count(trials), percent(rate.estimate), interval(rate.low, rate.high)) for name, hits, trials, rate in rows
    )
    note = (
        f"{counted(rates.real_faults, 'finding')} tagged as real faults, {count(rates.false_alarms)} as false alarms, "
        f"{count(rates.unclear)} as unclear, {count(rates.untagged)} not looked at."
    )
    return Table("tags", "Findings that people have looked at", ("Findings", "Number", "of", "Rate", "95 % interval"), words, note=note)
