"""How closely torch frames come out as NumPy frames do, transform by transform, in grey levels.

The transforms of whole numbers are exact. Affine ones are not: OpenCV before version 5 interpolates at 1/32 of a pixel,
torch at the exact place; their rows hold for pictures of a camera, not for white noise. Nor is blur: OpenCV's box filter
rounds remainders just under a half up where the size is a power of two.
Conditions without a row are exact: their tables are looked up on the device, or they are painted on the CPU.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from skidpad.core.images import NumpyFrames


@dataclass(frozen=True, slots=True)
class KernelAgreement:
    """At most `mean` levels apart on average, and at least `share` of all values within `within` levels."""

    mean: float
    within: int
    share: float

    def holds(self, one: NumpyFrames, other: NumpyFrames) -> bool:
        """Tells whether two batches of the same shape agree."""
        apart = np.abs(one.astype(np.int16) - other)
        return apart.size == 0 or bool(apart.mean() <= self.mean and np.mean(apart <= self.within) >= self.share)


EXACT = KernelAgreement(mean=0.0, within=0, share=1.0)
_INTERPOLATED = KernelAgreement(mean=0.5, within=2, share=0.999)

AGREEMENT: Mapping[str, KernelAgreement] = MappingProxyType(
    {
        "translation": _INTERPOLATED,
        "scale": _INTERPOLATED,
        "shear": _INTERPOLATED,
        "rotation": _INTERPOLATED,
        "contrast": KernelAgreement(mean=0.02, within=1, share=1.0),
        "brightness": EXACT,
        "blur": KernelAgreement(mean=0.15, within=1, share=1.0),
        "deeptest-fog": KernelAgreement(mean=0.05, within=1, share=1.0),
        "deeptest-rain": EXACT,
        **dict.fromkeys(
            ("camera-yaw", "camera-pitch", "camera-roll", "camera-height", "camera-lateral"),
            KernelAgreement(mean=0.5, within=2, share=0.98),
        ),
    }
)
