"""Which weather is this? A small network that tells the weathers of real pictures apart, and its file.

It answers for pictures of any size and aspect: they are brought to a square of `SIZE_PX`, as the crops that it learned from were.
"""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save
from torch import nn
from torch.nn import functional

from skidpad.core import toml
from skidpad.core.errors import UnknownNameError
from skidpad.core.images import Frames
from skidpad.weather.files import BadWeatherError, read_card, read_weights, write_pair
from skidpad.weather.scenes import as_signed

if TYPE_CHECKING:
    from collections.abc import Mapping

SIZE_PX = 96
FEATURES = 2 * 96
_FORMAT = "skidpad-weather-classifier-1"
_BATCH = 256


class ClassifierNetwork(nn.Module):
    """Four convolutions, the mean and the largest value of each map, and one linear layer; about 7 million multiplications a picture."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *_block(3, 32, kernel=7, stride=4), *_block(32, 64, kernel=3, stride=2), *_block(64, 96, kernel=3, stride=2), *_block(96, 96)
        )
        self.head = nn.Linear(FEATURES, classes)

    def features(self, pictures: torch.Tensor) -> torch.Tensor:
        """Returns what the last layer reads, (N, FEATURES); pictures: (N, 3, SIZE_PX, SIZE_PX) within -1..1."""
        maps = self.body(pictures)
        return torch.cat([maps.mean(dim=(2, 3)), maps.amax(dim=(2, 3))], dim=1)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Returns the classes' scores, (N, classes)."""
        return self.head(self.features(pictures))  # type: ignore[no-any-return] # modules are untyped


def _block(channels: int, filters: int, kernel: int = 3, stride: int = 1) -> tuple[nn.Module, ...]:
    convolution = nn.Conv2d(channels, filters, kernel, stride, kernel // 2, bias=False)
    return convolution, nn.BatchNorm2d(filters), nn.ReLU(inplace=True)


@dataclass(frozen=True, slots=True)
class LearnedSet:
    """One set that a class was learned from; sha256 is of the pictures as they were read."""

    label: str
    origin: str
    sha256: str
    training: int
    held_out: int
    held_out_right: int


@dataclass(frozen=True, slots=True)
class ClassifierCard:
    """What a classifier knows, what it learned it from, and how well: confusion[i][j] held-out pictures of class i were called j.

    rendered: whether every picture was made by the built-in world.
    """

    classes: tuple[str, ...]
    sets: tuple[LearnedSet, ...]
    confusion: tuple[tuple[int, ...], ...]
    split: str
    rendered: bool
    epochs: int
    seed: int
    weights_sha256: str = ""

    @property
    def accuracy(self) -> float:
        """The share of held-out pictures put in their class."""
        table = np.array(self.confusion)
        return float(np.trace(table) / max(table.sum(), 1))

    def recall(self, label: str) -> float:
        """The share of held-out pictures of one class that were put in it."""
        row = self.confusion[self.place(label)]
        return row[self.place(label)] / max(sum(row), 1)

    def place(self, label: str) -> int:
        """Returns the position of a class, or says which there are."""
        if label not in self.classes:
            raise UnknownNameError.among("class of the weather classifier", label, self.classes)
        return self.classes.index(label)

    def class_named(self, weather: str) -> str:
        """Returns the class that a weather of this name belongs to: its own, or the one among its parts (`demo-rain`, `night-unit`)."""
        parts = [label for label in self.classes if label in weather.split("-")]
        return parts[0] if weather not in self.classes and len(parts) == 1 else self.classes[self.place(weather)]

    def to_toml(self) -> str:
        """Writes the card."""
        return toml.dumps({"format": _FORMAT, **asdict(self)})

    @classmethod
    def from_toml(cls, text: str, where: str) -> Self:
        """Reads what `to_toml` wrote; `where` names it in errors."""
        try:
            table: dict[str, Any] = toml.loads(text)
            if table.pop("format", None) != _FORMAT:
                raise BadWeatherError(f"{where} is no weather classifier of this version; learn it again with `skidpad weather classifier`")
            sets = tuple(LearnedSet(**row) for row in table.pop("sets"))
            confusion = tuple(tuple(map(int, row)) for row in table.pop("confusion"))
            return cls(**{**table, "classes": tuple(table["classes"]), "sets": sets, "confusion": confusion})
        except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
            raise BadWeatherError(f"{where} is damaged ({error}); restore it or learn the classifier again") from error


class WeatherClassifier:
    """A learned classifier at work, on one device."""

    def __init__(self, card: ClassifierCard, weights: Mapping[str, torch.Tensor], device: str = "cpu") -> None:
        self.card = card
        self.device = torch.device(device)
        network = ClassifierNetwork(len(card.classes))
        try:
            network.load_state_dict({name: tensor.float() for name, tensor in weights.items()}, strict=True)
        except RuntimeError as error:
            raise BadWeatherError(
                f"the classifier's weights are not those of {len(card.classes)} classes ({error}); learn it again"
            ) from error
        self._network = network.eval().requires_grad_(requires_grad=False).to(self.device)
        self._network.to(memory_format=torch.channels_last)  # type: ignore[call-overload] # torch leaves this form out

    @classmethod
    def load(cls, path: Path, device: str = "cpu") -> WeatherClassifier:
        """Loads the classifier at `path`, with or without its suffix."""
        return cls(*load_classifier(Path(path)), device=device)

    @property
    def classes(self) -> tuple[str, ...]:
        """The weathers it tells apart."""
        return self.card.classes

    def probabilities(self, frames: Frames) -> NDArray[np.float64]:
        """Returns how likely each class is for each frame, (N, classes)."""
        scores = [functional.softmax(self._network.head(part), dim=1) for part in self._features(frames)]
        return _joined(scores, len(self.classes))

    def features(self, frames: Frames) -> NDArray[np.float64]:
        """Returns what the network sees in each frame before it decides, (N, FEATURES)."""
        return _joined(self._features(frames), FEATURES)

    def labels(self, frames: Frames) -> NDArray[np.int64]:
        """Returns the position of the likeliest class of each frame, (N,)."""
        return np.asarray(self.probabilities(frames).argmax(axis=1), np.int64)

    def _features(self, frames: Frames) -> list[torch.Tensor]:
        parts = []
        with torch.inference_mode():
            for start in range(0, len(frames), _BATCH):
                part = frames[start : start + _BATCH]
                pictures = part if isinstance(part, torch.Tensor) else torch.from_numpy(np.ascontiguousarray(part))
                parts.append(self._network.features(squares(pictures.to(self.device))))
        return parts


def squares(frames: torch.Tensor) -> torch.Tensor:
    """Brings uint8 frames (N, height, width, 3) to what the network takes, (N, 3, SIZE_PX, SIZE_PX) within -1..1."""
    signed = as_signed(frames)
    if tuple(signed.shape[2:]) == (SIZE_PX, SIZE_PX):
        return signed
    return functional.interpolate(signed, (SIZE_PX, SIZE_PX), mode="bilinear", antialias=True)


def save_classifier(out: Path, card: ClassifierCard, weights: Mapping[str, torch.Tensor]) -> ClassifierCard:
    """Writes OUT.safetensors in half precision and OUT.toml; the weights first, so that a card never stands alone."""
    data: bytes = save(
        {name: tensor.half().contiguous() for name, tensor in weights.items() if tensor.is_floating_point()} | _counters(weights)
    )
    whole = replace(card, weights_sha256=sha256(data).hexdigest())
    write_pair(out, data, whole.to_toml())
    return whole


def load_classifier(path: Path) -> tuple[ClassifierCard, dict[str, torch.Tensor]]:
    """Reads a classifier; the weights must be those that the card was written for."""
    text, where = read_card(path, "weather classifier", "classifier")
    card = ClassifierCard.from_toml(text, where)
    return card, read_weights(path, card.weights_sha256)


def _counters(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.contiguous() for name, tensor in weights.items() if not tensor.is_floating_point()}


def _joined(parts: list[torch.Tensor], width: int) -> NDArray[np.float64]:
    if not parts:
        return np.zeros((0, width))
    return np.asarray(torch.cat(parts).double().cpu().numpy(), np.float64)
