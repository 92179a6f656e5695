"""Lays out the report of transformed recordings as a page: which plots and tables, in which words."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from math import isfinite
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from skidpad import __version__
from skidpad.core.errors import SkidpadError
from skidpad.core.files import write_atomically
from skidpad.page.arrows import MAX_LEAN_DEG
from skidpad.page.build import Chart, Page, Table
from skidpad.page.charts import curves, histogram, is_even
from skidpad.page.model import CoverageRow, CurvePlot, DeviationHistogram, Fact, Headline, RateRow, ReportModel, YieldRow
from skidpad.page.pictures import cards, worst_first
from skidpad.page.svg import HEAT_STEPS, Bar, Cell, HeatRow, PairedBar, bars, heat_map, paired_bars
from skidpad.page.tags import with_tags
from skidpad.page.wording import DEGREES, NOTHING, count, counted, interval, percent, plain, share, with_unit
from skidpad.runs.folder import DISK_FULL

MAX_BARS = 16
MAX_CELLS = 12
MAX_ROWS = 500
"""Rows of one table; a guided search can make thousands of combinations, and the run folder holds them all."""


def lay_out(model: ReportModel, max_pairs: int = 24) -> Page:
    """Returns the page of a model with at most `max_pairs` pairs, the worst first."""
    pairs = worst_first(model.pairs, max_pairs)
    relations = {pair.relation for pair in pairs}
    shared = relations.pop() if len(relations) == 1 else ""
    pictures = cards(pairs, shared)
    page = Page(
        title=plain(model.title, 200),
        tone=model.tone,
        verdict=plain(model.verdict, 600),
        headlines=tuple(Headline(plain(line.label, 80), plain(line.value, 40), plain(line.detail, 200)) for line in model.headlines),
        context=tuple(
            Fact(name, plain(value))
            for name, value in (("Subject", model.subject), ("Output", model.output), ("Drive", model.drive))
            if value
        ),
        notes=tuple(plain(note, 1000) for note in model.notes),
        pictures=pictures,
        pictures_note=_pictures_note(
            len(pictures), model.findings, plain(shared), turns=not pairs or any(pair.unit == DEGREES for pair in pairs)
        ),
        charts=tuple(_charts(model)),
        tables=tuple(_tables(model)),
        configuration=_facts(model.configuration),
        manifest=_facts(model.manifest),
        commands=tuple(plain(command, 1000) for command in model.commands),
        warnings=tuple(plain(warning, 1000) for warning in model.warnings),
        remarks=tuple(plain(remark, 1000) for remark in model.remarks),
    )
    return with_tags(page, model.looked)


def _facts(facts: Sequence[Fact]) -> tuple[Fact, ...]:
    return tuple(Fact(plain(fact.name, 120), plain(fact.value, 2000)) for fact in facts)


def _pictures_note(shown: int, findings: int, relation: str, *, turns: bool) -> str:
    which = (
        f"{count(shown)} of {count(findings)} findings, the worst first: the worst of each stimulus, then in turns those on other frames."
        if shown < findings
        else "All findings, the worst first."
    )
    if not turns:
        return f"{which}{f' Each breaks the relation “{relation}”.' if relation else ''} A cross is an answer that is not finite."
    rule = f" Each breaks the relation “{relation}”." if relation else ""
    arrows = f"Arrows start at the car and lean to the side it would steer to, by the angle itself, up to {MAX_LEAN_DEG:g}°."
    return f"{which}{rule} {arrows} A cross is an answer that is not finite."


def _charts(model: ReportModel) -> list[Chart]:
    charts = []
    if model.rates:
        charts.append(_rate_bars(model.rates))
    rows = _heat_rows(model.rates_by_parameters)
    if rows:
        title, caption = (
            "Failure rate over parameters",
            "Percent of cases that fail; under each cell the parameters, in the order of the grid.",
        )
        worst = max((cell.value for row in rows for cell in row.cells if isfinite(cell.value)), default=0.0)
        said = f"{counted(len(rows), 'transform')}, up to {max(len(row.cells) for row in rows)} parameters each; "
        said += f"the highest rate is {percent(worst)}."
        charts.append(Chart(title, f"{caption}{_left_out(model.rates_by_parameters, rows)}", heat_map("heat", title, said, rows)))
    criteria = dict.fromkeys(row.criterion for row in model.yields)
    charts += [_yield_bars(index, name, [row for row in model.yields if row.criterion == name]) for index, name in enumerate(criteria)]
    if model.deviations is not None and sum(model.deviations.counts) > 0:
        charts.append(_deviations(model.deviations))
    return charts + [_curves(index, plot) for index, plot in enumerate(model.curve_plots)]


def _rate_bars(rates: Sequence[RateRow]) -> Chart:
    title = "Failure rate by transform"
    order = _worst_first(rates)
    rows = [Bar(plain(row.stimulus, 80), row.rate, row.low, row.high, _rate_note(row)) for row in order[:MAX_BARS]]
    more = f" The {MAX_BARS} highest of {count(len(rates))}; the table has more." if len(rates) > MAX_BARS else ""
    said = "; ".join(f"{row.label} {percent(row.value)}" for row in rows)
    return Chart(title, f"Share of cases that break the relation; whiskers are 95 % intervals.{more}", bars("rates", title, said, rows))


def _worst_first(rates: Sequence[RateRow]) -> list[RateRow]:
    return sorted(rates, key=lambda row: row.rate if isfinite(row.rate) else -1.0, reverse=True)


def _rate_note(row: RateRow) -> str:
    name = f"{row.stimulus} {row.parameters}".strip()
    return f"{plain(name, 120)}: {count(row.violations)} of {count(row.cases)} fail, {percent(row.rate)} ({interval(row.low, row.high)})"


def _heat_rows(rates: Sequence[RateRow]) -> list[HeatRow]:
    by_name: dict[str, list[RateRow]] = {}
    for row in rates:
        by_name.setdefault(row.stimulus, []).append(row)
    wide = [(name, rows) for name, rows in by_name.items() if 2 <= len(rows) <= MAX_CELLS]
    return [
        HeatRow(plain(name, 80), tuple(Cell(row.rate, _rate_note(row), under) for row, under in zip(rows, _told_apart(rows), strict=True)))
        for name, rows in wide[:MAX_BARS]
    ]


def _told_apart(rows: Sequence[RateRow]) -> list[str]:
    """Returns the values of the parameters that differ between the rows, the numbers before the beginnings of words."""
    parted = [dict(part.partition("=")[::2] for part in row.parameters.split(" ")) for row in rows]
    differing = [name for name in parted[0] if len({each.get(name) for each in parted}) > 1]
    values = [[plain(each.get(name, ""), 20) for name in differing] for each in parted]
    cut = [[value[:3] if value[:1].isalpha() and len(differing) > 1 else value for value in each] for each in values]
    return [" ".join(sorted(each, key=lambda value: value[:1].isalpha())) for each in cut]


def _left_out(rates: Sequence[RateRow], rows: Sequence[HeatRow]) -> str:
    missing = len({row.stimulus for row in rates}) - len(rows)
    return (
        f" {counted(missing, 'transform')} without such a grid {'is' if missing == 1 else 'are'} in the table only." if missing > 0 else ""
    )


def _yield_bars(index: int, criterion: str, rows: Sequence[YieldRow]) -> Chart:
    title = f"Coverage gained beside faults found: {plain(criterion, 40)}"
    order = sorted(rows, key=lambda row: share(row.violations, row.cases) if row.cases else -1.0, reverse=True)[:MAX_BARS]
    marks = [
        PairedBar(plain(row.stimulus, 80), share(row.gained, row.total), share(row.violations, row.cases), _yield_note(row))
        for row in order
    ]
    said = "; ".join(f"{mark.label}: coverage {percent(mark.left)}, failures {percent(mark.right)}" for mark in marks)
    caption = (
        "Regions a transform adds to those of the originals, and the share of its cases that fail. More coverage need not mean more faults."
    )
    return Chart(title, caption, paired_bars(f"yield-{index}", title, said, ("coverage gained", "cases that fail"), marks))


def _yield_note(row: YieldRow) -> str:
    gained = f"{count(row.gained)} of {count(row.total)} regions gained"
    return f"{plain(row.stimulus, 120)}: {gained}, {count(row.violations)} of {count(row.cases)} cases fail"


def _deviations(data: DeviationHistogram) -> Chart:
    title = "How far the answers move"
    total = sum(data.counts)
    limit = f" The dashed line marks the tolerance of {with_unit(data.tolerance, data.unit)}." if isfinite(data.tolerance) else ""
    lost = f" {counted(data.not_finite, 'case')} without a finite answer left out." if data.not_finite else ""
    ends = (with_unit(edge, data.unit) for edge in (data.edges[0], data.edges[-1]))
    said = f"{counted(total, 'case')} from {' to '.join(ends)}.{limit}{lost}"
    signed = data.edges[0] < 0.0
    noun = "Steering" if data.unit == DEGREES else "Answer"
    link = "less" if signed else "against"
    what = f"{noun} on the mutant {link} {noun.lower()} on the original."
    wide = "" if is_even(data.edges) else f" The bins widen with the {'angle' if data.unit == DEGREES else 'distance'}."
    return Chart(title, f"{what}{wide}{limit}{lost}", histogram("deviations", title, said, data))


def _curves(index: int, plot: CurvePlot) -> Chart:
    title = plain(plot.title, 120)
    said = "; ".join(f"{plain(line.label, 80)} ends at {line.y[-1]:g}" for line in plot.curves if line.y)
    return Chart(title, plain(plot.caption), curves(f"curves-{index}", title, said, (plot.x_label, plot.y_label), plot.curves))


def _tables(model: ReportModel) -> list[Table]:
    already = any(row.already_broken for row in model.rates)
    rate_columns = ("Failures", "Cases", "Rate", "95 % interval", *(("Original already breaks it",) if already else ()))
    cut = any(row.reachable not in {None, row.total} for row in model.coverage)
    coverage = [
        (
            plain(row.criterion, 80),
            *_reached(row.originals, row.total),
            *_reached(row.with_mutants, row.total),
            count(row.total),
            *(_of_reachable(row) if cut else ()),
        )
        for row in model.coverage
    ]
    yields = [
        (
            plain(r.stimulus, 120),
            plain(r.criterion, 80),
            count(r.gained),
            percent(share(r.gained, r.total)),
            count(r.violations),
            percent(share(r.violations, r.cases)),
        )
        for r in model.yields
    ]
    problems = [
        (plain(row.kind, 80), ", ".join(plain(name, 60) for name in row.examples[:5]) or NOTHING, count(row.count))
        for row in model.problems
    ]
    by_parameters = [
        (plain(row.stimulus, 120), plain(row.parameters, 160), *_rate_words(row, already=already)) for row in model.rates_by_parameters
    ]
    tables = [
        _table(
            "rates",
            "Failure rate by transform",
            ("Transform", *rate_columns),
            [(plain(r.stimulus, 120), *_rate_words(r, already=already)) for r in _worst_first(model.rates)],
        ),
        _table("parameters", "Failure rate by transform and parameters", ("Transform", "Parameters", *rate_columns), by_parameters, 2),
        _coverage_table(coverage, cut=cut),
        _table(
            "yields",
            "Coverage gained and faults found",
            ("Transform", "Criterion", "Regions gained", "of all", "Failures", "Rate"),
            yields,
            2,
        ),
        _table("problems", "Broken frames, left out and counted", ("Problem", "Such as", "Frames"), problems, 2),
    ]
    return [table for table in tables if table.rows]


def _coverage_table(rows: Sequence[tuple[str, ...]], *, cut: bool) -> Table:
    columns = ("Criterion", "Originals reach", "of all", "With mutants", "of all", "Regions")
    if not cut:
        return _table("coverage", "Coverage", columns, rows)
    note = (
        "All regions are those of a neuron times the neurons, as the papers divide. The last two columns deviate from the papers: they "
        "leave out the regions that no picture can reach under this profile, as all but one section of a constant neuron."
    )
    return replace(_table("coverage", "Coverage", (*columns, "Reachable", "With mutants, of reachable"), rows), note=note)


def _of_reachable(row: CoverageRow) -> tuple[str, str]:
    reachable = row.total if row.reachable is None else row.reachable
    return count(reachable), percent(share(row.with_mutants, reachable))


def _table(key: str, title: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], numbers_from: int = 1) -> Table:
    more = len(rows) - MAX_ROWS
    note = f"The run has {counted(more, 'row')} more." if more > 0 else ""
    return Table(key, title, columns, tuple(rows[:MAX_ROWS]), numbers_from, note)


def _rate_words(row: RateRow, *, already: bool) -> tuple[str, ...]:
    rate = percent(row.rate) if row.cases else "no cases"
    before = (count(row.already_broken),) if already else ()
    return (count(row.violations), count(row.cases), rate, interval(row.low, row.high), *before)


def _reached(part: int, total: int) -> tuple[str, str]:
    return count(part), percent(share(part, total))


MAX_PAIRS = 24


class UnwrittenError(SkidpadError):
    """A page that could not be written; what it tells of is untouched."""


def render(model: ReportModel, max_pairs: int = MAX_PAIRS) -> str:
    """Returns the report of transformed recordings as HTML; the same model gives the same bytes."""
    return render_page(lay_out(model, max_pairs))


def render_page(page: Page) -> str:
    """Returns any campaign's page as HTML."""
    style = files("skidpad.page").joinpath("templates", "style.css").read_text(encoding="utf-8")
    return _environment().get_template("page.jinja").render(page=page, style=style, version=__version__, heat_steps=HEAT_STEPS)


def write_report(model: ReportModel, path: Path, max_pairs: int = MAX_PAIRS) -> None:
    """Writes the report whole or not at all; a file of that name is replaced in one move."""
    write_text_whole(path, render(model, max_pairs))


def write_text_whole(path: Path, text: str) -> None:
    """Writes beside the path first and moves it into place, so that no reader meets half a file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())
    except OSError as error:
        way_out = "free some space" if error.errno in DISK_FULL else "choose a file in a folder you may write to"
        raise UnwrittenError(f"cannot write the report to {str(path)!r} ({error.strerror}); {way_out}") from error


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("skidpad.page", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
