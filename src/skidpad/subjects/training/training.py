"""Training a network of the zoo on a drive, and writing it as weights and description, side by side."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path

import cv2
import numpy as np
import torch
from safetensors.torch import save
from torch import nn

import skidpad
from skidpad.core.errors import BadDriveError, BadSubjectError
from skidpad.core.progress import Progress, silent
from skidpad.core.seeding import child_seed
from skidpad.core.settings import jsonable
from skidpad.drives.drive import Drive
from skidpad.subjects.description import Description, Format, description_hash, discard, write_atomically, write_description
from skidpad.subjects.inputs import Cameras, InputSpec, check_cameras
from skidpad.subjects.training.data import Collected, Labelled, collect
from skidpad.subjects.training.fitting import FitReport, TrainingSettings, fit
from skidpad.subjects.zoo import ARCHITECTURES

_SUFFIXES = (".safetensors", ".toml", ".training.json")


@dataclass(frozen=True, slots=True)
class SavedSubject:
    """Where a subject was written, and the hash of its weights file."""

    toml: Path
    weights: Path
    weights_sha256: str


def beside(out: Path, suffix: str) -> Path:
    """Returns OUT with a suffix put on; OUT may carry one of the three suffixes already."""
    for known in _SUFFIXES:
        if out.name.endswith(known) and out.name != known:
            out = out.with_name(out.name.removesuffix(known))
            break
    return out.with_name(out.name + suffix)


def save_subject(module: nn.Module, description: Description, out: Path) -> SavedSubject:
    """Writes OUT.safetensors and OUT.toml; the weights first, so that a description never stands alone."""
    if description.architecture is None:
        raise BadSubjectError(f"{description.name!r} is not of the zoo; only weights of a named architecture can be written")
    weights = beside(out, ".safetensors")
    data: bytes = save({name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()})
    write_atomically(weights, data)
    toml = beside(out, ".toml")
    write_description(toml, replace(description, file=weights.name, format=Format.SAFETENSORS))
    return SavedSubject(toml, weights, sha256(data).hexdigest())


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """What was trained, on what, how well, and where it was written.

    `mean_rmse_rad` is the validation error of always answering the mean training label: a network must do better.
    """

    saved: SavedSubject
    curve_file: Path
    fitted: FitReport
    training_frames: int
    validation_frames: int
    extra_frames: int
    broken_frames: int
    unlabelled_frames: int
    validation_rmse_rad: float
    mean_rmse_rad: float


def train(
    architecture: str,
    drive: Drive,
    out: Path,
    settings: TrainingSettings | None = None,
    *,
    spec: InputSpec | None = None,
    extra: Labelled | None = None,
    initial: Mapping[str, torch.Tensor] | None = None,
    progress: Progress = silent,
    command: str = "",
    resume: bool = False,
) -> TrainingReport:
    """Trains a network of the zoo and writes OUT.safetensors, OUT.toml and OUT.training.json.

    The last `validation_fraction` of the drive by time is held out. `spec` replaces the architecture's usual input, which for a drive of
    several cameras has the channels of them all; `extra` adds labelled pictures to the training part, `initial` starts from given
    weights. A checkpoint stands beside OUT until training ends; with `resume` it is continued, without it is started over.
    """
    settings = settings or TrainingSettings()
    zoo = ARCHITECTURES.get(architecture)
    out = Path(out)
    if drive.cameras:
        spec = spec or replace(zoo.input, cameras=Cameras(drive.cameras))
        # a mirrored left camera is a right one, and names do not tell which is which
        settings = replace(settings, mirror=False)
    description = zoo.describe(beside(out, "").name, beside(out, ".safetensors").name, spec)
    checkpoint = beside(out, ".checkpoint.pt")
    if not resume:
        discard(checkpoint)
    training, validation = _collected(drive, description, settings, progress)
    height_px, width_px, _ = drive.frame_shape
    description = replace(description, input=replace(description.input, frame_aspect=round(width_px / drive.views / height_px, 4)))
    data = training.data if extra is None else training.data.joined(extra)
    module = _fresh(description, settings.seed, initial)
    held_out = validation.data if validation is not None else None
    fitted = fit(module, description, data, held_out, settings, progress=progress, checkpoint=checkpoint)
    saved = save_subject(module, description, out)
    report = TrainingReport(
        saved=saved,
        curve_file=beside(out, ".training.json"),
        fitted=fitted,
        training_frames=len(training.data),
        validation_frames=len(held_out) if held_out is not None else 0,
        extra_frames=len(extra) if extra is not None else 0,
        broken_frames=training.broken + (validation.broken if validation is not None else 0),
        unlabelled_frames=training.unlabelled + (validation.unlabelled if validation is not None else 0),
        validation_rmse_rad=fitted.best.validation_mse_rad2**0.5,
        mean_rmse_rad=_mean_rmse(data, held_out),
    )
    _write_curve(report, description, drive, settings, command)
    discard(checkpoint)
    return report


def _collected(
    drive: Drive, description: Description, settings: TrainingSettings, progress: Progress
) -> tuple[Collected, Collected | None]:
    check_cameras(description.input, drive.cameras, f"drive {drive.name!r}")
    first, last = drive.split(1.0 - settings.validation_fraction)
    if len(first) == 0 or (settings.validation_fraction > 0.0 and len(last) == 0):
        raise BadDriveError(f"drive {drive.name!r} has {len(drive)} frames, too few for training and validation; give a longer one")
    training = collect(first, description.input, progress)
    return training, collect(last, description.input, progress) if len(last) else None


def _fresh(description: Description, seed: int, initial: Mapping[str, torch.Tensor] | None) -> torch.nn.Module:
    with torch.random.fork_rng([]):  # the global generator is the caller's
        torch.manual_seed(child_seed(seed, "weights"))
        module = ARCHITECTURES.get(description.architecture or "").build(description.input)
    if initial is not None:
        try:
            module.load_state_dict(dict(initial))
        except RuntimeError as error:
            raise BadSubjectError(f"the initial weights are not those of {description.architecture!r}: {error}") from error
    return module


def _mean_rmse(data: Labelled, validation: Labelled | None) -> float:
    if validation is None:
        return float("nan")
    return float(np.sqrt(np.mean((validation.labels_rad - data.labels_rad.mean()) ** 2)))


def _write_curve(report: TrainingReport, description: Description, drive: Drive, settings: TrainingSettings, command: str) -> None:
    """Writes the record of the training; no clock goes in, so that the same command gives the same bytes."""
    record = {
        "command": command,
        "architecture": description.architecture,
        "settings": asdict(settings),
        "curve": [asdict(row) for row in report.fitted.curve],
        "best_epoch": report.fitted.best_epoch,
        "validation_rmse_rad": report.validation_rmse_rad,
        "mean_rmse_rad": report.mean_rmse_rad,
        "frames": {
            "training": report.training_frames,
            "validation": report.validation_frames,
            "extra": report.extra_frames,
            "broken": report.broken_frames,
            "unlabelled": report.unlabelled_frames,
        },
        "hashes": {"drive": drive.sha256, "weights": report.saved.weights_sha256, "description": description_hash(description)},
        "drive": drive.name,
        "versions": {
            "skidpad": skidpad.__version__,
            "torch": str(torch.__version__),
            "numpy": np.__version__,
            "opencv": cv2.__version__,
            "python": platform.python_version(),
        },
    }
    text = json.dumps(jsonable(record), indent=2, allow_nan=False)
    write_atomically(report.curve_file, (text + "\n").encode())
