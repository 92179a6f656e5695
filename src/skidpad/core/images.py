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

from skidpad.core.errors import SkidpadError
from skidpad.core.files import LFS_ADVICE, is_lfs_pointer
from skidpad.core.picture_headers import stated_size

if TYPE_CHECKING:
    import torch

NumpyFrames: TypeAlias = NDArray[np.uint8]
Frames: TypeAlias = "NumpyFrames | torch.Tensor"
FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
IntArray: TypeAlias = NDArray[np.int64]

MAX_PICTURE_PIXELS = 100_000_000
"""Larger pictures are not decoded: this many take 300 MB, and a file of a few kilobytes can claim a thousand times as many."""

MAX_PICTURE_BYTES = 256 << 20
"""Larger files are not read as a picture: 100 megapixels without any compression are about as large."""

_JPEG_START, _JPEG_SCAN, _JPEG_END = b"\xff\xd8", b"\xff\xda", b"\xff\xd9"
_PNG_START, _PNG_END = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"


def decode(data: bytes) -> NumpyFrames | None:
    """Decodes JPEG, PNG, BMP, WebP, TIFF and PPM to (height, width, 3) RGB; None where the bytes are no whole picture of bearable size."""
    size = stated_size(data)
    if size is None or size[0] * size[1] > MAX_PICTURE_PIXELS or not _is_complete(data):
        return None
    try:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    except cv2.error:  # a header that claims an absurd size
        return None
    return None if image is None else np.asarray(cv2.cvtColor(image, cv2.COLOR_BGR2RGB), np.uint8)


def why_not_decoded(data: bytes) -> str:
    """Says in words why `decode` returned None."""
    size = stated_size(data)
    if size is not None and size[0] * size[1] > MAX_PICTURE_PIXELS:
        return f"{size[0]}x{size[1]} px, more than the {MAX_PICTURE_PIXELS // 1_000_000} megapixels that are decoded"
    return LFS_ADVICE if is_lfs_pointer(data) else f"{len(data)} bytes that are no whole picture"


def _is_complete(data: bytes) -> bool:
    """Tells whether a JPEG or PNG has its end marker; OpenCV 4 paints the missing part of a truncated JPEG grey."""
    if data.startswith(_JPEG_START):
        # Neither marker can occur inside the compressed pixels, and a thumbnail's end lies before the picture's own start of scan.
        return data.endswith(_JPEG_END) or data.rfind(_JPEG_END) > data.rfind(_JPEG_SCAN)
    if data.startswith(_PNG_START):
        return data.endswith(_PNG_END) or _PNG_END in data
    return True


def encode(frame: NumpyFrames, suffix: str = ".png", quality: int = 90) -> bytes:
    """Encodes one RGB frame as `.png` or `.jpg`."""
    options = [cv2.IMWRITE_JPEG_QUALITY, quality] if suffix == ".jpg" else []
    done, data = cv2.imencode(suffix, cv2.cvtColor(frame, cv2.COLOR_RGB2BGR), options)
    if not done:
        raise ValueError(f"OpenCV cannot encode a frame of shape {frame.shape} as {suffix!r}")
    return data.tobytes()


def write_image(path: Path, frame: NumpyFrames) -> Path:
    """Writes one RGB frame as .png or .jpg, and makes its folder; without a suffix, as .png. Returns where it was written."""
    path = path if path.suffix else path.with_suffix(".png")
    if path.suffix.lower() not in {".png", ".jpg", ".jpeg"}:
        raise SkidpadError(f"pictures are written as .png or .jpg; got {str(path)!r}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(frame, ".png" if path.suffix.lower() == ".png" else ".jpg"))
    except OSError as error:
        raise SkidpadError(
            f"cannot write the picture {str(path)!r}: {error.strerror}; choose a file in a folder you may write to"
        ) from error
    return path


def pixel_hash(frame: NumpyFrames) -> str:
    """Returns the hash of one frame's shape and pixels, 16 hexadecimal digits."""
    digest = sha256(repr(frame.shape).encode())
    digest.update(np.ascontiguousarray(frame).data)
    return digest.hexdigest()[:16]


def as_numpy(frames: Frames) -> NumpyFrames:
    """Brings frames to the CPU as a NumPy array."""
    return frames if isinstance(frames, np.ndarray) else np.asarray(frames.cpu().numpy(), np.uint8)
