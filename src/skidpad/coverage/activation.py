"""Neuron coverage: a neuron counts once its value, scaled by its layer, passes a threshold."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from skidpad.core.errors import BadParametersError
from skidpad.core.layers import Layer
from skidpad.coverage.criterion import CRITERIA, check_values, neurons_of
from skidpad.coverage.profile import Profile


@CRITERIA.register("nc")
@dataclass(frozen=True, slots=True)
class NC:
    """Neuron coverage; one region a neuron, hit where the layer-scaled value is strictly above the threshold.

    Scaling is by the minimum and the maximum of the layer in that picture. A constant layer scales to zero, and so does
    a layer of one neuron, which therefore never passes; it is counted all the same, as the paper counts every neuron.
    Where a layer holds a value that is not finite it has no scale, and nothing in it is activated.

    Reference: DeepTest, section 3.1 and Eq. 1; threshold 0.2.
    """

    threshold: float = 0.2

    name: ClassVar[str] = "nc"
    sections: ClassVar[int] = 1
    needs_profile: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < 1:
            raise BadParametersError(f"criterion 'nc' takes threshold in [0, 1), got {self.threshold!r}; the paper uses 0.2")

    def activated(self, values: torch.Tensor, layers: tuple[Layer, ...]) -> torch.Tensor:
        """Tells which neurons each picture activates, (N, neurons) bool."""
        check_values(values, neurons_of(layers))
        # comparing in place, on floats, takes a CPU a third of the time of a comparison that answers with bools
        activated = values.clone()
        for layer in layers:
            part = values[:, layer.start : layer.stop]
            low, high = torch.aminmax(part, dim=1, keepdim=True)
            # scaling the threshold to the layer, not the layer to the threshold, spares a pass over the neurons;
            # the bar is NaN or infinite where the layer has no scale
            bar = torch.add(low, high - low, alpha=self.threshold)
            activated[:, layer.start : layer.stop].gt_(bar)
        return activated.to(torch.bool)

    def regions(self, values: torch.Tensor, layers: tuple[Layer, ...], _profile: Profile | None = None, /) -> torch.Tensor:
        """Returns 0 where a picture activates a neuron, else -1; (N, neurons) int8."""
        return self.activated(values, layers).to(torch.int8).sub_(1)

    def reachable(self, neurons: int, _profile: Profile | None = None, /) -> int:
        """Returns the number of neurons."""
        return neurons
