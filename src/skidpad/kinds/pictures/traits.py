"""What rules know of a changed picture: its stimulus and parameters, where it is in the drive, how bright it is and where the road goes."""

from __future__ import annotations

from collections.abc import Sequence
from math import degrees, isnan, nan
from typing import TYPE_CHECKING, Any

import numpy as np

from skidpad.core.errors import SkidpadError
from skidpad.drives.drive import Problem
from skidpad.kinds.ruling import failed_of, judged_rows, recipe_traits
from skidpad.statistics.rules import Cases, Trait

if TYPE_CHECKING:
    from skidpad.drives.drive import Drive
    from skidpad.runs.folder import Run

STRETCHES = 40
"""Neighbouring frames are alike: a drive is cut into so many stretches, each on one side of the split."""
_STRAIGHT_DEG = 3.0
_MAX_FRAMES = 2000


def picture_cases(campaign: Any, run: Run, only: tuple[str, str] | None = None) -> Cases:
    """Reads the mutants of a run; frames of one stretch of the drive belong together. only: a column and the value that counts."""
    rows = [row for row in judged_rows(run, ("frame_index", "recipe", "label", "original"), only) if row["recipe"] != "[]"]
    frames = np.array([row["frame_index"] for row in rows], np.int64)
    # where there is no label, what the network answered on the original tells as well where the road goes
    steered = [degrees(row["original"] if isnan(row["label"]) else row["label"]) for row in rows]
    traits = [
        *recipe_traits([row["recipe"] for row in rows]),
        Trait("the road", [_bend(each) for each in steered]),
        Trait("the steering on the original", np.abs(np.array(steered, np.float64)), "degrees"),
    ]
    light = _brightness(campaign.drive, sorted(set(frames.tolist())))
    if light:
        traits.append(Trait("the frame's brightness", np.array([light.get(frame, nan) for frame in frames.tolist()]), "of 255"))
    whole = int(frames.max()) + 1 if len(frames) else 1
    return Cases(failed_of(rows), tuple(traits), [f"stretch {frame * STRETCHES // whole}" for frame in frames.tolist()])


def limit_cases(campaign: Any, run: Run) -> Cases:
    """Reads the frames of a search for limits, without its drives."""
    return picture_cases(campaign, run, ("mode", "offline"))


def _bend(steered_deg: float) -> str:
    return "straight" if abs(steered_deg) < _STRAIGHT_DEG else "a bend to the left" if steered_deg > 0 else "a bend to the right"


def _brightness(drive: Drive, frames: Sequence[int]) -> dict[int, float]:
    """Returns the mean of each frame; nothing where there are too many, or where the drive is gone."""
    if len(frames) > _MAX_FRAMES:
        return {}
    try:
        read = {frame: drive.frame(frame) for frame in frames}
    except SkidpadError:
        return {}
    return {frame: float(picture.mean()) for frame, picture in read.items() if not isinstance(picture, Problem)}
