"""Frames as arrays, and the few image operations that every part shares.

A batch of frames is uint8, RGB, of shape (N, height, width, 3): a NumPy array on the CPU or a torch tensor anywhere.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

NumpyFrames: TypeAlias = NDArray[np.uint8]
Frames: TypeAlias = "NumpyFrames | torch.Tensor"
FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
IntArray: TypeAlias = NDArray[np.int64]


def decode(data: bytes) -> NumpyFrames | None:
    """Decodes JPEG, PNG and friends to (height, width, 3) RGB; None where the bytes are no whole picture."""
    if not data:
        return None
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    return None if image is None else np.asarray(cv2.cvtColor(image, cv2.COLOR_BGR2RGB), np.uint8)


def encode(frame: NumpyFrames, suffix: str = ".png", quality: int = 90) -> bytes:
    """Encodes one RGB frame as `.png` or `.jpg`."""
    options = [cv2.IMWRITE_JPEG_QUALITY, quality] if suffix == ".jpg" else []
    done, data = cv2.imencode(suffix, cv2.cvtColor(frame, cv2.COLOR_RGB2BGR), options)
    if not done:
        raise ValueError(f"OpenCV cannot encode a frame of shape {frame.shape} as {suffix!r}")
    return data.tobytes()


def write_image(path: Path, frame: NumpyFrames) -> None:
    """Writes one RGB frame; the suffix of the path chooses the format."""
    path.write_bytes(encode(frame, path.suffix))


def pixel_hash(frame: NumpyFrames) -> str:
    """Returns the hash of one frame's shape and pixels, 16 hexadecimal digits."""
    digest = sha256(repr(frame.shape).encode())
    digest.update(np.ascontiguousarray(frame).data)
    return digest.hexdigest()[:16]


def as_numpy(frames: Frames) -> NumpyFrames:
    """Brings frames to the CPU as a NumPy array."""
    return frames if isinstance(frames, np.ndarray) else np.asarray(frames.cpu().numpy(), np.uint8)
