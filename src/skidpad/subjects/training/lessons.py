"""What training asks of a network: which examples an epoch takes, what a step makes smaller, and which weights are best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from skidpad.core.errors import BadSubjectError
from skidpad.core.images import FloatArray, IntArray
from skidpad.subjects.description import Decode, Description
from skidpad.subjects.inputs import HistoryKind
from skidpad.subjects.network_subject import answer_columns
from skidpad.subjects.training.data import Change, Examples

_VALIDATION_BATCH = 256
_VALIDATION_WINDOWS = 64
"""Windows are many frames each."""


def steering_answer(description: Description, answer: object, count: int) -> torch.Tensor:
    """Picks the steering, (count,) in the network's own unit, out of what the network returned."""
    if description.steering.decode is Decode.BINS:
        raise BadSubjectError(f"{description.name!r} answers in bins, which cannot be trained here; it can be tested")
    return answer_columns(description, answer, count)[:, description.steering_column]


@dataclass(frozen=True, slots=True, eq=False)
class Asking:
    """What a lesson can ask about examples, by their places (n,) and which of them are mirrored (n,)."""

    module: nn.Module
    description: Description
    examples: Examples
    labels_rad: torch.Tensor

    def answers(self, chosen: torch.Tensor, mirrored: torch.Tensor, change: Change | None = None) -> torch.Tensor:
        """Returns the network's steering, (n,) radians, on these pictures, or on what a change makes of them."""
        answer = steering_answer(self.description, self.examples(self.module, chosen, mirrored, change), len(chosen))
        return answer * self.description.steering.per_answer

    def labels(self, chosen: torch.Tensor, mirrored: torch.Tensor) -> torch.Tensor:
        """Returns the right steering, (n,) radians."""
        return torch.where(mirrored, -self.labels_rad[chosen], self.labels_rad[chosen])

    def inputs(self, chosen: torch.Tensor, mirrored: torch.Tensor) -> torch.Tensor:
        """Returns what the network is shown, for a network that takes its input whole."""
        return torch.as_tensor(self.examples(nn.Identity(), chosen, mirrored))


class Lesson:
    """What an epoch takes, what is asked of the answers, and which weights are best.

    This one takes every example once, asks for the labels by the squared error, and keeps the lowest error on the validation. key: tells
    lessons apart in a checkpoint. averaging: how much of the mean of the weights over steps is kept at each (0: there is no mean); the
    mean is validated and kept. keeps_start: whether the weights that training began with may be the best. settles: the share of the
    epochs, at the beginning, none of which may be the best, where the network is trained at once; the last of several stages overfits soon.
    later_stages: the share of the epochs that each stage after the first takes.
    """

    key: str = ""
    averaging: float = 0.0
    keeps_start: bool = False
    settles: float = 0.0
    later_stages: float = 1.0

    def order(self, rng: np.random.Generator, count: int) -> IntArray:
        """Returns the places of an epoch's examples, in their order."""
        return rng.permutation(count)

    def loss(self, asking: Asking, chosen: torch.Tensor, mirrored: torch.Tensor) -> torch.Tensor:
        """Returns what a step makes smaller."""
        return nn.functional.mse_loss(asking.answers(chosen, mirrored), asking.labels(chosen, mirrored))

    def score(self, answers_rad: FloatArray, labels_rad: FloatArray, first_rad: FloatArray) -> float:  # noqa: ARG002 - for other lessons
        """Returns how bad the answers to the validation are. first_rad: those of the weights that training began with, if it keeps them."""
        return float(np.mean((answers_rad - labels_rad) ** 2))


def answers_of(asking: Asking, count: int, device: torch.device) -> FloatArray:
    """Returns the network's steering on the first `count` examples, (count,) radians; the network is in evaluation mode already."""
    single = asking.description.input.history.kind is HistoryKind.SINGLE
    places = torch.split(torch.arange(count, device=device), _VALIDATION_BATCH if single else _VALIDATION_WINDOWS)
    with torch.inference_mode():
        found = [asking.answers(part, torch.zeros_like(part, dtype=torch.bool)).double().cpu() for part in places if len(part)]
    return torch.cat(found).numpy() if found else np.zeros(0)
