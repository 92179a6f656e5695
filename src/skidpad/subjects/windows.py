"""From frames to what a network is shown of them: windows over time, optical flow, and networks in two stages."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from math import pi
from typing import Protocol, runtime_checkable

import cv2
import numpy as np
import torch

from skidpad.core.images import Frames
from skidpad.subjects.inputs import Colour, HistoryKind, InputSpec, Range, check_history
from skidpad.subjects.preprocess import Preprocessor, recolour
from skidpad.subjects.probe import Activations, NeuronUnit, record

# The settings of Autumn's preprocessing: half-size pyramid of 3 levels, windows of 15 px, 3 passes, polynomials over 5 px.
_PYRAMID, _LEVELS, _WINDOW_PX, _PASSES, _POLYNOMIAL_PX, _SIGMA = 0.5, 3, 15, 3, 5, 1.2


def flows(grey: torch.Tensor, windows: torch.Tensor, threads: int = 1) -> torch.Tensor:
    """Returns how far every pixel moved since the frame before, (frames, height, width, 2) float32 in px to the right and down.

    grey: (frames, height, width, 1) uint8 on the CPU. windows: (N, T) rows of `grey`; neighbours in a window are neighbours in
    time. Each pair is computed once, however many windows hold it; a frame that comes first in all its windows has no flow (0).
    The result does not depend on `threads`.

    Reference: Farnebäck 2003, Two-Frame Motion Estimation Based on Polynomial Expansion, by OpenCV, with the settings of the
    Udacity community model autumn.
    """
    pictures = grey[..., 0].contiguous().numpy()
    found = np.zeros((*pictures.shape, 2), np.float32)
    before, after = np.unique(windows.cpu().unfold(1, 2, 1).reshape(-1, 2).numpy(), axis=0).T

    def fill(pair: tuple[int, int]) -> None:
        first, second = pair
        args = (_PYRAMID, _LEVELS, _WINDOW_PX, _PASSES, _POLYNOMIAL_PX, _SIGMA, 0)
        found[second] = cv2.calcOpticalFlowFarneback(pictures[first], pictures[second], np.zeros_like(found[second]), *args)

    pairs = list(zip(before.tolist(), after.tolist(), strict=True))
    if threads == 1:
        for pair in pairs:
            fill(pair)
    else:
        with ThreadPoolExecutor(threads, thread_name_prefix="skidpad-flow") as pool:
            list(pool.map(fill, pairs))
    return torch.from_numpy(found)


def flow_pictures(moved: torch.Tensor) -> torch.Tensor:
    """Paints flow, (N, height, width, 2), as uint8 RGB (N, height, width, 3): the hue is the direction, the value the distance.

    A hue of 0 (red) is to the right, and hues go round clockwise; the longest way within a picture has the value 255, the
    shortest 0; the saturation is full.

    Reference: Udacity self-driving-car, steering-models/community-models/autumn, README, Data Processing.
    """
    count, height, width, _ = moved.shape
    tall = moved.cpu().numpy().reshape(count * height, width, 2)
    distance, angle_rad = cv2.cartToPolar(np.ascontiguousarray(tall[..., 0]), np.ascontiguousarray(tall[..., 1]))
    each = np.asarray(distance).reshape(count, -1)
    low, high = each.min(1, keepdims=True), each.max(1, keepdims=True)
    value = (each - low) * (255.0 / np.where(high > low, high - low, 1.0))
    hsv = np.full((count * height, width, 3), 255, np.uint8)
    hsv[..., 0] = np.minimum(np.asarray(angle_rad) * (90.0 / pi), 179.0)
    hsv[..., 2] = np.minimum(value, 255.0).reshape(count * height, width)
    return torch.from_numpy(np.asarray(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)).reshape(count, height, width, 3))


_CPU = torch.device("cpu")


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

    def windows(self, clip: Frames, now: Frames | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the frames of a clip at the network's size, after them those of `now`, and the windows of the answered frames."""
        count = max(len(clip) - self.lead, 0)
        if now is not None and len(now) != count:
            raise ValueError(f"a clip of {len(clip)} frames with a lead of {self.lead} takes {count} frames `now`; got {len(now)}")
        small = self.shrink(clip)
        return small if now is None else torch.cat([small, self.shrink(now)]), sliding(count, self.lead, now=now is not None)

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


@runtime_checkable
class TwoStage(Protocol):
    """A torch module that answers for windows in two steps; as a whole it takes (N, T, channels, height, width) like others."""

    def features(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns the features of single frames, (N, channels, height, width) to (N, features)."""

    def alone(self, codes: torch.Tensor) -> torch.Tensor:
        """Answers for single frames from their features, (N, outputs); what the features are trained with."""

    def forward_windows(self, codes: torch.Tensor, windows: torch.Tensor) -> torch.Tensor:
        """Answers for windows, (N, outputs); windows: (N, T) rows of the features in `codes`, oldest first."""


def compact(codes: torch.Tensor, windows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Leaves out the rows that no window holds; returns the codes and the windows over them, on the codes' device."""
    rows, places = torch.unique(windows, return_inverse=True)
    return codes[rows], places.to(codes.device)


class StagedClip:
    """One clip on its way through a network in two stages.

    small: (rows, ...) the frames at the network's size. windows: (N, T) rows, in order of time, as `sliding` gives them.
    The answered frame's own features are computed together with its answer, so that a probe sees both as one pass, and sees
    the first stage on the answered frame alone.
    """

    def __init__(
        self, module: TwoStage, inputs: Callable[[torch.Tensor], torch.Tensor], small: torch.Tensor, windows: torch.Tensor
    ) -> None:
        self._module = module
        self._inputs = inputs
        self._small = small
        self._windows = windows
        self._codes: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self._windows)

    def answer(self, part: slice) -> object:
        """Returns the network's answer for some of the windows."""
        with torch.inference_mode():
            self._look_back(part)
            return self._answered(part)

    def record(self, part: slice, unit: NeuronUnit) -> tuple[object, Activations]:
        """Returns the answer and the value of every neuron, of one pass."""
        with torch.inference_mode():
            self._look_back(part)
        return record(lambda _: self._answered(part), self._windows[part].to(self._small.device), unit)

    def _look_back(self, part: slice) -> None:
        """Computes the features of frames that are never answered for, in batches as large as the caller's own."""
        if self._codes is None:
            past = torch.ones(len(self._small), dtype=torch.bool)
            past[self._windows[:, -1]] = False
            for rows in torch.split(torch.nonzero(past)[:, 0], part.stop - part.start):
                self._keep(rows)

    def _keep(self, rows: torch.Tensor) -> torch.Tensor:
        values = self._module.features(self._inputs(self._small[rows]))
        if self._codes is None:
            self._codes = values.new_zeros((len(self._small), *values.shape[1:]))
        self._codes[rows] = values
        return self._codes

    def _answered(self, part: slice) -> torch.Tensor:
        windows = self._windows[part]
        return self._module.forward_windows(*compact(self._keep(windows[:, -1]), windows))
