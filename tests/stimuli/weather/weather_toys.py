"""Weathers with random weights, and pictures to translate."""

import numpy as np
import torch

from skidpad.core.images import NumpyFrames
from skidpad.stimuli.weather.blocks import start
from skidpad.stimuli.weather.files import WeatherCard
from skidpad.stimuli.weather.munit import Munit
from skidpad.stimuli.weather.settings import Method, Sizes
from skidpad.stimuli.weather.unit import Unit

TINY = Sizes(filters=4, blocks=2, style=3, hidden=8, scales=1)


def toy_card(sizes: Sizes = TINY, size_px: int = 32, method: Method = Method.MUNIT) -> WeatherCard:
    return WeatherCard("toy", method, sizes, size_px, "day", "a" * 64, "toy", "b" * 64, True, 1, 1, size_px, 0)


def toy_weights(sizes: Sizes = TINY, seed: int = 0, method: Method = Method.MUNIT) -> dict[str, torch.Tensor]:
    """The weights of a decoder whose biases and norms are no special case."""
    generator = torch.Generator().manual_seed(seed)
    model = Munit(sizes) if method is Method.MUNIT else Unit(sizes)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        start(model, gain_from_relu=True)
    weights = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    for name, tensor in weights.items():
        if name.endswith("bias") or ".norm." in name:
            tensor.add_(0.2 * torch.randn(tensor.shape, generator=generator))
    return weights


def plainly(card: WeatherCard, weights: dict[str, torch.Tensor], signed: torch.Tensor, style: torch.Tensor | None) -> torch.Tensor:
    """Translates pictures (N, 3, height, width) within -1..1 with the networks as they are learned, nothing rewritten."""
    model = Munit(card.sizes) if card.method is Method.MUNIT else Unit(card.sizes)
    model.load_state_dict(weights, strict=False)
    with torch.inference_mode():
        if isinstance(model, Unit):
            return model.decoded(model.encoded(signed))
        assert style is not None
        made: torch.Tensor = model.target.decoder(model.source.content(signed), style[None])
        return made


def pictures(count: int = 3, height_px: int = 32, width_px: int = 40, seed: int = 0) -> NumpyFrames:
    return np.random.default_rng(seed).integers(0, 256, (count, height_px, width_px, 3), np.uint8)
