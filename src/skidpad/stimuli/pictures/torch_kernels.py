"""The operations on torch frames that transforms are made of, as in `kernels`, and how closely the frames come out as NumPy frames do.

The median is a selection network: it has no branches, so one step is a minimum and a maximum over whole images, at the speed of memory.

The transforms of whole numbers agree exactly. Affine ones do not: OpenCV before version 5 interpolates at 1/32 of a pixel,
torch at the exact place; their rows hold for pictures of a camera, not for white noise. Nor does blur: OpenCV's box filter
rounds remainders just under a half up where the size is a power of two.
Conditions without a row are exact: their tables are looked up on the device, or they are painted on the CPU.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

import cv2
import numpy as np
import torch
from torch.nn import functional

from skidpad.core.images import FloatArray, IntArray, NumpyFrames
from skidpad.stimuli.pictures.kernels import Field, Veil, inverse, whole_shift

Swap = tuple[int, int, bool, bool]
"""The two places compared, the smaller value going to the first; and whether the first and the second are needed later."""


@lru_cache(maxsize=8)
def median_network(count: int) -> tuple[Swap, ...]:
    """Returns the swaps that bring the median of `count` values (odd) to place `count // 2`.

    Batcher's odd-even merge sort (Knuth 5.2.2, Algorithm M), less every step that the median does not need.
    """
    needed = {count // 2}
    kept: list[Swap] = []
    for first, second in reversed(_sorting_network(count)):
        if first in needed or second in needed:
            kept.append((first, second, first in needed, second in needed))
            needed |= {first, second}
    return tuple(reversed(kept))


def _sorting_network(count: int) -> list[tuple[int, int]]:
    swaps: list[tuple[int, int]] = []
    top = 1 << max(0, (count - 1).bit_length() - 1)
    step = top
    while step > 0:
        group, offset, distance = top, 0, step
        while True:
            swaps += [(place, place + distance) for place in range(count - distance) if place & step == offset]
            if group == step:
                break
            offset, distance, group = step, group - step, group // 2
        step //= 2
    return swaps


_WORKING_BYTES = 1 << 29
"""How much memory the windows of one median may take; larger batches are done in parts."""


def warp(frames: torch.Tensor, matrix: FloatArray) -> torch.Tensor:
    """See `Kernels.warp`; each pixel looks up where it comes from."""
    count, height, width, _ = frames.shape
    whole = whole_shift(matrix)
    if whole is not None:
        return _moved(frames, *whole)
    # Apple's GPUs have no float64; elsewhere it keeps places exact at any size.
    exact = torch.float32 if frames.device.type == "mps" else torch.float64
    y = torch.arange(height, dtype=exact, device=frames.device)[:, None]
    x = torch.arange(width, dtype=exact, device=frames.device)
    from_x, from_y = ((row[0] * x + row[1] * y + row[2]).reshape(-1) for row in inverse(matrix).tolist())
    left, above = from_x.floor(), from_y.floor()
    right_share, below_share = from_x - left, from_y - above
    pixels = frames.reshape(count, height * width, 3)
    total = torch.zeros((count, height * width, 3), dtype=torch.float32, device=frames.device)
    for column, share_x in ((left, 1.0 - right_share), (left + 1.0, right_share)):
        for row, share_y in ((above, 1.0 - below_share), (above + 1.0, below_share)):
            inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
            place = torch.where(inside, row * width + column, 0.0).to(torch.int32)
            weight = torch.where(inside, share_x * share_y, 0.0).to(torch.float32)
            total.addcmul_(pixels.index_select(1, place).to(torch.float32), weight[:, None])
    return _rounded(total).reshape(frames.shape)


def remap(frames: torch.Tensor, columns: Field, rows: Field) -> torch.Tensor:
    """Takes each pixel from its place in `columns` and `rows`, (height, width), bilinear; places beyond the border are on it."""
    height, width = frames.shape[1:3]
    scale = np.array([2.0 / max(width - 1, 1), 2.0 / max(height - 1, 1)])
    grid = torch.from_numpy((np.stack([columns, rows], axis=-1) * scale - 1.0).astype(np.float32)).to(frames.device)
    planes = frames.permute(0, 3, 1, 2).to(torch.float32)
    found = functional.grid_sample(planes, grid.expand(len(frames), -1, -1, -1), padding_mode="border", align_corners=True)
    return _rounded(found).permute(0, 2, 3, 1).contiguous()


def gain(frames: torch.Tensor, gain: float) -> torch.Tensor:
    """See `Kernels.gain`."""
    return _rounded(frames.to(torch.float32) * gain)


def shift(frames: torch.Tensor, shift: int) -> torch.Tensor:
    """See `Kernels.shift`."""
    return (frames.to(torch.int16) + shift).clamp_(0, 255).to(torch.uint8)


def average(frames: torch.Tensor, size_px: int) -> torch.Tensor:
    """See `Kernels.average`."""
    total = _separable(frames, np.ones(size_px, np.int64))
    # Halves go up, as in OpenCV's whole-number box filter.
    return total.mul_(2).add_(size_px**2).div_(2 * size_px**2, rounding_mode="floor").to(torch.uint8)


def gaussian(frames: torch.Tensor, size_px: int) -> torch.Tensor:
    """See `Kernels.gaussian`; OpenCV's own weights, which are whole 256ths up to size 9."""
    weights = np.rint(256.0 * cv2.getGaussianKernel(size_px, 0.0).reshape(-1)).astype(np.int64)
    return ((_separable(frames, weights) + (1 << 15)) >> 16).clamp_(0, 255).to(torch.uint8)


def median(frames: torch.Tensor, size_px: int) -> torch.Tensor:
    """See `Kernels.median`; exact."""
    height, width = frames.shape[1:3]
    step = max(1, _WORKING_BYTES // (2 * size_px**2 * height * width * 3))
    out = torch.empty(frames.shape, dtype=torch.uint8, device=frames.device)
    for start in range(0, len(frames), step):
        out[start : start + step] = _median(frames[start : start + step], size_px)
    return out


def bilateral(frames: torch.Tensor, size_px: int, sigma_colour: float, sigma_space_px: float) -> torch.Tensor:
    """See `Kernels.bilateral`; the window is a disc and colours are as far apart as the sum over their channels, as OpenCV's."""
    _, height, width, _ = frames.shape
    radius = size_px // 2
    padded = _padded(frames, radius, radius, "reflect").to(torch.float32)
    centre = frames.to(torch.float32)
    total = torch.zeros_like(centre)
    weights = torch.zeros_like(centre[..., :1])
    for dy in range(-radius, radius + 1):
        for dx in range(-radius, radius + 1):
            if dx * dx + dy * dy > radius * radius:
                continue
            other = padded[:, radius + dy : radius + dy + height, radius + dx : radius + dx + width]
            apart = (other - centre).abs_().sum(dim=-1, keepdim=True)
            near = -0.5 * (dx * dx + dy * dy) / sigma_space_px**2
            weight = apart.square_().mul_(-0.5 / sigma_colour**2).add_(near).exp_()
            total.addcmul_(other, weight)
            weights += weight
    return _rounded(total / weights)


def veil(frames: torch.Tensor, veil: Veil) -> torch.Tensor:
    """See `Kernels.veil`; exact but for the blur's rounding."""
    keep, add, soft = _on_device(veil, frames.device)
    out = _share(frames, keep)
    rows = len(veil.soft)
    if rows:
        out[:, :rows] += _share(average(frames, veil.soft_size_px)[:, :rows], soft)
    return out.add_(add).clamp_(0, 255).to(torch.uint8)


def _share(frames: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Returns frames * weight / 255, rounded to the nearest; 255 is odd, so there are no halves."""
    return (frames.to(torch.int32) * weight).mul_(2).add_(255).div_(510, rounding_mode="floor")


@lru_cache(maxsize=32)
def _on_device(veil: Veil, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return (_tensor(veil.keep, device), _tensor(veil.add, device), _tensor(veil.soft, device))


def _tensor(weights: NumpyFrames, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(weights.astype(np.int32)).to(device)


def _moved(frames: torch.Tensor, dx: int, dy: int) -> torch.Tensor:
    """Moves by whole pixels."""
    height, width = frames.shape[1:3]
    out = torch.zeros_like(frames, memory_format=torch.contiguous_format)
    if abs(dx) < width and abs(dy) < height:
        target = out[:, max(dy, 0) : height + min(dy, 0), max(dx, 0) : width + min(dx, 0)]
        target.copy_(frames[:, max(-dy, 0) : height - max(dy, 0), max(-dx, 0) : width - max(dx, 0)])
    return out


def _separable(frames: torch.Tensor, weights: IntArray) -> torch.Tensor:
    """Returns the weighted sums over windows, int32: rows, then columns; an even window reaches further back, as OpenCV's."""
    size = len(weights)
    height, width = frames.shape[1:3]
    padded = _padded(frames, size // 2, size - 1 - size // 2, "reflect").to(torch.int32)
    along_x = torch.zeros_like(padded[:, :, :width])
    for step, weight in enumerate(weights.tolist()):
        along_x.add_(padded[:, :, step : step + width], alpha=weight)
    total = torch.zeros_like(along_x[:, :height])
    for step, weight in enumerate(weights.tolist()):
        total.add_(along_x[:, step : step + height], alpha=weight)
    return total


def _median(frames: torch.Tensor, size_px: int) -> torch.Tensor:
    height, width = frames.shape[1:3]
    padded = _padded(frames, size_px // 2, size_px // 2, "edge")
    values = [padded[:, dy : dy + height, dx : dx + width] for dy in range(size_px) for dx in range(size_px)]
    for first, second, first_needed, second_needed in median_network(size_px**2):
        low, high = values[first], values[second]
        if first_needed:
            values[first] = torch.minimum(low, high)
        if second_needed:
            values[second] = torch.maximum(low, high)
    return values[size_px**2 // 2]


def _padded(frames: torch.Tensor, before: int, after: int, mode: Literal["reflect", "edge"]) -> torch.Tensor:
    """Continues the frames over their edges by NumPy's `reflect` (OpenCV's default border) or `edge`, at any size."""
    for axis in (1, 2):
        length = frames.shape[axis]
        places = np.pad(np.arange(length), (before, after), mode)
        frames = frames.index_select(axis, torch.from_numpy(places).to(frames.device))
    return frames


def _rounded(values: torch.Tensor) -> torch.Tensor:
    return values.round_().clamp_(0.0, 255.0).to(torch.uint8)


@dataclass(frozen=True, slots=True)
class KernelAgreement:
    """At most `mean` levels apart on average, and at least `share` of all values within `within` levels."""

    mean: float
    within: int
    share: float

    def holds(self, one: NumpyFrames, other: NumpyFrames) -> bool:
        """Tells whether two batches of the same shape agree."""
        apart = np.abs(one.astype(np.int16) - other)
        return apart.size == 0 or bool(apart.mean() <= self.mean and np.mean(apart <= self.within) >= self.share)


EXACT = KernelAgreement(mean=0.0, within=0, share=1.0)
_INTERPOLATED = KernelAgreement(mean=0.5, within=2, share=0.999)

AGREEMENT: Mapping[str, KernelAgreement] = MappingProxyType(
    {
        "translation": _INTERPOLATED,
        "scale": _INTERPOLATED,
        "shear": _INTERPOLATED,
        "rotation": _INTERPOLATED,
        "contrast": KernelAgreement(mean=0.02, within=1, share=1.0),
        "brightness": EXACT,
        "blur": KernelAgreement(mean=0.15, within=1, share=1.0),
        "deeptest-fog": KernelAgreement(mean=0.05, within=1, share=1.0),
        "deeptest-rain": EXACT,
        **dict.fromkeys(
            ("camera-yaw", "camera-pitch", "camera-roll", "camera-height", "camera-lateral"),
            KernelAgreement(mean=0.5, within=2, share=0.98),
        ),
    }
)
