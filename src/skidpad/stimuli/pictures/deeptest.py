"""DeepTest's transforms: affine (translation, scale, shear, rotation), linear (contrast, brightness), blur, and fog and rain.

Fog is haze that thickens with distance, uneven like real banks, in front of a softened background. Rain is slanted streaks at three
distances, before a darker, bluer scene of less contrast that fades far away.

Reference: DeepTest, section 3.2 (alpha and beta of the linear ones; fog and rain composed of several filters), Table 2 (matrices) and
Table 4 (parameters).
Deviates: the paper composes Photoshop's filters by hand at one size; here the layers are computed, at any size, those of fog from the
law of light in haze (a share exp(-thickness) of the scene, the rest the fog's own light).
"""

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from math import cos, radians, sin
from typing import ClassVar

import cv2
import numpy as np
from numpy.typing import NDArray

from skidpad.core.images import HORIZON, NumpyFrames
from skidpad.core.seeding import child_rng
from skidpad.core.stimuli import Choice, F, Params, Real, Space, Whole
from skidpad.stimuli.pictures.kernels import Field, Pivot, Veil, about, clouds, distance, kernels_of
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
        return kernels_of(frames).veil(frames, _fog_veil(height, width, params.real("density"), params.whole("seed")))


@lru_cache(maxsize=16)
def _fog_veil(height_px: int, width_px: int, density: float, seed: int) -> Veil:
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


_GLOOM_RGB = (62.0, 70.0, 82.0)
_MIST_RGB = (150.0, 157.0, 166.0)
_STREAK_RGB = (205.0, 212.0, 220.0)
_GLOOM = 0.42
_MIST = 0.4
_SUBPIXEL_BITS = 4
_WIDEST = 8.0
"""Wider frames than this get no more streaks: a strip one pixel high would ask for thousands."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """Streaks at one distance; lengths and widths are shares of the height, `count` is per square of it at full intensity."""

    name: str
    count: int
    length: float
    width: float
    opacity: float


_LAYERS = (
    _Layer("far", 700, 0.05, 0.0030, 0.35),
    _Layer("middle", 260, 0.12, 0.0042, 0.42),
    _Layer("near", 45, 0.26, 0.0085, 0.40),
)


@TRANSFORMS.register("deeptest-rain")
@dataclass(frozen=True, slots=True)
class DeepTestRain:
    """Lets it rain on the frames with `intensity`, the streaks leaning `slant_deg` to the right at their top.

    The same seed and slant give every frame the same streaks, and heavier rain all the streaks of lighter rain.
    """

    space: ClassVar[Space] = Space(
        (Real("intensity", 0.0, 1.0, 0.0), Real("slant_deg", -30.0, 30.0, 0.0), Whole("seed", 0, 999_999, 0)),
        tuple(Params(intensity=tenth / 10.0, slant_deg=12.0, seed=0) for tenth in range(1, 11)),
    )

    def apply(self, frames: F, params: Params) -> F:
        """Returns rainy frames."""
        height, width = int(frames.shape[1]), int(frames.shape[2])
        veil = _rain_veil(height, width, params.real("intensity"), params.real("slant_deg"), params.whole("seed"))
        return kernels_of(frames).veil(frames, veil)


@lru_cache(maxsize=16)
def _rain_veil(height_px: int, width_px: int, intensity: float, slant_deg: float, seed: int) -> Veil:
    """Keeps the last few veils, enough for the grid at one size."""
    far = distance(height_px, width_px)
    keep = np.ones((height_px, width_px), np.float32)
    add = np.zeros((height_px, width_px, 3), np.float32)
    streaks = _streaks(height_px, width_px, intensity, slant_deg, seed)
    for opacity, colour in ((_GLOOM * intensity, _GLOOM_RGB), (_MIST * intensity * far, _MIST_RGB), (streaks, _STREAK_RGB)):
        through = np.asarray(1.0 - opacity, np.float32)
        keep = keep * through
        add = add * through[..., None] + (1.0 - through)[..., None] * np.asarray(colour, np.float32)
    return Veil.of(keep, add)


def _streaks(height_px: int, width_px: int, intensity: float, slant_deg: float, seed: int) -> Field:
    """Returns the streaks' opacity, (height, width) within [0, 1]."""
    through = np.ones((height_px, width_px), np.float32)
    for layer in _LAYERS:
        drops = child_rng(seed, "rain", layer.name).random((round(layer.count * min(width_px / height_px, _WIDEST)) + 1, 4))
        shown = drops[: round(intensity * len(drops))]
        if len(shown):
            through *= 1.0 - layer.opacity * _drawn(layer, shown, height_px, width_px, slant_deg)
    return 1.0 - through


def _drawn(layer: _Layer, drops: NDArray[np.float64], height_px: int, width_px: int, slant_deg: float) -> Field:
    """Draws drops (D, 4: x, y, brightness, variation) as streaks that fade at both ends, within [0, 1]."""
    canvas: NumpyFrames = np.zeros((height_px, width_px), np.uint8)
    margin = 0.15
    place = (drops[:, :2] * (1.0 + 2.0 * margin) - margin) * (width_px, height_px)
    length = layer.length * height_px * (0.6 + 0.8 * drops[:, 3])
    angle_rad = np.deg2rad(slant_deg + 4.0 * (drops[:, 3] - 0.5))
    half = np.column_stack([np.sin(angle_rad), -np.cos(angle_rad)]) * length[:, None] / 2.0
    ends = np.rint(np.stack([place - half, place + half], axis=1) * 2**_SUBPIXEL_BITS).astype(np.int32)
    thickness = max(1, round(layer.width * height_px))
    for (start, stop), brightness in zip(ends.tolist(), (90 + 165 * drops[:, 2]).astype(int).tolist(), strict=True):
        cv2.line(canvas, start, stop, brightness, thickness, cv2.LINE_AA, _SUBPIXEL_BITS)
    blurred = cv2.filter2D(canvas.astype(np.float32) / 255.0, -1, _motion(layer.length * height_px / 2.0, slant_deg))
    spread_px = layer.width * height_px / 2.5
    return np.clip(cv2.GaussianBlur(blurred, (0, 0), max(spread_px, 0.3)), 0.0, 1.0).astype(np.float32)


def _motion(length_px: float, slant_deg: float) -> Field:
    """Returns the kernel that smears along the slant, summing to 1."""
    radius = max(1, round(length_px / 2.0))
    kernel = np.zeros((2 * radius + 1, 2 * radius + 1), np.uint8)
    dx, dy = sin(radians(slant_deg)) * radius, -cos(radians(slant_deg)) * radius
    scale = 2**_SUBPIXEL_BITS
    start, stop = ((round((radius + way * dx) * scale), round((radius + way * dy) * scale)) for way in (-1, 1))
    cv2.line(kernel, start, stop, 255, 1, cv2.LINE_AA, _SUBPIXEL_BITS)
    return np.asarray(kernel / kernel.sum(), np.float32)
