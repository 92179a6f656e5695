"""DeepTest's transforms and PilotNet's preprocessing as plain OpenCV calls on one frame, without skidpad."""

from __future__ import annotations

from collections.abc import Callable
from math import cos, radians, sin

import cv2
import numpy as np
from numpy.typing import NDArray

from skidpad.core.stimuli import Params, Recipe
from skidpad.stimuli.pictures import stimuli

Frame = NDArray[np.uint8]
PlainTransform = Callable[[Frame], Frame]

WIDTH_PX, HEIGHT_PX, CROP_TOP = 200, 66, 0.4
"""PilotNet's input."""


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
        case "fog" | "rain":
            return _veil(recipe, height, width)
        case name:
            raise ValueError(f"the plain way has no transform {name!r}; leave it out with --transforms")


def plain_input(frame: Frame) -> Frame:
    """Crops, resizes and changes the colour of one frame: (66, 200, 3) uint8 YUV, OpenCV's fast bilinear resize."""
    small = cv2.resize(frame[round(CROP_TOP * len(frame)) :], (WIDTH_PX, HEIGHT_PX))
    return np.asarray(cv2.cvtColor(small, cv2.COLOR_RGB2YUV))


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


def _veil(recipe: Recipe, height: int, width: int) -> PlainTransform:
    """Fog and rain as one layer to multiply by and one to add, read off what a black and a white frame become.

    Fog's softening of the background is left out, which makes this way a little cheaper than skidpad's.
    """
    black = np.zeros((1, height, width, 3), np.uint8)
    add = recipe.apply(black, stimuli([recipe.name]))[0]
    keep = recipe.apply(black + 255, stimuli([recipe.name]))[0] - add
    return lambda frame: cv2.add(cv2.multiply(frame, keep, scale=1.0 / 255.0), add)
