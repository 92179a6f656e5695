"""The reader of MCAP files with ROS messages in them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skidpad.drives.drive import Drive
from skidpad.drives.readers import READERS, Option, Options
from skidpad.drives.recorded import OPTIONS, recorded_drive
from skidpad.drives.rosbag import first_bytes

_MAGIC = b"\x89MCAP0\r\n"


@READERS.register("mcap")
@dataclass(frozen=True, slots=True)
class Mcap:
    """Reads the pictures of one camera with the nearest steering angle; types come from the file itself."""

    looks_for: str = "an MCAP file (*.mcap) with ROS messages"
    needs_path: bool = True
    takes_files: bool = True
    options: tuple[Option, ...] = OPTIONS

    def recognises(self, path: Path) -> bool:
        """Looks at the first bytes and the suffix."""
        return path.is_file() and (path.suffix == ".mcap" or first_bytes(path).startswith(_MAGIC))

    def open(self, path: Path, options: Options) -> Drive:
        """Indexes the file in one pass."""
        from skidpad.drives.mcap_file import McapFiles  # noqa: PLC0415 - comes with an extra

        return recorded_drive(path.stem, McapFiles((path,)), options)
