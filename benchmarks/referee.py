"""How often the referee is right: pictures changed in ways that keep the scene by construction, and pictures that were ruined on purpose.

    python benchmarks/referee.py PICTURES [--masks MASKS] [--group REGEX --half 0|1] [--frames N] [--device DEVICE]

Prints what it said of every change and how long a mutant took; the last line is one JSON object. With a device the same is judged there
as well, and it says how often the reason is another one, and how many pictures left the device for their corners. Its thresholds were
chosen on the groups (cameras, or sequences) of half 1; half 0 is for figures.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import cv2
import numpy as np
import torch

from skidpad.core.images import NumpyFrames, decode
from skidpad.referee.borders import may_have_border
from skidpad.referee.network import HEIGHT_PX, WIDTH_PX, drivable
from skidpad.referee.on_device import SeenOriginals
from skidpad.referee.verdict import Verdicts, Word, judge

Change = Callable[[NumpyFrames, np.random.Generator], NumpyFrames]
"""Changes one picture, (height, width, 3)."""


def _clip(values: np.ndarray) -> NumpyFrames:
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


def exposure(stops: float) -> Change:
    """Gains light as a sensor does, in linear light."""
    return lambda frame, _: _clip(255.0 * np.clip((frame / 255.0) ** 2.2 * 2.0**stops, 0.0, 1.0) ** (1 / 2.2))


def gamma(power: float) -> Change:
    return lambda frame, _: _clip(255.0 * (frame / 255.0) ** power)


def gain(factor: float) -> Change:
    return lambda frame, _: _clip(127.5 + (frame - 127.5) * factor)


def veil(share: float) -> Change:
    return lambda frame, _: _clip(frame * (1 - share) + 200.0 * share)


def fog(visibility_m: float) -> Change:
    """Koschmieder over a level road; what stands beside it is as far as its foot, and no more than 80 m."""

    def change(frame: NumpyFrames, _: np.random.Generator) -> NumpyFrames:
        height, width = frame.shape[:2]
        below = np.maximum((np.arange(height) + 0.5) / height - 0.42, 1e-3)
        depth_m = np.minimum(1.3 / (below * height / (0.714 * width)), 80.0)
        left = np.exp(-3.0 * depth_m / visibility_m)[:, None, None]
        return _clip(frame * left + 190.0 * (1.0 - left))

    return change


def noise(levels: float) -> Change:
    return lambda frame, rng: _clip(frame + rng.normal(0.0, levels, frame.shape))


def blur(sigma_px: float) -> Change:
    return lambda frame, _: np.asarray(cv2.GaussianBlur(frame, (0, 0), sigma_px * frame.shape[1] / 320.0))


def temperature(red: float, blue: float) -> Change:
    return lambda frame, _: _clip(frame * np.array([red, 1.0, blue]))


def jpeg(quality: int) -> Change:
    def change(frame: NumpyFrames, _: np.random.Generator) -> NumpyFrames:
        return np.asarray(cv2.imdecode(cv2.imencode(".jpg", frame, [cv2.IMWRITE_JPEG_QUALITY, quality])[1], cv2.IMREAD_COLOR))

    return change


def drops(share: float) -> Change:
    """Round patches that show the scene out of focus and upside down, as drops on glass do."""

    def change(frame: NumpyFrames, rng: np.random.Generator) -> NumpyFrames:
        height, width = frame.shape[:2]
        over = np.zeros((height, width), np.uint8)
        while over.mean() < share:
            centre = int(rng.integers(width)), int(rng.integers(height))
            cv2.circle(over, centre, int(rng.uniform(0.008, 0.025) * width), 1, -1)
        soft = cv2.GaussianBlur(frame[::-1], (0, 0), 0.03 * width)
        edge = cv2.GaussianBlur(over.astype(np.float32), (0, 0), 1.5)[..., None]
        return _clip(frame * (1 - edge) + (0.5 * soft + 0.5 * cv2.GaussianBlur(frame, (0, 0), 0.02 * width)) * edge)

    return change


KEEPING: Mapping[str, Change] = {
    "exposure -2 EV": exposure(-2.0),
    "exposure -1 EV": exposure(-1.0),
    "exposure +1 EV": exposure(1.0),
    "gamma 0.6": gamma(0.6),
    "gamma 1.7": gamma(1.7),
    "contrast 0.5": gain(0.5),
    "contrast 1.2": gain(1.2),
    "veil 0.3": veil(0.3),
    "veil 0.5": veil(0.5),
    "fog 200 m": fog(200.0),
    "fog 100 m": fog(100.0),
    "fog 50 m": fog(50.0),
    "noise 6": noise(6.0),
    "noise 12": noise(12.0),
    "blur 1 px": blur(1.0),
    "blur 2 px": blur(2.0),
    "warm": temperature(1.15, 0.8),
    "cold": temperature(0.85, 1.2),
    "jpeg 20": jpeg(20),
    "drops 3 %": drops(0.03),
}
"""By construction these leave every part of the scene where it was."""


def grass(frame: NumpyFrames, road: np.ndarray, rng: np.random.Generator, part: str = "all") -> NumpyFrames:
    """Paints the road green with the texture and the light of grass."""
    height, width = frame.shape[:2]
    over = cv2.resize(road.astype(np.uint8), (width, height), interpolation=cv2.INTER_NEAREST)
    over = cv2.dilate(over, np.ones((5, 5), np.uint8)) > 0
    if part == "half":
        over &= np.arange(width)[None] < width // 2
    coarse = cv2.resize(rng.uniform(-1, 1, (height // 4, width // 4)).astype(np.float32), (width, height))
    texture = (1 + 0.3 * coarse) * (1 + 0.3 * rng.uniform(-1, 1, (height, width)))
    light = max(float(frame.mean()), 30.0)
    painted = _clip(np.array([0.75, 1.1, 0.4]) * light * texture[..., None])
    return np.where(over[..., None], painted, frame)


def _mirror(frame: NumpyFrames, side: int) -> NumpyFrames:
    half = frame.shape[1] // 2
    changed = frame.copy()
    if side:
        changed[:, -half:] = frame[:, :half][:, ::-1]
    else:
        changed[:, :half] = frame[:, -half:][:, ::-1]
    return changed


def _affine(frame: NumpyFrames, matrix: np.ndarray) -> NumpyFrames:
    return np.asarray(cv2.warpAffine(frame, matrix, (frame.shape[1], frame.shape[0])))


def _turned(frame: NumpyFrames, angle_deg: float) -> NumpyFrames:
    middle = frame.shape[1] / 2, frame.shape[0] / 2
    return _affine(frame, cv2.getRotationMatrix2D(middle, angle_deg, 1.0))


def _framed(frame: NumpyFrames) -> NumpyFrames:
    rows = np.abs(np.arange(len(frame)) / len(frame) - 0.5) < 0.42
    return np.where(rows[:, None, None], frame, 0).astype(np.uint8)


RUINING: Mapping[str, Change] = {
    "right half mirrors the left": lambda frame, _: _mirror(frame, 1),
    "left half mirrors the right": lambda frame, _: _mirror(frame, 0),
    "whole picture mirrored": lambda frame, _: frame[:, ::-1].copy(),
    "rotated 12 deg, black corners": lambda frame, _: _turned(frame, 12.0),
    "shifted 15 %, black bars": lambda frame, _: _affine(frame, np.array([[1, 0, 0.15 * frame.shape[1]], [0, 1, 0]], np.float32)),
    "sheared 0.3, black corners": lambda frame, _: _affine(frame, np.array([[1, 0.3, 0], [0, 1, 0]], np.float32)),
    "black bars above and below": lambda frame, _: np.where(
        (np.abs(np.arange(len(frame)) / len(frame) - 0.5) < 0.42)[:, None, None], frame, 0
    ).astype(np.uint8),
    "black": lambda frame, _: np.zeros_like(frame),
    "grey": lambda frame, _: np.full_like(frame, 128),
    "white": lambda frame, _: np.full_like(frame, 255),
}


def chosen(folder: Path, count: int, group: str = "", half: int | None = None, masks: Path | None = None) -> list[Path]:
    """Returns evenly spaced pictures of a folder; with masks, of cameras that the network never saw. half: every other group, sorted."""
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in {".jpg", ".jpeg", ".png"})
    if masks is not None and group:
        from skidpad.cli.referee import _pairs, _split  # noqa: PLC0415  the very split of the shipped network

        files = [file for file, _ in _split(_pairs(folder, masks), group, 0.2)[0]]
    if half is not None:
        groups = [found.group(1) if (found := re.search(group, file.stem)) else "" for file in files]
        mine = set(sorted(set(groups))[half::2])
        files = [file for file, name in zip(files, groups, strict=True) if name in mine]
    return [files[place] for place in np.unique(np.linspace(0, len(files) - 1, min(count, len(files))).round().astype(int))]


def read(files: Sequence[Path]) -> NumpyFrames:
    """Reads pictures, all scaled to the first one's size."""
    frames = [frame for file in files if (frame := decode(file.read_bytes())) is not None]
    size = frames[0].shape[1], frames[0].shape[0]
    return np.stack([np.asarray(cv2.resize(frame, size, interpolation=cv2.INTER_AREA), np.uint8) for frame in frames])


HALF_GRASS = "left half of the road painted as grass"
"""Harder than the rest: half of the road is where it was."""


def roads_of(frames: NumpyFrames) -> np.ndarray:
    """Returns the roads to paint over, (N, height, width) bool, where there are no masks."""
    return drivable(frames)


def ruined(frames: NumpyFrames, roads: np.ndarray, seed: int) -> dict[str, NumpyFrames]:
    """Returns every kind of ruin of the frames."""
    rng = np.random.default_rng(seed)
    made = {name: np.stack([change(frame, rng) for frame in frames]) for name, change in RUINING.items()}
    made["road painted as grass"] = np.stack([grass(frame, road, rng) for frame, road in zip(frames, roads, strict=True)])
    made[HALF_GRASS] = np.stack([grass(frame, road, rng, "half") for frame, road in zip(frames, roads, strict=True)])
    made["another frame"] = np.roll(frames, len(frames) // 2, axis=0)
    return made


def kept(frames: NumpyFrames, seed: int) -> dict[str, NumpyFrames]:
    """Returns every change of the frames that keeps the scene."""
    rng = np.random.default_rng(seed)
    return {name: np.stack([change(frame, rng) for frame in frames]) for name, change in KEEPING.items()}


def masks_of(files: list[Path], folder: Path, size: tuple[int, int]) -> np.ndarray:
    """Reads comma10k's masks: 1 is road, 2 is marking."""
    masks = [cv2.imread(str(folder / f"{file.stem}.png"), cv2.IMREAD_GRAYSCALE) for file in files]
    return np.stack([cv2.resize(((mask == 1) | (mask == 2)).astype(np.uint8), size, interpolation=cv2.INTER_NEAREST) > 0 for mask in masks])


def said(frames: NumpyFrames, made: Mapping[str, NumpyFrames], device: str = "") -> dict[str, dict[str, float]]:
    """Asks the referee about every change and prints its words; returns the shares of each, and milliseconds of processor time a mutant.

    device: where it is asked again; differ: share of other reasons there, corners: of pictures whose corners the CPU looked at for it.
    """
    table = {}
    seen = SeenOriginals(frames, device) if device else None
    for name, changed in made.items():
        begun = time.process_time()
        found: Verdicts = judge(frames, changed)
        took_ms = (time.process_time() - begun) / len(changed) * 1000.0
        counts = Counter(found.words)
        reasons = Counter(reason.value for reason in found.reasons if reason.value)
        shares = {word.value: counts[word] / len(changed) for word in Word}
        table[name] = {**shares, "ms": took_ms}
        why = ", ".join(f"{reason} {number}" for reason, number in reasons.most_common())
        if seen is not None:
            there = zip(found.reasons, seen.judge(changed).reasons, strict=True)
            pairs = [(one.value or "kept", other.value or "kept") for one, other in there if one is not other]
            corners = may_have_border(*(torch.from_numpy(each).to(device) for each in (frames, changed)))
            table[name] |= {"differ": len(pairs) / len(changed), "corners": float(corners.float().mean())}
            why += "".join(f"; on the device {other!r}, not {one!r}" for one, other in pairs)
        print(
            f"{name:40}" + "".join(f"{word} {100 * share:5.1f} %  " for word, share in shares.items()) + f"{took_ms:5.1f} ms  {why}",
            flush=True,
        )
    return table


def mean(table: Mapping[str, Mapping[str, float]], key: str) -> float:
    return float(np.mean([row[key] for row in table.values()]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pictures", type=Path)
    parser.add_argument("--masks", type=Path, help="of comma10k: the road to paint over is then the true one")
    parser.add_argument("--group", default="", help="tells cameras apart by name; with --masks: only those never seen")
    parser.add_argument("--half", type=int, choices=(0, 1), help="every other group: 1 is what thresholds were chosen on, 0 is for figures")
    parser.add_argument("--frames", type=int, default=120)
    parser.add_argument("--device", default="", help="judge there as well, and count reasons that differ from the CPU's")
    given = parser.parse_args()
    torch.set_num_threads(1)
    files = chosen(given.pictures, given.frames, given.group, given.half, given.masks)
    frames = read(files)
    roads = roads_of(frames) if given.masks is None else masks_of(files, given.masks, (WIDTH_PX, HEIGHT_PX))
    judge(frames, frames)  # the originals are looked at once
    keeping, ruining = (said(frames, made, given.device) for made in (kept(frames, 1), ruined(frames, roads, 2)))
    both = {**keeping, **ruining}
    half = ruining.pop(HALF_GRASS)
    figures = {
        "frames": len(frames),
        "kept_scenes_refused": mean(keeping, "refused"),
        "kept_scenes_unclear": mean(keeping, "unclear"),
        "ruin_refused": mean(ruining, "refused"),
        "half_grass_refused": half["refused"],
        "ms_per_mutant": mean(keeping, "ms"),
    }
    if given.device:
        figures |= {"differ": mean(both, "differ"), "corners": mean(both, "corners"), "judged_twice": len(both) * len(frames)}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
