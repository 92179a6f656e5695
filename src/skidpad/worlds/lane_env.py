"""Keeping a lane by what the camera sees, as a Gymnasium environment: one car, or many that are rendered together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skidpad.core.errors import BadParametersError, MissingExtraError
from skidpad.core.images import BoolArray, FloatArray, IntArray, NumpyFrames, as_numpy
from skidpad.worlds.lane import Lane, LaneBatch
from skidpad.worlds.scenario.scenario import Scenario
from skidpad.worlds.world import STEP_S

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
Info = dict[str, Any]


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
        rewards = batch.drive_on(given)
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
