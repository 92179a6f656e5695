"""Which translations of a scene may count: those that kept its structure, and that show the weather they are meant to show.

Weather changes light, colour and contrast, and may turn dark on bright into bright on dark here and there (snow beside a road, the sky
at night); it does not move the road, and it does not turn a scene into its negative. So edges are compared by place and direction
alone, and apart from that it is asked whether most of them kept their sign. Large edges survive any blur, so that it is asked as well
how much fine detail there is beside the coarse.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch.nn import functional

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.core.images import BoolArray, FloatArray, Frames, averaged, edges
from skidpad.stimuli.weather.classifier import ClassifierCard, WeatherClassifier
from skidpad.stimuli.weather.files import WeatherCard

LEAST_LIKENESS = 0.45
"""Calibrated on real pairs (docs/research/weather.md): scenes of another place, mirrored, flat or blurred out lie below, the same scene
in light or darkness, in DeepTest's fog and rain and in learned weathers above."""

LEAST_POLARITY = 0.0
"""More edges keep their sign than turn it. Translators like to paint negatives, with black lane markings, which no weather does."""

LEAST_DETAIL = 0.35
"""Between what kept the scene (0.36 and more) and smears in its large shapes (2 of 128 above); a picture reduced to
24 pixels and enlarged again has about 0.4, one reduced to 16 has 0.25 (docs/research/weather.md)."""

SIZE_PX = 96
_SCALES = (2, 4)
"""Light is averaged over so many pixels before edges are looked for: texture, flakes and streaks then hardly count.
The first is where detail is looked for, the second what it is measured against."""
_BATCH = 256


class Structure(NamedTuple):
    """Likeness of each pair of scenes, (N,) each; the first two within -1..1, detail from 0.

    likeness: of the edges' places and directions; 1 is the same scene, 0 what chance gives. polarity: the same with the edges' signs;
    as high where bright stayed brighter than dark, below 0 where most edges were turned, -1 for a negative. detail: how sharp the
    scene is, in parts of its source; 0 is flat, above 1 sharper or noisier.
    """

    likeness: FloatArray
    polarity: FloatArray
    detail: FloatArray


def structure_of(sources: Frames, translated: Frames) -> Structure:
    """Compares translated scenes with their sources; frames are uint8 (N, height, width, 3), the two of any sizes.

    Both are brought to SIZE_PX x SIZE_PX grey levels. For `likeness`, edges are double angles. The likeness of two fields of edges
    is their correlation, the mean over two scales. Sharpness is the mean curvature of light at the finer scale over its mean slope at
    the coarser one, so that a loss of contrast alone leaves it as it is.
    """
    if len(sources) != len(translated):
        raise BadParametersError(f"each translated scene needs its source; got {len(sources)} sources and {len(translated)} scenes")
    device = translated.device if isinstance(translated, torch.Tensor) else torch.device("cpu")
    parts = [np.zeros((3, 0))]
    with torch.inference_mode():
        for start in range(0, len(sources), _BATCH):
            greys = [_light(frames[start : start + _BATCH], device) for frames in (sources, translated)]
            before, after = ([averaged(grey, scale) for scale in _SCALES] for grey in greys)
            alike = torch.stack([torch.stack(_alike(*pair)) for pair in zip(before, after, strict=True)]).mean(dim=0)
            detail = _sharpness(*after) / _sharpness(*before).clamp(min=1e-6)
            parts.append(np.asarray(torch.cat([alike, detail[None]]).double().cpu().numpy(), np.float64))
    return Structure(*np.concatenate(parts, axis=1))


def _light(frames: Frames, device: torch.device) -> torch.Tensor:
    """Returns the grey levels of frames at the measuring size, (N, SIZE_PX, SIZE_PX) float32."""
    pictures = frames if isinstance(frames, torch.Tensor) else torch.from_numpy(np.ascontiguousarray(frames))
    pictures = pictures.to(device)
    grey = pictures[..., 0].float().add_(pictures[..., 1]).add_(pictures[..., 2]).div_(3.0)
    if tuple(grey.shape[1:]) == (SIZE_PX, SIZE_PX):
        return grey
    return functional.interpolate(grey[:, None], (SIZE_PX, SIZE_PX), mode="bilinear", antialias=True)[:, 0]


def _alike(before: torch.Tensor, after: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    doubled_before, signed_before = edges(before)
    doubled_after, signed_after = edges(after)
    return _correlation(doubled_before, doubled_after), _correlation(signed_before, signed_after)


def _sharpness(fine: torch.Tensor, coarse: torch.Tensor) -> torch.Tensor:
    """Returns curvature over slope, (N,); a grey level of slope is added, so that noise on a flat picture is no detail."""
    around = fine[:, :-2, 1:-1] + fine[:, 2:, 1:-1] + fine[:, 1:-1, :-2] + fine[:, 1:-1, 2:]
    curvature = (4.0 * fine[:, 1:-1, 1:-1] - around).abs().mean(dim=(1, 2))
    across, down = coarse[:, 1:-1, 2:] - coarse[:, 1:-1, :-2], coarse[:, 2:, 1:-1] - coarse[:, :-2, 1:-1]
    return curvature / ((across.square() + down.square()).sqrt().mean(dim=(1, 2)) + 1.0)


def _correlation(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    together = (before * after).sum(dim=(0, 2, 3))
    size = (before.square().sum(dim=(0, 2, 3)) * after.square().sum(dim=(0, 2, 3))).sqrt()
    return together / size.clamp(min=1e-6)


def target_class(classes: ClassifierCard, weather: WeatherCard, named: str = "") -> str:
    """Returns the class that a weather's scenes belong in: the one named, or that of its folder, or that of its name.

    The folder is the one that the weather was learned from, where a class is called so; by name as in `ClassifierCard.class_named`.
    """
    folder = Path(weather.target).name
    try:
        return classes.class_named(named or (folder if folder in classes.classes else weather.name))
    except UnknownNameError as error:
        if named:
            raise
        raise UnknownNameError(f"{error} (to say which class the weather {weather.name!r} is: FILE=CLASS)") from error


class SceneFilter(Protocol):
    """Tells which translations may count."""

    def accepts(self, sources: Frames, translated: Frames) -> BoolArray:
        """Returns one truth value for each pair, (N,); frames are uint8 (N, height, width, 3), the two of any sizes."""


@dataclass(frozen=True, slots=True)
class StructureKept:
    """Accepts what kept the scene, whatever weather it shows."""

    least_likeness: float = LEAST_LIKENESS
    least_polarity: float = LEAST_POLARITY
    least_detail: float = LEAST_DETAIL

    def __post_init__(self) -> None:
        for name in ("least_likeness", "least_polarity"):
            if not -1.0 <= getattr(self, name) <= 1.0:
                raise BadParametersError(f"{name} lies within -1 and 1; got {getattr(self, name)}")
        if not 0.0 <= self.least_detail <= 1.0:
            raise BadParametersError(f"least_detail lies within 0 and 1; got {self.least_detail}")

    def accepts(self, sources: Frames, translated: Frames) -> BoolArray:
        """Returns which translations kept the scene."""
        return self.judges(structure_of(sources, translated))

    def judges(self, found: Structure) -> BoolArray:
        """Returns which measured pairs are the same scene."""
        alike = (found.likeness >= self.least_likeness) & (found.polarity >= self.least_polarity)
        return np.asarray(alike & (found.detail >= self.least_detail))


class StructureAndClass:
    """Accepts what kept the scene and is classified as the target weather; target: a class, or a weather named after one."""

    def __init__(self, classifier: WeatherClassifier, target: str, structure: StructureKept | None = None) -> None:
        self.structure = structure or StructureKept()
        self.classifier = classifier
        self.target = classifier.card.class_named(target)
        self._place = classifier.card.place(self.target)

    def accepts(self, sources: Frames, translated: Frames) -> BoolArray:
        """Returns which translations kept the scene and show the target weather."""
        right = np.asarray(self.classifier.labels(translated) == self._place, np.bool_)
        return np.logical_and(self.structure.accepts(sources, translated), right)
