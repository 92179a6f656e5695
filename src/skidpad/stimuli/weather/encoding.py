"""The encoders of both methods written anew for inference: norm, ReLU and shortcut in one pass, the first convolution over 2x2 blocks.

The first 7x7 convolution sees three colours, which leaves a GPU's matrix units idle; from 2x2 blocks to 2x2 blocks it is a 4x4 one from
twelve numbers to four times the filters (`decoding.blocked_7x7`). Biases before an instance norm have no effect and are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from skidpad.stimuli.weather.blocks import compiled
from skidpad.stimuli.weather.decoding import blocked_7x7, convolved, filled, maps_of, moments, pixels, working_type
from skidpad.stimuli.weather.munit import Munit
from skidpad.stimuli.weather.settings import Sizes
from skidpad.stimuli.weather.unit import Unit

_PADDING = 3
_INPUTS = 16
"""Three colours of four pixels are twelve; a multiple of eight lets a GPU use its matrix units."""


class LeanEncoder:
    """Encodes pictures into content codes (MUNIT) or latent codes (UNIT, their means); on a GPU in bfloat16 and compiled."""

    def __init__(self, sizes: Sizes, model: Munit | Unit, device: str = "cpu") -> None:
        self.device = torch.device(device)
        self.dtype = working_type(self.device)
        self.compiled = self.device.type == "cuda"
        layers: Any = [*model.source.content.layers] if isinstance(model, Munit) else [*model.source.encoder, model.shared_encoder]
        first, halvings, blocks = layers[0], layers[1 : 1 + sizes.halvings], layers[1 + sizes.halvings :]
        with torch.no_grad():
            spare = _INPUTS - 12
            self._first = self._kept(functional.pad(blocked_7x7(first.convolution.weight.float()), (0, 0, 0, 0, 0, spare)))
            self._halvings = [self._kept(step.convolution.weight) for step in halvings]
            self._residual = [(self._kept(block.first.convolution.weight), self._kept(block.second.convolution.weight)) for block in blocks]

    def encode(self, signed: torch.Tensor, batch_size: int) -> torch.Tensor:
        """Returns the codes, (N, channels, height / stride, width / stride), of pictures (N, 3, height, width) within -1..1.

        batch_size: what a GPU's batch is filled up to; compiled code is made for one size of a batch.
        """
        count = len(signed)
        if self.compiled and count < batch_size:
            signed = filled(signed, batch_size - count)
        normed, joined = self._step(_normed), self._step(_joined)
        maps = self._step(_unblocked)(pixels(convolved(maps_of(self._step(_blocks)(signed)), self._first, padding=0)))
        for weight in self._halvings:
            maps = normed(pixels(convolved(maps_of(maps), weight, stride=2)))
        for first, second in self._residual:
            maps = joined(maps, pixels(convolved(maps_of(normed(pixels(convolved(maps_of(maps), first)))), second)))
        return maps_of(maps)[:count]

    def _step(self, function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        return compiled(function) if self.compiled else function

    def _kept(self, weight: torch.Tensor) -> torch.Tensor:
        return weight.to(self.device, self.dtype).contiguous(memory_format=torch.channels_last)


def _blocks(signed: torch.Tensor) -> torch.Tensor:
    """Returns pictures with a mirrored border of 3 pixels, in 2x2 blocks: (N, height / 2 + 3, width / 2 + 3, 16)."""
    framed = functional.pad(signed, (_PADDING,) * 4, mode="reflect")
    count, colours, height, width = framed.shape
    blocks = framed.reshape(count, colours, height // 2, 2, width // 2, 2).permute(0, 2, 4, 3, 5, 1)
    return functional.pad(blocks.reshape(count, height // 2, width // 2, 12), (0, _INPUTS - 12)).contiguous()


def _unblocked(values: torch.Tensor) -> torch.Tensor:
    """Instance norm and ReLU of maps in 2x2 blocks, (N, height, width, 4 channels) to (N, 2 height, 2 width, channels)."""
    count, height, width = values.shape[:3]
    wide = values.float().reshape(count, height, width, 2, 2, -1)
    mean, inverse = moments(wide, (1, 2, 3, 4))
    shaded = ((wide - mean) * inverse).relu_().to(values.dtype)
    return shaded.permute(0, 1, 3, 2, 4, 5).reshape(count, 2 * height, 2 * width, -1).contiguous()


def _normed(values: torch.Tensor) -> torch.Tensor:
    wide = values.float()
    mean, inverse = moments(wide, (1, 2))
    return ((wide - mean) * inverse).relu_().to(values.dtype)


def _joined(short: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    wide = values.float()
    mean, inverse = moments(wide, (1, 2))
    return (short.float() + (wide - mean) * inverse).to(values.dtype)
