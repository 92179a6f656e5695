"""Duels: an episode seen from above, from its recorded start and actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, ClassVar

from skidpad.core.errors import BadRunError
from skidpad.kinds.exhibits import Exhibit, Form, Motion, Row, Rule, Sight
from skidpad.page.svg import standalone
from skidpad.page.wording import plain

if TYPE_CHECKING:
    from skidpad.highway.scenario import Scenario
    from skidpad.kinds.duels.film import Film


_IDM = "idm"
_MAX_STEPS = 5_000
_NEEDED = ("start", "ego_actions", "front_actions", "steps", "front", "ego")


class DuelExhibit(Exhibit):
    """Runs of `skidpad duel`; no policy is loaded, for one may be a function of somebody's module."""

    needs: ClassVar[Mapping[str, Form]] = {
        **dict.fromkeys(("family", "column", "ego", "front", "outcome", "problem", "ego_actions", "front_actions"), Form.TEXT),
        **dict.fromkeys(("impact_s", "closing_mps", "avoidable_until_s"), Form.REAL),
        "start": Form.LIST,
        "steps": Form.WHOLE,
    }
    command: ClassVar[str] = "duel"
    cases: ClassVar[str] = "episodes"
    groups: ClassVar[tuple[str, ...]] = ("family", "column")
    apart: ClassVar[str] = "family"

    @property
    def rule(self) -> Rule:
        """A crash is a finding."""
        return Rule("no crash")

    @cached_property
    def _scenarios(self) -> tuple[Scenario, Scenario]:
        from skidpad.kinds.duels.arena import scenario_named  # noqa: PLC0415  the engine is loaded for the first film only

        settings = (str(self.config.get(name, default)) for name, default in (("scenario", "released"), ("pretraining", "pretraining")))
        fronts = int(str(self.config.get("adversaries_at_once", 1)))
        meeting, behind_idm = (scenario_named(name).crowded(fronts) for name in settings)
        return meeting, behind_idm

    def title(self, row: Row) -> str:
        """Who drove against whom."""
        return f"{plain(str(row.get('ego', '')), 60)} against {plain(str(row.get('front', '')), 60)}"

    def sight(self, row: Row) -> Sight:
        """A film, unless a scene of highway-env placed the traffic."""
        known = all(row.get(name) is not None for name in _NEEDED) and not self.config.get("env")
        return Sight.FILM if known and all(isfinite(value) for value in row["start"]) else Sight.NOTHING

    def verdict(self, row: Row) -> str:
        """Whether they crashed, and how hard."""
        if not row["violated"]:
            return plain(str(row.get("problem", "")), 160) or plain(str(row.get("outcome", "passed")), 40)
        return f"crash after {float(row['impact_s']):.1f} s, closing in at {float(row['closing_mps']):.1f} m/s"

    def told(self, row: Row) -> str:
        """How the episode ended."""
        crash = float(row.get("impact_s", float("nan")))
        end = f"they collide after {crash:.1f} s" if isfinite(crash) else "they do not collide"
        return f"Seen from above, {self.title(row)}: {end}."

    def film(self, row: Row, motion: Motion) -> str:
        """Drives the recorded actions and draws the episode."""
        from skidpad.kinds.duels.film import animation, film_strip  # noqa: PLC0415  see above

        draw = animation if motion is Motion.MOVING else film_strip
        return standalone(draw("film", self.title(row), self._film(row)))

    def _film(self, row: Row) -> Film:
        from skidpad.highway.scenario import FrontDriver  # noqa: PLC0415  see above
        from skidpad.kinds.duels.film import Film  # noqa: PLC0415  see above
        from skidpad.kinds.duels.records import actions_of  # noqa: PLC0415  see above
        from skidpad.kinds.duels.replaying import trace_of  # noqa: PLC0415  see above

        steps = int(row["steps"])
        if not 0 < steps <= _MAX_STEPS:
            raise BadRunError(f"an episode has 1 to {_MAX_STEPS} steps; case {plain(str(row['case_id']), 40)} has {steps}")
        by_idm = row["front"] == _IDM
        meeting, behind_idm = self._scenarios
        scenario = replace(behind_idm if by_idm else meeting, front=FrontDriver.IDM if by_idm else FrontDriver.POLICY)
        with self._reading(row):
            drawn = trace_of(row, scenario)
            ego, front = (tuple(actions_of(row[name], steps).tolist()) for name in ("ego_actions", "front_actions"))
        if drawn is None:
            raise BadRunError("this episode was driven in a scene of highway-env, which has no film")
        return Film(drawn, meeting.lanes, ego, front, float(row["avoidable_until_s"]))
