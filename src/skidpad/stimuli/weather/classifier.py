"""Which weather is this? A small network that tells the weathers of real pictures apart, and its file.

It answers for pictures of any size and aspect: they are brought to a square of `SIZE_PX`, as the crops that it learned from were.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from math import cos, exp, pi
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save
from torch import nn
from torch.nn import functional

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.core.images import BoolArray, Frames, NumpyFrames, decode, encode
from skidpad.core.progress import Progress, silent
from skidpad.core.seeding import child_rng, child_seed
from skidpad.core.settings import Count, Positive, check, read_toml, write_toml
from skidpad.stimuli.weather.files import BadWeatherError, read_card, read_weights, write_pair
from skidpad.stimuli.weather.scenes import Scenes, as_signed, load_scenes

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
        """Returns the class that a weather of this name belongs to: its own, or the one among its parts (`heavy-rain`, `night-unit`)."""
        parts = [label for label in self.classes if label in weather.split("-")]
        return parts[0] if weather not in self.classes and len(parts) == 1 else self.classes[self.place(weather)]

    def to_toml(self) -> str:
        """Writes the card."""
        return write_toml({"format": _FORMAT, **asdict(self)})

    @classmethod
    def from_toml(cls, text: str, where: str) -> Self:
        """Reads what `to_toml` wrote; `where` names it in errors."""
        try:
            table: dict[str, Any] = read_toml(text)
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

    def surprise(self, pictures: torch.Tensor, label: str) -> torch.Tensor:
        """Returns how little pictures (N, 3, height, width) within -1..1 look like a class: the mean cross-entropy, for training by it."""
        scores = self._network(functional.interpolate(pictures, (SIZE_PX, SIZE_PX), mode="bilinear", antialias=True)).float()
        return functional.cross_entropy(scores, scores.new_full((len(scores),), self.card.place(label), dtype=torch.int64))

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


STRETCHES = 20
LEAST_STRETCH = 10
"""Pictures; a small set is cut into fewer stretches."""
SHARE = 0.2
SPLIT = (
    f"in order of name or time, {STRETCHES} stretches of equal length (at least {LEAST_STRETCH} pictures); "
    f"the last {SHARE:.0%} of each are held out"
)


def held_out(count: int) -> BoolArray:
    """Marks the held-out pictures of a set of `count`, (count,).

    Whole pieces of a drive are held out, because neighbouring frames look alike; of every part of it, because weather and place
    change along it. Of every k-th picture of a set the same ones are held out, as long as 200 are left.
    """
    stretches = max(min(STRETCHES, count // LEAST_STRETCH), 1)
    return (np.arange(count) / max(count, 1) * stretches) % 1.0 >= 1.0 - SHARE - 1e-9


READ_PX = 128
"""The shorter side of pictures as they are kept while learning; crops are cut from it."""


@dataclass(frozen=True, slots=True)
class ClassSet:
    """Pictures of one weather: a folder or a drive; several sets may share a label."""

    label: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifierSettings:
    """One training; an epoch is `samples` crops, evenly from the classes and, within a class, from its sets."""

    epochs: Count = 10
    samples: Count = 2_560
    batch_size: Count = 64
    learning_rate: Positive = 3e-3
    limit: Count = 1_200
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        check(self, BadParametersError)


def learn_classifier(
    sets: Sequence[ClassSet], settings: ClassifierSettings, *, rendered: bool = False, progress: Progress = silent
) -> tuple[ClassifierCard, dict[str, torch.Tensor]]:
    """Learns from the sets, and counts how the held-out pictures are called; the same settings give the same weights on one machine."""
    classes = tuple(dict.fromkeys(part.label for part in sets))
    if len(classes) < 2:
        raise BadParametersError(f"a classifier needs pictures of at least two weathers; got {', '.join(classes) or 'none'}")
    scenes = [load_scenes(part.origin, READ_PX, 1, settings.limit, progress) for part in sets]
    labels = [classes.index(part.label) for part in sets]
    network = _trained(scenes, labels, len(classes), settings, progress)
    weights = {name: tensor.detach().cpu() for name, tensor in network.state_dict().items()}
    blank = ClassifierCard(classes, (), ((0,) * len(classes),) * len(classes), SPLIT, rendered, settings.epochs, settings.seed)
    judge = WeatherClassifier(blank, {name: _halved(tensor) for name, tensor in weights.items()})
    confusion = np.zeros((len(classes), len(classes)), np.int64)
    rows = []
    for part, pictures, label in zip(sets, scenes, labels, strict=True):
        judged = [pictures.pictures[place] for place in np.flatnonzero(held_out(len(pictures))).tolist()]
        called = np.array([int(judge.labels(picture[None])[0]) for picture in judged], np.int64)
        np.add.at(confusion[label], called, 1)
        right = int((called == label).sum())
        rows.append(LearnedSet(part.label, part.origin, pictures.sha256, len(pictures) - len(judged), len(judged), right))
    table = tuple(tuple(map(int, row)) for row in confusion)
    return ClassifierCard(classes, tuple(rows), table, SPLIT, rendered, settings.epochs, settings.seed), weights


def _halved(tensor: torch.Tensor) -> torch.Tensor:
    """What the file will hold, so that the figures are the file's."""
    return tensor.half() if tensor.is_floating_point() else tensor


def _trained(scenes: list[Scenes], labels: list[int], classes: int, settings: ClassifierSettings, progress: Progress) -> ClassifierNetwork:
    device = torch.device(settings.device)
    with torch.random.fork_rng([]):
        torch.manual_seed(child_seed(settings.seed, "classifier"))
        network = ClassifierNetwork(classes).train()
    network.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload] # torch leaves this form out
    optimizer = torch.optim.AdamW(network.parameters(), lr=settings.learning_rate, weight_decay=1e-2)
    shown = [np.flatnonzero(~held_out(len(pictures))) for pictures in scenes]
    steps = max(settings.samples // settings.batch_size, 1)
    total = steps * settings.epochs
    for step in range(total):
        rng = child_rng(settings.seed, "classifier step", step)
        pictures, wanted = _drawn(scenes, shown, labels, classes, settings.batch_size, rng)
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * min((step + 1) / steps, 0.5 + 0.5 * cos(pi * step / total))
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(
            network(pictures.to(device, memory_format=torch.channels_last)), wanted.to(device), label_smoothing=0.05
        )
        torch.autograd.backward(loss)
        optimizer.step()
        if (step + 1) % 10 == 0 or step + 1 == total:
            progress(step + 1, total, f"loss {float(loss.detach()):.3f}")
    return network.eval()


def _drawn(
    scenes: list[Scenes], shown: list[NDArray[np.int64]], labels: list[int], classes: int, count: int, rng: np.random.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draws crops, (count, 3, SIZE_PX, SIZE_PX) within -1..1, and their classes, (count,)."""
    of_class = [[place for place, label in enumerate(labels) if label == wanted] for wanted in range(classes)]
    wanted = rng.integers(classes, size=count)
    crops = np.empty((count, SIZE_PX, SIZE_PX, 3), np.uint8)
    for number, label in enumerate(wanted.tolist()):
        chosen = of_class[label][int(rng.integers(len(of_class[label])))]
        place = int(rng.choice(shown[chosen]))
        crops[number] = augmented(np.asarray(scenes[chosen].pictures[place].numpy(), np.uint8), rng)
    pictures = as_signed(torch.from_numpy(crops))
    gains = torch.from_numpy(rng.uniform(0.85, 1.15, (count, 3, 1, 1)).astype(np.float32))
    pictures = ((pictures + 1.0) * gains - 1.0).clamp_(-1.0, 1.0)
    noise = torch.from_numpy(rng.standard_normal(pictures.shape, dtype=np.float32))
    strength = torch.from_numpy((0.06 * rng.random((count, 1, 1, 1)) ** 2).astype(np.float32))
    return pictures + strength * noise, torch.from_numpy(wanted)


def augmented(picture: NumpyFrames, rng: np.random.Generator) -> NumpyFrames:
    """Cuts a crop of a random place, size and aspect, (SIZE_PX, SIZE_PX, 3), and hides lens and sensor."""
    height, width = picture.shape[:2]
    area, aspect = rng.uniform(0.35, 1.0), exp(rng.uniform(-0.35, 0.35))
    tall = min(max(round(height * (area / aspect) ** 0.5), 8), height)
    wide = min(max(round(width * (area * aspect) ** 0.5), 8), width)
    top, left = int(rng.integers(height - tall + 1)), int(rng.integers(width - wide + 1))
    crop = cv2.resize(picture[top : top + tall, left : left + wide], (SIZE_PX, SIZE_PX), interpolation=cv2.INTER_AREA)
    if rng.random() < 0.5:
        crop = cv2.flip(crop, 1)
    if rng.random() < 0.6:
        crop = cv2.GaussianBlur(crop, (0, 0), float(rng.uniform(0.3, 1.6)))
    made = np.asarray(crop, np.uint8)
    if rng.random() < 0.6:
        stored = decode(encode(made, ".jpg", int(rng.integers(25, 96))))
        made = made if stored is None else stored
    return made
