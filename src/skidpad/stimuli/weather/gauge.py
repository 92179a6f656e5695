"""How a weather looks while it is learned: its pictures against those that it learns from, cheap enough to be asked again and again.

The classifier that sees the pictures is the bundled one, which takes no part in the training. Its features were learned from rendered
weathers, and the real pictures are those that the weather learns from; `skidpad weather realism` measures the result with more of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from skidpad.core.images import FloatArray, NumpyFrames
from skidpad.core.seeding import child_rng, child_seed
from skidpad.stimuli.weather.classifier import WeatherClassifier
from skidpad.stimuli.weather.detail import Detail
from skidpad.stimuli.weather.files import MANY_LOST
from skidpad.stimuli.weather.munit import Munit
from skidpad.stimuli.weather.pretrained import CLASSIFIER, classifier_path
from skidpad.stimuli.weather.realism import LEAST, TwoSample, as_square, as_stored, common_bandwidth, nearer_to_real, two_sample
from skidpad.stimuli.weather.samples import fresh_model
from skidpad.stimuli.weather.scenes import Scenes, as_frames, as_signed
from skidpad.stimuli.weather.settings import WeatherSettings
from skidpad.stimuli.weather.unit import Unit

if TYPE_CHECKING:
    from skidpad.stimuli.weather.training import Guide

MOST = 64
"""Pictures on each side of a comparison."""

LEAST_IOU = 0.8
"""A scene whose drivable area overlaps less with the recorded one's has lost the road."""

_LEARNED_PER_ONE = 20
"""Pictures that a training learns from for each one that is measured at a time: about 3 % of its time in the shortest ones."""


@dataclass(frozen=True, slots=True)
class RoadRow:
    """How much of the drivable area was where it had been after a step, by the referee: an IoU for each sampled picture with a road."""

    step: int
    ious: tuple[float, ...]

    @property
    def mean_iou(self) -> float:
        """The mean over the pictures."""
        return float(np.mean(self.ious))

    @property
    def lost(self) -> int:
        """The pictures in which the road is no longer where it was."""
        return sum(iou < LEAST_IOU for iou in self.ious)

    @property
    def is_lost(self) -> bool:
        """Whether that is so in many of them."""
        return self.lost_share > MANY_LOST

    @property
    def lost_share(self) -> float:
        """The share of the pictures in which that is so."""
        return self.lost / len(self.ious)

    def __str__(self) -> str:
        return f"{self.lost} of {len(self.ious)} pictures"


@dataclass(frozen=True, slots=True)
class RealismPoint:
    """After `step` steps. told: the share of real and translated pictures that a test sorts right; 0.5 is none.

    nearer: how much of the way from the untranslated pictures to real ones it went, see `realism.nearer_to_real`. in_class: the share
    that the classifier of `--classifier` puts into the weather's class; None without one.
    """

    step: int
    told: float
    nearer: float | None = None
    in_class: float | None = None


@dataclass(frozen=True, slots=True)
class Controls:
    """What the same measures say of real pictures against other real ones, and of the pictures as they were; pictures: on each side."""

    real: RealismPoint
    untranslated: RealismPoint
    pictures: int
    label: str = ""


class RealismGauge:
    """Measures a training from time to time; `controls` does not change meanwhile."""

    def __init__(self, source: Scenes, target: Scenes, settings: WeatherSettings, guide: Guide | None = None) -> None:
        count = pictures_to_measure(source, target, settings)
        if count < LEAST:
            raise ValueError(f"too few pictures: {len(source)} and {len(target)}")
        self._settings = settings
        self._guide = guide
        self._judge = WeatherClassifier.load(classifier_path(CLASSIFIER), settings.device)
        self._seed = child_seed(settings.seed, "realism while learning") % 2**32
        self._scenes = _spaced(source, count)
        real = _spaced(target, 2 * count)
        self._styled, others = real[::2], real[1::2]
        self._real = self._judge.features(_squares(self._styled))
        plain = as_stored([scene.cpu().numpy() for scene in self._scenes])
        features = self._judge.features(plain)
        self._bandwidth = common_bandwidth(self._real, features)
        self._plain = self._compared(features)
        self.controls = Controls(
            self._point(0, self._compared(self._judge.features(_squares(others))), _squares(others)),
            self._point(0, self._plain, plain),
            count,
            "" if guide is None else guide.label,
        )

    def measure(self, step: int, weights: Mapping[str, torch.Tensor]) -> RealismPoint:
        """Translates scenes with these weights of the generators, and compares them with real pictures."""
        made = as_stored(self._translated(weights))
        return self._point(step, self._compared(self._judge.features(made)), made)

    def _point(self, step: int, found: TwoSample, squares: NumpyFrames) -> RealismPoint:
        guide = self._guide
        share = None if guide is None else float((guide.classifier.labels(squares) == guide.classifier.card.place(guide.label)).mean())
        return RealismPoint(step, found.accuracy, nearer_to_real(found, self._plain), share)

    def _compared(self, features: FloatArray) -> TwoSample:
        return two_sample(self._real, features, self._seed, permutations=0, bandwidth=self._bandwidth)

    def _translated(self, weights: Mapping[str, torch.Tensor]) -> list[NumpyFrames]:
        """Translates one scene after the other: scenes may differ in shape, and little memory may be left beside the training."""
        settings = self._settings
        device = torch.device(settings.device)
        model = fresh_model(settings)
        model.load_state_dict(dict(weights))
        model = model.to(device).eval()
        rng = child_rng(settings.seed, "styles while learning")
        made: list[NumpyFrames] = []
        with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            for scene, styled in zip(self._scenes, self._styled, strict=True):
                signed = as_signed(scene[None].to(device))
                drawn = torch.from_numpy(rng.standard_normal((1, settings.sizes.style)).astype(np.float32)).to(device)
                picture = _picture(model, signed, styled, drawn, settings)
                picture = Detail(settings.detail, settings.size_px)(picture, signed) if settings.detail else picture
                made.append(as_frames(picture).cpu().numpy()[0])
        return made


def pictures_to_measure(source: Scenes, target: Scenes, settings: WeatherSettings) -> int:
    """Returns how many pictures are taken for each side of a comparison; below `realism.LEAST` there are too few for one."""
    affordable = max(LEAST, settings.steps * settings.batch_size // _LEARNED_PER_ONE)
    return min(MOST, affordable, len(source), len(target) // 2)


def _picture(
    model: Munit | Unit, signed: torch.Tensor, styled: torch.Tensor, drawn: torch.Tensor, settings: WeatherSettings
) -> torch.Tensor:
    """Translates a scene; MUNIT under the style of a real picture if such styles are learned, else under one drawn from N(0, 1)."""
    if isinstance(model, Unit):
        return model.decoded(model.encoded(signed))
    style = model.target.style(as_signed(styled[None].to(signed.device))) if settings.real_styles else drawn
    made: torch.Tensor = model.target.decoder(model.source.content(signed), style)
    return made


def _spaced(scenes: Scenes, count: int) -> list[torch.Tensor]:
    return [scenes.pictures[place] for place in np.linspace(0, len(scenes) - 1, count).round().astype(int).tolist()]


def _squares(pictures: Sequence[torch.Tensor]) -> NumpyFrames:
    return np.stack([as_square(picture.cpu().numpy()) for picture in pictures])
