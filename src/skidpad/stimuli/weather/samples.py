"""The same scenes translated as training goes on, as they will be shown: what losses do not tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from skidpad.core.images import NumpyFrames, decode, encode
from skidpad.core.seeding import child_rng
from skidpad.stimuli.weather.detail import Detail
from skidpad.stimuli.weather.munit import Munit
from skidpad.stimuli.weather.scenes import Scenes, as_frames, as_signed
from skidpad.stimuli.weather.settings import Method, WeatherSettings
from skidpad.stimuli.weather.unit import Unit

SCENES = 5
STYLES = 4
"""Styles that MUNIT's samples show; the first one is shown as training goes on."""

_QUALITY = 85
_SHARES = (1 / 64, 1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 7 / 8, 1.0)


def sample_steps(steps: int) -> frozenset[int]:
    """Returns the steps after which samples are made: early ones close together, then evenly, and the last."""
    return frozenset(max(1, round(steps * share)) for share in _SHARES)


def fresh_model(settings: WeatherSettings) -> Munit | Unit:
    """Builds the generators of both weathers."""
    return Munit(settings.sizes, settings.real_styles) if settings.method is Method.MUNIT else Unit(settings.sizes)


@dataclass(frozen=True, slots=True)
class Sample:
    """The scenes after `step` steps, as JPEG: a row for each style, one row for UNIT."""

    step: int
    rows: tuple[tuple[bytes, ...], ...]

    def pictures(self, row: int) -> list[NumpyFrames]:
        """Returns the scenes of a row as frames."""
        return [picture for data in self.rows[row] if (picture := decode(data)) is not None]

    def to_tensors(self) -> tuple[int, list[list[torch.Tensor]]]:
        """Turns the sample into what a checkpoint holds."""
        return self.step, [[torch.frombuffer(bytearray(data), dtype=torch.uint8) for data in row] for row in self.rows]

    @classmethod
    def from_tensors(cls, step: int, rows: Sequence[Sequence[torch.Tensor]]) -> Sample:
        """Reads what `to_tensors` made."""
        return cls(step, tuple(tuple(data.cpu().numpy().tobytes() for data in row) for row in rows))


class Sampler:
    """Translates a few scenes, evenly spaced over the source, under styles that stay the same."""

    def __init__(self, source: Scenes, settings: WeatherSettings) -> None:
        places = np.linspace(0, len(source) - 1, min(SCENES, len(source))).round().astype(int).tolist()
        self._pictures = [source.pictures[place] for place in places]
        self._settings = settings
        rng = child_rng(settings.seed, "samples")
        self._styles = torch.from_numpy(rng.standard_normal((STYLES, settings.sizes.style)).astype(np.float32))

    @property
    def scenes(self) -> list[NumpyFrames]:
        """The scenes as they are, (height, width, 3) each."""
        return [picture.cpu().numpy() for picture in self._pictures]

    def sample(self, step: int, weights: Mapping[str, torch.Tensor]) -> Sample:
        """Translates the scenes with these weights of the generators."""
        device = torch.device(self._settings.device)
        model = fresh_model(self._settings)
        model.load_state_dict(dict(weights))
        model = model.to(device).eval()
        alike: dict[tuple[int, ...], list[int]] = {}
        for place, picture in enumerate(self._pictures):
            alike.setdefault(tuple(picture.shape), []).append(place)
        columns: dict[int, list[bytes]] = {}
        with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            for places in alike.values():
                scenes = as_signed(torch.stack([self._pictures[place] for place in places]).to(device))
                rows = [as_frames(self._detailed(made, scenes)).cpu().numpy() for made in self._translated(model, scenes)]
                columns |= {place: [encode(row[number], ".jpg", _QUALITY) for row in rows] for number, place in enumerate(places)}
        return Sample(step, tuple(zip(*(columns[place] for place in sorted(columns)), strict=True)))

    def _detailed(self, made: torch.Tensor, scenes: torch.Tensor) -> torch.Tensor:
        settings = self._settings
        return Detail(settings.detail, settings.size_px)(made, scenes) if settings.detail else made

    def _translated(self, model: Munit | Unit, scenes: torch.Tensor) -> list[torch.Tensor]:
        if isinstance(model, Munit):
            content = model.source.content(scenes)
            return [model.target.decoder(content, style[None].to(scenes.device)) for style in self._styles]
        return [model.decoded(model.encoded(scenes))]
