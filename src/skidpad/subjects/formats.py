"""Which format a model file has, by its name and its first bytes; nothing in it is executed."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.description import Format
from skidpad.subjects.foreign import refuse_foreign

if TYPE_CHECKING:
    from pathlib import Path

_SUFFIXES = {
    ".safetensors": Format.SAFETENSORS,
    ".pt": Format.STATE_DICT,
    ".pth": Format.STATE_DICT,
    ".bin": Format.STATE_DICT,
    ".ts": Format.TORCHSCRIPT,
    ".pt2": Format.EXPORT,
    ".onnx": Format.ONNX,
    ".keras": Format.KERAS,
    ".h5": Format.KERAS,
    ".hdf5": Format.KERAS,
    ".json": Format.KERAS,
}
_HDF5 = b"\x89HDF\r\n\x1a\n"


def is_named_like_a_model(path: Path) -> bool:
    """Tells whether a file, there or not, has the name of a model; `.ts` is a video's as well."""
    return path.suffix.lower() in set(_SUFFIXES) - {".ts"}


def format_of(file: Path) -> Format:
    """Tells the format of a model file; its content counts more than its name. Pickles are refused."""
    found = _by_content(file) or _SUFFIXES.get(file.suffix.lower())
    refuse_foreign(file, found)
    if found is None:
        known = ", ".join(_SUFFIXES)
        raise BadSubjectError(f"cannot tell what {file} is: its name and its first bytes are of no format that is known ({known})")
    return found


def _by_content(file: Path) -> Format | None:
    try:
        with file.open("rb") as stream:
            head = stream.read(16)
        if head.startswith(_HDF5):
            return Format.KERAS
        if head.startswith(b"PK"):
            with zipfile.ZipFile(file) as archive:
                return _by_members({name.partition("/")[2] or name for name in archive.namelist()} | set(archive.namelist()))
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return None  # whoever reads it says what is wrong
    # eight bytes of length, then the JSON of the header
    return Format.SAFETENSORS if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 32 else None


def _by_members(names: set[str]) -> Format | None:
    if "config.json" in names and "model.weights.h5" in names:
        return Format.KERAS
    if "serialized_exported_program.json" in names or any(name.startswith("models/") and name.endswith(".json") for name in names):
        return Format.EXPORT
    if "data.pkl" in names:
        return Format.TORCHSCRIPT if any(name.startswith("code/") for name in names) else Format.STATE_DICT
    return None
