"""k-multisection coverage: how finely the range of each neuron has been gone through."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from skidpad.core.errors import BadParametersError
from skidpad.core.layers import Layer
from skidpad.coverage.criterion import CRITERIA, check_values, finite_or_nan, neurons_of, required
from skidpad.coverage.profile import Profile


@CRITERIA.register("kmnc")
@dataclass(frozen=True, slots=True)
class KMNC:
    """k-multisection neuron coverage: [low, high] of the profile in k equal sections.

    Section i (from 0) holds low + i w <= value < low + (i + 1) w; the maximum belongs to the last one. Outside of
    [low, high] is never a section. A neuron with low = high has one section; one that was never seen finite has none,
    and neither has one whose range is too wide for its float type.

    Reference: TACTIC, section 3.2.1, k = 1000 in its section 4.1, after DeepGauge.
    """

    sections: int = 1000

    name: ClassVar[str] = "kmnc"
    needs_profile: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.sections < 1:
            raise BadParametersError(f"criterion 'kmnc' takes sections of at least 1, got {self.sections!r}; the paper uses 1000")

    def regions(self, values: torch.Tensor, layers: tuple[Layer, ...], profile: Profile | None, /) -> torch.Tensor:
        """Returns the section of each value, (N, neurons) int64; -1 outside of the range."""
        neurons = neurons_of(layers)
        check_values(values, neurons)
        low, high = required(profile, self.name, neurons).bounds()
        width = high - low
        # NaN compares false with everything, which is how a neuron without sections hits none
        low = low.masked_fill(~torch.isfinite(width), torch.nan)
        clean = finite_or_nan(values)
        # masks as floats, made in place: on a CPU several times faster than bools and masked_fill
        inside = clean.clone().ge_(low).mul_(clean.clone().le_(high))
        # a quotient first, then times k: k / width would overflow where the range is a subnormal
        part = clean.sub_(low).div_(width.masked_fill(width == 0, 1.0)).mul_(self.sections).floor_().clamp_(0, self.sections - 1)
        return part.nan_to_num_(nan=0.0).add_(1).mul_(inside).sub_(1).long()

    def reachable(self, neurons: int, profile: Profile | None, /) -> int:
        """Returns k for every neuron with a range, 1 for every constant one, 0 for those without bounds."""
        low, high = required(profile, self.name, neurons).bounds()
        width = high - low
        return int((width == 0).sum()) + self.sections * int(((width > 0) & torch.isfinite(width)).sum())
