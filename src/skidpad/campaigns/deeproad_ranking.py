"""Subjects side by side: who keeps steering alike under the same weathers on the same drive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skidpad.campaigns.deeproad_summary import BoundCount, RoadSummary
from skidpad.core.errors import BadRunError
from skidpad.statistics.intervals import wilson

if TYPE_CHECKING:
    from skidpad.runs.folder import Run


@dataclass(frozen=True, slots=True)
class Ranked:
    """One subject over one or more runs; counts are of all its weathers together, spread_deg of its answers on originals."""

    subject: str
    counts: tuple[BoundCount, ...]
    mean_deg: float
    spread_deg: float
    rmse_rad: float

    @property
    def moved(self) -> float:
        """How far answers move on average, in spreads of the answers themselves: 1 is as bad as an answer to another frame."""
        return self.mean_deg / self.spread_deg if self.spread_deg > 0.0 else float("nan")


def ranked(results: Sequence[tuple[str, Sequence[RoadSummary]]]) -> tuple[Ranked, ...]:
    """Ranks subjects, the most consistent first: by the share at the first error bound, then at the next ones, then by name.

    results: a subject's name with the summaries of its runs, all at the same bounds.

    Reference: DeepRoad, section 4.4, which orders its models by their counts.
    """
    rows = [_ranked(name, summaries) for name, summaries in results]
    return tuple(sorted(rows, key=lambda row: (*(count.rate for count in row.counts), row.subject)))


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
