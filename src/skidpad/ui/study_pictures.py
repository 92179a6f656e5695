"""The pictures of a questionnaire: found below a folder, told apart by the folders that hold them, shown without what gives them away."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b
from pathlib import Path

import cv2
import numpy as np

from skidpad.core.errors import SkidpadError
from skidpad.core.images import decode, encode

MAX_WIDTH_PX = 640
_MAX_BYTES = 32 << 20
_MAX_PICTURES = 20_000
_MAX_DEPTH = 4
_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp"})


class Scene(Enum):
    """The seven choices of TACTIC's second question; the last is no type."""

    RAIN = "rain"
    SUNSHINE = "sunshine"
    NIGHT = "night"
    FOG = "fog"
    SNOW_DAY = "snow in daytime"
    SNOW_NIGHT = "snow in night"
    UNREALISTIC = "image unrealistic"


_NAMED = {
    "rain": Scene.RAIN,
    "rainy": Scene.RAIN,
    "wet": Scene.RAIN,
    "sunshine": Scene.SUNSHINE,
    "sunny": Scene.SUNSHINE,
    "clear": Scene.SUNSHINE,
    "night": Scene.NIGHT,
    "fog": Scene.FOG,
    "foggy": Scene.FOG,
    "snow": Scene.SNOW_DAY,
    "snow day": Scene.SNOW_DAY,
    "snow in daytime": Scene.SNOW_DAY,
    "snow night": Scene.SNOW_NIGHT,
    "snow in night": Scene.SNOW_NIGHT,
}
"""What folders may be called, in lower case with spaces between words."""


@dataclass(frozen=True, slots=True)
class StudyPicture:
    """One picture file. key: a hash of its content, which says nothing about where it comes from."""

    key: str
    path: Path
    approach: str
    scene: Scene | None

    def shown(self) -> bytes:
        """Returns the picture as JPEG, no wider than others and without what its file says besides pixels."""
        frame = decode(self.path.read_bytes())
        if frame is None:
            raise SkidpadError(f"the picture {str(self.path)!r} can no longer be read; put it back and begin again")
        height, width = frame.shape[:2]
        if width != MAX_WIDTH_PX:
            size = (MAX_WIDTH_PX, max(1, round(height * MAX_WIDTH_PX / width)))
            frame = np.asarray(
                cv2.resize(frame, size, interpolation=cv2.INTER_AREA if width > MAX_WIDTH_PX else cv2.INTER_LINEAR), np.uint8
            )
        return encode(frame, ".jpg", 90)


def pictures_in(folder: Path) -> list[StudyPicture]:
    """Returns the pictures below a folder, by path; links are not followed."""
    if not folder.is_dir():
        raise SkidpadError(f"no folder {str(folder)!r}; --study takes a folder of real and one of synthesised pictures")
    found = [_picture(folder, path) for path in sorted(_files(folder, 0))[:_MAX_PICTURES]]
    if not found:
        raise SkidpadError(f"the folder {str(folder)!r} holds no pictures ({', '.join(sorted(_SUFFIXES))})")
    return found


def scene_named(name: str) -> Scene | None:
    """Returns the environmental type that a folder's name is, or None."""
    return _NAMED.get(" ".join(re.split(r"[\W_]+", name.strip().lower())))


def _files(folder: Path, depth: int) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            path = Path(entry.path)
            if stat.S_ISDIR(status.st_mode) and depth < _MAX_DEPTH and not entry.name.startswith("."):
                yield from _files(path, depth + 1)
            elif stat.S_ISREG(status.st_mode) and path.suffix.lower() in _SUFFIXES and status.st_size <= _MAX_BYTES:
                yield path


def _picture(folder: Path, path: Path) -> StudyPicture:
    parts = path.relative_to(folder).parts[:-1]
    scene = next((scene for scene in map(scene_named, reversed(parts)) if scene is not None), None)
    approach = next((part for part in parts if scene_named(part) is None), "synthesised")
    return StudyPicture(blake2b(path.read_bytes(), digest_size=8).hexdigest(), path, approach, scene)
