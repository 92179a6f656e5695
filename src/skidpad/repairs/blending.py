"""Weights of repaired networks: those between the first network's and the trained ones, and how they are written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from safetensors.torch import save as save_tensors

from skidpad.subjects.description import write_atomically
from skidpad.subjects.training.training import save_subject

if TYPE_CHECKING:
    from pathlib import Path

    from torch import nn

    from skidpad.subjects.description import Description

BLENDS = (1.0, 0.8, 0.6, 0.4, 0.2, 0.1)
"""How far from the start's weights to the trained ones: a network in between may keep the clean accuracy and most of the repair.

Reference: Wortsman et al. 2022, Robust fine-tuning of zero-shot models (WiSE-FT), section 3."""


def write_network(module: nn.Module, description: Description, weights: Path) -> None:
    """Writes a network's weights and, where it is one of the zoo, the description beside them."""
    if description.architecture is not None:
        save_subject(module, description, weights)
        return
    write_atomically(weights, save_tensors({name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()}))


def between(start: Mapping[str, torch.Tensor], end: Mapping[str, torch.Tensor], share: float) -> dict[str, torch.Tensor]:
    """Returns the weights at a share of the way; counters, which are whole, are the end's."""
    return {
        name: torch.lerp(start[name].to(last.device), last, share) if share < 1.0 and last.is_floating_point() else last
        for name, last in end.items()
    }
