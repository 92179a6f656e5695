"""Random looks: pictures changed in ways that belong to no condition, so that a network learns to hold whatever comes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import cv2
import numpy as np
import numpy.typing as npt

from skidpad.core.images import as_numpy
from skidpad.core.stimuli import F, Params, Real, Recipe, Space, Step, Whole
from skidpad.repairs.clouds import clouds
from skidpad.repairs.repainting import repainted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skidpad.core.stimuli import Stimulus

LOOK, REPAINT = "random-look", "random-repaint"
"""As recipes name them. They are no stimuli of the registry: they teach, and judge nothing."""

_LAYERS = 3
"""At most so many changes one after the other."""

_CHANGED = 0.5
"""How often a repainted look is changed at random as well."""

_SEEDS = 2**31 - 1

Picture = npt.NDArray[np.float32]
"""(N, height, width, 3), 0 to 1."""


@dataclass(frozen=True, slots=True)
class RandomLook:
    """One to three random changes, mixed with the frames; all frames of a call look alike, as under one condition.

    The changes are random convolutions, a tone curve for each channel, noise of a random spectrum, a picture of cloudy noise that is
    mixed in, light that differs from place to place, and rectangles that are covered. strength: how much of the changed picture is mixed
    in, 0 for nothing.

    Reference: Hendrycks et al. 2020, AugMix, section 3 (chains, mixed with the original); Xu et al. 2021, RandConv, section 3; Hendrycks
    et al. 2022, PixMix, section 3; Zhong et al. 2020, Random Erasing, section 3.
    """

    space: ClassVar[Space] = Space(
        (Whole("seed", 0, _SEEDS, 0), Real("strength", 0.0, 1.0, 0.0)), (Params(seed=0, strength=0.5), Params(seed=1, strength=1.0))
    )

    def apply(self, frames: F, params: Params) -> F:
        """Returns the changed frames, as NumPy."""
        strength = params.real("strength")
        if strength == 0.0:
            return frames
        rng = np.random.default_rng(params.whole("seed"))
        first = as_numpy(frames).astype(np.float32) / 255.0
        changed = first
        for place in rng.permutation(len(_CHANGES))[: int(rng.integers(1, _LAYERS + 1))].tolist():
            changed = np.clip(_CHANGES[place](changed, rng), 0.0, 1.0)
        mixed = first + strength * (changed - first)
        return np.round(mixed * 255.0).astype(np.uint8)  # type: ignore[return-value] # a repair renders in NumPy alone


@dataclass(frozen=True, slots=True)
class RandomRepaint:
    """A random repaint, mixed with the frames: see `repainting`. strength: how much of it is mixed in, 0 for nothing."""

    space: ClassVar[Space] = RandomLook.space

    def apply(self, frames: F, params: Params) -> F:
        """Returns the repainted frames, as NumPy."""
        strength = params.real("strength")
        if strength == 0.0:
            return frames
        first = as_numpy(frames).astype(np.float32) / 255.0
        changed = np.clip(repainted(first, np.random.default_rng(params.whole("seed"))), 0.0, 1.0)
        return np.round((first + strength * (changed - first)) * 255.0).astype(np.uint8)  # type: ignore[return-value] # see above


LOOKS: Mapping[str, Stimulus] = {LOOK: RandomLook(), REPAINT: RandomRepaint()}
"""What random looks are made of, by the names that recipes have for it."""


def drawn_look(rng: np.random.Generator, repaints: float) -> Recipe:
    """Draws a look. repaints: how often it begins with a repaint."""
    steps = [_drawn(REPAINT, 0.6, rng)] if rng.random() < repaints else []
    if not steps or rng.random() < _CHANGED:
        steps.append(_drawn(LOOK, 0.3, rng))
    return Recipe(tuple(steps))


def _drawn(name: str, least: float, rng: np.random.Generator) -> Step:
    return Step(name, Params(seed=int(rng.integers(_SEEDS)), strength=float(rng.uniform(least, 1.0))))


def _convolved(frames: Picture, rng: np.random.Generator) -> Picture:
    """Mixes channels and neighbours at random, and gives the result the brightness and contrast of the frames, roughly."""
    size = int(rng.choice([1, 3, 5, 7]))
    kernels = rng.normal(0.0, 1.0, (3, 3, size, size)).astype(np.float32)
    kernels /= np.sqrt((kernels**2).sum(axis=(1, 2, 3), keepdims=True))
    found = np.stack(
        [
            np.stack([sum(cv2.filter2D(frame[..., i], -1, kernels[o, i]) for i in range(3)) for o in range(3)], axis=-1)
            for frame in np.asarray(frames)
        ]
    )
    # the scale comes from the first frame, so that a clip does not flicker
    low, high = np.quantile(found[0], (0.01, 0.99), axis=(0, 1))
    return np.asarray((found - low) / np.maximum(high - low, 1e-3), np.float32)


def _toned(frames: Picture, rng: np.random.Generator) -> Picture:
    """Gives each channel a rising curve of its own, through random points, between random ends."""
    found = np.empty_like(frames)
    shared = np.sort(rng.random(4))
    for channel in range(3):
        own = np.sort(rng.random(4))
        points = np.sort(0.6 * shared + 0.4 * own)
        low, high = np.sort(rng.random(2)) if rng.random() < 0.5 else (0.0, 1.0)
        points = low + max(high - low, 0.15) * (points - points[0]) / max(points[-1] - points[0], 1e-3)
        found[..., channel] = np.interp(frames[..., channel], np.linspace(0.0, 1.0, 4), points)
    return found


def _noised(frames: Picture, rng: np.random.Generator) -> Picture:
    """Adds noise whose spectrum falls by a random power, coloured or grey; it stays or is new in each frame."""
    count = len(frames) if rng.random() < 0.5 else 1
    field = clouds((count, *frames.shape[1:3], 3 if rng.random() < 0.5 else 1), rng.uniform(0.3, 2.0), rng)
    return frames + np.float32(rng.uniform(0.03, 0.3)) * field


def _blended(frames: Picture, rng: np.random.Generator) -> Picture:
    """Mixes in a picture of cloudy noise by adding or by multiplying, as PixMix does with fractals."""
    field = clouds((1, *frames.shape[1:3], 3 if rng.random() < 0.5 else 1), rng.uniform(1.0, 3.0), rng)
    other = np.clip(np.float32(rng.random()) + np.float32(rng.uniform(0.05, 0.4)) * field, 0.0, 1.0)
    share = np.float32(rng.uniform(0.2, 0.8))
    if rng.random() < 0.5:
        return np.asarray((1.0 - share) * frames + share * other, np.float32)
    return np.asarray(np.maximum(frames, 1e-3) ** (1.0 - share) * np.maximum(2.0 * other * frames, 1e-3) ** share, np.float32)


def _lit(frames: Picture, rng: np.random.Generator) -> Picture:
    """Gives each region a brightness, a colour, a contrast and an offset of its own, all of which change smoothly from place to place."""
    shape, power = (1, *frames.shape[1:3]), rng.uniform(2.0, 3.0)
    tint = rng.normal(0.0, rng.uniform(0.0, 0.3), 3).astype(np.float32)
    gain = np.exp(np.float32(rng.uniform(0.1, 0.8)) * clouds((*shape, 1), power, rng) + np.float32(rng.uniform(-1.5, 0.5)) + tint)
    ground = rng.random(3 if rng.random() < 0.5 else 1).astype(np.float32)
    veil = np.clip(np.float32(rng.uniform(0.0, 0.6)) + np.float32(rng.uniform(0.0, 0.3)) * clouds((*shape, 1), power, rng), 0.0, 0.9)
    return np.asarray(gain * frames + veil * (ground - gain * frames), np.float32)


def _erased(frames: Picture, rng: np.random.Generator) -> Picture:
    """Covers some rectangles with a colour, more or less."""
    found = frames.copy()
    height, width = frames.shape[1:3]
    for _ in range(int(rng.integers(1, 9))):
        top, left = int(rng.integers(height)), int(rng.integers(width))
        bottom, right = top + 1 + int(rng.uniform(0.02, 0.4) * height), left + 1 + int(rng.uniform(0.02, 0.4) * width)
        part = found[:, top:bottom, left:right]
        part += np.float32(rng.uniform(0.4, 1.0)) * (rng.random(3).astype(np.float32) - part)
    return found


_CHANGES: tuple[Callable[[Picture, np.random.Generator], Picture], ...] = (_convolved, _toned, _noised, _blended, _lit, _erased)
