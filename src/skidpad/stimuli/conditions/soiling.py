"""What soils or damages the glass before the lens: dirt, insects, scratches, cracks.

All of it is near and out of focus, and stays where it is from frame to frame.
"""

from functools import lru_cache
from math import ceil, cos, pi, sin

import cv2
import numpy as np

from skidpad.core.images import Camera, NumpyFrames
from skidpad.core.seeding import child_rng
from skidpad.core.stimuli import Params
from skidpad.stimuli.conditions.base import Field, Paint, PhysicalCondition, condition, real, whole
from skidpad.stimuli.conditions.glass import SEED, glass_severity, grid, specks
from skidpad.stimuli.conditions.optics import three
from skidpad.stimuli.pictures.kernels import clouds

_DAYLIGHT = 80.0
"""Mean display value from which on a frame has the light in which the colours of what lies on the glass are given."""


class _Covered(PhysicalCondition):
    """A condition that lays something over the frames that is the same in every frame."""

    __slots__ = ()

    def layer(self, params: Params, camera: Camera) -> tuple[Field, Field]:
        """Returns what lies over the frames, (height, width, 3) grey levels, and how much of it hides them, (height, width)."""
        raise NotImplementedError

    def _painter(self, params: Params, camera: Camera) -> Paint:
        keep, add = _laid(self, params, camera)

        def lay(frame: NumpyFrames, _: float) -> Field:
            mixed = np.multiply(frame, keep, dtype=np.float32)
            # What lies on the glass has no light but the scene's: dirt is dark by night, and a crack does not glow.
            return np.asarray(cv2.scaleAdd(add, min(1.0, float(np.mean(cv2.mean(frame)[:3])) / _DAYLIGHT), mixed, dst=mixed))

        return lay


@lru_cache(maxsize=8)
def _laid(condition: _Covered, params: Params, camera: Camera) -> tuple[Field, Field]:
    """Returns how much of a frame is kept and what is added to it; kept in memory, since searches show one frame at a time."""
    over, cover = condition.layer(params, camera)
    return three(1.0 - cover), np.ascontiguousarray(over * three(cover), np.float32)


@condition(
    glass_severity(
        "dirt on the lens", "share", "of view", 0.0, 0.6, source="share covered; WoodScape's soiling masks reach all of the view"
    )
)
class LensDirt(_Covered):
    """Lays dried mud and dust over `share` of the glass."""

    share: float | None = real(0.0, 0.6, 0.0)
    seed: int | None = whole(*SEED)

    def layer(self, params: Params, camera: Camera) -> tuple[Field, Field]:
        """Returns blotches where cloudy noise is highest, with specks between them."""
        height, width, share = camera.height_px, camera.width_px, params.real("share")
        noise = specks(height, width, params.whole("seed"))
        level = float(np.quantile(noise, 1.0 - share))
        cover = np.clip((noise - level) / 0.08 + 0.5 * min(1.0, share / 0.1), 0.0, 1.0) * min(1.0, share / 0.02)
        shade = clouds(height, width, params.whole("seed") + 18)
        over = (0.7 + 0.7 * shade)[..., None] * np.array([92.0, 82.0, 68.0], np.float32)
        thick = 0.55 + 0.4 * np.clip((noise - level) / 0.25, 0.0, 1.0)
        soft = cv2.GaussianBlur(np.asarray(thick * cover, np.float32), (0, 0), max(0.5, 0.008 * height))
        return np.asarray(over, np.float32), np.asarray(soft, np.float32)


@condition(glass_severity("scratches", "count", "scratches", 0.0, 60.0, source="our choice: a windscreen wiped with grit for years"))
class Scratches(_Covered):
    """Scratches the glass `count` times; scratches are pale, since they scatter light, and most follow the wiper's arc."""

    count: float | None = real(0.0, 60.0, 0.0)

    def layer(self, params: Params, camera: Camera) -> tuple[Field, Field]:
        """Returns thin arcs around the wiper's axis below the view."""
        cover = np.zeros((camera.height_px, camera.width_px), np.float32)
        rng = child_rng(0, "scratches")
        aspect = camera.width_px / camera.height_px
        for number in range(ceil(params.real("count"))):
            y, x, length, bend, glow = (
                rng.random(),
                rng.random() * aspect,
                0.15 + 0.5 * rng.random(),
                rng.normal(),
                0.25 + 0.4 * rng.random(),
            )
            turn = 0.15 * bend + 0.5 * (x - aspect / 2.0)
            steps = np.linspace(-0.5, 0.5, 12) * length
            points = np.stack([x + steps * cos(turn) - 0.3 * steps**2 * sin(turn), y + steps * sin(turn) + 0.3 * steps**2], axis=1)
            lone = np.zeros_like(cover)
            _polyline(lone, points * camera.height_px, max(1, round(camera.height_px / 160)))
            cover = np.maximum(cover, glow * min(1.0, params.real("count") - number) * lone)
        soft = np.asarray(cv2.GaussianBlur(cover, (0, 0), max(0.5, camera.height_px / 240)), np.float32)
        return np.full((*cover.shape, 3), 215.0, np.float32), soft


def _polyline(plane: Field, points: np.ndarray, thickness: int) -> None:
    """Draws a soft line of 1 through points (x, y) in pixels."""
    canvas = np.zeros(plane.shape, np.uint8)
    cv2.polylines(
        canvas, [np.rint(points * 16.0).astype(np.int32)], isClosed=False, color=255, thickness=thickness, lineType=cv2.LINE_AA, shift=4
    )
    np.maximum(plane, canvas.astype(np.float32) / 255.0, out=plane)


@condition(
    glass_severity("cracked glass", "length", "of height", 0.0, 1.2, source="our choice: from a chip to a windscreen due for change")
)
class Crack(_Covered):
    """Cracks the glass: from a stone's hit, cracks run as far as `length` of the picture's height."""

    length: float | None = real(0.0, 1.2, 0.0)

    def layer(self, params: Params, camera: Camera) -> tuple[Field, Field]:
        """Returns jagged rays from the hit, pale with a dark side."""
        rng = child_rng(0, "crack")
        height, length = camera.height_px, params.real("length")
        pale, dark = (np.zeros((height, camera.width_px), np.float32) for _ in range(2))
        hit = np.array([0.62 * camera.width_px / height, 0.45])
        for ray in range(7):
            point, turn = hit.copy(), 2.0 * pi * (ray + 0.6 * rng.random()) / 7
            kinks, reach = rng.normal(0.0, 0.45, 24), 0.35 + 0.65 * rng.random()
            points = [point]
            for kink in kinks:
                # A crack keeps its way and only jags about it.
                turn += 0.06 * float(kink)
                point = point + reach * length / 24 * np.array([cos(turn + float(kink)), sin(turn + float(kink))])
                points.append(point)
            _polyline(pale, np.array(points) * height, max(1, round(height / 240)))
            _polyline(dark, np.array(points) * height + np.array([1.0, 1.0]) * height / 160, max(1, round(height / 200)))
        chip = min(1.0, length / 0.2) * 0.02
        rows, columns = grid(camera)
        star = np.clip(1.5 * (1.0 - np.hypot(rows - hit[1], columns - hit[0]) / max(chip, 1e-3)), 0.0, 1.0)
        # The glass is far too near to be in focus, and a crack lets most of the scene through.
        spread = max(0.6, height / 130)
        pale, dark = 1.1 * cv2.GaussianBlur(np.maximum(pale, star), (0, 0), spread), 0.8 * cv2.GaussianBlur(dark, (0, 0), spread)
        pale, dark = np.minimum(pale, 0.45), np.minimum(dark, 0.35)
        cover = np.clip(pale + dark * (1.0 - pale), 0.0, 1.0)
        over = np.where(cover > 0.0, (225.0 * pale + 40.0 * dark * (1.0 - pale)) / np.maximum(cover, 1e-6), 0.0)
        return three(over), np.asarray(cover, np.float32)


@condition(glass_severity("insects on the glass", "count", "insects", 0.0, 60.0, source="our choice: a summer evening on a motorway"))
class Insects(_Covered):
    """Splashes `count` insects on the glass: a dark spot in a yellowish smear each."""

    count: float | None = real(0.0, 60.0, 0.0)

    def layer(self, params: Params, camera: Camera) -> tuple[Field, Field]:
        """Returns the splashes."""
        rng = child_rng(0, "insects")
        rows, columns = grid(camera)
        smear, spot = np.zeros_like(rows), np.zeros_like(rows)
        for number in range(ceil(params.real("count"))):
            y, x, radius, turn = (
                rng.random(),
                rng.random() * camera.width_px / camera.height_px,
                0.008 + 0.03 * rng.random() ** 2,
                pi * rng.random(),
            )
            dy, dx = rows - y, columns - x
            along, across = dx * cos(turn) + dy * sin(turn), dy * cos(turn) - dx * sin(turn)
            away = np.hypot(along / (2.2 * radius), across / radius)
            ragged = away * (1.0 + 0.25 * np.cos(5.0 * np.arctan2(across, along) + 9.0 * y))
            here = min(1.0, params.real("count") - number)
            smear = np.maximum(smear, 0.7 * here * np.clip(1.6 * (1.0 - ragged), 0.0, 1.0))
            spot = np.maximum(spot, 0.9 * here * np.clip(2.0 * (0.5 - away), 0.0, 1.0))
        spread = max(0.5, 0.006 * camera.height_px)
        smear, spot = (np.asarray(cv2.GaussianBlur(plane.astype(np.float32), (0, 0), spread), np.float32) for plane in (smear, spot))
        cover = smear + spot * (1.0 - smear)
        colours = np.array([168.0, 156.0, 112.0], np.float32), np.array([38.0, 30.0, 24.0], np.float32)
        mix = spot / np.maximum(smear + spot, 1e-6)
        over = (1.0 - mix)[..., None] * colours[0] + mix[..., None] * colours[1]
        return np.asarray(over, np.float32), np.asarray(cover, np.float32)
