"""Writes small videos."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np

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
