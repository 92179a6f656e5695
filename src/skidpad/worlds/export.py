"""Writes a drive as pictures and a csv, so that people and other programs can look at it."""

import csv
from pathlib import Path

from skidpad.core.errors import BadDriveError
from skidpad.core.images import write_image
from skidpad.core.progress import Progress, silent
from skidpad.drives.drive import Drive

_BATCH = 64


def write_drive(drive: Drive, folder: Path, progress: Progress = silent) -> int:
    """Writes `center/ID.png` and `steering.csv`, which the reader `udacity` opens again; returns how many frames.

    The folder must be empty or not yet there. PNG keeps every pixel. Frames that cannot be read are left out.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadDriveError(f"{str(folder)!r} is in use; name an empty or a new folder to write the drive to")
    pictures = folder / "center"
    pictures.mkdir(parents=True)
    written = 0
    with (folder / "steering.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(("frame_id", "steering_angle"))
        for batch in drive.batches(_BATCH):
            for frame_id, frame, steering_rad in zip(batch.frame_ids, batch.frames, batch.steering_rad.tolist(), strict=True):
                write_image(pictures / f"{frame_id}.png", frame)
                table.writerow((frame_id, repr(steering_rad)))
            written += len(batch)
            progress(written, len(drive), "pictures")
    return written
