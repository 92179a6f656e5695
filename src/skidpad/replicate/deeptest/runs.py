"""The three runs that the five questions are answered from; each is resumed where it exists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from skidpad.campaigns.deeptest import DeepTest
from skidpad.campaigns.settings import DeepTestSettings
from skidpad.core.errors import BadDriveError, BadParametersError, BadRunError
from skidpad.core.progress import Progress
from skidpad.drives.opening import open_drive
from skidpad.replicate.deeptest import paper
from skidpad.runs.folder import Run
from skidpad.transforms import COMPOSITE, SIMPLE

if TYPE_CHECKING:
    from skidpad.drives.drive import Drive

ORIGINALS_RUN, GRID_RUN, SEEDS_RUN = "originals", "grid", "seeds"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationSettings:
    """One replication; `images` and `seeds` are the most frames of RQ2 to RQ5 and of RQ3, evenly spaced; `control` is RQ5's."""

    subject: str
    drive: str
    train_drive: str = ""
    images: int = paper.RQ2_IMAGES
    seeds: int = paper.RQ3_SEEDS
    max_mutants: int = 6000
    epochs: int | None = None
    control: bool = True
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("images", "seeds"):
            if getattr(self, name) < 1:
                raise BadParametersError(f"{name} must be at least 1; got {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class Measured:
    """A run with the campaign that made it."""

    run: Run
    campaign: DeepTest


@dataclass(frozen=True, slots=True)
class Runs:
    """originals: the whole drive as it is (RQ1, MSE_orig). grid: all nine transforms on `images` frames (RQ2, RQ4, RQ5).

    seeds: the seven simple ones by grid, by Algorithm 1 and at random on `seeds` frames (RQ3, guided of RQ4).
    """

    originals: Measured
    grid: Measured
    seeds: Measured


def measure(settings: ReplicationSettings, folder: Path, progress: Callable[[str], Progress]) -> Runs:
    """Makes or resumes the runs in the folder; `progress` gives the progress of each run by its name."""
    drive = open_drive(settings.drive)
    if not drive.has_labels:
        raise BadDriveError(
            f"the drive {settings.drive!r} has no labels, and RQ4 and RQ5 compare with the human's steering; give one with labels"
        )
    base = DeepTestSettings(
        subject=settings.subject, drive=_origin(drive), seeds=0, keep_activations=True, seed=settings.seed, device=settings.device
    )
    variants = {
        ORIGINALS_RUN: _varied(base, drive, len(drive), SIMPLE, ()),
        GRID_RUN: _varied(base, drive, settings.images, (*SIMPLE, *COMPOSITE), ("grid",)),
        # A drive of the seeds alone: Algorithm 1 starts from the coverage of all originals of its run.
        SEEDS_RUN: _varied(base, drive, settings.seeds, SIMPLE, ("grid", "greedy", "random")),
    }
    return Runs(*(_measured(variant, folder / name, progress(name)) for name, variant in variants.items()))


def evenly_spaced(drive: Drive, at_most: int) -> Drive:
    """Returns every k-th frame, the smallest k that leaves at most so many; a slice that a text can name."""
    return drive[:: max(1, ceil(len(drive) / at_most))]


def _varied(base: DeepTestSettings, drive: Drive, frames: int, transforms: tuple[str, ...], searches: tuple[str, ...]) -> DeepTestSettings:
    return replace(base, drive=_origin(evenly_spaced(drive, frames)), transforms=transforms, searches=searches)


def _origin(drive: Drive) -> str:
    if not drive.origin:
        raise BadDriveError(
            f"the drive {drive.name!r} cannot be named by a text, so its runs could not be resumed; give a folder or a reader"
        )
    return drive.origin


def _measured(settings: DeepTestSettings, path: Path, progress: Progress) -> Measured:
    campaign = DeepTest.load(settings)
    if (path / "manifest.json").exists():
        run = Run.open(path)
        if DeepTestSettings.from_config(run.config) != campaign.settings:
            raise BadRunError(f"{path} holds a run with other settings; choose another --out, or repeat the settings of that run")
    else:
        run = campaign.start(path)
    campaign.execute(run, progress)
    return Measured(run, campaign)
