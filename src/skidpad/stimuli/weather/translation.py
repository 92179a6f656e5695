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
from skidpad.stimuli.weather.files import BadWeatherError, WeatherCard, load_weather
from skidpad.stimuli.weather.munit import Munit
from skidpad.stimuli.weather.scenes import as_frames, as_signed, working_size
from skidpad.stimuli.weather.settings import Method
from skidpad.stimuli.weather.unit import Unit

if TYPE_CHECKING:
    from collections.abc import Mapping


F = TypeVar("F", bound=Frames)

STYLE_LIMIT = 4.0
"""Styles are drawn from N(0, 1): one in 16,000 numbers lies beyond."""

_DEFAULT_BATCH = {"cpu": 4, "cuda": 64}


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
        self.dtype = torch.bfloat16 if self.device.type == "cuda" else torch.float32
        self.batch_size = _DEFAULT_BATCH.get(self.device.type, 4)
        self._on_halved = on_halved
        model = Munit(card.sizes) if card.method is Method.MUNIT else Unit(card.sizes)
        missing = model.load_state_dict(dict(weights), strict=False)
        if missing.unexpected_keys:
            raise BadWeatherError(f"the weather {card.name!r} holds unknown weights {missing.unexpected_keys[:3]}; learn it again")
        self._model = model.to(self.device, self.dtype).eval().requires_grad_(requires_grad=False)
        if self.device.type == "cuda":
            self._model.to(memory_format=torch.channels_last)  # type: ignore[call-overload] # torch leaves this form out

    @classmethod
    def load(cls, path: Path, device: str = "cpu") -> Weather:
        """Loads the weather at `path`, with or without its suffix."""
        return cls(*load_weather(Path(path)), device=device)

    @property
    def style_size(self) -> int:
        """How many numbers a style has; none for UNIT."""
        return self.card.sizes.style if self.card.method is Method.MUNIT else 0

    def encode(self, frames: Frames) -> torch.Tensor:
        """Returns the content codes of frames, (N, channels, h, w) on the device: what decoding under any style starts from."""
        return self._batched(len(frames), lambda part: self._encoded(frames[part]))

    def decode(self, content: torch.Tensor, style: torch.Tensor | None = None, size: tuple[int, int] | None = None) -> torch.Tensor:
        """Returns frames, uint8 (N, height, width, 3) on the device; style: (style_size,). size: the working size unless given."""
        row = self._row(style)
        return self._batched(len(content), lambda part: self._pictures(content[part].to(self.device), row, size))

    def translate(self, frames: F, style: torch.Tensor | None = None) -> F:
        """Returns the frames in this weather, of the same shape and kind."""
        row = self._row(style)
        size = (int(frames.shape[1]), int(frames.shape[2]))

        def change(part: slice) -> torch.Tensor:
            return self._pictures(self._encoded(frames[part]), row, size)

        changed = self._batched(len(frames), change) if len(frames) else torch.zeros((0, *size, 3), dtype=torch.uint8)
        return changed.to(frames.device) if isinstance(frames, torch.Tensor) else changed.cpu().numpy()  # type: ignore[return-value] # the kind that came in

    def styles_of(self, frames: Frames) -> torch.Tensor:
        """Returns the styles that pictures of this weather have, (N, style_size) float32."""
        if not isinstance(self._model, Munit):
            raise BadWeatherError(f"the weather {self.card.name!r} was learned by UNIT, which knows no styles; use one learned by MUNIT")
        model = self._model
        return self._batched(len(frames), lambda part: model.target.style(self._signed(frames[part])).float())

    def _signed(self, frames: Frames) -> torch.Tensor:
        pictures = frames if isinstance(frames, torch.Tensor) else torch.from_numpy(frames.copy())
        signed = as_signed(pictures.to(self.device))
        size = working_size(int(frames.shape[1]), int(frames.shape[2]), self.card.size_px, self.card.sizes.stride)
        if tuple(signed.shape[2:]) != size:
            signed = functional.interpolate(signed, size, mode="bilinear", antialias=True)
        return signed.to(self.dtype)

    def _encoded(self, frames: Frames) -> torch.Tensor:
        signed = self._signed(frames)
        model = self._model
        return model.source.content(signed) if isinstance(model, Munit) else model.encoded(signed)

    def _decoded(self, content: torch.Tensor, row: torch.Tensor | None) -> torch.Tensor:
        model = self._model
        if isinstance(model, Munit):
            return model.target.decoder(content, row)  # type: ignore[no-any-return] # modules are untyped
        return model.decoded(content)

    def _pictures(self, content: torch.Tensor, row: torch.Tensor | None, size: tuple[int, int] | None) -> torch.Tensor:
        pictures = self._decoded(content, row)
        if size is not None and tuple(pictures.shape[2:]) != size:
            pictures = functional.interpolate(pictures.float(), size, mode="bilinear", antialias=True)
        return as_frames(pictures)

    def _row(self, style: torch.Tensor | None) -> torch.Tensor | None:
        if (style is None) != (self.style_size == 0) or (style is not None and tuple(style.shape) != (self.style_size,)):
            got = "none" if style is None else f"{tuple(style.shape)}"
            raise BadWeatherError(f"the weather {self.card.name!r} takes a style of {self.style_size or 'no'} numbers; got {got}")
        return None if style is None else style.to(self.device, self.dtype)[None]

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
                self.batch_size = ceil((part.stop - part.start) / 2)
                torch.cuda.empty_cache()
                if self._on_halved is not None:
                    self._on_halved(self.batch_size)
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
