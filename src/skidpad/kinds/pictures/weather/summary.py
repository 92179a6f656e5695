"""What a DeepRoad run found, in figures: inconsistent answers at every error bound, by weather and style.

Reference: DeepRoad, section 4.3 and Table 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import degrees, nan, sqrt
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from skidpad.core.errors import BadRunError
from skidpad.core.stimuli import Recipe
from skidpad.kinds.pictures.judging import Originals
from skidpad.oracles.relations import Answers, SteersAlike, violated
from skidpad.runs.records import ORIGINALS, may_count
from skidpad.statistics.intervals import wilson

if TYPE_CHECKING:
    import pyarrow as pa

    from skidpad.core.images import BoolArray, FloatArray, IntArray
    from skidpad.drives.drive import Problem
    from skidpad.kinds.pictures.weather.campaign import DeepRoad
    from skidpad.runs.folder import Run


@dataclass(frozen=True, slots=True)
class BoundCount:
    """Inconsistent answers at one error bound, with the 95 % Wilson interval of their share."""

    threshold_deg: float
    inconsistent: int
    cases: int
    low: float
    high: float

    @property
    def rate(self) -> float:
        """The share of the cases; NaN without cases."""
        return self.inconsistent / self.cases if self.cases else nan


@dataclass(frozen=True, slots=True)
class WeatherConditions:
    """The figures of one weather, or of one style of it.

    style: in words, "" for all styles together. mean_deg, worst_deg: of |mutant - original|. correlation: of the answers on
    mutants with those on originals. rmse_rad, original_rmse_rad: against the labels, on the mutants and on the originals of the same
    cases. not_finite: answers that are no numbers, inconsistent at every bound. NaN is what nothing is known of.
    """

    weather: str
    style: str
    counts: tuple[BoundCount, ...]
    cases: int
    mean_deg: float
    worst_deg: float
    correlation: float
    rmse_rad: float
    not_finite: int
    original_rmse_rad: float = nan


@dataclass(frozen=True, slots=True)
class RoadSummary:
    """The figures of one run.

    spread_deg: the standard deviation of the answers on the originals; a network that hardly steers is consistent for no
    merit of its own. rmse_rad: on all originals. deviations: cases that count by |mutant - original|, between the output's edges.
    """

    originals: int
    spread_deg: float
    rmse_rad: float
    overall: WeatherConditions
    by_weather: tuple[WeatherConditions, ...]
    by_style: tuple[WeatherConditions, ...]
    deviations: IntArray
    problems: tuple[Problem, ...]


class _Sums:
    """Running sums over cases, so that memory does not grow with the run."""

    def __init__(self, thresholds_deg: Sequence[float]) -> None:
        self._relations = [SteersAlike(bound) for bound in thresholds_deg]
        self._found = np.zeros(len(thresholds_deg), np.int64)
        self._judged = self._finite = self._not_finite = 0
        self._moments = np.zeros(5)
        self._total_rad = self._worst_rad = 0.0
        self._squared, self._labelled = np.zeros(2), 0

    def add(self, answers: Answers, counts: BoolArray) -> None:
        """Takes cases in; those whose original has no finite answer, or that the referee did not keep, cannot be judged."""
        known = np.isfinite(answers.original) & counts
        answers = Answers(answers.original[known], answers.mutant[known], answers.label[known])
        self._judged += len(answers.mutant)
        self._found += np.array([int(violated(relation, answers).sum()) for relation in self._relations], np.int64)
        finite = np.isfinite(answers.mutant)
        x, y, label = answers.original[finite], answers.mutant[finite], answers.label[finite]
        self._finite += len(x)
        self._not_finite += len(finite) - len(x)
        self._moments += [x.sum(), y.sum(), (x * x).sum(), (y * y).sum(), (x * y).sum()]
        moved = np.abs(y - x)
        self._total_rad += float(moved.sum())
        self._worst_rad = max(self._worst_rad, float(moved.max(initial=0.0)))
        errors = np.stack([y - label, x - label])[:, np.isfinite(label)]
        self._squared += (errors * errors).sum(axis=1)
        self._labelled += errors.shape[1]

    def conditions(self, weather: str, style: str) -> WeatherConditions:
        """Returns the figures."""
        counts = []
        for relation, found in zip(self._relations, self._found.tolist(), strict=True):
            interval = wilson(found, self._judged)
            counts.append(BoundCount(relation.within_deg, found, self._judged, interval.low, interval.high))
        rmse_rad, original_rmse_rad = np.sqrt(self._squared / self._labelled).tolist() if self._labelled else (nan, nan)
        return WeatherConditions(
            weather=weather,
            style=style,
            counts=tuple(counts),
            cases=self._judged,
            mean_deg=degrees(self._total_rad / self._finite) if self._finite else nan,
            worst_deg=degrees(self._worst_rad) if self._finite else nan,
            correlation=self._correlation(),
            rmse_rad=rmse_rad,
            not_finite=self._not_finite,
            original_rmse_rad=original_rmse_rad,
        )

    def _correlation(self) -> float:
        if self._finite < 2:
            return nan
        x, y, xx, yy, xy = (self._moments / self._finite).tolist()
        spread = (xx - x * x) * (yy - y * y)
        return (xy - x * y) / sqrt(spread) if spread > 1e-18 else nan


def summarise_road(run: Run, campaign: DeepRoad) -> RoadSummary:
    """Counts the records of a run, shard by shard."""
    thresholds, edges = campaign.road.thresholds_deg, campaign.judged.edges
    overall = _Sums(thresholds)
    weathers = {name: _Sums(thresholds) for name in campaign.weathers}
    styles: dict[str, _Sums] = {}
    deviations = np.zeros(len(edges) - 1, np.int64)
    for table in run.iter_records("grid", ("recipe", "label", "original", "mutant", "referee")):
        for recipe in pc.unique(table["recipe"]).to_pylist():
            rows = table.filter(pc.equal(table["recipe"], recipe))
            answers, counts = _answers(rows), may_count(rows)
            for sums in (overall, weathers[Recipe.from_json(recipe).name], styles.setdefault(recipe, _Sums(thresholds))):
                sums.add(answers, counts)
        moved = np.degrees(np.abs(table["mutant"].to_numpy() - table["original"].to_numpy()))[may_count(table)]
        deviations += np.histogram(np.minimum(moved[np.isfinite(moved)], edges[-1]), edges)[0]
    originals = Originals.of(run, len(campaign.drive))
    answer = originals.answer[np.isfinite(originals.answer)]
    return RoadSummary(
        originals=run.records(ORIGINALS, ("frame_index",)).num_rows,
        spread_deg=degrees(float(np.std(answer))) if len(answer) else nan,
        rmse_rad=sqrt(originals.mse_rad2) if originals.labelled else nan,
        overall=overall.conditions("all", ""),
        by_weather=tuple(sums.conditions(name, "") for name, sums in weathers.items()),
        by_style=_by_style(campaign, styles),
        deviations=deviations,
        problems=run.problems(),
    )


def _by_style(campaign: DeepRoad, styles: dict[str, _Sums]) -> tuple[WeatherConditions, ...]:
    rows: list[WeatherConditions] = []
    for name, looks in campaign.weathers.items():
        for number, params in enumerate(looks.space.grid, 1):
            sums = styles.get(Recipe.of(name, params).to_json())
            if sums is not None and len(looks.space.grid) > 1:
                rows.append(sums.conditions(name, f"{number}"))
    return tuple(rows)


def _answers(table: pa.Table) -> Answers:
    original, mutant, label = (_numbers(table, name) for name in ("original", "mutant", "label"))
    return Answers(original, mutant, label)


def _numbers(table: pa.Table, name: str) -> FloatArray:
    return np.asarray(table[name].to_numpy(), np.float64)


@dataclass(frozen=True, slots=True)
class Ranked:
    """One subject over one or more runs; counts are of all its weathers together, spread_deg of its answers on originals.

    senseless: why its counts cannot be compared with another's, see `oracles.doubts`; empty if they can.
    """

    subject: str
    counts: tuple[BoundCount, ...]
    mean_deg: float
    spread_deg: float
    rmse_rad: float
    senseless: str = ""

    @property
    def moved(self) -> float:
        """How far answers move on average, in spreads of the answers themselves: 1 is as bad as an answer to another frame."""
        return self.mean_deg / self.spread_deg if self.spread_deg > 0.0 else float("nan")


def ranked(results: Sequence[tuple[str, Sequence[RoadSummary]]], senseless: Sequence[str] = ()) -> tuple[Ranked, ...]:
    """Ranks subjects, the most consistent first: by the share at the first error bound, then at the next ones, then by name.

    results: a subject's name with the summaries of its runs, all at the same bounds. senseless: of each subject; those that have a reason
    come last.

    Reference: DeepRoad, section 4.4, which orders its models by their counts.
    """
    reasons = senseless or [""] * len(results)
    rows = [replace(_ranked(*result), senseless=why) for result, why in zip(results, reasons, strict=True)]
    return tuple(sorted(rows, key=lambda row: (bool(row.senseless), *(count.rate for count in row.counts), row.subject)))


def check_comparable(runs: Sequence[Run]) -> None:
    """Refuses to rank runs over another drive, other weathers, styles or bounds, and a subject against itself."""
    first = runs[0]
    subjects: dict[tuple[object, ...], Run] = {}
    for run in runs:
        if run.config.get("campaign") != "deeproad":
            raise BadRunError(f"{run.path} is no run of `skidpad weather test`; only those are ranked")
        if not run.is_finished:
            raise BadRunError(f"{run.path} is not finished; go on with: skidpad resume {run.place}")
        mine, theirs = (_stimuli(each) for each in (run, first))
        other = sorted(name for name in {*mine, *theirs} if mine.get(name) != theirs.get(name))
        if other:
            raise BadRunError(f"{run.path} and {first.path} differ in {', '.join(other)}; ranks compare subjects under the same conditions")
        subject = (run.manifest.hashes["subject"], run.config.get("output"), run.config.get("stimulus_on"))
        if subject in subjects:
            raise BadRunError(f"{subjects[subject].path} and {run.path} are of one subject; give one run of each")
        subjects[subject] = run


def _stimuli(run: Run) -> dict[str, object]:
    hashes = {name: value for name, value in run.manifest.hashes.items() if name != "subject"}
    settings = {name: run.config.get(name) for name in ("thresholds_deg", "style", "styles", "seed")}
    return {**hashes, **settings}


def _ranked(name: str, summaries: Sequence[RoadSummary]) -> Ranked:
    totals: list[BoundCount] = []
    for place, bound in enumerate(summaries[0].overall.counts):
        found = sum(summary.overall.counts[place].inconsistent for summary in summaries)
        cases = sum(summary.overall.counts[place].cases for summary in summaries)
        interval = wilson(found, cases)
        totals.append(BoundCount(bound.threshold_deg, found, cases, interval.low, interval.high))
    cases = sum(summary.overall.cases for summary in summaries)
    mean = sum(summary.overall.mean_deg * summary.overall.cases for summary in summaries) / cases if cases else float("nan")
    return Ranked(name, tuple(totals), mean, summaries[0].spread_deg, summaries[0].rmse_rad)
