"""What every way is given: the same frames, mutants, network, neuron bounds and tolerance; and those mutants without skidpad.

The transforms are plain OpenCV calls on one frame. With the resizing that PilotNet was trained on they give the pixels that skidpad
gives, so that the ways can be compared by what they cover and find.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import cos, radians, sin

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from skidpad.core.stimuli import Params, Recipe
from skidpad.coverage.profile import Profile
from skidpad.stimuli.pictures import deeptest
from skidpad.stimuli.pictures.kernels import Veil

Frame = NDArray[np.uint8]
PlainTransform = Callable[[Frame], Frame]

NC_THRESHOLD, SECTIONS = 0.2, 1000
WIDTH_PX, HEIGHT_PX, CROP_TOP = 200, 66, 0.4
"""PilotNet's input."""


@dataclass(frozen=True)
class Found:
    """What a way covered, in regions, and how many mutants broke the relation."""

    nc: int
    kmnc: int
    nbc: int
    findings: int


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


def plain_input(frame: Frame) -> Frame:
    """Crops, resizes with antialiasing and changes the colour of one frame: (66, 200, 3) uint8 YUV."""
    pixels = torch.from_numpy(frame[round(CROP_TOP * len(frame)) :]).permute(2, 0, 1)[None]
    small = functional.interpolate(pixels, (HEIGHT_PX, WIDTH_PX), mode="bilinear", antialias=True)[0]
    return np.asarray(cv2.cvtColor(small.permute(1, 2, 0).contiguous().numpy(), cv2.COLOR_RGB2YUV))


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


def plain_transform(recipe: Recipe, height: int, width: int) -> PlainTransform:
    """Returns the function that a user of OpenCV would write for a recipe of one step."""
    step = recipe.steps[0]
    params = step.params
    match step.stimulus:
        case "translation" | "scale" | "shear" | "rotation":
            matrix = _matrix(step.stimulus, params, height, width)
            return lambda frame: cv2.warpAffine(frame, matrix, (width, height))
        case "contrast":
            return lambda frame: cv2.convertScaleAbs(frame, alpha=params.real("gain"))
        case "brightness":
            plane = np.full((height, width, 3), params.whole("shift"), np.uint8)
            return lambda frame: cv2.add(frame, plane)
        case "blur":
            return _blur(str(params["kind"]), params.whole("size"))
        # a user has the layers of fog and rain as pictures; drawing them is not what is measured
        case "deeptest-fog":
            return _laid(deeptest._fog_veil(height, width, params.real("density"), params.whole("seed")))  # noqa: SLF001
        case "deeptest-rain":
            return _laid(deeptest._rain_veil(height, width, params.real("intensity"), params.real("slant_deg"), params.whole("seed")))  # noqa: SLF001
        case name:
            raise ValueError(f"the plain way has no transform {name!r}; leave it out with --transforms")


def _matrix(name: str, params: Params, height: int, width: int) -> NDArray[np.float64]:
    middle = np.array([(width - 1) / 2.0, (height - 1) / 2.0])
    if name == "translation":
        return np.array([[1.0, 0.0, params.real("dx_px")], [0.0, 1.0, params.real("dy_px")]])
    if name == "shear":
        return np.array([[1.0, params.real("sx"), 0.0], [params.real("sy"), 1.0, 0.0]])
    if name == "scale":
        linear = np.diag([params.real("sx"), params.real("sy")])
    else:
        angle = radians(params.real("angle_deg"))
        linear = np.array([[cos(angle), -sin(angle)], [sin(angle), cos(angle)]])
    return np.column_stack([linear, middle - linear @ middle])


def _blur(kind: str, size: int) -> PlainTransform:
    if kind == "averaging":
        return lambda frame: cv2.blur(frame, (size, size))
    if kind == "gaussian":
        return lambda frame: cv2.GaussianBlur(frame, (size, size), 0.0)
    if kind == "median":
        return lambda frame: cv2.medianBlur(frame, size)
    return lambda frame: cv2.bilateralFilter(frame, size, 75.0, 75.0)


def _laid(veil: Veil) -> PlainTransform:
    rows, box = len(veil.soft), (veil.soft_size_px, veil.soft_size_px)

    def lay(frame: Frame) -> Frame:
        out = cv2.multiply(frame, veil.keep, scale=1.0 / 255.0)
        if rows:
            soft = cv2.blur(frame[: rows + veil.soft_size_px // 2], box)[:rows]
            out[:rows] = cv2.add(out[:rows], cv2.multiply(soft, veil.soft, scale=1.0 / 255.0))
        return np.asarray(cv2.add(out, veil.add))

    return lay
