"""ROS bags: `*.bag` of ROS 1, and the folders or `*.db3` files of ROS 2."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skidpad.core.errors import BadDriveError
from skidpad.core.files import open_regular
from skidpad.drives.drive import Drive
from skidpad.drives.readers import READERS, Option, Options
from skidpad.drives.recorded import OPTIONS, recorded_drive
from skidpad.drives.recording import Recording
from skidpad.drives.rosbag_db3 import MAGIC as DB3_MAGIC
from skidpad.drives.rosbag_db3 import BagDb3
from skidpad.drives.rosbag_v1 import MAGIC as V1_MAGIC
from skidpad.drives.rosbag_v1 import BagV1

METADATA = "metadata.yaml"


@READERS.register("rosbag")
@dataclass(frozen=True, slots=True)
class Rosbag:
    """Reads the pictures of one camera with the nearest steering angle; types come from the bag itself."""

    looks_for: str = f"a ROS 1 bag (*.bag), or a ROS 2 bag (a folder with {METADATA}, or *.db3)"
    needs_path: bool = True
    takes_files: bool = True
    options: tuple[Option, ...] = OPTIONS

    def recognises(self, path: Path) -> bool:
        """Looks at the first bytes of a file, or for ROS 2's description in a folder."""
        if path.is_dir():
            return (path / METADATA).is_file()
        return first_bytes(path).startswith((V1_MAGIC, DB3_MAGIC)) or path.name.endswith((".bag", ".bag.active", ".db3"))

    def open(self, path: Path, options: Options) -> Drive:
        """Indexes the bag in one pass."""
        return recorded_drive(path.stem if path.is_file() else path.name, _recording(path), options)


def first_bytes(path: Path) -> bytes:
    """Returns the first few bytes of a file; none where it is not one."""
    try:
        with open_regular(path) as file:
            return file.read(16)
    except OSError:
        return b""


def _recording(path: Path) -> Recording:
    if path.is_dir():
        return _of_folder(path)
    return BagDb3((path,)) if path.suffix == ".db3" or first_bytes(path).startswith(DB3_MAGIC) else BagV1(path)


def _of_folder(path: Path) -> Recording:
    """A ROS 2 bag is a folder of one or more files of one storage; split files go on where the one before ends."""
    databases = tuple(sorted(path.glob("*.db3"), key=_part_number))
    if databases:
        return BagDb3(databases)
    captures = sorted(path.glob("*.mcap"), key=_part_number)
    if captures:
        from skidpad.drives.mcap import McapFiles  # noqa: PLC0415 - a bag of this kind alone needs it

        return McapFiles(tuple(captures))
    packed = sorted(entry.name for entry in path.glob("*.zstd"))
    if packed:
        raise BadDriveError(f"{packed[0]} in {str(path)!r} is compressed as a whole; unpack it first with: zstd -d {packed[0]}")
    raise BadDriveError(f"no *.db3 and no *.mcap in {str(path)!r}; a ROS 2 bag has its messages in one of them")


def _part_number(path: Path) -> tuple[int, str]:
    """Sorts `drive_2.db3` before `drive_10.db3`."""
    number = path.stem.rpartition("_")[2]
    return (int(number) if number.isdecimal() else -1, path.name)
