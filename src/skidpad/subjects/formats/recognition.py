"""Which format a model file is of, what is refused unread, and reading tensors, nothing but tensors, out of torch's archives."""

from __future__ import annotations

import os
import pickle
import re
import struct
import warnings
import zipfile
import zlib
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import torch
from safetensors import SafetensorError

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.description import Format

_MAX_RATIO = 200
"""How much smaller than its content a part of an archive may be: weights hardly shrink at all."""
_LEAST_BYTES = 1024
"""Below this, how small a part is says nothing."""


BROKEN = (
    *(OSError, RuntimeError, ValueError, KeyError, IndexError, TypeError, AttributeError, EOFError, AssertionError, OverflowError),
    *(MemoryError, struct.error, zlib.error, zipfile.BadZipFile, SafetensorError),
)
"""What reading a damaged file may raise; RecursionError and NotImplementedError are RuntimeErrors."""


def reason_of(error: BaseException) -> str:
    """Returns the first line of what went wrong."""
    text = repr(error) if isinstance(error, LookupError) else str(error)  # a KeyError alone would say a name
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:160] if lines else type(error).__name__


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


WAY_OUT = (
    "where the network is at home, write safetensors.torch.save_file(model.state_dict(), 'model.safetensors') for a network "
    "of the zoo, or torch.export.save(torch.export.export(model.eval(), (example,)), 'model.pt2') for any other"
)


def read_weights(source: Path | BytesIO, where: str) -> object:
    """Reads what `torch.save` wrote onto the CPU; anything that would run code is refused, `where` names it in the error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # an unusual pickle protocol is torch's worry, and then refused or not
            # older versions of torch run TorchScript in spite of weights_only, once they have warned
            warnings.filterwarnings("error", ".*TorchScript archive", UserWarning)
            if isinstance(source, BytesIO):
                return _load(source, where)
            with source.open("rb") as stream:  # given a path, torch goes by the suffix
                return _load(stream, where)
    except UserWarning as error:
        raise BadSubjectError(f"{where} is a TorchScript archive, and loading it would run code; {WAY_OUT}") from error
    except pickle.UnpicklingError as error:
        raise BadSubjectError(f"{where} is a pickle that holds more than weights, and loading it would run code; {WAY_OUT}") from error


def _load(stream: BinaryIO, where: str) -> object:
    if zipfile.is_zipfile(stream):
        with zipfile.ZipFile(stream) as archive:
            try:
                check_archive(archive)
            except BadSubjectError as error:
                raise BadSubjectError(f"{where}: {error}") from error
    stream.seek(0)
    return torch.load(stream, map_location="cpu", weights_only=True)


_LFS_POINTER = b"version https://git-lfs.github.com/spec/v1"
_TFLITE = b"TFL3"
_PICKLES = frozenset((".pkl", ".pickle", ".joblib", ".dill"))
_TORCH_MAGIC = b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19"
"""The number that begins what torch wrote before version 1.6, and still writes when asked to."""

_UNMARKED_CONTAINERS = (b"(dp", b"(lp", b"}q", b"]q")
_UNMARKED_CALL = re.compile(rb"\(?[ci][A-Za-z_][\w.]*\n[A-Za-z_][\w.]*\n")
"""How pickles of protocols 0 and 1 begin that hold a container or call something; later ones bear a mark."""

_TENSORFLOW = (
    'convert it to ONNX where TensorFlow is installed: python -m tf2onnx.convert {} --output model.onnx, and write format = "onnx"'
)


def refuse_foreign(file: Path, format_: Format | None = None) -> None:
    """Refuses a file that is a pickle, TensorFlow's or not there but for a pointer; `format_` is what its description says."""
    head = b""
    if file.is_file():
        with file.open("rb") as stream:
            head = stream.read(256)
    _refuse_pointer(file, head)
    _refuse_tensorflow(file, head)
    if file.suffix.lower() in _PICKLES:
        raise BadSubjectError(f"{file} is a pickle, and loading a pickle runs whatever code it holds; {WAY_OUT}")
    if head[4:8] == _TFLITE and format_ is not Format.TFLITE:
        raise BadSubjectError(f'{file} is a TensorFlow Lite file; write format = "tflite"')
    of_torch = _TORCH_MAGIC in head[:32]
    if head.startswith(b"PK"):
        _refuse_archive(file, format_)
    elif of_torch and format_ is not Format.STATE_DICT:
        raise _torch_archive(file)
    elif not of_torch and _is_pickle(head):
        raise BadSubjectError(f"{file} is a pickle, whatever its name says, and loading a pickle runs whatever code it holds; {WAY_OUT}")


def _refuse_pointer(file: Path, head: bytes) -> None:
    if head.startswith(_LFS_POINTER):
        size = re.search(rb"\nsize (\d{1,15})\n", head)
        of_size = f" of {int(size[1]):,} bytes" if size else ""
        raise BadSubjectError(
            f"{file} is a git-lfs pointer, a few lines of text in place of the file{of_size}; "
            "run `git lfs pull` where the repository is, or download the file itself"
        )


def _refuse_tensorflow(file: Path, head: bytes) -> None:
    if file.is_dir() and (file / "saved_model.pb").is_file():
        raise BadSubjectError(f"{file} is a TensorFlow SavedModel, which cannot be read; {_TENSORFLOW.format(f'--saved-model {file}')}")
    if file.name == "saved_model.pb":
        folder = file.absolute().parent
        raise BadSubjectError(
            f"{file} is part of a TensorFlow SavedModel, which cannot be read; {_TENSORFLOW.format(f'--saved-model {folder}')}"
        )
    if file.suffix.lower() == ".pb" and head[:1] == b"\n":  # a list of nodes; an ONNX file begins with its version
        options = f"--graphdef {file} --inputs INPUT:0 --outputs OUTPUT:0"
        raise BadSubjectError(f"{file} is a TensorFlow graph, which cannot be read; {_TENSORFLOW.format(options)}")


def _refuse_archive(file: Path, format_: Format | None) -> None:
    try:
        with zipfile.ZipFile(file) as archive:
            inner = [name.partition("/")[2] or name for name in archive.namelist()]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return  # damaged; whoever reads it says how
    if "data.pkl" not in inner:
        return
    scripted = any(name.startswith("code/") for name in inner)
    if scripted and format_ is not Format.TORCHSCRIPT:
        raise BadSubjectError(f'{file} is a TorchScript archive; write format = "torchscript"')
    if not scripted and format_ is not Format.STATE_DICT:
        raise _torch_archive(file)


def _torch_archive(file: Path) -> BadSubjectError:
    return BadSubjectError(
        f"{file} is what torch.save writes, a pickle, and loading a pickle runs whatever code it holds; if it is a state dict, "
        f'write format = "state-dict", with which only tensors are read; otherwise {WAY_OUT}'
    )


def _is_pickle(head: bytes) -> bool:
    if head[:1] == b"\x80" and b"\x02" <= head[1:2] <= b"\x05":
        return head[4:9] != b"\x00\x00\x00\x00{"  # a safetensors header of the right length begins alike
    return head.startswith(_UNMARKED_CONTAINERS) or _UNMARKED_CALL.match(head) is not None


_SUFFIXES = {
    ".safetensors": Format.SAFETENSORS,
    ".pt": Format.STATE_DICT,
    ".pth": Format.STATE_DICT,
    ".bin": Format.STATE_DICT,
    ".ts": Format.TORCHSCRIPT,
    ".pt2": Format.EXPORT,
    ".onnx": Format.ONNX,
    ".tflite": Format.TFLITE,
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
        if head[4:8] == _TFLITE:
            return Format.TFLITE
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
