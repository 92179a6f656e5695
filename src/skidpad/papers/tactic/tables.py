"""TACTIC's tables of cells: means over repeats, tests, and the scoreboard of what the paper claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, isnan, nan
from statistics import median

from skidpad.kinds.pictures.styles.summary import ALPHA, FAILED, Compared
from skidpad.papers.scoreboard import Figure, Row, Sheet
from skidpad.papers.tactic import paper
from skidpad.papers.tactic.cells import SearchCell
from skidpad.papers.tactic.paper import METRICS, MODELS, WEATHERS

Pair = tuple[float, float] | None
"""p-value and A12; None where the paper prints FAILED. NaN where its text cannot be read."""


@dataclass(frozen=True, slots=True)
class TestsTable:
    """One table of tests: 18 rows, the six metrics of each model in turn, each with the five weathers."""

    number: int
    other: str
    criterion: str
    rows: tuple[tuple[Pair, Pair, Pair, Pair, Pair], ...]

    def of(self, model: str, metric: str, weather: str) -> Pair:
        """Returns one test."""
        return self.rows[MODELS.index(model) * len(METRICS) + METRICS.index(metric)][WEATHERS.index(weather)]


TESTS = {
    ("random-styles", "kmnc"): TestsTable(
        8,
        "random-styles",
        "kmnc",
        (
            ((9e-05, 1.0), (9e-05, 1.0), (0.00085, 0.92), (0.36667, 0.45), (9e-05, 1.0)),
            ((9e-05, 1.0), (8e-05, 1.0), (8e-05, 1.0), (0.22433, 0.395), (9e-05, 1.0)),
            ((9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (8e-05, 1.0), (4e-05, 1.0), (8e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (0.03879, 0.65), (3e-05, 1.0), (5e-05, 1.0), (8e-05, 1.0)),
            ((9e-05, 1.0), (0.07023, 0.7), (9e-05, 1.0), (0.00021, 0.97), (9e-05, 1.0)),
            ((9e-05, 1.0), (0.10606, 0.33), (8e-05, 1.0), (8e-05, 1.0), (0.01835, 0.78)),
            ((9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((8e-05, 1.0), (7e-05, 1.0), (5e-05, 1.0), (8e-05, 1.0), (8e-05, 1.0)),
            ((3e-05, 1.0), (0.18406, 0.55), (3e-05, 1.0), (3e-05, 1.0), (0.00746, 0.75)),
            ((9e-05, 1.0), (0.00363, 0.86), (8e-05, 0.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (9e-05, 1.0), (9e-05, 0.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (0.00043, 0.945), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((8e-05, 1.0), (0.00432, 0.85), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            (None, None, (3e-05, 1.0), (6e-05, 1.0), (3e-05, 1.0)),
            (None, None, (0.03893, 0.65), (0.31317, 0.545), None),
        ),
    ),
    ("random-styles", "nbc"): TestsTable(
        9,
        "random-styles",
        "nbc",
        (
            ((9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (8e-05, 1.0), (8e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (8e-05, 1.0), (4e-05, 1.0), (8e-05, 1.0), (9e-05, 1.0)),
            ((6e-05, 1.0), (0.01742, 0.7), (3e-05, 1.0), (5e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (0.00016, 0.98), (9e-05, 1.0)),
            ((9e-05, 1.0), (8e-05, 1.0), (8e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (0.00054, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((8e-05, 1.0), (0.0088, 0.815), (5e-05, 1.0), (8e-05, 1.0), (8e-05, 1.0)),
            ((3e-05, 1.0), (0.18406, 0.55), (3e-05, 1.0), (3e-05, 1.0), (0.00037, 0.9)),
            ((9e-05, 1.0), (0.00021, 0.97), (0.41023, 0.535), (9e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (8e-05, 1.0), (0.10614, 0.67), (9e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((8e-05, 1.0), (0.00054, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            (None, None, (3e-05, 1.0), (6e-05, 1.0), (0.00298, 0.8)),
            (None, None, (0.00298, 0.8), (0.33505, 0.54), None),
        ),
    ),
    ("random-search", "kmnc"): TestsTable(
        15,
        "random-search",
        "kmnc",
        (
            ((9e-05, 1.0), (9e-05, 1.0), (0.00455, 0.85), (9e-05, 0.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (9e-05, 1.0), (7e-05, 1.0), (9e-05, 0.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (0.13903, 0.605), (4e-05, 1.0), (5e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (0.07923, 0.7), (9e-05, 1.0), (0.00454, 0.85), (9e-05, 1.0)),
            ((9e-05, 1.0), (0.10606, 0.33), (9e-05, 1.0), (9e-05, 1.0), (0.42505, 0.53)),
            ((9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (8e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((8e-05, 1.0), (7e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (8e-05, 1.0)),
            ((9e-05, 1.0), (0.18406, 0.55), (7e-05, 1.0), (9e-05, 1.0), (0.00746, 0.75)),
            ((9e-05, 1.0), (0.04808, 0.725), (0.00921, 0.185), (9e-05, 1.0), (0.0001, 0.99)),
            ((9e-05, 1.0), (0.00256, 0.875), (9e-05, 0.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((0.00029, 0.96), (0.00628, 0.835), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (8e-05, 0.92), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            (None, None, (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            (None, None, (0.03893, 0.65), (0.08403, 0.6), None),
        ),
    ),
    ("random-search", "nbc"): TestsTable(
        16,
        "random-search",
        "nbc",
        (
            ((9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (0.00021, 0.97), (9e-05, 1.0)),
            ((9e-05, 1.0), (8e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (8e-05, 1.0), (8e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (0.01742, 0.7), (3e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (0.14486, 0.645), (9e-05, 1.0), (0.23633, 0.6), (9e-05, 1.0)),
            ((9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (0.33873, 0.44), (0.43989, 0.525)),
            ((9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (0.00012, 0.99), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            ((8e-05, 1.0), (0.00014, 0.98), (7e-05, 1.0), (9e-05, 1.0), (8e-05, 1.0)),
            ((3e-05, 1.0), (0.18406, 0.55), (4e-05, 1.0), (9e-05, 1.0), (0.00037, 0.9)),
            ((9e-05, 1.0), (0.00862, 0.82), (0.27252, 0.415), (9e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (9e-05, 1.0), (0.42504, 0.53), (9e-05, 1.0), (9e-05, 1.0)),
            ((9e-05, 1.0), (0.02459, 0.765), (9e-05, 1.0), (0.00506, 0.845), (0.03201, 0.75)),
            ((9e-05, 1.0), (0.00018, 0.975), (9e-05, 1.0), (9e-05, 1.0), (9e-05, 1.0)),
            (None, None, (3e-05, 1.0), (3e-05, 1.0), (0.00298, 0.8)),
            (None, None, (nan, 0.8), (0.08374, 0.6), None),
        ),
    ),
}
"""By baseline and guiding criterion."""


ES, RS, RC = "es", "random-search", "random-styles"
_NAMES = {ES: "(1+1)-ES", RS: "RS", RC: "R_c"}
_LIKE = {"dave-orig": "dave-orig", "dave-dropout": "dave-dropout", "chauffeur": "chauffeur"}
_FEW = f"With fewer than four repeats of each no p can be below {ALPHA:g}"
MODEL = "dave-orig"
"""The model of the paper's main text, which stands beside a subject that is none of its three."""


def means(cells: Sequence[SearchCell]) -> Sheet:
    """Tables 5, 6, 7, 13 and 14, ours: means over repeats, all conditions together; errors also as shares of scenes."""
    rows: list[tuple[Figure, ...]] = []
    for cell in cells:
        for each in cell.searches:
            average = each.sample.mean(axis=0).tolist()
            looked = cell.scenes * cell.conditions
            errors = [f"{value:,.1f} ({value / looked:.1%})" for value in average[2:]]
            coverage = [100.0 * value for value in average[:2]]
            name = _NAMES.get(each.search, each.search)
            rows.append((cell.subject, cell.weather, cell.criterion.upper(), name, len(each.values), cell.scenes, *coverage, *errors))
    bounds = cells[0].metrics[2:] if cells else paper.METRICS[2:]
    columns = ("subject", "weather", "guided by", "search", "repeats", "scenes", "KMNC %", "NBC %", *bounds)
    note = "Coverage and errors of all conditions of a repeat together, mean over repeats; in brackets the share of scenes looked at."
    return Sheet("Means over repeats, as in Tables 5 to 7, 13 and 14", columns, tuple(rows), note)


def paper_means(cells: Sequence[SearchCell]) -> Sheet:
    """The paper's means of the weathers that ours are like, for its three models."""
    rows: list[tuple[Figure, ...]] = []
    wanted = list(dict.fromkeys((cell.criterion, counterpart(cell)) for cell in cells if counterpart(cell)))
    for criterion, weather in wanted:
        for model in paper.MODELS:
            for search in (ES, RS, RC):
                table = paper.MEANS[paper.MEANS_OF[search, criterion]]
                figures = table.of(model, str(weather))
                looked = 4 * paper.SCENES
                errors = [f"{value:,.1f} ({value / looked:.1%})" for value in figures[2:]]
                rows.append((model, weather, criterion.upper(), _NAMES[search], f"Table {table.number}", *figures[:2], *errors))
    columns = ("model", "weather", "guided by", "search", "from", "KMNC %", "NBC %", *paper.METRICS[2:])
    return Sheet("The paper's means", columns, tuple(rows), "Four conditions of 5,614 scenes, mean of ten runs.")


def one_condition(cells: Sequence[SearchCell]) -> Sheet:
    """Tables 11 and 12, ours: means over single conditions of the evolution strategy, to stand beside DeepRoad's one look."""
    rows: list[tuple[Figure, ...]] = []
    for cell in cells:
        each = cell.of_search(ES)
        if each is not None:
            coverage = [100.0 * value for value in each.one[:2]]
            errors = [f"{value:,.1f} ({value / cell.scenes:.1%})" for value in each.one[2:]]
            rows.append((cell.subject, cell.weather, cell.criterion.upper(), *coverage, *errors, each.tries, each.seconds))
    columns = ("subject", "weather", "guided by", "KMNC %", "NBC %", *paper.METRICS[2:], "tries", "seconds")
    return Sheet("One condition, as in Tables 11 and 12", columns, tuple(rows), "Beside `skidpad replicate deeproad`, which has one look.")


def tests(cells: Sequence[SearchCell], other: str) -> Sheet:
    """Tables 8 and 9 (R_c), 15 and 16 (RS): p and A12 of the evolution strategy against a baseline, ours and the paper's."""
    rows: list[tuple[Figure, ...]] = []
    for cell in cells:
        for test in cell.compare(ES, other):
            printed = _printed(cell, other, test.metric)
            rows.append(
                (cell.subject, cell.weather, cell.criterion.upper(), test.metric, test.mean, test.other_mean, *_words(test), *printed)
            )
    name = _NAMES[other]
    columns = ("subject", "weather", "guided by", "metric", "ES", name, "p", "A12", "paper's p", "paper's A12")
    note = (
        f"One tail, exact; {FAILED} where all repeats of both gave the same number, a dash where there are fewer than two. {_FEW}. "
        f"The paper's are of {MODEL} where a subject is none of its models; a dash there: no weather of the paper is like ours."
    )
    numbers = "8 and 9" if other == RC else "15 and 16"
    return Sheet(f"(1+1)-ES against {name}, as in Tables {numbers}", columns, tuple(rows), note)


def scoreboard(cells: Sequence[SearchCell]) -> tuple[Row, ...]:
    """What the paper claims, and in how many of our tests it holds."""
    rows: list[Row] = []
    for other, number in ((RC, "4.2"), (RS, "4.4")):
        claim, covered = paper_shares(other)
        found = [test for cell in cells if _can_be_significant(cell, other) for test in cell.compare(ES, other)]
        errors = [test for test in found if test.metric.endswith("°") and test.tested]
        coverage = [test for test in found if not test.metric.endswith("°") and test.tested]
        name = _NAMES[other]
        note = f"p < {ALPHA:g} and A12 > 0.5, of {len(errors)} tests that can be made{'' if found else f'. {_FEW}'}"
        rows.append(Row.compared(number, f"share of tests with significantly more errors than {name}", claim, _share(errors), note))
        note = f"of {len(coverage)} tests that can be made"
        rows.append(Row.compared(number, f"share of tests with significantly higher coverage than {name}", covered, _share(coverage), note))
        never = "no" if not any(test.a12 < 0.5 and test.p_value < ALPHA for test in errors) else "yes"
        rows.append(Row.compared(number, f"significantly fewer errors than {name} anywhere", "no", never if errors else None))
    rows.extend(_more(cells, other) for other in (RC, RS))
    minutes = [each.seconds / 60.0 for cell in cells for each in cell.searches if each.search == ES]
    note = "the paper: about 15 hours over 5,614 scenes; see the scenes of each cell"
    rows.append(Row.beside("4.2", "minutes a condition", 900.0, max(minutes) if minutes else None, note))
    return tuple(rows)


def paper_shares(other: str) -> tuple[float, float]:
    """Returns the shares of significant tests that the paper's tables hold: of errors, FAILED left out, and of the guiding coverage."""
    errors: list[bool] = []
    coverage: list[bool] = []
    for criterion in ("kmnc", "nbc"):
        table = TESTS[other, criterion]
        for place, row in enumerate(table.rows):
            metric = paper.METRICS[place % len(paper.METRICS)]
            # where p cannot be read, A12 = 0.8 of ten runs leaves no doubt
            found = [not pair[0] >= ALPHA and pair[1] > 0.5 for pair in row if pair is not None]
            if metric.endswith("°"):
                errors += found
            elif metric == criterion.upper():
                coverage += found
    return sum(errors) / len(errors), sum(coverage) / len(coverage)


def counterpart(cell: SearchCell) -> str | None:
    """Returns the paper's weather that a cell's is most like."""
    return paper.COUNTERPARTS.get(cell.weather)


def few_repeats(cells: Sequence[SearchCell]) -> str:
    """Says that no test of any cell can be significant, where that is so; empty otherwise."""
    pairs = [(cell, other) for cell in cells for other in (RC, RS) if cell.compare(ES, other)]
    return f"{_FEW}: what is significant is a dash" if pairs and not any(_can_be_significant(*pair) for pair in pairs) else ""


def _can_be_significant(cell: SearchCell, other: str) -> bool:
    """Tells whether there are repeats enough: the least p is that of one order of all repeats among all orders."""
    first, second = (len(found.values) if (found := cell.of_search(search)) is not None else 0 for search in (ES, other))
    return 1.0 / comb(first + second, first) < ALPHA


def _more(cells: Sequence[SearchCell], other: str) -> Row:
    ratios = []
    for cell in cells:
        first, second = cell.of_search(ES), cell.of_search(other)
        if first is not None and second is not None:
            ours, theirs = (float(each.sample[:, 2:].sum(axis=1).mean()) for each in (first, second))
            if theirs > 0.0:
                ratios.append(ours / theirs)
    middle = median(ratios) if ratios else None
    paper_ratio = 1.0 + (3.3047 if other == RC else 0.6298)
    note = f"median over {len(ratios)} cells; the paper's is {MODEL} guided by NBC, its mean over weathers"
    section = "4.2" if other == RC else "4.4"
    return Row.beside(section, f"errors at all bounds, as a multiple of {_NAMES[other]}'s", paper_ratio, middle, note)


def _share(tests_made: Sequence[Compared]) -> float | None:
    return sum(test.better for test in tests_made) / len(tests_made) if tests_made else None


def _words(test: Compared) -> tuple[Figure, Figure]:
    return (FAILED, FAILED) if test.failed else (test.p_value, test.a12) if test.tested else (None, None)


def _printed(cell: SearchCell, other: str, metric: str) -> tuple[Figure, Figure]:
    weather = counterpart(cell)
    if weather is None or metric not in paper.METRICS:
        return None, None
    pair = TESTS[other, cell.criterion].of(_LIKE.get(cell.subject, MODEL), metric, weather)
    return (FAILED, FAILED) if pair is None else (None if isnan(pair[0]) else pair[0], pair[1])
