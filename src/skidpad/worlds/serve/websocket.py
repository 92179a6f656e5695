"""A WebSocket client of the standard library: text messages over a plain connection, which is all that drive.py speaks.

Reference: RFC 6455. Deviates: no TLS, no extensions, no binary messages out. A library would bring more than it saves here.
"""

from __future__ import annotations

import os
import socket
from base64 import b64encode
from hashlib import sha1
from time import monotonic

import numpy as np

from skidpad.worlds.serve.pilot import FLOOD_S, DisconnectedError

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
