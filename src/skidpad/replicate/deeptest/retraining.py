"""RQ5: does retraining on synthetic pictures improve the network?

Reference: DeepTest, section 5 (RQ5), Table 9.
Deviates: besides the paper's random split there is one by time, since neighbouring frames are nearly the same picture;
    and a control, retrained as long without the synthetic pictures, since further training alone may bring the fall.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from skidpad.core.errors import BadRunError
from skidpad.core.files import write_atomically
from skidpad.core.progress import Progress
from skidpad.repair.mutants import Pool, gather
from skidpad.repair.report import RepairReport
from skidpad.repair.retraining import repair_on
from skidpad.repair.settings import RepairSettings, Split
from skidpad.replicate.deeptest import paper
from skidpad.replicate.rows import Row
from skidpad.subjects.saving import beside

if TYPE_CHECKING:
    from skidpad.drives.drive import Drive
    from skidpad.replicate.deeptest.runs import Measured
    from skidpad.subjects.network_subject import NetworkSubject


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
