"""What the subject answered on the frames as they are: what mutants are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from skidpad.core.images import BoolArray, FloatArray, IntArray
from skidpad.oracles.relation import Answers

if TYPE_CHECKING:
    from skidpad.runs.folder import Run

ORIGINALS = "originals"
"""The phase of the frames as they are; every other phase bears the name of its search."""


@dataclass(frozen=True, slots=True)
class Originals:
    """Answers and labels by frame index, NaN where there is none, and which frames could be read; 17 bytes a frame are kept whole."""

    answer: FloatArray
    label: FloatArray
    seen: BoolArray

    @classmethod
    def of(cls, run: Run, frames: int) -> Self:
        """Reads the phase from a run over a drive of `frames` frames."""
        answer, label = np.full(frames, np.nan), np.full(frames, np.nan)
        seen = np.zeros(frames, np.bool_)
        for table in run.iter_records(ORIGINALS, ("frame_index", "original", "label")):
            index = table["frame_index"].to_numpy()
            answer[index] = table["original"].to_numpy()
            label[index] = table["label"].to_numpy()
            seen[index] = True
        return cls(answer, label, seen)

    @property
    def labelled(self) -> int:
        """How many frames have a label and a finite answer."""
        return int(np.isfinite(self.answer - self.label).sum())

    @property
    def mse_rad2(self) -> float:
        """The mean squared error on the originals, MSE_orig of Eq. 2; NaN without labels."""
        error = self.answer - self.label
        finite = error[np.isfinite(error)]
        return float(np.mean(finite**2)) if len(finite) else float("nan")

    def readable(self, block: range) -> IntArray:
        """Returns the frames of a block, which follow one another, that could be read."""
        return np.flatnonzero(self.seen[block.start : block.stop]) + block.start

    def answers(self, indices: IntArray, mutant: FloatArray) -> Answers:
        """Puts the mutants' answers beside those on their originals."""
        return Answers(self.answer[indices], mutant, self.label[indices])
