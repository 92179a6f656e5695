"""What each epoch of a training reached, kept beside its checkpoint, so that a repair can say why none of them was kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

from skidpad.repairs.lessons import SETTLES
from skidpad.repairs.plan import TrainedEpoch
from skidpad.subjects.description import write_atomically

if TYPE_CHECKING:
    from skidpad.core.images import FloatArray
    from skidpad.subjects.training.fitting import EpochRow


@dataclass(eq=False)
class Epochs:
    """Notes what the weights of each epoch reach, under their score, by which the training's curve finds them again.

    measured: returns the figures of answers to the validation. path: a file that outlives a killed process, as the checkpoint does.
    """

    path: Path
    measured: Callable[[FloatArray], TrainedEpoch]
    _found: dict[str, TrainedEpoch] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path.is_file():
            self._found = {score: TrainedEpoch(**figures) for score, figures in json.loads(self.path.read_text()).items()}

    def __call__(self, answers_rad: FloatArray, score: float) -> None:
        """Takes the answers of an epoch's weights."""
        self._found[repr(score)] = self.measured(answers_rad)
        write_atomically(self.path, json.dumps({key: asdict(each) for key, each in self._found.items()}).encode())

    def best(self, curve: Sequence[EpochRow], epochs: int) -> TrainedEpoch | None:
        """Returns the best of those epochs that may be the best; None where it was not noted."""
        counting = [row for row in curve if row.epoch > int(SETTLES * epochs) and not isnan(row.score)]
        row = min(counting, key=lambda each: each.score, default=None)
        found = None if row is None else self._found.get(repr(row.score))
        return None if row is None or found is None else replace(found, epoch=row.epoch)
