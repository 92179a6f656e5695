"""The plots and tables of runs over pictures: failure rates, coverage beside faults, how far the answers move, broken frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from typing import TYPE_CHECKING

from skidpad.drives.inspection import count_problems
from skidpad.page.charts import DeviationHistogram, bar_chart, histogram, is_even
from skidpad.page.model import Chart, Table
from skidpad.page.svg import Bar, Cell, HeatRow, PairedBar, heat_map, paired_bars
from skidpad.page.wording import DEGREES, NOTHING, count, counted, interval, percent, plain, share, with_unit

if TYPE_CHECKING:
    from skidpad.drives.drive import Problem
    from skidpad.kinds.pictures.summary import CoverageGain, Rate

MAX_BARS = 16
MAX_CELLS = 12


def picture_charts(rates: Sequence[Rate], by_parameters: Sequence[Rate], gains: Sequence[CoverageGain]) -> Iterator[Chart]:
    """Draws failure rates by transform and by parameters, and for each criterion the coverage gained beside the faults found."""
    if rates:
        title = "Failure rate by transform"
        more = f" The {MAX_BARS} highest of {count(len(rates))}; the table has more." if len(rates) > MAX_BARS else ""
        caption = f"Share of cases that break the relation; whiskers are 95 % intervals.{more}"
        marks = [Bar(plain(rate.name, 80), rate.rate, rate.low, rate.high, _note(rate)) for rate in _worst_first(rates)[:MAX_BARS]]
        yield bar_chart("rates", title, caption, marks)
    rows = _heat_rows(by_parameters)
    if rows:
        title = "Failure rate over parameters"
        worst = max((cell.value for row in rows for cell in row.cells if isfinite(cell.value)), default=0.0)
        said = f"{counted(len(rows), 'transform')}, up to {max(len(row.cells) for row in rows)} parameters each; "
        said += f"the highest rate is {percent(worst)}."
        missing = len({rate.name for rate in by_parameters}) - len(rows)
        are = "is" if missing == 1 else "are"
        rest = f" {counted(missing, 'transform')} without such a grid {are} in the table only." if missing > 0 else ""
        caption = f"Percent of cases that fail; under each cell the parameters, in the order of the grid.{rest}"
        yield Chart(title, caption, heat_map("heat", title, said, rows))
    found = {rate.name: rate for rate in rates}
    for index, criterion in enumerate(dict.fromkeys(gain.criterion for gain in gains if gain.stimulus in found)):
        pairs = [(gain, found[gain.stimulus]) for gain in gains if gain.criterion == criterion and gain.stimulus in found]
        yield _yield_chart(index, criterion, pairs)


def deviation_chart(data: DeviationHistogram) -> Chart:
    """Draws how far the answers on mutants lie from those on originals."""
    title, is_angle = "How far the answers move", data.unit == DEGREES
    limit = f" The dashed line marks the tolerance of {with_unit(data.tolerance, data.unit)}." if isfinite(data.tolerance) else ""
    lost = f" {counted(data.not_finite, 'case')} without a finite answer left out." if data.not_finite else ""
    ends = (with_unit(edge, data.unit) for edge in (data.edges[0], data.edges[-1]))
    said = f"{counted(sum(data.counts), 'case')} from {' to '.join(ends)}.{limit}{lost}"
    noun, link = "Steering" if is_angle else "Answer", "less" if data.edges[0] < 0.0 else "against"
    wide = "" if is_even(data.edges) else f" The bins widen with the {'angle' if is_angle else 'distance'}."
    what = f"{noun} on the mutant {link} {noun.lower()} on the original."
    return Chart(title, f"{what}{wide}{limit}{lost}", histogram("deviations", title, said, data))


def picture_tables(rates: Sequence[Rate], by_parameters: Sequence[Rate], gains: Sequence[CoverageGain]) -> Iterator[Table]:
    """Lays out failure rates by transform and by parameters, coverage, and coverage gained beside faults found."""
    already = any(rate.already_broken for rate in rates)
    columns = ("Failures", "Cases", "Rate", "95 % interval", *(("Original already breaks it",) if already else ()))
    worst = tuple((plain(rate.name, 120), *_rate_cells(rate, already=already)) for rate in _worst_first(rates))
    yield Table("rates", "Failure rate by transform", ("Transform", *columns), worst)
    each = tuple((plain(rate.name, 120), plain(rate.parameters, 160), *_rate_cells(rate, already=already)) for rate in by_parameters)
    yield Table("parameters", "Failure rate by transform and parameters", ("Transform", "Parameters", *columns), each, 2)
    yield _coverage_table([gain for gain in gains if not gain.stimulus])
    found = {rate.name: rate for rate in rates}
    yields = []
    for gain in (gain for gain in gains if gain.stimulus in found):
        rate, gained = found[gain.stimulus], gain.together - gain.originals
        cells = (count(gained), percent(share(gained, gain.total)), count(rate.findings), percent(rate.rate))
        yields.append((plain(gain.stimulus, 120), plain(gain.criterion, 80), *cells))
    heads = ("Transform", "Criterion", "Regions gained", "of all", "Failures", "Rate")
    yield Table("yields", "Coverage gained and faults found", heads, tuple(yields), 2)


def problem_table(problems: Iterable[Problem]) -> Table:
    """Lists the broken frames by kind, with a few of them by name."""
    rows = tuple(
        (plain(found.kind.value, 80), ", ".join(plain(str(name), 60) for name in found.examples[:5]) or NOTHING, count(found.count))
        for found in count_problems(list(problems))
    )
    return Table("problems", "Broken frames, left out and counted", ("Problem", "Such as", "Frames"), rows, 2)


def _worst_first(rates: Sequence[Rate]) -> list[Rate]:
    return sorted(rates, key=lambda rate: rate.rate if isfinite(rate.rate) else -1.0, reverse=True)


def _note(rate: Rate) -> str:
    name = plain(f"{rate.name} {rate.parameters}".strip(), 120)
    return f"{name}: {count(rate.findings)} of {count(rate.cases)} fail, {percent(rate.rate)} ({interval(rate.low, rate.high)})"


def _rate_cells(rate: Rate, *, already: bool) -> tuple[str, ...]:
    share = percent(rate.rate) if rate.cases else "no cases"
    before = (count(rate.already_broken),) if already else ()
    return (count(rate.findings), count(rate.cases), share, interval(rate.low, rate.high), *before)


def _heat_rows(rates: Sequence[Rate]) -> list[HeatRow]:
    by_name: dict[str, list[Rate]] = {}
    for rate in rates:
        by_name.setdefault(rate.name, []).append(rate)
    wide = [(name, rows) for name, rows in by_name.items() if 2 <= len(rows) <= MAX_CELLS]
    return [
        HeatRow(plain(name, 80), tuple(Cell(rate.rate, _note(rate), under) for rate, under in zip(rows, _told_apart(rows), strict=True)))
        for name, rows in wide[:MAX_BARS]
    ]


def _told_apart(rates: Sequence[Rate]) -> list[str]:
    """Returns the values of the parameters that differ between the rates, the numbers before the beginnings of words."""
    parted = [dict(part.partition("=")[::2] for part in rate.parameters.split(" ")) for rate in rates]
    differing = [name for name in parted[0] if len({each.get(name) for each in parted}) > 1]
    values = [[plain(each.get(name, ""), 20) for name in differing] for each in parted]
    cut = [[value[:3] if value[:1].isalpha() and len(differing) > 1 else value for value in each] for each in values]
    return [" ".join(sorted(each, key=lambda value: value[:1].isalpha())) for each in cut]


def _yield_chart(index: int, criterion: str, pairs: Sequence[tuple[CoverageGain, Rate]]) -> Chart:
    title = f"Coverage gained beside faults found: {plain(criterion, 40)}"
    order = sorted(pairs, key=lambda pair: pair[1].rate if pair[1].cases else -1.0, reverse=True)[:MAX_BARS]
    marks = []
    for gain, rate in order:
        gained = gain.together - gain.originals
        note = f"{count(gained)} of {count(gain.total)} regions gained, {count(rate.findings)} of {count(rate.cases)} cases fail"
        marks.append(PairedBar(plain(gain.stimulus, 80), share(gained, gain.total), rate.rate, f"{plain(gain.stimulus, 120)}: {note}"))
    said = "; ".join(f"{mark.label}: coverage {percent(mark.left)}, failures {percent(mark.right)}" for mark in marks)
    caption = (
        "Regions a transform adds to those of the originals, and the share of its cases that fail. More coverage need not mean more faults."
    )
    return Chart(title, caption, paired_bars(f"yield-{index}", title, said, ("coverage gained", "cases that fail"), marks))


def _coverage_table(gains: Sequence[CoverageGain]) -> Table:
    """Lays out coverage as the papers divide it; where a profile leaves regions that cannot be reached, of the reachable ones as well."""
    cut = any(gain.is_cut for gain in gains)
    more = ("Reachable", "With mutants, of reachable") if cut else ()
    columns = ("Criterion", "Originals reach", "of all", "With mutants", "of all", "Regions", *more)
    rows = []
    for gain in gains:
        cells = [text for part in (gain.originals, gain.together) for text in (count(part), percent(share(part, gain.total)))]
        reachable = (count(gain.reachable), percent(share(gain.together, gain.reachable))) if cut else ()
        rows.append((plain(gain.criterion, 80), *cells, count(gain.total), *reachable))
    note = (
        "All regions are those of a neuron times the neurons, as the papers divide. The last two columns deviate from the papers: they "
        "leave out the regions that no picture can reach under this profile, as all but one section of a constant neuron."
    )
    return Table("coverage", "Coverage", columns, tuple(rows), note=note if cut else "")
