"""Runs of `skidpad limits` in the browser: a frame beside the same frame under a severity. Apart from `replaying`, which drives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import degrees
from typing import ClassVar

import numpy as np

from skidpad.core.errors import BadRunError
from skidpad.core.images import NumpyFrames, as_numpy
from skidpad.drives.drive import Problem, capture_of
from skidpad.kinds.exhibits import Form, PairAnswers, PictureSide, Row, Sight
from skidpad.kinds.pictures.exhibit import PairExhibit
from skidpad.page.wording import DEGREES


class LimitsExhibit(PairExhibit):
    """Shows frames under severities; a drive has nothing to look at here."""

    needs: ClassVar[Mapping[str, Form]] = {**PairExhibit.needs, "mode": Form.TEXT, "severity": Form.TEXT, "expected": Form.REAL}
    command: ClassVar[str] = "limits"
    groups: ClassVar[tuple[str, ...]] = ("severity",)

    def sight(self, row: Row) -> Sight:
        """A pair, unless the record is of a drive."""
        return Sight.NOTHING if row.get("mode") == "online" else super().sight(row)

    def answers(self, row: Row) -> PairAnswers:
        """The right answer is the expected one, which the records have beside the original's."""
        said = super().answers({**row, "original": row["expected"]})
        moved = float(row["expected"]) - float(row["original"])
        return replace(said, moved=degrees(moved) if said.unit == DEGREES else moved)

    def picture(self, row: Row, side: PictureSide) -> NumpyFrames:
        """Renders the same pixels as in the run; the original is cut as a moved camera's picture is."""
        index = int(row["frame_index"])
        frame = self.drive.frame(index) if 0 <= index < len(self.drive) else None
        if frame is None or isinstance(frame, Problem):
            raise BadRunError(f"frame {index} can no longer be read; put the drive back as it was")
        recipe = self._recipe(row)
        change = recipe.reference if side is PictureSide.ORIGINAL else recipe.apply
        changed: NumpyFrames = as_numpy(change(frame[np.newaxis], self.stimuli_of(recipe), capture_of(self.drive, np.array([index]))))[0]
        return changed
