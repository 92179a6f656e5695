"""The built-in world: scenes, cameras and bicycles in lock-step, the same bytes every time.

What an ego sees and does depends on its scenario and its steering alone, not on the other egos, the width or the number of threads.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.images import BoolArray, Camera, FloatArray, Frames, IntArray, NumpyFrames
from skidpad.drives.drive import Drive
from skidpad.worlds.careful import Pedals
from skidpad.worlds.collision import CAR, Body, Obstacles
from skidpad.worlds.departure import Lanes
from skidpad.worlds.render.chunks import START_M
from skidpad.worlds.render.gpu import GpuRayCaster, obstacle
from skidpad.worlds.render.raycast import RayCaster, render_side_by_side
from skidpad.worlds.render.scene import Scene, build_scene
from skidpad.worlds.scenario.scenario import BadScenarioError, Pace, Scenario, table_of
from skidpad.worlds.scenario.tracks import Track
from skidpad.worlds.vehicle import FRICTION, Bicycle, Driver, VehicleMotion
from skidpad.worlds.world import STEP_S, WORLDS, EgoState, World

if TYPE_CHECKING:
    from torch import Tensor

BUILT_IN = "built-in"

PICTURE_VERSION = 3
"""Raised when the same scenario gives other pictures or labels, so that drives made before and after differ in hash."""


class BuiltInWorld:
    """Runs up to `width` scenarios side by side; threads: how many share the rendering of a step.

    device: a CUDA device renders them instead, and its frames are tensors that stay there.
    """

    def __init__(
        self,
        width: int = 16,
        threads: int = 1,
        camera: Camera | None = None,
        bicycle: Bicycle | None = None,
        device: str = "cpu",
        body: Body = CAR,
    ) -> None:
        if width < 1 or threads < 1:
            raise BadParametersError(f"width and threads must be 1 or more; got width={width}, threads={threads}")
        self.width = width
        """How many scenarios it can run side by side."""
        self._threads = threads
        self._camera = camera or Camera()
        self._bicycle = bicycle or Bicycle()
        self._device = device
        self._body = body
        self._driver = Driver(wheelbase_m=self._bicycle.wheelbase_m, steering_ratio=self._bicycle.steering_ratio)
        self._scenes: tuple[Scene, ...] = ()

    @property
    def frame_shape(self) -> tuple[int, int]:
        """Height and width of the frames."""
        return self._camera.height_px, self._camera.width_px

    def reset(self, scenarios: Sequence[Scenario], start_m_s: float | None = None) -> EgoState:
        """Begins the scenarios, each with the ego in the middle of its lane; nothing is rendered until `frames`.

        start_m_s: how fast the egos are at first, where that is not their scenario's speed.
        """
        if not 1 <= len(scenarios) <= self.width:
            raise BadParametersError(f"this world runs 1 to {self.width} scenarios side by side; got {len(scenarios)}")
        if [scene.scenario for scene in self._scenes] != list(scenarios):
            self._scenes = tuple(_scene(scenario) for scenario in scenarios)
        self._casters: tuple[RayCaster, ...] | None = None
        self._gpu_caster: GpuRayCaster | None = None
        self._lanes = Lanes.of([scene.road for scene in self._scenes], [scene.section for scene in self._scenes])
        poses = np.stack([scene.start_pose for scene in self._scenes])
        speeds = [scenario.ego.speed_m_s if start_m_s is None else start_m_s for scenario in scenarios]
        speed_m_s = np.array(speeds, dtype=np.float64)
        friction = np.array([FRICTION[scenario.conditions.weather] for scenario in scenarios])
        self._motion: VehicleMotion = self._bicycle.start(poses, speed_m_s, self._lanes.truth_rad(self._driver, poses), friction)
        self._pedals = {place: self._careful(scene) for place, scene in enumerate(self._scenes) if scene.scenario.ego.pace is Pace.CAREFUL}
        self._steps = 0
        self._here = self._lanes.project(poses[:, :2])
        self._obstacles = Obstacles(self._scenes, self._body)
        self._collided = self._obstacles.touched(poses, 0)
        return self._motion.state

    def frames(self, wanted: BoolArray | None = None) -> Frames:
        """Returns what the egos' cameras see now, (N, height, width, 3); black where nobody wants to see it."""
        self._check_begun()
        egos = np.arange(len(self._scenes)) if wanted is None else np.flatnonzero(wanted)
        times_s = np.full(len(egos), self._steps * STEP_S)
        if self._device != "cpu":
            return self._frames_on_device(egos, times_s)
        if self._casters is None:
            self._casters = tuple(RayCaster(scene, self._camera) for scene in self._scenes)
        casters = [self._casters[ego] for ego in egos.tolist()]
        rendered = render_side_by_side(casters, self._motion.state.poses[egos], times_s, self._threads)
        if len(egos) == len(self._scenes):
            return rendered
        frames = np.zeros((len(self._scenes), self._camera.height_px, self._camera.width_px, 3), np.uint8)
        frames[egos] = rendered
        return frames

    def _frames_on_device(self, egos: IntArray, times_s: FloatArray) -> Tensor:
        import torch  # noqa: PLC0415 - takes a second

        with torch.cuda.device(self._device):
            if self._gpu_caster is None:
                self._gpu_caster = GpuRayCaster(self._scenes, self._camera, len(self._scenes))
            rendered = self._gpu_caster.render(self._motion.state.poses[egos], times_s, egos)
            if len(egos) == len(self._scenes):
                return rendered
            frames = rendered.new_zeros((len(self._scenes), *rendered.shape[1:]))
            frames[torch.from_numpy(egos).to(frames.device)] = rendered
            return frames

    def step(self, steering_rad: FloatArray, pedal: FloatArray | None = None) -> EgoState:
        """Sends each ego its steering, (N,), and lets STEP_S pass.

        pedal: (N,), from -1 (all brake) to 1 (all throttle); without it every ego goes at its scenario's pace.
        """
        self._check_begun()
        wanted = self._for_each("steering angle", steering_rad)
        pressed = None if pedal is None else np.clip(self._for_each("pedal", pedal), -1.0, 1.0)
        self._motion = self._bicycle.advance(self._motion, wanted, pressed, self._paced() if pressed is None and self._pedals else None)
        self._steps += 1
        self._here = self._lanes.project(self._motion.state.poses[:, :2])
        self._collided = self._collided | self._obstacles.touched(self._motion.state.poses, self._steps)
        return self._motion.state

    def _careful(self, scene: Scene) -> tuple[Pedals, list[Track]]:
        scenario, section = scene.scenario, scene.section
        tracks = [Track(vehicle, section) for vehicle in scenario.vehicles]
        friction = FRICTION[scenario.conditions.weather]
        return Pedals(scenario.ego.speed_m_s, section, len(tracks), friction, body=self._body), tracks

    def _paced(self) -> FloatArray:
        """Returns how fast each ego is after the next step, (N,)."""
        speed_m_s, time_s = self._motion.state.speed_m_s.copy(), self._steps * STEP_S
        for place, (pedals, tracks) in self._pedals.items():
            s_m = float(self._here.s_m[place]) - START_M
            speed_m_s[place] = pedals.speed_after(s_m, float(speed_m_s[place]), [track.at(time_s) for track in tracks], STEP_S)
        return speed_m_s

    def lateral_m(self) -> FloatArray:
        """Returns the exact distance of each rear axle's middle from the middle of its lane, positive to the left, (N,)."""
        self._check_begun()
        return self._here.lateral_m

    def truth_rad(self) -> FloatArray:
        """Returns what the ground-truth driver steers at each ego's pose, (N,)."""
        self._check_begun()
        return self._lanes.truth_rad(self._driver, self._motion.state.poses, self._here)

    def collided(self) -> BoolArray:
        """Tells which egos have touched another vehicle, a person or a thing so far, (N,)."""
        self._check_begun()
        return self._collided

    def _for_each(self, what: str, given: FloatArray) -> FloatArray:
        values = np.asarray(given, dtype=np.float64)
        if values.shape != (len(self._scenes),) or not np.all(np.isfinite(values)):
            raise BadParametersError(f"a step takes one finite {what} for each of the {len(self._scenes)} egos; got {given!r}")
        return values

    def _check_begun(self) -> None:
        if not self._scenes:
            raise BadParametersError("no scenario has begun in this world; call reset with scenarios first")


@WORLDS.register(BUILT_IN)
def built_in(width: int, threads: int) -> BuiltInWorld:
    """Skidpad's own ray-caster: any number side by side, deterministic, nothing to install."""
    return BuiltInWorld(width, threads)


def world_on(device: str, name: str, width: int, threads: int) -> World:
    """Makes a world by its name; the built-in one renders on the device if that is a GPU and the machine can."""
    if wants_gpu(device, name) and not obstacle():
        return BuiltInWorld(width, threads, device=device)
    return WORLDS.get(name)(width, threads)


def wants_gpu(device: str, name: str) -> bool:
    """Tells whether a world should render on a GPU."""
    return name == BUILT_IN and device.startswith("cuda")


def rendering_warning(device: str, name: str) -> str:
    """Returns a warning that a world renders on the CPU although a GPU was asked for, and why; "" if there is nothing to warn about."""
    reason = obstacle() if wants_gpu(device, name) else ""
    return f"the {device} device predicts, but the CPU renders the {name} world, which takes longer: {reason}" if reason else ""


def _scene(scenario: Scenario) -> Scene:
    try:
        return build_scene(scenario)
    except BadParametersError as error:
        raise BadScenarioError(str(error)) from error


def steps_of(scenario: Scenario) -> int:
    """Returns how many frames a scenario lasts: floor(T / STEP_S).

    Reference: offline and online testing, section II-E.
    """
    return int(scenario.duration_s / STEP_S + 1e-9)


def sim(scenario: Scenario, camera: Camera | None = None) -> Drive:
    """Returns the labelled image sequence of a scenario, driven by the ground-truth driver; frames are rendered when they are read.

    Reference: offline and online testing, section II-E, sim(s).
    """
    world = BuiltInWorld(1)
    poses = [world.reset([scenario]).poses[0]]
    labels = [float(world.truth_rad()[0])]
    for _ in range(steps_of(scenario) - 1):
        poses.append(world.step(world.truth_rad()).poses[0])
        labels.append(float(world.truth_rad()[0]))
    count = steps_of(scenario)
    return Drive(
        name=f"scenario-{scenario.seed}",
        frame_ids=tuple(f"{index:06d}" for index in range(count)),
        steering_rad=np.array(labels[:count]),
        time_s=np.asarray(np.arange(count) * STEP_S, np.float64),
        source=_Rendered(scenario, np.array(poses[:count]), camera or Camera()),
    )


class _Rendered:
    """Renders the frames of one driven scenario; the scene is baked at the first. Safe in threads."""

    def __init__(self, scenario: Scenario, poses: FloatArray, camera: Camera) -> None:
        self._scenario = scenario
        self._poses = poses
        self._camera = camera
        self._lock = Lock()

    @cached_property
    def _caster(self) -> RayCaster:
        return RayCaster(build_scene(self._scenario), self._camera)

    def read(self, index: int) -> NumpyFrames:
        """Renders one frame in the calling thread."""
        with self._lock:
            caster = self._caster
        frame: NumpyFrames = caster.render(self._poses[index : index + 1], np.array([index * STEP_S]))[0]
        return frame

    def fingerprint(self, index: int) -> str:
        """Returns everything that the frame depends on."""
        values = json.dumps(table_of(self._scenario), sort_keys=True)
        return f"sim {PICTURE_VERSION} {self._camera!r} {values} {index}"
