"""From two sets of pictures to a weather on disk: trained, its real styles measured, written with its card."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from skidpad.core.errors import BadDriveError, SkidpadError
from skidpad.core.progress import Progress, silent
from skidpad.stimuli.weather.drawn import DrawnConditions
from skidpad.stimuli.weather.files import Styles, WeatherCard, save_weather, weather_file
from skidpad.stimuli.weather.scenes import Scenes
from skidpad.stimuli.weather.settings import Method, WeatherSettings
from skidpad.stimuli.weather.training import Guide, Training
from skidpad.stimuli.weather.translation import Weather

_STYLE_PICTURES = 256


@dataclass(frozen=True, slots=True)
class Lesson:
    """What to learn: scenes of the source and of the weather, where they came from, and whether the weather's were rendered.

    styles: scenes whose styles the weather draws its own from; the weather's where there are none.
    """

    source: Scenes
    target: Scenes
    source_text: str
    target_text: str
    rendered: bool
    styles: Scenes | None = None
    styles_text: str = ""

    def warnings(self, size_px: int) -> tuple[str, ...]:
        """Says which pictures had fewer pixels than are learned at; size_px: their shorter side then."""
        sets = ((self.source_text, self.source), (self.target_text, self.target))
        return tuple(
            f"{scenes.enlarged} of {len(scenes)} pictures of {text} are smaller than {size_px} px (the smallest has {scenes.smallest_px}) "
            "and were enlarged: the weather learns their blur. Give larger pictures, or a smaller --size"
            for text, scenes in sets
            if scenes.enlarged
        )


def checkpoint_file(out: Path) -> Path:
    """Returns where a training of the weather `out` is kept until it is done."""
    return weather_file(out, ".checkpoint.pt")


def check_out(out: Path) -> None:
    """Refuses to write over a weather; one whose training was killed at its very end may be written again."""
    card = weather_file(out, ".toml")
    if card.exists() and not checkpoint_file(out).exists():
        raise SkidpadError(f"{card} exists, and training writes over no weather; choose another --out, or remove it")


def learn(
    lesson: Lesson,
    settings: WeatherSettings,
    out: Path,
    *,
    progress: Progress = silent,
    watch: Callable[[Training], None] | None = None,
    stop: Callable[[], bool] | None = None,
    resumed: Callable[[int], None] | None = None,
    teacher: nn.Module | None = None,
    guide: Guide | None = None,
    drawn: str = "",
) -> tuple[WeatherCard, Training]:
    """Trains, or goes on with a training that was stopped, and writes OUT.safetensors and OUT.toml; the checkpoint is then removed.

    teacher: tells where the road is, for the loss that keeps it there. guide: names weathers, for the loss `named`. See `Training`.
    drawn: conditions that the card draws on top of the weather's pictures; training does not see them.
    """
    drawn = str(DrawnConditions(drawn)) if drawn else ""
    if lesson.source.sha256 == lesson.target.sha256:
        raise BadDriveError(f"{lesson.source_text!r} and {lesson.target_text!r} hold the same pictures; a weather is learned from two sets")
    check_out(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    training = Training(lesson.source, lesson.target, settings, teacher, guide)
    training.run(progress, checkpoint_file(out), watch=watch, stop=stop, resumed=resumed)
    weights = training.kept_weights()
    last = training.roads[-1] if training.roads and training.roads[-1].step == settings.steps else None
    card = WeatherCard(
        name=weather_file(out, "").name,
        method=settings.method,
        sizes=settings.sizes,
        size_px=settings.size_px,
        source=lesson.source_text,
        source_sha256=lesson.source.sha256,
        target=f"{lesson.target_text}; styles of {lesson.styles_text}" if lesson.styles_text else lesson.target_text,
        target_sha256=lesson.target.sha256,
        rendered=lesson.rendered,
        steps=settings.steps,
        batch_size=training.batch_size,
        crop_px=settings.crop_px,
        seed=settings.seed,
        contrast=settings.weights.contrast,
        road=settings.weights.road,
        guide="" if guide is None else str(guide),
        detail=settings.detail,
        drawn=drawn,
        road_lost=None if last is None else last.lost_share,
    )
    if settings.method is Method.MUNIT:
        styled = lesson.target if lesson.styles is None else lesson.styles
        if settings.real_styles:
            weights = with_axes_of(weights, style_rows(Weather(card, weights, settings.device), styled))
        rows = style_rows(Weather(card, weights, settings.device), styled)
        card = replace(card, styles=Styles(tuple(rows.mean(0).tolist()), tuple(rows.std(0).tolist())))
    card = save_weather(out, card, weights)
    checkpoint_file(out).unlink(missing_ok=True)
    return card, training


def style_rows(weather: Weather, target: Scenes) -> torch.Tensor:
    """Returns the styles that real pictures of the weather have, (N, style) float32; of many, of evenly spaced ones."""
    places = np.linspace(0, len(target) - 1, min(len(target), _STYLE_PICTURES)).round().astype(int).tolist()
    return torch.cat([weather.styles_of(target.pictures[place][None]).cpu() for place in places])


def with_axes_of(weights: Mapping[str, torch.Tensor], rows: torch.Tensor) -> dict[str, torch.Tensor]:
    """Returns MUNIT's weights with the axes of the styles `rows`, (N, style), as the axes of its space of styles, the longest first.

    The same pictures are made under other numbers: real styles have a mean of 0, a deviation of 1 at most, and no correlation.

    Deviates: MUNIT leaves the space as it was learned. There the styles of real pictures lie near a line, which may go far beyond N(0, 1):
    numbers that are drawn one by one leave it, and the pictures turn brown; a search within N(0, 1) hardly meets it.
    """
    mean = rows.mean(0)
    variances, axes = torch.linalg.eigh(torch.cov(rows.T).reshape(len(mean), len(mean)))  # cov of one number has no axes
    axes = axes.flip(1)
    axes = torch.where(axes.sum(0) < 0.0, -axes, axes)  # which of both directions is up is left open
    lengths = variances.flip(0).clamp(min=1.0).sqrt()  # never shorter than N(0, 1), which is trained as well
    changed = dict(weights)
    encoder = max(name.removesuffix(".weight") for name in weights if name.startswith("target.style.") and weights[name].ndim == 2)
    decoder = "target.decoder.norms.0"
    first, last = (weights[f"{name}.weight"] for name in (decoder, encoder))
    changed[f"{decoder}.bias"] = weights[f"{decoder}.bias"] + first @ mean
    changed[f"{decoder}.weight"] = first @ (axes * lengths)
    changed[f"{encoder}.bias"] = (axes.T @ (weights[f"{encoder}.bias"] - mean)) / lengths
    changed[f"{encoder}.weight"] = (axes.T @ last) / lengths[:, None]
    return changed
