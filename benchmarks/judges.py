"""Can judges of weathers fail, and do they fail where nothing is lost? The drivable area on held-out frames before and after a change.

    python benchmarks/judges.py DRIVE/center [--judge FILE ...] [--meadow FOLDER] [--frames N]

Changes that keep the scene should leave an IoU of about 1; a road that is painted over should not. --meadow: pictures with grass on their
right, as a texture that no judge was taught to refuse; else grass is drawn. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import cv2
import numpy as np
import torch

from referee import KEEPING, chosen, grass, read
from skidpad.core.images import BoolArray, NumpyFrames
from skidpad.referee.network import RoadNet, drivable_areas, load_road_net, overlap_of
from skidpad.stimuli.weather.classifier import held_out

LEAST_IOU = 0.8


def roads(judges: list[RoadNet], frames: NumpyFrames) -> BoolArray:
    return np.concatenate([drivable_areas(judges, frames[first : first + 8]) for first in range(0, len(frames), 8)])


def meadow(frame: NumpyFrames, road: BoolArray, patch: NumpyFrames, *, half: bool) -> NumpyFrames:
    """Lays a patch of real grass over the road, or over its left half, in the light of the picture."""
    height, width = frame.shape[:2]
    over = cv2.resize(road.astype(np.uint8), (width, height), interpolation=cv2.INTER_NEAREST) > 0
    if half and over.any():
        over &= np.arange(width)[None] < np.median(np.nonzero(over)[1])
    tile = np.hstack([patch, patch[:, ::-1]])
    tile = cv2.resize(np.vstack([tile, tile[::-1]]), (width, height), interpolation=cv2.INTER_AREA)
    light = max(float(frame[over].mean()), 25.0) / max(float(tile.mean()), 1.0) if over.any() else 1.0
    return np.where(over[..., None], np.clip(tile * light, 0, 255).astype(np.uint8), frame)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pictures", type=Path)
    parser.add_argument("--judge", type=Path, action="append", help="several vote; the referee's network without any")
    parser.add_argument("--meadow", type=Path)
    parser.add_argument("--frames", type=int, default=24)
    given = parser.parse_args()
    torch.set_num_threads(1)
    judges = [load_road_net(file) for file in given.judge or [None]]
    files = chosen(given.pictures, 10**9)
    files = [file for file, held in zip(files, held_out(len(files)), strict=True) if held]
    frames = read([files[place] for place in np.linspace(0, len(files) - 1, given.frames).round().astype(int)])
    rng = np.random.default_rng(0)
    before = roads(judges, frames)
    made = {f"kept: {name}": np.stack([change(frame, rng) for frame in frames]) for name, change in KEEPING.items()}
    made["kept: no colour"] = np.repeat(frames.mean(axis=3, keepdims=True), 3, axis=3).astype(np.uint8)
    seen = roads([load_road_net()], frames)  # one road to paint over, whoever judges
    if given.meadow is not None:
        turf = read(chosen(given.meadow, 16))
        height, width = turf.shape[1:3]
        turf = turf[:, int(0.5 * height) : int(0.72 * height), int(0.78 * width) :]
        for name, half in (("whole", False), ("left half", True)):
            pairs = zip(frames, seen, np.resize(turf, (len(frames), *turf.shape[1:])), strict=True)
            made[f"lost: {name} under meadow"] = np.stack([meadow(frame, road, patch, half=half) for frame, road, patch in pairs])
    for name, part in (("whole", "all"), ("left half", "half")):
        made[f"lost: {name} under drawn grass"] = np.stack(
            [grass(frame, road, rng, part) for frame, road in zip(frames, seen, strict=True)]
        )
    made["lost: another frame"] = np.roll(frames, len(frames) // 2, axis=0)
    table = {}
    for name, changed in made.items():
        overlap = np.nan_to_num(overlap_of(before, roads(judges, changed)), nan=1.0)
        table[name] = {"iou": float(overlap.mean()), "below": float((overlap < LEAST_IOU).mean())}
        print(f"{name:40} IoU {table[name]['iou']:.3f}   below {LEAST_IOU}: {table[name]['below']:6.1%}", flush=True)
    print(json.dumps(table))


if __name__ == "__main__":
    main()
