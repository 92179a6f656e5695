"""What DeepTest's retraining took, did and brought."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from math import nan
from typing import Any, Self

from skidpad.core.settings import jsonable
from skidpad.oracles.error import PredictionError
from skidpad.repairs.settings import RepairSettings, Split

ORIGINALS = "originals"
"""The row of the held-out frames as they are."""

ALL_MUTANTS = "all mutants"

_CHANGES = ("mse_change", "mse_change_control", "mse_change_beyond_control")


@dataclass(frozen=True, slots=True)
class Improvement:
    """The error on one set of held-out pictures before, after, and of the control; not finite answers are counted, not averaged.

    The control is retrained as long from the same weights without mutants; without one its errors are NaN.
    """

    pictures: str
    cases: int
    mse_before_rad2: float
    mse_after_rad2: float
    mse_control_rad2: float
    rmse_before_rad: float
    rmse_after_rad: float
    rmse_control_rad: float
    not_finite_before: int
    not_finite_after: int
    not_finite_control: int

    @classmethod
    def of(cls, pictures: str, before: PredictionError, after: PredictionError, control: PredictionError | None) -> Self:
        """Puts the errors side by side."""
        return cls(
            pictures=pictures,
            cases=before.frames,
            mse_before_rad2=before.mse_rad2,
            mse_after_rad2=after.mse_rad2,
            mse_control_rad2=nan if control is None else control.mse_rad2,
            rmse_before_rad=before.rmse_rad,
            rmse_after_rad=after.rmse_rad,
            rmse_control_rad=nan if control is None else control.rmse_rad,
            not_finite_before=before.not_finite,
            not_finite_after=after.not_finite,
            not_finite_control=0 if control is None else control.not_finite,
        )

    @property
    def mse_change(self) -> float:
        """The change of the mean squared error as a share: -0.44 is 44 % less; NaN where there was no error before."""
        return _change(self.mse_before_rad2, self.mse_after_rad2)

    @property
    def mse_change_control(self) -> float:
        """What further training alone changes, as a share of the error before."""
        return _change(self.mse_before_rad2, self.mse_control_rad2)

    @property
    def mse_change_beyond_control(self) -> float:
        """What the mutants bring beyond further training, as a share of the control's error; NaN without a control.

        1 + mse_change is the product of 1 + mse_change_control and 1 + this.
        """
        return _change(self.mse_control_rad2, self.mse_after_rad2)


@dataclass(frozen=True, slots=True)
class RepairReport:
    """One repair: what was taken, what was trained on, what was held out, and the errors before, after and of the control.

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
            row.update({name: getattr(improvement, name) for name in _CHANGES})
        return json.dumps(jsonable(payload), indent=2, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads what `to_json` wrote."""
        payload: dict[str, Any] = json.loads(text)
        settings = payload["settings"]
        names = [field.name for field in fields(Improvement)]
        return cls(
            **{
                **payload,
                "settings": RepairSettings(**{**settings, "transforms": tuple(settings["transforms"]), "split": Split(settings["split"])}),
                "improvements": tuple(Improvement(**{name: _number(row[name]) for name in names}) for row in payload["improvements"]),
                "notes": tuple(payload["notes"]),
            }
        )


def _number(value: Any) -> Any:
    return nan if value is None else value


def _change(before: float, after: float) -> float:
    return after / before - 1.0 if before > 0.0 else nan
