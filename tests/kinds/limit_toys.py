"""Conditions in physical units as plain as can be, and a network that fails from a known severity on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from skidpad.core.images import Capture
from skidpad.core.stimuli import Params, Real, Severity, Space, Stimulus
from skidpad.core.units import AngleUnit, Axle
from skidpad.drives.drive import Drive
from skidpad.drives.opening import drive_from_arrays
from skidpad.kinds.limits.campaign import Limits, LimitsSettings
from skidpad.kinds.limits.curves import all_rows
from skidpad.kinds.limits.probes import Judge
from skidpad.subjects.description import Description, Format, Output
from skidpad.subjects.inputs import Colour, InputSpec, Range

STEPS = 32
HEIGHT, WIDTH = 32, 64


@dataclass(frozen=True, slots=True)
class ToyExposure:
    """Halves the light with every EV below 0."""

    severities = (
        Severity("toy-dark", "ev", "EV", 0.0, -4.0, attribute="camera exposure", source="a test"),
        Severity("toy-bright", "ev", "EV", 0.0, 2.0, attribute="camera exposure", source="a test"),
    )

    @property
    def space(self) -> Space:
        return Space((Real("ev", -4.0, 2.0, 0.0),), tuple(Params(ev=ev) for ev in (-2.0, -1.0, 1.0)))

    def apply(self, frames: Any, params: Params) -> Any:
        return self.apply_at(frames, params, Capture.guess(frames))

    def apply_at(self, frames: Any, params: Params, capture: Capture) -> Any:
        assert len(capture.times_s) == len(frames)
        return np.clip(frames * 2.0 ** params.real("ev"), 0, 255).astype(np.uint8)


@dataclass(frozen=True, slots=True)
class ToyFog:
    """Blends towards grey, the more the farther a row of pixels is away."""

    severities = (
        Severity("toy-fog", "visibility_m", "m", 2000.0, 20.0, is_logarithmic=True, attribute="visibility (fog)", source="a test"),
    )

    @property
    def space(self) -> Space:
        return Space((Real("visibility_m", 20.0, 2000.0, None),), tuple(Params(visibility_m=metres) for metres in (50.0, 200.0)))

    def apply(self, frames: Any, params: Params) -> Any:
        return self.apply_at(frames, params, Capture.guess(frames))

    def apply_at(self, frames: Any, params: Params, capture: Capture) -> Any:
        away_m = 1.3 * capture.camera.focal_px / np.maximum(np.arange(frames.shape[1]) - capture.camera.horizon_px, 1.0)
        clear = np.exp(-3.0 * np.minimum(away_m, 300.0) / params.real("visibility_m"))[:, None, None]
        return (frames * clear + 200.0 * (1.0 - clear)).astype(np.uint8)


@dataclass(frozen=True, slots=True)
class ToyYaw:
    """Turns the camera: pictures are cut at one side, and the right answer moves by as much."""

    severities = (Severity("toy-yaw", "yaw_deg", "deg", 0.0, 8.0, attribute="camera mounting"),)

    @property
    def space(self) -> Space:
        return Space((Real("yaw_deg", 0.0, 8.0, 0.0),), (Params(yaw_deg=2.0), Params(yaw_deg=4.0)))

    def apply(self, frames: Any, params: Params) -> Any:
        return self.apply_at(frames, params, Capture.guess(frames))

    def apply_at(self, frames: Any, params: Params, capture: Capture) -> Any:
        return frames[:, :, 8:].copy()

    def reference(self, frames: Any, params: Params, capture: Capture) -> Any:
        return frames[:, :, :-8].copy()

    def pixel_map(self, params: Params, camera: Any) -> Any:
        return np.array([[1.0, 0.0, -8.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])

    def moved_rad(self, steering_rad: Any, params: Params) -> Any:
        return steering_rad + np.radians(params.real("yaw_deg"))


CONDITIONS: Mapping[str, Stimulus] = {"exposure-toy": ToyExposure(), "fog-toy": ToyFog(), "yaw-toy": ToyYaw()}
DESCRIPTION = Description(
    "planted",
    "in memory",
    Format.EXPORT,
    InputSpec(WIDTH, HEIGHT, Colour.RGB, Range((0.0,), (1.0,))),
    (Output("steering", AngleUnit.RAD, 1.0, Axle.STEERING_WHEEL),),
)


@dataclass(eq=False)
class Planted:
    """Steers straight, and 30 degrees to the left where the mean of a picture is below `dark` or above `bright`."""

    dark: float = -1.0
    bright: float = 256.0
    asked: int = 0
    layers = ()
    lead = 0
    description: Description = DESCRIPTION

    @property
    def sha256(self) -> str:
        return f"planted {self.dark:g} {self.bright:g}"

    def predict(self, clip: Any, now: Any = None) -> Any:
        self.asked += len(clip)
        mean = clip.reshape(len(clip), -1).mean(axis=1)
        return np.where((mean < self.dark) | (mean > self.bright), np.radians(30.0), 0.0)[:, None]


def toy_drive(frames: int = 64, light: float = 128.0, spread: float = 0.0) -> Drive:
    """Returns pictures of noise around a light that wanders slowly by `spread`."""
    rng = np.random.default_rng(3)
    levels = light + spread * np.sin(np.arange(frames) / 9.0)
    pictures = np.clip(levels[:, None, None, None] + rng.uniform(-40.0, 40.0, (frames, HEIGHT, WIDTH, 3)), 0, 255).astype(np.uint8)
    return drive_from_arrays(pictures, name="toy", time_s=np.arange(frames) / 20.0)


def limits(subject: Any, drive: Drive | None = None, names: tuple[str, ...] = (), judge: Judge | None = None, **settings: Any) -> Limits:
    """Returns a campaign over the toy conditions, or over some severities of theirs."""
    opened = drive or toy_drive()
    given = {"frames": 0, "stretch_frames": 4, "relation": "steers-alike", "tolerance": 10.0, "steps": STEPS} | settings
    made = LimitsSettings(subject="toy", drive="toy", conditions=names, **given)
    rows = tuple(row for row in all_rows(CONDITIONS, made.steps) if not names or row.name in names)
    return Limits(made, subject, opened, rows, CONDITIONS, judge)
