"""Autumn, which steers by optical flow."""

import torch
from torch import nn

from skidpad.subjects.description import Colour, Crop, History, HistoryKind, InputSpec, Range
from skidpad.subjects.zoo.architecture import ARCHITECTURES, Architecture, SameConv2d, TwiceAtan, network, pooled, strided

_FLOWS = 7


def autumn(channels: int, height_px: int, width_px: int) -> nn.Module:
    """Autumn, of Udacity's challenge 2: the mean optical flow of 8 frames, painted, then DAVE-2's convolutions; 1,561 neurons.

    | layer | kernel | stride | output (66 x 200 input) |
    | --- | --- | --- | --- |
    | conv1..3 | 5x5 | 2 | 24 x 31 x 98, 36 x 14 x 47, 48 x 5 x 22 |
    | conv4..5 | 3x3 | 1 | 64 x 3 x 20, 64 x 1 x 18 |
    | dense1..5 | | | 1164, 100, 50, 10 (dropout 0.2 after each), 1 (then 2 atan) |

    Reference: Udacity self-driving-car, steering-models/community-models/autumn (README, cnn_model, process_images and
    train-cnn for the 0.2); DeepRoad, section 4.2.
    Deviates: flow is computed at the network's size (see `windows.Assembler`), and the seven flows count alike, as when the
    original was trained; its later evaluation weighted the last four 1, 1, 2, 2. The LSTM of the repository is not part of
    what its evaluation answers, and not of this.
    """
    return network(strided(channels), (1164, 100, 50, 10, 1), (channels, height_px, width_px), (0.2,) * 4).append(TwiceAtan())


# The original keeps the lower 400 of 480 rows.
ARCHITECTURES.register("autumn")(
    Architecture(
        "autumn",
        autumn,
        InputSpec(200, 66, Colour.RGB, Range((0.0,), (1.0,)), Crop(top=80 / 480), history=History(_FLOWS + 1, HistoryKind.OPTICAL_FLOW)),
    )
)


def epoch(channels: int, height_px: int, width_px: int) -> nn.Module:
    """Epoch, the sixth of Udacity's challenge 2 (community model cg23): 1,249 neurons.

    | layer | kernel | output (128 x 128 input) |
    | --- | --- | --- |
    | conv1, pool, dropout 0.25 | 3x3 padded, 2x2 | 32 x 64 x 64 |
    | conv2, pool, dropout 0.25 | 3x3 padded, 2x2 | 64 x 32 x 32 |
    | conv3, pool, dropout 0.5 | 3x3 padded, 2x2 | 128 x 16 x 16 |
    | dense1, dropout 0.5 | | 1024 |
    | dense2 | | 1 |

    Reference: Udacity self-driving-car, steering-models/community-models/cg23; DeepTest, section 4 and table 3.
    Deviates: DeepTest counts 2,500 neurons: it also counts the four dropout layers (224 + 1,024) and the 3 channels of the
    input, which are no neurons of their own: 2,500 - 1,248 - 3 = 1,249.
    """
    convolutions = pooled(channels, (32, 64, 128), padding=1, dropout=(0.25, 0.25, 0.5))
    return network(convolutions, (1024, 1), (channels, height_px, width_px), (0.5,))


# cg23 drops the first 200 of 480 rows.
ARCHITECTURES.register("epoch")(Architecture("epoch", epoch, InputSpec(128, 128, Colour.RGB, Range((0.0,), (1.0,)), Crop(top=200 / 480))))


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
