"""Boundary coverage: which neurons left the range that the training drive gave them."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from skidpad.core.errors import BadParametersError
from skidpad.core.layers import Layer
from skidpad.coverage.criterion import CRITERIA, check_values, finite_or_nan, neurons_of, required
from skidpad.coverage.profile import Profile


def _check_margin(name: str, margin_std: float) -> None:
    if not 0 <= margin_std < float("inf"):
        raise BadParametersError(f"criterion {name!r} takes margin_std of at least 0, got {margin_std!r}; the papers use 0, 0.5 or 1")


@CRITERIA.register("nbc")
@dataclass(frozen=True, slots=True)
class NBC:
    """Neuron boundary coverage: region 0 is strictly below the profile's low, region 1 strictly above its high.

    `margin_std` widens the range on both sides by so many standard deviations of the neuron over the training drive.

    Reference: TACTIC, section 3.2.1 (no margin); DeepGauge for margins of 0.5 and 1 standard deviation.
    """

    margin_std: float = 0.0

    name: ClassVar[str] = "nbc"
    sections: ClassVar[int] = 2
    needs_profile: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_margin(self.name, self.margin_std)

    def regions(self, values: torch.Tensor, layers: tuple[Layer, ...], profile: Profile | None, /) -> torch.Tensor:
        """Returns 0 below the range, 1 above it, else -1; (N, neurons) int8."""
        neurons = neurons_of(layers)
        check_values(values, neurons)
        low, high = required(profile, self.name, neurons).bounds(self.margin_std)
        clean = finite_or_nan(values)
        # masks as floats, made in place: on a CPU a third of the time of bools
        below = clean.clone().lt_(low)
        return clean.gt_(high).mul_(2).add_(below).sub_(1).to(torch.int8)

    def reachable(self, neurons: int, profile: Profile | None, /) -> int:
        """Returns two for every neuron that the profile knows."""
        return 2 * required(profile, self.name, neurons).observed


@CRITERIA.register("snac")
@dataclass(frozen=True, slots=True)
class SNAC:
    """Strong neuron activation coverage: one region a neuron, strictly above the profile's high.

    Reference: DeepGauge; the upper half of TACTIC's NBC, section 3.2.1.
    """

    margin_std: float = 0.0

    name: ClassVar[str] = "snac"
    sections: ClassVar[int] = 1
    needs_profile: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_margin(self.name, self.margin_std)

    def regions(self, values: torch.Tensor, layers: tuple[Layer, ...], profile: Profile | None, /) -> torch.Tensor:
        """Returns 0 above the range, else -1; (N, neurons) int8."""
        neurons = neurons_of(layers)
        check_values(values, neurons)
        _, high = required(profile, self.name, neurons).bounds(self.margin_std)
        return finite_or_nan(values).gt_(high).sub_(1).to(torch.int8)

    def reachable(self, neurons: int, profile: Profile | None, /) -> int:
        """Returns one for every neuron that the profile knows."""
        return required(profile, self.name, neurons).observed
