"""What a weather does to a drive rather than to a picture: whether it flickers, and what of the road it leaves to be seen near and far."""

from __future__ import annotations

from itertools import pairwise

import cv2
import numpy as np

from skidpad.core.images import BoolArray, Camera, FloatArray, NumpyFrames
from skidpad.stimuli.conditions.base import depth_m, horizon_row

NEAR_M, FAR_M = 12.0, 45.0
"""What is seen nearer than the first is near, what is seen beyond the second is far; in between counts as neither."""

_CONSISTENT_PX = 1.0
"""How far forth and back along the flow may end from where it began; what was hidden or is new ends elsewhere."""

_LEAST_SHARE = 0.3
"""Of the pixels, for two pictures to be neighbours of one drive: those of Udacity's have 0.8 to 0.9, two seconds apart 0.01 to 0.16."""

_ABOVE = 0.05
"""Share of the height above the horizon that counts as far: what stands along the road, and little sky."""


def flicker(recorded: NumpyFrames, made: NumpyFrames) -> tuple[float, float] | None:
    """Returns how much a clip and the recorded one change along the flow, in grey levels; None where no two frames belong together.

    recorded, made: neighbouring frames, (N, height, width, 3). The next picture is brought back by the optical flow of the recorded
    frames, and the mean distance is taken where the flow leads forth and back to the same place.

    Reference: Lai et al. 2018, Learning Blind Video Temporal Consistency, section 4 (warping error).
    """
    greys, changed = ([cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY) for frame in frames] for frames in (recorded, made))
    found: list[tuple[float, float]] = []
    for place, (now, later) in enumerate(pairwise(greys)):
        columns, rows, steady = _followed(now, later)
        if steady.mean() >= _LEAST_SHARE:
            pairs = ((changed[place], changed[place + 1]), (now, later))
            found.append(tuple(_apart(*pair, columns, rows, steady) for pair in pairs))  # type: ignore[arg-type] # two pairs make two numbers
    if not found:
        return None
    own, theirs = np.mean(found, axis=0).tolist()
    return own, theirs


def _followed(now: NumpyFrames, later: NumpyFrames) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Returns where in the later picture each pixel went, as maps for OpenCV, and where that can be relied on, (height, width) each."""
    search = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    height, width = now.shape
    # without a first guess, which a given field would be; OpenCV's stubs leave that out
    forth, back = (np.asarray(search.calc(*pair, None)) for pair in ((now, later), (later, now)))  # type: ignore[call-overload]
    columns, rows = np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32))
    to_columns, to_rows = columns + forth[..., 0], rows + forth[..., 1]
    returned = forth + cv2.remap(back, to_columns, to_rows, cv2.INTER_LINEAR)
    inside = (to_columns >= 0) & (to_columns <= width - 1) & (to_rows >= 0) & (to_rows <= height - 1)
    return to_columns, to_rows, inside & (np.hypot(returned[..., 0], returned[..., 1]) < _CONSISTENT_PX)


def _apart(now: NumpyFrames, later: NumpyFrames, columns: FloatArray, rows: FloatArray, steady: BoolArray) -> float:
    brought = cv2.remap(later.astype(np.float32), columns, rows, cv2.INTER_LINEAR)
    return float(np.abs(brought - now.astype(np.float32))[steady].mean())


def contrast_kept(recorded: NumpyFrames, made: NumpyFrames) -> tuple[float, float]:
    """Returns how much of the local contrast is left near and far, (N, height, width, 3) each: 1 is all of it, 0 none.

    The slopes of light in the made picture are held against those of the recorded one, so that grain which a weather adds does not
    count as contrast that it kept. How far away things are is the guess of `stimuli.conditions.base`. In fog the second is the smaller.
    """
    height, width = recorded.shape[1:3]
    camera = Camera.guess(height, width)
    metres = depth_m(camera)
    rows = np.arange(height)[:, None]
    horizon = horizon_row(camera)
    regions = (
        (metres <= NEAR_M) & (rows >= horizon),
        (metres >= FAR_M) & (rows >= horizon - _ABOVE * height) & (rows < horizon + 0.25 * height),
    )
    kept = np.array([[_left(*pair, region) for region in regions] for pair in zip(recorded, made, strict=True)])
    near, far = np.nanmean(kept, axis=0).tolist() if len(kept) else (float("nan"), float("nan"))
    return near, far


def _left(recorded: NumpyFrames, made: NumpyFrames, region: BoolArray) -> float:
    """Returns the made picture's slopes along the recorded one's, as a share of them; NaN where there were none."""
    before, after = (_slopes(frame)[:, region] for frame in (recorded, made))
    there = float((before * before).sum())
    return float((before * after).sum()) / there if there > 0.0 else float("nan")


def _slopes(frame: NumpyFrames) -> FloatArray:
    """Returns how light grows to the right and downwards, (2, height, width)."""
    grey = cv2.GaussianBlur(cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY).astype(np.float32), (0, 0), 1.0)
    return np.stack([cv2.Sobel(grey, cv2.CV_32F, 1, 0), cv2.Sobel(grey, cv2.CV_32F, 0, 1)])
