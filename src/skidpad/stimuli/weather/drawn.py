"""Conditions that are drawn on top of a weather's pictures: drops, streaks, a wet road, which the recorded frame does not show.

A weather has no clock, so the time at which conditions are drawn comes from the pixels of the recorded frame: a picture depends on its own
frame alone, in any company, in any batch and on any device. Streaks lie elsewhere in every frame, and do not move on from one frame of a
drive to the next. What lies on the glass stays where it is.
"""

from __future__ import annotations

import numpy as np
import torch

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.core.images import Camera, Capture, FloatArray
from skidpad.core.stimuli import CameraMove, Condition, Stimulus, shows_past
from skidpad.stimuli.registry import TRANSFORMS, names_in, read

_LONGEST = 500
"""Characters; a card may come from a stranger, and reading takes a time that grows with the square of its length."""

_HUNDREDTHS = 6_000
"""Hundredths of a second in a minute, after which times repeat: so few that single precision holds the places of drops."""

_LEAST_PX = 16
"""A camera's picture has at least so many pixels to a side; nothing is drawn on smaller ones, where nothing could be seen of it."""

_ADVICE = "name conditions of skidpad, as rain(mm_per_h=5)+lens-drops(share=0.06)"


class DrawnConditions:
    """Conditions of a text, as rain(mm_per_h=5)+lens-drops(share=0.06); nothing but skidpad's own code is made or imported for it."""

    def __init__(self, text: str) -> None:
        if len(text) > _LONGEST or not text.isprintable():
            raise BadParametersError(f"conditions to draw are one line of at most {_LONGEST} characters; got {text[:80]!r}")
        own = {name: row() for name, row in TRANSFORMS.built_in().items()}
        names = names_in(text)
        if not names:
            raise BadParametersError(f"{text.strip()!r} draws nothing; {_ADVICE}")
        for name in names:
            _check_name(name, own)
        written = read(text, own)
        for name, params in written.steps:
            space = own[name].space
            if params is None:
                example = ",".join(f"{key}={value}" for key, value in space.grid[len(space.grid) // 2].items())
                raise BadParametersError(f"every picture of a weather has the same {name}: give its parameters, as {name}({example})")
            if params == space.identity:
                raise BadParametersError(f"{name}({params}) changes nothing; give other parameters")
        self.text = written.text
        self._stimuli = own
        (self._recipe,) = written.grid(own)

    def __call__(self, pictures: torch.Tensor, frames: torch.Tensor) -> torch.Tensor:
        """Returns the pictures with the conditions on them, on their device; painted on the CPU.

        pictures: uint8 (N, height, width, 3). frames: the recorded frames that they were made of, alike but of any size.
        """
        if min(pictures.shape[1:3]) < _LEAST_PX:
            return pictures
        made, times_s = pictures.cpu().numpy(), times_of(frames)
        # a group that was filled up with its last frame is painted once
        is_new = np.ones(len(made), np.bool_)
        for place in range(1, len(made)):
            is_new[place] = times_s[place] != times_s[place - 1] or not np.array_equal(made[place], made[place - 1])
        height, width = made.shape[1:3]
        capture = Capture(Camera.guess(height, width), times_s[is_new])
        painted = self._recipe.apply(made[is_new], self._stimuli, capture)
        return torch.from_numpy(painted[np.cumsum(is_new) - 1]).to(pictures.device)

    def __str__(self) -> str:
        return self.text


def times_of(frames: torch.Tensor) -> FloatArray:
    """Returns when each frame, uint8 (N, height, width, 3), is taken to have been seen: (N,), seconds, by the sum of its bytes."""
    if frames.device.type == "cpu":  # where torch takes twenty times as long as NumPy
        sums = frames.numpy().reshape(len(frames), -1).sum(1, dtype=np.int64)
    else:
        sums = frames.flatten(1).sum(1, dtype=torch.int64).cpu().numpy()
    return np.asarray(sums % _HUNDREDTHS / 100.0, np.float64)


def _check_name(name: str, own: dict[str, Stimulus]) -> None:
    if ":" in name:
        what = "a learned weather" if name.partition(":")[0] == "weather" else "code that is not skidpad's"
        raise BadParametersError(f"{what} cannot be drawn on a weather's pictures; {_ADVICE}; got {name!r}")
    if name not in own:
        raise UnknownNameError.among("condition", name, [each for each, made in own.items() if not _unfit(made)])
    why = _unfit(own[name])
    if why:
        raise BadParametersError(f"{name!r} {why}, and cannot be drawn on a weather's pictures; {_ADVICE}")


def _unfit(made: Stimulus) -> str:
    """Says why a stimulus cannot be drawn on pictures; empty where it can be."""
    if not isinstance(made, Condition):
        return "is no condition in physical units"
    if isinstance(made, CameraMove):
        return "moves the camera"
    return "shows earlier frames" if shows_past(made) else ""
