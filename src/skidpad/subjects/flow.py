"""Optical flow between consecutive frames, and the picture that a network is shown of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from math import pi

import cv2
import numpy as np
import torch

# The settings of Autumn's preprocessing: half-size pyramid of 3 levels, windows of 15 px, 3 passes, polynomials over 5 px.
_PYRAMID, _LEVELS, _WINDOW_PX, _PASSES, _POLYNOMIAL_PX, _SIGMA = 0.5, 3, 15, 3, 5, 1.2


def flows(grey: torch.Tensor, windows: torch.Tensor, threads: int = 1) -> torch.Tensor:
    """Returns how far every pixel moved since the frame before, (frames, height, width, 2) float32 in px to the right and down.

    grey: (frames, height, width, 1) uint8 on the CPU. windows: (N, T) rows of `grey`; neighbours in a window are neighbours in
    time. Each pair is computed once, however many windows hold it; a frame that comes first in all its windows has no flow (0).
    The result does not depend on `threads`.

    Reference: Farnebäck 2003, Two-Frame Motion Estimation Based on Polynomial Expansion, by OpenCV, with the settings of the
    Udacity community model autumn.
    """
    pictures = grey[..., 0].contiguous().numpy()
    found = np.zeros((*pictures.shape, 2), np.float32)
    before, after = np.unique(windows.cpu().unfold(1, 2, 1).reshape(-1, 2).numpy(), axis=0).T

    def fill(pair: tuple[int, int]) -> None:
        first, second = pair
        args = (_PYRAMID, _LEVELS, _WINDOW_PX, _PASSES, _POLYNOMIAL_PX, _SIGMA, 0)
        found[second] = cv2.calcOpticalFlowFarneback(pictures[first], pictures[second], np.zeros_like(found[second]), *args)

    pairs = list(zip(before.tolist(), after.tolist(), strict=True))
    if threads == 1:
        for pair in pairs:
            fill(pair)
    else:
        with ThreadPoolExecutor(threads, thread_name_prefix="skidpad-flow") as pool:
            list(pool.map(fill, pairs))
    return torch.from_numpy(found)


def flow_pictures(moved: torch.Tensor) -> torch.Tensor:
    """Paints flow, (N, height, width, 2), as uint8 RGB (N, height, width, 3): the hue is the direction, the value the distance.

    A hue of 0 (red) is to the right, and hues go round clockwise; the longest way within a picture has the value 255, the
    shortest 0; the saturation is full.

    Reference: Udacity self-driving-car, steering-models/community-models/autumn, README, Data Processing.
    """
    count, height, width, _ = moved.shape
    tall = moved.cpu().numpy().reshape(count * height, width, 2)
    distance, angle_rad = cv2.cartToPolar(np.ascontiguousarray(tall[..., 0]), np.ascontiguousarray(tall[..., 1]))
    each = np.asarray(distance).reshape(count, -1)
    low, high = each.min(1, keepdims=True), each.max(1, keepdims=True)
    value = (each - low) * (255.0 / np.where(high > low, high - low, 1.0))
    hsv = np.full((count * height, width, 3), 255, np.uint8)
    hsv[..., 0] = np.minimum(np.asarray(angle_rad) * (90.0 / pi), 179.0)
    hsv[..., 2] = np.minimum(value, 255.0).reshape(count * height, width)
    return torch.from_numpy(np.asarray(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)).reshape(count, height, width, 3))
