"""Teaches the referee's network where the road is, from pictures with masks.

The pictures are changed while it learns in every way that keeps the road where it is (light, colour, veils, noise, blur, mirror, cut), so
that it knows the road by night and in rain; and in one that does not: the road is painted as grass or as what stands beside it, and is then
no road.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
from torch.nn import functional

from skidpad.core.errors import SkidpadError
from skidpad.core.images import BoolArray, FloatArray
from skidpad.core.progress import Progress, silent
from skidpad.referee.network import HEIGHT_PX, WIDTH_PX, Class, RoadNet, segmented

STORED_WIDTH_PX, STORED_HEIGHT_PX = 320, 240
"""The size at which pictures wait in memory: enough for crops of half a side."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelledPictures:
    """Pictures (N, 3, height, width) and their classes (N, height, width), bytes on one device; IGNORED counts for nothing."""

    pictures: torch.Tensor
    classes: torch.Tensor

    def __len__(self) -> int:
        return len(self.pictures)

    def to(self, device: str) -> LabelledPictures:
        """Returns the pictures on a device."""
        return LabelledPictures(self.pictures.to(device), self.classes.to(device))


IGNORED = 255
COMMA10K: Mapping[int, int] = {1: Class.ROAD, 2: Class.MARKING, 3: Class.OTHER, 4: Class.MOVABLE, 5: Class.OWN_CAR}
"""The values in comma10k's masks as they lie here, one number a class."""


def read_labelled(pairs: Sequence[tuple[Path, Path]], values: Mapping[int, int]) -> LabelledPictures:
    """Reads pictures with their masks, whose `values` stand for classes; other values are ignored."""
    table = np.full(256, IGNORED, np.uint8)
    for value, each in values.items():
        table[value] = int(each)
    size = (STORED_WIDTH_PX, STORED_HEIGHT_PX)
    frames = np.empty((len(pairs), STORED_HEIGHT_PX, STORED_WIDTH_PX, 3), np.uint8)
    classes = np.empty((len(pairs), STORED_HEIGHT_PX, STORED_WIDTH_PX), np.uint8)
    for place, (picture, mask) in enumerate(pairs):
        colour, grey = cv2.imread(str(picture), cv2.IMREAD_COLOR), cv2.imread(str(mask), cv2.IMREAD_GRAYSCALE)
        if colour is None or grey is None:
            raise SkidpadError(f"cannot read {picture if colour is None else mask}; pictures and masks must both be image files")
        frames[place] = cv2.resize(colour[..., ::-1], size, interpolation=cv2.INTER_AREA)
        classes[place] = table[cv2.resize(grey, size, interpolation=cv2.INTER_NEAREST)]
    return LabelledPictures(torch.from_numpy(frames).permute(0, 3, 1, 2).contiguous(), torch.from_numpy(classes))


@dataclass(frozen=True, slots=True)
class RefereeSettings:
    """One training. steps: batches of `batch` crops; the rate falls from `rate` to 0 along a half cosine."""

    filters: int = 24
    steps: int = 12000
    batch: int = 64
    rate: float = 3e-3
    seed: int = 0


def train_referee(data: LabelledPictures, settings: RefereeSettings, device: str = "cpu", progress: Progress = silent) -> RoadNet:
    """Trains a network; on a GPU in bfloat16."""
    torch.manual_seed(settings.seed)
    generator = torch.Generator(device=device).manual_seed(settings.seed)
    network = RoadNet(settings.filters).to(device).train()
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload] # torch's stubs know it of tensors alone
    data = data.to(device)
    optimiser = torch.optim.AdamW(network.parameters(), settings.rate, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, settings.rate, settings.steps, pct_start=0.1)
    ema = torch.optim.swa_utils.get_ema_multi_avg_fn(0.998)  # type: ignore[no-untyped-call] # torch leaves it untyped
    averaged = torch.optim.swa_utils.AveragedModel(network, multi_avg_fn=ema, use_buffers=True)
    weights = torch.tensor([1.0, 3.0, 1.0, 1.5, 1.0], device=device)
    for step in range(settings.steps):
        places = torch.randint(len(data), (settings.batch,), generator=generator, device=device)
        pictures, classes = augmented(data.pictures[places], data.classes[places], generator)
        with torch.autocast(device, torch.bfloat16, enabled=device != "cpu"):
            logits = network(pictures.to(memory_format=torch.channels_last))
        loss = functional.cross_entropy(logits.float(), classes, weights, ignore_index=IGNORED)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call] # torch leaves it untyped
        torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimiser.step()
        schedule.step()
        averaged.update_parameters(network)
        if step % 50 == 0:
            progress(step, settings.steps, f"loss {float(loss.detach()):.3f}")
    kept = averaged.module.eval()
    if not isinstance(kept, RoadNet):
        raise TypeError(type(kept).__name__)
    return kept


def augmented(pictures: torch.Tensor, classes: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Cuts and changes a batch: pictures (N, 3, HEIGHT_PX, WIDTH_PX) within 0..1, classes (N, HEIGHT_PX, WIDTH_PX)."""
    count, device = len(pictures), pictures.device

    def uniform(low: float, high: float, *shape: int) -> torch.Tensor:
        return torch.rand((count, *(shape or (1, 1, 1))), generator=generator, device=device) * (high - low) + low

    def chance(share: float) -> torch.Tensor:
        return uniform(0.0, 1.0) < share

    grid = _crops(uniform, count, device)
    seen = functional.grid_sample(pictures.float() / 255.0, grid, mode="bilinear", padding_mode="reflection", align_corners=False)
    looked_up = functional.grid_sample(classes[:, None].float(), grid, mode="nearest", padding_mode="reflection", align_corners=False)
    labels = looked_up[:, 0].long()
    seen, labels = _painted_over(seen, labels, uniform, chance)
    # Light and colour: gamma, gain of each channel, saturation, exposure up to three stops down.
    seen = seen.clamp_min(1e-4) ** torch.exp(uniform(-0.5, 0.5))
    seen = seen * torch.exp(uniform(-0.35, 0.35, 3, 1, 1)) * torch.where(chance(0.25), 2.0 ** uniform(-3.0, 0.0), 1.0)
    grey = seen.mean(1, keepdim=True)
    seen = grey + (seen - grey) * uniform(0.0, 1.5)
    # A veil of one colour, thicker towards the top half of the time, as fog is: the cube makes thick ones rare.
    height = torch.linspace(1.0, 0.0, HEIGHT_PX, device=device)[None, None, :, None]
    thickness = uniform(0.0, 0.92) ** 3.0
    veil = torch.where(chance(0.5), thickness, thickness * height.clamp_min(0.2))
    seen = seen * (1.0 - veil) + veil * (uniform(0.2, 1.0) + uniform(-0.05, 0.05, 3, 1, 1))
    # Blur by a smaller picture, then noise.
    small = functional.interpolate(seen, scale_factor=0.5, mode="bilinear", antialias=True)
    soft = functional.interpolate(small, size=(HEIGHT_PX, WIDTH_PX), mode="bilinear")
    seen = torch.where(chance(0.25), soft, seen)
    noise = torch.randn(seen.shape, generator=generator, device=device)
    seen = seen + noise * (uniform(0.0, 1.0) ** 3.0) * 0.08
    return seen.clamp(0.0, 1.0), labels


def _crops(uniform: Callable[..., torch.Tensor], count: int, device: torch.device) -> torch.Tensor:
    """Returns where each pixel of a crop is looked up: part of the picture, mirrored or not, a little turned, of another shape."""
    height = uniform(0.5, 1.0, 1)[:, 0]
    width = (height * torch.exp(uniform(-0.25, 0.25, 1)[:, 0])).clamp(0.45, 1.0)
    across = uniform(-1.0, 1.0, 1)[:, 0] * (1.0 - width)
    down = uniform(-1.0, 1.0, 1)[:, 0] * (1.0 - height)
    mirror = torch.where(uniform(0.0, 1.0, 1)[:, 0] < 0.5, -1.0, 1.0)
    turn = uniform(-0.06, 0.06, 1)[:, 0]
    rows = torch.stack((mirror * width, -turn * height, across), 1), torch.stack((turn * width, height, down), 1)
    return functional.affine_grid(torch.stack(rows, 1), [count, 1, HEIGHT_PX, WIDTH_PX], align_corners=False).to(device)


def _painted_over(
    seen: torch.Tensor, labels: torch.Tensor, uniform: Callable[..., torch.Tensor], chance: Callable[[float], torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Paints the road of some pictures as grass, or as a picture's upper half: what looks so is no road, wherever it lies."""
    road = (labels == Class.ROAD) | (labels == Class.MARKING)
    rough, fine = uniform(0.0, 0.6), uniform(0.0, 0.5)
    coarse = functional.interpolate(uniform(-1.0, 1.0, 1, HEIGHT_PX // 4, WIDTH_PX // 4), size=seen.shape[-2:], mode="bilinear")
    noise = (1.0 + rough * coarse) * (1.0 + fine * uniform(-1.0, 1.0, 1, HEIGHT_PX, WIDTH_PX))
    # From brown to yellow to green: green leads blue everywhere, and red only where it is dry.
    green = uniform(0.25, 0.65)
    base = torch.cat((green * uniform(0.45, 1.15), green, green * uniform(0.1, 0.6)), 1)
    light = seen.mean((1, 2, 3), keepdim=True) / 0.4
    # Half of them let the road's own light and dark through, as a translation that repaints it does.
    own = seen.mean(1, keepdim=True) / seen.mean((1, 2, 3), keepdim=True).clamp_min(0.05)
    grass = base * noise * torch.where(chance(0.5), light, light * own.clamp(0.3, 2.0))
    upper = functional.interpolate(seen[:, :, : HEIGHT_PX // 2].flip(2), size=seen.shape[-2:], mode="bilinear")
    upper_other = functional.interpolate((labels[:, None, : HEIGHT_PX // 2] == Class.OTHER).float().flip(2), size=seen.shape[-2:]) > 0.5
    paint_grass, paint_upper = chance(0.14), chance(0.05)
    over = road[:, None] & (paint_grass | (paint_upper & upper_other))
    # Half of them only in part, left or right of a line, as a translation that loses the road does.
    across = torch.linspace(-1.0, 1.0, seen.shape[-1], device=seen.device)[None, None, None]
    part = torch.where(
        chance(0.5), (across * torch.sign(uniform(-1.0, 1.0))) > uniform(-0.5, 0.5), torch.ones_like(across, dtype=torch.bool)
    )
    over = over & part
    seen = torch.where(over, torch.where(paint_grass, grass, upper), seen)
    return seen, torch.where(over[:, 0], int(Class.OTHER), labels)


@dataclass(frozen=True, slots=True)
class Scores:
    """How well a network knows the classes: intersection over union of each, NaN where it does not occur; drivable: road and marking."""

    by_class: Mapping[Class, float]
    drivable: float


def scores_of(network: RoadNet, data: LabelledPictures, batch: int = 32) -> Scores:
    """Measures a network on labelled pictures, at the network's own size."""
    both = np.zeros((len(Class) + 1, 2))
    for first in range(0, len(data), batch):
        some = slice(first, first + batch)
        classes = functional.interpolate(data.classes[some, None].float(), size=(HEIGHT_PX, WIDTH_PX), mode="nearest")[:, 0].numpy()
        found = segmented(network, data.pictures[some].permute(0, 2, 3, 1).numpy())
        known = classes != IGNORED
        pairs: list[tuple[BoolArray, BoolArray]] = [(found == each, classes == each) for each in Class]
        pairs.append((found <= Class.MARKING, classes <= Class.MARKING))
        for place, (one, other) in enumerate(pairs):
            both[place] += (np.sum(one & other & known), np.sum((one | other) & known))
    shares: FloatArray = np.divide(both[:, 0], both[:, 1], out=np.full(len(both), np.nan), where=both[:, 1] > 0)
    return Scores({each: float(shares[each]) for each in Class}, float(shares[-1]))
