"""Epoch, a convolutional network of Udacity's challenge."""

from torch import nn

from skidpad.subjects.description import Colour, Crop, InputSpec, Range
from skidpad.subjects.zoo.architecture import ARCHITECTURES, Architecture
from skidpad.subjects.zoo.blocks import network, pooled


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
