"""A learned weather at work: scenes are encoded once, and decoded under any style."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import torch
from torch.nn import functional

from skidpad.core.images import Frames
from skidpad.core.stimuli import Params, Real, Space
from skidpad.stimuli.weather.decoding import FoldedDecoder, Prepared, batch_frames, working_type
from skidpad.stimuli.weather.encoding import LeanEncoder
from skidpad.stimuli.weather.files import BadWeatherError, WeatherCard, load_weather
from skidpad.stimuli.weather.munit import Munit
from skidpad.stimuli.weather.scenes import as_signed, working_size
from skidpad.stimuli.weather.settings import Method
from skidpad.stimuli.weather.unit import Unit

if TYPE_CHECKING:
    from collections.abc import Mapping


F = TypeVar("F", bound=Frames)

STYLE_LIMIT = 4.0
"""Styles are drawn from N(0, 1): one in 16,000 numbers lies beyond."""

TOLERANCE_RAD = {"cpu": 2e-3, "cuda": 5e-2}
"""How far an answer may move when its frame is translated again: alone it is rounded otherwise than in a batch, by a level of 255 here
and there; in bfloat16, on a GPU, by a few."""

REDRAWN = {"cuda": "translated by kernels that this process measured anew"}
"""Why the same machine may draw another picture: which kernels are the fastest is measured, and others round otherwise."""

_CPU_BATCH = 4


def model_of(card: WeatherCard, weights: Mapping[str, torch.Tensor]) -> Munit | Unit:
    """Returns the networks of a weather as they were learned, on the CPU in float32."""
    model = Munit(card.sizes) if card.method is Method.MUNIT else Unit(card.sizes)
    missing = model.load_state_dict(dict(weights), strict=False)
    if missing.unexpected_keys:
        raise BadWeatherError(f"the weather {card.name!r} holds unknown weights {missing.unexpected_keys[:3]}; learn it again")
    return model.eval().requires_grad_(requires_grad=False)


class Weather:
    """Translates frames into one weather; MUNIT under a style, UNIT always alike.

    Frames are taken in batches of `batch_size`; when a GPU runs out of memory the batch is halved and stays so, and `on_halved`
    is told. On a GPU the networks run in bfloat16, elsewhere in float32.
    """

    def __init__(
        self,
        card: WeatherCard,
        weights: Mapping[str, torch.Tensor],
        device: str = "cpu",
        on_halved: Callable[[int], None] | None = None,
    ) -> None:
        self.card = card
        self.device = torch.device(device)
        self.dtype = working_type(self.device)
        self.batch_size = _CPU_BATCH if self.device.type == "cpu" else batch_frames(card, self.device)
        self._on_halved = on_halved
        model = model_of(card, weights)
        self.encoder = LeanEncoder(card.sizes, model, device)
        self.decoder = FoldedDecoder(card, model, device, self._halved)
        self._style_encoder = model.target.style.to(self.device, self.dtype) if isinstance(model, Munit) else None

    @classmethod
    def load(cls, path: Path, device: str = "cpu") -> Weather:
        """Loads the weather at `path`, with or without its suffix."""
        return cls(*load_weather(Path(path)), device=device)

    @property
    def style_size(self) -> int:
        """How many numbers a style has; none for UNIT."""
        return self.decoder.style_size

    def encode(self, frames: Frames) -> torch.Tensor:
        """Returns the content codes of frames, (N, channels, h, w) on the device: what decoding under any style starts from."""
        return self._batched(len(frames), lambda part: self._encoded(frames[part]))

    def prepare(self, frames: Frames) -> Prepared:
        """Encodes frames and does what no style changes, for `decode` under one style after the other."""
        return self.decoder.prepare(self.encode(frames), self._frames(frames))

    def decode(
        self, content: torch.Tensor | Prepared, style: torch.Tensor | None = None, size: tuple[int, int] | None = None
    ) -> torch.Tensor:
        """Returns frames, uint8 (N, height, width, 3) on the device; style: (style_size,). size: the working size unless given.

        content: as `prepare` gives it; a code alone does for a weather that needs no frames.
        """
        row = self._row(style)
        return self.decoder.decode(content if isinstance(content, Prepared) else self.decoder.prepare(content), row, size)

    def translate(self, frames: F, style: torch.Tensor | None = None) -> F:
        """Returns the frames in this weather, of the same shape and kind."""
        row = self._row(style)
        size = (int(frames.shape[1]), int(frames.shape[2]))

        def change(part: slice) -> torch.Tensor:
            some = frames[part]
            return self.decoder.decode(self.decoder.prepare(self._encoded(some), self._frames(some)), row, size)

        changed = self._batched(len(frames), change) if len(frames) else torch.zeros((0, *size, 3), dtype=torch.uint8)
        return changed.to(frames.device) if isinstance(frames, torch.Tensor) else changed.cpu().numpy()  # type: ignore[return-value] # the kind that came in

    def styles_of(self, frames: Frames) -> torch.Tensor:
        """Returns the styles that pictures of this weather have, (N, style_size) float32."""
        encoder = self._style_encoder
        if encoder is None:
            raise BadWeatherError(f"the weather {self.card.name!r} was learned by UNIT, which knows no styles; use one learned by MUNIT")
        return self._batched(len(frames), lambda part: encoder(self._signed(frames[part])).float())

    def _signed(self, frames: Frames) -> torch.Tensor:
        signed = as_signed(self._frames(frames))
        size = working_size(int(frames.shape[1]), int(frames.shape[2]), self.card.size_px, self.card.sizes.stride)
        if tuple(signed.shape[2:]) != size:
            signed = functional.interpolate(signed, size, mode="bilinear", antialias=True)
        return signed.to(self.dtype)

    def _frames(self, frames: Frames) -> torch.Tensor:
        pictures = frames if isinstance(frames, torch.Tensor) else torch.from_numpy(frames.copy())
        return pictures.to(self.device)

    def _encoded(self, frames: Frames) -> torch.Tensor:
        return self.encoder.encode(self._signed(frames), self.batch_size)

    def _row(self, style: torch.Tensor | None) -> torch.Tensor:
        """Returns the norms of a style."""
        if (style is None) != (self.style_size == 0) or (style is not None and tuple(style.shape) != (self.style_size,)):
            got = "none" if style is None else f"{tuple(style.shape)}"
            raise BadWeatherError(f"the weather {self.card.name!r} takes a style of {self.style_size or 'no'} numbers; got {got}")
        return self.decoder.norms(torch.zeros((1, 0)) if style is None else style[None])

    def _halved(self, size: int) -> None:
        self.batch_size = min(size, self.batch_size)
        if self._on_halved is not None:
            self._on_halved(self.batch_size)

    def _batched(self, count: int, work: Callable[[slice], torch.Tensor]) -> torch.Tensor:
        parts: list[torch.Tensor] = []
        start = 0
        while start < count:
            part = slice(start, min(start + self.batch_size, count))
            try:
                with torch.inference_mode():
                    parts.append(work(part))
            except torch.cuda.OutOfMemoryError as error:
                if part.stop - part.start == 1:
                    raise BadWeatherError(
                        f"one frame does not fit into the memory of {self.device}; use the CPU or a smaller weather"
                    ) from error
                torch.cuda.empty_cache()
                self._halved(ceil((part.stop - part.start) / 2))
                continue
            start = part.stop
        return torch.cat(parts) if len(parts) > 1 else parts[0]


class WeatherStimulus:
    """A weather in front of the camera, to stand wherever a transform can; its parameters are the numbers of the style."""

    def __init__(self, weather: Weather) -> None:
        self._weather = weather
        names = tuple(f"style_{number}" for number in range(weather.style_size))
        parameters = tuple(Real(name, -STYLE_LIMIT, STYLE_LIMIT, None) for name in names)
        self.space = Space(parameters, (Params(**dict.fromkeys(names, 0.0)),))

    def apply(self, frames: F, params: Params) -> F:
        """Returns the frames in the weather."""
        return self._weather.translate(frames, self.style(params))

    def style(self, params: Params) -> torch.Tensor | None:
        """Returns the style that parameters name; None for UNIT."""
        numbers = [params.real(f"style_{number}") for number in range(self._weather.style_size)]
        return torch.tensor(numbers) if numbers else None
