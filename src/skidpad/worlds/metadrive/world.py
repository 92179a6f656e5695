"""MetaDrive as a world: another simulator, with its own pictures, tyres and suspension, in a process of its own.

MetaDrive needs an older NumPy than skidpad and cannot be imported beside it, so that it runs under an interpreter of its own, is
talked to through a pipe, and is kept for the next world. Distances are measured against the lane of the scenario's road, never against
`vehicle.lane`, which follows the car.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from math import degrees, isfinite, radians
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from time import monotonic
from typing import Any

import numpy as np

from skidpad.core.errors import BadParametersError, SkidpadError
from skidpad.core.images import BoolArray, Camera, FloatArray, NumpyFrames
from skidpad.core.units import STEERING_RATIO
from skidpad.worlds.departure import Lanes
from skidpad.worlds.render.chunks import MIN_RADIUS_M, START_M, length_of, section_of
from skidpad.worlds.scenario.road import CrossSection, Piece, Road
from skidpad.worlds.scenario.scenario import BadScenarioError, Pace, RoadKind, Scenario, Side, Weather
from skidpad.worlds.vehicle import Bicycle, Driver
from skidpad.worlds.world import STEP_S, WORLDS, EgoState

PYTHON = "SKIDPAD_METADRIVE_PYTHON"
"""The environment variable that names the interpreter which has MetaDrive."""

SET_UP = (
    "python3.11 -m venv metadrive && metadrive/bin/pip install metadrive-simulator==0.3.0.1 panda3d-simplepbr==0.10 panda3d-gltf==0.13 && "
    f'export {PYTHON}="$PWD/metadrive/bin/python"'
)
_BEGIN_S, _ANSWER_S = 600.0, 120.0
_CHUNK_BYTES = 1 << 20
_LAST_WORDS = 400


class MetaDriveError(SkidpadError):
    """MetaDrive cannot be started, or has stopped answering."""


@dataclass(frozen=True, slots=True)
class ProcessAnswer:
    """The server's answer, and the bytes of a picture."""

    values: Mapping[str, Any]
    picture: bytes


def interpreter() -> str:
    """Returns the interpreter that has MetaDrive, or says how to set one up."""
    named = os.environ.get(PYTHON, "")
    if named:
        if not Path(named).is_file():
            raise MetaDriveError(f"{PYTHON} names {named!r}, which is not a file; set it up with: {SET_UP}")
        return named
    if find_spec("metadrive") is not None:
        return sys.executable
    raise MetaDriveError(f"the world 'metadrive' needs MetaDrive under an interpreter of its own; set it up with: {SET_UP}")


class MetaDriveProcess:
    """One running MetaDrive. Asked by one thread at a time; an answer that does not come in time ends it."""

    def __init__(self, camera: Mapping[str, float]) -> None:
        self.camera = dict(camera)
        # Isolated, so that its own folder is not searched: a module there has the name of the package.
        command = [interpreter(), "-I", "-u", str(Path(__file__).with_name("server.py"))]
        self._errors = TemporaryFile()  # noqa: SIM115 - open as long as the process is, and closed with it
        self._last_words = "none"
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the user names the interpreter
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, bufsize=0
            )
        except OSError as error:
            self._errors.close()
            raise MetaDriveError(f"cannot start {command[0]!r}: {error}; set it up with: {SET_UP}") from error
        self._read = bytearray()
        self.ask({"do": "begin", "camera": self.camera}, _BEGIN_S)

    @property
    def is_running(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def ask(self, question: Mapping[str, object], limit_s: float = _ANSWER_S) -> ProcessAnswer:
        """Sends a question and waits for the answer."""
        deadline = monotonic() + limit_s
        try:
            self._write(json.dumps(question).encode() + b"\n")
            while b"\n" not in self._read:
                self._more(deadline, limit_s)
            line, _, rest = bytes(self._read).partition(b"\n")
            values = json.loads(line)
            self._read = bytearray(rest)
            while len(self._read) < values["picture"]:
                self._more(deadline, limit_s)
        except (OSError, ValueError, KeyError) as error:
            self.close()
            raise MetaDriveError(f"MetaDrive stopped answering ({error}); its last output: {self._last_words}") from error
        picture, self._read = bytes(self._read[: values["picture"]]), self._read[values["picture"] :]
        if "error" in values:
            self.close()
            raise MetaDriveError(f"MetaDrive failed: {values['error']}; its last output: {self._last_words}")
        return ProcessAnswer(values, picture)

    def close(self) -> None:
        """Ends the process."""
        with suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        if not self._errors.closed:
            self._errors.seek(0)
            self._last_words = " ".join(self._errors.read().decode(errors="replace").split())[-_LAST_WORDS:] or "none"
            self._errors.close()

    def _write(self, data: bytes) -> None:
        pipe = self._process.stdin
        if pipe is None or pipe.closed:
            raise OSError("it has ended")
        pipe.write(data)

    def _more(self, deadline: float, limit_s: float) -> None:
        pipe = self._process.stdout
        if pipe is None or pipe.closed:
            raise OSError("it has ended")
        ready, _, _ = select.select([pipe], [], [], max(deadline - monotonic(), 0.0))
        if not ready:
            raise OSError(f"no answer after {limit_s:g} s")
        data = os.read(pipe.fileno(), _CHUNK_BYTES)
        if not data:
            raise OSError("it has ended")
        self._read += data


_IDLE: list[MetaDriveProcess] = []
_LOCK = Lock()


def borrow(camera: Mapping[str, float]) -> MetaDriveProcess:
    """Returns a process that nobody uses, or starts one, which takes a quarter of a minute."""
    with _LOCK:
        for process in [each for each in _IDLE if each.camera == dict(camera)]:
            _IDLE.remove(process)
            if process.is_running:
                return process
            process.close()
    return MetaDriveProcess(camera)


def give_back(process: MetaDriveProcess) -> None:
    """Keeps a process for the next world."""
    with _LOCK:
        if process.is_running:
            _IDLE.append(process)
        else:
            process.close()


@atexit.register
def close_idle() -> None:
    """Ends the processes that nobody uses."""
    with _LOCK:
        while _IDLE:
            _IDLE.pop().close()


_RUN_IN_M = 45.0
_BETWEEN_M = 8.0
"""Straight on between two bends: MetaDrive's curve has a straight at its end."""
_KINDS = (RoadKind.STRAIGHT, RoadKind.CURVED)


@dataclass(frozen=True, slots=True)
class Bend:
    """One of MetaDrive's curves: the radius of the rightmost lane's middle, the angle, the side, and the straight behind it."""

    radius_m: float
    angle_rad: float
    side: Side
    straight_m: float = _BETWEEN_M

    def to_block(self) -> dict[str, object]:
        """Writes the block as MetaDrive names its parameters."""
        clockwise = int(self.side is Side.RIGHT)
        return {"id": "C", "length": self.straight_m, "radius": self.radius_m, "angle": degrees(self.angle_rad), "dir": clockwise}


@dataclass(frozen=True, eq=False)
class LaidRoad:
    """A road to lay: first a straight, then bends; and the reference that distances are measured against."""

    first_m: float
    bends: tuple[Bend, ...]
    road: Road
    section: CrossSection

    def to_question(self) -> dict[str, object]:
        """Writes the road for the server."""
        section = self.section
        return {
            "lanes": section.lanes,
            "lane_width_m": section.lane_width_m,
            "lane": section.ego_lane,
            "first_m": self.first_m,
            "blocks": [bend.to_block() for bend in self.bends],
        }


def lay(scenario: Scenario) -> LaidRoad:
    """Lays the road of a scenario; refuses what MetaDrive cannot show and a road that crosses itself."""
    _check_shown(scenario)
    section, length_m = section_of(scenario), length_of(scenario)
    plan = scenario.road
    if plan.kind is RoadKind.STRAIGHT:
        return LaidRoad(length_m, (), Road((Piece(length_m),)), section)
    if not (isfinite(plan.radius_m) and plan.radius_m >= max(MIN_RADIUS_M, 2.0 * section.edge_m)):
        raise BadScenarioError(f"a bend's radius is at least {max(MIN_RADIUS_M, 2.0 * section.edge_m):g} m; got {plan.radius_m:g} m")
    if not 1.0 <= plan.turn_deg <= 360.0:
        raise BadScenarioError(f"a road turns by 1 to 360 degrees; got road.turn_deg = {plan.turn_deg:g}")
    bends, pieces = [], [Piece(_RUN_IN_M)]
    side, angle_rad, total_m = plan.side, radians(plan.turn_deg), _RUN_IN_M
    rightmost_m = section.lane_centre_of(1)
    while total_m < length_m:
        sign = 1.0 if side is Side.LEFT else -1.0
        bends.append(Bend(plan.radius_m - sign * rightmost_m, angle_rad, side))
        pieces += [Piece(angle_rad * plan.radius_m, sign / plan.radius_m, sign / plan.radius_m), Piece(_BETWEEN_M)]
        total_m += angle_rad * plan.radius_m + _BETWEEN_M
        side, angle_rad = Side.RIGHT if side is Side.LEFT else Side.LEFT, 2.0 * radians(plan.turn_deg)
    road = Road(tuple(pieces))
    if road.crosses_itself(2.0 * section.outer_m):
        raise BadScenarioError("the road crosses itself; make it shorter, or its bends wider")
    return LaidRoad(_RUN_IN_M, tuple(bends), road, section)


def _check_shown(scenario: Scenario) -> None:
    missing = []
    if scenario.road.kind not in _KINDS:
        missing.append(f"road.kind = {scenario.road.kind.value}")
    if scenario.conditions.weather is not Weather.SUNNY:
        missing.append(f"conditions.weather = {scenario.conditions.weather.value}")
    if scenario.conditions.night:
        missing.append("conditions.night")
    if scenario.pedestrians:
        missing.append("pedestrians")
    if scenario.road.pieces:
        missing.append("road.pieces")
    if scenario.ego.pace is not Pace.CONSTANT:
        missing.append(f"ego.pace = {scenario.ego.pace.value}")
    if any(vehicle.moves or vehicle.offset_m for vehicle in scenario.vehicles):
        missing.append("vehicles that leave the middle of their lane or change their speed")
    if missing:
        raise BadScenarioError(
            f"MetaDrive's adapter shows sunny straight and curved roads with vehicles; it cannot show {', '.join(missing)}"
        )


class MetaDriveWorld:
    """Runs one scenario at a time; the steering wheel turns as late and as fast as the built-in world's, the rest is MetaDrive's."""

    def __init__(self, camera: Camera | None = None) -> None:
        self._camera = camera or Camera()
        self._wheel = Bicycle()
        self._process: MetaDriveProcess | None = None
        self._laid: LaidRoad | None = None

    @property
    def width(self) -> int:
        """One: MetaDrive runs one scenario a process."""
        return 1

    @property
    def frame_shape(self) -> tuple[int, int]:
        """Height and width of the frames."""
        return self._camera.height_px, self._camera.width_px

    def reset(self, scenarios: Sequence[Scenario]) -> EgoState:
        """Begins a scenario with the ego in the middle of its lane; starts MetaDrive where none is at hand."""
        if len(scenarios) != 1:
            raise BadParametersError(f"MetaDrive runs one scenario at a time; got {len(scenarios)}")
        scenario = scenarios[0]
        self._laid = laid = lay(scenario)
        self._scenario, self._steps = scenario, 0
        self._lanes = Lanes.of([laid.road], [laid.section])
        here = laid.road.at(np.array([START_M]))
        pose = [*here.beside(laid.section.lane_centre_m)[0].tolist(), float(here.heading_rad[0])]
        self._process = self._process or borrow(asdict(self._camera))
        told = self._process.ask(
            {
                "do": "reset",
                "road": laid.to_question(),
                "pose": pose,
                "speed_m_s": scenario.ego.speed_m_s,
                "others": self._others(),
            }
        )
        self._driver = Driver(wheelbase_m=float(told.values["wheelbase_m"]))
        first = self._lanes.truth_rad(self._driver, np.array([pose]))
        self._steering_rad = first
        self._waiting = [first] * self._wheel.delay_steps
        return self._arrived(told)

    def frames(self, wanted: BoolArray | None = None) -> NumpyFrames:
        """Returns what the camera sees now, (1, height, width, 3); black where nobody wants to see it."""
        height, width = self._camera.height_px, self._camera.width_px
        if wanted is not None and not wanted[0]:
            return np.zeros((1, height, width, 3), np.uint8)
        told = self._begun().ask({"do": "frame"})
        return np.frombuffer(told.picture, np.uint8).reshape(1, height, width, 3).copy()

    def step(self, steering_rad: FloatArray) -> EgoState:
        """Sends the ego its steering, (1,), and lets STEP_S pass."""
        process = self._begun()
        wanted = np.asarray(steering_rad, np.float64)
        if wanted.shape != (1,) or not np.isfinite(wanted[0]):
            raise BadParametersError(f"a step takes one finite steering angle for the one ego; got {steering_rad!r}")
        self._waiting.append(wanted)
        most = self._wheel.max_rate_rad_s * STEP_S
        aim = np.clip(self._waiting.pop(0), -self._wheel.max_steering_rad, self._wheel.max_steering_rad)
        self._steering_rad = self._steering_rad + np.clip(aim - self._steering_rad, -most, most)
        self._steps += 1
        turned = float(self._steering_rad[0]) / STEERING_RATIO
        return self._arrived(process.ask({"do": "step", "road_wheels_rad": turned, "others": self._others()}))

    def lateral_m(self) -> FloatArray:
        """Returns the exact distance of the rear axle's middle from the middle of the ego's lane, positive to the left, (1,)."""
        self._begun()
        return self._here.lateral_m

    def truth_rad(self) -> FloatArray:
        """Returns what the ground-truth driver steers at the ego's pose, (1,), for the wheelbase of MetaDrive's car."""
        self._begun()
        return self._lanes.truth_rad(self._driver, self._state.poses, self._here)

    def collided(self) -> BoolArray:
        """Tells whether the ego has touched another vehicle so far, (1,)."""
        self._begun()
        return np.array([self._touched], np.bool_)

    def __del__(self) -> None:
        process, self._process = getattr(self, "_process", None), None
        if process is not None:
            give_back(process)

    def _arrived(self, told: ProcessAnswer) -> EgoState:
        poses = np.array([told.values["pose"]], np.float64)
        self._state = EgoState(poses, np.array([told.values["speed_m_s"]], np.float64), self._steering_rad)
        self._here = self._lanes.project(poses[:, :2])
        self._touched = bool(told.values["touched"])
        return self._state

    def _others(self) -> list[list[float]]:
        """Returns where the other vehicles are now: x, y, heading and speed of each."""
        laid = self._laid
        if laid is None or not self._scenario.vehicles:
            return []
        vehicles = self._scenario.vehicles
        along = np.array([each.speed_m_s if each.lane >= 1 else -each.speed_m_s for each in vehicles])
        try:
            lateral_m = np.array([laid.section.lane_centre_of(each.lane) for each in vehicles])
        except BadParametersError as error:
            raise BadScenarioError(str(error)) from error
        here = laid.road.at(START_M + np.array([each.ahead_m for each in vehicles]) + along * self._steps * STEP_S)
        heading = here.heading_rad + np.where(along < 0.0, np.pi, 0.0)
        rows = np.column_stack((here.beside(lateral_m), heading, np.abs(along)))
        return [[float(value) for value in row] for row in rows]

    def _begun(self) -> MetaDriveProcess:
        if self._process is None or self._laid is None:
            raise BadParametersError("no scenario has begun in this world; call reset with one first")
        return self._process


@WORLDS.register("metadrive")
def metadrive(_width: int, _threads: int) -> MetaDriveWorld:
    """MetaDrive 0.3.0.1 in a process of its own: sunny straight and curved roads with vehicles, one scenario at a time."""
    return MetaDriveWorld()
