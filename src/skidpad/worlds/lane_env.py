"""Keeping a lane by what the camera sees, as a Gymnasium environment: one car, or many that are rendered together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skidpad.core.camera import Camera
from skidpad.core.errors import BadParametersError, MissingExtraError
from skidpad.core.images import BoolArray, FloatArray, IntArray, NumpyFrames, as_numpy
from skidpad.core.seeding import child_rng
from skidpad.worlds.builtin import steps_of
from skidpad.worlds.collision import Obstacles
from skidpad.worlds.departure import Lanes
from skidpad.worlds.render.gpu import GpuRayCaster, obstacle
from skidpad.worlds.render.raycast import RayCaster, render_side_by_side
from skidpad.worlds.render.scene import Scene, build_scene
from skidpad.worlds.scenario.domain import DOMAINS
from skidpad.worlds.scenario.road import Projection
from skidpad.worlds.scenario.sampling import sample
from skidpad.worlds.scenario.scenario import Scenario
from skidpad.worlds.vehicle import FRICTION, Bicycle, Driver, Motion
from skidpad.worlds.world import STEP_S, EgoState

try:
    import gymnasium
    from gymnasium import spaces
    from gymnasium.error import InvalidAction, ResetNeeded
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ModuleNotFoundError as error:
    raise MissingExtraError.of("gymnasium", "duel", "a Gymnasium environment") from error

if TYPE_CHECKING:
    from skidpad.core.images import Frames

ENV_ID = "skidpad/Lane-v0"

DEPARTED_M = 1.5
"""A car this far from the middle of its lane has left it, as in every closed-loop run."""
MAX_STEERING_RAD = float(np.radians(90.0))
"""Of the steering wheel, what an action of 1 asks for: a radius of 27 m."""
LOST = -10.0
"""The reward of leaving the lane or touching something; the others are metres."""

_CAMERA = Camera(160, 80)
Info = dict[str, Any]


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
        self._motion: Motion
        self._here: Projection
        self.use(lane.pool())

    def use(self, scenarios: Sequence[Scenario]) -> None:
        """Takes other scenarios, from the next episodes on."""
        if not scenarios:
            raise BadParametersError("an environment needs at least one scenario; got none")
        self.scenarios = tuple(scenarios)
        self._scenes: list[Scene | None] = [None] * len(self.scenarios)
        self._casters: list[RayCaster | None] = [None] * len(self.scenarios)
        self._obstacles: list[Obstacles | None] = [None] * len(self.scenarios)
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
        scenes = [self._scene(number) for number in self.chosen.tolist()]
        self._lanes = Lanes.of([scene.road for scene in scenes], [scene.section for scene in scenes])
        fresh = self._started(scenes)
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
        for place, number in enumerate(self.chosen.tolist()):
            self.collided[place] |= self._touching(number).touched(poses[place : place + 1], int(self.steps[place]))[0]
        away = np.abs(self._here.lateral_m) / DEPARTED_M
        self.terminated = (away >= 1.0) | self.collided
        self.truncated = ~self.terminated & (self.steps >= self._lasts[self.chosen])
        return np.where(self.terminated, LOST, (self._here.s_m - before) * (1.0 - away))

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

    def _started(self, scenes: Sequence[Scene]) -> Motion:
        poses = np.stack([scene.start_pose for scene in scenes])
        speeds = np.array([scene.scenario.ego.speed_m_s for scene in scenes])
        friction = np.array([FRICTION[scene.scenario.conditions.weather] for scene in scenes])
        return self._bicycle.start(poses, speeds, self._lanes.truth_rad(self._driver, poses), friction)

    def _scene(self, number: int) -> Scene:
        scene = self._scenes[number]
        if scene is None:
            scene = self._scenes[number] = build_scene(self.scenarios[number])
        return scene

    def _caster(self, number: int) -> RayCaster:
        caster = self._casters[number]
        if caster is None:
            caster = self._casters[number] = RayCaster(self._scene(number), self.lane.camera)
        return caster

    def _touching(self, number: int) -> Obstacles:
        boxes = self._obstacles[number]
        if boxes is None:
            boxes = self._obstacles[number] = Obstacles([self._scene(number)])
        return boxes


def _merged(old: Motion, new: Motion, places: BoolArray) -> Motion:
    """Takes the new motion in some places, (N,), and the old one in the others."""
    was, now = old.state, new.state
    state = EgoState(
        np.where(places[:, None], now.poses, was.poses),
        np.where(places, now.speed_m_s, was.speed_m_s),
        np.where(places, now.steering_rad, was.steering_rad),
    )
    return Motion(
        state,
        np.where(places, new.waiting_rad, old.waiting_rad),
        np.where(places, new.sharpest_per_m, old.sharpest_per_m),
        np.where(places, new.friction, old.friction),
    )


def _spaces(lane: Lane) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
    shape = lane.camera.height_px, lane.camera.width_px, 3
    return spaces.Box(0, 255, shape, np.uint8), spaces.Box(-1.0, 1.0, (2 if lane.pedal else 1,), np.float32)


def _checked(batch: LaneBatch, actions: object) -> FloatArray:
    if not batch.has_begun:
        raise ResetNeeded("call reset() before the first step()")
    given = np.asarray(actions, np.float64)
    wanted = batch.count, 2 if batch.lane.pedal else 1
    if given.shape != wanted or not np.isfinite(given).all():
        raise InvalidAction(
            f"an action is steering{' and pedal' if batch.lane.pedal else ''}, finite, of shape {wanted[1:]}; got {actions}"
        )
    return np.clip(given, -1.0, 1.0)


def _use(batch: LaneBatch, options: Info | None) -> None:
    """Takes other scenarios where a reset says so: `scenario`, or any of `domain`, `scenarios`, `seconds` and `pool_seed`."""
    if not options:
        return
    known = {"scenario", "domain", "scenarios", "seconds", "pool_seed"}
    if unknown := set(options) - known:
        raise BadParametersError(f"no reset option named {min(unknown)!r}; known: {', '.join(sorted(known))}")
    if "scenario" in options:
        batch.use([options["scenario"]])
    else:
        batch.use(replace(batch.lane, **options).pool())


class LaneEnv(gymnasium.Env[NumpyFrames, NDArray[np.float32]]):
    """One car in its lane: frames in, steering (and, with `pedal`, throttle and brake) out.

    Leaving the lane and touching something terminate an episode, its time truncates it. An action is within -1 and 1: steering, 1 for 90
    degrees of the steering wheel to the left, and the pedal, 1 for all throttle, -1 for all brake. `reset(seed=...)` begins the first
    episode under a seed, `reset()` the next; its options choose other scenarios. Arguments are those of `Lane`.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": round(1.0 / STEP_S)}  # noqa: RUF012 - Gymnasium's own shape

    def __init__(self, render_mode: str | None = None, seed: int = 0, **lane: Any) -> None:
        self.render_mode = render_mode
        self._batch = LaneBatch(Lane(**lane), 1, seed)
        self.observation_space, self.action_space = _spaces(self._batch.lane)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[NumpyFrames, Info]:
        """Begins the next episode; with a seed, the first one under it."""
        super().reset(seed=seed, options=options)
        _use(self._batch, options)
        self._batch.reset([seed])
        return self._seen(), self._info()

    def step(self, action: NDArray[np.float32]) -> tuple[NumpyFrames, float, bool, bool, Info]:
        """Lets 0.05 s pass."""
        batch = self._batch
        actions = _checked(batch, [action])
        if batch.terminated[0] or batch.truncated[0]:
            raise ResetNeeded("the episode has ended; call reset() before the next step()")
        reward = float(batch.drive(actions)[0])
        return self._seen(), reward, bool(batch.terminated[0]), bool(batch.truncated[0]), self._info()

    def render(self) -> NumpyFrames | None:
        """Returns what the camera sees."""
        return self._seen() if self.render_mode == "rgb_array" else None

    @property
    def scenario(self) -> Scenario:
        """The scenario of this episode."""
        return self._batch.scenarios[int(self._batch.chosen[0])]

    @property
    def truth(self) -> NDArray[np.float32]:
        """What a careful driver would do now, as an action without the pedal."""
        return np.asarray(self._batch.truth()[0], np.float32)

    def _seen(self) -> NumpyFrames:
        frame: NumpyFrames = as_numpy(self._batch.frames())[0]
        return frame

    def _info(self) -> Info:
        batch = self._batch
        return {
            "lateral_m": float(batch.lateral_m[0]),
            "speed_m_s": float(batch.speed_m_s[0]),
            "collided": bool(batch.collided[0]),
            "scenario": int(batch.chosen[0]),
        }


class LaneVectorEnv(VectorEnv[NumpyFrames, NDArray[np.float32], NDArray[Any]]):
    """Many cars, rendered together by the compiled renderer or a GPU; element i drives what a `LaneEnv` with its seed drives.

    Where an episode ended, the following step begins the next one and ignores the action. Options of `reset` hold for all elements.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012 - Gymnasium's own shape

    def __init__(self, num_envs: int = 1, seed: int = 0, **lane: Any) -> None:
        self.num_envs = num_envs
        self._batch = LaneBatch(Lane(**lane), num_envs, seed)
        self.single_observation_space, self.single_action_space = _spaces(self._batch.lane)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed: int | list[int | None] | None = None, options: Info | None = None) -> tuple[NumpyFrames, Info]:
        """Begins an episode in every element, as `LaneEnv.reset` does with its seed; a single seed gives element i the seed + i."""
        if seed is None:
            seed = [None] * self.num_envs
        elif isinstance(seed, int):
            seed = list(range(seed, seed + self.num_envs))
        _use(self._batch, options)
        self._batch.reset(seed)
        return as_numpy(self._batch.frames()), self._info()

    def step(self, actions: NDArray[np.float32]) -> tuple[NumpyFrames, NDArray[Any], NDArray[Any], NDArray[Any], Info]:
        """Lets 0.05 s pass in every element, or begins its next episode where the last one has ended."""
        batch = self._batch
        given = _checked(batch, actions)
        over = batch.terminated | batch.truncated
        rewards = batch.drive(given)
        batch.advance(over)
        rewards[over] = 0.0
        return as_numpy(batch.frames()), rewards, batch.terminated.copy(), batch.truncated.copy(), self._info()

    @property
    def truth(self) -> NDArray[np.float32]:
        """What careful drivers would do now, (N, 1), as actions without the pedal."""
        return self._batch.truth().astype(np.float32)

    @property
    def frames(self) -> Frames:
        """What each camera sees now; tensors that stay on the GPU where one renders."""
        return self._batch.frames()

    def _info(self) -> Info:
        batch, all_of_them = self._batch, np.ones(self.num_envs, np.bool_)
        told: dict[str, FloatArray | BoolArray | IntArray] = {
            "lateral_m": batch.lateral_m.copy(),
            "speed_m_s": batch.speed_m_s.copy(),
            "collided": batch.collided.copy(),
            "scenario": batch.chosen.copy(),
        }
        return {**told, **{f"_{name}": all_of_them for name in told}}


gymnasium.register(ENV_ID, f"{__name__}:LaneEnv", vector_entry_point=f"{__name__}:LaneVectorEnv")
