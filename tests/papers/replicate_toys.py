"""Made-up runs with known records, and a small network for runs that are really made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from skidpad.core.images import encode
from skidpad.core.stimuli import Recipe
from skidpad.runs.folder import Run
from skidpad.runs.manifest import Manifest
from skidpad.runs.records import ShardResult, build_records
from skidpad.subjects.inputs import Colour, InputSpec, Range
from skidpad.subjects.training.training import save_subject
from skidpad.subjects.zoo import Architecture

ORIGINAL = Recipe()


@dataclass(frozen=True)
class Case:
    """One made-up record."""

    frame: int
    recipe: Recipe = ORIGINAL
    label: float = 0.0
    original: float = 0.0
    mutant: float = 0.0
    activated: frozenset[int] | None = None
    active: int = 0


def made_up_run(
    path: Path, shards: Mapping[str, Sequence[Sequence[Case]]], coverage: Mapping[str, bytes] | None = None, neurons: int = 20
) -> Run:
    """Writes a run of these shards by phase; `coverage` is put into every phase's first shard under the phase's name."""
    run = Run.create(path, {"campaign": "deeptest"}, Manifest.collect(device="cpu", seed=0, hashes={}, command=()))
    for phase, parts in shards.items():
        for index, cases in enumerate(parts):
            states = {phase: coverage[phase]} if coverage is not None and index == 0 else {}
            run.commit(ShardResult(phase, index, _table(cases, neurons), states))
    return run


def _table(cases: Sequence[Case], neurons: int):  # pyarrow has no types
    nothing = np.zeros(len(cases))
    return build_records(
        frame_index=[case.frame for case in cases],
        frame_ids=[f"f{case.frame}" for case in cases],
        recipes=[case.recipe for case in cases],
        label=np.array([case.label for case in cases]),
        original=np.array([case.original for case in cases]),
        mutant=np.array([case.mutant for case in cases]),
        excess=nothing,
        violated=nothing.astype(bool),
        active_neurons=np.array([len(case.activated) if case.activated is not None else case.active for case in cases]),
        activated=[None if case.activated is None else packed(case.activated, neurons) for case in cases],
    )


def packed(neurons_on: frozenset[int], neurons: int) -> bytes:
    bits = np.zeros(neurons, bool)
    bits[list(neurons_on)] = True
    return np.packbits(bits).tobytes()


def network(channels: int, height_px: int, width_px: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(channels, 5, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(5 * 3 * 7, 8), nn.ReLU(), nn.Linear(8, 1))


TOY = Architecture("toy", network, InputSpec(16, 8, Colour.RGB, Range((-1.0,), (1.0,))))


def write_subject(path: Path) -> Path:
    with torch.random.fork_rng([]):
        torch.manual_seed(3)
        return save_subject(TOY.build(), TOY.describe(path.name, path.name + ".safetensors"), path).toml


def write_drive(folder: Path, frames: int, *, labels: bool = True) -> str:
    folder.mkdir(parents=True)
    rng = np.random.default_rng(frames)
    rows = ["frame_id,steering_angle"]
    for frame in range(frames):
        picture = rng.integers(0, 256, (3, 4, 3), np.uint8).repeat(8, axis=0).repeat(8, axis=1)
        (folder / f"f{frame:04d}.png").write_bytes(encode(picture))
        rows.append(f"f{frame:04d}.png,{rng.uniform(-0.3, 0.3)}")
    (folder / "labels.csv").write_text("\n".join(rows) + "\n")
    return f"folder:{folder}" + ("?csv=labels.csv&unit=rad" if labels else "")
