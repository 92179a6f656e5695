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
        ranked = values.nan_to_num(nan=-torch.inf, posinf=-torch.inf, neginf=-torch.inf)
        leads = torch.zeros(values.shape, dtype=torch.bool, device=values.device)
        wide, edges = [], []
        for layer in layers:
            part, lead = ranked[:, layer.start : layer.stop], leads[:, layer.start : layer.stop]
            if layer.neurons <= self.k:
                lead.copy_(part > -torch.inf)
                continue
            top = part.topk(self.k + 1, dim=1)
            lead.scatter_(1, top.indices[:, : self.k], 1)
            wide.append((part, lead))
            edges.append(top.values[:, self.k - 1 :])
        if edges and len(values):
            # asked once for all layers, because a GPU is waited for with each question
            border = torch.stack(edges)
            tied = (border[:, :, 0] == border[:, :, 1]).any(dim=1).tolist()
            for (part, lead), edge, tie in zip(wide, edges, tied, strict=True):
                if tie:
                    lead.copy_(_leading(part, edge[:, :1], self.k))
        return leads.to(torch.int8).sub_(1)

    def reachable(self, neurons: int, _profile: Profile | None = None, /) -> int:
        """Returns the number of neurons."""
        return neurons


def _leading(part: torch.Tensor, kth: torch.Tensor, k: int) -> torch.Tensor:
    # topk breaks ties as it likes; its k-th value does not depend on how
    above = part > kth
    level = (part == kth) & (part > -torch.inf)
    room = k - above.sum(dim=1, keepdim=True)
    return above | (level & (level.cumsum(dim=1) <= room))
