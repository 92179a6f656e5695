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
    """Answers and the value of every neuron, of one pass over one clip.

    answers: (N, outputs), in the order of the description; angles in radians. values: (N, neurons) float32, on the
    subject's device; no column for a black box.
    """

    answers: FloatArray
    values: torch.Tensor


@dataclass(frozen=True, slots=True)
class DeviceObservation:
    """An observation whose answers stay on the subject's device too, so that nobody waits for them.

    answers: (N, outputs) float64, angles in radians. values: (N, neurons) float32.
    """

    answers: torch.Tensor
    values: torch.Tensor


class Subject(Protocol):
    """A network under test; every path to it goes through its description.

    It is asked about a clip, (lead + N, height, width, 3) in order of time, and answers for the last N frames: each is
    seen together with the `lead` frames before it. Most subjects have no memory (lead = 0), and a clip is N frames in any
    order. `now`, (N, height, width, 3), takes the place of each answered frame in its own window alone, so that the past
    stays as the clip has it. Campaigns ask from several threads at a time.
    """

    @property
    def description(self) -> Description:
        """What the subject takes and answers."""

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers whose neurons can be observed; empty for a black box."""

    @property
    def sha256(self) -> str:
        """The hash of the weights and the description."""

    @property
    def lead(self) -> int:
        """How many frames before the one that it answers for the subject looks at."""

    def predict(self, clip: Frames, now: Frames | None = None) -> FloatArray:
        """Returns all outputs, (N, outputs), angles in radians; not-finite answers are passed on, not hidden."""

    def observe(self, clip: Frames, now: Frames | None = None) -> Observation:
        """Returns answers and neuron values of one pass."""
