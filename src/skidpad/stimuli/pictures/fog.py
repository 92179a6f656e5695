"""DeepTest's fog: haze that thickens with distance, uneven like real banks, in front of a softened background.

Reference: DeepTest, section 3.2 (fog composed of several filters).
Deviates: the paper composes Photoshop's filters by hand at one size; here the layers are computed, at any size, from the
law of light in haze (a share exp(-thickness) of the scene, the rest the fog's own light).
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from skidpad.core.camera import HORIZON
from skidpad.core.stimuli import F, Params, Real, Space, Whole
from skidpad.stimuli.pictures.kernels import kernels_of
from skidpad.stimuli.pictures.registry import TRANSFORMS
from skidpad.stimuli.pictures.veils import Veil, clouds, distance

_LIGHT_RGB = (206.0, 210.0, 214.0)
_FAR_THICKNESS = 4.2
_NEAR_THICKNESS = 0.12
_UNEVENNESS = 0.8
_SOFT_BELOW_HORIZON = 0.15


@TRANSFORMS.register("deeptest-fog")
@dataclass(frozen=True, slots=True)
class DeepTestFog:
    """Lays fog of `density` over the frames; the same seed gives every frame and density the same banks."""

    space: ClassVar[Space] = Space(
        (Real("density", 0.0, 1.0, 0.0), Whole("seed", 0, 999_999, 0)),
        tuple(Params(density=tenth / 10.0, seed=0) for tenth in range(1, 11)),
    )

    def apply(self, frames: F, params: Params) -> F:
        """Returns foggy frames."""
        height, width = int(frames.shape[1]), int(frames.shape[2])
        return kernels_of(frames).veil(frames, _veil(height, width, params.real("density"), params.whole("seed")))


@lru_cache(maxsize=16)
def _veil(height_px: int, width_px: int, density: float, seed: int) -> Veil:
    """Keeps the last few veils, enough for the grid at one size."""
    noise = clouds(height_px, width_px, seed)
    far = distance(height_px, width_px)
    uneven = 1.0 - _UNEVENNESS / 2.0 + _UNEVENNESS * noise
    thickness = density * (_FAR_THICKNESS * far * uneven + _NEAR_THICKNESS)
    keep = np.exp(-thickness)
    # Thick banks scatter more light: without this the fog is one flat grey.
    light = (0.95 + 0.1 * noise)[..., None] * np.asarray(_LIGHT_RGB, np.float32)
    rows = min(height_px, round((HORIZON + _SOFT_BELOW_HORIZON) * height_px)) if density else 0
    # The blur fades out over the last rows, so that no edge shows where it ends.
    fade = np.clip((rows - np.arange(rows)) / max(1.0, _SOFT_BELOW_HORIZON * height_px), 0.0, 1.0)[:, None]
    share = (min(1.0, 1.5 * density) * fade * far[:rows]).astype(np.float32)
    add = np.asarray((1.0 - keep)[..., None] * light, np.float32)
    return Veil.of(keep, add, share, 3 if height_px < 200 else 5)
