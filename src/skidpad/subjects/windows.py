"""From frames to the inputs of a network that looks back: what one frame costs is done once a frame.

A clip becomes codes, one row a frame; a window is the rows that one answer looks at, oldest first. So the same few lines serve
a clip, a frame that is changed in its own window alone, a drive in training and a car in a closed loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch

from skidpad.core.errors import BadSubjectError
from skidpad.core.images import Frames
from skidpad.subjects.description import Colour, HistoryKind, InputSpec, Range
from skidpad.subjects.flow import flow_pictures, flows
from skidpad.subjects.preprocess import Preprocessor, recolour

_CPU = torch.device("cpu")
_PAIRED = (HistoryKind.DIFFERENCES, HistoryKind.OPTICAL_FLOW)
"""Kinds that compare a frame with the one before it."""


def check_history(spec: InputSpec) -> None:
    """Refuses a history that nothing can be made of."""
    history = spec.history
    if history.kind in _PAIRED and history.frames < 2:
        raise BadSubjectError(f"a history of kind {history.kind.value!r} compares frames; got frames = {history.frames}, write 2 or more")


def input_channels(spec: InputSpec) -> int:
    """Returns how many channels one input has, after the frames of a window were brought together."""
    frames = {HistoryKind.STACK: spec.history.frames, HistoryKind.DIFFERENCES: spec.history.frames - 1}.get(spec.history.kind, 1)
    return frames * spec.colour.channels


def sliding(count: int, lead: int, *, now: bool = False) -> torch.Tensor:
    """Returns the windows of the last `count` frames of a clip, (count, lead + 1) rows, oldest first.

    With `now`, `count` more rows follow those of the clip, and each takes the place of the answered frame in its own window.
    """
    windows = torch.arange(count)[:, None] + torch.arange(lead + 1)
    if now:
        windows[:, -1] = torch.arange(count) + lead + count
    return windows


@dataclass(frozen=True, slots=True)
class Assembler:
    """Makes a network's inputs of frames, for every kind of history.

    | kind | input of a window of T frames with C channels | order |
    | --- | --- | --- |
    | single | C channels | |
    | stack | T x C channels | oldest frame first |
    | differences | (T - 1) x C channels: -255..255 are mapped to the range, no change to its middle | newest difference first |
    | optical-flow | C channels: the mean of the T - 1 flows, painted (see `flow`) in the described colour | |
    | recurrent | T inputs of C channels each, an axis of their own after the batch | oldest first |

    Reference: for differences, Udacity self-driving-car, steering-models/community-models/rambo, README, Pre-processing.
    Deviates: flow is computed on what is left after crop and resizing, ten times faster than on the whole frame.
    """

    spec: InputSpec
    device: torch.device
    _sight: Preprocessor = field(init=False, repr=False, compare=False)
    _shrink: Preprocessor = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_history(self.spec)
        flow = self.spec.history.kind is HistoryKind.OPTICAL_FLOW
        sight = Preprocessor(self.spec, self.device)
        object.__setattr__(self, "_sight", sight)
        # OpenCV's flow wants grey bytes on the CPU; the described colour is that of the painted flow.
        grey = Preprocessor(replace(self.spec, colour=Colour.GREY, range=Range()), _CPU) if flow else sight
        object.__setattr__(self, "_shrink", grey)

    @property
    def lead(self) -> int:
        """How many frames a window holds before the answered one."""
        return self.spec.history.frames - 1

    def shrink(self, frames: Frames) -> torch.Tensor:
        """Brings frames to the network's size: bytes, (N, height_px, width_px, channels); grey for optical flow."""
        return self._shrink.shrink(frames)

    def codes(self, small: torch.Tensor, windows: torch.Tensor, threads: int = 1) -> torch.Tensor:
        """Returns what windows are made of, a row for each frame: its bytes, or its flow since the frame before it in `windows`."""
        return flows(small, windows, threads) if self.spec.history.kind is HistoryKind.OPTICAL_FLOW else small

    def pictures(self, codes: torch.Tensor, windows: torch.Tensor) -> torch.Tensor:
        """Paints the mean flow of each window, (N, height_px, width_px, channels) uint8, as `normalise` takes it."""
        return recolour(flow_pictures(codes[windows[:, 1:]].mean(1)), self.spec.colour)

    def maps(self, pictures: torch.Tensor) -> torch.Tensor:
        """Returns what `normalise` does, map by map in memory."""
        return self._sight.maps(pictures)

    def normalise(self, pictures: torch.Tensor) -> torch.Tensor:
        """Makes the inputs of single pictures at the network's size."""
        return self._sight.normalise(pictures)

    def inputs(self, codes: torch.Tensor, windows: torch.Tensor) -> torch.Tensor:
        """Returns the network's inputs for (N, T) windows over the rows of `codes`, float32 on the device."""
        kind = self.spec.history.kind
        if kind is HistoryKind.OPTICAL_FLOW:
            return self.normalise(self.pictures(codes, windows))
        return self.joined(codes[windows[:, -1]] if kind is HistoryKind.SINGLE else codes[windows])

    def joined(self, seen: torch.Tensor) -> torch.Tensor:
        """Brings the frames of each window together, (N, T, height_px, width_px, channels) bytes; without T for single ones."""
        kind = self.spec.history.kind
        if kind in {HistoryKind.SINGLE, HistoryKind.RECURRENT}:
            return self.normalise(seen)
        values = seen.to(self.device).to(torch.float32)
        if kind is HistoryKind.DIFFERENCES:
            values = (values[:, 1:] - values[:, :-1]).flip(1).add_(255.0).mul_(0.5)
        beside = self._sight.scaled(values).permute(0, 2, 3, 1, 4)
        return self._sight.ordered(beside.reshape(*beside.shape[:3], -1))
