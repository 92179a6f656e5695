"""Light and colour from the translation, detail from the recorded frame: lines fitted on a coarse grid of places and of light.

A translator knows how light and colour of a place change with the weather, and is bad at edges: it smears lane markings, and what it
paints into woods glitters from frame to frame. In every window of the picture the translation is therefore written as lines of the
recorded frame, colour by colour: one for what is dark there, one for what is bright, and two between. They are applied to the frame
itself, at its own resolution. Dark woods have another line than the bright sky behind them, so that they take less of its colour as haze,
and windows may be wide, which spreads a stain that the translator painted on an even road.

Reference: He, Sun, Tang 2010, Guided Image Filtering (equations 5 and 6); Chen, Adams, Wadhwa, Hasinoff 2016, Bilateral Guided Upsampling
(lines that depend on place and light, fitted on a small picture).

It is applied to what was learned, and takes no part in learning: discriminators tell the texture of a summer's day from that of snow, and
a translator that cannot change it answers with glaring colours.

Deviates: a line never falls, as the papers' may: where the translation painted dark what was light, grain and edges would be the frame's
negative. From one light to the next it may get darker, as the sky does at night before lit trees. Chen et al. solve for all lines at
once; here each is a fit of its own, over a window.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

_CELLS = 48
"""Along the shorter side of a whole picture: fine enough for the edge of a road, too coarse for a smeared marking to flatten its line."""

_ROWS, _COLUMNS = 4, 10
"""In cells, up and down and to both sides: a window is a fifth of the picture high and nearly half as wide. What stands at one height of a
picture is mostly of one distance and kind; taller windows give cars the lines of the sky, smaller ones let blotches through."""

_SMOOTH = 2
"""In cells: how far lines are averaged with those of other places."""

_LIGHTS = 4
_LIFTED = 0.6
"""Lines of a window, from black to white, and the power of light along which they are spaced: closer where it is dark."""

_OTHER = 0.02
"""How much what has another light counts in a line, so that there is one where nothing has its light."""

_FLOOR = 4e-3
"""Of the variance in a window, colours within -1..1: below it there is no detail, only noise, and the line lies flat."""

_LUMA = (0.299, 0.587, 0.114)


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
    lights = _lights(small)
    by_light = (len(small), _LIGHTS, 3, int(small.shape[2]), int(small.shape[3]))
    weight = (_mean(lights, _ROWS, _COLUMNS) + _OTHER)[:, :, None]

    def mean(values: torch.Tensor) -> torch.Tensor:
        sums = _mean((lights[:, :, None] * values[:, None]).flatten(1, 2), _ROWS, _COLUMNS).reshape(by_light)
        return (sums + _OTHER * sums.sum(1, keepdim=True)) / weight

    centre, centre_wanted = mean(small), mean(wanted)
    variance = (mean(small.square()) - centre.square()).clamp(min=0.0)
    slope = ((mean(small * wanted) - centre * centre_wanted) / (variance + _FLOOR)).clamp(min=0.0)
    lines = torch.cat([slope, centre_wanted - slope * centre], 2).flatten(1, 2)
    placed = functional.interpolate(_mean(lines, _SMOOTH, _SMOOTH), size, mode="bilinear").chunk(_LIGHTS, 1)
    found = torch.zeros_like(frame)
    for weight_of, line in zip(_lights(frame).chunk(_LIGHTS, 1), placed, strict=True):
        slopes, levels = line.chunk(2, 1)
        found = torch.addcmul(found, weight_of, torch.addcmul(levels, slopes, frame))
    found = found.clamp(-1.0, 1.0)
    if share == 1.0:
        return found
    return torch.lerp(functional.interpolate(made.float(), size, mode="bilinear"), found, share)


def _lights(pictures: torch.Tensor) -> torch.Tensor:
    """Returns how much each line counts for each pixel, (N, _LIGHTS, height, width): the two next to its light, which add up to 1."""
    red, green, blue = pictures.chunk(3, 1)
    light = (_LUMA[0] * red + _LUMA[1] * green + _LUMA[2] * blue).add(1.0).mul(0.5).clamp(0.0, 1.0).pow(_LIFTED)
    places = torch.arange(_LIGHTS, device=pictures.device, dtype=light.dtype)[:, None, None]
    return (1.0 - (light * (_LIGHTS - 1) - places).abs()).clamp(min=0.0)


def _mean(maps: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """Returns the mean of each window, which the border cuts; two small products of matrices are the fastest way to have it."""
    height, width = int(maps.shape[2]), int(maps.shape[3])
    return _window(height, rows, maps) @ maps @ _window(width, columns, maps).T


def _window(count: int, radius: int, like: torch.Tensor) -> torch.Tensor:
    places = torch.arange(count, device=like.device)
    near = ((places[:, None] - places).abs() <= radius).to(like.dtype)
    return near / near.sum(1, keepdim=True)
