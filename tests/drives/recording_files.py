"""Writes small recordings: ROS 1 and ROS 2 bags and MCAP files of 7 frames at 20 Hz, with steering at 50 Hz in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from drive_files import ANGLES, picture
from mcap.writer import CompressionType
from mcap.writer import Writer as McapWriter
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as Writer2
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from skidpad.core.images import NumpyFrames, encode

START_NS = 1_479_425_441_182_877_835
FRAME_NS = 50_000_000
LABEL_NS = 2_000_000
"""Each frame's own steering message comes this long after it; others, with an angle of 9, lie half way between two frames."""

STEERING_REPORT = """Header header
float32 steering_wheel_angle
float32 steering_wheel_cmd
float32 steering_wheel_torque
float32 speed
bool enabled
bool override
"""
"""A cut-down dbw_mkz_msgs/SteeringReport, as in the bags of Udacity's challenge: no store knows it."""

STEERING_KIND = "dbw_mkz_msgs/msg/SteeringReport"
IMAGE_KIND, COMPRESSED_KIND = "sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"


def typestore(*, ros2: bool) -> Typestore:
    store = get_typestore(Stores.ROS2_HUMBLE if ros2 else Stores.ROS1_NOETIC)
    text = STEERING_REPORT.replace("Header header", "std_msgs/Header header")
    store.register(get_types_from_msg(text, STEERING_KIND))
    return store


def header(store: Typestore, stamp_ns: int) -> Any:
    stamp = store.types["builtin_interfaces/msg/Time"](sec=stamp_ns // 10**9, nanosec=stamp_ns % 10**9)
    kind = store.types["std_msgs/msg/Header"]
    return kind(seq=0, stamp=stamp, frame_id="cam") if "seq" in kind.__dataclass_fields__ else kind(stamp=stamp, frame_id="cam")


def raw_image(store: Typestore, stamp_ns: int, data: NumpyFrames, encoding: str = "rgb8", pad: int = 0) -> Any:
    rows = np.pad(data.reshape(len(data), -1), ((0, 0), (0, pad)))
    return store.types[IMAGE_KIND](
        header=header(store, stamp_ns),
        height=data.shape[0],
        width=data.shape[1],
        encoding=encoding,
        is_bigendian=0,
        step=rows.shape[1],
        data=rows.reshape(-1),
    )


def compressed_image(store: Typestore, stamp_ns: int, frame: NumpyFrames, suffix: str = ".png") -> Any:
    return store.types[COMPRESSED_KIND](
        header=header(store, stamp_ns), format=suffix.strip("."), data=np.frombuffer(encode(frame, suffix), np.uint8)
    )


def steering(store: Typestore, stamp_ns: int, angle: float) -> Any:
    return store.types[STEERING_KIND](
        header=header(store, stamp_ns),
        steering_wheel_angle=angle,
        steering_wheel_cmd=-angle,
        steering_wheel_torque=0.0,
        speed=10.0,
        enabled=True,
        override=False,
    )


def messages(store: Typestore, *, compressed: bool = False, frames: int = 7) -> list[tuple[str, str, int, Any]]:
    """Returns (topic, kind, log time, message), by log time; the log is 5 ms behind the stamps."""
    made: list[tuple[str, str, int, Any]] = []
    for place in range(frames):
        stamp = START_NS + place * FRAME_NS
        frame = picture(place)
        image = compressed_image(store, stamp, frame) if compressed else raw_image(store, stamp, frame)
        made.append(("/camera", COMPRESSED_KIND if compressed else IMAGE_KIND, stamp, image))
        own = stamp + LABEL_NS
        made.append(("/steering_report", STEERING_KIND, own, steering(store, own, ANGLES[place % 7])))
        between = stamp + FRAME_NS // 2
        made.append(("/steering_report", STEERING_KIND, between, steering(store, between, 9.0)))
        made.append(("/chatter", "std_msgs/msg/String", stamp, store.types["std_msgs/msg/String"](data=f"frame {place}")))
    return sorted(((topic, kind, stamp + 5_000_000, each) for topic, kind, stamp, each in made), key=lambda row: row[2])


Rows = list[tuple[str, str, int, Any]]


def write_ros1(
    path: Path, rows: Rows | None = None, *, compression: str = "", chunk_bytes: int = 4096, store: Typestore | None = None
) -> Path:
    store = store or typestore(ros2=False)
    path.unlink(missing_ok=True)
    writer = Writer1(path)
    if compression:
        writer.set_compression(Writer1.CompressionFormat[compression])
    writer.chunk_threshold = chunk_bytes
    with writer:
        connections: dict[str, Any] = {}
        for topic, kind, log_ns, message in rows or messages(store):
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, kind, typestore=store)
            writer.write(connections[topic], log_ns, store.serialize_ros1(message, kind))
    return path


def write_ros2(folder: Path, rows: Rows | None = None, storage: str = "SQLITE3") -> Path:
    store = typestore(ros2=True)
    with Writer2(folder, version=9, storage_plugin=StoragePlugin[storage]) as writer:
        connections: dict[str, Any] = {}
        for topic, kind, log_ns, message in rows or messages(store):
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, kind, typestore=store)
            writer.write(connections[topic], log_ns, store.serialize_cdr(message, kind))
    return folder


def write_mcap(
    path: Path, rows: Rows | None = None, *, ros2: bool = True, compression: str = "ZSTD", chunk_bytes: int = 4096, chunked: bool = True
) -> Path:
    store = typestore(ros2=ros2)
    with path.open("wb") as file:
        writer = McapWriter(file, compression=CompressionType[compression], chunk_size=chunk_bytes, use_chunking=chunked)
        writer.start(profile="ros2" if ros2 else "ros1")
        channels: dict[str, int] = {}
        for topic, kind, log_ns, message in rows or messages(store):
            if topic not in channels:
                text = store.generate_msgdef(kind, ros_version=2 if ros2 else 1)[0]
                name = kind if ros2 else kind.replace("/msg/", "/")
                schema = writer.register_schema(name, "ros2msg" if ros2 else "ros1msg", text.encode())
                channels[topic] = writer.register_channel(topic, "cdr" if ros2 else "ros1", schema)
            data = store.serialize_cdr(message, kind) if ros2 else store.serialize_ros1(message, kind)
            writer.add_message(channels[topic], log_ns, bytes(data), log_ns)
        writer.finish()
    return path
