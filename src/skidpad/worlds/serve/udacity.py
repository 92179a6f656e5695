"""The Udacity simulator's side of the wire: a socket.io client that shows drive.py what its car sees and takes its steering."""

from __future__ import annotations

import json
import os
import socket
from base64 import b64encode
from hashlib import sha1
from time import monotonic, sleep

import numpy as np

from skidpad.core.images import encode
from skidpad.worlds.serve.simulators import (
    FLOOD_S,
    MPH_M_S,
    UDACITY,
    Answer,
    DisconnectedError,
    FaultError,
    GoneError,
    Moment,
    clamped,
    number,
)

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_MAX_HEAD = 64 * 1024
MAX_MESSAGE = 1 << 20
"""Bytes; what drive.py answers has about 60."""
_CONTINUED, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10


class HandshakeError(DisconnectedError):
    """A server that answers, but not with a WebSocket; status: its HTTP status, 0 for none."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class WebSocket:
    """One connection; `receive` waits until a deadline, and answers pings by itself."""

    def __init__(self, host: str, port: int, path: str, timeout_s: float) -> None:
        self._socket = socket.create_connection((host, port), timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray()
        self._parts = bytearray()
        try:
            self._shake_hands(host, port, path, monotonic() + timeout_s)
        except BaseException:
            self.close()
            raise

    def send(self, text: str) -> None:
        """Sends one text message."""
        self._send(_TEXT, text.encode())

    def receive(self, deadline: float) -> str | None:
        """Returns the next text message, or None where none came until the deadline of `time.monotonic`."""
        while True:
            frame = self._frame()
            if frame is None:
                if not self._fill(deadline):
                    return None
                continue
            last, kind, payload = frame
            if kind == _PING:
                if monotonic() > deadline + FLOOD_S:
                    raise DisconnectedError("the client sends pings without end")
                self._send(_PONG, payload)
            elif kind == _CLOSE:
                raise DisconnectedError("the client closed the connection")
            elif kind in {_CONTINUED, _TEXT, _BINARY}:
                self._parts += payload
                if len(self._parts) > MAX_MESSAGE:
                    raise DisconnectedError(f"the client sent a message of more than {MAX_MESSAGE} bytes")
                if last:
                    whole, self._parts = bytes(self._parts), bytearray()
                    return whole.decode("utf-8", "replace")
            elif kind != _PONG:
                raise DisconnectedError(f"the client sent a WebSocket frame of the unknown kind {kind}")

    def close(self) -> None:
        """Hangs up."""
        self._socket.close()

    def _send(self, kind: int, payload: bytes) -> None:
        # A client masks what it sends; the mask has to differ, not to be secret from anyone here.
        mask = os.urandom(4)
        size = len(payload)
        head = bytes([0x80 | kind])
        if size < 126:
            head += bytes([0x80 | size])
        elif size < 1 << 16:
            head += bytes([0x80 | 126]) + size.to_bytes(2, "big")
        else:
            head += bytes([0x80 | 127]) + size.to_bytes(8, "big")
        key = np.frombuffer((mask * (size // 4 + 1))[:size], np.uint8)
        try:
            self._socket.sendall(head + mask + (np.frombuffer(payload, np.uint8) ^ key).tobytes())
        except OSError as error:
            raise DisconnectedError(f"the connection to the client broke ({error})") from error

    def _frame(self) -> tuple[bool, int, bytes] | None:
        """Takes one frame out of the buffer: whether it is the last of its message, its kind and what it holds."""
        data = self._buffer
        if len(data) < 2:
            return None
        size, start = data[1] & 0x7F, 2
        if size >= 126:
            start = 4 if size == 126 else 10
            if len(data) < start:
                return None
            size = int.from_bytes(data[2:start], "big")
        if size > MAX_MESSAGE or data[0] & 0x70 or data[1] & 0x80:
            raise DisconnectedError("the client sent something that is no WebSocket frame, or one beyond all measure")
        if len(data) < start + size:
            return None
        payload = bytes(data[start : start + size])
        last, kind = bool(data[0] & 0x80), data[0] & 0x0F
        del data[: start + size]
        return last, kind, payload

    def _fill(self, deadline: float) -> bool:
        """Reads what has come, waiting for it until the deadline; returns whether anything came."""
        self._socket.settimeout(max(deadline - monotonic(), 1e-4))
        try:
            data = self._socket.recv(1 << 16)
        except TimeoutError:
            return False
        except OSError as error:
            raise DisconnectedError(f"the connection to the client broke ({error})") from error
        finally:
            self._socket.settimeout(None)
        if not data:
            raise DisconnectedError("the client closed the connection")
        self._buffer += data
        return True

    def _shake_hands(self, host: str, port: int, path: str, deadline: float) -> None:
        key = b64encode(os.urandom(16))
        lines = [f"GET {path} HTTP/1.1", f"Host: {host}:{port}", "Upgrade: websocket", "Connection: Upgrade"]
        lines += [f"Sec-WebSocket-Key: {key.decode()}", "Sec-WebSocket-Version: 13", "", ""]
        self._socket.sendall("\r\n".join(lines).encode())
        while b"\r\n\r\n" not in self._buffer:
            if len(self._buffer) > _MAX_HEAD or not self._fill(deadline):
                raise HandshakeError("what listens there does not answer as a WebSocket server")
        head, _, rest = bytes(self._buffer).partition(b"\r\n\r\n")
        self._buffer = bytearray(rest)
        first, *others = head.decode("latin-1").split("\r\n")
        words = first.split()
        status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
        if status != 101:
            raise HandshakeError(f"what listens there answers {first[:80]!r} instead of opening a WebSocket", status)
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in others)}
        accept = b64encode(sha1(key + _GUID, usedforsecurity=False).digest()).decode()
        if fields.get("sec-websocket-accept") != accept:
            raise HandshakeError("what listens there does not know how to open a WebSocket")


JPEG_QUALITY = 75
"""Unity's own."""
_RETRY_S = 0.25
_QUIET_S = 0.5
"""How long a server may take to speak first: version 3 says `40` by itself, version 4 waits for ours."""
_PING_S = 20.0
"""How often a client of version 3 has to ping; servers allow 25 s and more."""


class UdacityPilot:
    """Asks one unmodified drive.py, whichever python-socketio it runs on (Engine.IO 3 or 4).

    timeout_s: for an answer. wait_s: for drive.py to be there.
    """

    def __init__(self, host: str, port: int, timeout_s: float, wait_s: float) -> None:
        self._host, self._port = host, port
        self._timeout_s, self._wait_s, self._flood_s = timeout_s, wait_s, min(timeout_s, FLOOD_S)
        self._socket: WebSocket | None = None
        self._pings = False
        self._pinged = 0.0

    def begin(self) -> None:
        """Connects, where there is no connection, as soon as drive.py listens."""
        if self._socket is not None:
            return
        deadline, reason = monotonic() + self._wait_s, "nothing listens there"
        while True:
            try:
                self._connect()
            except (OSError, DisconnectedError) as error:
                reason = str(error)
            else:
                return
            if monotonic() > deadline:
                raise GoneError(
                    f"no drive.py was reached at {self._host}:{self._port} within {self._wait_s:g} s ({reason}); "
                    "start it, as in: python drive.py model.h5"
                )
            sleep(_RETRY_S)

    def ask(self, moment: Moment) -> Answer:
        """Shows drive.py a frame and waits for its `steer`; a `steer` that came before the frame answers no frame."""
        if self._socket is None:
            raise DisconnectedError("there is no connection to drive.py")
        try:
            return self._asked(self._socket, moment)
        except FaultError:
            # Its steer is for every client, so that a late one would pass for the answer to another frame.
            self.close()
            raise

    def _asked(self, socket: WebSocket, moment: Moment) -> Answer:
        unasked = self._drain(socket)
        socket.send(_event("telemetry", _telemetry(moment)))
        deadline = monotonic() + self._timeout_s
        while (event := self._event(socket, deadline)) is not None:
            name, data = event
            if name == "steer":
                return _answer(data, moment.step, unasked)
        raise FaultError(
            f"drive.py did not answer frame {moment.step} within {self._timeout_s:g} s; an error in its handler looks like this, "
            "so read what drive.py itself has printed"
        )

    def end(self, moment: Moment) -> None:
        """Does nothing: to drive.py one scenario is as good as the next."""

    def close(self) -> None:
        """Hangs up."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connect(self) -> None:
        try:
            socket = WebSocket(self._host, self._port, "/socket.io/?EIO=4&transport=websocket", self._timeout_s)
        except HandshakeError as error:
            if error.status != 400:
                raise
            # Engine.IO 3.14 refuses to speak of version 4.
            socket = WebSocket(self._host, self._port, "/socket.io/?EIO=3&transport=websocket", self._timeout_s)
        try:
            self._open(socket)
        except BaseException:
            socket.close()
            raise
        self._socket = socket

    def _open(self, socket: WebSocket) -> None:
        deadline = monotonic() + self._timeout_s
        first = socket.receive(deadline)
        if first is None or not first.startswith("0"):
            raise DisconnectedError(f"the server there speaks no Engine.IO; it began with {str(first)[:40]!r}")
        said = socket.receive(monotonic() + _QUIET_S)
        self._pings = said is not None
        self._pinged = monotonic()
        if said is None:
            socket.send("40")
        # drive.py sends a first `steer`, of 0 and 0, as soon as somebody connects: before the 40, after it, or, written otherwise, never.
        steered = opened = False
        while not (steered and opened):
            if said is not None:
                opened |= said.startswith("40")
                steered |= said.startswith('42["steer"')
                if said.startswith("44"):
                    raise DisconnectedError(f"drive.py refuses the connection: {said[2:200]}")
            if steered and opened:
                break
            said = socket.receive(monotonic() + _QUIET_S if opened else deadline)
            if said is None:
                break
        if not opened:
            raise DisconnectedError("the server there speaks Engine.IO, but no socket.io")

    def _drain(self, socket: WebSocket) -> int:
        """Throws away what has come unasked; returns how many of it were steering."""
        unasked, until = 0, monotonic() + self._flood_s
        while (event := self._event(socket, monotonic())) is not None:
            unasked += event[0] == "steer"
            if monotonic() > until:
                raise FaultError(f"drive.py sends without being asked and does not stop: {unasked} answers in {self._flood_s:g} s")
        return unasked

    def _event(self, socket: WebSocket, deadline: float) -> tuple[str, object] | None:
        """Returns the next event and what it brings; keeps the connection alive meanwhile."""
        while True:
            if monotonic() > deadline + self._flood_s:
                raise FaultError("drive.py sends pings without end and no answer")
            if self._pings and monotonic() - self._pinged > _PING_S:
                socket.send("2")
                self._pinged = monotonic()
            text = socket.receive(min(deadline, self._pinged + _PING_S) if self._pings else deadline)
            if text is None:
                if monotonic() >= deadline:
                    return None
                continue
            if text.startswith("2"):
                socket.send("3" + text[1:])
            elif text.startswith(("1", "41")):
                raise DisconnectedError("drive.py ended the connection")
            elif text.startswith("42"):
                try:
                    parts = json.loads(text[2:])
                except (ValueError, RecursionError):
                    raise FaultError(f"drive.py sent an event that is no JSON: {text[:80]!r}") from None
                if isinstance(parts, list) and parts and isinstance(parts[0], str):
                    return parts[0], parts[1] if len(parts) > 1 else None


def _event(name: str, data: object) -> str:
    return "42" + json.dumps([name, data], separators=(",", ":"))


def _telemetry(moment: Moment) -> dict[str, str]:
    return {
        "steering_angle": f"{UDACITY.road_wheel_deg(moment.steering_rad):.4f}",
        "throttle": f"{moment.pedal:.4f}",
        "speed": f"{moment.speed_m_s / MPH_M_S:.4f}",
        "image": b64encode(encode(moment.frame, ".jpg", JPEG_QUALITY)).decode("ascii"),
    }


def _answer(data: object, frame: int, unasked: int) -> Answer:
    if not isinstance(data, dict):
        raise FaultError(f"drive.py answered {str(data)[:40]!r} at frame {frame}; a steer holds steering_angle and throttle")
    steering, throttle = (number(data.get(name), name, frame) for name in ("steering_angle", "throttle"))
    held = clamped(steering), clamped(throttle)
    return Answer(UDACITY.steering_rad(held[0]), held[1], held != (steering, throttle), unasked)
