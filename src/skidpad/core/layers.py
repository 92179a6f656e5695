"""The layers of a subject, as ranges of one flat vector of neurons."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layer:
    """Neurons `start` to `stop` (excluded) of the flat vector belong to this layer."""

    name: str
    start: int
    stop: int

    @property
    def neurons(self) -> int:
        """How many neurons the layer has."""
        return self.stop - self.start
