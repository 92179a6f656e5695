"""Drives out of ROS messages: the pictures of one topic, raw or compressed, with the nearest steering angle of another."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any
from zlib import crc32

import cv2
import numpy as np

from skidpad.core.errors import BadDriveError, UnknownNameError
from skidpad.core.files import open_regular
from skidpad.core.images import FloatArray, IntArray, NumpyFrames, decode, why_not_decoded
from skidpad.core.units import AngleUnit, Axle
from skidpad.drives.drive import Drive, LabelConvention, Problem, ProblemKind
from skidpad.drives.frames import Names, gone
from skidpad.drives.indexing import RecordingIndex, cached, matched_labels, nearest
from skidpad.drives.readers import Option, Options
from skidpad.drives.recording import (
    COMPRESSED_IMAGE,
    IMAGE,
    STEERING_FIELDS,
    BrokenRecordingError,
    Damage,
    Encoding,
    Message,
    MessageType,
    Recording,
    Topic,
)

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


OPTIONS = (
    Option("image", "topic of the camera; not given: the only one with pictures"),
    Option("steering", "topic of the steering angle; not given: the only one with such a field; none: no labels"),
    Option("field", "field of the steering message, as steering_wheel_angle or status.angle"),
    Option("unit", "unit of that field: rad, deg or scaled25", AngleUnit.RAD.value),
    Option("tolerance", "seconds by which a label may be off its frame", "0.1"),
    Option("clock", "header: stamps of the messages, log: times of recording", "header"),
)
"""The options of every reader of messages."""

_NO_TOPIC = "none"
_MAX_STAMP_NS = 1 << 62  # the year 2116; differences of stamps must fit into 64 bits


class RecordedClock(Enum):
    """Whose time orders the frames and matches the labels."""

    HEADER = "header"
    LOG = "log"


@dataclass(frozen=True, slots=True)
class _Channel:
    """One topic by name; a ROS 1 bag may hold it once for each publisher."""

    kind: MessageType
    keys: frozenset[int]
    clock: RecordedClock

    def stamp_ns(self, message: Message) -> int:
        """Returns the time of a message; of its recording where the header's was never set."""
        stamp = message.log_ns if self.clock is RecordedClock.LOG else self.kind.stamp_ns(message.data) or message.log_ns
        if not 0 <= stamp < _MAX_STAMP_NS:
            raise BrokenRecordingError(f"a message on {self.kind.topic.name} has the stamp {stamp}")
        return stamp


def recorded_drive(name: str, recording: Recording, options: Options) -> Drive:
    """Indexes a recording in one pass: every picture's place and stamp, every steering angle."""
    tolerance_s = options.seconds("tolerance")
    unit, clock = options.choice("unit", AngleUnit), options.choice("clock", RecordedClock)
    for path in recording.paths:
        open_regular(path).close()  # the libraries that read messages open whatever bears the name
    topics = recording.topics
    if not topics:
        raise BadDriveError(
            f"the recording {name!r} holds no topics; of one that was cut off, a compressed chunk is lost unless it is whole"
        )
    camera = _channel(_image_topic(topics, options.text("image")), topics, clock)
    steering, angle_field = _steering(topics, options, clock)
    wanted = f"{camera.kind.topic.name} {steering.kind.topic.name if steering else ''} {angle_field} {clock.value}"
    index = cached(recording.paths, wanted, lambda: _scanned(recording, camera, steering, angle_field))
    if not len(index.arrays["stamps"]):
        why = f": {index.problems[0].detail}" if index.problems else ""
        raise BadDriveError(f"no pictures on {camera.kind.topic} of the recording {name!r}{why}")
    axle = Axle.STEERING_WHEEL if steering is None or not steering.kind.is_of_road_wheels(angle_field) else Axle.ROAD_WHEEL
    labels_as = LabelConvention(unit, axle=axle)
    return _drive(name, recording, camera.kind, index, labels_as, None if steering is None else tolerance_s)


def _scanned(recording: Recording, camera: _Channel, steering: _Channel | None, angle_field: str) -> RecordingIndex:
    """Goes through a recording once; what it finds is compact, as long recordings hold millions of messages. places: (N, 2)."""
    found = {name: array("q") for name in ("stamps", "places", "sizes", "checksums", "label_stamps")}
    labels, problems = array("d"), list[Problem]()
    for item in recording.scan(camera.keys | (steering.keys if steering else frozenset())):
        if isinstance(item, Damage):
            problems.append(Problem(ProblemKind.BREAK, f"after frame {len(found['stamps'])}", item.detail))
            continue
        try:
            if steering is not None and item.topic in steering.keys:
                angle = steering.kind.number(item.data, angle_field)
                found["label_stamps"].append(steering.stamp_ns(item))
                labels.append(angle)
            else:
                found["stamps"].append(camera.stamp_ns(item))
                found["places"].extend(item.place)
                found["sizes"].append(len(item.data))
                found["checksums"].append(crc32(item.data))
        except BrokenRecordingError as error:
            problems.append(Problem(ProblemKind.BAD_MESSAGE, f"recorded at {item.log_ns}", str(error)))
    whole = {name: np.array(values, np.int64) for name, values in found.items()}
    arrays: dict[str, IntArray | FloatArray] = {**whole, "places": whole["places"].reshape(-1, 2), "labels": np.array(labels, np.float64)}
    return RecordingIndex(arrays, tuple(problems))


def _drive(
    name: str, recording: Recording, kind: MessageType, index: RecordingIndex, labels_as: LabelConvention, tolerance_s: float | None
) -> Drive:
    """Makes the drive of what a pass found. tolerance_s: how far a label may be off its frame; None: there are no labels."""
    arrays = index.arrays
    order = np.argsort(arrays["stamps"], kind="stable")
    stamps = arrays["stamps"][order].astype(np.int64)
    repeated = np.concatenate([[False], np.diff(stamps) == 0])
    twice = "another picture with this stamp; the first is kept"
    problems = [*index.problems, *(Problem(ProblemKind.DUPLICATE_ID, str(stamp), twice) for stamp in stamps[repeated].tolist())]
    order, stamps = order[~repeated], stamps[~repeated]
    frame_ids = Names.of(map(str, stamps.tolist()))
    steering_rad = np.full(len(stamps), np.nan)
    if tolerance_s is not None:
        by_time = np.argsort(arrays["label_stamps"], kind="stable")
        matched = nearest(stamps, arrays["label_stamps"][by_time].astype(np.int64), round(tolerance_s * 1e9))
        far, empty = f"no steering message within {tolerance_s:g} s", "the nearest steering message has no finite angle"
        labels_rad = arrays["labels"][by_time].astype(np.float64) * labels_as.unit.rad
        steering_rad = matched_labels(matched, labels_rad, frame_ids, problems, far, empty)
    places, sizes, checksums = (arrays[key][order].astype(np.int64) for key in ("places", "sizes", "checksums"))
    return Drive(
        name=name,
        frame_ids=frame_ids,
        steering_rad=steering_rad,
        time_s=(stamps - stamps[0]) / 1e9,
        source=MessageFrames(recording, kind, frame_ids, places, sizes, checksums),
        problems=tuple(problems),
        labels_as=labels_as,
    )


def _channel(name: str, topics: Iterable[Topic], clock: RecordedClock) -> _Channel:
    same = [topic for topic in topics if topic.name == name]
    kind = MessageType(same[0])
    return _Channel(
        kind, frozenset(topic.key for topic in same if topic.kind == same[0].kind), clock if kind.has_header else RecordedClock.LOG
    )


def _image_topic(topics: tuple[Topic, ...], wanted: str) -> str:
    pictures = {topic.name: topic for topic in topics if topic.kind in {IMAGE, COMPRESSED_IMAGE}}
    if wanted:
        topic = _named(topics, wanted)
        if topic.name not in pictures:
            raise BadDriveError(f"the topic {topic} holds no pictures; topics with pictures: {_listed(pictures.values())}")
        return topic.name
    if len(pictures) == 1:
        return next(iter(pictures))
    if not pictures:
        raise BadDriveError(f"no topic of the recording holds {IMAGE} or {COMPRESSED_IMAGE}; topics: {_listed(topics)}")
    raise BadDriveError(f"several topics hold pictures: {_listed(pictures.values())}; say which, as ?image={next(iter(pictures))}")


def _steering(topics: tuple[Topic, ...], options: Options, clock: RecordedClock) -> tuple[_Channel | None, str]:
    wanted, angle_field = options.text("steering"), options.text("field")
    if wanted == _NO_TOPIC:
        return None, ""
    if wanted:
        channel = _channel(_named(topics, wanted).name, topics, clock)
        return channel, _field(channel.kind, angle_field)
    fitting = {topic.name: MessageType(topic) for topic in topics if _may_steer(topic, angle_field)}
    if not fitting and angle_field:
        raise BadDriveError(f"no topic has the field {angle_field!r}; topics: {_listed(topics)}")
    if not fitting:
        return None, ""
    if len(fitting) > 1:
        listed = _listed(kind.topic for kind in fitting.values())
        raise BadDriveError(
            f"several topics may be the steering: {listed}; say which, as ?steering={next(iter(fitting))}, or steering=none"
        )
    channel = _channel(next(iter(fitting)), topics, clock)
    return channel, _field(channel.kind, angle_field)


def _may_steer(topic: Topic, angle_field: str) -> bool:
    """Tells whether a topic nobody named has a field that is the steering, as far as names tell."""
    if topic.encoding is Encoding.OTHER or topic.kind in {IMAGE, COMPRESSED_IMAGE}:
        return False
    try:
        numbers = MessageType(topic).numbers()
    except BadDriveError:  # a definition that cannot be read matters only on a topic that was asked for
        return False
    if angle_field:
        return angle_field in numbers
    plain = "steer" in topic.name.lower()
    return any(name in numbers for name in STEERING_FIELDS if plain or "steer" in name)


def _field(kind: MessageType, wanted: str) -> str:
    numbers = kind.numbers()
    if wanted:
        if wanted not in numbers:
            raise BadDriveError(f"{kind.topic}: {UnknownNameError.among('field', wanted, numbers)}")
        return wanted
    for name in STEERING_FIELDS:
        if name in numbers:
            return name
    raise BadDriveError(
        f"which field of {kind.topic} is the angle? say field=NAME, one of {', '.join(numbers) or 'none: it holds no number'}"
    )


def _named(topics: tuple[Topic, ...], name: str) -> Topic:
    by_name = {topic.name: topic for topic in topics}
    topic = by_name.get(name) or by_name.get(f"/{name}")
    if topic is None:
        raise BadDriveError(str(UnknownNameError.among("topic", name, by_name)))
    if topic.encoding is Encoding.OTHER:
        raise BadDriveError(f"the topic {topic} is written as {topic.wire!r}; ROS 1 and CDR (ROS 2) messages are read")
    return topic


def _listed(topics: Iterable[Topic]) -> str:
    return ", ".join(sorted({str(topic) for topic in topics})) or "none"
