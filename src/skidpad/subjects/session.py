"""A subject in a closed loop: it is shown one frame after the other, and remembers what it has seen.

A car that starts has no past, so its first frame is repeated for it, as at the start of a drive. Stepping through a clip gives
the answers of `predict` on the clip with its lead.
"""

from __future__ import annotations

import numpy as np
import torch

from skidpad.core.images import BoolArray, FloatArray, Frames, NumpyFrames, as_numpy
from skidpad.subjects.base import Subject
from skidpad.subjects.network_subject import NetworkSubject


def start(subject: Subject, count: int = 1) -> NetworkSession | FrameSession:
    """Starts a closed loop of `count` cars side by side, each with a memory of its own; a car that was shown no frame has no past."""
    if count < 1:
        raise ValueError(f"a session has at least one car; got count={count}")
    return NetworkSession(subject, count) if isinstance(subject, NetworkSubject) else FrameSession(subject, count)


class NetworkSession:
    """The memory of a network: what it costs to look at a frame is paid once a frame."""

    def __init__(self, subject: NetworkSubject, count: int) -> None:
        self._subject = subject
        self._count = count
        self._new = torch.ones(count, dtype=torch.bool)
        self._last: torch.Tensor | None = None
        self._past: torch.Tensor | None = None

    def step(self, frames: Frames) -> FloatArray:
        """Shows each car its next frame, (count, height, width, 3), and returns all outputs, (count, outputs)."""
        _check(len(frames), self._count)
        count, lead = self._count, self._subject.lead
        if lead == 0:
            return self._subject.predict(frames)
        small = self._subject.assembler.shrink(frames)
        last = small if self._last is None else _chosen(self._new, small, self._last)
        cars = torch.arange(count)
        # What is known of a frame may hang on the one before it (flow): each car's last frame, then its new one.
        codes = self._subject.codes(torch.cat([last, small]), torch.stack([cars, cars + count], 1))
        first = codes[:, None].expand(-1, lead, *codes.shape[1:])  # a new car's last frame is its first, so its code is that of a repeat
        past = first if self._past is None else _chosen(self._new, first, self._past)
        windows = torch.cat([cars[:, None] * lead + torch.arange(lead), cars[:, None] + count * lead], 1)
        answers = self._subject.answers(torch.cat([past.flatten(0, 1), codes]), windows)
        self._past = torch.cat([past[:, 1:], codes[:, None]], 1)
        self._last, self._new = small, torch.zeros_like(self._new)
        return answers

    def reset(self, which: BoolArray | None = None) -> None:
        """Lets the marked cars, or all, forget what they have seen: their next frame is their first."""
        self._new |= torch.ones_like(self._new) if which is None else torch.from_numpy(np.asarray(which, np.bool_))


class FrameSession:
    """The memory of any subject, a black box say: the last frames of each car, shown again with every new one."""

    def __init__(self, subject: Subject, count: int) -> None:
        self._subject = subject
        self._count = count
        self._new = np.ones(count, np.bool_)
        self._past: NumpyFrames | None = None

    def step(self, frames: Frames) -> FloatArray:
        """Shows each car its next frame, (count, height, width, 3), and returns all outputs, (count, outputs)."""
        _check(len(frames), self._count)
        lead = self._subject.lead
        if lead == 0:
            return self._subject.predict(frames)
        shown = as_numpy(frames)
        first = np.repeat(shown[:, None], lead, 1)
        past = first if self._past is None else np.where(self._new[:, None, None, None, None], first, self._past)
        clips = np.concatenate([past, shown[:, None]], 1)
        self._past, self._new = clips[:, 1:], np.zeros_like(self._new)
        return np.concatenate([self._subject.predict(clip) for clip in clips])

    def reset(self, which: BoolArray | None = None) -> None:
        """Lets the marked cars, or all, forget what they have seen: their next frame is their first."""
        self._new |= np.ones_like(self._new) if which is None else np.asarray(which, np.bool_)


def _check(frames: int, count: int) -> None:
    if frames != count:
        raise ValueError(f"a session of {count} cars takes {count} frames a step; got {frames}")


def _chosen(new: torch.Tensor, first: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """Takes `first` for the cars that are new and `kept` for the others."""
    marks = new.to(kept.device).reshape(-1, *(1,) * (kept.ndim - 1))
    return torch.where(marks, first, kept)
