"""Closed-loop runs: a drive as a film strip with the car's place in its lane, or moving."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar

from skidpad.core.errors import BadRunError
from skidpad.core.stimuli import Stimulus
from skidpad.kinds.exhibits import Exhibit, Form, Motion, Row, Rule, Sight
from skidpad.oracles.lane_departure import CAP_M
from skidpad.page.svg import standalone
from skidpad.page.wording import plain

if TYPE_CHECKING:
    from skidpad.kinds.drives.filmstrip import DriveFilm


_FLOAT_BYTES = 8
_MAX_STEPS = 20_000
"""A quarter of an hour at 20 steps a second; what is longer is no drive of ours."""
_NEEDED = ("scenario", "recipe", "lateral_m", "answers_rad", "truth_rad", "mode")


@dataclass(frozen=True, slots=True)
class Stage:
    """What it takes to show a recorded drive again: the world, and what sits in front of the camera."""

    world: str
    stimuli: Mapping[str, Stimulus]


class DriveExhibit(Exhibit):
    """Runs of `skidpad drive`."""

    needs: ClassVar[Mapping[str, Form]] = {
        **dict.fromkeys(("scenario", "scenario_name", "condition", "recipe", "mode", "problem"), Form.TEXT),
        **dict.fromkeys(("max_lateral_m", "departed_at_s", "collided_at_s"), Form.REAL),
        **dict.fromkeys(("lateral_m", "answers_rad", "truth_rad"), Form.HIDDEN),
    }
    command: ClassVar[str] = "drive"
    cases: ClassVar[str] = "drives"
    groups: ClassVar[tuple[str, ...]] = ("condition",)

    @property
    def rule(self) -> Rule:
        """The lane, and nothing in the way."""
        return Rule("keeps its lane", f"within {CAP_M:g} m, touching nothing")

    @cached_property
    def stage(self) -> Stage:
        """The world and the transforms that the config names."""
        from skidpad.stimuli.grammar import conditions_of  # noqa: PLC0415  stimuli are loaded for the first film only

        texts = self.config.get("stimuli", ())
        return Stage(str(self.config.get("world", "built-in")), conditions_of([str(text) for text in texts])[1])

    def title(self, row: Row) -> str:
        """The scenario and what sat in front of the camera."""
        return f"{plain(str(row.get('scenario_name', '')), 60)}, {plain(str(row.get('condition', '')), 80)}"

    def sight(self, row: Row) -> Sight:
        """A film, where the drive was made at all."""
        lasted = all(row.get(name) is not None for name in _NEEDED) and len(row["lateral_m"]) >= _FLOAT_BYTES
        return Sight.FILM if lasted else Sight.NOTHING

    def verdict(self, row: Row) -> str:
        """Whether the car left its lane, or touched something."""
        if not row["violated"]:
            return plain(str(row.get("problem", "")), 160) or f"strays {float(row['max_lateral_m']):.2f} m at most"
        left, touched = float(row["departed_at_s"]), float(row["collided_at_s"])
        return f"left its lane after {left:.1f} s" if isfinite(left) else f"touched something after {touched:.1f} s"

    def told(self, row: Row) -> str:
        """How the drive ended."""
        left, touched = float(row["departed_at_s"]), float(row["collided_at_s"])
        end = f"it leaves its lane after {left:.1f} s" if isfinite(left) else "it stays in its lane"
        hit = f", and touches something after {touched:.1f} s" if isfinite(touched) else ""
        return f"A drive through {self.title(row)}: {end}{hit}."

    def film(self, row: Row, motion: Motion) -> str:
        """Steers the world as recorded and draws what the subject saw."""
        from skidpad.kinds.drives.filmstrip import moving, strip  # noqa: PLC0415  see above

        draw = moving if motion is Motion.MOVING else strip
        return standalone(draw("film", self.title(row), self._film(row)))

    def _film(self, row: Row) -> DriveFilm:
        from skidpad.kinds.drives.filmstrip import film_of  # noqa: PLC0415  see above

        if len(row["lateral_m"]) > _FLOAT_BYTES * _MAX_STEPS:
            raise BadRunError(f"the drive has more than {_MAX_STEPS} steps, too many for a film")
        with self._reading(row):
            return film_of(self.stage, row)


class ServedExhibit(DriveExhibit):
    """Runs of `skidpad serve`."""

    needs: ClassVar[Mapping[str, Form]] = {**DriveExhibit.needs, "pedal": Form.HIDDEN, "speed_m_s": Form.HIDDEN}
    command: ClassVar[str] = "serve"

    @cached_property
    def stage(self) -> Stage:
        """The simulator's world, and what sat in front of its camera."""
        return Stage(str(self.config.get("simulator", "udacity")), super().stage.stimuli)


class OfflineVsOnlineExhibit(DriveExhibit):
    """Runs of `skidpad compare`: only the drives that the subject steered are judged."""

    command: ClassVar[str] = "compare"
    unjudged: ClassVar[frozenset[str]] = frozenset({"matched", "offline"})
    groups: ClassVar[tuple[str, ...]] = ("mode",)

    def title(self, row: Row) -> str:
        """The scenario, and who steered."""
        steered: Any = row.get("mode", "")
        return f"{plain(str(row.get('scenario_name', '')), 60)}, {plain(str(steered), 20)}"
