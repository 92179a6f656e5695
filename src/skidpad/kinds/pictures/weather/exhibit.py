"""Runs under learned weathers: the frame and the same frame in the weather, translated again from the recipe on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from skidpad.core.images import as_numpy
from skidpad.core.stimuli import Recipe, Stimulus
from skidpad.kinds.exhibits import Row, Rule, Side, bound_rule
from skidpad.kinds.pictures.exhibit import PairExhibit

if TYPE_CHECKING:
    from skidpad.core.images import NumpyFrames
    from skidpad.stimuli.weather.translation import Weather


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
        from skidpad.kinds.pictures.weather.campaign import open_weathers  # noqa: PLC0415  see above
        from skidpad.kinds.pictures.weather.settings import DeepRoadSettings, StyleChoice  # noqa: PLC0415  torch is for the first picture only

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
        from skidpad.stimuli.weather.translation import Weather  # noqa: PLC0415  see above

        return Weather(*load_weather(Path(str(self.config.get("weather", "")))), "cpu")

    def picture(self, row: Row, side: Side) -> NumpyFrames:
        """Translates the scene under the style of its recipe."""
        from skidpad.kinds.pictures.styles.applying import style_of  # noqa: PLC0415  see above

        frame = super().picture(row, Side.ORIGINAL)
        recipe = self._recipe(row)
        if side is Side.ORIGINAL or not recipe.steps:
            return frame
        made: NumpyFrames = as_numpy(self.weather.translate(frame[None], style_of(recipe)))[0]
        return made
