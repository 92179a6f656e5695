"""What a training tells of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import torch

from skidpad.subjects.probe import record

if TYPE_CHECKING:
    from skidpad.subjects.probe import Activations, NeuronUnit


@dataclass(frozen=True, slots=True)
class EpochRow:
    """One row of the training curve; errors are mean squares in radians squared (NaN: no validation).

    stage: what was trained, where a network is trained in stages.
    """

    epoch: int
    learning_rate: float
    training_mse_rad2: float
    validation_mse_rad2: float
    stage: str = ""


@dataclass(frozen=True, slots=True)
class FitReport:
    """The curve, and the epoch whose weights the network has now."""

    curve: tuple[EpochRow, ...]
    best_epoch: int

    @property
    def best(self) -> EpochRow:
        """The row of the best epoch."""
        return self.curve[self.best_epoch - 1]


@runtime_checkable
class TwoStage(Protocol):
    """A torch module that answers for windows in two steps; as a whole it takes (N, T, channels, height, width) like others."""

    def features(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns the features of single frames, (N, channels, height, width) to (N, features)."""
        ...

    def alone(self, codes: torch.Tensor) -> torch.Tensor:
        """Answers for single frames from their features, (N, outputs); what the features are trained with."""
        ...

    def forward_windows(self, codes: torch.Tensor, windows: torch.Tensor) -> torch.Tensor:
        """Answers for windows, (N, outputs); windows: (N, T) rows of the features in `codes`, oldest first."""
        ...


def compact(codes: torch.Tensor, windows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Leaves out the rows that no window holds; returns the codes and the windows over them, on the codes' device."""
    rows, places = torch.unique(windows, return_inverse=True)
    return codes[rows], places.to(codes.device)


class StagedClip:
    """One clip on its way through a network in two stages.

    small: (rows, ...) the frames at the network's size. windows: (N, T) rows, in order of time, as `windows.sliding` gives them.
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
