"""The scenes of a search: chosen and read once, encoded once, with what the subject answers to them as they are.

Scenes come in one random order, the same for every search, so that the first of them are a fair sample of all. A subject that
looks back takes runs of consecutive scenes, which are put in random order instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import cv2
import numpy as np
import torch

from skidpad.core.errors import BadDriveError
from skidpad.core.images import FloatArray, IntArray, NumpyFrames
from skidpad.core.progress import Progress, silent
from skidpad.core.seeding import child_rng
from skidpad.runs.workers.here import patiently
from skidpad.stimuli.weather.contents import Contents
from skidpad.stimuli.weather.scenes import working_size

if TYPE_CHECKING:
    from pathlib import Path

    from skidpad.drives.drive import Drive, Problem
    from skidpad.stimuli.weather.decoding import FoldedDecoder
    from skidpad.stimuli.weather.translation import Weather
    from skidpad.subjects.base import Subject


_CPU_BLOCK = 16

_RUNS = 4
"""How many times as long as the memory of a subject a run of consecutive scenes is."""


@dataclass(frozen=True, slots=True)
class Block:
    """Scenes that are looked at together: rows of the contents, the first `lead` of which are the past; and their numbers."""

    rows: slice
    scenes: slice

    @property
    def count(self) -> int:
        """How many scenes are answered for."""
        return int(self.scenes.stop - self.scenes.start)


@dataclass(frozen=True)
class SceneSet:
    """N scenes in the order in which they are looked at.

    indices: frames of the drive. original: the subject's answers to them. counted: whether the original answer is a number; a scene
    without one belongs to no figure. sources: the scenes at the working size, uint8, where a filter of scenes wants them.
    """

    indices: IntArray
    frame_ids: tuple[str, ...]
    label: FloatArray
    original: FloatArray
    blocks: tuple[Block, ...]
    contents: Contents
    frame_size: tuple[int, int]
    lead: int
    problems: tuple[Problem, ...]
    sources: NumpyFrames | None = None

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def counted(self) -> torch.Tensor:
        """Whether each scene belongs to the figures, (N,) bool."""
        return torch.from_numpy(np.isfinite(self.original))


def block_scenes(decoder: FoldedDecoder) -> int:
    """Returns how many scenes are decoded and looked at together: as many as keep the device busy."""
    return _CPU_BLOCK if decoder.device.type == "cpu" else decoder.batch_size


def chosen_runs(frames: int, wanted: int, lead: int, block: int) -> list[IntArray]:
    """Returns runs of frame indices in the order in which they are looked at, `wanted` frames in all or a few more (0: all)."""
    wanted = min(wanted or frames, frames)
    rng = child_rng(0, "order of scenes")
    if lead == 0:
        spaced = np.linspace(0, frames - 1, wanted).round().astype(np.int64) if wanted else np.zeros(0, np.int64)
        order = rng.permutation(spaced)
        return [order[start : start + block] for start in range(0, len(order), block)]
    length = max(block, _RUNS * lead)
    starts = np.arange(0, frames, length)
    spaced = np.linspace(0, len(starts) - 1, min(-(-wanted // length), len(starts))).round().astype(np.int64)
    return [np.arange(start, min(start + length, frames)) for start in rng.permutation(starts[spaced]).tolist()]


def read_scenes(
    drive: Drive,
    subject: Subject,
    column: int,
    weather: Weather,
    decoder: FoldedDecoder,
    *,
    wanted: int = 0,
    file: Path | None = None,
    keep_sources: bool = False,
    progress: Progress = silent,
) -> SceneSet:
    """Reads the scenes, asks the subject about them and encodes them; broken frames are left out and listed."""
    lead = subject.lead
    runs = chosen_runs(len(drive), wanted, lead, block_scenes(decoder))
    size = (drive.frame_shape[0], drive.frame_shape[1])
    contents = Contents(weather, decoder, sum(len(run) + lead for run in runs), size, file)
    found = _Found()
    for number, run in enumerate(runs):
        batch = patiently(partial(drive.read, run, lead=lead))
        found.problems += batch.problems
        if len(batch):
            clip = batch.clip if decoder.device.type == "cpu" else torch.from_numpy(batch.clip).to(decoder.device)
            start = len(contents)
            contents.add(clip)
            found.original.append(subject.observe(clip).answers[:, column])
            found.blocks.append(Block(slice(start, len(contents)), slice(found.count, found.count + len(batch))))
            found.indices.append(batch.indices)
            found.labels.append(batch.steering_rad)
            found.frame_ids += batch.frame_ids
            found.count += len(batch)
            if keep_sources:
                found.sources.append(at_working_size(batch.frames, weather))
        progress(number + 1, len(runs), "encoding scenes")
    if not found.count or not np.isfinite(np.concatenate(found.original)).any():
        cause = found.problems[0] if found.problems else "the subject answers none of its scenes with a number"
        raise BadDriveError(f"drive {drive.name!r} has no scene that can be searched with: {cause}; look at it with `skidpad inspect`")
    return SceneSet(
        np.concatenate(found.indices),
        tuple(found.frame_ids),
        np.concatenate(found.labels),
        np.concatenate(found.original),
        tuple(found.blocks),
        contents,
        size,
        lead,
        tuple(found.problems),
        np.concatenate(found.sources) if found.sources else None,
    )


class _Found:
    """What the runs gave so far."""

    def __init__(self) -> None:
        self.count = 0
        self.indices: list[IntArray] = []
        self.frame_ids: list[str] = []
        self.labels: list[FloatArray] = []
        self.original: list[FloatArray] = []
        self.blocks: list[Block] = []
        self.problems: tuple[Problem, ...] = ()
        self.sources: list[NumpyFrames] = []


def at_working_size(frames: NumpyFrames, weather: Weather) -> NumpyFrames:
    """Returns frames at the size at which a weather works, as a filter of scenes gets them, uint8 (N, height, width, 3)."""
    height, width = working_size(frames.shape[1], frames.shape[2], weather.card.size_px, weather.card.sizes.stride)
    return np.stack([np.asarray(cv2.resize(frame, (width, height), interpolation=cv2.INTER_AREA), np.uint8) for frame in frames])
