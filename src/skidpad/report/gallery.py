"""Pictures side by side: the same scenes in a row for each condition."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from skidpad.core.images import NumpyFrames, encode
from skidpad.report.wording import plain

_WIDTH_PX = 240
_QUALITY = 82


@dataclass(frozen=True, slots=True)
class GalleryPicture:
    """One embedded picture; `alt` says what it shows."""

    source: str
    alt: str
    width_px: int
    height_px: int


@dataclass(frozen=True, slots=True)
class GalleryRow:
    """The scenes under one condition; `note` stands under its name."""

    label: str
    note: str
    pictures: tuple[GalleryPicture, ...]


@dataclass(frozen=True, slots=True)
class Gallery:
    """Rows of pictures with the words around them."""

    title: str
    caption: str
    rows: tuple[GalleryRow, ...]


def gallery_row(label: str, note: str, frames: Sequence[NumpyFrames], width_px: int = _WIDTH_PX) -> GalleryRow:
    """Embeds frames, (height, width, 3) each, of any sizes."""
    name = plain(label, 80)
    pictures = tuple(_embedded(frame, f"{name}, scene {number}", width_px) for number, frame in enumerate(frames, 1))
    return GalleryRow(name, plain(note, 160), pictures)


def _embedded(frame: NumpyFrames, alt: str, width_px: int) -> GalleryPicture:
    height, width = frame.shape[:2]
    size = (min(width, width_px), max(1, round(height * min(width, width_px) / width)))
    small = frame if size == (width, height) else np.asarray(cv2.resize(frame, size, interpolation=cv2.INTER_AREA), np.uint8)
    data = b64encode(encode(np.ascontiguousarray(small), ".jpg", _QUALITY)).decode("ascii")
    return GalleryPicture(f"data:image/jpeg;base64,{data}", alt, size[0], size[1])
