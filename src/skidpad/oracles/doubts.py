"""Whether a network's answers on unchanged frames make sense at all, before anything is concluded from those on changed ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from math import degrees, inf, isfinite, nan, radians, sqrt

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray
from skidpad.drives.opening import LOCK_DEG, NEAR_STRAIGHT_DEG
from skidpad.oracles.error import pearson

_FEWEST = 8
"""Frames below which nothing is said: a handful of neighbours is alike in any drive."""

_STILL_SHARE = 0.05
"""Answers that spread by less than this share of the labels' spread are the same answer for all that matters."""

_STILL_TOLERANCE = 0.01
"""Without labels, the share of the tolerance that plays their part: 0.1 degrees of DeepRoad's 10."""

_LABEL_NOISE_DEG = 0.1
"""Labels that spread by less come from a straight road, on which a right answer does not change either."""

_CURVES_DEG = 1.0
"""Labels must spread by this much before a correlation or a scale says anything: below it is a hand on a straight road."""

_OPPOSED = 0.3
_CHANCE = 2.5
"""A correlation counts where it is this strong, and beyond so many standard errors, 1 / sqrt(frames)."""

_OTHER_SCALE = 5.0
"""How many times further, or less far, answers must spread than labels: units differ by 57 or 25, axles by about 15, networks by less."""


class DoubtKind(Enum):
    """What is odd about a network's answers."""

    IMPLAUSIBLE = "implausible"
    CONSTANT = "constant"
    ANTI_CORRELATED = "anti-correlated"
    WORSE_THAN_MEAN = "worse-than-mean"
    SCALE = "scale"
    SQUEEZED = "squeezed"


@dataclass(frozen=True, slots=True)
class Doubt:
    """One reason not to believe a verdict yet, in one or two sentences."""

    kind: DoubtKind
    said: str

    @property
    def refuses(self) -> bool:
        """Whether a gate must not pass; a timid network may answer on a smaller scale, and training may have squeezed its frames too."""
        return self.kind not in {DoubtKind.SCALE, DoubtKind.SQUEEZED}


def doubts_of(
    answer_rad: FloatArray, label_rad: FloatArray, tolerated_rad: float = nan, prepared_by: str = "the description"
) -> tuple[Doubt, ...]:
    """Returns what is odd about the answers on unchanged frames, the gravest first.

    answer_rad, label_rad: (N,) angles of the steering wheel; NaN where there is none. tolerated_rad: the change of an answer that a
    test lets pass, by which answers without labels are called constant; NaN where nothing is tolerated or known.
    prepared_by: what prepares the input and says what the output means, for the sentences.
    """
    answer, label = np.asarray(answer_rad, np.float64), np.asarray(label_rad, np.float64)
    if answer.shape != label.shape or answer.ndim != 1:
        raise BadParametersError(f"answers and labels must be of one shape (N,), got {answer.shape} and {label.shape}; pair them by frame")
    finite = answer[np.isfinite(answer)]
    both = np.isfinite(answer) & np.isfinite(label)
    found = [_implausible(finite, prepared_by)]
    if both.sum() >= _FEWEST:
        found += _beside_labels(answer[both], label[both], prepared_by)
    elif len(finite) >= _FEWEST and isfinite(tolerated_rad):
        found.append(_constant(finite, _STILL_TOLERANCE * tolerated_rad, f"{_deg(tolerated_rad)} are tolerated", prepared_by))
    return tuple(doubt for doubt in found if doubt is not None)


_SENSELESS = {
    DoubtKind.CONSTANT: "answers the same on every frame",
    DoubtKind.IMPLAUSIBLE: "gives answers that no steering wheel can take",
}


def senseless(doubts: Iterable[Doubt]) -> str:
    """Says why a network's changed answers cannot be compared with another's, as "answers the same on every frame"; empty if they can.

    A constant answer never changes, and bounds are in degrees, which answers beyond a wheel's lock hardly are.
    """
    return next((_SENSELESS[doubt.kind] for doubt in doubts if doubt.kind in _SENSELESS), "")


def doubts_payload(doubts: tuple[Doubt, ...]) -> list[dict[str, object]]:
    """Returns doubts as plain values for `--json`."""
    return [{"kind": doubt.kind.value, "said": doubt.said, "refuses": doubt.refuses} for doubt in doubts]


def _implausible(answer: FloatArray, prepared_by: str) -> Doubt | None:
    beyond = int((np.abs(answer) > radians(LOCK_DEG)).sum())
    if not beyond:
        return None
    furthest = degrees(float(answer[np.abs(answer).argmax()]))
    return Doubt(
        DoubtKind.IMPLAUSIBLE,
        f"{beyond} of {len(answer)} answers on unchanged frames lie beyond {LOCK_DEG:g}°, further than a steering wheel turns (the "
        f"furthest is {furthest:.0f}°). Check the output's unit and scale in {prepared_by}, and that input is prepared as in training.",
    )


def _constant(answer: FloatArray, still_rad: float, beside: str, prepared_by: str) -> Doubt | None:
    spread_rad = float(answer.std())
    if not spread_rad < still_rad:
        return None
    return Doubt(
        DoubtKind.CONSTANT,
        f"The network answers the same on every frame: its answers spread by {_deg(spread_rad)}, while {beside}. A constant answer passes "
        f"every test of consistency. Is the network trained, and does {prepared_by} prepare its input as in training?",
    )


def _beside_labels(answer: FloatArray, label: FloatArray, prepared_by: str) -> list[Doubt | None]:
    spread_rad, label_spread_rad = float(answer.std()), float(label.std())
    if label_spread_rad > radians(_LABEL_NOISE_DEG):
        constant = _constant(answer, _STILL_SHARE * label_spread_rad, f"the labels spread by {_deg(label_spread_rad)}", prepared_by)
        if constant is not None:
            return [constant]
    has_curves = label_spread_rad > radians(_CURVES_DEG)
    return [
        _opposed(pearson(answer, label), len(answer)) if has_curves else None,
        _worse_than_mean(answer - label, label_spread_rad, prepared_by),
        _other_scale(spread_rad / label_spread_rad, spread_rad, label_spread_rad) if has_curves else None,
    ]


def _opposed(correlation: float, frames: int) -> Doubt | None:
    if not correlation < -max(_OPPOSED, _CHANCE / sqrt(frames)):
        return None
    return Doubt(
        DoubtKind.ANTI_CORRELATED,
        f"The network steers against the human: the correlation of its answers with the labels is {correlation:.2f}. Positive angles are "
        "to the left here; where the network's are to the right, its output needs `scale = -1.0`.",
    )


def _worse_than_mean(error: FloatArray, label_spread_rad: float, prepared_by: str) -> Doubt | None:
    with np.errstate(over="ignore"):
        rmse_rad = float(np.sqrt(np.square(error).mean()))
    # on a straight road the mean label is hard to beat, and a network that strays by less than counts as straight is no worse for it
    if not rmse_rad > max(label_spread_rad, radians(NEAR_STRAIGHT_DEG)):
        return None
    return Doubt(
        DoubtKind.WORSE_THAN_MEAN,
        f"On unchanged frames the network steers worse than one that always answers the mean label: its RMSE is {_deg(rmse_rad)}, that "
        f"one's {_deg(label_spread_rad)}. Check {prepared_by} first: size, crop, colour and range of the input, unit of the output.",
    )


def _other_scale(ratio: float, spread_rad: float, label_spread_rad: float) -> Doubt | None:
    if 1.0 / _OTHER_SCALE < ratio < _OTHER_SCALE or not 0.0 < ratio < inf:
        return None
    times = f"{ratio:.3g} times as far as" if ratio > 1.0 else f"{1.0 / ratio:.3g} times less than"
    return Doubt(
        DoubtKind.SCALE,
        f"The answers spread {times} the labels ({_deg(spread_rad)} and {_deg(label_spread_rad)}). Radians and degrees differ by a factor "
        "of 57, the angles of steering wheel and road wheels by about 15: check the units of the output and of the drive.",
    )


def _deg(angle_rad: float) -> str:
    angle_deg = degrees(angle_rad)
    # what rounding leaves of a constant is none
    return f"{angle_deg if angle_deg >= 1e-3 else 0.0:.3g}°"
