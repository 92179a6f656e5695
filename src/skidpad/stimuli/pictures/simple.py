"""DeepTest's simple transforms: affine (translation, scale, shear, rotation), linear (contrast, brightness) and blur.

Reference: DeepTest, section 3.2 (alpha and beta of the linear ones), Table 2 (matrices) and Table 4 (parameters).
"""

from dataclasses import dataclass
from enum import Enum
from math import cos, radians, sin
from typing import ClassVar

import numpy as np

from skidpad.core.stimuli import Choice, F, Params, Real, Space, Whole
from skidpad.stimuli.pictures.kernels import Pivot, about, kernels_of
from skidpad.stimuli.registry import TRANSFORMS


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


@TRANSFORMS.register("contrast")
@dataclass(frozen=True, slots=True)
class Contrast:
    """Multiplies every channel by `gain`, saturating at 255."""

    space: ClassVar[Space] = Space(
        (Real("gain", 0.2, 3.0, 1.0),),
        tuple(Params(gain=tenth / 10.0) for tenth in range(12, 31, 2)),
    )

    def apply(self, frames: F, params: Params) -> F:
        """Returns frames of higher (gain above 1) or lower contrast."""
        return kernels_of(frames).gain(frames, params.real("gain"))


@TRANSFORMS.register("brightness")
@dataclass(frozen=True, slots=True)
class Brightness:
    """Adds `shift` grey levels to every channel, saturating at 0 and 255."""

    space: ClassVar[Space] = Space(
        (Whole("shift", -100, 100, 0),),
        tuple(Params(shift=shift) for shift in range(10, 101, 10)),
    )

    def apply(self, frames: F, params: Params) -> F:
        """Returns brighter or darker frames."""
        return kernels_of(frames).shift(frames, params.whole("shift"))


class BlurKind(Enum):
    """How the surroundings of a pixel are brought together."""

    AVERAGING = "averaging"
    GAUSSIAN = "gaussian"
    MEDIAN = "median"
    BILATERAL = "bilateral"


_SIZES_PX = {BlurKind.AVERAGING: (3, 4, 5, 6), BlurKind.GAUSSIAN: (3, 5, 7), BlurKind.MEDIAN: (3, 5), BlurKind.BILATERAL: (9,)}


@TRANSFORMS.register("blur")
@dataclass(frozen=True, slots=True)
class Blur:
    """Blurs the frames over windows of `size` pixels; size 1 changes nothing, whatever the kind.

    Only averaging has windows of even size; the other kinds take the next odd one, so every pair of kind and size is valid.
    The two sigmas are the bilateral filter's (Table 4).

    Deviates: Table 4 prints the Gaussian 3 x 3 twice; without the repeat the four kinds make exactly ten rows.
    """

    sigma_colour: float = 75.0
    sigma_space_px: float = 75.0
    space: ClassVar[Space] = Space(
        (Choice("kind", tuple(kind.value for kind in BlurKind), BlurKind.AVERAGING.value), Whole("size", 1, 9, 1)),
        tuple(Params(kind=kind.value, size=size) for kind, sizes in _SIZES_PX.items() for size in sizes),
    )

    def apply(self, frames: F, params: Params) -> F:
        """Returns blurred frames."""
        kernels = kernels_of(frames)
        size = params.whole("size")
        odd = size | 1
        kind = BlurKind(params["kind"])
        if kind is BlurKind.AVERAGING or size == 1:
            return kernels.average(frames, size)
        if kind is BlurKind.GAUSSIAN:
            return kernels.gaussian(frames, odd)
        if kind is BlurKind.MEDIAN:
            return kernels.median(frames, odd)
        return kernels.bilateral(frames, odd, self.sigma_colour, self.sigma_space_px)
