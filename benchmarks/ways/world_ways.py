"""The ways to see a road through a front camera of 320 x 160 pixels without a display."""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, Protocol

import numpy as np

from skidpad.core.images import Camera
from skidpad.worlds.render.raycast import RayCaster, render_side_by_side
from skidpad.worlds.render.scene import Scene, build_scene
from skidpad.worlds.scenario.scenario import (
    Conditions,
    Ego,
    OtherVehicle,
    Pedestrian,
    RoadKind,
    RoadPlan,
    Scenario,
    Side,
    Surroundings,
    Weather,
)

WIDTH_PX, HEIGHT_PX = 320, 160
CONDITIONS = {
    "sunny": Conditions(),
    "fog": Conditions(Weather.FOG, 0.5),
    "rain": Conditions(Weather.RAIN, 0.6),
    "snow": Conditions(Weather.SNOW, 0.5),
    "night": Conditions(night=True),
}


HEADLESS = "\n".join(
    (
        "load-display p3headlessgl",
        "window-type offscreen",
        "audio-library-name null",
        "notify-level error",
        "sync-video false",
        "framebuffer-multisample 0",
        "multisamples 0",
    )
)
"""What panda3d needs where there is no display: EGL, and nothing that its software renderer cannot do."""


class Way(Protocol):
    """One way to render."""

    name: str

    def render(self, frames: int) -> None:
        """Renders at least so many frames, one after another along the road."""
        ...


def timed(way: Way, frames: int) -> tuple[float, float]:
    """Renders so many frames; returns how many a second, and the milliseconds of processor time of each."""
    begun, spent = time.perf_counter(), time.process_time()
    way.render(frames)
    return frames / (time.perf_counter() - begun), 1e3 * (time.process_time() - spent) / frames


class Elsewhere:
    """A way in a process of its own: two that use panda3d cannot live in one."""

    def __init__(self, way: type[Way]) -> None:
        self.name = way.name
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        context.Process(target=_serve, args=(way, theirs), daemon=True).start()
        theirs.close()

    def timed(self, frames: int) -> tuple[float, float] | None:
        """As `timed`; nothing if the process has ended."""
        try:
            self._pipe.send(frames)
            answer: tuple[float, float] = self._pipe.recv()
        except (EOFError, OSError):
            return None
        return answer


def _serve(way: type[Way], pipe: Connection) -> None:
    made = way()
    with suppress(EOFError):  # whoever asks has ended
        while True:
            pipe.send(timed(made, pipe.recv()))


def everything(conditions: Conditions, kind: RoadKind = RoadKind.CURVED, seed: int = 0) -> Scenario:
    """A road through trees and houses with gantries, cars, people and weather."""
    return Scenario(
        road=RoadPlan(kind=kind, radius_m=120.0, lanes=2 if kind is RoadKind.ENTRY else 1),
        conditions=conditions,
        surroundings=Surroundings(trees=0.5, buildings=0.35, gantries=2),
        ego=Ego(headlights=conditions.night or conditions.weather is not Weather.SUNNY),
        vehicles=(
            OtherVehicle(1, 22.0, 14.0, 3),
            OtherVehicle(1, 55.0, 14.0, 4),
            OtherVehicle(0, 140.0, 12.0, 1),
            OtherVehicle(0, 260.0, 12.0, 6),
        ),
        pedestrians=(Pedestrian(Side.RIGHT, 40.0), Pedestrian(Side.LEFT, 90.0), Pedestrian(Side.RIGHT, 160.0)),
        seed=seed,
    )


def journey(scene: Scene, frames: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns poses along the ego's lane, 50 ms apart from the start and over again, and their times."""
    duration = scene.scenario.duration_s
    time_s = (np.arange(frames) * 0.05) % duration
    here = scene.road.at(scene.start_s_m + scene.scenario.ego.speed_m_s * time_s)
    return np.column_stack((here.beside(scene.lane_centre_m), here.heading_rad)), time_s


class Own:
    """The built-in world on the CPU."""

    def __init__(self, conditions: Conditions, batch: int, threads: int) -> None:
        self.name = f"skidpad, batch {batch}, {threads} thread{'s' * (threads > 1)}"
        self._caster = RayCaster(build_scene(everything(conditions)), Camera(WIDTH_PX, HEIGHT_PX))
        self._poses, self._times = journey(self._caster.scene, 400)
        self._batch, self._threads, self._at = batch, threads, 0

    def render(self, frames: int) -> None:
        """Renders in batches."""
        for _ in range(-(-frames // self._batch)):
            chosen = (self._at + np.arange(self._batch)) % len(self._poses)
            self._at += self._batch
            render_side_by_side([self._caster] * self._batch, self._poses[chosen], self._times[chosen], self._threads)


class MetaDrive:
    """MetaDrive's front camera, off screen, driving straight on; every step is rendered once.

    At its lightest, without traffic and terrain: a renderer in software needs seconds for a frame of the rest.
    """

    name = "MetaDrive, bare"

    def __init__(self) -> None:
        # Its messages were generated for an older protobuf; this reads them with any.
        os.environ.setdefault("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")
        from metadrive.engine.core.our_pbr import OurPipeline  # noqa: PLC0415 - likewise
        from metadrive.envs.metadrive_env import MetaDriveEnv  # noqa: PLC0415 - only where installed
        from panda3d.core import loadPrcFileData  # noqa: PLC0415 - likewise

        begin = OurPipeline.__init__

        def few_samples(self: Any, *args: Any, **settings: Any) -> None:
            begin(self, *args, **(settings | {"msaa_samples": 0}))

        # It asks for sixteen samples a pixel, which a renderer in software does not have.
        OurPipeline.__init__ = few_samples
        loadPrcFileData("", HEADLESS)
        logging.getLogger().setLevel(logging.ERROR)
        camera = {"image_source": "rgb_camera", "rgb_camera": (WIDTH_PX, HEIGHT_PX)}
        settings: dict[str, Any] = {"use_render": False, "vehicle_config": camera, "traffic_density": 0.0, "map": "CCC", "start_seed": 3}
        # As 0.3.0.1 names them, the last release whose wheel carries the assets.
        self._env = MetaDriveEnv(
            settings | {"image_observation": True, "multi_thread_render": False, "environment_num": 1, "show_terrain": False}
        )
        self._env.reset()

    def render(self, frames: int) -> None:
        """Steps with the wheel straight."""
        for _ in range(frames):
            done = self._env.step([0.0, 0.3])[2]
            if done:
                self._env.reset()


class Panda3D:
    """A bare road of the same size in panda3d, off screen and read back: what its renderer alone can reach."""

    name = "panda3d, road and 150 boxes"

    def __init__(self) -> None:
        from panda3d.core import CardMaker, GraphicsOutput, Texture, loadPrcFileData  # noqa: PLC0415 - only where installed

        loadPrcFileData("", f"{HEADLESS}\nwin-size {WIDTH_PX} {HEIGHT_PX}")
        from direct.showbase.ShowBase import ShowBase  # noqa: PLC0415 - reads the settings above when it is made

        self._base = ShowBase(windowType="offscreen")
        self._texture = Texture()
        self._base.win.addRenderTexture(self._texture, GraphicsOutput.RTMCopyRam)
        for name, half, colour in (("grass", 500.0, (0.3, 0.45, 0.2, 1.0)), ("road", 4.0, (0.4, 0.4, 0.42, 1.0))):
            card = CardMaker(name)
            card.setFrame(-half, half, -500.0, 500.0)
            node = self._base.render.attachNewNode(card.generate())
            node.setHpr(0.0, -90.0, 0.0)
            node.setColor(*colour)
            node.setZ(0.0 if name == "grass" else 0.02)
        rng = np.random.default_rng(0)
        for _ in range(150):
            box = self._base.loader.loadModel("models/box")
            box.reparentTo(self._base.render)
            box.setScale(3.0, 3.0, 7.0)
            box.setPos(float(rng.choice([-1.0, 1.0]) * rng.uniform(8.0, 60.0)), float(rng.uniform(5.0, 230.0)), 0.0)
        self._base.camera.setPos(1.75, 0.0, 1.3)
        self._base.disableMouse()
        self._step = 0

    def render(self, frames: int) -> None:
        """Moves on and reads the picture back."""
        for _ in range(frames):
            self._step += 1
            self._base.camera.setY(0.7 * (self._step % 200))
            self._base.graphicsEngine.renderFrame()
            data = self._texture.getRamImage()
            if len(bytes(data)) < WIDTH_PX * HEIGHT_PX * 3:
                raise RuntimeError("panda3d gave no picture back")


def installed(package: str) -> bool:
    """Tells whether a package can be imported."""
    return find_spec(package) is not None
