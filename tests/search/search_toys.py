"""Stimuli with small grids, for searches that never look at a frame."""

from dataclasses import dataclass, field

from skidpad.core.stimuli import Params, Real, Space


@dataclass(frozen=True)
class Toy:
    """Adds a constant; its grid has `rows` rows."""

    rows: int = 10
    space: Space = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "space", Space((Real("by", 0.0, 99.0, 0.0),), tuple(Params(by=float(row)) for row in range(self.rows))))

    def apply(self, frames, params):
        return frames + params.real("by")


STIMULI = {"shear": Toy(10), "blur": Toy(4), "rotation": Toy(1), "fog": Toy(7)}
