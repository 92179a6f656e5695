"""What a training tells of itself."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EpochRow:
    """One row of the training curve; errors are mean squares in radians squared (NaN: no validation).

    stage: what was trained, where a network is trained in stages.
    """

    epoch: int
    learning_rate: float
    training_mse_rad2: float
    validation_mse_rad2: float
    stage: str = ""


@dataclass(frozen=True, slots=True)
class FitReport:
    """The curve, and the epoch whose weights the network has now."""

    curve: tuple[EpochRow, ...]
    best_epoch: int

    @property
    def best(self) -> EpochRow:
        """The row of the best epoch."""
        return self.curve[self.best_epoch - 1]
