"""Shadows and their absence: trees that stand beside a sunny road, and a sky that clouds cover."""

from functools import lru_cache

import cv2
import numpy as np

from skidpad.core.images import Camera, NumpyFrames
from skidpad.core.seeding import child_rng
from skidpad.core.stimuli import Params, Severity
from skidpad.stimuli.conditions.base import Field, Paint, PhysicalCondition, condition, ground_m, real, whole
from skidpad.stimuli.conditions.optics import display, flattened, greyed, linear, sky_of

_CAR_M_S = 14.0
_PER_M = 8.0
_LONG_M, _WIDE_M = 96.0, 48.0
"""A piece of ground with shadows that repeats."""


@condition(
    Severity("cast shadows", "share", "of the ground", 0.0, 0.7, attribute="illumination: shadows", source="sky's light in the shade: 15 %")
)
class CastShadows(PhysicalCondition):
    """Shadows of trees on the road that the car drives through; `share` of the ground that they cover, `seed` of the trees.

    Reference: in the shade, the ground has the sky's light alone: 15 of 100 klx by a clear noon.
    """

    share: float | None = real(0.0, 0.9, 0.0)
    seed: int | None = whole(0, 999_999, 0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        share = params.real("share")
        if share <= 0.0:
            return lambda frame, _: frame.copy()
        tile = _shade(params.whole("seed"), round(share, 4))
        ahead, left, ground = ground_m(camera)
        rows, columns = (ahead * _PER_M).astype(np.float32), ((left + 0.5 * _WIDE_M) * _PER_M).astype(np.float32)
        columns %= np.float32(_WIDE_M * _PER_M)
        # A pixel far away covers metres of road: there the shade is what it is on average.
        footprint_m = ahead**2 / (camera.focal_px * camera.height_m)
        sharp = ground * np.exp(-((footprint_m / 2.5) ** 2))
        fade = ground * np.clip((400.0 - ahead) / 300.0, 0.0, 1.0)
        shade_light = (0.20, 0.235, 0.30)

        def paint(frame: NumpyFrames, time_s: float) -> Field:
            moved = (rows + np.float32(_CAR_M_S * time_s % _LONG_M * _PER_M)) % np.float32(_LONG_M * _PER_M)
            shade = cv2.remap(tile, columns, moved, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
            shade = sharp * shade + (fade - sharp).clip(0.0) * share
            light = linear(frame)
            left_over = cv2.merge([1.0 - shade * np.float32(1.0 - each) for each in shade_light])
            cv2.multiply(light, left_over, dst=light)
            return display(light)

        return paint


@lru_cache(maxsize=8)
def _shade(seed: int, share: float) -> Field:
    """Returns the shade on a piece of ground, rows along the road, within [0, 1]: crowns with gaps between the leaves, and trunks."""
    rows, columns = round(_LONG_M * _PER_M), round(_WIDE_M * _PER_M)
    rng = child_rng(seed, "shade")
    total = np.zeros((rows, columns), np.float32)
    # Metres along and across of the blotches, and their weight; shadows lie across the road, since a low sun draws them out.
    for along_m, across_m, weight in ((6.0, 12.0, 1.0), (2.4, 4.0, 0.6), (0.8, 1.2, 0.42), (0.35, 0.45, 0.22)):
        lattice = rng.random((max(2, round(_LONG_M / along_m)), max(2, round(_WIDE_M / across_m))), np.float32)
        # Repeats in both directions: the lattice is continued before it is drawn out, and cut after.
        wide = cv2.resize(
            np.pad(lattice, 3, mode="wrap"), None, fx=columns / lattice.shape[1], fy=rows / lattice.shape[0], interpolation=cv2.INTER_CUBIC
        )
        top, start = (wide.shape[0] - rows) // 2, (wide.shape[1] - columns) // 2
        total += weight * wide[top : top + rows, start : start + columns]
    edge = float(np.quantile(total[::4, ::4], share))
    # The sun is half a degree wide: 5 m below a crown, a shadow's edge is 5 cm soft, and leaves make it softer.
    return np.asarray(np.clip((edge - total) / 0.12 + 0.5, 0.0, 1.0), np.float32)


@condition(Severity("overcast", "oktas", "oktas", 0.0, 8.0, attribute="cloudiness", source="WMO: 8 oktas are a closed cover"))
class Overcast(PhysicalCondition):
    """Clouds that cover `oktas` eighths of the sky: a grey sky, flat light without hard shadows, less colour.

    Reference: cloud cover in oktas, WMO guide no. 8.
    """

    oktas: float | None = real(0.0, 8.0, 0.0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        cover = params.real("oktas") / 8.0

        def paint(frame: NumpyFrames, _: float) -> Field:
            sky = sky_of(frame, camera)
            light = greyed(flattened(linear(frame), sky, cover), 0.35 * cover)
            light *= 1.0 - 0.18 * cover
            sky.lay_colour(light, (0.96 * sky.level / 255.0) ** 2 * np.array([0.95, 0.975, 1.0], np.float32), cover)
            return display(light)

        return paint
