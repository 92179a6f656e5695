"""Zip archives from elsewhere: what they claim to hold must be in proportion to what is there."""

from __future__ import annotations

import os
import zipfile

from skidpad.core.errors import BadSubjectError

_MAX_RATIO = 200
"""How much smaller than its content a part of an archive may be: weights hardly shrink at all."""
_LEAST_BYTES = 1024
"""Below this, how small a part is says nothing."""


def check_archive(archive: zipfile.ZipFile) -> None:
    """Refuses an archive that would grow without measure when it is read, whole or by parts that share their bytes."""
    there = archive.fp.seek(0, os.SEEK_END) if archive.fp is not None else 0
    packed = 0
    for info in archive.infolist():
        packed += info.compress_size
        if info.file_size > _MAX_RATIO * max(info.compress_size, _LEAST_BYTES):
            raise BadSubjectError(
                f"the part {info.filename!r} of its archive grows to {info.file_size} bytes from {info.compress_size}; that is refused"
            )
    if packed > there:
        raise BadSubjectError(f"the parts of its archive have {packed} bytes together, and it has {there}; that is refused")
