"""Protocol buffers on the wire, as far as an ONNX file needs them: fields in, fields out, nothing of what they mean.

Reference: Protocol Buffers Documentation, Encoding.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skidpad.core.errors import BadSubjectError

VARINT, FIXED64, CHUNK, FIXED32 = 0, 1, 2, 5
_FIXED = {FIXED64: 8, FIXED32: 4}
_MAX_VARINT_BYTES = 10
_MAX_FIELDS = 1_000_000
"""A thousand times what a large network has in one message; a file of nothing but tiny fields would keep the reader busy for minutes."""


class MalformedError(ValueError):
    """Bytes that are no message."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its number, how it is written, and its payload; `number_value` holds what a varint says, else 0.

    whole: the bytes from the tag to the end, to be written again as they are.
    """

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
    count = 0
    while place < size:
        start = place
        count += 1
        if count > _MAX_FIELDS:
            raise MalformedError(f"one message has more than {_MAX_FIELDS:,} fields")
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


FloatValues = NDArray[np.floating[Any]]

_FLOAT, _INT32, _STRING, _INT64, _FLOAT16, _DOUBLE, _BFLOAT16 = 1, 6, 8, 7, 10, 11, 16
FLOATING: Mapping[int, str] = {_FLOAT: "<f4", _FLOAT16: "<f2", _DOUBLE: "<f8", _BFLOAT16: "<u2"}
_ITEM_BITS = {1: 32, 2: 8, 3: 8, 4: 16, 5: 16, 6: 32, 7: 64, 9: 8, 10: 16, 11: 64, 12: 32, 13: 64, 14: 64, 15: 128, 16: 16}
_SMALLEST_NORMAL = {_FLOAT: np.finfo(np.float32).smallest_normal, _DOUBLE: np.finfo(np.float64).smallest_normal}


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor as the file holds it; `external` names the file beside the model that holds its bytes."""

    name: str
    dims: tuple[int, ...]
    data_type: int
    raw: memoryview | None
    typed: tuple[Field, ...]
    external: Mapping[str, str] | None
    message: memoryview = field(repr=False)

    @property
    def count(self) -> int:
        """How many numbers it holds."""
        return prod(self.dims)

    def floats(self) -> FloatValues | None:
        """Returns its numbers, flat, where they are floating-point numbers; bfloat16 as float32."""
        if self.data_type not in FLOATING:
            return None
        if self.raw is not None:
            values = np.frombuffer(self.raw, FLOATING[self.data_type])
        elif self.data_type in {_FLOAT, _DOUBLE}:
            values = np.frombuffer(b"".join(part.payload for part in self.typed), FLOATING[self.data_type])
        else:  # half precision in 32-bit numbers, as the format has it
            bits = np.array([number for part in self.typed for number in part.integers()], np.int64).astype(np.uint16)
            values = bits.view(FLOATING[self.data_type])
        if self.data_type == _BFLOAT16:
            values = (values.astype(np.uint32) << 16).view(np.float32)
        return values


def read_tensor(message: memoryview) -> Tensor:
    """Reads one tensor and checks that it holds as many bytes as its shape says."""
    name, data_type, raw, is_external = "", 0, None, False
    dims: list[int] = []
    typed: list[Field] = []
    external: dict[str, str] = {}
    for part in fields(message):
        match part.number:
            case 1:
                dims += part.integers()
            case 2:
                data_type = part.integer()
            case 4 | 5 | 6 | 7 | 10 | 11:
                typed.append(part)
            case 8:
                name = part.text()
            case 9:
                raw = part.chunk()
            case 13:
                key, value = _entry(part.chunk())
                external[key] = value
            case 14:
                is_external = part.integer() == 1
    tensor = Tensor(name, tuple(dims), data_type, raw, tuple(typed), external if is_external or external else None, message)
    _check(tensor)
    return tensor


def _entry(message: memoryview) -> tuple[str, str]:
    texts = {part.number: part.text() for part in fields(message)}
    return texts.get(1, ""), texts.get(2, "")


def _check(tensor: Tensor) -> None:
    if any(size < 0 for size in tensor.dims):
        raise MalformedError(f"the tensor {tensor.name!r} has the shape {tensor.dims}")
    bits = _ITEM_BITS.get(tensor.data_type)
    if tensor.raw is not None and bits is not None and tensor.count * bits != len(tensor.raw) * 8:
        raise MalformedError(f"the tensor {tensor.name!r} of shape {tensor.dims} holds {len(tensor.raw)} bytes")
    if tensor.data_type in {_FLOAT, _DOUBLE} and tensor.raw is None and tensor.external is None:
        kind = FIXED32 if tensor.data_type == _FLOAT else FIXED64
        if any(part.kind not in {kind, CHUNK} for part in tensor.typed):
            raise MalformedError(f"the tensor {tensor.name!r} holds other numbers than its type says")
        if sum(len(part.payload) for part in tensor.typed) * 8 != tensor.count * (bits or 0):
            raise MalformedError(f"the tensor {tensor.name!r} of shape {tensor.dims} holds too few or too many numbers")


def check_values(file: Path, tensor: Tensor) -> None:
    """Refuses texts, and weights that are no finite numbers; a single infinite number may be a bound and stays."""
    if tensor.data_type == _STRING:
        raise BadSubjectError(f"{file} holds texts in {tensor.name!r}; skidpad runs networks of numbers")
    values = tensor.floats() if tensor.external is None else None
    if values is not None and not (np.isfinite(values).all() or (tensor.count == 1 and not np.isnan(values).any())):
        raise BadSubjectError(f"{file}: the weights {tensor.name!r} hold NaN or infinity; train or export the network again")


def brought_in(file: Path, tensor: Tensor) -> Tensor:
    """Returns the tensor with its bytes, read from the file beside the model where they are there."""
    if tensor.external is None:
        return tensor
    location = tensor.external.get("location", "")
    folder = file.resolve().parent
    target = (folder / location).resolve()
    if not location or not target.is_relative_to(folder):
        raise BadSubjectError(
            f"{file} keeps {tensor.name!r} in {location!r}, outside its own folder, where skidpad does not look; "
            "save it with its weights inside"
        )
    bits = _ITEM_BITS.get(tensor.data_type)
    try:
        offset = int(tensor.external.get("offset", "0"))
        if bits is None or offset < 0:
            raise MalformedError("neither its type nor its place can be read")
        size = tensor.count * bits // 8
        if not target.is_file() or offset + size > target.stat().st_size:
            raise MalformedError(f"{size} bytes are not there")
        with target.open("rb") as stream:
            stream.seek(offset)
            raw = stream.read(size)
    except (OSError, ValueError) as error:
        raise BadSubjectError(f"{file} keeps {tensor.name!r} in {location!r}, which cannot be read ({error}); copy both files") from error
    made = Tensor(tensor.name, tensor.dims, tensor.data_type, memoryview(raw), (), None, memoryview(b""))
    return Tensor(made.name, made.dims, made.data_type, made.raw, (), None, memoryview(written(made, raw)))


def without_subnormals(tensor: Tensor) -> Tensor:
    """Returns the tensor with numbers too small for full precision (below 1.2e-38) set to zero.

    They change no answer, but processors take a hundred times as long for each: a network whose training drove its weights
    towards zero can run ten times slower for them.
    """
    smallest = _SMALLEST_NORMAL.get(tensor.data_type)
    values = tensor.floats()
    if smallest is None or values is None:
        return tensor
    tiny = (np.abs(values) < smallest) & (values != 0)
    if not tiny.any():
        return tensor
    raw = np.where(tiny, np.zeros((), values.dtype), values).tobytes()
    return Tensor(tensor.name, tensor.dims, tensor.data_type, memoryview(raw), (), None, memoryview(written(tensor, raw)))


def written(tensor: Tensor, raw: bytes) -> bytes:
    """Writes the tensor with other bytes."""
    dims = b"".join(number_field(1, size) for size in tensor.dims)
    return b"".join((dims, number_field(2, tensor.data_type), text_field(8, tensor.name), chunk_field(9, raw)))
