"""RQ2: do different transformations activate different neurons?

The set of a transformation on a picture is the union over its ten parameters.

Reference: DeepTest, section 5 (RQ2), Figures 4 and 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skidpad.core.errors import BadRunError
from skidpad.papers.deeptest import paper
from skidpad.papers.scoreboard import Row, Sheet, p_text, ratio
from skidpad.runs.records import ORIGINALS
from skidpad.statistics.ranks import cohens_d, count_bits, cumulative_counts, signed_rank, transform_distances
from skidpad.stimuli.pictures import SIMPLE

if TYPE_CHECKING:
    from skidpad.core.images import FloatArray, IntArray
    from skidpad.runs.folder import Run
    from skidpad.statistics.ranks import PackedBits


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
