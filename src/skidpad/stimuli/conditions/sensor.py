"""What a sensor and its processing add: noise, broken pixels, flicker, compression, sharpening, lost colour and resolution."""

from functools import lru_cache

import cv2
import numpy as np

from skidpad.core.images import Camera, NumpyFrames
from skidpad.core.seeding import child_rng
from skidpad.core.stimuli import Params
from skidpad.stimuli.conditions.base import Field, Paint, PhysicalCondition, condition, frozen, real
from skidpad.stimuli.conditions.tone import LINEAR, sensor_severity, to_bytes, to_coded

_FULL_WELL_E = 12_000.0
"""Electrons of a pixel at white and ISO 100: a pixel of 3 um, as in cameras for cars."""
_READ_NOISE_E = 3.0
_BASE_ISO = 100.0
_FINE = 4096
"""Steps of light between which values are looked up: a quarter of a grey level in the darkest shadows."""
_TILE = 1 << 20
_TICKS_PER_S = 1000
"""Frames within a millisecond of each other have the same noise."""


@condition(
    sensor_severity("sensor noise", "iso", "ISO", _BASE_ISO, 25600.0, is_logarithmic=True, source="ISO 12232; EMVA 1288 noise model")
)
class SensorNoise(PhysicalCondition):
    """Adds the shot and read noise of a sensor at `iso`, in linear light, beyond that of ISO 100, which the frames have already.

    Another moment has other noise, and the same moment the same.
    """

    iso: float | None = real(_BASE_ISO, 25600.0, _BASE_ISO)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        del camera
        sigma = np.sqrt(np.maximum(_variance(params.real("iso")) - _variance(_BASE_ISO), 0.0))
        light = (LINEAR * (_FINE - 1)).reshape(1, 256, 1)
        spread = np.asarray(sigma * (_FINE - 1), np.float32).reshape(1, 256, 1)
        coded = to_bytes(to_coded(np.linspace(0.0, 1.0, _FINE, dtype=np.float32)))

        def add(frame: NumpyFrames, time_s: float) -> NumpyFrames:
            noisy = np.asarray(cv2.LUT(frame, spread), np.float32)
            noisy *= _normal(frame.size, time_s).reshape(frame.shape)
            noisy += np.asarray(cv2.LUT(frame, light), np.float32)
            np.clip(noisy, 0, _FINE - 1, out=noisy)
            return coded[noisy.astype(np.uint16)]

        return add


def _variance(iso: float) -> Field:
    """Returns the variance of each value's light: photons arrive by chance, and reading adds its own."""
    well_e = _FULL_WELL_E * _BASE_ISO / iso
    return np.asarray(LINEAR / well_e + (_READ_NOISE_E / well_e) ** 2, np.float32)


def _normal(count: int, time_s: float) -> Field:
    """Returns normal numbers of a moment, (count,): a stretch of a long tile, since drawing them anew takes longer than all the rest."""
    tile = _tile(max(_TILE, 1 << (2 * count - 1).bit_length()))
    start = int(child_rng(round(time_s * _TICKS_PER_S), "noise").integers(len(tile) - count))
    return tile[start : start + count]


@lru_cache(maxsize=2)
def _tile(length: int) -> Field:
    return frozen(child_rng(0, "noise tile").standard_normal(length, np.float32))


@condition(
    sensor_severity("JPEG compression", "quality", "of 100", 100.0, 5.0, is_logarithmic=True, source="ITU-T T.81, the scale of libjpeg")
)
class Jpeg(PhysicalCondition):
    """Compresses the frames as JPEG of `quality`; 100 stands for no compression."""

    quality: float | None = real(5.0, 100.0, 100.0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        del camera
        options = [cv2.IMWRITE_JPEG_QUALITY, round(params.real("quality"))]

        def compress(frame: NumpyFrames, _: float) -> NumpyFrames:
            data = cv2.imencode(".jpg", cv2.cvtColor(frame, cv2.COLOR_RGB2BGR), options)[1]
            restored = np.asarray(cv2.imdecode(data, cv2.IMREAD_COLOR), np.uint8)
            return np.asarray(cv2.cvtColor(restored, cv2.COLOR_BGR2RGB), np.uint8)

        return compress


@condition(
    sensor_severity("faded colours", "factor", "x", 1.0, 0.0, source="0 is a monochrome camera"),
    sensor_severity("garish colours", "factor", "x", 1.0, 2.5, source="our choice: beyond the vivid setting of cameras"),
)
class Saturation(PhysicalCondition):
    """Multiplies the distance of each colour from its grey by `factor`: 0 is greyscale, above 1 is garish."""

    factor: float | None = real(0.0, 2.5, 1.0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        """Returns what mixes the channels. Reference: ITU-R BT.709 for the weights of grey."""
        del camera
        factor = params.real("factor")
        mix = factor * np.eye(3) + (1.0 - factor) * np.array([0.2126, 0.7152, 0.0722])
        return lambda frame, _: np.asarray(cv2.transform(frame, mix), np.uint8)


_LAMP_HZ = 100.0
_READOUT_S = 0.025
"""From the first row to the last of a rolling shutter at 30 to 40 frames a second; a lamp then makes two to three bands."""


@condition(sensor_severity("lamp flicker", "depth", "of light", 0.0, 0.8, source="modulation depth as in IEEE 1789, at 100 Hz"))
class Banding(PhysicalCondition):
    """Darkens the rows that a rolling shutter reads while lamps on mains are dark, by up to `depth` of the light; the bands wander."""

    depth: float | None = real(0.0, 0.8, 0.0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        depth, height = params.real("depth"), camera.height_px
        read_s = np.arange(height) / height * _READOUT_S
        # A drifting mains frequency, 0.3 % off, lets the bands wander instead of standing still at 20 frames a second.
        hz = _LAMP_HZ * 1.003

        def darken(frame: NumpyFrames, time_s: float) -> NumpyFrames:
            light = 1.0 - depth * (0.5 - 0.5 * np.cos(2.0 * np.pi * hz * (time_s + read_s)))
            coded = np.asarray(light ** (1.0 / 2.2), np.float32)
            rows = np.ascontiguousarray(np.broadcast_to(coded[:, None, None], frame.shape))
            return np.asarray(cv2.multiply(frame, rows, dtype=cv2.CV_8U), np.uint8)

        return darken


@condition(
    sensor_severity(
        "broken pixels", "share", "of pixels", 0.0, 0.03, source="our choice: data sheets allow far fewer, age and heat add some"
    )
)
class BrokenPixels(PhysicalCondition):
    """Breaks `share` of the pixels, always the same ones: half of them dead (black), half hot (white or one colour)."""

    share: float | None = real(0.0, 0.03, 0.0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        """Returns what breaks them; more of them contain the fewer."""
        pixels = camera.width_px * camera.height_px
        rng = child_rng(0, "broken pixels")
        count = round(params.real("share") * pixels)
        places = rng.permutation(pixels)[:count]
        colours = np.array([[0, 0, 0], [0, 0, 0], [0, 0, 0], [255, 255, 255], [255, 60, 40], [60, 80, 255]], np.uint8)
        values = colours[np.arange(count) % len(colours)]

        def spoil(frame: NumpyFrames, _: float) -> NumpyFrames:
            out = frame.copy()
            out.reshape(-1, 3)[places] = values
            return out

        return spoil


@condition(sensor_severity("dead rows", "share", "of rows", 0.0, 0.3, source="our choice: stuck row drivers"))
class DeadRows(PhysicalCondition):
    """Lets `share` of the rows fail, always the same ones, in groups as a readout circuit serves them: they stay black."""

    share: float | None = real(0.0, 0.3, 0.0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        """Returns what blackens the rows; more of them contain the fewer."""
        height = camera.height_px
        group = max(1, height // 80)
        order = child_rng(0, "dead rows").permutation(-(-height // group))
        rows = (order[:, None] * group + np.arange(group)).reshape(-1)
        dead = rows[rows < height][: round(params.real("share") * height)]

        def blacken(frame: NumpyFrames, _: float) -> NumpyFrames:
            out = frame.copy()
            out[dead] = 0
            return out

        return blacken


@condition(sensor_severity("sharpening halos", "amount", "x", 0.0, 4.0, source="our choice: camera processors use 0.5 to 2"))
class Sharpening(PhysicalCondition):
    """Sharpens the frames by `amount` (unsharp mask), so that edges get bright and dark halos."""

    amount: float | None = real(0.0, 4.0, 0.0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        amount = params.real("amount")
        sigma = max(0.8, camera.width_px / 200.0)
        return lambda frame, _: np.asarray(
            cv2.addWeighted(frame, 1.0 + amount, cv2.GaussianBlur(frame, (0, 0), sigma), -amount, 0.0), np.uint8
        )


@condition(sensor_severity("resolution loss", "factor", "x", 1.0, 10.0, is_logarithmic=True, source="10 leaves 32x16 pixels of 320x160"))
class ResolutionLoss(PhysicalCondition):
    """Takes the frames with a sensor of `factor` times fewer pixels each way, scaled up again."""

    factor: float | None = real(1.0, 10.0, 1.0)

    def _painter(self, params: Params, camera: Camera) -> Paint:
        factor = params.real("factor")
        size = (camera.width_px, camera.height_px)
        small = (max(1, round(size[0] / factor)), max(1, round(size[1] / factor)))
        return lambda frame, _: np.asarray(
            cv2.resize(cv2.resize(frame, small, interpolation=cv2.INTER_AREA), size, interpolation=cv2.INTER_LINEAR), np.uint8
        )
