"""Plain accuracy: how far answers are from the human's steering."""

from dataclasses import dataclass

import numpy as np

from skidpad.core.angles import AngleUnit
from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray


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
