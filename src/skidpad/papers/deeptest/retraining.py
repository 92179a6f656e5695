"""The runs, and the retraining, that DeepTest's five questions are answered from; each is resumed where it exists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from skidpad.core.errors import BadDriveError, BadParametersError, BadRunError
from skidpad.core.files import write_atomically
from skidpad.core.progress import Progress
from skidpad.drives.opening import open_drive
from skidpad.kinds.pictures.campaign import DeepTest
from skidpad.kinds.pictures.settings import DeepTestSettings
from skidpad.papers.deeptest import paper
from skidpad.papers.scoreboard import Row
from skidpad.repairs.mutants import Pool, gather
from skidpad.repairs.report import RepairReport
from skidpad.repairs.retraining import repair_on
from skidpad.repairs.settings import RepairSettings, Split
from skidpad.runs.folder import Run
from skidpad.stimuli.pictures import COMPOSITE, SIMPLE
from skidpad.stimuli.registry import Preset
from skidpad.subjects.training.training import beside

if TYPE_CHECKING:
    from skidpad.drives.drive import Drive
    from skidpad.subjects.network_subject import NetworkSubject


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
        subject=settings.subject,
        drive=_origin(drive),
        preset=Preset.DEEPTEST.value,
        seeds=0,
        keep_activations=True,
        seed=settings.seed,
        device=settings.device,
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


@dataclass(frozen=True, slots=True)
class Retraining:
    """One repair a split, the paper's first."""

    reports: tuple[RepairReport, ...]

    def rows(self) -> tuple[Row, ...]:
        """Returns the scoreboard's rows: relative changes, which have no unit."""
        return tuple(_row(report, published) for report in self.reports for published in paper.TABLE_9)


def retrain(
    subject: NetworkSubject, grid: Measured, train_drive: Drive | None, folder: Path, settings: RepairSettings, progress: Progress
) -> Retraining:
    """Repairs the subject on the grid's fog and rain under each split; a repair that the folder holds is taken as it is."""
    pool: Pool | None = None
    reports = []
    for split in Split:
        wanted = replace(settings, split=split)
        out = folder / f"repaired-{split.value}"
        kept = beside(out, ".json")
        if kept.exists():
            report = _read(kept)
            _check_same(report, wanted, subject, grid, train_drive, kept)
        else:
            for suffix in (".toml", ".safetensors"):  # what a stopped replication left; its report was not written yet
                beside(out, suffix).unlink(missing_ok=True)
            pool = pool or gather(grid.campaign, grid.run, wanted, progress)
            report = repair_on(subject, pool, out, wanted, train_drive, progress)
            write_atomically(kept, report.to_json().encode())
        reports.append(report)
    return Retraining(tuple(reports))


def _read(path: Path) -> RepairReport:
    try:
        return RepairReport.from_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadRunError(f"{path} is no whole report of a repair ({error}); remove it, and the repair is made again") from error


def _row(report: RepairReport, published: paper.Retrained) -> Row:
    ours = report.improvement(published.pictures)
    split = report.settings.split.value
    note = "no such pictures"
    if ours is not None:
        note = (
            f"{ours.cases} held out; MSE {ours.mse_before_rad2:.3g} to {ours.mse_after_rad2:.3g} rad^2, "
            f"RMSE {ours.rmse_before_rad:.3g} to {ours.rmse_after_rad:.3g} rad; the paper {published.before} to {published.after}"
        )
        if report.settings.control:
            note += (
                f"; the control, without mutants, comes to MSE {ours.mse_control_rad2:.3g} rad^2, RMSE {ours.rmse_control_rad:.3g} rad: "
                f"{100.0 * ours.mse_change_control:+.3g} %, and the mutants bring {100.0 * ours.mse_change_beyond_control:+.3g} % beyond"
            )
        else:
            note += "; no control"
    return Row.compared(
        "RQ5",
        f"{published.pictures}: change of MSE by retraining, {split} split (%)",
        100.0 * (published.after / published.before - 1.0),
        100.0 * ours.mse_change if ours is not None else None,
        note,
    )


def _check_same(
    report: RepairReport, settings: RepairSettings, subject: NetworkSubject, grid: Measured, train_drive: Drive | None, path: Path
) -> None:
    then = (report.settings, report.subject_sha256, report.run_drive_sha256, report.training_drive_sha256)
    now = (settings, subject.sha256, grid.campaign.drive.sha256, train_drive.sha256 if train_drive is not None else "")
    if then != now:
        raise BadRunError(f"{path} is the repair of another subject, drive or setting; choose another --out")
