"""What a run over pictures found: rates by stimulus, what it covered, and which frames went untested."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import degrees, isnan, nan
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skidpad.core.errors import SkidpadError
from skidpad.core.stimuli import Recipe
from skidpad.core.units import AngleUnit
from skidpad.drives.drive import Problem, ProblemKind
from skidpad.drives.readers import SLICING
from skidpad.kinds.pictures.guided import merged_coverage
from skidpad.kinds.ruling import failed_of, judged_rows, recipe_traits
from skidpad.oracles.error import squared_to_rad2
from skidpad.oracles.relations import LabelMse, fails_unchanged
from skidpad.runs.records import ORIGINALS, may_count
from skidpad.statistics.intervals import wilson
from skidpad.statistics.rules import Cases, Trait
from skidpad.stimuli.registry import COMPOSITE

if TYPE_CHECKING:
    from skidpad.core.images import BoolArray, IntArray
    from skidpad.coverage.tracker import CoverageTracker
    from skidpad.drives.drive import Drive
    from skidpad.kinds.pictures.judging import JudgedOutput, Originals
    from skidpad.oracles.relations import Relation
    from skidpad.runs.folder import Run

_COLUMNS = ("frame_index", "stimulus", "recipe", "violated", "label", "original", "mutant", "excess", "referee")
NO_LABEL, NO_ANSWER = "without a label", "without a finite answer on the original"
NOT_DRAWN, NOT_REACHED = "not drawn by the search", "not reached yet"
SET_APART = "with all pictures set apart by the referee"


@dataclass(frozen=True, slots=True)
class Untested:
    """How many frames were judged, of how many. reasons: why the others were not, with how many; most first."""

    judged: int
    frames: int
    reasons: tuple[tuple[str, int], ...]

    @property
    def is_damage(self) -> bool:
        """Whether something is wrong with frames or answers; else the search left them out by its plan, or the referee by its verdict."""
        return any(why not in {NOT_DRAWN, NOT_REACHED, SET_APART} for why, _ in self.reasons)


def untested_frames(summary: Summary, originals: Originals, drive: Drive, relation: Relation, *, finished: bool) -> Untested:
    """Counts the frames of a drive by what became of them; every frame has one reason."""
    seen = originals.seen
    reasons: Counter[str] = Counter(problem.kind.value for problem in summary.problems)
    if isinstance(relation, LabelMse):
        reasons[NO_LABEL] = int(np.isnan(originals.label[seen]).sum())
    else:
        reasons[NO_ANSWER] = int((~np.isfinite(originals.answer[seen])).sum())
    frames = len(originals.seen)
    rest = max(frames - summary.frames - reasons.total(), 0)
    reasons[SET_APART] = min(summary.frames_apart, rest)
    reasons[NOT_DRAWN if finished else NOT_REACHED] = rest - reasons[SET_APART]
    if not _is_sliced(drive.origin):
        # a slice carries the problems of the whole recording, most of which lie outside it
        unlisted = sum(problem.kind is ProblemKind.UNLISTED for problem in drive.problems)
        reasons[ProblemKind.UNLISTED.value] += unlisted
    return Untested(
        summary.frames,
        frames + reasons[ProblemKind.UNLISTED.value],
        tuple((why, number) for why, number in reasons.most_common() if number),
    )


def _is_sliced(origin: str) -> bool:
    return not set(SLICING).isdisjoint(part.partition("=")[0] for part in origin.partition("?")[2].split("&"))


EPSILON_RAD2 = squared_to_rad2(0.03, AngleUnit.SCALED_25)
"""DeepTest's highlighted epsilon of Eq. 3 (section 5, Table 8), which is in (degrees / 25)^2."""


@dataclass(frozen=True, slots=True)
class Rate:
    """How often cases of one kind broke the relation, with its 95 % Wilson interval; the MSE is against the labels.

    cases: those that could be judged. already_broken: findings whose original breaks the relation before anything is changed.
    """

    name: str
    parameters: str
    cases: int
    findings: int
    low: float
    high: float
    mse_rad2: float = nan
    already_broken: int = 0

    @classmethod
    def of(cls, name: str, parameters: str, cases: int, findings: int, mse_rad2: float = nan, already_broken: int = 0) -> Rate:
        """Computes the interval."""
        interval = wilson(findings, cases)
        return cls(name, parameters, cases, findings, interval.low, interval.high, mse_rad2, already_broken)

    @property
    def rate(self) -> float:
        """The share of findings; NaN without cases."""
        return self.findings / self.cases if self.cases else float("nan")


@dataclass(frozen=True, slots=True)
class CoverageGain:
    """Regions of one criterion covered by the originals, and together with the mutants of `stimulus` ("" is all).

    total: what the papers divide by, the regions of a neuron times the neurons. reachable: those that can be covered at all.
    """

    criterion: str
    stimulus: str
    originals: int
    together: int
    total: int
    reachable: int

    @property
    def is_cut(self) -> bool:
        """Whether some regions cannot be reached under this profile, so that the share of the reachable ones is another."""
        return self.reachable < self.total


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of one run. deviations: cases by |mutant - original|, between the edges of the judged output.

    unjudged: mutants in no rate, without a label where one is needed, or without a finite answer on the original. frames: those of which
    a mutant was judged. frames_apart: those of which none was, and the referee set at least one apart.
    """

    originals: int
    mse_original_rad2: float
    overall: Rate
    by_stimulus: tuple[Rate, ...]
    by_parameters: tuple[Rate, ...]
    coverage: tuple[CoverageGain, ...]
    deviations: IntArray
    not_finite: int
    unjudged: int
    problems: tuple[Problem, ...]
    frames: int = 0
    frames_apart: int = 0

    def near_original(self, epsilon_rad2: float = EPSILON_RAD2) -> tuple[Rate, ...]:
        """Returns the (transformation, parameters) that Eq. 3 keeps: those whose MSE is close to that of the originals.

        Reference: DeepTest 5 (RQ4), Eq. 3.
        """
        return tuple(rate for rate in self.filtered if abs(rate.mse_rad2 - self.mse_original_rad2) <= epsilon_rad2)

    @property
    def filtered(self) -> tuple[Rate, ...]:
        """The (transformation, parameters) that Eq. 3 is asked about: the paper counts fog and rain without it (Tables 7 and 8)."""
        return tuple(rate for rate in self.by_parameters if rate.name not in COMPOSITE)


def summarise(run: Run, blank: CoverageTracker, judged: JudgedOutput, relation: Relation | None = None) -> Summary:
    """Counts the records of a run; grid cases by transformation and parameters, searched ones by their search.

    relation: what the run was judged by; needed to tell which originals break it themselves.
    """
    cases: Counter[tuple[str, str]] = Counter()
    order: dict[str, None] = {}
    findings: Counter[tuple[str, str]] = Counter()
    already: Counter[tuple[str, str]] = Counter()
    errors: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    edges = judged.edges
    deviations = np.zeros(len(edges) - 1, np.int64)
    not_finite = unjudged = 0
    frames = apart = np.zeros(0, np.int64)
    for phase in _phases(run):
        for table in run.iter_records(phase, _COLUMNS):
            order |= dict.fromkeys(table["recipe"].unique().to_pylist())  # as computed: Arrow's groups come in any order
            squared = (table["mutant"].to_numpy() - table["label"].to_numpy()) ** 2
            is_judged = ~np.isnan(table["excess"].to_numpy())
            counts = may_count(table)
            unjudged += int((~is_judged & counts).sum())
            indices = table["frame_index"].to_numpy()
            frames, apart = np.union1d(frames, indices[is_judged]), np.union1d(apart, indices[~counts])
            with_error = table.append_column("squared", pa.array(squared, mask=~np.isfinite(squared)))
            with_error = with_error.append_column("judged", pa.array(is_judged))
            with_error = with_error.append_column("already", pa.array(_already_broken(table, relation)))
            sums = [("judged", "sum"), ("violated", "sum"), ("already", "sum"), ("squared", "count"), ("squared", "sum")]
            for row in with_error.group_by(["stimulus", "recipe"], use_threads=False).aggregate(sums).to_pylist():
                # pairs drawn by a search are too many kinds for a table of their own
                key = (row["stimulus"], row["recipe"]) if phase == "grid" else (phase, "")
                cases[key] += row["judged_sum"]
                findings[key] += row["violated_sum"]
                already[key] += row["already_sum"]
                errors[key][0] += row["squared_sum"] or 0.0
                errors[key][1] += row["squared_count"]
            deviation = np.abs(table["mutant"].to_numpy() - table["original"].to_numpy()) * judged.shown(1.0)
            finite = deviation[np.isfinite(deviation)]
            not_finite += len(deviation) - len(finite)
            deviations += np.histogram(np.minimum(finite, edges[-1]), edges)[0]
    places = {recipe: place for place, recipe in enumerate(order)}
    originals = run.records(ORIGINALS, ("original", "label"))
    squared = (originals["original"].to_numpy() - originals["label"].to_numpy()) ** 2
    return Summary(
        originals=originals.num_rows,
        mse_original_rad2=_mean([float(np.nansum(squared)), float(np.isfinite(squared).sum())]),
        overall=Rate.of("all", "", cases.total(), findings.total(), already_broken=already.total()),
        by_stimulus=_by_stimulus(cases, findings, already),
        by_parameters=tuple(
            Rate.of(key[0], str(Recipe.from_json(key[1]).steps[0].params), count, findings[key], _mean(errors[key]), already[key])
            for key, count in sorted(cases.items(), key=lambda item: places.get(item[0][1], -1))
            if key[1]
        ),
        coverage=coverage_gains(run, blank),
        deviations=deviations,
        not_finite=not_finite,
        unjudged=unjudged,
        problems=run.problems(),
        frames=len(frames),
        frames_apart=len(np.setdiff1d(apart, frames)),
    )


def coverage_gains(run: Run, blank: CoverageTracker) -> tuple[CoverageGain, ...]:
    """Returns what each stimulus, and all together, added to the coverage of the originals."""
    originals = blank.fresh()
    for tracker in merged_coverage(run, ORIGINALS, blank).values():
        originals.merge(tracker)
    groups = {name: tracker for phase in _phases(run) for name, tracker in merged_coverage(run, phase, blank).items()}
    everything = blank.fresh()
    everything.merge(originals)
    for tracker in groups.values():
        everything.merge(tracker)
        tracker.merge(originals)
    return tuple(
        CoverageGain(before.criterion, name, before.covered, after.covered, before.total, before.reachable)
        for name, tracker in [("", everything), *groups.items()]
        for before, after in zip(originals.coverage(), tracker.coverage(), strict=True)
    )


def _already_broken(table: pa.Table, relation: Relation | None) -> BoolArray:
    """Tells which findings are of originals that break the relation themselves, as if nothing had been changed, (N,)."""
    found = np.asarray(table["violated"].to_numpy(zero_copy_only=False), np.bool_)
    if relation is None:
        return np.zeros_like(found)
    return np.asarray(found & fails_unchanged(relation, table["original"].to_numpy(), table["label"].to_numpy()), np.bool_)


def _mean(total_and_count: list[float]) -> float:
    total, count = total_and_count
    return total / count if count else nan


def _phases(run: Run) -> list[str]:
    return [phase for phase in run.phases() if phase != ORIGINALS]


def _by_stimulus(
    cases: Counter[tuple[str, str]], findings: Counter[tuple[str, str]], already: Counter[tuple[str, str]]
) -> tuple[Rate, ...]:
    totals: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for key, count in cases.items():
        for place, number in enumerate((count, findings[key], already[key])):
            totals[key[0]][place] += number
    return tuple(Rate.of(name, "", count, found, already_broken=before) for name, (count, found, before) in totals.items())


STRETCHES = 40
"""Neighbouring frames are alike: a drive is cut into so many stretches, each on one side of the split."""
_STRAIGHT_DEG = 3.0
_MAX_FRAMES = 2000


def picture_cases(campaign: Any, run: Run, only: tuple[str, str] | None = None) -> Cases:
    """Reads the mutants of a run; frames of one stretch of the drive belong together. only: a column and the value that counts."""
    rows = [row for row in judged_rows(run, ("frame_index", "recipe", "label", "original"), only) if row["recipe"] != "[]"]
    frames = np.array([row["frame_index"] for row in rows], np.int64)
    # where there is no label, what the network answered on the original tells as well where the road goes
    steered = [degrees(row["original"] if isnan(row["label"]) else row["label"]) for row in rows]
    traits = [
        *recipe_traits([row["recipe"] for row in rows]),
        Trait("the road", [_bend(each) for each in steered]),
        Trait("the steering on the original", np.abs(np.array(steered, np.float64)), "degrees"),
    ]
    light = _brightness(campaign.drive, sorted(set(frames.tolist())))
    if light:
        traits.append(Trait("the frame's brightness", np.array([light.get(frame, nan) for frame in frames.tolist()]), "of 255"))
    whole = int(frames.max()) + 1 if len(frames) else 1
    return Cases(failed_of(rows), tuple(traits), [f"stretch {frame * STRETCHES // whole}" for frame in frames.tolist()])


def limit_cases(campaign: Any, run: Run) -> Cases:
    """Reads the frames of a search for limits, without its drives."""
    return picture_cases(campaign, run, ("mode", "offline"))


def _bend(steered_deg: float) -> str:
    return "straight" if abs(steered_deg) < _STRAIGHT_DEG else "a bend to the left" if steered_deg > 0 else "a bend to the right"


def _brightness(drive: Drive, frames: Sequence[int]) -> dict[int, float]:
    """Returns the mean of each frame; nothing where there are too many, or where the drive is gone."""
    if len(frames) > _MAX_FRAMES:
        return {}
    try:
        read = {frame: drive.frame(frame) for frame in frames}
    except SkidpadError:
        return {}
    return {frame: float(picture.mean()) for frame, picture in read.items() if not isinstance(picture, Problem)}
