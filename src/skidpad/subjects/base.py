"""What every other part knows of a subject."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch

    from skidpad.core.images import FloatArray, Frames
    from skidpad.core.layers import Layer
    from skidpad.subjects.description import Description


@dataclass(frozen=True, slots=True)
class Observation:
    """Answers and the value of every neuron, of one pass over one batch.

    steering_rad: (N,), radians. values: (N, neurons) float32, on the subject's device.
    """

    steering_rad: FloatArray
    values: torch.Tensor


class Subject(Protocol):
    """A network under test; every path to it goes through its description.

    Campaigns ask from several threads at a time.
    """

    @property
    def description(self) -> Description:
        """What the subject takes and answers."""
        ...

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers whose neurons can be observed; empty for a black box."""
        ...

    @property
    def sha256(self) -> str:
        """The hash of the weights and the description."""
        ...

    def predict(self, frames: Frames) -> FloatArray:
        """Returns the steering in radians, (N,); not-finite answers are passed on, not hidden."""
        ...

    def observe(self, frames: Frames) -> Observation:
        """Returns answers and neuron values of one pass."""
        ...
