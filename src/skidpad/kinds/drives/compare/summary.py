"""What a comparison found: simulated drives matched with recorded ones (RQ0), and whether offline and online agree (RQ1).

Reference: offline and online testing, section III-B.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb, isfinite, nan
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from skidpad.core.images import FloatArray
from skidpad.core.units import AngleUnit
from skidpad.drives.opening import LostDrive
from skidpad.kinds.drives.compare.campaign import MATCHED, OFFLINE, ONLINE, OfflineVsOnline
from skidpad.kinds.drives.records import unpack
from skidpad.oracles.lane_departure import Agreement, mdcl
from skidpad.statistics.intervals import Interval, wilson
from skidpad.statistics.ranks import spearman

if TYPE_CHECKING:
    from skidpad.runs.folder import Run


CONSISTENT = 0.1
"""Two prediction errors that differ by no more say the same; section III-B."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A simulated drive and the part of the recorded one that is steered most alike; everything in the unit of the settings.

    start: where the part begins; -1 where the recording is shorter than the drive. apart: the mean distance of their labels
    (condition 3). mae_sim, mae_real: prediction errors on both.
    """

    name: str
    start: int
    apart: float
    is_comparable: bool
    mae_sim: float
    mae_real: float

    @property
    def difference(self) -> float:
        """How far the two prediction errors are apart."""
        return abs(self.mae_sim - self.mae_real)


@dataclass(frozen=True, slots=True)
class Matching:
    """All pairs, comparable or not."""

    pairs: tuple[Pair, ...]

    @property
    def comparable(self) -> tuple[Pair, ...]:
        """The pairs that satisfy conditions 1 to 3 and have an error on both sides."""
        return tuple(pair for pair in self.pairs if pair.is_comparable and np.isfinite(pair.difference))

    @property
    def mean_difference(self) -> float:
        """The mean difference of the prediction errors; NaN without pairs."""
        return float(np.mean([pair.difference for pair in self.comparable])) if self.comparable else nan

    @property
    def consistent(self) -> Interval:
        """The share of comparable pairs whose errors differ by at most CONSISTENT."""
        return wilson(sum(pair.difference <= CONSISTENT for pair in self.comparable), len(self.comparable))

    @property
    def worse_simulated(self) -> int:
        """Among the pairs that are not consistent, how many have the larger error on the simulated drive."""
        return sum(pair.difference > CONSISTENT and pair.mae_sim > pair.mae_real for pair in self.comparable)


def best_part(simulated: FloatArray, recorded: FloatArray) -> tuple[int, float]:
    """Returns where in `recorded`, (k,), the part of the length of `simulated`, (n,), begins that differs least, and the mean difference.

    Conditions 1 and 2. A part that holds a frame without a label is passed over; (-1, infinity) where there is none.
    Deviates: of several equal parts the paper takes one at random, we the first.
    """
    n = len(simulated)
    if n == 0 or len(recorded) < n:
        return -1, float("inf")
    apart = np.array([np.abs(part - simulated).mean() for part in sliding_window_view(recorded, n)])
    apart = np.where(np.isfinite(apart), apart, np.inf)
    start = int(apart.argmin())
    return (start, float(apart[start])) if np.isfinite(apart[start]) else (-1, float("inf"))


def match(
    names: Sequence[str],
    simulated: Sequence[tuple[FloatArray, FloatArray]],
    recorded: FloatArray,
    answers: FloatArray,
    epsilon: float,
) -> Matching:
    """Matches drives with the recording; all values in one unit.

    simulated: labels and answers of each drive. recorded, answers: labels and answers of the recording, (k,) each.
    """
    pairs = []
    for name, (labels, said) in zip(names, simulated, strict=True):
        start, apart = best_part(labels, recorded)
        part = slice(start, start + len(labels))
        mae_real = mean_error_of(answers[part], recorded[part]) if start >= 0 else nan
        pairs.append(Pair(name, start, apart, apart <= epsilon, mean_error_of(said, labels), mae_real))
    return Matching(tuple(pairs))


def mean_error_of(answers: FloatArray, labels: FloatArray) -> float:
    """Returns the mean absolute error over the frames that have both; NaN where none has."""
    error = np.abs(answers - labels)
    known = error[np.isfinite(error)]
    return float(known.mean()) if len(known) else nan


MAE_LIMITS = (0.01, 0.02, 0.0436, 0.05, 0.1, 0.2)
"""Offline thresholds for the sensitivity, in the unit of the settings; the paper tried 0.05 and 0.1 (section III-D), and 0.0436 rad are
the 2.5 degrees of the steering wheel that it reads 0.1 as."""
SIGNIFICANT = 0.05
"""A way of testing is called the more optimistic where chance alone gives so one-sided disagreements at most so often."""
MDCL_LIMITS = (0.3, 0.5, 0.7, 0.9, 1.0)
_COLUMNS = ("case_id", "scenario_name", "scenario", "mae_rad", "mdcl", "truth_rad", "answers_rad", "lateral_m", "problem", "departed_at_s")


@dataclass(frozen=True, slots=True, eq=False)
class ScenarioResult:
    """One scenario both ways. mae: offline, in the unit of the settings. mdcl: online. truth_mdcl: of the truth at the wheel.

    errors: the offline error at every frame, in the unit; lateral_m: online, at every frame.
    """

    name: str
    scenario: str
    offline_id: str
    online_id: str
    mae: float
    mdcl: float
    truth_mdcl: float
    errors: FloatArray
    lateral_m: FloatArray
    departed_at_s: float
    problem: str


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Table III at other thresholds."""

    mae_limit: float
    mdcl_limit: float
    agreement: Agreement


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """RQ1, and RQ0 where a recorded drive was given."""

    unit: AngleUnit
    mae_limit: float
    mdcl_limit: float
    results: tuple[ScenarioResult, ...]
    matching: Matching | None
    recorded_mae: float

    @property
    def agreement(self) -> Agreement:
        """Table III."""
        return self.agreement_at(self.mae_limit, self.mdcl_limit)

    def agreement_at(self, mae_limit: float, mdcl_limit: float) -> Agreement:
        """Table III at any thresholds."""
        return Agreement.of(self._of("mae"), self._of("mdcl"), mae_limit, mdcl_limit)

    @property
    def disagreement(self) -> Interval:
        """The share of scenarios on which offline and online testing differ."""
        return wilson(self.agreement.disagreeing, self.agreement.total)

    @property
    def false_safe(self) -> Interval:
        """Of the scenarios that are not acceptable online, the share that offline testing accepts."""
        return wilson(self.agreement.false_safe, self.agreement.unsafe_online)

    @property
    def false_alarm(self) -> Interval:
        """Of the scenarios that are acceptable online, the share that offline testing does not accept."""
        return wilson(self.agreement.false_alarm, self.agreement.safe_online)

    @property
    def optimism_p(self) -> float:
        """How likely at least so many of the disagreements are false-safe by chance (one-sided sign test); 1 without any."""
        trials, hits = self.agreement.disagreeing, self.agreement.false_safe
        return sum(comb(trials, k) for k in range(hits, trials + 1)) / 2.0**trials

    @property
    def two_sided_p(self) -> float:
        """How likely chance alone makes the disagreements so one-sided, whichever way (exact two-sided sign test); 1 without any."""
        trials = self.agreement.disagreeing
        most = max(self.agreement.false_safe, self.agreement.false_alarm)
        return min(1.0, 2.0 * sum(comb(trials, k) for k in range(most, trials + 1)) / 2.0**trials)

    @property
    def optimist(self) -> str:
        """Which way of testing is the more optimistic: `offline` or `online` where that is hardly chance, `neither` else."""
        return self.agreement.optimist if self.two_sided_p <= SIGNIFICANT else "neither"

    @property
    def rank_correlation(self) -> float:
        """Spearman's rho of MAE and MDCL; NaN where there is none."""
        mae, strayed = self._of("mae"), self._of("mdcl")
        judged = np.isfinite(mae) & np.isfinite(strayed)
        return spearman(mae[judged], strayed[judged]).rho

    @property
    def sensitivity(self) -> tuple[Sensitivity, ...]:
        """Table III over a grid of both thresholds."""
        return tuple(Sensitivity(mae, strayed, self.agreement_at(mae, strayed)) for mae in MAE_LIMITS for strayed in MDCL_LIMITS)

    @property
    def telling(self) -> ScenarioResult | None:
        """The disagreement to tell: the false-safe scenario with the smallest largest error offline; else a false alarm; else None."""
        judged = [each for each in self.results if isfinite(each.mae) and isfinite(each.mdcl)]
        safe = [each for each in judged if each.mae < self.mae_limit and each.mdcl >= self.mdcl_limit]
        alarms = [each for each in judged if each.mae >= self.mae_limit and each.mdcl < self.mdcl_limit]
        return min(safe or alarms, key=lambda each: float(np.nanmax(each.errors)), default=None)

    def _of(self, name: str) -> FloatArray:
        return np.array([getattr(each, name) for each in self.results], np.float64)


def summarise(campaign: OfflineVsOnline, run: Run) -> Comparison:
    """Reads the drives of a run and compares."""
    settings = campaign.settings
    unit_rad = settings.unit_rad
    offline = {row["scenario_name"]: row for row in run.records(OFFLINE, _COLUMNS).to_pylist()}
    online = {row["scenario_name"]: row for row in run.records(ONLINE, _COLUMNS).to_pylist()}
    results = []
    for name in [name for name in offline if name in online]:
        asked, drove = offline[name], online[name]
        errors = np.abs(unpack(asked["answers_rad"]) - unpack(asked["truth_rad"])) / unit_rad
        results.append(
            ScenarioResult(
                name=name,
                scenario=asked["scenario"],
                offline_id=asked["case_id"],
                online_id=drove["case_id"],
                mae=asked["mae_rad"] / unit_rad,
                mdcl=drove["mdcl"],
                truth_mdcl=mdcl(unpack(asked["lateral_m"])).normalised,
                errors=errors,
                lateral_m=unpack(drove["lateral_m"]),
                departed_at_s=drove["departed_at_s"],
                problem=asked["problem"] or drove["problem"],
            )
        )
    matching, recorded_mae = _matching(campaign, run)
    return Comparison(AngleUnit(settings.unit), settings.mae_limit, settings.mdcl_limit, tuple(results), matching, recorded_mae)


def _matching(campaign: OfflineVsOnline, run: Run) -> tuple[Matching | None, float]:
    if campaign.drive is None or isinstance(campaign.drive, LostDrive):
        return None, float("nan")
    unit_rad = campaign.settings.unit_rad
    rows = [row for row in run.records(MATCHED, _COLUMNS).to_pylist() if not row["problem"]]
    simulated = [(unpack(row["truth_rad"]) / unit_rad, unpack(row["answers_rad"]) / unit_rad) for row in rows]
    labels, answers = campaign.drive.steering_rad / unit_rad, campaign.recorded_answers(run) / unit_rad
    found = match([row["scenario_name"] for row in rows], simulated, labels, answers, campaign.settings.epsilon)
    return found, mean_error_of(answers, labels)


def comparison_figures(campaign: OfflineVsOnline, run: Run) -> Mapping[str, object]:
    """Returns RQ0 and RQ1 as plain values."""
    found = summarise(campaign, run)
    return {
        "unit": found.unit.value,
        "mae_limit": found.mae_limit,
        "mdcl_limit": found.mdcl_limit,
        "agreement": _agreement(found.agreement),
        "disagreement": _rate(found.disagreement),
        "false_safe": _rate(found.false_safe),
        "false_alarm": _rate(found.false_alarm),
        "more_optimistic": found.optimist,
        "optimism_p": found.optimism_p,
        "two_sided_p": found.two_sided_p,
        "rank_correlation": found.rank_correlation,
        "sensitivity": [
            {"mae_limit": each.mae_limit, "mdcl_limit": each.mdcl_limit, **_agreement(each.agreement)} for each in found.sensitivity
        ],
        "scenarios": [
            {"scenario": each.name, "mae": each.mae, "mdcl": each.mdcl, "offline": each.offline_id, "online": each.online_id}
            for each in found.results
        ],
        "recorded": _recorded(found),
    }


def _recorded(found: Comparison) -> Mapping[str, object] | None:
    matching = found.matching
    if matching is None:
        return None
    return {
        "mae": found.recorded_mae,
        "pairs": len(matching.pairs),
        "comparable": len(matching.comparable),
        "mean_difference": matching.mean_difference,
        "consistent": _rate(matching.consistent),
        "inconsistent_and_worse_simulated": matching.worse_simulated,
    }


def _agreement(found: Agreement) -> Mapping[str, int]:
    return {name: getattr(found, name) for name in ("both_safe", "false_safe", "false_alarm", "both_unsafe")}


def _rate(rate: Interval) -> Mapping[str, float]:
    return {"share": rate.estimate, "low": rate.low, "high": rate.high, "n": rate.n}
