"""TACTIC's tables, cell by cell: means over repeats, tests, and the scoreboard of what the paper claims.

A cell is a subject under a weather, guided by a criterion; it is kept beside its run, so that the tables grow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import comb, isnan
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skidpad.core.errors import BadRunError
from skidpad.core.settings import jsonable
from skidpad.kinds.pictures.styles.summary import ALPHA, FAILED, Compared, TacticSummary, compared
from skidpad.kinds.pictures.weather.page import weather_warnings
from skidpad.oracles.doubts import Doubt
from skidpad.papers.doubts import comparable, doubts_from, shown_subject
from skidpad.papers.scoreboard import Figure, Row, Sheet
from skidpad.papers.tactic import paper

if TYPE_CHECKING:
    from skidpad.core.images import FloatArray
    from skidpad.kinds.pictures.styles.campaign import Tactic

FILE = "cell.json"


@dataclass(frozen=True, slots=True)
class Searched:
    """The finished repeats of one search.

    values: coverage (KMNC, NBC, within 0..1) and errors at each bound, for each repeat over all its conditions. one: the same as
    means over single conditions. tries, seconds: means over conditions.
    """

    search: str
    values: tuple[tuple[float, ...], ...]
    one: tuple[float, ...]
    tries: float
    seconds: float

    @property
    def sample(self) -> FloatArray:
        """The values, (repeats, metrics)."""
        return np.array(self.values, np.float64)


@dataclass(frozen=True, slots=True)
class SearchCell:
    """The figures of one cell; scenes: of one condition. warnings: what to know before believing the figures.

    doubts: what is odd about the answers on the scenes as they are.
    """

    subject: str
    subject_sha256: str
    weather: str
    weather_sha256: str
    criterion: str
    drive: str
    drive_sha256: str
    scenes: int
    conditions: int
    patience: int
    racing: bool
    bounds_deg: tuple[float, ...]
    metrics: tuple[str, ...]
    searches: tuple[Searched, ...]
    device: str
    warnings: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()

    @classmethod
    def of(cls, campaign: Tactic, summary: TacticSummary, device: str, doubts: tuple[Doubt, ...]) -> Self:
        """Takes the figures of a run that was begun on a device; who puts tables together may have another."""
        s = campaign.settings
        scenes = max((each.scenes for repeat in summary.repeats for each in repeat.conditions), default=0)
        return cls(
            subject=campaign.subject.description.name,
            subject_sha256=campaign.subject.sha256,
            weather=campaign.weather.card.name,
            weather_sha256=campaign.weather.card.sha256,
            criterion=s.criterion,
            drive=campaign.drive.name,
            drive_sha256=campaign.drive.sha256,
            scenes=scenes,
            conditions=s.conditions,
            patience=s.patience,
            racing=s.racing,
            bounds_deg=s.bounds_deg,
            metrics=summary.metrics,
            searches=tuple(_searched(summary, search) for search in summary.searches),
            device=device,
            warnings=cell_warnings(campaign),
            doubts=doubts,
        )

    @property
    def hashes(self) -> Mapping[str, str]:
        """The hashes of subject, drive and weather, as a campaign has them."""
        return {"subject": self.subject_sha256, "drive": self.drive_sha256, "weather": self.weather_sha256}

    def to_json(self) -> str:
        """Writes the cell."""
        return json.dumps({**asdict(self), "doubts": jsonable(self.doubts)}, indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str) -> Self:
        """Reads what `to_json` wrote; `where` names it in errors."""
        try:
            values: dict[str, Any] = json.loads(text)
            searches = tuple(
                Searched(**{**each, "values": tuple(map(tuple, each["values"])), "one": tuple(each["one"])}) for each in values["searches"]
            )
            lists = {name: tuple(values.get(name, ())) for name in ("bounds_deg", "metrics", "warnings")}
            return cls(**{**values, **lists, "searches": searches, "doubts": doubts_from(values)})
        except (ValueError, KeyError, TypeError) as error:
            raise BadRunError(f"{where} is damaged ({error}); remove it and replicate again") from error

    def of_search(self, search: str) -> Searched | None:
        """Returns the figures of a search; None where it has no finished repeat."""
        return next((each for each in self.searches if each.search == search), None)

    def compare(self, search: str, other: str) -> tuple[Compared, ...]:
        """Compares two searches metric by metric; none where one of them is missing."""
        first, second = self.of_search(search), self.of_search(other)
        if first is None or second is None:
            return ()
        return tuple(compared(name, first.sample[:, place], second.sample[:, place]) for place, name in enumerate(self.metrics))


def cell_warnings(campaign: Tactic) -> tuple[str, ...]:
    """Says what `skidpad weather search` warns of before its figures."""
    return weather_warnings([campaign.weather.card], campaign.settings.drive, campaign.subject)


def _searched(summary: TacticSummary, search: str) -> Searched:
    conditions = [each.condition for repeat in summary.of(search) for each in repeat.conditions]
    return Searched(
        search,
        tuple(tuple(row) for row in summary.values(search).tolist()),
        tuple(summary.means_of_one(search).tolist()),
        float(np.mean([len(each.tries) for each in conditions])),
        float(np.mean([each.seconds for each in conditions])),
    )


def kept_cells(folder: Path, measured: Sequence[SearchCell]) -> tuple[SearchCell, ...]:
    """Returns the measured cells and those that earlier calls left in the folder, on the same drive, each once."""
    found = {_key(cell): cell for cell in measured}
    drives = {cell.drive_sha256 for cell in measured}
    for path in sorted(folder.glob(f"*/*/*/{FILE}")):
        cell = SearchCell.from_json(path.read_text(encoding="utf-8"), str(path))
        if cell.drive_sha256 in drives and cell.searches:
            found.setdefault(_key(cell), cell)
    return tuple(cell for cell in found.values() if cell.searches)


def _key(cell: SearchCell) -> tuple[str, ...]:
    return cell.subject_sha256, cell.weather_sha256, cell.criterion


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
            errors = [f"{value:,.1f} ({100 * value / looked:.1f} %)" for value in average[2:]]
            coverage = [100.0 * value for value in average[:2]]
            name = _NAMES.get(each.search, each.search)
            rows.append(
                (shown_subject(cell), cell.weather, cell.criterion.upper(), name, len(each.values), cell.scenes, *coverage, *errors)
            )
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
                errors = [f"{value:,.1f} ({100 * value / looked:.1f} %)" for value in figures[2:]]
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
            errors = [f"{value:,.1f} ({100 * value / cell.scenes:.1f} %)" for value in each.one[2:]]
            rows.append((shown_subject(cell), cell.weather, cell.criterion.upper(), *coverage, *errors, each.tries, each.seconds))
    columns = ("subject", "weather", "guided by", "KMNC %", "NBC %", *paper.METRICS[2:], "tries", "seconds")
    return Sheet("One condition, as in Tables 11 and 12", columns, tuple(rows), "Beside `skidpad replicate deeproad`, which has one look.")


def tests(cells: Sequence[SearchCell], other: str) -> Sheet:
    """Tables 8 and 9 (R_c), 15 and 16 (RS): p and A12 of the evolution strategy against a baseline, ours and the paper's."""
    rows: list[tuple[Figure, ...]] = []
    for cell in cells:
        for test in cell.compare(ES, other):
            printed = _printed(cell, other, test.metric)
            rows.append(
                (
                    shown_subject(cell),
                    cell.weather,
                    cell.criterion.upper(),
                    test.metric,
                    test.mean,
                    test.other_mean,
                    *_words(test),
                    *printed,
                )
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
    """What the paper claims, and in how many of our tests it holds; tests of subjects whose answers make no sense do not count."""
    cells = comparable(cells)
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
        table = paper.TESTS[other, criterion]
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
    pairs = [(cell, other) for cell in comparable(cells) for other in (RC, RS) if cell.compare(ES, other)]
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
    pair = paper.TESTS[other, cell.criterion].of(_LIKE.get(cell.subject, MODEL), metric, weather)
    return (FAILED, FAILED) if pair is None else (None if isnan(pair[0]) else pair[0], pair[1])
