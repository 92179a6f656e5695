"""A residual network after DroNet, which also answers how likely a collision is."""

import torch
from torch import nn

from skidpad.core.units import AngleUnit, PlainUnit
from skidpad.subjects.description import STEERING, Colour, Crop, InputSpec, Output, Range
from skidpad.subjects.zoo.architecture import ARCHITECTURES, Architecture, SameConv2d, flat_features


class _Residual(nn.Module):
    """Two 3x3 convolutions, each behind batch norm and ReLU, beside a 1x1 one; the first and the 1x1 halve the size."""

    def __init__(self, channels: int, filters: int) -> None:
        super().__init__()
        self.long = nn.Sequential(
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            SameConv2d(channels, filters, 3, 2),
            nn.BatchNorm2d(filters),
            nn.ReLU(),
            SameConv2d(filters, filters, 3),
        )
        self.short = SameConv2d(channels, filters, 1, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns (N, filters, height / 2, width / 2)."""
        return torch.as_tensor(self.short(inputs) + self.long(inputs))


class DroNet(nn.Module):
    """One trunk, two answers."""

    def __init__(self, channels: int, height_px: int, width_px: int) -> None:
        super().__init__()
        trunk = [SameConv2d(channels, 32, 5, 2), nn.MaxPool2d(3, 2), _Residual(32, 32), _Residual(32, 64), _Residual(64, 128)]
        features = flat_features(trunk, (channels, height_px, width_px))
        self.trunk = nn.Sequential(*trunk, nn.Flatten(), nn.ReLU(), nn.Dropout(0.5)).train()
        self.steering = nn.Linear(features, 1)
        self.collision = nn.Linear(features, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Answers (N, 2), steering and the probability of a collision, for (N, channels, height, width)."""
        seen = self.trunk(inputs)
        return torch.cat([self.steering(seen), torch.sigmoid(self.collision(seen))], 1)


def dronet(channels: int, height_px: int, width_px: int) -> nn.Module:
    """A network like DroNet: three residual blocks, answers steering and the probability of a collision; 706 neurons.

    | layer | kernel | stride | output (200 x 200 input) |
    | --- | --- | --- | --- |
    | conv1, pool | 5x5, 3x3 | 2, 2 | 32 x 49 x 49 |
    | block 1 | 3x3, 3x3 beside 1x1 | 2, 1 beside 2 | 32 x 25 x 25 |
    | block 2 | 3x3, 3x3 beside 1x1 | 2, 1 beside 2 | 64 x 13 x 13 |
    | block 3 | 3x3, 3x3 beside 1x1 | 2, 1 beside 2 | 128 x 7 x 7 |
    | steering, collision (dropout 0.5) | | | 1, 1 (sigmoid) |

    Reference: Loquercio et al. 2018, DroNet: Learning to Fly by Driving, section III-A and figure 2; the layers of its published
    model for padding and the order of batch norm.
    Deviates: trained by the squared error of the steering alone, since recorded drives have no label for collisions: the second
    answer keeps its first weights and means nothing until somebody trains it.
    """
    return DroNet(channels, height_px, width_px)


# 320 x 240 px, of which the middle 200 columns and the lower 200 rows are kept.
ARCHITECTURES.register("dronet")(
    Architecture(
        "dronet",
        dronet,
        InputSpec(200, 200, Colour.GREY, Range((0.0,), (1.0,)), Crop(top=40 / 240, left=60 / 320, right=60 / 320)),
        (Output(STEERING, AngleUnit.RAD), Output("collision", PlainUnit.PROBABILITY)),
    )
)
