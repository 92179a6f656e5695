"""Learned weathers as the stimuli of a campaign: named, each under chosen styles, and the same pixels for a frame in any company."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from threading import Lock
from typing import TypeVar

import numpy as np
import torch

from skidpad.campaigns.deeproad_settings import StyleChoice
from skidpad.core.errors import SkidpadError
from skidpad.core.images import Frames
from skidpad.core.seeding import child_rng
from skidpad.core.stimuli import Params, Recipe, Space, Stimulus
from skidpad.subjects.network import usable_device
from skidpad.weather.files import BadWeatherError, WeatherCard, load_weather
from skidpad.weather.settings import Method
from skidpad.weather.translation import STYLE_LIMIT, Weather, WeatherStimulus

F = TypeVar("F", bound=Frames)

_SMALL_PX = 128
"""On a CPU, larger pictures are translated as fast one by one, and one picture to show is one picture to make."""

_COMPILED = Lock()
"""On a GPU parts of the networks are compiled when they first meet a shape, and torch's compiler minds other threads."""


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
        self._alone: AbstractContextManager[object] = _COMPILED if weather.device.type == "cuda" else nullcontext()
        self.space = Space(self._stimulus.space.parameters, tuple(styles))

    @property
    def is_halved(self) -> bool:
        """Whether a GPU ran out of memory, so that fewer frames are translated at a time than were meant to."""
        return self.weather.batch_size < self.group_frames

    def apply(self, frames: F, params: Params) -> F:
        """Returns the frames in the weather, of the same shape and kind."""
        return self.decoded(self._groups(frames), frames, params) if len(frames) else frames

    def encoded(self, frames: Frames) -> list[torch.Tensor]:
        """Returns the content codes of frames group by group, for `decoded` under one style after the other."""
        return list(self._groups(frames))

    def decoded(self, contents: Iterable[torch.Tensor], frames: F, params: Params) -> F:
        """Returns the frames that gave the contents in the weather, of the same shape and kind."""
        style = self._stimulus.style(params)
        if style is not None:
            style = style.to(self.weather.device, self.weather.dtype)  # which waits for a GPU, and so before others are kept waiting
        size = (int(frames.shape[1]), int(frames.shape[2]))
        parts: list[torch.Tensor] = []
        for content in contents:
            with self._alone:
                parts.append(self.weather.decode(content, style, size))
        pictures = torch.cat(parts)[: len(frames)]
        return pictures.to(frames.device) if isinstance(frames, torch.Tensor) else pictures.cpu().numpy()  # type: ignore[return-value] # the kind that came in

    def _groups(self, frames: Frames) -> Iterator[torch.Tensor]:
        places = np.minimum(np.arange(-(-len(frames) // self.group_frames) * self.group_frames), len(frames) - 1)
        filled = frames
        if len(places) > len(frames):
            filled = frames[torch.from_numpy(places).to(frames.device)] if isinstance(frames, torch.Tensor) else frames[places]
        for start in range(0, len(places), self.group_frames):
            with self._alone:
                content = self.weather.encode(filled[start : start + self.group_frames])
            yield content


class InWeathers:
    """Frames under one weather and style after the other: encoded once a weather, decoded under each of its styles; for one thread."""

    def __init__(self, frames: Frames, weathers: Mapping[str, Stimulus]) -> None:
        self._frames = frames
        self._weathers = weathers
        self._kept: tuple[str, list[torch.Tensor]] = ("", [])

    def under(self, recipe: Recipe) -> Frames:
        """Returns the frames under a recipe, as `recipe.apply` does."""
        name = recipe.steps[0].stimulus if len(recipe.steps) == 1 else ""
        looks = self._weathers.get(name)
        # one style alone needs no memory for what others would share
        if not isinstance(looks, WeatherLooks) or len(looks.space.grid) == 1 or not len(self._frames):
            return recipe.apply(self._frames, self._weathers)
        params = recipe.steps[0].params
        looks.space.check(name, params)
        if self._kept[0] != name:
            self._kept = ("", [])  # the codes of another weather make room first
            self._kept = (name, looks.encoded(self._frames))
        return looks.decoded(self._kept[1], self._frames, params)


def open_weathers(files: Sequence[str], device: str, choice: StyleChoice, styles: int, seed: int) -> Mapping[str, WeatherLooks]:
    """Loads weathers by the names of their files, with the method where two have one name, and draws the styles of each."""
    usable_device(device)
    loaded = [load_weather(Path(file)) for file in files]
    stems = [_stem(file) for file in files]
    counts = Counter(stems)
    names = [stem if counts[stem] == 1 else f"{stem}-{card.method.value}" for stem, (card, _) in zip(stems, loaded, strict=True)]
    twice = next((stem for stem, name in zip(stems, names, strict=True) if names.count(name) > 1), None)
    if twice is not None:
        raise SkidpadError(f"two weathers are called {twice!r}; give each once, and files that differ names that differ")
    return {
        name: WeatherLooks(Weather(card, weights, device), drawn_styles(card, choice, styles, seed))
        for name, (card, weights) in zip(names, loaded, strict=True)
    }


def drawn_styles(card: WeatherCard, choice: StyleChoice, count: int, seed: int) -> tuple[Params, ...]:
    """Returns the styles that a weather is tried under; one without numbers for UNIT."""
    if card.method is Method.UNIT:
        return (Params(),)
    size = card.sizes.style
    rng = child_rng(seed, "styles", card.weights_sha256)
    if choice is StyleChoice.RANDOM:
        rows = rng.standard_normal((count, size))
    elif card.styles is None:
        raise BadWeatherError(
            f"the weather {card.name!r} does not say what styles its real pictures have; use --style random, or learn it again"
        )
    elif choice is StyleChoice.REAL:
        rows = rng.normal(card.styles.mean, card.styles.deviation, (count, size))
    else:
        rows = np.array([card.styles.mean])
    kept = np.clip(rows, -STYLE_LIMIT, STYLE_LIMIT).astype(np.float32).astype(np.float64)
    return tuple(Params(**{f"style_{place}": float(number) for place, number in enumerate(row)}) for row in kept)


def _stem(file: str) -> str:
    return Path(file).name.removesuffix(".toml").removesuffix(".safetensors")
