"""A toy world whose answers are known: a bright bar stands where the road turns to."""

import math
from dataclasses import dataclass, field

import numpy as np
import torch

from skidpad.campaigns.deeptest import DeepTest
from skidpad.campaigns.settings import DeepTestSettings
from skidpad.core.images import FloatArray, Frames, as_numpy
from skidpad.core.layers import Layer
from skidpad.drives.drive import Drive
from skidpad.drives.memory import drive_from_arrays
from skidpad.subjects.base import Observation
from skidpad.transforms import stimuli

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


@dataclass(frozen=True)
class BarSubject:
    """Steers towards the bar, whatever the light; with a threshold, the left half is seen only at the light it was made for.

    Its neurons are the mean brightness of four quarters, so that coverage has something to count.
    """

    left_threshold: int | None = None
    sha256: str = "toy"
    layers: tuple[Layer, ...] = field(default=(Layer("quarters", 0, 4),))

    def predict(self, frames: Frames) -> FloatArray:
        columns = as_numpy(frames).mean(axis=(1, 3))
        above = columns - columns.min(axis=1, keepdims=True)
        above = np.where(above >= above.max(axis=1, keepdims=True) / 2, above, 0.0)
        place = (above * np.arange(WIDTH_PX)).sum(axis=1) / np.maximum(above.sum(axis=1), 1e-9)
        answer = (place - WIDTH_PX / 2) * RAD_PER_PX
        if self.left_threshold is not None:
            blinded = (place < WIDTH_PX / 2) & (columns.max(axis=1) > self.left_threshold)
            answer = np.where(blinded, 0.5, answer)
        return answer

    def observe(self, frames: Frames) -> Observation:
        quarters = as_numpy(frames).reshape(len(frames), HEIGHT_PX, 4, WIDTH_PX // 4, 3).mean(axis=(1, 3, 4))
        return Observation(self.predict(frames), torch.from_numpy(quarters.astype(np.float32)))


def bar_campaign(subject: BarSubject, frames: int = 12, **changes: object) -> DeepTest:
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
    return DeepTest(made, subject, bar_drive(frames), stimuli(made.transforms))
