"""Two of the referee's looks at many changes of the same originals, without leaving their device: the road, and the edges.

A search looks at thousands of pictures for each one that it keeps. These looks are stricter than the whole referee: what fog hides from the
network they refuse, where the whole referee may still know the road by its own pixels. Plain counting (borders, blank and clipped
pictures) is left to the whole referee, which judges what passes here.
"""

from __future__ import annotations

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from skidpad.core.images import NumpyFrames
from skidpad.core.structure import EDGES_PX, SCALES, averaged, edges, edges_alike, grey_levels
from skidpad.referee.network import Class, classes_of, load_road_net
from skidpad.referee.verdict import LEAST_ROAD, SURE_LIKENESS, SURE_OVERLAP

_TOGETHER = 64


class QuickReferee:
    """Tells which changed pictures of known originals are kept, as far as the road and the edges tell."""

    def __init__(self, originals: NumpyFrames, device: str) -> None:
        """Looks at the originals, (N, height, width, 3), once."""
        self._network = load_road_net().to(device)
        self._device = device
        self._shrinking: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}
        parts = [originals[first : first + _TOGETHER] for first in range(0, len(originals), _TOGETHER)]
        self._roads = torch.cat([self._road(torch.from_numpy(part).to(device)) for part in parts])
        self._greys = torch.cat([torch.from_numpy(grey_levels(part)).half().to(device) for part in parts])
        self._has_road = self._roads.float().mean(dim=(1, 2)) >= LEAST_ROAD

    def kept(self, places: slice, changed: torch.Tensor) -> torch.Tensor:
        """Tells which changed pictures, uint8 (N, height, width, 3), of the originals at these places are kept, (N,) bool."""
        with torch.inference_mode():
            before, after = self._roads[places], self._road(changed)
            both, either = (before & after).sum(dim=(1, 2)), (before | after).sum(dim=(1, 2))
            overlap = both / either.clamp(min=1)
            greys = self._greys[places].float(), self._grey(changed)
            likeness = torch.stack([edges_alike(*(edges(averaged(grey, scale))[0] for grey in greys)) for scale in SCALES])
            return self._has_road[places] & (overlap >= SURE_OVERLAP) & (likeness.mean(dim=0).amin(dim=0) >= SURE_LIKENESS)

    def _road(self, frames: torch.Tensor) -> torch.Tensor:
        return classes_of(self._network, frames) <= Class.MARKING

    def _grey(self, frames: torch.Tensor) -> torch.Tensor:
        """Returns what `grey_levels` does but for rounding, (N, EDGES_PX, EDGES_PX) float32."""
        size = int(frames.shape[1]), int(frames.shape[2])
        if size not in self._shrinking:
            rows, columns = _resizing(*size)
            self._shrinking[size] = torch.from_numpy(rows).to(self._device), torch.from_numpy(columns).to(self._device)
        rows_of, columns_of = self._shrinking[size]
        return rows_of @ frames.float().mean(dim=-1) @ columns_of.T


def _resizing(height_px: int, width_px: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Returns what OpenCV's resizing to a square of EDGES_PX does to rows and to columns, as matrices (EDGES_PX, height or width)."""

    def resized(picture: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(cv2.resize(picture, (EDGES_PX, EDGES_PX), interpolation=cv2.INTER_AREA), np.float32)

    rows, columns = np.zeros((EDGES_PX, height_px), np.float32), np.zeros((EDGES_PX, width_px), np.float32)
    for place in range(height_px):
        rows[:, place] = resized(np.repeat(np.eye(1, height_px, place, np.float32).T, width_px, axis=1))[:, 0]
    for place in range(width_px):
        columns[:, place] = resized(np.repeat(np.eye(1, width_px, place, np.float32), height_px, axis=0))[0]
    return rows, columns
