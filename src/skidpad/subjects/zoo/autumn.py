"""Autumn, which steers by optical flow."""

from torch import nn

from skidpad.subjects.description import Colour, Crop, History, HistoryKind, InputSpec, Range
from skidpad.subjects.zoo.architecture import ARCHITECTURES, Architecture
from skidpad.subjects.zoo.blocks import TwiceAtan, network, strided

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
