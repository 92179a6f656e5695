"""How much of a scene a changed picture kept: its edges, wherever they were, in the direction they had, and as sharp.

Weather changes light, colour and contrast, and may turn dark on bright into bright on dark here and there (snow beside a road, the sky
at night); it does not move the road, and it does not turn a scene into its negative. So edges are compared by place and direction
alone, and apart from that it is asked whether most of them kept their sign. Large edges survive any blur, so that it is asked as well
how much fine detail there is beside the coarse.
"""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from skidpad.core.errors import BadParametersError
from skidpad.core.images import BoolArray, FloatArray, Frames, NumpyFrames

SIZE_PX = 96
SCALES = (2, 4)
"""Light is averaged over so many pixels before edges are looked for: texture, flakes and streaks then hardly count.
The first is where detail is looked for, the second what it is measured against."""
_NEIGHBOURHOOD = 9
"""Side of the square, in averaged pixels, whose mean edge an edge is measured against."""
_TOLERANCE = 3
"""Edges are averaged over such squares, so that a shift by a pixel or two is no loss."""
_FLOOR = 2.0
"""Grey levels by which light must change between averaged pixels to be an edge and not noise."""
_ROUNDING = 1e-2
"""Squared grey levels; what rounding leaves of a flat picture has no direction."""
_BATCH = 256
EDGES_PX = 192
"""Side of the square in which edges are compared."""
_VISIBLE = 0.3
"""Squared strength at which an edge counts for half."""
_BLOCKS = 6
"""Edges are compared in so many rows and columns of blocks; the median is not fooled by a horizon that all roads share."""
_LEAST_ENERGY, _LEAST_BLOCKS = 0.05, 6
"""Squared strength of the edges of a block that has any, and how many such blocks it takes."""


class Structure(NamedTuple):
    """Likeness of each pair of scenes, (N,) each; the first two within -1..1, detail from 0.

    likeness: of the edges' places and directions; 1 is the same scene, 0 what chance gives. polarity: the same with the edges' signs;
    as high where bright stayed brighter than dark, below 0 where most edges were turned, -1 for a negative. detail: how sharp the
    scene is, in parts of its source; 0 is flat, above 1 sharper or noisier.
    """

    likeness: FloatArray
    polarity: FloatArray
    detail: FloatArray


def structure_of(sources: Frames, translated: Frames) -> Structure:
    """Compares translated scenes with their sources; frames are uint8 (N, height, width, 3), the two of any sizes.

    Both are brought to SIZE_PX x SIZE_PX grey levels. An edge weighs by how much it stands out from its neighbourhood, so that dark
    and hazy scenes have edges too; for `likeness` it is a double angle, which is that of its negative as well. The likeness of two
    fields of edges is their correlation, the mean over two scales. Sharpness is the mean curvature of light at the finer scale over
    its mean slope at the coarser one, so that a loss of contrast alone leaves it as it is.
    """
    if len(sources) != len(translated):
        raise BadParametersError(f"each translated scene needs its source; got {len(sources)} sources and {len(translated)} scenes")
    device = translated.device if isinstance(translated, torch.Tensor) else torch.device("cpu")
    parts = [np.zeros((3, 0))]
    with torch.inference_mode():
        for start in range(0, len(sources), _BATCH):
            greys = [light(frames[start : start + _BATCH], device) for frames in (sources, translated)]
            before, after = ([averaged(grey, scale) for scale in SCALES] for grey in greys)
            alike = torch.stack([torch.stack(_alike(*pair)) for pair in zip(before, after, strict=True)]).mean(dim=0)
            detail = _sharpness(*after) / _sharpness(*before).clamp(min=1e-6)
            parts.append(np.asarray(torch.cat([alike, detail[None]]).double().cpu().numpy(), np.float64))
    return Structure(*np.concatenate(parts, axis=1))


def light(frames: Frames, device: torch.device) -> torch.Tensor:
    """Returns the grey levels of frames at the measuring size, (N, SIZE_PX, SIZE_PX) float32."""
    pictures = frames if isinstance(frames, torch.Tensor) else torch.from_numpy(np.ascontiguousarray(frames))
    pictures = pictures.to(device)
    grey = pictures[..., 0].float().add_(pictures[..., 1]).add_(pictures[..., 2]).div_(3.0)
    if tuple(grey.shape[1:]) == (SIZE_PX, SIZE_PX):
        return grey
    return functional.interpolate(grey[:, None], (SIZE_PX, SIZE_PX), mode="bilinear", antialias=True)[:, 0]


def _alike(before: torch.Tensor, after: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    doubled_before, signed_before = edges(before)
    doubled_after, signed_after = edges(after)
    return _correlation(doubled_before, doubled_after), _correlation(signed_before, signed_after)


def edges(coarse: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the edges as double angles and as signed ones, weighted and averaged, (2, N, h, w) each."""
    across = coarse[:, 1:-1, 2:] - coarse[:, 1:-1, :-2]
    down = coarse[:, 2:, 1:-1] - coarse[:, :-2, 1:-1]
    squared = across.square() + down.square()
    strength = squared.sqrt()
    half = _NEIGHBOURHOOD // 2
    padded = functional.pad(strength[:, None], (half, half, half, half), mode="reflect")[:, 0]
    around = _box_sum(padded, _NEIGHBOURHOOD).div_(_NEIGHBOURHOOD**2)
    weight = 1.0 / (strength + around + _FLOOR)
    # (across + i down)^2 is the double angle times the strength squared.
    turned = weight * strength / (squared + _ROUNDING)
    doubled = torch.stack([(across.square() - down.square()) * turned, 2.0 * across * down * turned])
    signed = torch.stack([across * weight, down * weight])
    return _box_sum(doubled, _TOLERANCE), _box_sum(signed, _TOLERANCE)


def _sharpness(fine: torch.Tensor, coarse: torch.Tensor) -> torch.Tensor:
    """Returns curvature over slope, (N,); a grey level of slope is added, so that noise on a flat picture is no detail."""
    around = fine[:, :-2, 1:-1] + fine[:, 2:, 1:-1] + fine[:, 1:-1, :-2] + fine[:, 1:-1, 2:]
    curvature = (4.0 * fine[:, 1:-1, 1:-1] - around).abs().mean(dim=(1, 2))
    across, down = coarse[:, 1:-1, 2:] - coarse[:, 1:-1, :-2], coarse[:, 2:, 1:-1] - coarse[:, :-2, 1:-1]
    return curvature / ((across.square() + down.square()).sqrt().mean(dim=(1, 2)) + 1.0)


def averaged(grey: torch.Tensor, scale: int) -> torch.Tensor:
    """Returns the mean light of squares of `scale` pixels, (N, h, w), of grey levels as wide as high."""
    side = grey.shape[1] // scale
    return grey.reshape(-1, side, scale, side, scale).sum(dim=4).sum(dim=2).div_(scale * scale)


def _box_sum(maps: torch.Tensor, size: int) -> torch.Tensor:
    """Returns the sums over squares within the last two axes, `size` - 1 shorter each; by slices, for torch's pooling is slow on CPUs."""
    for axis in (-2, -1):
        length = maps.shape[axis] - size + 1
        total = maps.narrow(axis, 0, length).clone()
        for shift in range(1, size):
            total += maps.narrow(axis, shift, length)
        maps = total
    return maps


def _correlation(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    together = (before * after).sum(dim=(0, 2, 3))
    size = (before.square().sum(dim=(0, 2, 3)) * after.square().sum(dim=(0, 2, 3))).sqrt()
    return together / size.clamp(min=1e-6)


def edges_kept(
    before: NumpyFrames, after: NumpyFrames, own_cars: BoolArray, device: str
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Compares the edges of N pictures with those of their originals, uint8 (N, height, width, 3); four figures, (N,) each.

    They are the likeness in the part (left, right or lower half) that is least so; how much more one half mirrors the other than it did,
    where it is its very mirror; the likeness of most blocks; and how much more these are like the mirrored original. own_cars: where the
    own car is, (N, H, W), which says nothing.
    """
    greys = [grey_levels(frames) for frames in (before, after)]
    with torch.inference_mode():
        there = [torch.from_numpy(grey).to(device) for grey in greys]
        fields = [[edges(averaged(grey, scale)) for grey in there] for scale in SCALES]
        found = torch.stack([edges_alike(one[0], other[0]) for one, other in fields]).mean(dim=0)
        (_, straight), (_, now) = fields[-1]
        flipped = edges(averaged(there[0].flip(-1), SCALES[-1]))[1]
        own = torch.from_numpy(own_cars).to(device)
        places = _median_alike(straight, now, own)
        gap = _median_alike(flipped, now, own | own.flip(-1)) - places
        was, is_now = (np.asarray(_symmetry(grey).double().cpu().numpy(), np.float64) for grey in there)
    likeness = np.asarray(found.amin(dim=0).double().cpu().numpy(), np.float64)
    # where hardly a block has edges, nothing is told
    nothing = torch.isnan(gap)
    alike, more = (np.asarray(torch.where(nothing, value, each).double().cpu()) for value, each in ((1.0, places), (0.0, gap)))
    return likeness, np.where(is_now >= 0.95, is_now - was, 0.0), alike, more


def _median_alike(one: torch.Tensor, other: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
    """Returns the median correlation over the blocks that have edges in both, (N,), of edges (2, N, h, w).

    hidden: what is left out, (N, H, W): the own bonnet is in every picture, whatever the scene. NaN where too few blocks have edges.
    """
    shown = functional.interpolate((~hidden).float()[:, None], size=one.shape[2:], mode="area")[:, 0]
    products = [(first * second).sum(dim=0) * shown for first, second in ((one, other), (one, one), (other, other))]
    both, before, after = (functional.adaptive_avg_pool2d(each[:, None], _BLOCKS).flatten(1) for each in products)
    cells = one.shape[2] * one.shape[3] / _BLOCKS**2
    has_edges = (before * cells > _LEAST_ENERGY) & (after * cells > _LEAST_ENERGY)
    alike = torch.where(has_edges, both / (before * after).sqrt().clamp(min=1e-9), torch.nan)
    return torch.where(has_edges.sum(dim=1) >= _LEAST_BLOCKS, alike.nanmedian(dim=1).values, torch.nan)


def edges_alike(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """Returns the correlation of edges (2, N, h, w) in the left, the right and the lower half, (3, N).

    Asked is whether the edges of the changed picture are those of the original: what fog or the dark has swallowed is none of them.
    """
    visible = after.square().sum(dim=0)
    visible = visible / (visible + _VISIBLE)
    height, width = before.shape[2:]
    parts = ((slice(None), slice(None, width // 2)), (slice(None), slice(width // 2, None)), (slice(height // 2, None), slice(None)))
    found = []
    for rows, columns in parts:
        one, other, weight = before[:, :, rows, columns], after[:, :, rows, columns], visible[:, rows, columns]
        size = ((weight * one.square()).sum(dim=(0, 2, 3)) * other.square().sum(dim=(0, 2, 3))).sqrt()
        found.append((one * other).sum(dim=(0, 2, 3)) / size.clamp(min=1e-6))
    return torch.stack(found)


def grey_levels(frames: NumpyFrames) -> NDArray[np.float32]:
    """Returns grey levels at the size at which edges are compared, (N, EDGES_PX, EDGES_PX)."""
    small = [cv2.resize(frame, (EDGES_PX, EDGES_PX), interpolation=cv2.INTER_AREA) for frame in frames]
    return np.stack([cv2.transform(frame, np.full((1, 3), 1 / 3)) for frame in small]).astype(np.float32)


def _symmetry(grey: torch.Tensor) -> torch.Tensor:
    """Returns the correlation of the left halves with the mirrored right ones, rows' own light left out, (N,)."""
    own = averaged(grey, 2)
    own = own - own.mean(dim=2, keepdim=True)
    half = own.shape[2] // 2
    left, right = own[:, :, :half], own[:, :, half:].flip(-1)
    size = (left.square().sum(dim=(1, 2)) * right.square().sum(dim=(1, 2))).sqrt()
    return (left * right).sum(dim=(1, 2)) / size.clamp(min=1.0)
