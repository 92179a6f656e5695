"""Learning to tell weathers apart, from pictures that are not the ones it is judged by.

The sets come from different cameras, and a network would gladly learn the camera instead of the weather. Against that: crops of any
place, size and aspect, which hide lens and mounting; blur, noise and JPEG of any strength, which hide the sensor; a gain for each
colour channel, which hides the white balance. The best guard is two weathers from one camera (RDD2022 has snow, wet and clear, MSRS
night and day); a class whose every picture is from a camera of its own (fog) is not guarded fully, and a report says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, exp, pi

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from skidpad.core.errors import BadParametersError
from skidpad.core.images import NumpyFrames, decode, encode
from skidpad.core.progress import Progress, silent
from skidpad.core.seeding import child_rng, child_seed
from skidpad.weather.classifier import SIZE_PX, ClassifierCard, ClassifierNetwork, LearnedSet, WeatherClassifier
from skidpad.weather.held_out import SPLIT, held_out
from skidpad.weather.scenes import Scenes, as_signed, load_scenes

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

    epochs: int = 10
    samples: int = 2_560
    batch_size: int = 64
    learning_rate: float = 3e-3
    limit: int = 1_200
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("epochs", "samples", "batch_size", "limit"):
            if getattr(self, name) < 1:
                raise BadParametersError(f"{name} must be at least 1; got {getattr(self, name)}")
        if not self.learning_rate > 0.0:
            raise BadParametersError(f"learning_rate must be above 0; got {self.learning_rate}")


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
