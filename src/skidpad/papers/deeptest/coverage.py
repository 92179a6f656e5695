"""RQ1 to RQ3: what activates neurons.

Does their number go with the steering? Do different transformations activate different ones? Does combining them activate more?

Reference: DeepTest, section 5 (RQ1 to RQ3), Tables 5 and 6, Figures 4 and 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skidpad.core.errors import BadRunError
from skidpad.kinds.pictures.guided import merged_coverage
from skidpad.papers.deeptest import paper
from skidpad.papers.scoreboard import Figure, Row, Sheet, increase_percent, p_text, ratio
from skidpad.runs.records import ORIGINALS
from skidpad.statistics.ranks import cohens_d, compare_directions, count_bits, cumulative_counts, signed_rank, spearman, transform_distances
from skidpad.stimuli.pictures import SIMPLE

if TYPE_CHECKING:
    from skidpad.core.images import FloatArray, IntArray
    from skidpad.coverage.tracker import CoverageTracker
    from skidpad.runs.folder import Run
    from skidpad.statistics.ranks import PackedBits

_SIDES = {"positive > negative": "left > right", "positive < negative": "left < right"}


@dataclass(frozen=True, slots=True)
class Association:
    """Activated neurons of each original against the network's own answer; left is positive."""

    frames: int
    neurons: int
    median_active: float
    spearman: float
    spearman_p: float
    left: int
    right: int
    direction: str
    direction_p: float
    cohens_d: float
    effect: str

    def rows(self) -> tuple[Row, ...]:
        """Returns the scoreboard's rows."""
        sides = f"{self.left} left, {self.right} right, {p_text(self.direction_p)}"
        return (
            Row.compared(
                "RQ1",
                "Spearman, active neurons with steering",
                paper.SPEARMAN,
                self.spearman,
                f"{self.frames} frames, {p_text(self.spearman_p)}; the sign is the network's, not the method's",
                paper.SPEARMAN_OTHERS,
            ),
            Row.compared("RQ1", "active neurons by direction (rank-sum)", paper.DIRECTION, self.direction, sides, paper.DIRECTION_OTHERS),
            Row.compared(
                "RQ1",
                "effect of direction (Cohen's d)",
                paper.DIRECTION_EFFECT,
                self.effect,
                f"d = {self.cohens_d:.3g}",
                paper.DIRECTION_EFFECT_OTHERS,
            ),
        )


def associate(run: Run, neurons: int) -> Association:
    """Answers RQ1 from the originals of a run."""
    table = run.records(ORIGINALS, ("active_neurons", "original"))
    active, answer_rad = table["active_neurons"].to_numpy().astype(np.float64), table["original"].to_numpy()
    correlation = spearman(active, answer_rad)
    sides = compare_directions(active, answer_rad)
    return Association(
        frames=len(active),
        neurons=neurons,
        median_active=float(np.median(active)) if len(active) else float("nan"),
        spearman=correlation.rho,
        spearman_p=correlation.p_value,
        left=sides.positive,
        right=sides.negative,
        direction=_SIDES.get(sides.verdict, sides.verdict),
        direction_p=sides.test.p_value,
        cohens_d=sides.effect.size,
        effect=sides.effect.magnitude.value,
    )


@dataclass(frozen=True, slots=True)
class ActivatedNeurons:
    """Neurons that one way of making pictures activates together with the seeds, out of all; and how many pictures it kept."""

    way: str
    pictures: int
    covered: int
    neurons: int

    @property
    def percent(self) -> float:
        """The covered share in percent."""
        return 100.0 * ratio(self.covered, self.neurons)


@dataclass(frozen=True, slots=True)
class Combination:
    """Table 6 on one subject; `random` makes as many tries as `guided`, and keeps them all."""

    seeds: int
    baseline: ActivatedNeurons
    cumulative: ActivatedNeurons
    guided: ActivatedNeurons
    random: ActivatedNeurons

    def rows(self) -> tuple[Row, ...]:
        """Returns the scoreboard's rows."""
        epoch, *others = paper.TABLE_6
        rows = [
            Row.compared(
                "RQ3",
                f"neuron coverage, {way} (%)",
                100.0 * published / epoch.neurons,
                ours.percent,
                f"{ours.covered} of {ours.neurons} neurons, {ours.pictures} pictures on {self.seeds} seeds",
                ", ".join(f"{other.model} {100 * getattr(other, way) / other.neurons:.0f} %" for other in others),
            )
            for way, published, ours in (
                ("baseline", epoch.baseline, self.baseline),
                ("cumulative", epoch.cumulative, self.cumulative),
                ("guided", epoch.guided, self.guided),
            )
        ]
        rows.append(
            Row.beside(
                "RQ3",
                "neuron coverage, random pairs (%)",
                None,
                self.random.percent,
                f"{self.random.covered} neurons by {self.random.pictures} pictures, as many tries as guided; not in the paper",
            )
        )
        for quantity, ours, published in (
            ("guided over baseline (%)", increase_percent(self.guided.covered, self.baseline.covered), _guided_over("baseline")),
            ("guided over cumulative (%)", increase_percent(self.guided.covered, self.cumulative.covered), _guided_over("cumulative")),
        ):
            text = ", ".join(f"{model} {value:.3g} %" for model, value in published[1:])
            rows.append(Row.compared("RQ3", quantity, published[0][1], ours, "increase in neurons", text))
        note = "pictures that raised coverage, with maxFailedTries 10; the paper does not give its own"
        rows.append(
            Row.beside("RQ3", "pictures of guided search", paper.GUIDED_IMAGES, self.guided.pictures, note, paper.GUIDED_IMAGES_OTHERS)
        )
        return tuple(rows)

    def sheet(self) -> Sheet:
        """Returns Table 6 with our row and the random column."""
        columns = ("model", "neurons", "baseline", "cumulative", "guided", "random", "guided over baseline (%)", "over cumulative (%)")
        published = tuple(
            (
                row.model,
                row.neurons,
                row.baseline,
                row.cumulative,
                row.guided,
                None,
                increase_percent(row.guided, row.baseline),
                increase_percent(row.guided, row.cumulative),
            )
            for row in paper.TABLE_6
        )
        covered = [way.covered for way in (self.baseline, self.cumulative, self.guided, self.random)]
        increases = (increase_percent(covered[2], covered[0]), increase_percent(covered[2], covered[1]))
        ours: tuple[Figure, ...] = ("ours", self.baseline.neurons, *covered, *increases)
        return Sheet("RQ3, Table 6: activated neurons", columns, (*published, ours), "Ours count the seeds' neurons in every column.")


def combine(run: Run, blank: CoverageTracker) -> Combination:
    """Answers RQ3 from the run over the seeds."""
    seeds = _pictures(run, ORIGINALS)
    ways = {phase: _coverage(run, phase, blank) for phase in ("grid", "greedy", "random")}
    return Combination(
        seeds=seeds,
        baseline=_coverage(run, ORIGINALS, blank),
        cumulative=ways["grid"],
        guided=ways["greedy"],
        random=ways["random"],
    )


def _coverage(run: Run, phase: str, blank: CoverageTracker) -> ActivatedNeurons:
    together = blank.fresh()
    for part in {ORIGINALS, phase}:
        for tracker in merged_coverage(run, part, blank).values():
            together.merge(tracker)
    nc = together.state("nc").coverage()
    return ActivatedNeurons(phase, _pictures(run, phase), nc.covered, nc.total)


def _pictures(run: Run, phase: str) -> int:
    return sum(table.num_rows for table in run.iter_records(phase, ("frame_index",)))


def _guided_over(way: str) -> list[tuple[str, float]]:
    return [(row.model, increase_percent(row.guided, getattr(row, way))) for row in paper.TABLE_6]


@dataclass(frozen=True, slots=True)
class Activated:
    """What each transformation activates on each picture: packed (transforms, pictures, bytes), originals (pictures,) counts.

    mutants: for each transformation the counts of its single pictures relative to their original's, (N_T - N_O) / N_O.
    """

    names: tuple[str, ...]
    packed: PackedBits
    originals: IntArray
    mutants: tuple[FloatArray, ...]


@dataclass(frozen=True, slots=True)
class PairMedian:
    """The median Jaccard distance of two transformations over the pictures."""

    first: str
    second: str
    distance: float


@dataclass(frozen=True, slots=True)
class TransformChange:
    """How the activated neurons of a transformation, its parameters together, differ from the original's.

    change: the median of (N_T - N_O) / N_O; single_change: the same with each parameter's picture on its own.
    """

    transform: str
    more_neurons: float
    change: float
    single_change: float
    p_value: float
    cohens_d: float
    effect: str


@dataclass(frozen=True, slots=True)
class Diversity:
    """cumulative: mean activated neurons a picture by T1, T1 and T2, ..., in the order of `order`."""

    pictures: int
    median_distance: float
    pairs: tuple[PairMedian, ...]
    order: tuple[str, ...]
    cumulative: tuple[float, ...]
    mean_original: float
    changes: tuple[TransformChange, ...]

    def rows(self) -> tuple[Row, ...]:
        """Returns the scoreboard's rows."""
        grown = 100.0 * ratio(self.cumulative[-1] - self.cumulative[0], self.cumulative[0])
        published = {change.transform: change for change in paper.FIGURE_5}
        return (
            Row.compared(
                "RQ2",
                "median Jaccard distance of two transformations",
                paper.JACCARD_MEDIAN,
                self.median_distance,
                f"{len(self.pairs)} pairs on {self.pictures} pictures; a set is the union over ten parameters",
                paper.JACCARD_OTHERS,
            ),
            Row.beside(
                "RQ2",
                f"neurons by all of T1..T{len(self.order)} over T1 alone (%)",
                None,
                grown,
                "the paper shows growth with every transformation, as a figure without numbers",
            ),
            *(
                Row.compared(
                    "RQ2",
                    f"{change.transform}: median (N_T - N_O) / N_O (%)",
                    published[change.transform].percent,
                    100.0 * change.change,
                    f"{p_text(change.p_value)}, Cohen's d {change.effect} (paper: {published[change.transform].effect}); "
                    f"single pictures {100.0 * change.single_change:+.3g} %",
                    published[change.transform].others,
                )
                for change in self.changes
            ),
        )

    def sheet(self) -> Sheet:
        """Returns the cumulative neurons as a table."""
        rows = (("original", self.mean_original), *(("+ " + name, count) for name, count in zip(self.order, self.cumulative, strict=True)))
        return Sheet("RQ2, Figure 4.2: mean activated neurons a picture, cumulatively", ("transformation", "neurons"), tuple(rows))


def read_activated(run: Run, names: tuple[str, ...] = SIMPLE) -> Activated:
    """Reads the activated neurons of a grid run with kept activations, shard by shard; each picture once a transformation."""
    unions: list[PackedBits] = []
    originals: list[IntArray] = []
    relative: list[list[FloatArray]] = [[] for _ in names]
    before = _original_counts(run)
    for table in run.iter_records("grid", ("stimulus", "frame_index", "activated")):
        code = pc.index_in(table["stimulus"], pa.array(names)).fill_null(-1).to_numpy().astype(np.int64)
        wanted = code >= 0
        if not wanted.any():
            continue
        if table["activated"].null_count:
            raise BadRunError(f"the run {run.path} was made without keep_activations, and RQ2 needs them; make it again with them")
        bits = np.stack([np.frombuffer(row, np.uint8) for row in table["activated"].to_pylist()])[wanted]
        code = code[wanted]
        frames, frame_of = np.unique(table["frame_index"].to_numpy()[wanted], return_inverse=True)
        count = np.array([before[frame] for frame in frames.tolist()], np.int64)
        union = np.zeros((len(names) * len(frames), bits.shape[1]), np.uint8)
        key = code * len(frames) + frame_of
        order = np.argsort(key, kind="stable")
        present, start = np.unique(key[order], return_index=True)
        union[present] = np.bitwise_or.reduceat(bits[order], start, axis=0)
        unions.append(union.reshape(len(names), len(frames), -1))
        originals.append(count)
        change = _relative(count_bits(bits), count[frame_of])
        for place, parts in enumerate(relative):
            parts.append(change[code == place])
    if not unions:
        raise BadRunError(f"the run {run.path} holds no grid of {', '.join(names)}; make it again with them")
    return Activated(names, np.concatenate(unions, axis=1), np.concatenate(originals), tuple(np.concatenate(parts) for parts in relative))


def diversify(activated: Activated) -> Diversity:
    """Answers RQ2."""
    distances = transform_distances(activated.names, activated.packed)
    cumulative = cumulative_counts(activated.names, activated.packed)
    counts = count_bits(activated.packed)
    return Diversity(
        pictures=len(activated.originals),
        median_distance=float(np.median(np.concatenate([pair.distance for pair in distances]))) if distances else nan,
        pairs=tuple(PairMedian(pair.first, pair.second, pair.median) for pair in distances),
        order=activated.names,
        cumulative=tuple(cumulative.mean(axis=1).tolist()),
        mean_original=float(activated.originals.mean()),
        changes=tuple(
            _change(name, counts[place], activated.originals, activated.mutants[place]) for place, name in enumerate(activated.names)
        ),
    )


def _change(name: str, counts: IntArray, originals: IntArray, single: FloatArray) -> TransformChange:
    effect = cohens_d(counts, originals)
    return TransformChange(
        transform=name,
        more_neurons=float(np.median(counts - originals)),
        change=_median(_relative(counts, originals)),
        single_change=_median(single),
        p_value=signed_rank(counts, originals).p_value,
        cohens_d=effect.size,
        effect=effect.magnitude.value,
    )


def _relative(counts: IntArray, originals: IntArray) -> FloatArray:
    """Returns (N_T - N_O) / N_O; NaN where the original activates nothing."""
    return np.where(originals > 0, (counts - originals) / np.maximum(originals, 1), np.nan)


def _median(values: FloatArray) -> float:
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else nan


def _original_counts(run: Run) -> dict[int, int]:
    table = run.records(ORIGINALS, ("frame_index", "active_neurons"))
    return dict(zip(table["frame_index"].to_pylist(), table["active_neurons"].to_pylist(), strict=True))
