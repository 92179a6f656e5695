"""The edges that the referee compares, by place and direction: weather changes light, colour and contrast, but moves none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from skidpad.core.images import BoolArray, FloatArray, NumpyFrames, averaged, edges

SCALES = (2, 4)
"""Light is averaged over so many pixels before edges are looked for: texture, flakes and streaks then hardly count."""
EDGES_PX = 192
"""Side of the square in which edges are compared."""
_VISIBLE = 0.3
"""Squared strength at which an edge counts for half."""
_BLOCKS = 6
"""Edges are compared in so many rows and columns of blocks; the median is not fooled by a horizon that all roads share."""
_LEAST_ENERGY, _LEAST_BLOCKS = 0.05, 6
"""Squared strength of the edges of a block that has any, and how many such blocks it takes."""


def edges_kept(before: NumpyFrames, after: NumpyFrames, own_cars: BoolArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Compares the edges of N pictures with those of their originals, uint8 (N, height, width, 3); four figures, (N,) each.

    They are the likeness in the part (left, right or lower half) that is least so; how much more one half mirrors the other than it did,
    where it is its very mirror; the likeness of most blocks; and how much more these are like the mirrored original. own_cars: where the
    own car is, (N, H, W), which says nothing.
    """
    there, here = (torch.from_numpy(grey_levels(frames)) for frames in (before, after))
    said = edges_compared(Edges.of(there, mirrored=True), Edges.of(here), torch.from_numpy(own_cars))
    likeness, mirrored, places, flipped = (each.numpy() for each in said)
    return likeness, mirrored, places, flipped


@dataclass(frozen=True, slots=True)
class Edges:
    """The edges of N pictures.

    doubled: by scale, fine and coarse, (2, N, h, w) each. signed: at the coarse one; mirrored: likewise, of the mirrored pictures, if these
    were asked for. symmetry: how much the halves mirror each other, (N,).
    """

    doubled: tuple[torch.Tensor, torch.Tensor]
    signed: torch.Tensor
    symmetry: torch.Tensor
    mirrored: torch.Tensor | None = None

    @classmethod
    def of(cls, grey: torch.Tensor, *, mirrored: bool = False) -> Self:
        """Looks for edges in grey levels, (N, EDGES_PX, EDGES_PX) float32."""
        with torch.inference_mode():
            (fine, _), (coarse, signed) = (edges(averaged(grey, scale)) for scale in SCALES)
            flipped = edges(averaged(grey.flip(-1), SCALES[-1]))[1] if mirrored else None
            return cls((fine, coarse), signed, _symmetry(grey).double(), flipped)

    @classmethod
    def joined(cls, parts: Sequence[Edges]) -> Self:
        """Puts the edges of several parts of the pictures together."""
        flipped = [part.mirrored for part in parts if part.mirrored is not None]
        fine, coarse, signed = (torch.cat(each, 1) for each in zip(*((*part.doubled, part.signed) for part in parts), strict=True))
        return cls((fine, coarse), signed, torch.cat([part.symmetry for part in parts]), torch.cat(flipped, 1) if flipped else None)

    def at(self, places: torch.Tensor) -> Edges:
        """Returns those of some pictures."""
        fine, coarse = self.doubled
        flipped = None if self.mirrored is None else self.mirrored[:, places]
        return Edges((fine[:, places], coarse[:, places]), self.signed[:, places], self.symmetry[places], flipped)


def edges_compared(before: Edges, after: Edges, own_cars: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns what `edges_kept` does and leaves it on its device, (N,) float64 each; before: with the mirrored pictures."""
    if before.mirrored is None:
        raise ValueError("edges are compared with those of the mirrored originals, too")
    with torch.inference_mode():
        found = torch.stack([edges_alike(one, other) for one, other in zip(before.doubled, after.doubled, strict=True)]).mean(dim=0)
        places = _median_alike(before.signed, after.signed, own_cars)
        gap = _median_alike(before.mirrored, after.signed, own_cars | own_cars.flip(-1)) - places
        # where hardly a block has edges, nothing is told
        alike, more = (torch.where(torch.isnan(gap), value, each).double() for value, each in ((1.0, places), (0.0, gap)))
        mirrors = torch.where(after.symmetry >= 0.95, after.symmetry - before.symmetry, 0.0)
        return found.amin(dim=0).double(), mirrors, alike, more


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
    strength = after.square().sum(dim=0)
    visible = strength / (strength + _VISIBLE)
    maps = torch.stack([visible * before.square().sum(dim=0), strength, (before * after).sum(dim=0)])
    height, width = before.shape[2:]
    parts = (maps[..., : width // 2], maps[..., width // 2 :], maps[..., height // 2 :, :])
    one, other, both = torch.stack([part.sum(dim=(2, 3)) for part in parts], dim=1)
    alike: torch.Tensor = both / (one * other).sqrt().clamp(min=1e-6)
    return alike


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
