"""A drive as users have it: JPEG files in a folder with a csv."""

from __future__ import annotations

import csv
from pathlib import Path

from skidpad.core.images import write_image
from skidpad.drives.drive import Drive


def jpeg_drive(drive: Drive, folder: Path) -> str:
    """Writes the frames and labels as the reader `udacity` takes them, and returns the text that opens them."""
    (folder / "center").mkdir(parents=True)
    with (folder / "steering.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(("frame_id", "steering_angle"))
        for batch in drive.batches(64):
            for frame_id, frame, steering_rad in zip(batch.frame_ids, batch.frames, batch.steering_rad.tolist(), strict=True):
                write_image(folder / "center" / f"{frame_id}.jpg", frame)
                table.writerow((frame_id, repr(steering_rad)))
    return f"udacity:{folder}"
