"""Writes small videos."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from skidpad.core.images import NumpyFrames


def smooth_picture(place: int, height_px: int = 48, width_px: int = 64) -> NumpyFrames:
    """A gradient that moves: a codec keeps it almost as it is, and no two frames are alike."""
    y, x = np.ogrid[0:height_px, 0:width_px]
    channels = (x * 3 + y * 0 + place * 7, x * 0 + y * 4 + place * 3, x + y + place * 11)
    return np.stack(channels, -1).astype(np.uint8)


def write_video(
    path: Path,
    frames: int = 7,
    *,
    codec: str = "libx264",
    gop: int = 4,
    rate_hz: int = 20,
    size: tuple[int, int] = (48, 64),
    options: dict[str, str] | None = None,
) -> Path:
    with av.open(str(path), "w", options=options or {}) as container:
        stream = container.add_stream(codec, rate=rate_hz)
        stream.height, stream.width = size
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        stream.gop_size = gop
        stream.time_base = Fraction(1, rate_hz)
        for place in range(frames):
            frame = av.VideoFrame.from_ndarray(smooth_picture(place, *size), format="rgb24")
            frame.pts = place
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def write_lerobot(folder: Path, angles: Sequence[float], version: str = "v2.1") -> Path:
    """Writes two episodes with the same angles; version 3 puts both into one table and one video."""
    camera, rate_hz, count = "observation.images.front", 20, len(angles)
    features = {
        camera: {"dtype": "video", "shape": [48, 64, 3]},
        "action": {"dtype": "float32", "shape": [2], "names": {"motors": ["throttle", "steering"]}},
        "timestamp": {"dtype": "float32", "shape": [1], "names": None},
    }
    (folder / "meta").mkdir(parents=True)
    (folder / "meta" / "info.json").write_text(json.dumps({"codebase_version": version, "fps": rate_hz, "features": features}))
    times = [np.float32(place / rate_hz) for place in range(count)]
    tables = [
        pa.table({"action": [[0.5, angle] for angle in angles], "timestamp": times, "episode_index": [episode] * count})
        for episode in (0, 1)
    ]
    if version.startswith("v2"):
        (data := folder / "data" / "chunk-000").mkdir(parents=True)
        (videos := folder / "videos" / "chunk-000" / camera).mkdir(parents=True)
        for episode, table in enumerate(tables):
            pq.write_table(table, data / f"episode_{episode:06d}.parquet")
            write_video(videos / f"episode_{episode:06d}.mp4", count, rate_hz=rate_hz)
        return folder
    (data := folder / "data" / "chunk-000").mkdir(parents=True)
    (videos := folder / "videos" / camera / "chunk-000").mkdir(parents=True)
    (episodes := folder / "meta" / "episodes" / "chunk-000").mkdir(parents=True)
    pq.write_table(pa.concat_tables(tables), data / "file-000.parquet")
    write_video(videos / "file-000.mp4", 2 * count, rate_hz=rate_hz)
    zeros, begins = [0, 0], [0.0, count / rate_hz]
    listed = {"episode_index": [0, 1], "data/chunk_index": zeros, "data/file_index": zeros}
    listed |= {f"videos/{camera}/chunk_index": zeros, f"videos/{camera}/file_index": zeros, f"videos/{camera}/from_timestamp": begins}
    pq.write_table(pa.table(listed), episodes / "file-000.parquet")
    return folder
