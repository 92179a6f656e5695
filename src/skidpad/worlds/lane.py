"""Keeping a lane by what the camera sees: many cars that are rendered together, on the CPU or a GPU; `lane_env` is its Gymnasium shell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.images import BoolArray, Camera, FloatArray
from skidpad.core.seeding import child_rng
from skidpad.worlds.builtin import steps_of
from skidpad.worlds.collision import Obstacles
from skidpad.worlds.departure import Lanes
from skidpad.worlds.render.gpu import GpuRayCaster, obstacle
from skidpad.worlds.render.raycast import RayCaster, render_side_by_side
from skidpad.worlds.render.scene import Scene, build_scene
from skidpad.worlds.scenario.domain import DOMAINS, sample
from skidpad.worlds.scenario.road import Projection
from skidpad.worlds.scenario.scenario import Scenario
from skidpad.worlds.vehicle import FRICTION, Bicycle, Driver, VehicleMotion
from skidpad.worlds.world import STEP_S, EgoState

if TYPE_CHECKING:
    from skidpad.core.images import Frames

DEPARTED_M = 1.5
"""A car this far from the middle of its lane has left it, as in every closed-loop run."""
MAX_STEERING_RAD = float(np.radians(90.0))
"""Of the steering wheel, what an action of 1 asks for: a radius of 27 m."""
LOST = -10.0
"""The reward of leaving the lane or touching something; the others are metres."""

_CAMERA = Camera(160, 80)


@dataclass(frozen=True, slots=True)
class Lane:
    """What an environment is made of.

    domain, scenarios, seconds, pool_seed: so many scenarios of a domain model, that long, are drawn once and baked once; each episode is
    one of them, chosen by the episode's seed. camera: what is seen. pedal: whether an action is (steering, pedal) or steering alone, at the
    scenario's speed. device: `cuda` renders there. threads: how many share the rendering of a step.
    """

    domain: str = "restricted"
    scenarios: int = 32
    seconds: float = 10.0
    pool_seed: int = 0
    camera: Camera = _CAMERA
    pedal: bool = False
    device: str = "cpu"
    threads: int = 1

    def pool(self) -> tuple[Scenario, ...]:
        """Draws the scenarios."""
        model = DOMAINS.get(self.domain)
        return sample(replace(model, base=replace(model.base, duration_s=self.seconds)), self.pool_seed, self.scenarios).scenarios


class LaneBatch:
    """N cars side by side, each in an episode of its own; what one sees and does changes nothing for another.

    Place i begins with the seed `seed` + i and counts its episodes, so that it drives what it would drive alone.
    """

    def __init__(self, lane: Lane, count: int, seed: int = 0) -> None:
        if count < 1:
            raise BadParametersError(f"the number of cars must be at least 1; got {count}")
        if lane.device != "cpu" and (reason := obstacle()):
            raise BadParametersError(f"the cars cannot be rendered on {lane.device!r}: {reason}")
        self.lane, self.count = lane, count
        self.seeds: list[int] = list(range(seed, seed + count))
        self.episodes = np.full(count, -1)
        self.chosen = np.zeros(count, np.int64)
        self.steps = np.zeros(count, np.int64)
        self.terminated, self.truncated = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        self.collided = np.zeros(count, np.bool_)
        self._bicycle, self._driver = Bicycle(), Driver()
        self._motion: VehicleMotion
        self._here: Projection
        self.use(lane.pool())

    def use(self, scenarios: Sequence[Scenario]) -> None:
        """Takes other scenarios, from the next episodes on."""
        if not scenarios:
            raise BadParametersError("an environment needs at least one scenario; got none")
        self.scenarios = tuple(scenarios)
        self._scenes: dict[int, Scene] = {}
        self._casters: dict[int, RayCaster] = {}
        self._obstacles: dict[int, Obstacles] = {}
        self._pool_lanes: Lanes | None = None
        self._gpu: GpuRayCaster | None = None
        self._lasts = np.array([steps_of(scenario) for scenario in self.scenarios])

    @property
    def has_begun(self) -> bool:
        """Whether every place drives, or has driven, an episode."""
        return bool((self.episodes >= 0).all())

    @property
    def speed_m_s(self) -> FloatArray:
        """How fast each car is, (N,)."""
        return self._motion.state.speed_m_s

    @property
    def lateral_m(self) -> FloatArray:
        """How far each car is from the middle of its lane, positive to the left, (N,)."""
        return self._here.lateral_m

    def reset(self, seeds: Sequence[int | None]) -> None:
        """Begins an episode in every place: the first under its seed, or the next one where that is None."""
        for place, seed in enumerate(seeds):
            if seed is not None:
                self.seeds[place], self.episodes[place] = seed, -1
        self.advance(np.ones(self.count, np.bool_))

    def advance(self, places: BoolArray) -> None:
        """Begins the next episode in some places, (N,)."""
        rows = np.flatnonzero(places)
        if not len(rows):
            return
        self.episodes[rows] += 1
        for row in rows.tolist():
            self.chosen[row] = child_rng(self.seeds[row], "lane", int(self.episodes[row])).integers(len(self.scenarios))
        if self._pool_lanes is None:
            scenes = [self._scene(number) for number in range(len(self.scenarios))]
            self._pool_lanes = Lanes.of([scene.road for scene in scenes], [scene.section for scene in scenes])
        self._lanes = self._pool_lanes.on(self.chosen)
        fresh = self._started([self._scene(number) for number in self.chosen.tolist()])
        self._motion = fresh if len(rows) == self.count else _merged(self._motion, fresh, places)
        self.steps[rows] = 0
        self.terminated[rows] = self.truncated[rows] = self.collided[rows] = False
        self._here = self._lanes.project(self._motion.state.poses[:, :2])

    def drive(self, actions: FloatArray) -> FloatArray:
        """Lets STEP_S pass, given actions within -1 and 1, (N, 1 or 2), and returns the rewards, (N,).

        A reward is the metres that the car came along its lane, times how near it is to the middle: 1 there, 0 where the lane is left.
        """
        steering = np.asarray(actions[:, 0], np.float64) * MAX_STEERING_RAD
        pedal = np.asarray(actions[:, 1], np.float64) if self.lane.pedal else None
        before = self._here.s_m
        self._motion = self._bicycle.advance(self._motion, steering, pedal)
        self.steps += 1
        poses = self._motion.state.poses
        self._here = self._lanes.project(poses[:, :2])
        for number in set(self.chosen.tolist()):
            egos = np.flatnonzero(self.chosen == number)
            self.collided[egos] |= self._touching(number).touched_at(poses[egos], self.steps[egos])
        away = np.abs(self._here.lateral_m) / DEPARTED_M
        self.terminated = (away >= 1.0) | self.collided
        self.truncated = ~self.terminated & (self.steps >= self._lasts[self.chosen])
        return np.where(self.terminated, LOST, (self._here.s_m - before) * (1.0 - away))

    def drive_on(self, actions: FloatArray) -> FloatArray:
        """Lets STEP_S pass in every place, or begins its next episode where the last one has ended; returns the rewards, (N,)."""
        over = self.terminated | self.truncated
        rewards = self.drive(actions)
        self.advance(over)
        rewards[over] = 0.0
        return rewards

    def truth(self) -> FloatArray:
        """Returns the action of a careful driver, (N, 1), for those who teach by showing."""
        steering = self._lanes.truth_rad(self._driver, self._motion.state.poses, self._here)
        return np.clip(steering / MAX_STEERING_RAD, -1.0, 1.0)[:, None]

    def frames(self) -> Frames:
        """Returns what each car's camera sees, uint8 (N, height, width, 3); tensors where a GPU renders."""
        poses, times_s = self._motion.state.poses, np.asarray(self.steps * STEP_S, np.float64)
        if self.lane.device != "cpu":
            import torch  # noqa: PLC0415 - takes a second

            with torch.cuda.device(self.lane.device):
                if self._gpu is None:
                    scenes = [self._scene(number) for number in range(len(self.scenarios))]
                    self._gpu = GpuRayCaster(scenes, self.lane.camera, self.count)
                return self._gpu.render(poses, times_s, self.chosen)
        return render_side_by_side([self._caster(number) for number in self.chosen.tolist()], poses, times_s, self.lane.threads)

    def _started(self, scenes: Sequence[Scene]) -> VehicleMotion:
        poses = np.stack([scene.start_pose for scene in scenes])
        speeds = np.array([scene.scenario.ego.speed_m_s for scene in scenes])
        friction = np.array([FRICTION[scene.scenario.conditions.weather] for scene in scenes])
        return self._bicycle.start(poses, speeds, self._lanes.truth_rad(self._driver, poses), friction)

    def _scene(self, number: int) -> Scene:
        if number not in self._scenes:
            self._scenes[number] = build_scene(self.scenarios[number])
        return self._scenes[number]

    def _caster(self, number: int) -> RayCaster:
        if number not in self._casters:
            self._casters[number] = RayCaster(self._scene(number), self.lane.camera)
        return self._casters[number]

    def _touching(self, number: int) -> Obstacles:
        if number not in self._obstacles:
            self._obstacles[number] = Obstacles([self._scene(number)])
        return self._obstacles[number]


def _merged(old: VehicleMotion, new: VehicleMotion, places: BoolArray) -> VehicleMotion:
    """Takes the new motion in some places, (N,), and the old one in the others."""

    def mixed(now: Any, was: Any, *names: str) -> list[FloatArray]:
        return [np.where(places, getattr(now, name), getattr(was, name)) for name in names]

    poses = np.where(places[:, None], new.state.poses, old.state.poses)
    state = EgoState(poses, *mixed(new.state, old.state, "speed_m_s", "steering_rad"))
    return VehicleMotion(state, *mixed(new, old, "waiting_rad", "sharpest_per_m", "friction"))
