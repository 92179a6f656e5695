"""Air that hides: fog, haze, smoke, dust, and the spray of a vehicle ahead."""

from functools import partial

import numpy as np

from skidpad.core.images import Camera, NumpyFrames
from skidpad.core.stimuli import Params, Severity
from skidpad.stimuli.conditions.base import Field, Paint, PhysicalCondition, condition, depth_m, ground_m, real, whole
from skidpad.stimuli.conditions.optics import CLEAR_M, banks, extinction_per_m, sky_of, transmission, veiled

_by_visibility = partial(Severity, parameter="visibility_m", unit="m", is_logarithmic=True)
_KOSCHMIEDER = "Koschmieder's law, 2 % of contrast left at the visibility; "


def _air(camera: Camera, visibility_m: float, colour: tuple[float, float, float], seed: int, uneven: float, drift_px_s: float) -> Paint:
    """Returns what lays air of a visibility over frames. colour: of the air, as factors of the sky's level."""
    extinction, tint = extinction_per_m(visibility_m), np.asarray(colour, np.float32)

    def paint(frame: NumpyFrames, time_s: float) -> Field:
        sky = sky_of(frame, camera)
        factors = banks(camera, seed, time_s, drift_px_s, uneven)
        # Thick banks scatter more light: without this the air is one flat grey.
        return veiled(frame, transmission(camera, extinction, sky, factors), sky.level * tint, 0.9 + 0.1 * factors)

    return paint


@condition(_by_visibility("fog", harmless=2000.0, worst=20.0, attribute="visibility", source=_KOSCHMIEDER + "fog is below 1000 m"))
class Fog(PhysicalCondition):
    """Fog in which one sees `visibility_m` far; `seed` of its banks.

    Reference: Koschmieder's law, `1 - exp(-3.912 d / visibility)` of what is seen at d metres is the air's light. Weather services
    speak of fog below 1000 m and of dense fog below 200 m or 50 m; at 20 m roads are closed.
    """

    visibility_m: float | None = real(20.0, CLEAR_M, CLEAR_M)
    seed: int | None = whole(0, 999_999, 0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        return _air(camera, params.real("visibility_m"), (0.97, 0.985, 1.0), params.whole("seed"), 0.14, 6.0)


@condition(
    _by_visibility("haze", harmless=8000.0, worst=500.0, attribute="visibility", source=_KOSCHMIEDER + "haze is 1 to 5 km, dense below")
)
class Haze(PhysicalCondition):
    """Dry haze in which one sees `visibility_m` far: even, and a little brown, since small particles scatter blue light away."""

    visibility_m: float | None = real(500.0, CLEAR_M, CLEAR_M)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        return _air(camera, params.real("visibility_m"), (1.0, 0.965, 0.91), 0, 0.0, 0.0)


@condition(_by_visibility("smoke", harmless=1500.0, worst=25.0, attribute="particulates", source=_KOSCHMIEDER + "ISO 34503 smoke"))
class Smoke(PhysicalCondition):
    """Grey smoke that drifts across the road in swathes; on average one sees `visibility_m` far."""

    visibility_m: float | None = real(15.0, CLEAR_M, CLEAR_M)
    seed: int | None = whole(0, 999_999, 0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        return _air(camera, params.real("visibility_m"), (0.78, 0.775, 0.77), params.whole("seed"), 0.85, 25.0)


@condition(
    _by_visibility("dust", harmless=2000.0, worst=30.0, attribute="particulates", source=_KOSCHMIEDER + "WMO: a dust storm is below 1000 m")
)
class Dust(PhysicalCondition):
    """Blowing dust or sand, brown; on average one sees `visibility_m` far."""

    visibility_m: float | None = real(15.0, CLEAR_M, CLEAR_M)
    seed: int | None = whole(0, 999_999, 0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        return _air(camera, params.real("visibility_m"), (0.92, 0.80, 0.62), params.whole("seed"), 0.45, 60.0)


_SPRAY_WIDTH_M, _SPRAY_HEIGHT_M = 2.6, 2.4
_SPRAY_LENGTH_M = 30.0
"""How long the spray hangs behind a lorry at 90 km/h."""
_SPRAY_EXTINCTION_PER_M = 0.35
"""At the wheels; less further back, so that some 10 to 40 % of the light come through a whole plume."""


@condition(
    Severity(
        "spray",
        "distance_m",
        "m",
        100.0,
        15.0,
        is_logarithmic=True,
        attribute="particulates",
        source="ISO 34503 road spray; transmission of lorries' plumes",
    )
)
class Spray(PhysicalCondition):
    """The spray that a lorry `distance_m` ahead throws up from a wet road; it hides what lies behind it, the lorry too."""

    distance_m: float | None = real(10.0, 200.0, 200.0)
    seed: int | None = whole(0, 999_999, 0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        distance_m, seed = params.real("distance_m"), params.whole("seed")
        thickness = _plume(camera, distance_m)

        def paint(frame: NumpyFrames, time_s: float) -> Field:
            turbulent = banks(camera, seed, time_s, 90.0, 0.7)
            air = np.full(3, 0.9 * sky_of(frame, camera).level, np.float32)
            return veiled(frame, np.exp(-thickness * turbulent), air, 0.88 + 0.12 * turbulent)

        return paint


def _plume(camera: Camera, distance_m: float) -> Field:
    """Returns how much spray lies before each pixel, (height, width): slices of the plume between the camera and the lorry, added up."""
    forward, down, left = camera.rays()
    ahead, _, _ = ground_m(camera)
    depth = np.minimum(np.maximum(depth_m(camera), 0.0), np.where(down[:, None] > 0.0, ahead, np.inf))
    total = np.zeros(depth.shape, np.float32)
    slices = 8
    start_m = max(2.0, distance_m - _SPRAY_LENGTH_M)
    step_m = (distance_m - start_m) / slices
    for each in range(slices):
        at_m = start_m + (each + 0.5) * step_m
        behind_m = distance_m - at_m
        lateral = (left[None, :] / forward[:, None]) * at_m
        height = camera.height_m - (down / forward)[:, None] * at_m
        wide, tall = _SPRAY_WIDTH_M * (0.5 + 0.03 * behind_m), _SPRAY_HEIGHT_M * (0.35 + 0.03 * behind_m)
        density = _SPRAY_EXTINCTION_PER_M * np.exp(-behind_m / (0.4 * _SPRAY_LENGTH_M))
        inside = np.exp(-0.5 * (lateral / wide) ** 4 - 0.7 * np.clip(height / tall, 0.0, None) ** 2)
        # A slice ends at the ground gradually, or the slices would show as steps on the road.
        reached = np.clip((depth - at_m) / step_m + 0.5, 0.0, 1.0)
        total += (reached * step_m * density * inside).astype(np.float32)
    return total * min(1.0, (200.0 - distance_m) / 40.0)
