"""The linear transforms: contrast and brightness.

Reference: DeepTest, section 3.2 (alpha and beta), Table 4 (parameters).
"""

from dataclasses import dataclass
from typing import ClassVar

from skidpad.core.stimuli import F, Params, Real, Space, Whole
from skidpad.stimuli.pictures.kernels import kernels_of
from skidpad.stimuli.pictures.registry import TRANSFORMS


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
