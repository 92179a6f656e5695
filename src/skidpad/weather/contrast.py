"""What is lighter than its surroundings stays lighter: a loss against scenes that come out as their own negative."""

import torch
from torch.nn import functional

_WINDOW = 16
_MARGIN = 0.4
_FLOOR = 1e-3
"""Of the variance in a window, light within -1..1: below it there is nothing to keep."""


def contrast_loss(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """Returns how far the light in windows of 32 pixels falls short of going with the original's, 0 (kept) to 1.4 (inverted).

    before, after: (N, 3, height, width) within -1..1. The correlation of the light in each window should reach 0.4; windows
    count by the contrast that the original has in them, so that sky and asphalt are free to change.

    Deviates: neither UNIT nor MUNIT has it. Both may learn to paint dark trees as bright sky and the reverse, for no loss of
    theirs tells the two apart; the pictures are then no road, and a wrong answer on them is no finding.
    """
    light_before, light_after = _light(before), _light(after)
    mean_before, mean_after = _mean(light_before), _mean(light_after)
    contrast_before = (_mean(light_before.square()) - mean_before.square()).clamp(min=0.0)
    contrast_after = (_mean(light_after.square()) - mean_after.square()).clamp(min=0.0)
    together = _mean(light_before * light_after) - mean_before * mean_after
    correlation = together / (contrast_before * contrast_after + _FLOOR**2).sqrt()
    weight = contrast_before / (contrast_before + _FLOOR * 10.0)
    return (weight * functional.relu(_MARGIN - correlation)).sum() / weight.sum().clamp(min=1.0)


def _light(pictures: torch.Tensor) -> torch.Tensor:
    return functional.avg_pool2d(pictures.float().mean(dim=1, keepdim=True), 2)


def _mean(light: torch.Tensor) -> torch.Tensor:
    return functional.avg_pool2d(light, min(_WINDOW, *light.shape[2:]), _WINDOW // 2)
