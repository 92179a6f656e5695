"""A tool of the self-driving-car test prioritisation competition of 2026: its gRPC interface over `statistics.orders`.

The interface has four small messages. They are read and written here field by field, so that nothing has to be generated.

Reference: github.com/christianbirchler-org/sdc-testing-competition, competitions/2026.md and its interface description.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from skidpad.core.errors import SkidpadError, optional
from skidpad.core.images import FloatArray
from skidpad.statistics.orders import rank_roads

SERVICE, PORT = "CompetitionTool", 4545
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_MAX_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, eq=False)
class RoadTest:
    """One test: its id, and the points of its road in order, (N, 2)."""

    test_id: str
    road_m: FloatArray


class DamagedMessageError(SkidpadError):
    """A message that is none of the interface's."""


def fields_of(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yields the number and the value of each field of a protobuf message: whole numbers, or bytes."""
    place = 0
    try:
        while place < len(data):
            key, place = _varint(data, place)
            kind = key & 7
            value: int | bytes
            if kind == _VARINT:
                value, place = _varint(data, place)
            else:
                size, place = _size(data, place, kind)
                value, place = data[place : place + size], place + size
            yield key >> 3, value
    except IndexError as error:
        raise DamagedMessageError(f"a message of {len(data)} bytes is cut off") from error


def _size(data: bytes, place: int, kind: int) -> tuple[int, int]:
    """Returns how long a value is and where it begins."""
    if kind not in {_EIGHT, _BYTES, _FOUR}:
        raise DamagedMessageError(f"a field of a message has the unknown kind {kind}; is the client of another interface?")
    size = {_EIGHT: 8, _FOUR: 4}.get(kind)
    if size is None:
        size, place = _varint(data, place)
    if place + size > len(data):
        raise IndexError
    return size, place


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7
        if shift > 63:
            raise DamagedMessageError("a number of a message is longer than 64 bits")


def read_test(data: bytes) -> RoadTest:
    """Reads an SDCTestCase; points come in the order of their sequence numbers."""
    test_id, points = "", []
    for number, value in fields_of(data):
        if number == 1 and isinstance(value, bytes):
            test_id = value.decode("utf-8", "replace")
        elif number == 2 and isinstance(value, bytes):
            point = dict(fields_of(value))
            x, y = (_float(point.get(which, b"\0\0\0\0")) for which in (2, 3))
            points.append((point.get(1, 0), x, y))
    points.sort(key=lambda point: point[0])
    return RoadTest(test_id, np.array([point[1:] for point in points], np.float64).reshape(-1, 2))


def _float(value: int | bytes) -> float:
    if not isinstance(value, bytes) or len(value) != 4:
        raise DamagedMessageError("a road point's x and y are 32-bit floats; is the client of another interface?")
    return float(struct.unpack("<f", value)[0])


def read_oracle(data: bytes) -> tuple[RoadTest, bool]:
    """Reads an Oracle: a test and whether it failed."""
    found = dict(fields_of(data))
    test = found.get(1, b"")
    return read_test(test if isinstance(test, bytes) else b""), bool(found.get(2, 0))


def write_text(text: str) -> bytes:
    """Writes a message whose only field, the first, is a text: NameReply and PrioritizationReply."""
    data, size, head = text.encode(), len(text.encode()), b""
    while size > 127:
        head, size = head + bytes([size & 127 | 128]), size >> 7
    return (b"\x0a" + head + bytes([size]) + data) if data else b""


class Prioritiser:
    """Answers the three calls; what Initialize brought is kept until the next one."""

    def __init__(self) -> None:
        self._seen: list[tuple[RoadTest, bool]] = []

    def name(self, _request: bytes, _context: Any) -> bytes:
        """Says what the tool is called."""
        return write_text("skidpad")

    def initialize(self, oracles: Iterable[tuple[RoadTest, bool]], _context: Any) -> bytes:
        """Takes tests whose verdicts are known; answers that it has."""
        self._seen = list(oracles)
        return b"\x08\x01"

    def prioritize(self, tests: Iterable[RoadTest], _context: Any) -> Iterator[bytes]:
        """Takes all tests, then names them in the order in which they should run."""
        given = list(tests)
        failed = np.array([each for _, each in self._seen], np.bool_)
        for place in rank_roads([each.road_m for each in given], [test.road_m for test, _ in self._seen], failed).tolist():
            yield write_text(given[place].test_id)


@contextmanager
def serving(host: str, port: int) -> Iterator[int]:
    """Serves the interface, and gives its port; 0 takes a free one."""
    grpc = optional("grpc", "grpcio", "competition", "the competition's interface")
    tool = Prioritiser()
    handlers = {
        "Name": grpc.unary_unary_rpc_method_handler(tool.name),
        "Initialize": grpc.stream_unary_rpc_method_handler(tool.initialize, request_deserializer=read_oracle),
        "Prioritize": grpc.stream_stream_rpc_method_handler(tool.prioritize, request_deserializer=read_test),
    }
    options = [("grpc.max_receive_message_length", _MAX_BYTES), ("grpc.so_reuseport", 0)]
    server = grpc.server(ThreadPoolExecutor(2, thread_name_prefix="skidpad-competition"), options=options)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    try:
        bound = server.add_insecure_port(f"{host}:{port}")
    except RuntimeError as error:
        raise SkidpadError(f"cannot listen at {host}:{port}; choose another --port") from error
    server.start()
    try:
        yield int(bound)
    finally:
        server.stop(None)
