"""RQ0: simulated drives matched with parts of a recorded one by their steering, and the prediction errors on both.

Reference: offline and online testing, section III-B.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from skidpad.core.images import FloatArray
from skidpad.statistics.intervals import Interval, wilson

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
