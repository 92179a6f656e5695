"""The pictures within ROS messages: raw in the usual encodings, or compressed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import cv2
import numpy as np

from skidpad.core.images import IntArray, NumpyFrames, decode, why_not_decoded
from skidpad.drives.drive import Problem, ProblemKind
from skidpad.drives.message_types import COMPRESSED_IMAGE, MessageType
from skidpad.drives.pictures import gone
from skidpad.drives.recording import BrokenRecordingError, Recording

_TO_RGB: Mapping[str, tuple[int, int | None]] = {
    "rgb8": (3, None),
    "bgr8": (3, cv2.COLOR_BGR2RGB),
    "8UC3": (3, cv2.COLOR_BGR2RGB),
    "rgba8": (4, cv2.COLOR_RGBA2RGB),
    "bgra8": (4, cv2.COLOR_BGRA2RGB),
    "mono8": (1, cv2.COLOR_GRAY2RGB),
    "8UC1": (1, cv2.COLOR_GRAY2RGB),
    "bayer_rggb8": (1, cv2.COLOR_BayerRGGB2RGB),
    "bayer_bggr8": (1, cv2.COLOR_BayerBGGR2RGB),
    "bayer_gbrg8": (1, cv2.COLOR_BayerGBRG2RGB),
    "bayer_grbg8": (1, cv2.COLOR_BayerGRBG2RGB),
    "yuv422": (2, cv2.COLOR_YUV2RGB_UYVY),
    "yuv422_yuy2": (2, cv2.COLOR_YUV2RGB_YUY2),
}
"""Bytes a pixel and OpenCV's conversion. Reference: ROS, sensor_msgs/image_encodings.h; 8UC3 is BGR as in cv_bridge."""


@dataclass(frozen=True, eq=False, slots=True)
class MessageFrames:
    """Frames that are messages of a recording.

    places: (N, 2), sizes: (N,) bytes, checksums: (N,) CRC-32 of each message when the recording was indexed.
    """

    recording: Recording
    kind: MessageType
    frame_ids: Sequence[str]
    places: IntArray
    sizes: IntArray
    checksums: IntArray

    def read(self, index: int) -> NumpyFrames | Problem:
        """Fetches and decodes one message."""
        try:
            start, within = self.places[index].tolist()
            data = self.recording.fetch((start, within))
            if len(data) != self.sizes[index] or crc32(data) != self.checksums[index]:
                return Problem(ProblemKind.CORRUPT, self.frame_ids[index], "the recording changed after it was opened")
            return rgb_of(self.kind, data)
        except (OSError, BrokenRecordingError) as error:
            missing = next((path for path in self.recording.paths if not path.exists()), None)
            if missing is not None:
                raise gone(missing) from None
            return Problem(ProblemKind.CORRUPT, self.frame_ids[index], str(error))

    def fingerprint(self, index: int) -> str:
        """Returns size and checksum of the message."""
        return f"{self.sizes[index]}-{self.checksums[index]:08x}"


def rgb_of(kind: MessageType, data: bytes) -> NumpyFrames:
    """Decodes the picture of one message; raises BrokenRecordingError where it holds none."""
    message = kind.read(data)
    if kind.topic.kind != COMPRESSED_IMAGE:
        return _raw(message)
    frame = decode(bytes(message.data))
    if frame is None:
        raise BrokenRecordingError(f"a picture of format {message.format!r}: {why_not_decoded(bytes(message.data))}")
    return frame


def _raw(message: Any) -> NumpyFrames:
    if message.encoding not in _TO_RGB:
        raise BrokenRecordingError(f"pictures of encoding {message.encoding!r} are not read; known: {', '.join(_TO_RGB)}")
    channels, conversion = _TO_RGB[message.encoding]
    height, width, step = int(message.height), int(message.width), int(message.step)
    data = np.asarray(message.data, np.uint8)
    if min(height, width) < 1 or step < width * channels or len(data) < step * height:
        raise BrokenRecordingError(f"a picture of {width}x{height} in rows of {step} bytes has {len(data)} bytes")
    rows = data[: step * height].reshape(height, step)[:, : width * channels]
    pixels = np.ascontiguousarray(rows).reshape((height, width) if channels == 1 else (height, width, channels))
    if conversion is None:
        return pixels
    try:
        return np.asarray(cv2.cvtColor(pixels, conversion), np.uint8)
    except cv2.error as error:  # a Bayer picture of one row, say
        raise BrokenRecordingError(f"a picture of {width}x{height} as {message.encoding} cannot be converted") from error
