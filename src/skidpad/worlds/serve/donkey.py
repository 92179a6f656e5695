"""The Donkey simulator's side of the wire (sdsandbox): JSON over TCP, for gym-donkeycar and donkeycar as they are."""

from __future__ import annotations

import json
import socket
from base64 import b64encode
from collections.abc import Mapping
from math import cos, degrees, sin
from time import monotonic, sleep
from typing import Any

import cv2
import numpy as np

from skidpad.core.errors import SkidpadError
from skidpad.core.images import encode
from skidpad.worlds.serve.simulators import DONKEY, FLOOD_S, Answer, DisconnectedError, FaultError, GoneError, Moment, clamped, number

SCENES = (
    *("generated_road", "warehouse", "sparkfun_avc", "generated_track", "mountain_track", "roboracingleague_1", "waveshare"),
    *("mini_monaco", "warren", "thunderhill", "circuit_launch"),
)
"""The simulator's tracks, in its order; whichever a client chooses, it drives our scenario."""
ENDED = "the scenario is over"
"""What a car that has reached the end of its scenario has hit, so that a client that counts episodes begins a new one."""
JPEG_QUALITY = 75
_SCALE = 8.0
"""The simulator tells places and speeds in its units divided by this; the distance from the middle of the lane it does not."""
_RETRY_S = 0.25
_NUDGE_S = 0.002
"""A client that listens writes only when something comes, else once in 30 s; an empty line makes it."""
_UNHEARD_ENDS = 20
"""Answers after which a client that does not reset its car gets the next scenario all the same: a second of frames."""
_MAX_BUFFER = 1 << 20
_LARGEST_PX = 1024


class DonkeyPilot:
    """Asks one Donkey client. connects: whether it listens (gym-donkeycar 1.0), or connects to us (later ones).

    timeout_s: for an answer. wait_s: for the client to be there.
    """

    def __init__(self, host: str, port: int, timeout_s: float, wait_s: float, *, connects: bool = False) -> None:
        self._timeout_s, self._wait_s = timeout_s, wait_s
        self._host, self._port = host, port
        self._connects = connects
        self._socket: socket.socket | None = None
        self._listener: socket.socket | None = None
        if not connects:
            try:
                self._listener = socket.create_server((host, port))
            except OSError as error:
                raise SkidpadError(f"cannot listen at {host}:{port} ({error}); end what uses it, or choose another --port") from error
        self._buffer = ""
        self._loaded = False
        self._size_px = (DONKEY.camera.width_px, DONKEY.camera.height_px)

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self._listener.getsockname()[1] if self._listener is not None else self._port
        return port

    def begin(self) -> None:
        """Waits for a client, where there is none."""
        if self._socket is not None:
            return
        self._forget()
        self._socket = self._reached() if self._connects else self._accepted()
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._send({"msg_type": "scene_selection_ready", "loaded": "1"})

    def ask(self, moment: Moment) -> Answer:
        """Shows the client a moment and waits for its control; its talk about scenes, cars and cameras is answered on the way.

        A standing car with its brake on waits: the client is shown the same moment again, until it drives off.
        """
        try:
            return self._asked(moment)
        except DisconnectedError:
            self.close_client()
            raise

    def _asked(self, moment: Moment) -> Answer:
        unasked = self._drain(moment)
        waits_until = monotonic() + self._wait_s
        if self._loaded:
            self._tell(moment)
        # Between episodes a client may take its time, to learn from the last one.
        patience_s = self._timeout_s if moment.step else self._wait_s
        deadline = monotonic() + patience_s
        while True:
            message = self._next(deadline)
            # Talk about scenes and cars is no answer, however much of it there is.
            if message is None or monotonic() > deadline + FLOOD_S:
                raise FaultError(f"the client did not answer frame {moment.step} within {patience_s:g} s; see what it has printed")
            answer = self._heard(message, moment, unasked)
            if answer is None:
                continue
            deadline = monotonic() + patience_s
            if not (moment.step == 0 and answer.pedal <= -1.0):
                return answer
            if monotonic() > waits_until:
                raise FaultError(f"the client held its brake for {self._wait_s:g} s and did not drive off")
            self._tell(moment)

    def end(self, moment: Moment) -> None:
        """Tells the client that it has hit the end of the scenario, and waits a second of frames for it to reset its car."""
        try:
            self._tell(moment, ENDED)
            for _ in range(_UNHEARD_ENDS):
                message = self._next(monotonic() + self._timeout_s)
                kind = "" if message is None else message.get("msg_type")
                if message is None or kind == "reset_car":
                    return
                if kind == "control":
                    self._tell(moment, ENDED)
                else:
                    self._housekeeping(message)
        except FaultError:
            self.close_client()

    def close(self) -> None:
        """Hangs up and stops listening."""
        self.close_client()
        if self._listener is not None:
            self._listener.close()

    def close_client(self) -> None:
        """Hangs up on this client, so that another one can come."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _forget(self) -> None:
        self._buffer = ""
        self._loaded = False
        self._size_px = (DONKEY.camera.width_px, DONKEY.camera.height_px)

    def _accepted(self) -> socket.socket:
        if self._listener is None:
            raise GoneError("this pilot is closed")
        self._listener.settimeout(self._wait_s)
        try:
            return self._listener.accept()[0]
        except TimeoutError:
            raise GoneError(
                f"no Donkey client came to {self._host}:{self.port} within {self._wait_s:g} s; start it with host {self._host!r} and port "
                f"{self.port}, or use --connect for one that listens itself"
            ) from None

    def _reached(self) -> socket.socket:
        deadline = monotonic() + self._wait_s
        while True:
            try:
                return socket.create_connection((self._host, self._port), self._timeout_s)
            except OSError as error:
                if monotonic() > deadline:
                    raise GoneError(
                        f"no Donkey client listens at {self._host}:{self._port} within {self._wait_s:g} s ({error}); start it, or leave "
                        "out --connect for one that connects itself"
                    ) from error
                sleep(_RETRY_S)

    def _heard(self, message: Mapping[str, Any], moment: Moment, unasked: int) -> Answer | None:
        """Takes one message; returns the answer where it is one."""
        kind = message.get("msg_type")
        if kind == "control":
            return _answer(message, moment.step, unasked) if self._loaded else None
        if kind in {"reset_car", "exit_scene"}:
            self._housekeeping(message)
            if moment.step:
                what = "reset its car" if kind == "reset_car" else "left the scene"
                raise FaultError(f"the client {what} at frame {moment.step}, before the scenario was over")
            if kind == "reset_car" and self._loaded:
                self._tell(moment)
        elif kind == "load_scene":
            self._housekeeping(message)
            self._tell(moment)
        else:
            self._housekeeping(message)
        return None

    def _housekeeping(self, message: Mapping[str, Any]) -> None:
        """Answers what is about the simulator and not about driving; a client's wishes for the looks of its car are ignored."""
        kind = message.get("msg_type")
        if kind == "get_scene_names":
            self._send({"scene_names": list(SCENES), "msg_type": "scene_names"})
        elif kind == "get_protocol_version":
            self._send({"msg_type": "protocol_version", "version": "2"})
        elif kind == "load_scene":
            self._loaded = True
            self._send({"msg_type": "car_loaded"})
        elif kind == "exit_scene":
            self._loaded = False
            self._send({"msg_type": "scene_selection_ready", "loaded": "1"})
        elif kind == "cam_config":
            asked = [int(number(message.get(name) or 0, name, 0)) for name in ("img_w", "img_h")]
            usual = DONKEY.camera.width_px, DONKEY.camera.height_px
            self._size_px = (min(asked[0], _LARGEST_PX) or usual[0], min(asked[1], _LARGEST_PX) or usual[1])

    def _drain(self, moment: Moment) -> int:
        """Throws away controls that came unasked, and returns how many; everything else is heard."""
        unasked, most_s = 0, min(self._timeout_s, FLOOD_S)
        until = monotonic() + most_s
        while (message := self._next(monotonic())) is not None:
            if monotonic() > until:
                raise FaultError(f"the client sends without being asked and does not stop: {unasked} answers in {most_s:g} s")
            if message.get("msg_type") == "control":
                unasked += self._loaded
            else:
                self._heard(message, moment, 0)
        return unasked

    def _tell(self, moment: Moment, hit: str = "") -> None:
        frame = moment.frame
        if self._size_px != (frame.shape[1], frame.shape[0]):
            frame = np.asarray(cv2.resize(frame, self._size_px, interpolation=cv2.INTER_AREA), np.uint8)
        self._send(_telemetry(moment, b64encode(encode(frame, ".jpg", JPEG_QUALITY)).decode("ascii"), hit))

    def _send(self, message: Mapping[str, Any] | None) -> None:
        """Sends a message, or an empty line."""
        if self._socket is None:
            raise DisconnectedError("there is no connection to the client")
        self._socket.settimeout(self._timeout_s)
        text = "" if message is None else json.dumps(message, separators=(",", ":"))
        try:
            self._socket.sendall(text.encode() + b"\n")
        except OSError as error:
            raise DisconnectedError(f"the connection to the client broke ({error})") from error

    def _next(self, deadline: float) -> Mapping[str, Any] | None:
        """Returns the next message, None where none comes until the deadline; messages follow each other without any mark."""
        while True:
            self._buffer = self._buffer.lstrip()
            if self._buffer:
                try:
                    found, end = json.JSONDecoder().raw_decode(self._buffer)
                except (json.JSONDecodeError, RecursionError):
                    if len(self._buffer) > _MAX_BUFFER or not self._buffer.startswith("{"):
                        # Nobody can tell where its next message begins.
                        raise DisconnectedError(f"the client sent something that is no JSON: {self._buffer[:60]!r}") from None
                else:
                    self._buffer = self._buffer[end:]
                    if not isinstance(found, dict):
                        raise FaultError(f"the client sent {str(found)[:40]!r}; a message is an object with a msg_type")
                    return found
            if not self._fill(deadline):
                return None

    def _fill(self, deadline: float) -> bool:
        if self._socket is None:
            raise DisconnectedError("there is no connection to the client")
        while True:
            left_s = max(deadline - monotonic(), 1e-4)
            self._socket.settimeout(min(left_s, _NUDGE_S) if self._connects else left_s)
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                if monotonic() >= deadline:
                    return False
                if self._connects:
                    self._send(None)
                continue
            except OSError as error:
                raise DisconnectedError(f"the connection to the client broke ({error})") from error
            if not data:
                raise DisconnectedError("the client closed the connection")
            self._buffer += data.decode("utf-8", "replace")
            return True


def _telemetry(moment: Moment, image: str, hit: str) -> dict[str, Any]:
    """Writes a moment as the simulator does: x to the right, y up, z ahead, yaw clockwise."""
    x_m, y_m, heading = (float(value) for value in moment.pose)
    ahead, right = cos(heading), -sin(heading)
    return {
        "msg_type": "telemetry",
        "steering_angle": DONKEY.road_wheel_deg(moment.steering_rad) / DONKEY.max_steering_deg,
        "throttle": max(moment.pedal, 0.0),
        "speed": moment.speed_m_s / _SCALE,
        "image": image,
        "hit": hit or ("an obstacle" if moment.collided else "none"),
        "time": moment.time_s,
        "cte": -moment.lateral_m,
        "pos_x": -y_m / _SCALE,
        "pos_y": 0.0,
        "pos_z": x_m / _SCALE,
        "vel_x": moment.speed_m_s * right / _SCALE,
        "vel_y": 0.0,
        "vel_z": moment.speed_m_s * ahead / _SCALE,
        "accel_x": moment.acceleration_m_s2 * right / _SCALE,
        "accel_y": 0.0,
        "accel_z": moment.acceleration_m_s2 * ahead / _SCALE,
        "gyro_x": 0.0,
        "gyro_y": -moment.yaw_rate_rad_s,
        "gyro_z": 0.0,
        "pitch": 0.0,
        "yaw": -degrees(heading) % 360.0,
        "roll": 0.0,
        "activeNode": moment.step,
        "totalNodes": 1,
    }


def _answer(message: Mapping[str, Any], frame: int, unasked: int) -> Answer:
    steering, throttle, brake = (number(message.get(name, 0), name, frame) for name in ("steering", "throttle", "brake"))
    held = clamped(steering), clamped(throttle), clamped(brake)
    pedal = -held[2] if held[2] > 0.0 else held[1]
    return Answer(DONKEY.steering_rad(held[0]), pedal, held != (steering, throttle, brake), unasked)
