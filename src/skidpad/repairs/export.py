"""Mutants and labels as a data set, a folder with a table, for a training of one's own."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from io import StringIO
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from skidpad.core.errors import BadDriveError, BadParametersError, BadRunError, UnknownNameError
from skidpad.core.images import as_numpy, encode
from skidpad.core.progress import Progress, silent
from skidpad.core.seeding import child_rng
from skidpad.drives.drive import capture_of
from skidpad.kinds.kind import load_campaign
from skidpad.kinds.limits.campaign import Limits
from skidpad.kinds.pictures.campaign import DeepTest
from skidpad.repairs.families import Families
from skidpad.repairs.mutants import unchanged_drive
from skidpad.repairs.pairs import Clip, clips_of
from skidpad.repairs.source import KINDS, findings_of
from skidpad.stimuli.pictures import stimuli
from skidpad.subjects.description import write_atomically

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skidpad.core.stimuli import Stimulus
    from skidpad.drives.drive import Drive
    from skidpad.runs.folder import Run

COLUMNS = ("frame_id", "steering_angle", "original", "original_steering", "recipe", "kind")
_FRAMES = 4
"""Frames that share a drawn recipe."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written. held_back: findings of conditions that are kept to judge by."""

    folder: Path
    findings: int
    random: int
    held_back: int = 0

    @property
    def said(self) -> str:
        """Says it, and how the folder is opened."""
        left_out = (
            f"; {self.held_back} findings of conditions that --unseen or --families leaves out are not in it; --unseen none holds none back"
            if self.held_back
            else ""
        )
        return (
            f"{self.findings} findings and {self.random} random mutants in {self.folder}, with labels.csv (radians, moved with the camera "
            f"where a condition moves it); skidpad opens it as 'folder:{self.folder}?csv=labels.csv&unit=rad'{left_out}"
        )


def export_mutants(
    run: Run,
    folder: Path,
    *,
    families: Sequence[str] = (),
    held_back: Sequence[str] = (),
    weathers: Sequence[str] = (),
    pictures: int = 4000,
    train_share: float = 1.0,
    seed: int = 0,
    progress: Progress = silent,
) -> Exported:
    """Writes the run's findings and about as many random mutants as asked for, as PNG files at the drive's size, with labels.

    families: conditions to show; empty for those that the run tried. held_back: groups or conditions that are left out, to judge by.
    weathers: learned ones to show as well.
    train_share: of the drive, by time. Works for any subject, since no network is asked: black boxes, compiled files, and networks whose
    training lives elsewhere.
    """
    if folder.exists() and not folder.is_dir():
        raise BadParametersError(f"{folder} is a file, and an export writes a folder; choose another --export")
    if not 0.0 < train_share <= 1.0:
        raise BadParametersError(f"--train-share is a share above 0 and at most 1; got {train_share:g}")
    if folder.exists() and any(folder.iterdir()):
        raise BadParametersError(f"{folder} has files in it, and an export writes over none; choose another folder")
    if run.config.get("campaign") not in KINDS:
        raise BadRunError(f"{run.path} is no run of `skidpad test` or `skidpad limits`")
    campaign = load_campaign(run.config, str(run.path), run.manifest)
    if not isinstance(campaign, DeepTest | Limits):
        raise BadRunError(f"{run.path} holds a campaign that a repair cannot read")
    whole = unchanged_drive(run, campaign.settings.drive)
    if not whole.has_labels:
        raise BadDriveError(f"no frame of {whole.name!r} has a label to export beside its mutants; use a drive with labels")
    drive = whole.split(train_share)[0] if train_share < 1.0 else whole
    known = Families.of((), ()).made
    for name in families:
        if name not in known:
            raise UnknownNameError.among("condition to export", name, known)
    shown = Families.of(families or tuple(campaign.stimuli), held_back, weathers)
    on_drive = [each for each in (findings_of(run) if isinstance(campaign, DeepTest) else ()) if each[0] < len(drive)]
    unseen = set(shown.made) - set(shown.seen)
    found = [Clip(np.array([frame]), recipe) for frame, recipe in on_drive if not {step.stimulus for step in recipe.steps} & unseen]
    rng = child_rng(seed, "repair", "export")
    drawn = clips_of(drive, [shown.draw(rng) for _ in range(pictures // _FRAMES)], _FRAMES, 0, rng)
    made = {**stimuli(), **shown.weathers}
    table = StringIO()
    rows = csv.writer(table, lineterminator="\n")
    rows.writerow(COLUMNS)
    written = {"finding": 0, "random": 0}
    for number, (kind, clip) in enumerate([*(("finding", each) for each in found), *(("random", each) for each in drawn)]):
        for row in _written(drive, clip, kind, made, folder, written):
            rows.writerow(row)
        progress(number + 1, len(found) + len(drawn), "writing mutants")
    write_atomically(folder / "labels.csv", table.getvalue().encode())
    return Exported(folder, written["finding"], written["random"], len(on_drive) - len(found))


def _written(
    drive: Drive, clip: Clip, kind: str, made: Mapping[str, Stimulus], folder: Path, written: dict[str, int]
) -> list[tuple[object, ...]]:
    batch = drive.read(clip.frames)
    if not len(batch):
        return []
    changed = as_numpy(clip.recipe.apply(batch.frames, made, capture_of(drive, batch.indices)))
    moved = clip.recipe.moved_rad(batch.steering_rad, made)
    rows: list[tuple[object, ...]] = []
    for place, picture in enumerate(changed):
        if not isfinite(moved[place]):
            continue
        name = f"{kind}-{written[kind]:06d}.png"
        written[kind] += 1
        write_atomically(folder / name, encode(picture))
        original = float(batch.steering_rad[place])
        rows.append((name, repr(float(moved[place])), batch.frame_ids[place], repr(original), clip.recipe.to_json(), kind))
    return rows
