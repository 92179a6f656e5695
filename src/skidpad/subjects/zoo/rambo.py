"""Rambo, which steers by what changed between frames."""

import torch
from torch import nn

from skidpad.subjects.description import Colour, History, HistoryKind, InputSpec, Range
from skidpad.subjects.zoo.architecture import ARCHITECTURES, Architecture
from skidpad.subjects.zoo.blocks import SameConv2d, network

_NVIDIA = ((24, 5, 2), (36, 5, 2), (48, 5, 2), (64, 3, 2), (64, 3, 2))
_STREAMS: tuple[tuple[tuple[tuple[int, int, int], ...], tuple[int, ...]], ...] = (
    ((*_NVIDIA, (64, 3, 2)), (100, 50, 10, 1)),
    (_NVIDIA, (100, 50, 10, 1)),
    (((16, 8, 4), (32, 5, 2), (64, 5, 2)), (512, 1)),
)
"""Filters, kernel and stride of each convolution, then the dense layers, of the streams that DeepTest calls S1, S2 and S3."""


_START = 1.0
"""What each stream says before it is trained: one at or below zero is cut off by the ReLU of the merge and never trained."""


class Rambo(nn.Module):
    """Three streams of convolutions over the same input, each down to one number, merged by a last dense layer."""

    def __init__(self, channels: int, height_px: int, width_px: int) -> None:
        super().__init__()
        self.streams = nn.ModuleList(_stream(*stream, (channels, height_px, width_px)) for stream in _STREAMS)
        self.merge = nn.Linear(len(_STREAMS), 1)
        with torch.no_grad():
            self.merge.bias.copy_(-_START * self.merge.weight.sum())  # straight on at first: else streams flee below zero

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Answers (N, 1) for (N, channels, height, width)."""
        return torch.as_tensor(self.merge(torch.relu(torch.cat([stream(inputs) for stream in self.streams], 1))))


def _stream(convolutions: tuple[tuple[int, int, int], ...], dense: tuple[int, ...], shape: tuple[int, int, int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    channels = shape[0]
    for filters, kernel, stride in convolutions:
        layers += [SameConv2d(channels, filters, kernel, stride), nn.ReLU()]
        channels = filters
    stream = network(layers, dense, shape)
    last = stream[-1]
    if isinstance(last, nn.Linear):
        nn.init.constant_(last.bias, _START)
    return stream


def rambo(channels: int, height_px: int, width_px: int) -> nn.Module:
    """Rambo, the second of Udacity's challenge 2: three streams on the two differences of three grey frames; 1,484 neurons.

    | stream | convolutions (kernel, stride; padded), 192 x 256 input | dense |
    | --- | --- | --- |
    | S1 | 24 (5x5, 2), 36 (5x5, 2), 48 (5x5, 2), 64 (3x3, 2) three times: 64 x 3 x 4 | 100, 50, 10, 1 |
    | S2 | 24 (5x5, 2), 36 (5x5, 2), 48 (5x5, 2), 64 (3x3, 2) twice: 64 x 6 x 8 | 100, 50, 10, 1 |
    | S3 | 16 (8x8, 4), 32 (5x5, 2), 64 (5x5, 2): 64 x 12 x 16 | 512, 1 |
    | merge | ReLU of the three numbers | 1 |

    Reference: Udacity self-driving-car, steering-models/community-models/rambo, README and train.py; DeepTest, section 4 and
    table 3, whose counts 1,625, 3,801 and 13,473 are these streams with each activation counted as well.
    Deviates: the mean picture that the original subtracts is the middle of the range here; streams start with a bias of 1 and
    the merge with its opposite, since a stream that the ReLU cuts off is never trained (with the usual start all three die).
    """
    return Rambo(channels, height_px, width_px)


ARCHITECTURES.register("rambo")(
    Architecture("rambo", rambo, InputSpec(256, 192, Colour.GREY, Range((-0.5,), (0.5,)), history=History(3, HistoryKind.DIFFERENCES)))
)
