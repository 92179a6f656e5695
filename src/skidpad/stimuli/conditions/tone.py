"""How a sensor turns light into values: exposure, tone curve, white balance, range and depth."""

from abc import abstractmethod
from functools import partial
from typing import cast

import cv2
import numpy as np

from skidpad.core.images import Camera, Capture, FloatArray, NumpyFrames
from skidpad.core.stimuli import F, Params, Severity
from skidpad.stimuli.conditions.base import Field, Paint, PhysicalCondition, condition, real
from skidpad.stimuli.pictures.kernels import kernels_of

sensor_severity = partial(Severity, attribute="camera sensor")


def to_linear(coded: Field) -> Field:
    """Returns the light behind values within [0, 1]. Reference: IEC 61966-2-1 (sRGB)."""
    return np.asarray(np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4), np.float32)


def to_coded(linear: Field) -> Field:
    """Returns the values that a camera writes for light, clipped to [0, 1]; the inverse of `to_linear`."""
    light = np.clip(linear, 0.0, 1.0)
    return np.asarray(np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1.0 / 2.4) - 0.055), np.float32)


def to_bytes(coded: Field) -> NumpyFrames:
    """Returns values within [0, 1] as bytes, clipped."""
    return np.asarray(np.clip(np.rint(255.0 * coded), 0, 255), np.uint8)


def three(plane: Field) -> Field:
    """Returns a table or a plane for each of three channels alike."""
    return np.repeat(plane[..., None], 3, axis=-1)


CODED: Field = np.linspace(0.0, 1.0, 256, dtype=np.float32)
"""The values of a channel."""

LINEAR: Field = to_linear(CODED)
"""The light behind them."""


class Tonal(PhysicalCondition):
    """A condition that maps each channel's values by a table, which torch frames look up on their own device."""

    __slots__ = ()

    @abstractmethod
    def _table(self, params: Params) -> Field:
        """Returns the new values, (256, 3) within [0, 1]; what lies beyond is clipped."""

    def _painter(self, params: Params, camera: Camera) -> Paint:
        del camera
        table = to_bytes(self._table(params)).reshape(1, 256, 3)
        return lambda frame, _: np.asarray(cv2.LUT(frame, table), np.uint8)

    def apply_at(self, frames: F, params: Params, capture: Capture) -> F:
        """Returns the changed frames."""
        kernels_of(frames)
        if isinstance(frames, np.ndarray):
            return super().apply_at(frames, params, capture)
        import torch  # noqa: PLC0415 - takes a second

        table = torch.from_numpy(np.ascontiguousarray(to_bytes(self._table(params)).T)).to(frames.device)
        first = torch.arange(3, device=frames.device, dtype=torch.int32) * 256
        return cast("F", table.reshape(-1)[frames.to(torch.int32) + first])


@condition(
    sensor_severity("underexposure", "ev", "EV", 0.0, -4.0, source="EV as in ISO 2720; -4 is an exposure metered for bright sky"),
    sensor_severity("overexposure", "ev", "EV", 0.0, 4.0, source="EV as in ISO 2720; +4 is the end of a tunnel before the exposure adapts"),
)
class Exposure(Tonal):
    """Exposes the frames by `ev` stops more or less: light times 2^ev, in linear light, clipped where the sensor saturates."""

    ev: float | None = real(-4.0, 4.0, 0.0)

    def _table(self, params: Params) -> Field:
        return three(to_coded(LINEAR * np.float32(2.0 ** params.real("ev"))))


@condition(
    sensor_severity(
        "dark gamma", "gamma", "(exponent)", 1.0, 2.5, is_logarithmic=True, source="linear values shown as if they were coded: 2.2"
    ),
    sensor_severity("pale gamma", "gamma", "(exponent)", 1.0, 0.4, is_logarithmic=True, source="values coded twice: 1/2.2"),
)
class Gamma(Tonal):
    """Raises the values to the power of `gamma`: above 1 the shadows sink, below 1 they are lifted."""

    gamma: float | None = real(0.4, 2.5, 1.0)

    def _table(self, params: Params) -> Field:
        return three(CODED ** np.float32(params.real("gamma")))


@condition(
    sensor_severity(
        "warm light", "kelvin", "K", 6500.0, 2500.0, is_logarithmic=True, source="halogen headlights 3200 K, sodium lamps 2000-2500 K"
    ),
    sensor_severity("cold light", "kelvin", "K", 6500.0, 12000.0, is_logarithmic=True, source="shade under a blue sky 8000-12000 K"),
)
class ColourTemperature(Tonal):
    """Lights the scene at `kelvin` while the camera stays balanced for daylight of 6500 K: warm below, cold above."""

    kelvin: float | None = real(2500.0, 12000.0, 6500.0)

    def _table(self, params: Params) -> Field:
        gains = white_rgb(params.real("kelvin")) / white_rgb(6500.0)
        return to_coded(LINEAR[:, None] * gains.astype(np.float32))


def white_rgb(kelvin: float) -> FloatArray:
    """Returns the linear sRGB of a black body's light at luminance 1, (3,).

    Reference: Kim et al., US patent 7024034: cubic splines of the Planckian locus, 1667 to 25000 K.
    """
    k = 1000.0 / kelvin
    if kelvin <= 4000.0:
        x = -0.2661239 * k**3 - 0.2343589 * k**2 + 0.8776956 * k + 0.179910
    else:
        x = -3.0258469 * k**3 + 2.1070379 * k**2 + 0.2226347 * k + 0.240390
    if kelvin <= 2222.0:
        y = -1.1063814 * x**3 - 1.34811020 * x**2 + 2.18555832 * x - 0.20219683
    elif kelvin <= 4000.0:
        y = -0.9549476 * x**3 - 1.37418593 * x**2 + 2.09137015 * x - 0.16748867
    else:
        y = 3.0817580 * x**3 - 5.87338670 * x**2 + 3.75112997 * x - 0.37001483
    xyz = np.array([x / y, 1.0, (1.0 - x - y) / y])
    to_rgb = np.array([[3.2406, -1.5372, -0.4986], [-0.9689, 1.8758, 0.0415], [0.0557, -0.2040, 1.0570]])
    return np.asarray(np.maximum(to_rgb @ xyz, 0.01))


@condition(
    sensor_severity("green cast", "ev", "EV", 0.0, 1.0, source="our choice: beyond fluorescent lamps under daylight balance"),
    sensor_severity("magenta cast", "ev", "EV", 0.0, -1.0, source="our choice: a camera that has lost its infrared filter"),
)
class Tint(Tonal):
    """Lets the white balance drift: green is gained by `ev` stops beside red and blue; below 0 the picture turns magenta."""

    ev: float | None = real(-1.0, 1.0, 0.0)

    def _table(self, params: Params) -> Field:
        """Returns the new values; the luminance of grey stays."""
        gains = np.array([1.0, 2.0 ** params.real("ev"), 1.0], np.float32)
        gains /= float(gains @ np.array([0.2126, 0.7152, 0.0722], np.float32))
        return to_coded(LINEAR[:, None] * gains)


_STOPS = 12.0
"""From white to the darkest value above 0 of an 8-bit sRGB picture: log2(255 * 12.92) = 11.7."""
_GREY = 0.18


@condition(
    sensor_severity("low dynamic range", "stops", "stops", _STOPS, 3.0, source="stops as in EMVA 1288; 10-12 are usual, 3 is our choice")
)
class DynamicRange(Tonal):
    """Takes the frames with a sensor of `stops` stops around middle grey: shadows below turn black, highlights above white."""

    stops: float | None = real(3.0, _STOPS, _STOPS)

    def _table(self, params: Params) -> Field:
        """Returns the new values; middle grey stays, so that it is no matter of exposure."""
        share = params.real("stops") / _STOPS
        above = -np.log2(_GREY)
        # The full range reaches down to 0.
        low, high = _GREY * 2.0 ** (share * (above - _STOPS)) - 2.0**-_STOPS, _GREY * 2.0 ** (share * above)
        black, grey, white = to_coded(np.array([low, _GREY, high], np.float32))
        below = grey * (CODED - black) / (grey - black)
        beyond = grey + (1.0 - grey) * (CODED - grey) / (white - grey)
        return three(np.asarray(np.where(grey > CODED, below, beyond), np.float32))


@condition(sensor_severity("low bit depth", "bits", "bit", 8.0, 2.0, source="RGB565 has 5 to 6 bits a channel, RGB332 2 to 3"))
class BitDepth(Tonal):
    """Writes the values with `bits` bits: smooth shades turn into steps."""

    bits: float | None = real(2.0, 8.0, 8.0)

    def _table(self, params: Params) -> Field:
        """Returns the new values; a fraction of a bit is a number of levels between powers of two."""
        steps = np.float32(round(2.0 ** params.real("bits")) - 1)
        return three(np.rint(CODED * steps) / steps)


@condition(
    sensor_severity("raised black level", "share", "of white", 0.0, 0.5, source="image flare as in ISO 18844; the worst end is our choice")
)
class BlackLevel(Tonal):
    """Raises black to `share` of white, as stray light in the lens or a wrong black level does."""

    share: float | None = real(0.0, 0.5, 0.0)

    def _table(self, params: Params) -> Field:
        """Returns the new values: a constant of light is added, and white stays white."""
        share = np.float32(params.real("share"))
        return three(to_coded(share + (1.0 - share) * LINEAR))


@condition(sensor_severity("contrast loss", "share", "of contrast", 0.0, 0.9, source="Michelson contrast; the worst end is our choice"))
class ContrastLoss(Tonal):
    """Takes `share` of the contrast away: the values shrink towards middle grey, as behind an old, hazy lens."""

    share: float | None = real(0.0, 0.9, 0.0)

    def _table(self, params: Params) -> Field:
        return three(np.float32(0.5) + np.float32(1.0 - params.real("share")) * (CODED - np.float32(0.5)))
