"""Programs that people drive simulators with, in this process: a drive.py on either Engine.IO, and Donkey clients in both roles."""

from __future__ import annotations

import json
import socket
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha1
from threading import Thread
from typing import Any

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
HANG_UP = "hang up"

Behaviour = Callable[[int, dict[str, str]], list[Any]]
"""Given the number of a frame and its telemetry, what to send: data of `steer`, bytes as they are, or HANG_UP."""


def steer(angle: object = 0.0, throttle: object = 0.3) -> dict[str, str]:
    return {"steering_angle": str(angle), "throttle": str(throttle)}


def straight_on(_frame: int, _telemetry: dict[str, str]) -> list[Any]:
    return [steer()]


class FakeDrivePy:
    """A socket.io server as drive.py is one. protocol: "4", "3" (takes EIO=4 and speaks 3), or "3-strict" (answers EIO=4 with 400).

    late_greeting: whether the first `steer` comes after the 40, as in 4.x, or before it, as in 5.x.
    """

    def __init__(
        self, behaviour: Behaviour = straight_on, protocol: str = "4", *, late_greeting: bool = False, greets: bool = True
    ) -> None:
        self.behaviour, self.protocol, self.late_greeting, self.greets = behaviour, protocol, late_greeting, greets
        self.telemetry: list[dict[str, str]] = []
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                try:
                    self._talk(connection)
                except (OSError, EOFError):
                    continue

    def _talk(self, connection: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += some(connection)
        if self.protocol == "3-strict" and b"EIO=4" in head:
            connection.sendall(b"HTTP/1.1 400 BAD REQUEST\r\nContent-Length: 0\r\n\r\n")
            return
        key = next(line.split(b": ")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key"))
        accept = b64encode(sha1(key + GUID).digest())
        connection.sendall(b"HTTP/1.1 101 OK\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n")
        self.connections += 1
        send(connection, '0{"sid":"a","upgrades":[],"pingInterval":25000,"pingTimeout":60000}')
        if self.protocol == "4":
            assert receive(connection) == "40"
        hello, opened = ['42["steer",' + json.dumps(steer(0, 0)) + "]"] * self.greets, '40{"sid":"b"}' if self.protocol == "4" else "40"
        for text in (opened, *hello) if self.late_greeting else (*hello, opened):
            send(connection, text)
        send(connection, "2" if self.protocol == "4" else "3probe")
        while True:
            text = receive(connection)
            if not text.startswith("42"):
                continue
            name, data = json.loads(text[2:])
            assert name == "telemetry"
            self.telemetry.append(data)
            for said in self.behaviour(len(self.telemetry) - 1, data):
                if said == HANG_UP:
                    return
                if isinstance(said, bytes):
                    connection.sendall(said)
                else:
                    send(connection, said if isinstance(said, str) else "42" + json.dumps(["steer", said]))


@contextmanager
def fake_drive_py(*given: Any, **named: Any) -> Iterator[FakeDrivePy]:
    server = FakeDrivePy(*given, **named)
    try:
        yield server
    finally:
        server.close()


def some(connection: socket.socket) -> bytes:
    data = connection.recv(1 << 16)
    if not data:
        raise EOFError
    return data


def exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        got = connection.recv(size - len(data))
        if not got:
            raise EOFError
        data += got
    return data


def framed(text: str) -> bytes:
    """Writes a text message as two frames, with a ping between them, as a server may."""
    data = text.encode()
    whole = b""
    for kind, payload in ((0x01, data[: len(data) // 2]), (0x89, b"there?"), (0x80, data[len(data) // 2 :])):
        size = bytes([len(payload)]) if len(payload) < 126 else bytes([126]) + len(payload).to_bytes(2, "big")
        whole += bytes([kind]) + size + payload
    return whole


def send(connection: socket.socket, text: str) -> None:
    connection.sendall(framed(text))


def receive(connection: socket.socket) -> str:
    """Returns the next text message; a client masks every frame."""
    while True:
        head = exactly(connection, 2)
        assert head[1] & 0x80, "a client's frames are masked"
        size = head[1] & 0x7F
        if size >= 126:
            size = int.from_bytes(exactly(connection, 2 if size == 126 else 8), "big")
        mask = exactly(connection, 4)
        payload = exactly(connection, size)
        if head[0] & 0x0F == 1:
            return bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload)).decode()


class FakeDonkey:
    """A Donkey client as gym-donkeycar is one; `run` is its program, in a thread of its own."""

    def __init__(self, program: Callable[[FakeDonkey], None], *, port: int = 0, listens: bool = False) -> None:
        self.buffer = ""
        self._program = program
        self._listener = socket.create_server(("127.0.0.1", 0)) if listens else None
        self.port = self._listener.getsockname()[1] if self._listener is not None else port
        self.error: BaseException | None = None
        self.thread = Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        if self._listener is not None:
            with self._listener:
                self.socket = self._listener.accept()[0]
        else:
            self.socket = socket.create_connection(("127.0.0.1", self.port))
        with self.socket:
            try:
                self._program(self)
            except (OSError, EOFError):
                pass
            except BaseException as error:
                self.error = error
                raise

    def say(self, **message: object) -> None:
        """Sends a message without anything behind it, as they do."""
        self.socket.sendall(json.dumps(message).encode())

    def control(self, steering: object = 0.0, throttle: object = 0.5, brake: object = 0.0) -> None:
        self.say(msg_type="control", steering=str(steering), throttle=str(throttle), brake=str(brake))

    def hear(self, kind: str) -> dict[str, Any]:
        """Returns the next message of a kind; messages end with a newline."""
        while True:
            while "\n" not in self.buffer:
                self.buffer += some(self.socket).decode()
            line, _, self.buffer = self.buffer.partition("\n")
            if line and (message := json.loads(line))["msg_type"] == kind:
                return message

    def load(self) -> None:
        """Goes through the menu until the car is there."""
        self.hear("scene_selection_ready")
        self.say(msg_type="get_scene_names")
        self.say(msg_type="load_scene", scene_name=self.hear("scene_names")["scene_names"][0])
        self.hear("car_loaded")
        self.control(0, 0, 1.0)
        self.say(msg_type="car_config", body_style="donkey")
