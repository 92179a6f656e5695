"""The affine transforms: translation, scale, shear and rotation.

Reference: DeepTest, section 3.2, Table 2 (matrices) and Table 4 (parameters).
"""

from dataclasses import dataclass
from math import cos, radians, sin
from typing import ClassVar

import numpy as np

from skidpad.core.stimuli import F, Params, Real, Space
from skidpad.stimuli.pictures.kernels import kernels_of
from skidpad.stimuli.pictures.numpy_kernels import Pivot, about
from skidpad.stimuli.pictures.registry import TRANSFORMS


@TRANSFORMS.register("translation")
@dataclass(frozen=True, slots=True)
class Translation:
    """Moves the frames right by `dx_px` and down by `dy_px` pixels."""

    space: ClassVar[Space] = Space(
        (Real("dx_px", -100.0, 100.0, 0.0), Real("dy_px", -100.0, 100.0, 0.0)),
        tuple(Params(dx_px=float(step), dy_px=float(step)) for step in range(10, 101, 10)),
    )

    def apply(self, frames: F, params: Params) -> F:
        """Returns moved frames; black comes in at the edges."""
        matrix = np.array([[1.0, 0.0, params.real("dx_px")], [0.0, 1.0, params.real("dy_px")]])
        return kernels_of(frames).warp(frames, matrix)


@TRANSFORMS.register("scale")
@dataclass(frozen=True, slots=True)
class Scale:
    """Enlarges the frames by `sx` and `sy`, keeping their size in pixels.

    Deviates: about the middle of the frame instead of its upper left corner, where the grid's larger factors would show
    nothing but sky; `pivot=Pivot.ORIGIN` is the matrix as printed.
    """

    pivot: Pivot = Pivot.CENTRE
    space: ClassVar[Space] = Space(
        (Real("sx", 0.5, 6.0, 1.0), Real("sy", 0.5, 6.0, 1.0)),
        tuple(Params(sx=half / 2.0, sy=half / 2.0) for half in range(3, 13)),
    )

    def apply(self, frames: F, params: Params) -> F:
        """Returns enlarged frames, cut to their size; black surrounds a frame that shrinks."""
        linear = np.diag([params.real("sx"), params.real("sy")])
        return kernels_of(frames).warp(frames, about(linear, self.pivot, *_size(frames)))


@TRANSFORMS.register("shear")
@dataclass(frozen=True, slots=True)
class Shear:
    """Moves each row by `sx` times its y and each column by `sy` times its x, from the upper left corner as printed."""

    pivot: Pivot = Pivot.ORIGIN
    space: ClassVar[Space] = Space(
        (Real("sx", -1.0, 1.0, 0.0), Real("sy", -0.5, 0.5, 0.0)),
        tuple(Params(sx=tenth / 10.0, sy=0.0) for tenth in range(-10, 0)),
    )

    def apply(self, frames: F, params: Params) -> F:
        """Returns sheared frames; black comes in at the edges."""
        linear = np.array([[1.0, params.real("sx")], [params.real("sy"), 1.0]])
        return kernels_of(frames).warp(frames, about(linear, self.pivot, *_size(frames)))


@TRANSFORMS.register("rotation")
@dataclass(frozen=True, slots=True)
class Rotation:
    """Turns the frames by `angle_deg`; positive is clockwise as seen, since y points down in Table 2's matrix.

    Deviates: about the middle of the frame, as a camera rolls and as the authors' published program does;
    `pivot=Pivot.ORIGIN` is the matrix as printed.
    """

    pivot: Pivot = Pivot.CENTRE
    space: ClassVar[Space] = Space(
        (Real("angle_deg", -30.0, 30.0, 0.0),),
        tuple(Params(angle_deg=float(angle)) for angle in range(3, 31, 3)),
    )

    def apply(self, frames: F, params: Params) -> F:
        """Returns turned frames; black comes in at the corners."""
        angle_rad = radians(params.real("angle_deg"))
        linear = np.array([[cos(angle_rad), -sin(angle_rad)], [sin(angle_rad), cos(angle_rad)]])
        return kernels_of(frames).warp(frames, about(linear, self.pivot, *_size(frames)))


def _size(frames: F) -> tuple[int, int]:
    """Returns height and width in pixels."""
    return int(frames.shape[1]), int(frames.shape[2])
