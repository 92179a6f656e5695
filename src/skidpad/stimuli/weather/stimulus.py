"""A learned weather as a stimulus: the same pixels for a frame in any company, by name wherever stimuli can be given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import TypeVar

import numpy as np
import torch

from skidpad.core.images import FloatArray, Frames
from skidpad.core.seeding import child_rng
from skidpad.core.stimuli import Params, Space, Whole
from skidpad.stimuli.weather.decoding import Prepared
from skidpad.stimuli.weather.files import load_weather
from skidpad.stimuli.weather.pretrained import weather_path
from skidpad.stimuli.weather.settings import Method
from skidpad.stimuli.weather.translation import STYLE_LIMIT, Weather, WeatherStimulus

F = TypeVar("F", bound=Frames)
T = TypeVar("T")

_SMALL_PX = 128
"""On a CPU, larger pictures are translated as fast one by one, and one picture to show is one picture to make."""


@cache
def _one_thread() -> ThreadPoolExecutor:
    """The thread that begins work on a GPU: torch's compiler minds other threads, and cuDNN measures its kernels anew in each."""
    return ThreadPoolExecutor(1, "skidpad-weather")


class WeatherLooks:
    """A weather in front of the camera under a few styles, which are the grid of its space.

    Frames go through the networks in groups of one size, the last group filled up with its last frame: how a convolution
    rounds may hang on the size of the batch, and a finding's picture must come out the same when it is made alone.
    """

    def __init__(self, weather: Weather, styles: Sequence[Params]) -> None:
        self.weather = weather
        by_one = weather.device.type == "cpu" and weather.card.size_px > _SMALL_PX
        self.group_frames = 1 if by_one else weather.batch_size
        self._stimulus = WeatherStimulus(weather)
        self.space = Space(self._stimulus.space.parameters, tuple(styles))

    def _alone(self, work: Callable[..., T], *given: object) -> T:
        """Does a part of the work, for a GPU in the one thread that begins all of it."""
        return work(*given) if self.weather.device.type == "cpu" else _one_thread().submit(work, *given).result()

    @property
    def is_halved(self) -> bool:
        """Whether a GPU ran out of memory, so that fewer frames are translated at a time than were meant to."""
        return self.weather.batch_size < self.group_frames

    def apply(self, frames: F, params: Params) -> F:
        """Returns the frames in the weather, of the same shape and kind."""
        return self.decoded(self._groups(frames), frames, params) if len(frames) else frames

    def encoded(self, frames: Frames) -> list[Prepared]:
        """Returns the codes of frames group by group, for `decoded` under one style after the other."""
        return list(self._groups(frames))

    def decoded(self, contents: Iterable[Prepared], frames: F, params: Params) -> F:
        """Returns the frames that gave the contents in the weather, of the same shape and kind."""
        style = self._stimulus.style(params)
        if style is not None:
            style = style.to(self.weather.device)  # which waits for a GPU, and so before others are kept waiting
        size = (int(frames.shape[1]), int(frames.shape[2]))
        pictures = torch.cat([self._alone(self.weather.decode, content, style, size) for content in contents])[: len(frames)]
        return pictures.to(frames.device) if isinstance(frames, torch.Tensor) else pictures.cpu().numpy()  # type: ignore[return-value] # the kind that came in

    def _groups(self, frames: Frames) -> Iterator[Prepared]:
        places = np.minimum(np.arange(-(-len(frames) // self.group_frames) * self.group_frames), len(frames) - 1)
        filled = frames
        if len(places) > len(frames):
            filled = frames[torch.from_numpy(places).to(frames.device)] if isinstance(frames, torch.Tensor) else frames[places]
        for start in range(0, len(places), self.group_frames):
            yield self._alone(self.weather.prepare, filled[start : start + self.group_frames])


class LearnedWeather:
    """A learned weather under numbered styles, on NumPy frames and on torch frames of any device.

    Style 0 is the mean of the styles that its real pictures have, any other number a draw from them; from N(0, 1) where the card does
    not say what they are. A weather learned by UNIT has no styles, and so no parameters.
    """

    def __init__(self, path: Path) -> None:
        self.card, self._weights = load_weather(path)
        numbered = Space((Whole("style", 0, 999_999, None),), tuple(Params(style=number) for number in range(10)))
        self.space = numbered if self.card.method is Method.MUNIT else Space((), (Params(),))
        self._looks: dict[str, WeatherLooks] = {}
        self._loading = Lock()

    @property
    def sha256(self) -> str:
        """The hash of all that its pictures depend on, for manifests."""
        return self.card.sha256

    def apply(self, frames: F, params: Params) -> F:
        """Returns the frames in the weather, of the same shape and kind."""
        device = str(frames.device) if isinstance(frames, torch.Tensor) else "cpu"
        with self._loading:  # threads share what is loaded
            if device not in self._looks:
                self._looks[device] = WeatherLooks(Weather(self.card, self._weights, device), ())
        return self._looks[device].apply(frames, self._style(params))

    def _style(self, params: Params) -> Params:
        if not self.space.parameters:
            return Params()
        number, known = params.whole("style"), self.card.styles
        if known is None:
            return style_params(child_rng(number, "style", self.card.weights_sha256).standard_normal(self.card.sizes.style))
        drawn = child_rng(number, "style", self.card.weights_sha256).normal(known.mean, known.deviation)
        return style_params(drawn if number else np.array(known.mean))


def style_params(numbers: FloatArray) -> Params:
    """Returns the parameters that mean a style, brought back to the limit and as precise as the networks compute."""
    kept = np.clip(numbers, -STYLE_LIMIT, STYLE_LIMIT).astype(np.float32).astype(np.float64)
    return Params(**{f"style_{place}": float(number) for place, number in enumerate(kept)})


def named_weather(text: str) -> Callable[[], LearnedWeather]:
    """Returns what makes the weather that follows `weather:`, the name of a bundled one or the path of a card."""
    return partial(LearnedWeather, weather_path(text))
