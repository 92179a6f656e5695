"""What a transform may ask of the arrays it is given, and the answers for NumPy frames; `torch_kernels` has those for torch frames.

A veil is how much of a frame is kept and what is laid over it, pixel by pixel; fog and rain are veils.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from importlib import import_module
from typing import Protocol, Self, TypeVar, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from skidpad.core.images import HORIZON, FloatArray, Frames, NumpyFrames
from skidpad.core.seeding import child_rng

Field = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Veil:
    """The weights of `out = keep/255 * frame + soft/255 * blurred frame + add`.

    Each product is rounded to the nearest and the sum saturates, so every backend gives the same pixels.
    keep, add: (height, width, 3) uint8. soft: (rows, width, 3) uint8 for the upper `rows`; zero below.
    Compared by identity, so that a device can keep its copy.
    """

    keep: NumpyFrames
    add: NumpyFrames
    soft: NumpyFrames
    soft_size_px: int

    @classmethod
    def of(cls, keep: Field, add: Field, soft_share: Field | None = None, soft_size_px: int = 1) -> Self:
        """Quantises the weights.

        keep: (height, width), within [0, 1]. add: (height, width, 3), grey levels. soft_share: (rows, width), the
        share of `keep` that is taken from the frame blurred by a box of `soft_size_px`.
        """
        rows = 0 if soft_share is None else len(soft_share)
        share = np.zeros_like(keep)
        if soft_share is not None:
            share[:rows] = soft_share
        soft = np.rint(255.0 * keep * share)
        whole = np.maximum(np.rint(255.0 * keep), soft)
        return cls(_three(whole - soft), _frozen(np.clip(np.rint(add), 0, 255).astype(np.uint8)), _three(soft[:rows]), soft_size_px)


def _three(plane: Field) -> NumpyFrames:
    return _frozen(np.ascontiguousarray(np.repeat(plane.astype(np.uint8)[..., None], 3, axis=-1)))


def _frozen(array: NumpyFrames) -> NumpyFrames:
    array.setflags(write=False)
    return array


_NEAREST = 0.07
"""How quickly a flat road comes nearer below the horizon, as a share of the height."""

_SMOOTH = 0.10
"""Over which share of the height the horizon is rounded off: hills and trees hide the sharp line, and frames differ."""

_OCTAVES = 5


def distance(height_px: int, width_px: int) -> Field:
    """Returns how far each pixel is, (height, width) within (0, 1]: the sky 1, a flat road nearer towards the bottom."""
    offset = (np.arange(height_px) + 0.5) / height_px - HORIZON
    below = (offset + np.hypot(offset, _SMOOTH)) / 2.0
    column = (_NEAREST / (_NEAREST + below)).astype(np.float32)
    return np.ascontiguousarray(np.broadcast_to(column[:, None], (height_px, width_px)))


@lru_cache(maxsize=16)
def clouds(height_px: int, width_px: int, seed: int) -> Field:
    """Returns cloudy noise, (height, width) within [0, 1]: octaves of smooth random lattices, wider than tall.

    The lattices hang on seed and aspect alone, so one seed shows the same clouds at every size.
    """
    rng = child_rng(seed, "clouds")
    total = np.zeros((height_px, width_px), np.float32)
    for octave in range(_OCTAVES):
        tall = 2**octave + 2
        wide = max(2, round(tall * width_px / height_px / 2.0)) if height_px * 64 > width_px else tall
        lattice = rng.random((tall, wide), np.float32)
        total += 0.55**octave * cv2.resize(lattice, (width_px, height_px), interpolation=cv2.INTER_CUBIC)
    low, high = float(total.min()), float(total.max())
    total = (total - low) / max(high - low, 1e-6)
    total.setflags(write=False)
    return total


F = TypeVar("F", bound=Frames)


class Kernels(Protocol[F]):
    """The operations on frames, uint8 (N, height, width, 3), that transforms are written in.

    Each returns new frames of the same shape and leaves its input untouched. This module and `torch_kernels` are the
    implementations.
    """

    def warp(self, frames: F, matrix: FloatArray) -> F:
        """Moves pixel (x, y) to `matrix` @ (x, y, 1), (2, 3); bilinear, black where nothing comes from."""

    def gain(self, frames: F, gain: float) -> F:
        """Multiplies every value, rounding to the nearest, halves to even, and saturating at 255."""

    def shift(self, frames: F, shift: int) -> F:
        """Adds to every value, saturating at 0 and 255."""

    def average(self, frames: F, size_px: int) -> F:
        """Replaces each pixel by the mean of the size x size pixels around it."""

    def gaussian(self, frames: F, size_px: int) -> F:
        """Replaces each pixel by the Gaussian mean of the size x size pixels around it; odd sizes only."""

    def median(self, frames: F, size_px: int) -> F:
        """Replaces each value by the median of the size x size ones around it; odd sizes only."""

    def bilateral(self, frames: F, size_px: int, sigma_colour: float, sigma_space_px: float) -> F:
        """Replaces each pixel by the mean of its surroundings, weighted by nearness in space and in colour."""

    def veil(self, frames: F, veil: Veil) -> F:
        """Lays a veil over the frames."""


def kernels_of(frames: F) -> Kernels[F]:
    """Returns the kernels for these frames; torch is imported only where frames are not NumPy's."""
    if frames.ndim != 4 or frames.shape[-1] != 3 or 0 in frames.shape[1:] or str(frames.dtype).rpartition(".")[2] != "uint8":
        raise ValueError(
            f"frames must be whole pictures, uint8 of shape (N, height, width, 3); got {frames.dtype} of shape {tuple(frames.shape)}"
        )
    return cast("Kernels[F]", import_module(__name__ if isinstance(frames, np.ndarray) else "skidpad.stimuli.pictures.torch_kernels"))


class Pivot(Enum):
    """The point that a linear map leaves where it is."""

    ORIGIN = "origin"
    """The upper left pixel, as the matrices of DeepTest's Table 2 are printed."""

    CENTRE = "centre"
    """The middle of the frame, near the optical axis of a front camera."""


def about(linear: FloatArray, pivot: Pivot, height_px: int, width_px: int) -> FloatArray:
    """Completes a (2, 2) map to the affine one that leaves the pivot where it is."""
    point = np.zeros(2) if pivot is Pivot.ORIGIN else np.array([(width_px - 1) / 2.0, (height_px - 1) / 2.0])
    return np.column_stack([linear, point - linear @ point])


def inverse(matrix: FloatArray) -> FloatArray:
    """Returns the affine map back."""
    linear = np.linalg.inv(matrix[:, :2])
    return np.column_stack([linear, -linear @ matrix[:, 2]])


def whole_shift(matrix: FloatArray) -> tuple[int, int] | None:
    """Returns (dx, dy) where the map is nothing but a move by whole pixels, else None."""
    dx, dy = float(matrix[0, 2]), float(matrix[1, 2])
    if np.array_equal(matrix[:, :2], np.eye(2)) and dx.is_integer() and dy.is_integer():
        return int(dx), int(dy)
    return None


FrameWork = Callable[[NumpyFrames, NumpyFrames], object]
"""Reads one frame and writes the other, both (height, width, 3) and contiguous."""


def over_frames(frames: NumpyFrames, work: FrameWork) -> NumpyFrames:
    """Returns new frames, each written by `work(frame, new_frame)`; any strides come in, contiguous frames go out."""
    return over_numbered(frames, lambda _, frame, out: work(frame, out))


def over_numbered(frames: NumpyFrames, work: Callable[[int, NumpyFrames, NumpyFrames], object]) -> NumpyFrames:
    """As `over_frames`; `work` is told the frame's place in the batch, too."""
    out = np.empty(frames.shape, np.uint8)
    if out.size == 0:
        return out

    count = len(frames)
    allowed = cv2.getNumThreads()
    threads = min(allowed, count)
    step = max(1, count // (8 * threads))
    starts = deque(range(0, count, step))

    def run() -> None:
        while starts:
            try:
                start = starts.popleft()
            except IndexError:  # another thread took the last one
                return
            for index in range(start, min(start + step, count)):
                work(index, np.ascontiguousarray(frames[index]), out[index])

    others = [_pool(os.getpid(), allowed - 1).submit(run) for _ in range(threads - 1)]
    run()
    for other in others:
        # One that never got to run has nothing left to do: on a busy machine the caller does not wait for it.
        if not other.cancel():
            other.result()
    return out


@lru_cache(maxsize=1)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Keeps the threads between batches; `process` is in the key because a forked child has none of its parent's."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"skidpad-transforms-{process}")


def warp(frames: NumpyFrames, matrix: FloatArray) -> NumpyFrames:
    """See `Kernels.warp`; OpenCV's bilinear interpolation, whole-pixel moves as plain copies."""
    height, width = frames.shape[1:3]
    whole = whole_shift(matrix)
    if whole is None:

        def turn(frame: NumpyFrames, out: NumpyFrames) -> None:
            # OpenCV moves pixels of four bytes twice as fast as those of three, to the same values
            wide = cv2.warpAffine(cv2.cvtColor(frame, cv2.COLOR_RGB2RGBA), matrix, (width, height))
            cv2.cvtColor(wide, cv2.COLOR_RGBA2RGB, dst=out)

        return over_frames(frames, turn)
    to_y, from_y = _overlap(height, whole[1])
    to_x, from_x = _overlap(width, whole[0])

    def move(frame: NumpyFrames, out: NumpyFrames) -> None:
        out[: to_y.start] = 0
        out[to_y.stop :] = 0
        out[to_y, : to_x.start] = 0
        out[to_y, to_x.stop :] = 0
        out[to_y, to_x] = frame[from_y, from_x]

    return over_frames(frames, move)


def gain(frames: NumpyFrames, gain: float) -> NumpyFrames:
    """See `Kernels.gain`."""
    return over_frames(frames, lambda frame, out: cv2.convertScaleAbs(frame, dst=out, alpha=gain, beta=0.0))


def shift(frames: NumpyFrames, shift: int) -> NumpyFrames:
    """See `Kernels.shift`.

    The shift is a whole frame, because a number in its place moves one channel or three, by OpenCV's version.
    """
    height, width = frames.shape[1:3]
    plane = _plane(height, width, abs(shift))
    move = cv2.add if shift >= 0 else cv2.subtract
    return over_frames(frames, lambda frame, out: move(frame, plane, dst=out))


def average(frames: NumpyFrames, size_px: int) -> NumpyFrames:
    """See `Kernels.average`."""
    return over_frames(frames, lambda frame, out: cv2.blur(frame, (size_px, size_px), dst=out))


def gaussian(frames: NumpyFrames, size_px: int) -> NumpyFrames:
    """See `Kernels.gaussian`; the spread is OpenCV's default for the size."""
    return over_frames(frames, lambda frame, out: cv2.GaussianBlur(frame, (size_px, size_px), 0.0, dst=out))


def median(frames: NumpyFrames, size_px: int) -> NumpyFrames:
    """See `Kernels.median`."""
    return over_frames(frames, lambda frame, out: cv2.medianBlur(frame, size_px, dst=out))


def bilateral(frames: NumpyFrames, size_px: int, sigma_colour: float, sigma_space_px: float) -> NumpyFrames:
    """See `Kernels.bilateral`."""
    return over_frames(frames, lambda frame, out: cv2.bilateralFilter(frame, size_px, sigma_colour, sigma_space_px, dst=out))


def veil(frames: NumpyFrames, veil: Veil) -> NumpyFrames:
    """See `Kernels.veil`."""
    rows = len(veil.soft)
    box = (veil.soft_size_px, veil.soft_size_px)
    seen = rows + veil.soft_size_px // 2

    def lay(frame: NumpyFrames, out: NumpyFrames) -> None:
        cv2.multiply(frame, veil.keep, dst=out, scale=1.0 / 255.0)
        if rows:
            soft = cv2.blur(frame[:seen], box)[:rows]
            cv2.add(out[:rows], cv2.multiply(soft, veil.soft, scale=1.0 / 255.0), dst=out[:rows])
        cv2.add(out, veil.add, dst=out)

    return over_frames(frames, lay)


def _overlap(length: int, shift: int) -> tuple[slice, slice]:
    """Returns where the pixels of one axis go to and where they come from."""
    step = max(-length, min(length, shift))
    return slice(max(step, 0), length + min(step, 0)), slice(max(-step, 0), length - max(step, 0))


@lru_cache(maxsize=16)
def _plane(height: int, width: int, value: int) -> NumpyFrames:
    plane = np.full((height, width, 3), value, np.uint8)
    plane.setflags(write=False)
    return plane
