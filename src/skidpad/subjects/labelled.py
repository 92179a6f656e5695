"""Labelled pictures at the network's size, as training wants them."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch

from skidpad.core.errors import BadDriveError
from skidpad.core.images import FloatArray, Frames
from skidpad.core.progress import Progress, silent
from skidpad.drives.drive import Drive
from skidpad.subjects.description import InputSpec
from skidpad.subjects.preprocess import Preprocessor

_CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class Labelled:
    """Pictures as bytes at the network's size, (N, height_px, width_px, channels) on the CPU, and steering (N,) in radians.

    N x height_px x width_px x channels bytes stay in memory: 39.6 kB a frame for PilotNet, 223 MB for 5,614 frames.
    """

    pictures: torch.Tensor
    labels_rad: FloatArray

    def __post_init__(self) -> None:
        if len(self.pictures) != len(self.labels_rad) or self.pictures.dtype != torch.uint8 or self.pictures.ndim != 4:
            raise ValueError(
                f"pictures must be uint8 (N, height, width, channels) with N labels; "
                f"got {self.pictures.dtype} {tuple(self.pictures.shape)} and {len(self.labels_rad)} labels"
            )

    def __len__(self) -> int:
        return len(self.labels_rad)

    @classmethod
    def of(cls, frames: Frames, labels_rad: FloatArray, spec: InputSpec) -> Self:
        """Brings frames to the network's size on the path that the subject itself takes."""
        return cls(Preprocessor(spec, _CPU).shrink(frames), np.asarray(labels_rad, np.float64))

    def joined(self, *others: "Labelled") -> "Labelled":
        """Returns these pictures and then the others'."""
        everything = (self, *others)
        return Labelled(torch.cat([part.pictures for part in everything]), np.concatenate([part.labels_rad for part in everything]))

    def select(self, indices: np.ndarray) -> "Labelled":
        """Returns the pictures at these positions."""
        return Labelled(self.pictures[torch.from_numpy(np.asarray(indices, np.int64))], self.labels_rad[indices])


@dataclass(frozen=True, slots=True)
class Collected:
    """What of a drive can be trained on, and how many frames cannot: broken ones and those without a label."""

    data: Labelled
    broken: int
    unlabelled: int


def collect(drive: Drive, spec: InputSpec, progress: Progress = silent, batch_size: int = 64) -> Collected:
    """Reads a drive once and keeps its labelled frames at the network's size."""
    preprocess = Preprocessor(spec, _CPU)
    pictures = torch.empty((len(drive), spec.height_px, spec.width_px, spec.colour.channels), dtype=torch.uint8)
    labels: list[FloatArray] = []
    filled = broken = unlabelled = 0
    for batch in drive.batches(batch_size):
        known = np.isfinite(batch.steering_rad)
        small = preprocess.shrink(batch.frames if known.all() else batch.frames[known])
        pictures[filled : filled + len(small)] = small
        labels.append(batch.steering_rad[known])
        filled += len(small)
        broken += len(batch.problems)
        unlabelled += int(len(known) - known.sum())
        progress(filled + broken + unlabelled, len(drive), "reading the drive")
    if filled == 0:
        raise BadDriveError(f"drive {drive.name!r} has no frame with a label to train on ({broken} broken, {unlabelled} without a label)")
    return Collected(Labelled(pictures[:filled], np.concatenate(labels)), broken, unlabelled)
