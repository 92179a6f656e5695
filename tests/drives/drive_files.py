"""Writes small drives to disk, one for each reader that reads folders."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from skidpad.core.images import NumpyFrames, encode

STAMPS = tuple(str(1_479_425_441_182_877_835 + 50_000_000 * place) for place in range(7))
CLOCKS = tuple(f"2016_12_01_13_30_48_{287 + 70 * place:03d}" for place in range(7))
ANGLES = (-0.25, 0.0, 0.125, 0.5, -0.5, 0.25, 1.0)


def picture(seed: int, height_px: int = 12, width_px: int = 16) -> NumpyFrames:
    return np.random.default_rng(seed).integers(0, 256, (height_px, width_px, 3), np.uint8)


def write_pictures(folder: Path, names: tuple[str, ...], suffix: str = ".png") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate(names):
        (folder / f"{name}{suffix}").write_bytes(encode(picture(seed), suffix))


def write_udacity(folder: Path) -> Path:
    write_pictures(folder / "center", STAMPS)
    rows = [f"{stamp},{angle},{place % 2}" for place, (stamp, angle) in enumerate(zip(STAMPS, ANGLES, strict=True))]
    (folder / "CH2_final_evaluation.csv").write_text("\n".join(["frame_id,steering_angle,public", *rows]) + "\n")
    return folder


def write_simulator(folder: Path, header: str = "", prefix: str = "IMG/") -> Path:
    for camera in ("center", "left", "right"):
        write_pictures(folder / "IMG", tuple(f"{camera}_{clock}" for clock in CLOCKS))
    rows = [
        ",".join([*(f" {prefix}{camera}_{clock}.png" for camera in ("center", "left", "right")), str(angle), "0.5", "0", "20.1"])
        for clock, angle in zip(CLOCKS, ANGLES, strict=True)
    ]
    (folder / "driving_log.csv").write_text("\n".join([*([header] if header else []), *rows]) + "\n")
    return folder


def write_tub(folder: Path, *, deleted: tuple[int, ...] = ()) -> Path:
    """A Donkey tub of version 2; its first record has the number 10."""
    write_pictures(folder / "images", tuple(f"{10 + place}_cam_image_array_" for place in range(7)), ".jpg")
    for part in (0, 1):
        records = [
            json.dumps(
                {
                    "_index": 10 + place,
                    "_timestamp_ms": 1_611_683_906_012 + 50 * place,
                    "cam/image_array": f"{10 + place}_cam_image_array_.jpg",
                    "user/angle": ANGLES[place],
                    "user/mode": "user",
                }
            )
            for place in range(7)
            if place // 4 == part
        ]
        (folder / f"catalog_{part}.catalog").write_text("\n".join(records) + "\n")
    lines = [["cam/image_array", "user/angle"], ["image_array", "float"], {}, {"created_at": 1.6e9}]
    last = {"paths": ["catalog_0.catalog", "catalog_1.catalog"], "current_index": 17, "max_len": 4, "deleted_indexes": list(deleted)}
    (folder / "manifest.json").write_text("\n".join(map(json.dumps, [*lines, last])) + "\n")
    return folder


def write_old_tub(folder: Path) -> Path:
    """A Donkey tub of version 1."""
    write_pictures(folder, tuple(f"{place}_cam-image_array_" for place in range(1, 12)), ".jpg")
    for place in range(1, 12):
        record = {"cam/image_array": f"{place}_cam-image_array_.jpg", "user/angle": place / 20, "user/throttle": 0.3, "user/mode": "user"}
        (folder / f"record_{place}.json").write_text(json.dumps(record))
    (folder / "meta.json").write_text(json.dumps({"inputs": ["cam/image_array", "user/angle"], "start": 1.5e9}))
    return folder


def write_folder(folder: Path) -> Path:
    names = tuple(f"frame{place}" for place in (1, 2, 3, 9, 10, 11, 100))
    write_pictures(folder, names)
    rows = [f"{name}.png,{angle}" for name, angle in zip(names, ANGLES, strict=True)]
    (folder / "angles.csv").write_text("\n".join(["frame,angle", *rows]) + "\n")
    return folder
