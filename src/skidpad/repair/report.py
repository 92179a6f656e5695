"""What a repair took, did and brought."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, Self

from skidpad.oracles.error import PredictionError
from skidpad.repair.settings import RepairSettings, Split

ORIGINALS = "originals"
"""The row of the held-out frames as they are."""

ALL_MUTANTS = "all mutants"


@dataclass(frozen=True, slots=True)
class Improvement:
    """The error on one set of held-out pictures before and after; not finite answers are counted, not averaged."""

    pictures: str
    cases: int
    mse_before_rad2: float
    mse_after_rad2: float
    rmse_before_rad: float
    rmse_after_rad: float
    not_finite_before: int
    not_finite_after: int

    @classmethod
    def of(cls, pictures: str, before: PredictionError, after: PredictionError) -> Self:
        """Puts the two errors side by side."""
        return cls(
            pictures,
            before.frames,
            before.mse_rad2,
            after.mse_rad2,
            before.rmse_rad,
            after.rmse_rad,
            before.not_finite,
            after.not_finite,
        )

    @property
    def mse_change(self) -> float:
        """The change of the mean squared error as a share: -0.44 is 44 % less; NaN where there was no error before."""
        return self.mse_after_rad2 / self.mse_before_rad2 - 1.0 if self.mse_before_rad2 > 0.0 else float("nan")


@dataclass(frozen=True, slots=True)
class RepairReport:
    """One repair: what was taken, what was trained on, what was held out, and the errors before and after.

    training_frames: of the original training drive. training_originals: frames of the run itself, trained on as they are only
    where no training drive was given. shared_frames: held-out frames that the training drive holds too, left out of it.
    """

    subject: str
    subject_sha256: str
    toml: str
    weights: str
    weights_sha256: str
    settings: RepairSettings
    run_drive_sha256: str
    training_drive: str
    training_drive_sha256: str
    available_mutants: int
    unlabelled_mutants: int
    training_frames: int
    training_originals: int
    training_mutants: int
    held_out_frames: int
    held_out_mutants: int
    shared_frames: int
    epochs: int
    improvements: tuple[Improvement, ...]
    notes: tuple[str, ...]

    def improvement(self, pictures: str) -> Improvement | None:
        """Returns the row of one set of pictures, or None."""
        return next((row for row in self.improvements if row.pictures == pictures), None)

    def to_json(self) -> str:
        """Writes the report; what is not a finite number becomes null."""
        payload = asdict(self)
        payload["settings"]["split"] = self.settings.split.value
        for row, improvement in zip(payload["improvements"], self.improvements, strict=True):
            row["mse_change"] = improvement.mse_change
        return json.dumps(_finite(payload), indent=2, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads what `to_json` wrote."""
        payload: dict[str, Any] = json.loads(text)
        settings = payload["settings"]
        rows = [{name: value for name, value in row.items() if name != "mse_change"} for row in payload["improvements"]]
        return cls(
            **{
                **payload,
                "settings": RepairSettings(**{**settings, "transforms": tuple(settings["transforms"]), "split": Split(settings["split"])}),
                "improvements": tuple(Improvement(**{name: _number(value) for name, value in row.items()}) for row in rows),
                "notes": tuple(payload["notes"]),
            }
        )


def _finite(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def _number(value: Any) -> Any:
    return float("nan") if value is None else value
