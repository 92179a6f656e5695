"""What every way is given: the same frames, mutants, network, neuron bounds and tolerance."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from skidpad.core.stimuli import Recipe
from skidpad.coverage.profile import Profile
from ways.plain import Frame, PlainTransform, plain_transform

NC_THRESHOLD, SECTIONS = 0.2, 1000


@dataclass(frozen=True)
class Case:
    """The frames, (N, height, width, 3) RGB, under each recipe, and unchanged."""

    frames: NDArray[np.uint8]
    recipes: tuple[Recipe, ...]
    module: nn.Sequential
    profile: Profile
    layer_widths: tuple[int, ...]
    within_rad: float

    @property
    def images(self) -> int:
        """How many pictures the network sees: the originals and every mutant."""
        return len(self.frames) * (1 + len(self.recipes))

    def transforms(self) -> list[PlainTransform]:
        """Returns the plain functions, the unchanged frame first."""
        return [_unchanged, *(plain_transform(recipe, *self.frames.shape[1:3]) for recipe in self.recipes)]


def observed(module: nn.Sequential) -> list[nn.Module]:
    """Returns the modules after which a layer's value is taken: each activation, and the last dense layer."""
    children = list(module.children())
    return [child for child in children if isinstance(child, nn.ReLU)] + children[-1:]


def to_input(small: torch.Tensor) -> torch.Tensor:
    """Makes PilotNet's input, (N, 3, 66, 200) within [-1, 1], of YUV bytes (N, 66, 200, 3)."""
    return small.to(torch.float32).mul_(2.0 / 255.0).sub_(1.0).permute(0, 3, 1, 2)


@contextmanager
def threads(torch_threads: int, opencv_threads: int) -> Iterator[None]:
    """Sets how many threads torch and OpenCV may use, for the work within."""
    before = torch.get_num_threads(), cv2.getNumThreads()
    torch.set_num_threads(torch_threads)
    cv2.setNumThreads(opencv_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        cv2.setNumThreads(before[1])


def _unchanged(frame: Frame) -> Frame:
    return frame
