"""Labelled windows on the device, from which a training step takes its batch; no window is written out before its turn."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import nn

from skidpad.core.errors import BadSubjectError
from skidpad.drives.prefetch import default_threads
from skidpad.subjects.description import HistoryKind, InputSpec
from skidpad.subjects.labelled import Labelled
from skidpad.subjects.staged import TwoStage, compact
from skidpad.subjects.windows import Assembler

_FEATURE_BATCH = 64
_FLOW_BATCH = 256


class Examples(Protocol):
    """N examples of one stage of training."""

    def __len__(self) -> int:
        """How many examples there are."""
        ...

    def answer(self, module: nn.Module, chosen: torch.Tensor, mirrored: torch.Tensor) -> object:
        """Returns what the module answers for the examples at `chosen`, those marked `mirrored` flipped left to right."""
        ...


class WindowExamples:
    """Examples for a network that takes its input whole; a mirrored window is mirrored in all its frames."""

    def __init__(self, data: Labelled, spec: InputSpec, device: torch.device) -> None:
        self._assembler = Assembler(spec, device)
        self._pictures = data.pictures.to(device)
        self._windows = torch.from_numpy(data.rows()).to(device)
        self._single = spec.history.kind is HistoryKind.SINGLE

    def __len__(self) -> int:
        return len(self._windows)

    def answer(self, module: nn.Module, chosen: torch.Tensor, mirrored: torch.Tensor) -> object:
        """Returns the module's answer for whole windows."""
        windows = self._windows[chosen]
        seen = self._pictures[windows[:, -1] if self._single else windows]
        return module(self._assembler.joined(_flipped(seen, mirrored)))


class FlowExamples:
    """Examples for a network that sees optical flow, which is computed once; mirrored frames have a flow of their own."""

    def __init__(self, data: Labelled, spec: InputSpec, device: torch.device, *, mirror: bool) -> None:
        self._assembler = Assembler(spec, device)
        windows = torch.from_numpy(data.rows())
        ways = [data.pictures, data.pictures.flip(2)] if mirror else [data.pictures]
        self._pictures = torch.stack([self._painted(pictures, windows) for pictures in ways]).to(device)

    def __len__(self) -> int:
        return self._pictures.shape[1]

    def answer(self, module: nn.Module, chosen: torch.Tensor, mirrored: torch.Tensor) -> object:
        """Returns the module's answer for painted flow."""
        return module(self._assembler.normalise(self._pictures[mirrored.long(), chosen]))

    def _painted(self, pictures: torch.Tensor, windows: torch.Tensor) -> torch.Tensor:
        codes = self._assembler.codes(pictures, windows, default_threads())
        return torch.cat([self._assembler.pictures(codes, part) for part in torch.split(windows, _FLOW_BATCH)])


class FrameExamples:
    """Examples of the first stage of a network in two: the last frame of every window, answered for alone."""

    def __init__(self, data: Labelled, spec: InputSpec, device: torch.device) -> None:
        self._assembler = Assembler(spec, device)
        self._pictures = data.pictures.to(device)
        self._rows = torch.from_numpy(data.rows()[:, -1]).to(device)

    def __len__(self) -> int:
        return len(self._rows)

    def answer(self, module: nn.Module, chosen: torch.Tensor, mirrored: torch.Tensor) -> object:
        """Returns the first stage's own answer."""
        seen = _flipped(self._pictures[self._rows[chosen]], mirrored)
        staged = two_stages(module)
        return staged.alone(staged.features(self._assembler.normalise(seen)))


class FeatureExamples:
    """Examples of the second stage: windows over features that no longer change, those of mirrored frames behind the others."""

    def __init__(self, module: nn.Module, data: Labelled, spec: InputSpec, device: torch.device, *, mirror: bool) -> None:
        assembler, staged = Assembler(spec, device), two_stages(module.eval())
        self._windows = torch.from_numpy(data.rows()).to(device)
        self._count = len(data.pictures)
        ways = [data.pictures, data.pictures.flip(2)] if mirror else [data.pictures]
        with torch.no_grad():
            self._codes = torch.cat(
                [staged.features(assembler.normalise(part)) for pictures in ways for part in torch.split(pictures, _FEATURE_BATCH)]
            )

    def __len__(self) -> int:
        return len(self._windows)

    def answer(self, module: nn.Module, chosen: torch.Tensor, mirrored: torch.Tensor) -> object:
        """Returns the second stage's answer."""
        windows = self._windows[chosen] + mirrored.long()[:, None] * self._count
        return two_stages(module).forward_windows(*compact(self._codes, windows))


def two_stages(module: nn.Module) -> TwoStage:
    """Returns the module as one in two stages."""
    if not isinstance(module, TwoStage):
        raise BadSubjectError(f"a {type(module).__name__} has no two stages to train one after the other")
    return module


def _flipped(seen: torch.Tensor, mirrored: torch.Tensor) -> torch.Tensor:
    """Flips the width, the last axis but one, of those that are to be mirrored."""
    marks = mirrored.reshape(-1, *(1,) * (seen.ndim - 1))
    return torch.where(marks, seen.flip(-2), seen)
