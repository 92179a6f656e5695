"""MetaDrive behind a pipe: runs under an interpreter that has MetaDrive and need not have skidpad; `worlds.metadrive` starts it.

A question is one line of JSON on standard input, an answer one line on standard output, followed by as many bytes as its `picture` says.
Lengths are metres, angles radians, y points to the left and the origin lies on the middle line where the road begins; MetaDrive's own y
points to the right. Whatever MetaDrive prints goes to standard error.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sys
from typing import Any

STEP_S = 0.05
PHYSICS_STEPS = 5
"""Of a step: ten milliseconds each, half of MetaDrive's own."""

HEADLESS = """
load-display p3headlessgl
window-type offscreen
audio-library-name null
notify-level error
sync-video false
framebuffer-multisample 0
multisamples 0
"""
"""What panda3d needs where there is no display: EGL, and nothing that a renderer in software cannot do."""

AGENT = "default_agent"
_QUIET = {"show_navi_mark": False, "show_dest_mark": False, "show_line_to_navi_mark": False, "show_line_to_dest": False}


class MetaDriveSimulator:
    """One MetaDrive with one car, whose map is replaced with every scenario.

    camera: width_px, height_px, fov_deg, pitch_deg, height_m, forward_m, as skidpad's.
    """

    def __init__(self, camera: dict[str, float]) -> None:
        # Its messages were generated for an older protobuf; this reads them with any.
        os.environ.setdefault("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")
        from panda3d.core import loadPrcFileData  # noqa: PLC0415 - read before MetaDrive is

        loadPrcFileData("", HEADLESS)
        from metadrive.engine.core.our_pbr import OurPipeline  # noqa: PLC0415 - likewise
        from metadrive.envs.metadrive_env import MetaDriveEnv  # noqa: PLC0415 - likewise

        begin = OurPipeline.__init__
        # It asks for sixteen samples a pixel, which a renderer in software does not have.
        OurPipeline.__init__ = lambda self, *args, **settings: begin(self, *args, **{**settings, "msaa_samples": 0})
        logging.getLogger().setLevel(logging.ERROR)
        self._camera = camera
        size = (int(camera["width_px"]), int(camera["height_px"]))
        nothing = {"num_lasers": 0, "distance": 0, "num_others": 0}
        self._env: Any = MetaDriveEnv(
            {
                "use_render": False,
                "image_observation": True,
                "multi_thread_render": False,
                "environment_num": 1,
                "start_seed": 0,
                "traffic_density": 0.0,
                "random_spawn_lane_index": False,
                "physics_world_step_size": STEP_S / PHYSICS_STEPS,
                "decision_repeat": PHYSICS_STEPS,
                "interface_panel": [],
                "show_interface": False,
                "show_logo": False,
                "show_fps": False,
                "vehicle_config": {"image_source": "rgb_camera", "rgb_camera": size, "lidar": nothing, **_QUIET},
                "map_config": {"type": "block_sequence", "config": "S", "lane_num": 1, "lane_width": 3.5, "exit_length": 60},
            }
        )
        self._others: list[Any] = []
        self._half_m = self._speed_m_s = 0.0
        self._touched = False
        self._car: Any = None

    def reset(self, road: dict[str, Any], pose: list[float], speed_m_s: float, others: list[list[float]]) -> dict[str, Any]:
        """Lays a road and puts the car and the others on it; no time passes. pose: of the rear axle. others: x, y, heading, speed."""
        env = self._env
        if self._car is not None:
            self._clear()
        lanes, width = road["lanes"], road["lane_width_m"]
        self._half_m, self._speed_m_s, self._touched = 0.5 * width, speed_m_s, False
        blocks = [{"id": "I", "pre_block_socket_index": 0}, *({"pre_block_socket_index": 0, **block} for block in road["blocks"])]
        laid = {"type": "pg_map_file", "config": blocks, "lane_num": lanes, "lane_width": width, "exit_length": road["first_m"]}
        env.config["map_config"].update(laid)
        env.config["target_vehicle_configs"][AGENT]["spawn_lane_index"] = (">", ">>", lanes - road["lane"])
        env.reset()
        self._car = env.vehicle
        self._others = [self._spawn(other) for other in others]
        rear = self._car.REAR_WHEELBASE
        self._place(self._car, (pose[0] + rear * math.cos(pose[2]), pose[1] + rear * math.sin(pose[2])), pose[2], speed_m_s)
        self._look()
        return self._told()

    def step(self, road_wheels_rad: float, others: list[list[float]]) -> dict[str, Any]:
        """Turns the front wheels and lets STEP_S pass at the scenario's speed; the others are put where they are by then."""
        car, engine = self._car, self._env.engine
        for other, (x_m, y_m, heading, speed_m_s) in zip(self._others, others):  # noqa: B905 - older interpreters run this too
            self._place(other, (x_m, y_m), heading, speed_m_s)
        velocity = car.body.getLinearVelocity()
        now = math.hypot(velocity[0], velocity[1])
        # What tyres and brakes took from the speed is given back in the direction in which the car moves.
        velocity[0], velocity[1] = (self._speed_m_s * part / max(now, 1e-6) for part in (velocity[0], velocity[1]))
        car.body.setLinearVelocity(velocity)
        share = road_wheels_rad / math.radians(car.max_steering)
        engine.before_step({AGENT: [min(max(share, -1.0), 1.0), 0.0]})
        for _ in range(PHYSICS_STEPS):
            for manager in engine.managers.values():
                manager.step()
            engine.step_physics_world()
        engine.after_step()
        self._touched = self._touched or bool(car.crash_vehicle or car.crash_object or car.crash_building)
        return self._told()

    def frame(self) -> bytes:
        """Renders what the camera sees now, RGB from the upper left."""
        camera = self._car.image_sensors["rgb_camera"]
        camera.track(self._car)
        self._env.engine.graphicsEngine.renderFrame()
        picture = camera.get_rgb_array()
        return bytes(picture[..., ::-1].tobytes())

    def _clear(self) -> None:
        """Takes away the last scenario's map and vehicles; MetaDrive would keep them."""
        engine = self._env.engine
        manager = engine.map_manager
        # Not destroyed: all vehicles share one camera, which would go with the first of them.
        engine.clear_objects([other.id for other in self._others])
        old = manager.current_map
        manager.unload_map(old)
        engine.clear_objects([old.id], force_destroy=True)
        manager.maps = dict.fromkeys(manager.maps)

    def _look(self) -> None:
        """Puts the camera where skidpad's is, and has nothing rendered that nobody looks at."""
        from metadrive.constants import CamMask  # noqa: PLC0415 - only once it is started
        from panda3d.core import Vec3  # noqa: PLC0415 - likewise

        engine, car, wanted = self._env.engine, self._car, self._camera
        car.origin.hide(CamMask.RgbCam)  # the camera looks out of the car
        sensor = car.image_sensors["rgb_camera"]
        sensor.get_cam().setPos(Vec3(0.0, wanted["forward_m"] - car.REAR_WHEELBASE, wanted["height_m"] - car.origin.getZ()))
        sensor.get_cam().setHpr(0.0, -wanted["pitch_deg"], 0.0)
        across = math.tan(0.5 * math.radians(wanted["fov_deg"]))
        upright_deg = 2.0 * math.degrees(math.atan(across * wanted["height_px"] / wanted["width_px"]))
        sensor.get_lens().setFov(wanted["fov_deg"], upright_deg)
        engine.sky_box.origin.setH(0.0)  # clouds drift from one scenario into the next
        # On a renderer in software, anisotropic filtering takes twenty times as long as everything else.
        for texture in engine.render.findAllTextures():
            texture.setAnisotropicDegree(1)
        for window in engine.graphicsEngine.getWindows():
            window.setActive(window.getXSize() > 1)

    def _spawn(self, where: list[float]) -> Any:
        from metadrive.component.vehicle.vehicle_type import DefaultVehicle  # noqa: PLC0415 - only once it is started
        from metadrive.constants import CamMask  # noqa: PLC0415 - likewise

        config = {**_QUIET, "need_navigation": False}
        place = {"position": self._theirs((where[0], where[1])), "heading": -where[2]}
        car = self._env.engine.spawn_object(DefaultVehicle, vehicle_config=config, random_seed=0, **place)
        car.origin.show(CamMask.RgbCam)  # it may have been the ego before
        self._place(car, (where[0], where[1]), where[2], where[3])
        return car

    def _place(self, car: Any, point: tuple[float, float], heading: float, speed_m_s: float) -> None:
        car.set_position(self._theirs(point), car.origin.getZ())
        car.set_heading_theta(-heading, rad_to_degree=True)
        velocity = car.body.getLinearVelocity()
        velocity[0], velocity[1] = speed_m_s * math.cos(heading), speed_m_s * math.sin(heading)
        car.body.setLinearVelocity(velocity)

    def _theirs(self, point: tuple[float, float]) -> list[float]:
        return [point[0], -point[1] - self._half_m]

    def _told(self) -> dict[str, Any]:
        car = self._car
        rear, heading = car.REAR_WHEELBASE, -float(car.heading_theta)
        x_m, y_m = float(car.position[0]), -float(car.position[1]) - self._half_m
        pose = [x_m - rear * math.cos(heading), y_m - rear * math.sin(heading), heading]
        return {"pose": pose, "speed_m_s": float(car.speed), "touched": self._touched, "wheelbase_m": car.FRONT_WHEELBASE + rear}


def main() -> None:
    """Answers questions until standard input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what MetaDrive prints must not get between the answers
    simulator: MetaDriveSimulator | None = None
    for line in sys.stdin:
        question = json.loads(line)
        picture = b""
        try:
            if question["do"] == "begin":
                simulator = MetaDriveSimulator(question["camera"])
                told: dict[str, Any] = {}
            elif simulator is None:
                told = {"error": "the first question must be begin"}
            elif question["do"] == "reset":
                told = simulator.reset(question["road"], question["pose"], question["speed_m_s"], question["others"])
            elif question["do"] == "step":
                told = simulator.step(question["road_wheels_rad"], question["others"])
            else:
                told, picture = {}, simulator.frame()
        except Exception as error:  # noqa: BLE001 - whatever it is, the other side must hear of it
            told = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps({**told, "picture": len(picture)}).encode() + b"\n" + picture)
        answers.flush()


if __name__ == "__main__":
    main()
