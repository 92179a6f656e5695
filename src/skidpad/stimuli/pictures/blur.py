"""Blur in the four kinds of DeepTest.

Reference: DeepTest, section 3.2, Table 4.
"""

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from skidpad.core.stimuli import Choice, F, Params, Space, Whole
from skidpad.stimuli.pictures.kernels import kernels_of
from skidpad.stimuli.pictures.registry import TRANSFORMS


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
