"""What a weather leaves of the road and of a drive: the road where it was, frames that do not flicker, contrast near and far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import numpy as np
import torch

from skidpad.core.errors import SkidpadError
from skidpad.core.images import BoolArray, FloatArray, NumpyFrames
from skidpad.referee import verdict
from skidpad.referee.network import RoadNet, drivable_areas, load_road_net, load_teacher, overlap_of
from skidpad.stimuli.weather.clips import contrast_kept, flicker
from skidpad.stimuli.weather.gauge import LEAST_IOU

STEADY_EV, STEADY_IOU = 0.7, 0.9
"""A judge reads a recorded frame steadily if it sees the same drivable area with so much more and less light. Where it does not, as between
hard shadows of trees, it is wrong about the frame as it is, and a change says little about the weather."""

_TOGETHER = 32


@dataclass(frozen=True, slots=True)
class SameDrive:
    """What a contender leaves of the road and of the drive.

    road_iou: of the drivable areas before and after, the mean over scenes with a road; road_iou_below: the share of them below LEAST_IOU.
    contrast_near, contrast_far: the share of local contrast that is left, see `clips.contrast_kept`. flicker, flicker_recorded: of clips
    under one style and of the recorded ones, in grey levels; None without clips. not_kept: the share of scenes that the referee refuses or
    doubts, so that no campaign counts them; kept_road_iou, kept_road_iou_below: over the others alone. unsteady: the share of scenes that
    the judges do not read steadily as they were recorded; steady_road_iou, steady_road_iou_below: over the others alone.
    """

    road_iou: float | None
    road_iou_below: float | None
    contrast_near: float | None
    contrast_far: float | None
    flicker: float | None = None
    flicker_recorded: float | None = None
    not_kept: float = 0.0
    kept_road_iou: float | None = None
    kept_road_iou_below: float | None = None
    unsteady: float = 0.0
    steady_road_iou: float | None = None
    steady_road_iou_below: float | None = None


@dataclass(frozen=True, slots=True)
class RecordedRoads:
    """The scenes as they were recorded, where their roads are, and which of them the judges read steadily."""

    scenes: NumpyFrames
    roads: BoolArray
    is_steady: BoolArray


def road_judges(files: Sequence[str], device: str) -> list[RoadNet]:
    """Reads the networks that judge where the road is, by default the referee's; never the one that weathers learn from."""
    teacher = load_teacher().state_dict()
    judges: list[RoadNet] = []
    for file in files or ("",):
        judge = load_road_net(Path(file) if file else None)
        state = judge.state_dict()
        if all(name in teacher and torch.equal(value, teacher[name]) for name, value in state.items()):
            raise SkidpadError(f"{file} is the network that weathers learn from, which cannot judge them; leave --judge out")
        judges.append(judge.to(device))
    return judges


def recorded_roads(judges: Sequence[RoadNet], scenes: NumpyFrames) -> RecordedRoads:
    """Finds the roads of recorded scenes."""
    roads = _roads(judges, scenes)
    lights = [(scenes * 2.0**stops).clip(0, 255).astype(np.uint8) for stops in (STEADY_EV, -STEADY_EV)]
    least = np.min([np.nan_to_num(overlap_of(roads, _roads(judges, light))) for light in lights], axis=0)
    return RecordedRoads(scenes, roads, least >= STEADY_IOU)


def _roads(judges: Sequence[RoadNet], scenes: NumpyFrames) -> BoolArray:
    return np.concatenate([drivable_areas(judges, scenes[first : first + _TOGETHER]) for first in range(0, len(scenes), _TOGETHER)])


def same_drive(
    judges: Sequence[RoadNet], recorded: RecordedRoads, scenes: NumpyFrames, clips: Sequence[tuple[NumpyFrames, NumpyFrames]], device: str
) -> SameDrive:
    """Compares scenes with the recorded ones that they were made of. clips: recorded ones, each with what was made of it."""
    overlap = overlap_of(recorded.roads, _roads(judges, scenes))
    parts = [slice(first, first + _TOGETHER) for first in range(0, len(scenes), _TOGETHER)]
    kept = np.concatenate([verdict.judge(recorded.scenes[part], scenes[part], device=device).kept for part in parts])
    has_road = np.isfinite(overlap)
    mean, below = _mean_and_below(overlap[has_road])
    kept_mean, kept_below = _mean_and_below(overlap[has_road & kept])
    steady_mean, steady_below = _mean_and_below(overlap[has_road & recorded.is_steady])
    near, far = contrast_kept(recorded.scenes, scenes)
    flickers = [found for before, changed in clips if (found := flicker(before, changed)) is not None]
    own, theirs = np.mean(flickers, axis=0).tolist() if flickers else (None, None)
    return SameDrive(
        road_iou=mean,
        road_iou_below=below,
        contrast_near=near if isfinite(near) else None,
        contrast_far=far if isfinite(far) else None,
        flicker=own,
        flicker_recorded=theirs,
        not_kept=float((~kept).mean()),
        kept_road_iou=kept_mean,
        kept_road_iou_below=kept_below,
        unsteady=float((~recorded.is_steady).mean()),
        steady_road_iou=steady_mean,
        steady_road_iou_below=steady_below,
    )


def _mean_and_below(overlap: FloatArray) -> tuple[float, float] | tuple[None, None]:
    return (float(overlap.mean()), float((overlap < LEAST_IOU).mean())) if len(overlap) else (None, None)
