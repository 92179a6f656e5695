"""Weathers with random weights, and pictures to translate."""

import numpy as np
import torch

from skidpad.core.images import NumpyFrames
from skidpad.stimuli.weather.blocks import start
from skidpad.stimuli.weather.files import WeatherCard
from skidpad.stimuli.weather.munit import Munit
from skidpad.stimuli.weather.settings import Method, Sizes

TINY = Sizes(filters=4, blocks=2, style=3, hidden=8, scales=1)


def toy_card(sizes: Sizes = TINY, size_px: int = 32) -> WeatherCard:
    return WeatherCard("toy", Method.MUNIT, sizes, size_px, "day", "a" * 64, "toy", "b" * 64, True, 1, 1, size_px, 0)


def toy_weights(sizes: Sizes = TINY, seed: int = 0) -> dict[str, torch.Tensor]:
    """The weights of a decoder whose biases and norms are no special case."""
    generator = torch.Generator().manual_seed(seed)
    model = Munit(sizes)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        start(model, gain_from_relu=True)
    weights = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    for name, tensor in weights.items():
        if name.endswith("bias") or ".norm." in name:
            tensor.add_(0.2 * torch.randn(tensor.shape, generator=generator))
    return weights


def pictures(count: int = 3, height_px: int = 32, width_px: int = 40, seed: int = 0) -> NumpyFrames:
    return np.random.default_rng(seed).integers(0, 256, (count, height_px, width_px, 3), np.uint8)
