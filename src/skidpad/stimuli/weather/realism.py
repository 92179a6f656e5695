"""How real synthesised weather is, measured without a questionnaire.

Two questions stand in for TACTIC's two: is the scene put into the right class by a classifier that learned real weathers, and can a
test tell the synthesised scenes from real ones?

Reference: TACTIC, section 4.3; Lopez-Paz and Oquab 2017 (classifier two-sample tests); Gretton et al. 2012 (kernel two-sample test).
Deviates: TACTIC asked 34 people. A classifier sees what people do not (a camera's colours, a generator's texture), and misses what they
see at once; read it beside the two control rows, the same scenes as they were and real scenes of the weather.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray, IntArray, NumpyFrames, decode, encode
from skidpad.stimuli.weather.classifier import READ_PX, WeatherClassifier
from skidpad.stimuli.weather.scenes import working_size
from skidpad.stimuli.weather.validity import StructureKept, structure_of

PERMUTATIONS = 999
_QUALITY = 90
_FOLDS = 5
_RIDGE = 1e-2
LEAST = 8
"""Fewer pictures than this on one side tell nothing."""


@dataclass(frozen=True, slots=True)
class TwoSample:
    """Can real and synthesised be told apart? accuracy 0.5 is no, 1.0 is always; mmd2 is 0 where both are alike.

    Both p-values are shares of the permutations of the labels that do at least as well, the observed one counted.
    """

    accuracy: float
    accuracy_p: float
    mmd2: float
    mmd2_p: float
    real: int
    made: int
    permutations: int


@dataclass(frozen=True, slots=True)
class RealismRow:
    """One contender: how often its scenes were put into which class, whether they kept the scene, and whether they can be told.

    called: scenes by class, in the classifier's order. kept: scenes whose structure was kept; None where there is no source to compare
    with. valid: those of them that were also put into the right class. likeness, polarity: medians, see `structure.Structure`.
    """

    name: str
    kind: str
    target: str
    called: tuple[int, ...]
    right: int
    total: int
    kept: int | None
    valid: int | None
    likeness: float | None
    polarity: float | None
    against_real: TwoSample | None


def measure(
    name: str,
    kind: str,
    target: str,
    made: NumpyFrames,
    classifier: WeatherClassifier,
    *,
    sources: NumpyFrames | None = None,
    real_features: FloatArray | None = None,
    bandwidth: float | None = None,
    seed: int = 0,
) -> RealismRow:
    """Measures the scenes `made`, (N, height, width, 3), against the class `target`; sources: what they were made from.

    real_features: of real scenes of the weather; bandwidth: of the kernel, one for all contenders so that their mmd2 compare.
    """
    place = classifier.card.place(target)
    called = classifier.labels(made)
    structure = None if sources is None else structure_of(sources, made)
    kept = None if structure is None else StructureKept().judges(structure)
    return RealismRow(
        name=name,
        kind=kind,
        target=target,
        called=tuple(np.bincount(called, minlength=len(classifier.classes)).tolist()),
        right=int((called == place).sum()),
        total=len(made),
        kept=None if kept is None else int(kept.sum()),
        valid=None if kept is None else int((kept & (called == place)).sum()),
        likeness=None if structure is None else float(np.median(structure.likeness)),
        polarity=None if structure is None else float(np.median(structure.polarity)),
        against_real=None if real_features is None else two_sample(real_features, classifier.features(made), seed, bandwidth=bandwidth),
    )


def as_stored(scenes: Sequence[NumpyFrames] | NumpyFrames) -> NumpyFrames:
    """Gives scenes the same way to the classifier as real ones have: a JPEG file, read at the same size."""
    made = []
    for scene in scenes:
        read = decode(encode(scene, ".jpg", _QUALITY))
        made.append(as_square(scene if read is None else read))
    return np.stack(made)


def as_square(picture: NumpyFrames) -> NumpyFrames:
    """Returns a picture as the classifier takes it, (READ_PX, READ_PX, 3)."""
    height, width = working_size(picture.shape[0], picture.shape[1], READ_PX, 1)
    small = cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.resize(small, (READ_PX, READ_PX), interpolation=cv2.INTER_AREA), np.uint8)


def two_sample(
    real: FloatArray, made: FloatArray, seed: int = 0, *, permutations: int = PERMUTATIONS, bandwidth: float | None = None
) -> TwoSample:
    """Tests whether two sets of features, (N, F) and (M, F), come from one distribution; of the larger set, as many as of the smaller.

    Each fifth is called by a kernel ridge classifier that learned the other four. Its answers are linear in the labels, so that all
    permutations are one product of matrices.
    """
    if min(len(real), len(made)) < LEAST:
        raise BadParametersError(f"a two-sample test needs at least {LEAST} pictures a side; got {len(real)} and {len(made)}")
    rng = np.random.default_rng(seed)
    count = min(len(real), len(made))
    real, made = (rows[np.sort(rng.permutation(len(rows))[:count])] for rows in (real, made))
    pooled = np.concatenate([real, made])
    squared = _squared_distances(pooled)
    width = bandwidth if bandwidth is not None else _median(squared)
    kernel = np.exp(-squared / max(width, 1e-12))
    truth = np.repeat([1.0, -1.0], count)
    labels = np.stack([truth, *(rng.permutation(truth) for _ in range(permutations))], axis=1)
    right = (np.sign(_cross_validated(kernel, labels, rng)) == labels).mean(axis=0)
    discrepancies = _mmd2(kernel, labels)
    return TwoSample(
        accuracy=float(right[0]),
        accuracy_p=_share_as_high(right),
        mmd2=float(discrepancies[0]),
        mmd2_p=_share_as_high(discrepancies),
        real=count,
        made=count,
        permutations=permutations,
    )


def nearer_to_real(made: TwoSample, untranslated: TwoSample) -> float | None:
    """Returns how much of the way from the untranslated scenes to real ones was gone, by mmd2: 1 is all of it, 0 none, below 0 away."""
    return 1.0 - max(made.mmd2, 0.0) / untranslated.mmd2 if untranslated.mmd2 > 0.0 else None


def common_bandwidth(*features: FloatArray) -> float:
    """Returns one kernel width for several sets of features: the median squared distance within their union."""
    return _median(_squared_distances(np.concatenate(features)))


def _share_as_high(values: FloatArray) -> float:
    """The permutation p-value; the 1e-12 is for sums that rounding made unequal."""
    return float((values >= values[0] - 1e-12).mean())


def _squared_distances(rows: FloatArray) -> FloatArray:
    squares = (rows**2).sum(axis=1)
    return np.asarray(np.maximum(squares[:, None] + squares[None, :] - 2.0 * rows @ rows.T, 0.0))


def _median(squared: FloatArray) -> float:
    apart = squared[np.triu_indices(len(squared), 1)]
    return max(float(np.median(apart)), 1e-12) if len(apart) else 1.0


def _cross_validated(kernel: FloatArray, labels: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Returns the answer for every row by a classifier that did not learn it, for every column of labels, (N, columns)."""
    answers = np.empty_like(labels)
    for held in _folds(len(kernel), rng):
        shown = np.setdiff1d(np.arange(len(kernel)), held)
        inner = kernel[np.ix_(shown, shown)] + _RIDGE * len(shown) * np.eye(len(shown))
        means = labels[shown].mean(axis=0)
        answers[held] = kernel[np.ix_(held, shown)] @ np.linalg.solve(inner, labels[shown] - means) + means
    return answers


def _folds(count: int, rng: np.random.Generator) -> list[IntArray]:
    """Cuts the rows at random, without a look at the labels: a permutation must meet the same folds."""
    return [np.sort(part) for part in np.array_split(rng.permutation(count), _FOLDS)]


def _mmd2(kernel: FloatArray, labels: FloatArray) -> FloatArray:
    """Returns the unbiased squared maximum mean discrepancy for each column of labels +1 and -1, equally many of each."""
    count = len(kernel) // 2
    off_diagonal = kernel - np.diag(np.diag(kernel))
    both = (labels * (off_diagonal @ labels)).sum(axis=0)  # within minus across, each pair twice
    across = (off_diagonal.sum() - both) / 2.0
    within = off_diagonal.sum() - across
    return np.asarray(within / (count * (count - 1)) - across / (count * count))
