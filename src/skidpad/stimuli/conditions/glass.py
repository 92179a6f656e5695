"""Water, ice and light on the glass before the lens: drops, frost, condensation, reflections, a wiper.

All of it is near and out of focus, stays where it is from frame to frame (but for the wiper), and grows: more of it contains the less.
"""

from dataclasses import dataclass
from functools import lru_cache, partial
from math import pi, sin
from typing import Any

import cv2
import numpy as np

from skidpad.core.images import Camera, NumpyFrames
from skidpad.core.seeding import child_rng
from skidpad.core.stimuli import Params, Severity
from skidpad.stimuli.conditions.base import Field, Paint, PhysicalCondition, condition, real, whole
from skidpad.stimuli.conditions.optics import three
from skidpad.stimuli.pictures.kernels import clouds

glass_severity = partial(Severity, attribute="windscreen and lens cover")
SEED = (0, 999_999, 0)


def _mixed(frame: NumpyFrames, over: Any, cover: Field) -> Field:
    """Returns the frame where `cover`, (height, width, 3), is 0 and what lies over it where it is 1."""
    mixed = np.asarray(np.subtract(over, frame, dtype=np.float32), np.float32)
    mixed *= cover
    mixed += frame
    return mixed


def grid(camera: Camera) -> tuple[Field, Field]:
    """Returns rows and columns of the pixels' middles in units of the height."""
    rows, columns = np.mgrid[: camera.height_px, : camera.width_px].astype(np.float32)
    return (rows + 0.5) / camera.height_px, (columns + 0.5) / camera.height_px


@condition(glass_severity("drops on the lens", "share", "of view", 0.0, 0.5, source="share covered; our choice"))
class LensDrops(PhysicalCondition):
    """Lays drops of water over `share` of the glass; each shows the scene upside down, small and out of focus, as a drop's lens does."""

    share: float | None = real(0.0, 0.5, 0.0)
    seed: int | None = whole(*SEED)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        drops = _drops(camera, params.real("share"), params.whole("seed"))
        blur = max(1, round(camera.height_px * 0.05)) | 1

        def see(frame: NumpyFrames, _: float) -> Field:
            seen = cv2.remap(cv2.blur(frame, (blur, blur)), drops.places, drops.parts, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
            return _mixed(frame, cv2.multiply(seen, drops.shade, dtype=cv2.CV_8U), drops.cover)

        return see


@dataclass(frozen=True, slots=True, eq=False)
class _Drops:
    """Where the light of each pixel comes from inside drops (OpenCV's fixed-point maps), how bright it is, and where drops are."""

    places: Any
    parts: Any
    shade: Field
    cover: Field


@lru_cache(maxsize=16)
def _drops(camera: Camera, share: float, seed: int) -> _Drops:
    rows, columns = grid(camera)
    aspect = camera.width_px / camera.height_px
    rng = child_rng(seed, "drops")
    cover = np.zeros_like(rows)
    shade = np.ones_like(rows)
    source_y, source_x = rows.copy(), columns.copy()
    for _ in range(2000):
        # Many small drops and few large ones; large ones sag.
        radius = 0.018 + 0.085 * rng.random() ** 3
        y, x, sag, wobble = rng.random(), rng.random() * aspect, 1.0 + 2.5 * radius * rng.random(), rng.random() * 2.0 * pi
        if float(np.mean(cover > 0.5)) >= share:
            break
        dy, dx = (rows - y) / (radius * sag), (columns - x) / radius
        turn = np.arctan2(dy, dx)
        away = np.hypot(dy, dx) / (1.0 + 0.08 * np.cos(2.0 * turn + wobble) + 0.05 * np.cos(3.0 * turn - wobble))
        edge = max(0.3, 1.5 / (radius * camera.height_px))
        inside = np.clip((1.0 - away) / edge, 0.0, 1.0)
        new = inside > cover
        # Upside down: a drop gathers a wide view, so its own width shows three times as much, from around the horizon.
        source_y[new] = (0.45 + 0.3 * (y - 0.45) - 3.0 * (rows - y))[new]
        source_x[new] = (x - 3.0 * (columns - x))[new]
        # Dark where the scene's ground is seen at a steep angle (the upper rim), bright towards the lower rim, where the sky is.
        shade[new] = np.clip(0.86 + 0.30 * dy, 0.55, 1.2)[new]
        cover = np.maximum(cover, inside)
    spread = max(0.6, camera.height_px * 0.008)
    cover = np.asarray(cv2.GaussianBlur(cover, (0, 0), spread), np.float32)
    x_px = np.asarray(source_x * camera.height_px - 0.5, np.float32)
    y_px = np.asarray(source_y * camera.height_px - 0.5, np.float32)
    places, parts = cv2.convertMaps(x_px, y_px, cv2.CV_16SC2)
    return _Drops(places, parts, three(shade), three(cover))


@lru_cache(maxsize=8)
def specks(height_px: int, width_px: int, seed: int) -> Field:
    """Returns noise whose peaks are splashes of many sizes, (height, width) within [0, 1]: a few large ones, many small."""
    rng = child_rng(seed, "dirt")
    aspect = width_px / height_px
    total = 0.35 * clouds(height_px, width_px, seed + 17)
    for cells, weight in ((4, 0.30), (9, 0.30), (18, 0.25), (36, 0.20)):
        lattice = rng.random((cells + 2, max(2, round(cells * aspect)) + 2), np.float32) ** 3
        total = total + weight * cv2.resize(lattice, (width_px, height_px), interpolation=cv2.INTER_CUBIC)
    total = np.clip(total, 0.0, None)
    return np.asarray(total / max(float(total.max()), 1e-6), np.float32)


@condition(glass_severity("frost", "share", "of view", 0.0, 0.8, source="share covered; our choice"))
class Frost(PhysicalCondition):
    """Lets ice grow from the edges over `share` of the glass: white, and what is behind it blurred away."""

    share: float | None = real(0.0, 0.8, 0.0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        cover = three(_frosted(camera, params.real("share")))
        grain = 0.75 + 0.5 * specks(camera.height_px, camera.width_px, 5)
        white, blur = three(np.clip(0.62 * cover[..., 0] * grain, 0.0, 1.0)), max(1, round(0.09 * camera.height_px)) | 1
        ice = np.array([214.0, 222.0, 230.0], np.float32)

        def freeze(frame: NumpyFrames, _: float) -> Field:
            mixed = _mixed(frame, cv2.blur(frame, (blur, blur)), cover)
            mixed += (ice - mixed) * white
            return mixed

        return freeze


@lru_cache(maxsize=16)
def _frosted(camera: Camera, share: float) -> Field:
    rows, columns = grid(camera)
    aspect = camera.width_px / camera.height_px
    inwards = np.minimum(np.minimum(rows, 1.0 - rows), np.minimum(columns, aspect - columns) / aspect)
    crystals = clouds(camera.height_px, camera.width_px, 41)
    depth = inwards - 0.30 * crystals
    level = float(np.quantile(depth, share))
    cover = np.clip((level - depth) / 0.12 + 0.35, 0.0, 1.0) * min(1.0, share / 0.05)
    return np.asarray(cover * (0.75 + 0.25 * crystals), np.float32)


@condition(glass_severity("condensation", "density", "of full", 0.0, 1.0, source="share of light scattered; our choice"))
class Condensation(PhysicalCondition):
    """Fogs the glass from inside: `density` 1 leaves only soft shapes behind a pale veil, thickest in the middle."""

    density: float | None = real(0.0, 1.0, 0.0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        """Returns what the droplets scatter: blur, and a veil of the scene's own mean light."""
        density, height = params.real("density"), camera.height_px
        cloud = 0.75 + 0.25 * clouds(height, camera.width_px, 53)
        cover = three(np.clip(density * 1.1 * cloud, 0.0, 1.0))
        veil = three(np.clip(density * 0.62 * cloud, 0.0, 1.0))
        blur = max(1, round(0.07 * height * density)) | 1

        def scatter(frame: NumpyFrames, _: float) -> Field:
            mixed = _mixed(frame, cv2.blur(cv2.blur(frame, (blur, blur)), (blur, blur)), cover)
            light = 0.5 * np.asarray(cv2.mean(frame)[:3], np.float32) + 90.0
            mixed += (light - mixed) * veil
            return mixed

        return scatter


@condition(
    glass_severity(
        *("dashboard reflection", "strength", "of white", 0.0, 0.6),
        source="glass at 60 deg mirrors a tenth (Fresnel) of a dashboard in full sun; the worst end is our choice",
    )
)
class WindscreenReflection(PhysicalCondition):
    """Mirrors a sunlit dashboard in the windscreen, as bright as `strength` of white: pale over the lower half, with vents."""

    strength: float | None = real(0.0, 0.6, 0.0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        add = np.asarray(np.clip(255.0 * params.real("strength") * _dashboard(camera), 0, 255), np.uint8)
        return lambda frame, _: np.asarray(cv2.add(frame, add), np.uint8)


@lru_cache(maxsize=8)
def _dashboard(camera: Camera) -> Field:
    rows, columns = grid(camera)
    aspect = camera.width_px / camera.height_px
    x = columns / aspect
    edge = 0.52 + 0.07 * (2.0 * x - 1.0) ** 2
    light = np.clip((rows - edge) / 0.05, 0.0, 1.0) * (0.62 + 0.3 * clouds(camera.height_px, camera.width_px, 71))
    light += 0.12 * np.clip(1.0 - np.abs(rows - edge) / 0.2, 0.0, 1.0)
    for middle in (0.2, 0.8):
        vent = np.clip(1.0 - np.abs(x - middle) / 0.11, 0.0, 1.0) * np.clip(1.0 - np.abs(rows - 0.72) / 0.05, 0.0, 1.0)
        light -= 0.35 * np.clip(3.0 * vent, 0.0, 1.0)
    paper = np.clip((0.10 - np.abs(x - 0.56)) / 0.03, 0.0, 1.0) * np.clip((0.09 - np.abs(rows - 0.80 - 0.25 * (x - 0.5))) / 0.03, 0.0, 1.0)
    light = cv2.GaussianBlur(np.asarray(np.clip(light + 0.3 * paper, 0.0, 1.2), np.float32), (0, 0), max(0.8, 0.018 * camera.height_px))
    return np.asarray(light[..., None] * np.array([0.92, 0.97, 1.0], np.float32), np.float32)


_BLADE_REACH = 1.9
"""Of the wiper, from its axis below the view, in heights of the picture."""


@condition(
    glass_severity(
        *("wiper", "width", "of height", 0.0, 0.2),
        source="a blade of 3 cm is 0.1 of the view 30 cm before the lens; 45 sweeps a minute are the usual slow speed",
    )
)
class Wiper(PhysicalCondition):
    """Sweeps a wiper's blade of `width` (share of the picture's height) over the glass and back, `sweeps_per_min` times a minute."""

    width: float | None = real(0.0, 0.2, 0.0)
    sweeps_per_min: float | None = real(10.0, 70.0, 45.0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        """Returns what draws the blade where it is at the time; it is near, so that its edges are soft."""
        rows, columns = grid(camera)
        axis_x, axis_y = 0.38 * camera.width_px / camera.height_px, 1.25
        dy, dx = axis_y - rows, columns - axis_x
        turn, away = np.arctan2(dy, dx), np.hypot(dy, dx)
        half, hz = params.real("width") / 2.0, params.real("sweeps_per_min") / 60.0
        soft = max(0.02, 0.35 * half)

        def sweep(frame: NumpyFrames, time_s: float) -> Field:
            at = pi * (0.5 + 0.42 * sin(2.0 * pi * hz * time_s + 0.6))
            across = np.abs(turn - at)
            across *= away
            np.subtract(half + soft / 2.0, across, out=across)
            across *= 1.0 / soft
            np.clip(across, 0.0, 1.0, out=across)
            across *= away < _BLADE_REACH
            return _mixed(frame, np.float32(22.0), across[..., None])

        return sweep
