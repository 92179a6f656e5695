"""A small network and its description, and frames that look like nothing in particular."""

import numpy as np
import pytest
import torch
from torch import nn

from skidpad.core.units import AngleUnit
from skidpad.subjects.description import Description, Format, Output
from skidpad.subjects.inputs import Colour, Crop, InputSpec, Range


class SmallNet(nn.Module):
    """Everything the probe must see through: batch norm, activations in place and not, dropout, a branch, 2 atan."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, stride=2)
        self.norm = nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)
        self.drop = nn.Dropout(0.5)
        self.second = nn.Conv2d(4, 5, 3, padding=1)
        self.elu = nn.ELU()
        self.bare = nn.Conv2d(5, 5, 1)
        self.dense = nn.Linear(5 * 7 * 11, 6)
        self.prelu = nn.PReLU()
        self.hidden = nn.Linear(6, 4, bias=False)
        self.out = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.drop(self.relu(self.norm(self.first(x))))
        x = self.elu(self.second(x))
        x = x + self.bare(x)
        x = self.prelu(self.dense(torch.flatten(x, 1)))
        x = torch.sigmoid(self.hidden(self.drop(x)))
        return torch.atan(self.out(x)) * 2.0


@pytest.fixture
def small_net() -> SmallNet:
    torch.manual_seed(1)
    net = SmallNet()
    net.norm.running_mean.uniform_(-0.2, 0.2)
    net.norm.running_var.uniform_(0.5, 2.0)
    with torch.no_grad():
        net.norm.weight.uniform_(0.5, 2.0)
        net.norm.bias.uniform_(-0.5, 0.5)
    return net.eval()


@pytest.fixture
def small_spec() -> InputSpec:
    return InputSpec(24, 16, Colour.RGB, Range((-1.0,), (1.0,)), Crop(top=0.25))


@pytest.fixture
def small_description(small_spec: InputSpec) -> Description:
    return Description("small", "small.pt2", Format.EXPORT, small_spec, (Output("steering", AngleUnit.RAD),))


@pytest.fixture
def frames() -> np.ndarray:
    return np.random.default_rng(7).integers(0, 256, (5, 40, 60, 3), dtype=np.uint8)
