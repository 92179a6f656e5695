"""Shows a learning network the gap and the speeds in numbers of about 1, and folds that view into its first layer afterwards.

An observation holds x / 1200 m and speeds in m/s: ten metres of gap, which decide about a crash, are 0.008 beside speeds of 25. Adam
moves every weight by about the same, so a network learns to tell such gaps apart only after very long. The view is linear and can be
undone, so the finished policy sees the plain observation again.
"""

from typing import NamedTuple

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray
from skidpad.highway.dense import Shape, Vector, layers_of
from skidpad.highway.observation import ObservationSpec, Quantity

_GAP_M, _SPEED_MPS, _MEAN_MPS, _SIDEWAYS_MPS, _PLACE_M = 15.0, 2.5, 25.0, 2.0, 400.0
_LANE_M = 2.0


class Lens(NamedTuple):
    """seen @ matrix + offset, (inputs, inputs) and (inputs,); plain where the network sees the observation as it is."""

    matrix: FloatArray
    offset: FloatArray
    is_plain: bool


def plain_lens(inputs: int) -> Lens:
    """Returns the view that changes nothing."""
    return Lens(np.eye(inputs), np.zeros(inputs), is_plain=True)


def lens_for(spec: ObservationSpec) -> Lens:
    """Returns the view: own row centred and scaled, the others' rows relative to it."""
    if not spec.is_absolute or spec.vehicles < 2:
        raise BadParametersError("the view of gap and speeds needs absolute observations of two vehicles or more")
    width = len(spec.features)
    matrix, offset = np.zeros((spec.size, spec.size)), np.zeros(spec.size)
    scales = {
        Quantity.X: (_GAP_M, _PLACE_M, 0.0),
        Quantity.Y: (_LANE_M, _LANE_M, _LANE_M),
        Quantity.VX: (_SPEED_MPS, _SPEED_MPS, _MEAN_MPS),
    }
    for column, feature in enumerate(spec.features):
        apart, own, middle = scales.get(feature.quantity, (_SIDEWAYS_MPS, _SIDEWAYS_MPS, 0.0))
        low, high = feature.low, feature.high
        # value = unit x seen + zero, in metres and m/s
        unit, zero = (1.0, 0.0) if low is None or high is None else ((high - low) / 2.0, (high + low) / 2.0)
        matrix[column, column] = unit / own
        offset[column] = (zero - middle) / own
        for other in range(width + column, spec.size, width):
            matrix[other, other] = unit / apart
            matrix[column, other] = -unit / apart
    return Lens(matrix, offset, is_plain=False)


def unfolded(weights: Vector, shape: Shape, lens: Lens) -> Vector:
    """Returns the weights with which a network that sees through the lens answers as `weights` do without it."""
    inverse: FloatArray = np.linalg.inv(lens.matrix).astype(np.float64)
    return _changed(weights, shape, inverse, -lens.offset @ inverse) if not lens.is_plain else weights


def folded(weights: Vector, shape: Shape, lens: Lens) -> Vector:
    """Returns the weights with which a network without the lens answers as `weights` do through it."""
    return _changed(weights, shape, lens.matrix, lens.offset) if not lens.is_plain else weights


def _changed(weights: Vector, shape: Shape, matrix: FloatArray, offset: FloatArray) -> Vector:
    changed = weights.copy()
    layers = layers_of(changed, shape.padded())
    first = layers.w1[: shape.inputs].astype(np.float64)
    layers.b1[:] += (offset @ first).astype(np.float32)
    layers.w1[: shape.inputs] = matrix @ first
    return changed
