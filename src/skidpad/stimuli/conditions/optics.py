"""What the air and the light do to a frame, in pieces that conditions are made of.

Light adds up and is absorbed in proportion to luminance. Frames are display values; `linear` and `display` go there and back by a
gamma of 2, close to sRGB's 2.2 and fast. Koschmieder's law is applied to display values, as the built-in world does.
"""

from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np

from skidpad.core.images import Camera, NumpyFrames
from skidpad.core.seeding import child_rng
from skidpad.stimuli.conditions.base import FAR_M, Field, depth_m, frozen, horizon_row
from skidpad.stimuli.pictures.kernels import clouds

KOSCHMIEDER = 3.912
"""-ln 0.02: at the visibility, 2 % of the contrast are left (Koschmieder 1924). WMO's meteorological optical range leaves 5 %, and is 0.77
times the visibility."""

CLEAR_M = 10_000.0
"""Air that the frames already have: beyond 10 km, weather services report no mist or haze."""

_BRIGHTEST_AIR = 210.0
"""As a display value: cameras expose fog as a bright grey, not as white; the built-in world has 206."""

_HORIZON_SPREAD = 0.04
"""Deviation of the horizon of recorded frames from the guessed one, as a share of the height: hills, and how cameras are mounted."""

_LINEAR = (np.arange(256, dtype=np.float32) / 255.0) ** 2


def linear(frame: NumpyFrames, brightest: float = np.inf) -> Field:
    """Returns luminance by channel within [0, 1]; what is far darker than `brightest` stays, what is brighter comes down to it."""
    return np.asarray(cv2.LUT(frame, _LINEAR / np.sqrt(1.0 + (_LINEAR / np.float32(brightest)) ** 2)), np.float32)


def display(luminance: Field) -> Field:
    """Returns display values, within [0, 255], of luminance; what is brighter than white is white. Works in place."""
    np.clip(luminance, 0.0, 1.0, out=luminance)
    np.sqrt(luminance, out=luminance)
    luminance *= 255.0
    return luminance


def extinction_per_m(visibility_m: float) -> float:
    """Returns what a visibility adds to the extinction of clear air; nothing at CLEAR_M."""
    return max(KOSCHMIEDER / visibility_m - KOSCHMIEDER / CLEAR_M, 0.0)


@dataclass(frozen=True, slots=True)
class Sky:
    """What a frame tells of the light.

    level: of the air, a display value; that of the brightest large area above the horizon, or of the brightest things where trees hide the
    sky. share: how much each pixel of the upper rows looks like sky, (rows, width) within [0, 1].
    """

    level: float
    share: Field

    def lay(self, light: Field, sky: Field, share: float = 1.0) -> None:
        """Puts a share of a sky, (rows, width, 3), where the sky is; in place."""
        rows = light[: len(self.share)]
        cv2.add(rows, cv2.multiply(three(np.float32(share) * self.share), cv2.subtract(sky, rows)), dst=rows)

    def lay_colour(self, light: Field, colour: Field, share: float = 1.0) -> None:
        """Puts a plain colour, (3,), over a share of the sky; in place."""
        _mix(light[: len(self.share)], 1.0 - share * self.share, colour)


def sky_of(frame: NumpyFrames, camera: Camera) -> Sky:
    """Looks for the sky: above the horizon, and nearly as bright in its brightest channel as the air."""
    horizon = horizon_row(camera)
    step = max(1, camera.height_px // 24)
    small = _brightest(frame[::step, ::step])
    above, everywhere = np.sort(small[: max(1, horizon // step)], axis=None), np.sort(small, axis=None)
    level = max(float(above[int(0.88 * len(above))]), 0.8 * float(everywhere[int(0.98 * len(everywhere))]), 8.0)
    level = min(level, _BRIGHTEST_AIR)
    # The horizon of a recorded frame may lie a little lower than guessed, and the sky with it.
    lowest = min(horizon + round((_HORIZON_SPREAD if _is_guessed(camera) else 0.0) * camera.height_px), camera.height_px - 1)
    bright = cv2.blur(_brightest(frame[:lowest]), (3, 3)).astype(np.float32)
    share = np.clip((bright - 0.70 * level) * (1.0 / (0.25 * level)), 0.0, 1.0)
    # Sunlit slopes and walls are bright, but not blue.
    red, blue = frame[:lowest, :, 0].astype(np.float32), frame[:lowest, :, 2].astype(np.float32)
    bluish = np.clip((blue - 0.72 * red) / (0.16 * red + 4.0), 0.0, 1.0)
    share *= bluish * _open_sky(share, np.clip((blue - 0.86 * red) / (0.12 * red + 2.0), 0.0, 1.0))
    # Nothing is sky at the lowest rows: cars and road ends are bright, too.
    share *= np.clip((lowest - np.arange(lowest)) / max(2.0, 0.06 * camera.height_px), 0.0, 1.0).astype(np.float32)[:, None]
    return Sky(level, share)


def _open_sky(bright: Field, bluish: Field) -> Field:
    """Returns where the bright things of the upper rows may be sky, (rows, width) within [0, 1]; looks at a quarter of the size.

    Overexposed foliage has white patches among yellow ones; cars, posts and signs are white, but do not reach the upper edge.
    """
    rows, width = bright.shape
    size = max(2, width // 4), max(2, rows // 4)
    light, sky = (cv2.resize(plane, size, interpolation=cv2.INTER_AREA) for plane in (bright, bright * bluish))
    window = (_odd(size[0] / 5.0), _odd(size[0] / 5.0))
    around = cv2.blur(sky, window, borderType=cv2.BORDER_REPLICATE) / (cv2.blur(light, window, borderType=cv2.BORDER_REPLICATE) + 1e-3)
    pure = np.clip((around - 0.72) / 0.16, 0.0, 1.0)
    # Twigs and wires part the sky: gaps of two pixels are closed before asking what reaches the upper edge.
    count, parts = cv2.connectedComponents(cv2.dilate((sky * pure > 0.3).astype(np.uint8), np.ones((3, 3), np.uint8)))
    reaches = np.zeros(count, np.float32)
    reaches[np.unique(parts[: max(1, size[1] // 6)])] = 1.0
    reaches[0] = 0.0
    return np.asarray(cv2.resize(cv2.blur(pure * reaches[parts], (3, 3)), (width, rows), interpolation=cv2.INTER_LINEAR), np.float32)


def _is_guessed(camera: Camera) -> bool:
    return camera == Camera.guess(camera.height_px, camera.width_px)


def _brightest(frame: NumpyFrames) -> NumpyFrames:
    """Returns the brightest channel; much faster than a maximum over the last axis."""
    return np.maximum(np.maximum(frame[..., 0], frame[..., 1]), frame[..., 2])


def three(plane: Field) -> Field:
    """Returns a plane as three channels: whole frames are multiplied several times faster than by broadcasting."""
    one = np.asarray(plane, np.float32)
    return np.asarray(cv2.merge((one, one, one)))


def _mix(light: Field, through: Field, colour: Field) -> None:
    """Leaves a share `through` of the light, (height, width), and fills up with a colour, (3,); in place."""
    hidden = 1.0 - through
    cv2.multiply(light, three(through), dst=light)
    cv2.add(light, cv2.merge([hidden * np.float32(each) for each in colour]), dst=light)


def veiled(frame: NumpyFrames | Field, through: Field, air: Field, brighter: Field | None = None) -> Field:
    """Lays air over a frame: a share `through` of it stays, (height, width), the rest is `air`, (3,), times `brighter`, (height, width)."""
    out = cv2.multiply(frame, three(through), dtype=cv2.CV_32F)
    hidden = 1.0 - through
    if brighter is not None:
        hidden *= brighter
    return np.asarray(cv2.add(out, cv2.merge([hidden * np.float32(each) for each in air]), dst=out))


def transmission(camera: Camera, extinction: float, sky: Sky | None, uneven: Field | None = None) -> Field:
    """Returns the share of light that comes through to each pixel, (height, width); the sky lies behind all of the air.

    uneven: factors of the extinction, (height, width).
    """
    through = (
        _even_transmission(camera, extinction).copy()
        if uneven is None
        else _spread(camera, np.float32(-extinction) * depth_m(camera) * uneven)
    )
    if sky is not None:
        upper = through[: len(sky.share)]
        upper += sky.share * (np.float32(np.exp(-extinction * FAR_M)) - upper)
    return through


@lru_cache(maxsize=32)
def _even_transmission(camera: Camera, extinction: float) -> Field:
    return frozen(_spread(camera, np.float32(-extinction) * depth_m(camera)))


def _spread(camera: Camera, exponent: Field) -> Field:
    through = np.exp(exponent)
    if _is_guessed(camera):
        # The mean over where the horizon may be: on a crest, or with another camera, air that began at one row would show as a border.
        through = cv2.GaussianBlur(through, (1, 0), sigmaX=1.0, sigmaY=_HORIZON_SPREAD * camera.height_px, borderType=cv2.BORDER_REPLICATE)
    return np.asarray(through, np.float32)


def banks(camera: Camera, seed: int, time_s: float, drift_px_s: float, depth: float) -> Field:
    """Returns uneven air that drifts: factors around 1, (height, width), at most `depth` away from it."""
    height, width = camera.height_px, camera.width_px
    tile = _banks_tile(height, width, seed)
    start = round(drift_px_s * width / 320.0 * time_s) % (2 * width)
    seen = np.take(tile, np.arange(start, start + width), axis=1, mode="wrap")
    return np.asarray(1.0 + depth * seen, np.float32)


@lru_cache(maxsize=8)
def _banks_tile(height: int, width: int, seed: int) -> Field:
    """Twice as wide as the frame, mirrored, so that it goes on without a seam; within [-1, 1], 0 on average."""
    one = clouds(height, width, seed)
    both = np.concatenate([one, one[:, ::-1]], axis=1)
    both = (both - both.mean()) / max(float(np.abs(both - both.mean()).max()), 1e-6)
    return frozen(both)


_SPARE_PX = 64


@lru_cache(maxsize=4)
def _noise_tile(height: int, width: int) -> Field:
    return child_rng(0, "sensor noise").standard_normal((height + _SPARE_PX, width + _SPARE_PX, 3), np.float32)


def grainy(frame: Field, deviation: float, time_s: float) -> Field:
    """Adds noise to display values, another for every time; in place.

    Photons arrive with a deviation of the root of their number, which is the same everywhere after a gamma of 2.
    """
    height, width = frame.shape[:2]
    # Milliseconds times primes: neighbouring frames have other noise.
    moment = round(time_s * 1000.0)
    row, column = moment * 7919 % _SPARE_PX, moment * 104_729 // 64 % _SPARE_PX
    noise = np.ascontiguousarray(_noise_tile(height, width)[row : row + height, column : column + width])
    cv2.scaleAdd(noise, deviation, frame, dst=frame)
    return np.maximum(frame, 0.0, out=frame)


def flattened(light: Field, sky: Sky, share: float) -> Field:
    """Evens out the light on the ground, as clouds do: hard shadows and sunlit patches move towards their surroundings.

    light: luminance, (height, width, 3); changed in place and returned.
    """
    height, width = light.shape[:2]
    small = cv2.resize(light, (max(2, width // 4), max(2, height // 4)), interpolation=cv2.INTER_AREA)[..., 1]
    size = small.shape[1]
    near = cv2.blur(small, (_odd(size / 24.0),) * 2)
    wide = cv2.blur(cv2.blur(near, (_odd(size / 4.0),) * 2), (_odd(size / 6.0),) * 2)
    evened = np.asarray(np.clip((wide + 0.02) / (near + 0.02), 0.6, 2.2) ** (0.7 * share), np.float32)
    gain: Field = np.asarray(cv2.resize(evened, (width, height), interpolation=cv2.INTER_LINEAR), np.float32)
    upper = gain[: len(sky.share)]
    upper += sky.share * (1.0 - upper)
    cv2.multiply(light, three(gain), dst=light)
    return light


def _odd(size: float) -> int:
    return max(1, 2 * int(size / 2.0) + 1)


def greyed(light: Field, share: float) -> Field:
    """Takes a share of the colour away; in place."""
    mixing = (1.0 - share) * np.eye(3) + share / 3.0
    return np.asarray(cv2.transform(light, mixing, dst=light))
