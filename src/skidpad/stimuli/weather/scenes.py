"""The pictures of one weather: read once, kept as bytes at the working size, cut at random."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import cv2
import numpy as np
import torch

from skidpad.core.errors import BadDriveError, BadParametersError
from skidpad.core.images import NumpyFrames, decode
from skidpad.core.progress import Progress, silent
from skidpad.drives.frames import picture_bytes
from skidpad.drives.opening import open_drive

SUFFIXES = frozenset((".jpg", ".jpeg", ".png", ".bmp", ".webp"))
_LEAST = 8
"""Fewer pictures than this teach a network the pictures, not the weather."""


@dataclass(frozen=True, slots=True)
class Scenes:
    """Pictures of a weather, uint8 (H, W, 3) each, the shorter side `size_px`; sha256 is of their pixels and order.

    enlarged: how many were smaller than that; smallest_px: the least shorter side there was.
    """

    name: str
    pictures: tuple[torch.Tensor, ...]
    broken: int
    sha256: str
    enlarged: int = 0
    smallest_px: int = 0

    def __len__(self) -> int:
        return len(self.pictures)

    def to(self, device: torch.device) -> Scenes:
        """Moves the pictures, so that cutting happens where they are used."""
        return replace(self, pictures=tuple(picture.to(device) for picture in self.pictures))

    def cut(self, rng: np.random.Generator, count: int, crop_px: int) -> torch.Tensor:
        """Draws `count` pictures, cuts a square out of each and mirrors half of them: (count, 3, crop, crop) within -1..1."""
        parts: list[torch.Tensor] = []
        for index in rng.integers(len(self.pictures), size=count).tolist():
            picture = self.pictures[index]
            top = int(rng.integers(picture.shape[0] - crop_px + 1))
            left = int(rng.integers(picture.shape[1] - crop_px + 1))
            part = picture[top : top + crop_px, left : left + crop_px]
            parts.append(part.flip(1) if rng.random() < 0.5 else part)
        return as_signed(torch.stack(parts))


def as_signed(frames: torch.Tensor) -> torch.Tensor:
    """Turns uint8 (N, height, width, 3) into float32 (N, 3, height, width) within -1..1, memory pixel by pixel."""
    return frames.permute(0, 3, 1, 2).float().div_(127.5).sub_(1.0)


def as_frames(pictures: torch.Tensor) -> torch.Tensor:
    """Turns (N, 3, height, width) within -1..1 into uint8 (N, height, width, 3)."""
    return pictures.float().add(1.0).mul_(127.5).round_().clamp_(0.0, 255.0).to(torch.uint8).permute(0, 2, 3, 1).contiguous()


def working_size(height_px: int, width_px: int, size_px: int, stride: int) -> tuple[int, int]:
    """Returns the height and width at which a picture is translated: the shorter side `size_px`, the aspect kept to `stride` pixels."""
    scale = size_px / min(height_px, width_px)
    return max(round(height_px * scale / stride), 1) * stride, max(round(width_px * scale / stride), 1) * stride


def load_scenes(text: str, size_px: int, stride: int, limit: int = 4_000, progress: Progress = silent) -> Scenes:
    """Reads a folder of pictures, or a drive, at the working size; of more than `limit` pictures, evenly spaced ones."""
    if limit < _LEAST:
        raise BadParametersError(f"a weather needs at least {_LEAST} pictures of each set, better a thousand; got --limit {limit}")
    folder = Path(text)
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES) if folder.is_dir() else []
    frames = _from_files(files, limit, progress) if files else _from_drive(text, limit, progress)
    pictures: list[torch.Tensor] = []
    digest = sha256()
    broken = 0
    sides_px: list[int] = []
    for frame in frames:
        if frame is None:
            broken += 1
            continue
        sides_px.append(min(frame.shape[:2]))
        height, width = working_size(frame.shape[0], frame.shape[1], size_px, stride)
        small = np.ascontiguousarray(cv2.resize(frame, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
        digest.update(repr(small.shape).encode())
        digest.update(small.data)
        pictures.append(torch.from_numpy(small))
    enlarged = sum(side < size_px for side in sides_px)
    scenes = Scenes(folder.name if files else text, tuple(pictures), broken, digest.hexdigest(), enlarged, min(sides_px, default=0))
    _check(scenes, text)
    return scenes


def _from_files(files: list[Path], limit: int, progress: Progress) -> list[NumpyFrames | None]:
    chosen = [files[place] for place in _spaced(len(files), limit)]
    frames: list[NumpyFrames | None] = []
    for number, path in enumerate(chosen, 1):
        try:
            frames.append(decode(picture_bytes(path)))
        except OSError:
            frames.append(None)
        progress(number, len(chosen), "reading pictures")
    return frames


def _from_drive(text: str, limit: int, progress: Progress) -> list[NumpyFrames | None]:
    drive = open_drive(text)
    chosen = drive.select(_spaced(len(drive), limit))
    frames: list[NumpyFrames | None] = []
    for batch in chosen.batches(64):
        frames += [*batch.frames, *(None for _ in batch.problems)]
        progress(len(frames), len(chosen), "reading pictures")
    return frames


def _spaced(count: int, limit: int) -> list[int]:
    if count <= limit:
        return list(range(count))
    return np.linspace(0, count - 1, limit).round().astype(np.int64).tolist()  # type: ignore[no-any-return] # numpy leaves it open


def _check(scenes: Scenes, text: str) -> None:
    if len(scenes) < _LEAST:
        raise BadDriveError(
            f"{text!r} has {len(scenes)} readable pictures ({scenes.broken} broken); a weather needs at least {_LEAST}, better a thousand"
        )
    colourful = sum(bool((picture.float().std(dim=-1) > 1.0).float().mean() > 0.01) for picture in scenes.pictures[:64])
    if colourful == 0:
        raise BadDriveError(f"the pictures of {text!r} are grey; a weather is learned from colour pictures of a road")
