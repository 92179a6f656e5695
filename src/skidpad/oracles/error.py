"""Plain accuracy: how far answers are from the human's steering."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from math import isfinite, isnan, sqrt

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray
from skidpad.core.progress import Progress, silent
from skidpad.core.units import AngleUnit
from skidpad.drives.drive import Drive
from skidpad.subjects.base import Subject
from skidpad.subjects.inputs import check_cameras


@dataclass(frozen=True, slots=True)
class WorstFrame:
    """One of the frames with the largest error; `index` is its place in what was given, `error_rad` answer - label."""

    index: int
    answer_rad: float
    label_rad: float
    error_rad: float


@dataclass(frozen=True, slots=True)
class PredictionError:
    """Accuracy over the frames that have a label and a finite answer, and how many have not.

    Every figure is NaN where no frame can be judged; the correlation also where answers or labels are constant.
    """

    frames: int
    judged: int
    without_label: int
    not_finite: int
    mse_rad2: float
    rmse_rad: float
    mae_rad: float
    bias_rad: float
    correlation: float
    worst: tuple[WorstFrame, ...]


def prediction_error(answer_rad: FloatArray, label_rad: FloatArray, worst: int = 10) -> PredictionError:
    """Measures answers against labels, both (N,) radians; the worst frames come largest first, ties by index.

    An answer that is not finite is counted whether or not its frame has a label; it is left out of every mean.
    """
    answer, label = np.asarray(answer_rad, np.float64), np.asarray(label_rad, np.float64)
    if answer.shape != label.shape or answer.ndim != 1:
        raise BadParametersError(f"answers and labels must be of one shape (N,), got {answer.shape} and {label.shape}; pair them by frame")
    finite, labelled = np.isfinite(answer), np.isfinite(label)
    places = np.flatnonzero(finite & labelled)
    error = answer[places] - label[places]
    mse_rad2 = _mean(np.square(error))
    order = np.argsort(-np.abs(error), kind="stable")[: max(worst, 0)]
    return PredictionError(
        frames=len(answer),
        judged=len(places),
        without_label=int((~labelled).sum()),
        not_finite=int((~finite).sum()),
        mse_rad2=mse_rad2,
        rmse_rad=float(np.sqrt(mse_rad2)),
        mae_rad=_mean(np.abs(error)),
        bias_rad=_mean(error),
        correlation=pearson(answer[places], label[places]),
        worst=tuple(WorstFrame(int(places[at]), float(answer[places[at]]), float(label[places[at]]), float(error[at])) for at in order),
    )


def pearson(first: FloatArray, second: FloatArray) -> float:
    """Returns Pearson's correlation of two finite samples, in [-1, 1]; NaN where one is constant or has fewer than two."""
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return float("nan")
    # dividing by the largest distance first keeps the squares from overflowing and from vanishing
    a, b = first - first.mean(), second - second.mean()
    a, b = a / np.abs(a).max(), b / np.abs(b).max()
    return float(np.clip(a @ b / np.sqrt((a @ a) * (b @ b)), -1.0, 1.0))


def squared_to_rad2(value: float, unit: AngleUnit) -> float:
    """Converts a mean squared error, or a bound of one, from the square of `unit` to square radians.

    DeepTest's thresholds are in its own unit, degrees / 25: there `squared_to_rad2(0.03, AngleUnit.SCALED_25)`.
    """
    return value * unit.rad**2


def rad2_to_squared(value_rad2: float, unit: AngleUnit) -> float:
    """Converts a mean squared error from square radians to the square of `unit`."""
    return value_rad2 / unit.rad**2


def _mean(values: FloatArray) -> float:
    return float(values.mean()) if len(values) else float("nan")


NO_ANSWER = "no finite answer"


class ErrorScale(Enum):
    """What an excess is a multiple of."""

    ERRORS = "errors"
    """The tolerated error."""
    SQUARES = "squares"
    """The tolerated squared error, as under `label-mse`: four times that is an error twice as large."""
    DECISIONS = "decisions"
    """Nothing: the decision is another or it is not."""
    CRASHES = "crashes"
    """Nothing: 1 for a crash, and the closing speed in m/s on top."""


_SCALES = {"label-mse": ErrorScale.SQUARES, "decides-alike": ErrorScale.DECISIONS}


def scale_of(relation: str) -> ErrorScale:
    """Returns what the excess of a relation is a multiple of, by the relation's name."""
    return _SCALES.get(relation, ErrorScale.ERRORS)


def scale_of_run(config: Mapping[str, object]) -> ErrorScale:
    """Returns what the excess of a run's cases is a multiple of, by its config: a duel has no relation, a drive the width of its lane."""
    return ErrorScale.CRASHES if config.get("campaign") == "duel" else scale_of(str(config.get("relation", "")))


def times_tolerated(excess: float, scale: ErrorScale = ErrorScale.ERRORS) -> str:
    """Words an excess: how many times the tolerated error was reached, or that the decision is another where none is.

    Of squares their root is said first, so that times mean the same under every relation.
    """
    if isnan(excess):
        return "not judged"
    if not isfinite(excess):
        return NO_ANSWER
    if scale is ErrorScale.DECISIONS:
        return "decides otherwise" if excess > 1.0 else "decides alike"
    if scale is ErrorScale.CRASHES:
        return f"a crash at {excess - 1.0:.1f} m/s" if excess >= 1.0 else "no crash"
    if scale is ErrorScale.SQUARES:
        return f"{_times(sqrt(max(excess, 0.0)))} tolerance ({_times(excess)} in squares)"
    return f"{_times(excess)} tolerance"


def _times(factor: float) -> str:
    if f"{factor:.1f}" == "1.0" and factor != 1.0:
        # just beyond what is tolerated, or just within: one digit would not tell which
        return next((f"{factor:.{digits}f}×" for digits in (2, 3) if f"{factor:.{digits}f}" != f"{1:.{digits}f}"), f"{factor:.4f}×")
    return f"{factor:.1f}×" if factor < 1000 else f"{factor:.1e}×"


def steering_answers(subject: Subject, drive: Drive, progress: Progress = silent) -> tuple[FloatArray, int]:
    """Asks for the steering on every frame; returns radians, NaN where a frame is broken, and how many are."""
    check_cameras(subject.description.input, drive.cameras, f"drive {drive.name!r}")
    answers_rad = np.full(len(drive), np.nan)
    broken = 0
    # The frames of a lead are looked at again in every batch, so a long lead wants longer batches.
    for batch in drive.batches(max(64, 2 * subject.lead), lead=subject.lead):
        answers_rad[batch.indices] = subject.predict(batch.clip)[:, subject.description.steering_column]
        broken += len(batch.problems)
        progress(int(batch.indices[-1]) + 1, len(drive))
    return answers_rad, broken
