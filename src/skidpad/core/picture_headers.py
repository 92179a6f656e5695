"""How large a picture says it is, read from its header alone: a few bytes of a file may stand for gigabytes of pixels."""

import re
import struct
from collections.abc import Callable

_PPM = re.compile(rb"P[1-6](?:\s|#[^\n]*\n)+(\d{1,9})(?:\s|#[^\n]*\n)+(\d{1,9})\s")
_JPEG_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xD9)})
_JPEG_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_TIFF_WIDTH, _TIFF_HEIGHT = 256, 257


def stated_size(data: bytes) -> tuple[int, int] | None:
    """Returns (width, height) in pixels of a JPEG, PNG, BMP, WebP, TIFF or PPM; None where the bytes begin like none of them."""
    read = next((read for start, read in _READERS.items() if data.startswith(start)), None)
    try:
        return None if read is None else read(data)
    except struct.error:  # the header itself is cut off
        return None


def _jpeg(data: bytes) -> tuple[int, int] | None:
    """Goes from marker to marker as decoders do: what stands between two segments is skipped, thumbnails lie inside segments."""
    place = 2
    while (place := data.find(b"\xff", place)) >= 0 and place + 1 < len(data):
        marker = data[place + 1]
        if marker in {0x00, 0xFF}:
            place += 1
        elif marker in _JPEG_WITHOUT_LENGTH:
            place += 2
        elif marker in _JPEG_SIZES:
            height, width = struct.unpack_from(">HH", data, place + 5)
            return width, height
        else:
            place += 2 + max(int(struct.unpack_from(">H", data, place + 2)[0]), 2)
    return None


def _bmp(data: bytes) -> tuple[int, int]:
    is_old = struct.unpack_from("<I", data, 14)[0] == 12
    width, height = struct.unpack_from("<HH" if is_old else "<ii", data, 18)
    return abs(width), abs(height)  # a negative height means: rows from the top


def _webp(data: bytes) -> tuple[int, int] | None:
    if data[8:12] != b"WEBP":
        return None
    kind = data[12:16]
    if kind == b"VP8X":
        low_w, high_w, low_h, high_h = struct.unpack_from("<HBHB", data, 24)
        return (low_w | high_w << 16) + 1, (low_h | high_h << 16) + 1
    if kind == b"VP8L":
        bits = struct.unpack_from("<I", data, 21)[0]
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None


def _tiff(data: bytes) -> tuple[int, int] | None:
    order = "<" if data.startswith(b"II") else ">"
    start = struct.unpack_from(f"{order}I", data, 4)[0]
    sizes: dict[int, int] = {}
    for entry in range(struct.unpack_from(f"{order}H", data, start)[0]):
        tag, kind = struct.unpack_from(f"{order}HH", data, start + 2 + 12 * entry)
        if tag in {_TIFF_WIDTH, _TIFF_HEIGHT}:
            sizes[tag] = struct.unpack_from(f"{order}{'H' if kind == 3 else 'I'}", data, start + 10 + 12 * entry)[0]
    return (sizes[_TIFF_WIDTH], sizes[_TIFF_HEIGHT]) if len(sizes) == 2 else None


def _png(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def _ppm(data: bytes) -> tuple[int, int] | None:
    found = _PPM.match(data)
    return (int(found[1]), int(found[2])) if found else None


_READERS: dict[bytes, Callable[[bytes], tuple[int, int] | None]] = {
    b"\xff\xd8": _jpeg,
    b"\x89PNG\r\n\x1a\n": _png,
    b"BM": _bmp,
    b"RIFF": _webp,
    b"II*\0": _tiff,
    b"MM\0*": _tiff,
    b"P": _ppm,
}
"""Who reads the size, by the first bytes of a file."""
