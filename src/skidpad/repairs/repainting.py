"""A random repaint: light and colour of each place anew, as in another weather, and the frame's own detail on top.

What a sky, a road or a verge looks like in another weather follows no tone curve: a bright sky turns dark while a grey road stays as it
is. So the frame is made small, a random network paints every cell by its colours, those around it and its place, and the detail comes
back from the frame itself.

Reference: Xu et al. 2021, RandConv, section 3 (random networks keep shapes and change the rest); He, Sun, Tang 2010, Guided Image
Filtering, equations 5, 6 and 8; He, Sun 2015, Fast Guided Filter (the lines are fitted on a small picture).

Deviates: a line never falls, and its slope lies anywhere between the filter's and what the change of brightness alone would make of
the detail, since a random network may paint the same what differs in the frame.
"""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from skidpad.repairs.clouds import clouds

_CELLS = 48
"""Along the shorter side: fine enough for the edge of a road."""

_RADIUS = 3
"""In cells: a window is a seventh of the picture."""

_FLOOR = 1e-3
"""Of the variance in a window: below it there is no detail, only noise, and the filter's line lies flat."""

_AROUND = 13
"""In cells: how far the network that paints looks around."""

_HIDDEN = 16

_DARK, _PALE = 0.5, 0.2
"""How often a repaint is dark, as by night, or pale, as in haze; else it is of any brightness."""

_MOST_GAIN = 2.0
"""Of the detail, where the change of brightness alone decides it."""

_DARKEST = 0.05
"""Of the frame, when a change of brightness is measured: black has none."""

Picture = npt.NDArray[np.float32]


def repainted(frames: Picture, rng: np.random.Generator) -> Picture:
    """Paints the frames anew, (N, height, width, 3), 0 to 1; all of them by one random network, so that a clip does not flicker."""
    small = reduced(frames)
    wanted = _painted(small, rng)
    slope, level = lines(small, wanted, np.float32(rng.random()), np.float32(rng.uniform(0.1, 1.2)))
    return drawn(frames, slope, level)


def reduced(frames: Picture) -> Picture:
    """Returns the frames on the grid of cells, (N, rows, columns, 3)."""
    height, width = frames.shape[1:3]
    scale = min(1.0, _CELLS / min(height, width))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return np.stack([cv2.resize(frame, size, interpolation=cv2.INTER_AREA) for frame in frames])


def _painted(small: Picture, rng: np.random.Generator) -> Picture:
    """Returns what a random network makes of the cells: a brightness, often dark, and a colour of its own for each place."""
    count, rows, columns, _ = small.shape
    around = np.stack([cv2.blur(frame, (_AROUND, _AROUND)) for frame in small])
    own = small.mean(axis=3, keepdims=True)
    contrast = np.stack([np.abs(one - cv2.blur(one, (5, 5)))[..., None] for one in own[..., 0]])
    down, right = np.meshgrid(np.linspace(-1.5, 1.5, rows), np.linspace(-1.5, 1.5, columns), indexing="ij")
    place = np.stack([down, right], axis=2)[None].astype(np.float32)
    cloudy = clouds((1, rows, columns, 2), rng.uniform(1.5, 3.0), rng)
    parts = [
        np.broadcast_to(np.float32(rng.uniform(0.0, most)) * part, (count, rows, columns, part.shape[3]))
        for part, most in ((_even(small), 2.0), (_even(around), 2.0), (_even(contrast), 1.0), (place, 1.5), (cloudy, 1.0))
    ]
    seen = np.concatenate(parts, axis=3)
    first = rng.normal(0.0, 0.7, (seen.shape[3], _HIDDEN)).astype(np.float32)
    hidden = np.tanh(seen @ first + rng.normal(0.0, 0.7, _HIDDEN).astype(np.float32))
    made = _even(hidden @ rng.normal(0.0, 1.0, (_HIDDEN, 4)).astype(np.float32), channels=True)

    share = np.float32(rng.uniform(0.0, 0.8))
    relief = share * _even(own) + (1.0 - share) * made[..., :1]
    kind = rng.random()
    if kind < _DARK:
        light = np.float32(rng.uniform(0.05, 0.3)) * np.exp(np.float32(rng.uniform(0.3, 1.0)) * relief)
    elif kind < _DARK + _PALE:
        light = np.float32(rng.uniform(0.5, 0.9)) + np.float32(rng.uniform(0.02, 0.15)) * relief
    else:
        light = np.float32(rng.uniform(0.2, 0.7)) + np.float32(rng.uniform(0.05, 0.3)) * relief
    tint = rng.normal(0.0, rng.uniform(0.0, 0.3), 3).astype(np.float32) + np.float32(rng.uniform(0.0, 0.25)) * made[..., 1:]
    colour = (np.maximum(small, 0.02) / np.maximum(own, 0.02)) ** np.float32(rng.random())
    return np.asarray(np.clip(light * colour * np.exp(tint), 0.0, 1.0), np.float32)


def lines(small: Picture, wanted: Picture, share: np.float32, contrast: np.float32) -> tuple[Picture, Picture]:
    """Returns slope and level of each cell, by which the repaint is a line of the frame, colour by colour.

    share: of the filter's slope; the rest is what the change of brightness makes of the detail. contrast: what both are multiplied by.
    """
    mean, mean_wanted = _mean(small), _mean(wanted)
    variance = np.maximum(_mean(small**2) - mean**2, 0.0)
    fitted = np.maximum((_mean(small * wanted) - mean * mean_wanted) / (variance + np.float32(_FLOOR)), 0.0)
    gain = np.minimum(mean_wanted / np.maximum(mean, np.float32(_DARKEST)), np.float32(_MOST_GAIN))
    slope = contrast * (gain + share * (fitted - gain))
    return _mean(slope), _mean(mean_wanted - slope * mean)


def drawn(frames: Picture, slope: Picture, level: Picture) -> Picture:
    """Applies the lines to the frames at their own size."""
    size = frames.shape[2], frames.shape[1]
    whole = [
        cv2.resize(one, size, interpolation=cv2.INTER_LINEAR) * frame + cv2.resize(other, size, interpolation=cv2.INTER_LINEAR)
        for frame, one, other in zip(frames, slope, level, strict=True)
    ]
    return np.stack(whole)


def _even(maps: Picture, *, channels: bool = False) -> Picture:
    """Gives the maps of all frames the mean 0 and the deviation 1, together or channel by channel."""
    axes = (0, 1, 2) if channels else None
    return np.asarray((maps - maps.mean(axis=axes)) / np.maximum(maps.std(axis=axes), 1e-3), np.float32)


def _mean(maps: Picture) -> Picture:
    """Returns the mean of each window, which the border cuts."""
    reach = (2 * _RADIUS + 1,) * 2
    inside = cv2.boxFilter(np.ones(maps.shape[1:3], np.float32), -1, reach, normalize=False, borderType=cv2.BORDER_CONSTANT)[..., None]
    summed = [cv2.boxFilter(each, -1, reach, normalize=False, borderType=cv2.BORDER_CONSTANT) for each in maps]
    return np.asarray(np.stack(summed) / inside, np.float32)
