"""What training asks beyond the losses of UNIT and MUNIT: that contrast and the road are kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from skidpad.stimuli.weather.scenes import Scenes

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


def road_loss(teacher: nn.Module, before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """Returns how far the teacher's classes of each pixel change from one picture to the other: their divergence, 0 where they agree.

    teacher: a frozen network from pictures (N, 3, height, width) within 0..1 to the logits of what each pixel shows. before, after:
    (N, 3, height, width) within -1..1.

    Deviates: neither UNIT nor MUNIT has it. Where the weather's pictures have grass in the place of the drive's road, both learn to
    paint the road green; edges stay in place, so that no other loss objects.
    """
    side = max(_TEACHER_STRIDE, round(_TEACHER_SCALE * before.shape[-1] / _TEACHER_STRIDE) * _TEACHER_STRIDE)
    small = [functional.interpolate(each, (side, side), mode="bilinear", antialias=True).add(1.0).mul(0.5) for each in (before, after)]
    with torch.no_grad():
        wanted = functional.log_softmax(teacher(small[0]).float(), 1)
    found = functional.log_softmax(teacher(small[1]).float(), 1)
    return (wanted.exp() * (wanted - found)).sum(1).mean()


_TEACHER_STRIDE = 32
_TEACHER_SCALE = 2 / 3
"""The teacher looks at squares of this share of a crop's side: about as large as it saw roads while it learned."""


def alike(target: Scenes, source: Scenes, teacher: nn.Module, left_out: float) -> Scenes:
    """Returns the target's pictures without the share of them whose road lies elsewhere than the source's does on average."""
    usual = torch.stack([_road_map(picture, teacher) for picture in source.pictures[:: max(1, len(source) // 128)]]).mean(0)
    likeness = [
        float(torch.minimum(found, usual).sum() / torch.maximum(found, usual).sum())
        for found in (_road_map(picture, teacher) for picture in target.pictures)
    ]
    kept = sorted(np.argsort(likeness, kind="stable")[round(left_out * len(target)) :].tolist())
    return replace(target, pictures=tuple(target.pictures[place] for place in kept))


def _road_map(picture: torch.Tensor, teacher: nn.Module) -> torch.Tensor:
    """Returns how likely each cell of a picture is road or marking, (12, 16) within 0..1."""
    small = functional.interpolate(picture.permute(2, 0, 1)[None].float() / 255.0, (128, 192), mode="bilinear", antialias=True)
    with torch.inference_mode():
        return functional.adaptive_avg_pool2d(teacher(small).float().softmax(1)[:, :2].sum(1), (12, 16))[0]
