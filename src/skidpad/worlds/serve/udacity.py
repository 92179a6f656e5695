"""The Udacity simulator's side of the wire: a socket.io client that shows drive.py what its car sees and takes its steering."""

from __future__ import annotations

import json
from base64 import b64encode
from time import monotonic, sleep

from skidpad.core.images import encode
from skidpad.worlds.serve.pilot import FLOOD_S, Answer, DisconnectedError, FaultError, GoneError, Moment, clamped, number
from skidpad.worlds.serve.simulators import MPH_M_S, UDACITY
from skidpad.worlds.serve.websocket import HandshakeError, WebSocket

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
