"""A scene: what a scenario looks like, before anybody drives in it.

`build_scene(scenario)` decides everything that the scenario leaves open, from its seed alone. Pictures of it are made by
`raycast.RayCaster(scene, camera).render(poses, time_s)` on the CPU and by `gpu.GpuRayCaster` on a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from skidpad.core.images import FloatArray
from skidpad.core.seeding import child_rng
from skidpad.worlds.render.chunks import START_M, road_of, section_of
from skidpad.worlds.render.props import Props, place_props
from skidpad.worlds.render.weather import Sun
from skidpad.worlds.scenario.road import CrossSection, Road
from skidpad.worlds.scenario.scenario import BadScenarioError, Boxes, Figure, Kind, Movers, Scenario, Side
from skidpad.worlds.scenario.tracks import Track


@dataclass(frozen=True, eq=False)
class Scene:
    """One scenario's road, what stands beside it and who else moves on it."""

    scenario: Scenario
    road: Road
    section: CrossSection
    props: Props
    movers: Movers
    sun: Sun

    def __post_init__(self) -> None:
        if self.road.crosses_itself(2.0 * self.section.outer_m):
            raise BadScenarioError(
                f"the road crosses itself: two parts of its {self.road.length_m:.0f} m come nearer to each other than its width of "
                f"{2.0 * self.section.outer_m:.1f} m; make it shorter, or its bends wider"
            )

    @property
    def lane_centre_m(self) -> float:
        """The lateral position of the middle of the ego's lane, positive to the left of the centreline."""
        return self.section.lane_centre_m

    @property
    def start_s_m(self) -> float:
        """Where along the road the ego begins."""
        return START_M

    @property
    def start_pose(self) -> FloatArray:
        """The ego's first pose, (3,): x, y and heading of its rear axle, in the middle of its lane."""
        here = self.road.at(np.array([START_M]))
        return np.append(here.beside(self.lane_centre_m)[0], here.heading_rad[0])

    @property
    def fixed(self) -> Boxes:
        """What stands and can be run into: trunks, buildings, posts."""
        return self.props.boxes

    def movers_at(self, time_s: FloatArray) -> FloatArray:
        """Returns where vehicles and pedestrians are at each time, (N, K, 3): x, y of the middle, heading."""
        movers, times = self.movers, np.asarray(time_s, dtype=np.float64)
        s_m = movers.s_m + movers.speed_m_s * times[:, None]
        lateral_m = np.broadcast_to(movers.lateral_m, s_m.shape)
        if self.tracks:
            lateral_m = lateral_m.copy()
            for row, time in enumerate(times.tolist()):
                s_m[row, list(self.tracks)], lateral_m[row, list(self.tracks)] = self._placed(time).T
        here = self.road.at(s_m)
        heading = here.heading_rad + np.where(movers.speed_m_s < 0.0, np.pi, 0.0)
        return np.concatenate((here.beside(lateral_m), heading[..., None]), axis=-1)

    @cached_property
    def tracks(self) -> dict[int, Track]:
        """The ways of the cars that do not just keep their speed and their lane, by their number among the movers."""
        return {k: Track(each, self.section) for k, each in enumerate(self.scenario.vehicles) if each.moves}

    def _placed(self, time_s: float) -> FloatArray:
        """Returns where along and beside the centreline the cars of `tracks` are, (tracks, 2)."""
        moments = [track.at(time_s) for track in self.tracks.values()]
        return np.array([(START_M + moment.s_m, moment.lateral_m) for moment in moments])

    def movers_seen(self, time_s: float) -> Movers:
        """Returns movers that are, each at its first speed, at `time_s` where they really are then: for one picture."""
        if not self.tracks:
            return self.movers
        s_m, lateral_m = self.movers.s_m.copy(), self.movers.lateral_m.copy()
        those = list(self.tracks)
        s_m[those], lateral_m[those] = self._placed(time_s).T
        s_m[those] -= self.movers.speed_m_s[those] * time_s
        return replace(self.movers, s_m=s_m, lateral_m=lateral_m)

    def objects_at(self, time_s: float) -> Boxes:
        """Returns the vehicles and pedestrians as boxes, where they are at a time; what stands is `fixed`."""
        return Boxes(self.movers_at(np.array([time_s]))[0], self.movers.sizes_m, self.movers.kinds)


def build_scene(scenario: Scenario, road: Road | None = None) -> Scene:
    """Decides what the scenario leaves open; the same scenario gives the same scene. Takes a few hundredths of a second.

    road: another one than the scenario's own, with its lanes.
    """
    road, section = road or road_of(scenario), section_of(scenario)
    conditions = scenario.conditions
    return Scene(
        scenario=scenario,
        road=road,
        section=section,
        props=place_props(child_rng(scenario.seed, "props"), road, section, scenario.surroundings, START_M),
        movers=_movers(scenario, section),
        sun=Sun(conditions.sun_azimuth_deg, conditions.sun_elevation_deg),
    )


def _movers(scenario: Scenario, section: CrossSection) -> Movers:
    vehicles, people = scenario.vehicles, scenario.pedestrians
    s_m = START_M + np.array([other.ahead_m for other in vehicles] + [person.ahead_m for person in people], dtype=np.float64)
    cars = [section.lane_centre_of(other.lane) + other.offset_m for other in vehicles]
    beside = section.margin_m + 0.5 * section.shoulder_m
    walking_right = section.outer_right_m(s_m[len(vehicles) :]) - section.outer_m + section.edge_m + beside
    walks = [section.edge_m + beside if person.side is Side.LEFT else -walking_right[k] for k, person in enumerate(people)]
    speeds = [other.speed_m_s if other.lane >= 1 else -other.speed_m_s for other in vehicles] + [person.speed_m_s for person in people]
    kinds = [Kind.VEHICLE if other.figure is Figure.CAR else Kind.PEDESTRIAN for other in vehicles] + [Kind.PEDESTRIAN] * len(people)
    looks = [other.colour for other in vehicles] + list(range(len(people)))
    return Movers(
        s_m,
        np.array(cars + walks, dtype=np.float64),
        np.array(speeds, dtype=np.float64),
        np.array(kinds, np.int64),
        np.array(looks, np.int64),
    )
