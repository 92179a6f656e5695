"""Ways to decode scenes under a style, from what a plain script does to what the search does."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch

from skidpad.stimuli.weather.decoding import FoldedDecoder, Prepared
from skidpad.stimuli.weather.files import WeatherCard
from skidpad.stimuli.weather.munit import Munit
from skidpad.stimuli.weather.translation import model_of

Decode = Callable[[int], torch.Tensor]
"""Decodes so many scenes under one style: uint8 frames (N, height, width, 3)."""


@dataclass(frozen=True)
class Way:
    """One way, with its batch and whether it is too slow to be given all the scenes."""

    name: str
    decode: Decode
    batch: int
    slow: bool = False


@dataclass(frozen=True)
class Timing:
    """What a way reached; error: its largest and mean distance from the plain decoder in float32, in levels of 255."""

    name: str
    frames_per_s: float
    largest_error: int
    mean_error: float
    first_s: float


class Decoders:
    """The same weights and scenes for every way."""

    def __init__(
        self, card: WeatherCard, weights: dict[str, torch.Tensor], content: torch.Tensor, style: torch.Tensor, device: str
    ) -> None:
        self._card, self._weights, self._device = card, weights, device
        self._style = style
        self._content = content
        self._half = torch.bfloat16 if device == "cuda" else torch.float32
        self._reference = self._plain(torch.float32)

    def _plain(self, dtype: torch.dtype) -> torch.nn.Module:
        model = Munit(self._card.sizes)
        model.load_state_dict({name: tensor.float() for name, tensor in self._weights.items()}, strict=False)
        decoder = model.target.decoder.eval().requires_grad_(requires_grad=False).to(self._device, dtype)
        return decoder.to(memory_format=torch.channels_last)

    def ways(self, names: tuple[str, ...]) -> list[Way]:
        """Makes the ways of these names."""
        made = {
            "one at a time, float32": lambda: self._module(self._reference, 1, torch.float32, slow=True),
            "plain, float32": lambda: self._module(self._reference, 16, torch.float32),
            "plain": lambda: self._module(self._plain(self._half), 64, self._half),
            "plain, compiled": lambda: self._module(torch.compile(self._plain(self._half), dynamic=False), 64, self._half),
            "folded": lambda: self._folded(64, compiled=False),
            "folded, compiled": lambda: self._folded(64, compiled=True),
            "folded, compiled, batch 32": lambda: self._folded(32, compiled=True),
            "folded, compiled, batch 128": lambda: self._folded(128, compiled=True),
        }
        ways: list[Way] = []
        for name in names:
            decode, batch, slow = made[name]()
            ways.append(Way(name, decode, batch, slow))
        return ways

    def _module(self, module: torch.nn.Module, batch: int, dtype: torch.dtype, *, slow: bool = False) -> tuple[Decode, int, bool]:
        content = self._content.to(dtype).contiguous(memory_format=torch.channels_last)
        style = self._style[None].to(self._device, dtype)

        def decode(count: int) -> torch.Tensor:
            frames = torch.empty(0, dtype=torch.uint8)
            with torch.inference_mode():
                for start in range(0, count, batch):
                    rows = (
                        torch.arange(start, start + batch) % len(content) if start + batch > len(content) else slice(start, start + batch)
                    )
                    pictures = module(content[rows], style)
                    frames = pictures.float().add(1.0).mul_(127.5).round_().clamp_(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()
            return frames

        return decode, batch, slow

    def _folded(self, batch: int, *, compiled: bool) -> tuple[Decode, int, bool]:
        decoder = FoldedDecoder(self._card, model_of(self._card, self._weights), self._device, compiled=compiled and self._device == "cuda")
        decoder.batch_size = batch
        parts = [decoder.prepare(self._content[start : start + 64]) for start in range(0, len(self._content), 64)]
        prepared = Prepared(torch.cat([part.content for part in parts]), torch.cat([part.first for part in parts]))
        norms = decoder.norms(self._style[None])

        def decode(count: int) -> torch.Tensor:
            frames = torch.empty(0, dtype=torch.uint8)
            for start in range(0, count, batch):
                begin = start % max(len(prepared) - batch + 1, 1)
                frames = decoder.decode(prepared[begin : begin + batch], norms)
            return frames

        return decode, batch, False

    def reference(self, count: int) -> torch.Tensor:
        """The plain decoder's frames in float32, batch of `count`."""
        return self._module(self._reference, count, torch.float32)[0](count)


def measure(way: Way, reference: torch.Tensor, count: int, rounds: int, device: str) -> Timing:
    """Runs a way once to warm up, compares its frames, and then measures it."""
    begun = time.perf_counter()
    first = way.decode(way.batch)
    _wait(device)
    warm_s = time.perf_counter() - begun
    together = min(len(first), len(reference))
    error = (first[:together].int() - reference[:together].int()).abs()
    frames = max(count // way.batch, 1) * way.batch if not way.slow else min(count, 64)
    way.decode(way.batch)
    _wait(device)
    rates: list[float] = []
    for _ in range(rounds):
        begun = time.perf_counter()
        way.decode(frames)
        _wait(device)
        rates.append(frames / (time.perf_counter() - begun))
    return Timing(way.name, median(rates), int(error.max()), float(error.float().mean()), warm_s)


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()
