"""The loss that keeps the road where it is, and the choice of pictures whose road lies where the drive's does."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from skidpad.core.errors import BadParametersError
from skidpad.stimuli.weather.losses import alike, road_loss
from skidpad.stimuli.weather.scenes import Scenes
from skidpad.stimuli.weather.settings import PRESETS, LossWeights, Sizes, WeatherSettings
from skidpad.stimuli.weather.training import Training


class GreyIsRoad(nn.Module):
    """A teacher for which what has no colour is road, and what is green is not."""

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Returns logits of road, marking and the rest."""
        green = 8.0 * (pictures[:, 1] - pictures[:, 0])
        return torch.stack([-green, torch.full_like(green, -9.0), green], 1)


def road(green: float = 0.0, left: bool = False) -> torch.Tensor:
    """Returns a green picture with a grey square, painted over by `green`, within -1..1."""
    picture = torch.zeros(1, 3, 96, 96)
    picture[:, 1] = 1.0
    columns = slice(0, 48) if left else slice(48, 96)
    picture[:, 1, 48:, columns] = green
    return picture


def test_what_stays_costs_nothing_and_grass_over_the_road_costs_most() -> None:
    teacher = GreyIsRoad()
    assert float(road_loss(teacher, road(), road())) == pytest.approx(0.0, abs=1e-6)
    darker, half, grass = (float(road_loss(teacher, road(), made)) for made in (road() * 0.9, road(0.5), road(1.0)))
    assert darker < half < grass


def test_it_is_the_divergence_of_the_classes() -> None:
    teacher, before, after = GreyIsRoad(), road(), road(0.3)
    small = [nn.functional.interpolate(each, (64, 64), mode="bilinear", antialias=True) * 0.5 + 0.5 for each in (before, after)]
    p, q = (teacher(each).softmax(1).numpy() for each in small)
    plain = float(np.mean(np.sum(p * np.log(p / q), axis=1)))
    assert float(road_loss(teacher, before, after)) == pytest.approx(plain, rel=1e-4)


def scenes_of(pictures: list[torch.Tensor]) -> Scenes:
    frames = tuple(((picture[0].permute(1, 2, 0) + 1.0) * 127.5).to(torch.uint8) for picture in pictures)
    return Scenes("toy", frames, 0, "0")


def test_pictures_whose_road_lies_elsewhere_are_left_out() -> None:
    source = scenes_of([road()] * 8)
    target = scenes_of([road(), road(left=True), road(), road(left=True)])
    kept = alike(target, source, GreyIsRoad(), 0.5)
    assert [bool(torch.equal(picture, source.pictures[0])) for picture in kept.pictures] == [True, True]


def test_a_training_that_keeps_the_road_needs_a_teacher_and_leaves_it_as_it_is() -> None:
    sizes = Sizes(filters=4, blocks=1, hidden=8, scales=1, halvings=1, style=2)
    settings = WeatherSettings(sizes=sizes, weights=LossWeights(road=2.0), size_px=96, crop_px=64, steps=2, batch_size=1)
    source, target = scenes_of([road()] * 8), scenes_of([road(0.2)] * 8)
    with pytest.raises(BadParametersError, match="needs a teacher"):
        Training(source, target, settings)
    teacher = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3))
    before = [value.clone() for value in teacher.state_dict().values()]
    training = Training(source, target, settings, teacher)
    training.run()
    assert training.curve[-1].losses["road"] >= 0.0
    assert all(torch.equal(one, other) for one, other in zip(before, teacher.state_dict().values(), strict=True))
    assert "road" not in _losses(replace(settings, weights=LossWeights()), source, target)


def _losses(settings: WeatherSettings, source: Scenes, target: Scenes) -> dict[str, float]:
    training = Training(source, target, settings)
    training.run()
    return training.curve[-1].losses


def test_it_is_on_by_default_and_off_in_the_papers_preset() -> None:
    assert PRESETS["road"].weights.road > 0.0
    assert (
        PRESETS["paper"].weights.road == PRESETS["paper"].weights.contrast == PRESETS["paper"].alike == PRESETS["paper"].real_styles == 0.0
    )
