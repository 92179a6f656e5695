"""When a camera's pictures arrive: late, stuck or lost. The answer is asked for now, and the picture is an earlier one.

These show frames other than the one they are given, which `Capture.earlier` knows; on frames of which nothing else is known, a clip, the
clip's own frames are the earlier ones.
"""

from abc import abstractmethod
from functools import lru_cache, partial
from typing import ClassVar

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.images import Camera, Capture, FloatArray
from skidpad.core.seeding import child_rng
from skidpad.core.stimuli import F, Params, Severity
from skidpad.stimuli.conditions.base import Paint, PhysicalCondition, condition, real
from skidpad.stimuli.pictures.kernels import kernels_of

_timing_severity = partial(Severity, attribute="camera timing")
_SLOT_S = 0.05
"""How often a camera sends a picture: 20 times a second, as Udacity's and the built-in world's do."""


class Delay(PhysicalCondition):
    """A condition under which older frames are seen. past_s: the greatest age."""

    __slots__ = ()
    past_s: ClassVar[float]

    @abstractmethod
    def _ages_s(self, params: Params, times_s: FloatArray) -> FloatArray:
        """Returns how old the picture is that is seen at each time, (N,); 0 where it is the present one."""

    def _painter(self, params: Params, camera: Camera) -> Paint:
        del params, camera  # delays change no frame by itself
        return lambda frame, _: frame

    def apply_at(self, frames: F, params: Params, capture: Capture) -> F:
        """Returns the frames that are seen in the place of those given."""
        kernels_of(frames)
        if len(capture.times_s) != len(frames):
            raise BadParametersError(f"a capture has one time a frame; got {len(capture.times_s)} for {len(frames)} frames")
        return capture.seen(frames, self._ages_s(params, capture.times_s))


@condition(_timing_severity("late frames", "latency_ms", "ms", 0.0, 1000.0, source="cameras and buses take 50 to 150 ms; 1 s is stuck"))
class LateFrames(Delay):
    """Lets every picture arrive `latency_ms` late."""

    latency_ms: float | None = real(0.0, 1000.0, 0.0)
    past_s: ClassVar[float] = 1.0

    def _ages_s(self, params: Params, times_s: FloatArray) -> FloatArray:
        return np.full(len(times_s), params.real("latency_ms") / 1000.0)


@condition(_timing_severity("frozen frames", "frozen_s", "s of 2 s", 0.0, 1.9, source="our choice: a decoder that loses its stream"))
class FrozenFrames(Delay):
    """Lets the picture hang for `frozen_s` at the end of every two seconds."""

    frozen_s: float | None = real(0.0, 1.9, 0.0)
    past_s: ClassVar[float] = 1.9

    def _ages_s(self, params: Params, times_s: FloatArray) -> FloatArray:
        """Returns the time since the picture hangs, in whole frames, so that it is one and the same frame all the while."""
        slot = np.floor(times_s / _SLOT_S + 0.5).astype(np.int64)
        stuck = round(params.real("frozen_s") / _SLOT_S)
        since = slot % _PERIOD_SLOTS - (_PERIOD_SLOTS - 1 - stuck)
        return np.maximum(since, 0) * _SLOT_S


_PERIOD_SLOTS = round(2.0 / _SLOT_S)
_LONGEST = 30
"""Frames that can be lost one after the other: at the worst share, more would be lost once in a thousand times."""


@condition(_timing_severity("dropped frames", "share", "of frames", 0.0, 0.8, source="our choice: packet loss of a busy bus"))
class DroppedFrames(Delay):
    """Loses `share` of the frames by chance; in the place of a lost one, the last that arrived is seen."""

    share: float | None = real(0.0, 0.8, 0.0)
    past_s: ClassVar[float] = _LONGEST * _SLOT_S

    def _ages_s(self, params: Params, times_s: FloatArray) -> FloatArray:
        """Returns how long ago the last frame arrived; a greater share loses all the frames that a smaller one does."""
        slot = np.floor(times_s / _SLOT_S + 0.5).astype(np.int64)
        lost = _chances()[(slot[:, None] - np.arange(_LONGEST + 1)) % len(_chances())] < params.real("share")
        lost[:, -1] = False
        return np.asarray(np.argmin(lost, axis=1) * _SLOT_S, np.float64)


@lru_cache(maxsize=1)
def _chances() -> FloatArray:
    """Returns a number within [0, 1) for each frame of an hour, which then repeats."""
    return child_rng(0, "dropped frames").random(72_000)
