"""Top-k coverage: which neurons have ever led their layer."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from skidpad.core.errors import BadParametersError
from skidpad.core.layers import Layer
from skidpad.coverage.criterion import CRITERIA, check_values, neurons_of
from skidpad.coverage.profile import Profile


@CRITERIA.register("tknc")
@dataclass(frozen=True, slots=True)
class TKNC:
    """Top-k neuron coverage: one region a neuron, hit where its value is among the k largest of its layer.

    Of equal values the lower index wins, so that a picture names exactly k neurons of every layer that has as many
    finite values. A layer of k neurons or fewer is always covered whole.

    Reference: DeepGauge, which defines it and tries k = 1, 2 and 3; the five papers give no k, ours is its largest.
    """

    k: int = 3

    name: ClassVar[str] = "tknc"
    sections: ClassVar[int] = 1
    needs_profile: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.k < 1:
            raise BadParametersError(f"criterion 'tknc' takes k of at least 1, got {self.k!r}; DeepGauge uses 1, 2 and 3")

    def regions(self, values: torch.Tensor, layers: tuple[Layer, ...], _profile: Profile | None = None, /) -> torch.Tensor:
        """Returns 0 where a neuron is among the top k of its layer, else -1; (N, neurons) int8."""
        check_values(values, neurons_of(layers))
        low = -torch.inf
        ranked = values.nan_to_num(nan=low, posinf=low, neginf=low)
        leads = torch.zeros(values.shape, dtype=torch.bool, device=values.device)
        for layer in layers:
            part = ranked[:, layer.start : layer.stop]
            if layer.neurons <= self.k:
                leads[:, layer.start : layer.stop] = part > low
            else:
                _lead(part, self.k, leads[:, layer.start : layer.stop])
        return leads.to(torch.int8).sub_(1)

    def reachable(self, neurons: int, _profile: Profile | None = None, /) -> int:
        """Returns the number of neurons."""
        return neurons


def _lead(part: torch.Tensor, k: int, leads: torch.Tensor) -> None:
    """Sets `leads` where `part` is among the k largest of its row; minus infinity never is."""
    top = part.topk(k + 1, dim=1)
    kth = top.values[:, k - 1 : k]
    if not bool((kth == top.values[:, k:]).any()):
        leads.scatter_(1, top.indices[:, :k], 1)
        return
    # topk breaks ties as it likes; its k-th value does not depend on how
    above = part > kth
    level = (part == kth) & (part > -torch.inf)
    room = k - above.sum(dim=1, keepdim=True)
    leads.copy_(above | (level & (level.cumsum(dim=1) <= room)))
