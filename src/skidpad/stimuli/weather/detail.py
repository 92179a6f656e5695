"""Light and colour from the translation, detail from the recorded frame: a guided filter on a coarse grid.

A translator knows how light and colour of a place change with the weather, and is bad at edges: it smears lane markings, and what it
paints into woods glitters from frame to frame. In every window of the picture the translation is therefore written as a line of the
recorded frame, colour by colour, and the lines are applied to the frame itself, at its own resolution.

Reference: He, Sun, Tang 2010, Guided Image Filtering (equations 5, 6 and 8); He, Sun 2015, Fast Guided Filter (the lines are fitted on a
small picture).

It is applied to what was learned, and takes no part in learning: discriminators tell the texture of a summer's day from that of snow, and
a translator that cannot change it answers with glaring colours.

Deviates: a line never falls, as the paper's may: where the translation painted dark what was light, that would be the frame's negative.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

_CELLS = 48
"""Along the shorter side of a whole picture: fine enough for the edge of a road, too coarse for a smeared marking to flatten its line."""

_RADIUS = 3
"""In cells: a window is a seventh of the picture. Larger ones take snow off the verges, smaller ones let blotches through."""

_FLOOR = 4e-3
"""Of the variance in a window, colours within -1..1: below it there is no detail, only noise, and the line lies flat."""


@dataclass(frozen=True, slots=True)
class Detail:
    """How much of a translation's detail is replaced by the recorded frame's: 0 is none, 1 all.

    size_px: the shorter side of pictures as the weather translates them.
    """

    share: float = 0.0
    size_px: int = _CELLS

    def __call__(self, made: torch.Tensor, recorded: torch.Tensor) -> torch.Tensor:
        """Returns the translation with the frame's detail, (N, 3, height, width) float32, of the size of the recorded frames.

        made: translations at the size of the networks. recorded: the frames that they were made of, at any size. Both within -1..1.
        """
        small, wanted = self.reduced(recorded.float(), made), self.reduced(made.float(), made)
        return drawn(small, wanted, made, recorded, self.share)

    def reduced(self, pictures: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
        """Returns pictures on the grid of cells of a translation, (N, 3, rows, columns)."""
        size = [max(1, round(side * _CELLS / self.size_px)) for side in made.shape[2:]]
        return functional.interpolate(pictures, size, mode="bilinear", antialias=True)


def drawn(small: torch.Tensor, wanted: torch.Tensor, made: torch.Tensor, recorded: torch.Tensor, share: float) -> torch.Tensor:
    """Fits the lines on the grid and applies them to the frames; compiled, it is one pass over the pictures.

    small, wanted: frames and translations on the grid of cells.
    """
    frame = recorded.float()
    size = (int(frame.shape[2]), int(frame.shape[3]))
    mean, mean_wanted = _mean(small), _mean(wanted)
    variance = (_mean(small.square()) - mean.square()).clamp(min=0.0)
    slope = ((_mean(small * wanted) - mean * mean_wanted) / (variance + _FLOOR)).clamp(min=0.0)
    lines = _mean(torch.cat([slope, mean_wanted - slope * mean], 1))
    slopes, levels = functional.interpolate(lines, size, mode="bilinear").chunk(2, 1)
    found = torch.addcmul(levels, slopes, frame).clamp(-1.0, 1.0)
    if share == 1.0:
        return found
    return torch.lerp(functional.interpolate(made.float(), size, mode="bilinear"), found, share)


def _mean(maps: torch.Tensor) -> torch.Tensor:
    """Returns the mean of each window, which the border cuts; along columns, then along rows."""
    reach, radius = 2 * _RADIUS + 1, _RADIUS
    columns = functional.avg_pool2d(maps, (reach, 1), 1, (radius, 0), count_include_pad=False)
    return functional.avg_pool2d(columns, (1, reach), 1, (0, radius), count_include_pad=False)
