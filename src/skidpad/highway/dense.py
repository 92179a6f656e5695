"""A small dense network in compiled code: its numbers in one flat vector, its products bit for bit the same everywhere.

The products are written out instead of handed to a BLAS: each element is summed in one order whatever the batch, the
number of threads or the library, so that an episode alone and the same episode among thousands see the same actions.

A lens shows a learning network the gap and the speeds in numbers of about 1, and is folded into its first layer afterwards. An
observation holds x / 1200 m and speeds in m/s: ten metres of gap, which decide about a crash, are 0.008 beside speeds of 25. Adam
moves every weight by about the same, so a network learns to tell such gaps apart only after very long. The view is linear and can be
undone, so the finished policy sees the plain observation again.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray
from skidpad.highway.observation import ObservationSpec, Quantity

GRAIN = 8
"""Every width is rounded up to a multiple of this, so that no loop has a tail; the padding stays zero."""

Vector: TypeAlias = NDArray[np.float32]
Matrix: TypeAlias = NDArray[np.float32]


class Shape(NamedTuple):
    """The widths of inputs, two hidden ReLU layers and outputs; a named tuple, because compiled code can unpack it."""

    inputs: int
    first: int
    second: int
    outputs: int

    def padded(self) -> "Shape":
        """Returns the shape with every width rounded up to a multiple of `GRAIN`."""
        return Shape(*(-(-width // GRAIN) * GRAIN for width in self))


class Layers(NamedTuple):
    """The network's matrices, (in, out), and biases, as views of the flat vector; widths are padded."""

    w1: Matrix
    b1: Vector
    w2: Matrix
    b2: Vector
    w3: Matrix
    b3: Vector


class Activations(NamedTuple):
    """What a pass over a batch leaves behind, (rows, padded width) each; the number of rows is even."""

    h1: Matrix
    h2: Matrix
    q: Matrix


def size_of(shape: Shape) -> int:
    """Returns how many numbers the flat vector of a network of this shape holds."""
    inputs, first, second, outputs = shape.padded()
    return inputs * first + first + first * second + second + second * outputs + outputs


def activations_for(shape: Shape, rows: int) -> Activations:
    """Returns room for a pass over `rows` rows, rounded up to an even number."""
    _, first, second, outputs = shape.padded()
    rows += rows % 2
    return Activations(*(np.zeros((rows, width), np.float32) for width in (first, second, outputs)))


@njit(nogil=True, cache=True, error_model="numpy")
def layers_of(flat: Vector, shape: Shape) -> Layers:
    """Returns the views of a flat vector of a network; the shape is padded already."""
    inputs, first, second, outputs = shape
    w1 = inputs * first
    b1 = w1 + first
    w2 = b1 + first * second
    b2 = w2 + second
    w3 = b2 + second * outputs
    return Layers(
        flat[:w1].reshape((inputs, first)),
        flat[w1:b1],
        flat[b1:w2].reshape((first, second)),
        flat[w2:b2],
        flat[b2:w3].reshape((second, outputs)),
        flat[w3 : w3 + outputs],
    )


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def add_product(a: Matrix, b: Matrix, out: Matrix) -> None:
    """Adds `a @ b` to `out`: (m, k), (k, n), (m, n) with m even and k a multiple of `GRAIN`.

    Two rows and eight products a turn keep the processor's multipliers busy; the order of the sum over k is fixed.
    """
    for k in range(0, a.shape[1], 8):
        for i in range(0, a.shape[0], 2):
            j = i + 1
            a0, a1, a2, a3 = a[i, k], a[i, k + 1], a[i, k + 2], a[i, k + 3]
            a4, a5, a6, a7 = a[i, k + 4], a[i, k + 5], a[i, k + 6], a[i, k + 7]
            c0, c1, c2, c3 = a[j, k], a[j, k + 1], a[j, k + 2], a[j, k + 3]
            c4, c5, c6, c7 = a[j, k + 4], a[j, k + 5], a[j, k + 6], a[j, k + 7]
            for n in range(b.shape[1]):
                b0, b1, b2, b3 = b[k, n], b[k + 1, n], b[k + 2, n], b[k + 3, n]
                b4, b5, b6, b7 = b[k + 4, n], b[k + 5, n], b[k + 6, n], b[k + 7, n]
                out[i, n] = out[i, n] + a0 * b0 + a1 * b1 + a2 * b2 + a3 * b3 + a4 * b4 + a5 * b5 + a6 * b6 + a7 * b7
                out[j, n] = out[j, n] + c0 * b0 + c1 * b1 + c2 * b2 + c3 * b3 + c4 * b4 + c5 * b5 + c6 * b6 + c7 * b7


@njit(nogil=True, cache=True, error_model="numpy")
def _start_with(bias: Vector, out: Matrix) -> None:
    for i in range(out.shape[0]):
        for n in range(out.shape[1]):
            out[i, n] = bias[n]


@njit(nogil=True, cache=True, error_model="numpy")
def _rectify(values: Matrix) -> None:
    for i in range(values.shape[0]):
        for n in range(values.shape[1]):
            values[i, n] = max(values[i, n], np.float32(0.0))


@njit(nogil=True, cache=True, error_model="numpy")
def forward(layers: Layers, x: Matrix, room: Activations) -> None:
    """Fills `room` with the activations of `x`, (rows, padded inputs); `room` has as many rows."""
    _start_with(layers.b1, room.h1)
    add_product(x, layers.w1, room.h1)
    _rectify(room.h1)
    _start_with(layers.b2, room.h2)
    add_product(room.h1, layers.w2, room.h2)
    _rectify(room.h2)
    _start_with(layers.b3, room.q)
    add_product(room.h2, layers.w3, room.q)


@njit(nogil=True, cache=True, error_model="numpy")
def best_output(values: Vector, outputs: int) -> int:
    """Returns the index of the greatest of the first `outputs` values, the first of equals."""
    best = 0
    for n in range(1, outputs):
        if values[n] > values[best]:
            best = n
    return best


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
