"""Protocol buffers on the wire, as far as an ONNX file needs them: fields in, fields out, nothing of what they mean.

Not by the package onnx: protobuf 7.36 takes 73 to 93 bytes of memory for each byte of a file of empty parts (1.5 to 1.9 GB for 20 MB), so
that a file of 2 GB ends the machine. Here a message has a bounded number of fields, and what is never looked at is never unpacked.

Reference: Protocol Buffers Documentation, Encoding.
"""

from collections.abc import Iterator
from dataclasses import dataclass

VARINT, FIXED64, CHUNK, FIXED32 = 0, 1, 2, 5
_FIXED = {FIXED64: 8, FIXED32: 4}
_MAX_VARINT_BYTES = 10


class MalformedError(ValueError):
    """Bytes that are no message."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message. number_value: what a varint says, else 0. whole: the bytes from the tag on, to be written again."""

    number: int
    kind: int
    number_value: int
    payload: memoryview
    whole: memoryview

    def chunk(self) -> memoryview:
        """Returns the payload of a text, a message or packed numbers."""
        if self.kind != CHUNK:
            raise MalformedError(f"field {self.number} is a number where bytes belong")
        return self.payload

    def text(self) -> str:
        """Returns the payload as text."""
        try:
            return str(self.chunk(), "utf-8")
        except UnicodeDecodeError as error:
            raise MalformedError(f"field {self.number} is no text") from error

    def integer(self) -> int:
        """Returns a signed whole number."""
        if self.kind != VARINT:
            raise MalformedError(f"field {self.number} holds bytes where a number belongs")
        return self.number_value

    def integers(self) -> list[int]:
        """Returns the signed whole numbers of a repeated field, packed into one or alone."""
        if self.kind == VARINT:
            return [self.number_value]
        found: list[int] = []
        place = 0
        data = self.chunk()
        while place < len(data):
            value, place = _varint(data, place)
            found.append(_signed(value))
        return found


def fields(message: memoryview) -> Iterator[Field]:
    """Yields the fields of a message in order; groups, which ONNX does not use, are refused."""
    place, size = 0, len(message)
    while place < size:
        start = place
        tag, place = _varint(message, place)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise MalformedError("a field has no number")
        value, begin = 0, place
        if kind == VARINT:
            value, place = _varint(message, place)
        elif kind in _FIXED:
            place += _FIXED[kind]
        elif kind == CHUNK:
            length, begin = _varint(message, place)
            place = begin + length
        else:
            raise MalformedError(f"field {number} is written in the unknown way {kind}")
        if place > size:
            raise MalformedError(f"it ends {place - size} bytes too early")
        yield Field(number, kind, _signed(value), message[begin:place], message[start:place])


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    value = 0
    for count, byte in enumerate(data[place : place + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return value, place + count + 1
    raise MalformedError("a number does not end")


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def varint(value: int) -> bytes:
    """Writes a whole number of 64 bits."""
    rest = value & ((1 << 64) - 1)
    written = bytearray()
    while rest >= 0x80:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    written.append(rest)
    return bytes(written)


def number_field(number: int, value: int) -> bytes:
    """Writes a field that holds a whole number."""
    return varint(number << 3 | VARINT) + varint(value)


def chunk_field(number: int, *parts: bytes | memoryview) -> bytes:
    """Writes a field that holds bytes, given in parts."""
    return b"".join((varint(number << 3 | CHUNK), varint(sum(map(len, parts))), *parts))


def text_field(number: int, text: str) -> bytes:
    """Writes a field that holds text."""
    return chunk_field(number, text.encode())
