"""Runs over the pictures of a drive: the frame and its mutant, rendered again from the recipe; a learned weather on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import ceil, degrees, isfinite
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from skidpad.core.errors import BadRunError, SkidpadError
from skidpad.core.images import NumpyFrames, as_numpy
from skidpad.core.stimuli import Recipe, Stimulus
from skidpad.drives.drive import Drive, Problem, capture_at
from skidpad.drives.opening import open_drive
from skidpad.kinds.exhibits import Exhibit, Form, PairAnswers, PictureSide, Row, Rule, Sight, bound_rule, picture_rule
from skidpad.oracles.error import times_tolerated
from skidpad.page.wording import DEGREES, answer, how_far, moved_words, plain
from skidpad.stimuli.pictures import TRANSFORMS, stimuli

if TYPE_CHECKING:
    from skidpad.stimuli.weather.translation import Weather


_ORIGINALS = "originals"
_NEEDED = ("frame_index", "frame_id", "recipe", "original", "mutant", "label")


class PairExhibit(Exhibit):
    """Shows a frame beside its mutant; the drive is opened when the first picture is wanted."""

    needs: ClassVar[Mapping[str, Form]] = {
        **dict.fromkeys(("stimulus", "frame_id", "recipe"), Form.TEXT),
        **dict.fromkeys(("original", "mutant", "label"), Form.REAL),
        "frame_index": Form.WHOLE,
    }
    command: ClassVar[str] = "test"
    cases: ClassVar[str] = "mutants"
    unjudged: ClassVar[frozenset[str]] = frozenset({_ORIGINALS})
    groups: ClassVar[tuple[str, ...]] = ("stimulus",)

    @property
    def rule(self) -> Rule:
        """The relation and tolerance of the config."""
        return picture_rule(self.config)

    @cached_property
    def drive(self) -> Drive:
        """The drive that the config names."""
        text = self.config.get("drive")
        if not isinstance(text, str):
            raise BadRunError("the run does not say which drive it tests, so that no picture can be rendered")
        if "://" in text:
            # A run folder may come from a stranger: looking at it must not make this machine ask addresses that it names.
            raise BadRunError("the run's drive lies on a server, and the page fetches nothing; `skidpad replay` renders its pictures")
        return open_drive(text)

    def title(self, row: Row) -> str:
        """The recipe and the frame."""
        return f"{self._recipe_words(row)} on {plain(str(row['frame_id']), 80)}"

    def sight(self, row: Row) -> Sight:
        """A pair, where the record says which frame and how it was changed."""
        return Sight.PAIR if all(row.get(name) is not None for name in _NEEDED) else Sight.NOTHING

    def verdict(self, row: Row) -> str:
        """How many times the tolerated error was reached."""
        words = times_tolerated(float(row["excess"]), self.rule.scale)
        return f"{'finding' if row['violated'] else 'passed'}, {words}"

    def how_far(self, row: Row) -> str:
        """The distance that was judged, and how many times the tolerated one that is."""
        said = self.answers(row)
        gap = how_far(said.original, said.mutant, said.label, said.unit, self.rule.scale)
        return ", ".join(dict.fromkeys((gap, times_tolerated(float(row["excess"]), self.rule.scale))))

    def told(self, row: Row) -> str:
        """What was answered on both."""
        said = self.answers(row)
        before, after = answer(said.original - said.moved, said.unit), answer(said.mutant, said.unit)
        moved = moved_words(said.original, said.moved, said.unit)
        told = f"The frame as it is, answered with {before}, and after {self._recipe_words(row)}, answered with {after}"
        return f"{told}; {moved}." if moved else f"{told}."

    def answers(self, row: Row) -> PairAnswers:
        """Angles become degrees."""
        unit = str(self.config.get("unit", ""))
        original, mutant, label = (float(row[name]) for name in ("original", "mutant", "label"))
        if unit == "rad":
            return PairAnswers(degrees(original), degrees(mutant), degrees(label), DEGREES, degrees(self._moved_rad(row)))
        return PairAnswers(original, mutant, label, unit)

    def _moved_rad(self, row: Row) -> float:
        """Returns by how much the right answer moved with the camera; records hold the moved one."""
        recipe = self._moves(self._recipe(row))
        made = stimuli(step.stimulus for step in recipe.steps)
        if not recipe.moves_camera(made) or not isfinite(float(row["original"])):
            return 0.0
        return float(row["original"]) - float(recipe.unmoved_rad(np.array([float(row["original"])]), made)[0])

    def _moves(self, recipe: Recipe) -> Recipe:
        """Returns the steps that may move the camera: no weather does, and to load one for nothing takes long."""
        return Recipe(tuple(step for step in recipe.steps if step.stimulus in TRANSFORMS.names()))

    def picture(self, row: Row, side: PictureSide) -> NumpyFrames:
        """Renders the same pixels as in the run."""
        index = int(row["frame_index"])
        if not 0 <= index < len(self.drive):
            raise BadRunError(f"the drive has {len(self.drive)} frames and no frame {index}; put it back as it was")
        frame = self.drive.frame(index)
        if isinstance(frame, Problem):
            raise BadRunError(f"the frame can no longer be read: {frame}; put the drive back as it was")
        recipe, frames = self._recipe(row), frame[np.newaxis]
        capture = capture_at(self.drive, self.drive.times_at([index]))
        if side is PictureSide.ORIGINAL:
            recipe = self._moves(recipe)
            made = stimuli(step.stimulus for step in recipe.steps)
            original: NumpyFrames = as_numpy(recipe.reference(frames, made, capture))[0]
            return original
        mutant: NumpyFrames = as_numpy(recipe.apply(frames, self.stimuli_of(recipe), capture))[0]
        return mutant

    def stimuli_of(self, recipe: Recipe) -> Mapping[str, Stimulus]:
        """Makes what a recipe names."""
        return stimuli(step.stimulus for step in recipe.steps)

    def _recipe(self, row: Row) -> Recipe:
        with self._reading(row, "recipe"):
            return Recipe.from_json(str(row["recipe"]))

    def _recipe_words(self, row: Row) -> str:
        try:
            recipe = self._recipe(row)
        except SkidpadError:
            return "a damaged recipe"
        if not self.numbered or not recipe.steps:
            return plain(str(recipe), 160)
        number, count = self.numbers.get(str(row["recipe"])), len(self.numbers)
        which = "" if count == 1 else f", {self.numbered} {number} of {count}" if number else f", one {self.numbered}"
        return f"{plain(recipe.name, 120)}{which}"


class DeepTestExhibit(PairExhibit):
    """Runs of `skidpad test`."""

    def shards(self) -> Mapping[str, int]:
        """Each phase has a shard for a block of frames, or for a seed."""
        frames, per_shard = len(self.drive), int(self.config.get("shard_frames", 0))
        if per_shard < 1:
            return {}
        blocks = ceil(frames / per_shard)
        seeds = min(int(self.config.get("seeds", 0)) or frames, frames)
        return {_ORIGINALS: blocks, **{str(name): blocks if name == "grid" else seeds for name in self.config.get("searches", ())}}


class DeepRoadExhibit(PairExhibit):
    """Runs of `skidpad weather test`."""

    command: ClassVar[str] = "weather test"
    cases: ClassVar[str] = "answers"
    numbered: ClassVar[str] = "style"

    @property
    def rule(self) -> Rule:
        """The smallest error bound."""
        return bound_rule(self.config.get("thresholds_deg"))

    @cached_property
    def stimuli(self) -> Mapping[str, Stimulus]:
        """The weathers that the config names."""
        from skidpad.kinds.pictures.weather.campaign import (  # noqa: PLC0415  torch is for the first picture only
            DeepRoadSettings,
            StyleChoice,
            open_weathers,
        )

        road = DeepRoadSettings.from_config(self.config)
        return dict(open_weathers(road.weathers, "cpu", StyleChoice(road.style), road.styles, road.seed))

    def stimuli_of(self, recipe: Recipe) -> Mapping[str, Stimulus]:  # noqa: ARG002  all are of the config
        """The weathers, whose names are the config's own."""
        return self.stimuli


class TacticExhibit(PairExhibit):
    """Runs of `skidpad weather search`: every scene under the critical conditions that were found."""

    command: ClassVar[str] = "weather search"
    cases: ClassVar[str] = "answers"
    numbered: ClassVar[str] = "condition"

    @property
    def rule(self) -> Rule:
        """The smallest error bound."""
        return bound_rule(self.config.get("bounds_deg"))

    def __init__(self, config: Mapping[str, Any]) -> None:
        # Its answers are angles, whatever the output is called.
        super().__init__({**config, "unit": "rad"})

    @cached_property
    def weather(self) -> Weather:
        """The weather that the config names."""
        from skidpad.stimuli.weather.files import load_weather  # noqa: PLC0415  torch is for the first picture only
        from skidpad.stimuli.weather.pretrained import weather_path  # noqa: PLC0415  see above
        from skidpad.stimuli.weather.translation import Weather  # noqa: PLC0415  see above

        return Weather(*load_weather(weather_path(str(self.config.get("weather", "")))), "cpu")

    def picture(self, row: Row, side: PictureSide) -> NumpyFrames:
        """Translates the scene under the style of its recipe."""
        from skidpad.kinds.pictures.styles.applying import style_of  # noqa: PLC0415  see above

        frame = super().picture(row, PictureSide.ORIGINAL)
        recipe = self._recipe(row)
        if side is PictureSide.ORIGINAL or not recipe.steps:
            return frame
        made: NumpyFrames = as_numpy(self.weather.translate(frame[None], style_of(recipe)))[0]
        return made
