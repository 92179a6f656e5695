"""A toy world whose answers are known: a bright bar stands where the road turns to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch

from skidpad.core.images import FloatArray, Frames, as_numpy
from skidpad.core.units import AngleUnit
from skidpad.drives.drive import Drive
from skidpad.drives.opening import drive_from_arrays
from skidpad.kinds.pictures.campaign import DeepTest
from skidpad.kinds.pictures.settings import DeepTestSettings
from skidpad.stimuli.pictures import stimuli
from skidpad.subjects.base import Layer, Observation
from skidpad.subjects.description import Description, Format, Output
from skidpad.subjects.inputs import InputSpec

WIDTH_PX, HEIGHT_PX = 64, 24
RAD_PER_PX = math.radians(1.0)
BAR_PX = 7
ROAD, BAR = 20, 44
"""Dark enough that DeepTest's brightest and most contrasted grid rows do not saturate the bar."""


def column_of(frame: int) -> int:
    return 10 + (frame * 7) % 44


def bar_drive(frames: int = 12) -> Drive:
    pictures = np.full((frames, HEIGHT_PX, WIDTH_PX, 3), ROAD, np.uint8)
    for frame in range(frames):
        pictures[frame, :, column_of(frame) - BAR_PX // 2 : column_of(frame) + BAR_PX // 2 + 1] = BAR
    columns = np.array([column_of(frame) for frame in range(frames)])
    return drive_from_arrays(pictures, (columns - WIDTH_PX / 2) * RAD_PER_PX)


def described(*outputs: Output, name: str = "toy") -> Description:
    return Description(name, "toy.pt2", Format.EXPORT, InputSpec(WIDTH_PX, HEIGHT_PX), outputs or (Output("steering", AngleUnit.RAD),))


@dataclass(frozen=True)
class BarSubject:
    """Steers towards the bar, whatever the light; with a threshold, the left half is seen only at the light it was made for.

    With a lead it looks at the mean of its window. Its neurons are the mean brightness of four quarters, so that coverage has
    something to count; a black box shows none. Other outputs: the mean brightness, as a share, and NaN.
    """

    left_threshold: int | None = None
    lead: int = 0
    description: Description = field(default=described())
    sha256: str = "toy"
    layers: tuple[Layer, ...] = field(default=(Layer("quarters", 0, 4),))

    def predict(self, clip: Frames, now: Frames | None = None) -> FloatArray:
        return self._answers(self._seen(clip, now))

    def observe(self, clip: Frames, now: Frames | None = None) -> Observation:
        frames = self._seen(clip, now)
        quarters = frames.reshape(len(frames), HEIGHT_PX, 4, WIDTH_PX // 4, 3).mean(axis=(1, 3, 4))
        return Observation(self._answers(frames), torch.from_numpy(quarters[:, : 4 if self.layers else 0].astype(np.float32)))

    def _seen(self, clip: Frames, now: Frames | None) -> FloatArray:
        frames = as_numpy(clip).astype(np.float64)
        count = len(frames) - self.lead
        seen = sum(frames[back : back + count] for back in range(self.lead + 1))
        if now is not None:
            seen = seen - frames[self.lead :] + as_numpy(now)
        return seen / (self.lead + 1)

    def _answers(self, frames: FloatArray) -> FloatArray:
        made = {"steering": self._steering, "brightness": lambda frames: frames.mean(axis=(1, 2, 3)) / 255.0}
        return np.stack([made.get(output.name, _nothing)(frames) for output in self.description.outputs], axis=1)

    def _steering(self, frames: FloatArray) -> FloatArray:
        columns = frames.mean(axis=(1, 3))
        above = columns - columns.min(axis=1, keepdims=True)
        above = np.where(above >= above.max(axis=1, keepdims=True) / 2, above, 0.0)
        place = (above * np.arange(WIDTH_PX)).sum(axis=1) / np.maximum(above.sum(axis=1), 1e-9)
        answer = (place - WIDTH_PX / 2) * RAD_PER_PX
        if self.left_threshold is not None:
            blinded = (place < WIDTH_PX / 2) & (columns.max(axis=1) > self.left_threshold)
            answer = np.where(blinded, 0.5, answer)
        return answer


def _nothing(frames: FloatArray) -> FloatArray:
    return np.full(len(frames), np.nan)


def bar_campaign(subject: BarSubject, frames: int = 12, drive: Drive | None = None, **changes: object) -> DeepTest:
    settings = {
        "subject": "toy",
        "drive": "toy",
        "transforms": ("brightness", "contrast", "blur"),
        "relation": "steers-alike",
        "tolerance": 2.0,
        "shard_frames": 5,
        "seeds": 4,
        **changes,
    }
    made = DeepTestSettings(**settings)
    return DeepTest(made, subject, drive or bar_drive(frames), stimuli(made.transforms))
