import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.description import Description, Format, format_description, write_description
from skidpad.subjects.formats.recognition import refuse_foreign
from skidpad.subjects.inputs import InputSpec
from skidpad.subjects.introspection import propose
from skidpad.subjects.loading import load_subject

FILES = [format_ for format_ in Format if format_ is not Format.BOX]
SUFFIXES = [".safetensors", ".pt", ".pth", ".bin", ".ts", ".pt2", ".onnx", ".keras", ".h5", ".hdf5", ".json", ".pkl", ".weights", ""]


class CreatesMarker:
    """Unpickling it creates a folder."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return os.mkdir, (str(self.marker),)


def plain(protocol: int) -> Callable[[Path, CreatesMarker], None]:
    def write(path: Path, trap: CreatesMarker) -> None:
        path.write_bytes(pickle.dumps(trap, protocol))

    return write


def in_a_dict(path: Path, trap: CreatesMarker) -> None:
    path.write_bytes(pickle.dumps({"weights": [1.0], "trap": trap}, 0))


def in_a_list(path: Path, trap: CreatesMarker) -> None:
    path.write_bytes(pickle.dumps([trap], 1))


def saved(path: Path, trap: CreatesMarker) -> None:
    torch.save({"weights": torch.zeros(2), "trap": trap}, path)


def saved_the_old_way(path: Path, trap: CreatesMarker) -> None:
    torch.save({"weights": torch.zeros(2), "trap": trap}, path, _use_new_zipfile_serialization=False)


def hidden_among_a_keras_archive(path: Path, trap: CreatesMarker) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (("config.json", b"{}"), ("version", b"3\n"), ("data.pkl", pickle.dumps(trap, 2))):
            archive.writestr(f"net/{name}", data)


TRAPS = [*map(plain, range(6)), in_a_dict, in_a_list, saved, saved_the_old_way, hidden_among_a_keras_archive]
NAMES = [*(f"protocol {number}" for number in range(6)), "dict", "list", "torch.save", "old torch.save", "archive"]


def described(folder: Path, file: str, format_: Format) -> Path:
    toml = folder / "described.toml"
    architecture = "pilotnet" if format_.weights_only else None
    toml.write_text(format_description(Description("net", file, format_, InputSpec(200, 66), architecture=architecture)))
    return toml


@pytest.mark.parametrize("write", TRAPS, ids=NAMES)
def test_a_pickle_under_any_name_and_format_is_named_and_never_run(write: Callable[[Path, CreatesMarker], None], tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    for suffix in SUFFIXES:
        file = tmp_path / f"net{suffix}"
        write(file, CreatesMarker(marker))
        for format_ in FILES:
            with pytest.raises(BadSubjectError, match=r"\bpickle\b.*(safetensors\.torch\.save_file|state-dict)") as caught:
                load_subject(described(tmp_path, file.name, format_))
            assert "\n" not in str(caught.value)
        with pytest.raises(BadSubjectError):
            load_subject(file)
    assert not marker.exists()
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            data = archive.read(next(name for name in archive.namelist() if name.endswith("data.pkl")))
    else:
        data = file.read_bytes()
    if write not in {saved, saved_the_old_way}:
        pickle.loads(data)
    else:
        torch.load(file, weights_only=False)
    assert marker.exists(), "the trap itself must work"


@pytest.mark.parametrize("protocol", [0, 1, 2, 4, 5])
def test_a_trap_in_the_second_file_of_a_pair_is_never_run(protocol: int, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    (tmp_path / "net.json").write_text("{}")
    (tmp_path / "net.h5").write_bytes(pickle.dumps(CreatesMarker(marker), protocol))
    toml = tmp_path / "net.toml"
    write_description(toml, Description("net", "net.json", Format.KERAS, InputSpec(200, 66), weights="net.h5"))
    with pytest.raises(BadSubjectError, match=r"net\.h5 is a pickle"):
        load_subject(toml)
    assert not marker.exists()


def test_a_safetensors_file_is_never_taken_for_a_pickle(tmp_path: Path) -> None:
    file = tmp_path / "net.safetensors"
    for length in [*range(0x200, 0x600, 8), 0x280280, 0x3950480]:
        file.write_bytes(length.to_bytes(8, "little") + b'{"weight": ')
        refuse_foreign(file, Format.SAFETENSORS)


@pytest.mark.parametrize(
    "text", [b"", b"c", b"convolution\nweights of mine\n", b"(lorem ipsum)", b"hello.", b"{}", b"\x80", b"\x08\x07\x12"]
)
def test_other_bytes_are_left_to_their_reader(text: bytes, tmp_path: Path) -> None:
    file = tmp_path / "net.onnx"
    file.write_bytes(text)
    for format_ in FILES:
        refuse_foreign(file, format_)


@pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated:DeprecationWarning")
def test_an_archive_under_the_wrong_format_names_the_right_one(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 1))
    torch.jit.save(torch.jit.trace(net, torch.zeros(1, 4)), tmp_path / "net.onnx")
    torch.save(net.state_dict(), tmp_path / "net.ts")
    with pytest.raises(BadSubjectError, match='write format = "torchscript"'):
        load_subject(described(tmp_path, "net.onnx", Format.ONNX))
    with pytest.raises(BadSubjectError, match='if it is a state dict, write format = "state-dict"'):
        load_subject(described(tmp_path, "net.ts", Format.TORCHSCRIPT))


@pytest.mark.parametrize("format_", [*FILES, None])
def test_files_of_tensorflow_name_the_converter(format_: Format | None, tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "saved_model.pb").write_bytes(b"\x08\x01\x12\x00")
    (tmp_path / "graph.pb").write_bytes(b"\n\x05abcde")
    for file, option in (
        ("saved", "--saved-model .*saved"),
        ("saved/saved_model.pb", "--saved-model .*saved"),
        ("graph.pb", r"--graphdef .*graph\.pb --inputs"),
    ):
        subject = tmp_path / file if format_ is None else described(tmp_path, file, format_)
        with pytest.raises(
            BadSubjectError, match=f"TensorFlow.*tf2onnx.convert {option} --output model.onnx" if "graph" not in file else option
        ):
            load_subject(subject)


@pytest.mark.parametrize("suffix", ["h5", "json", "keras", "onnx", "pt", "pth", "pt2", "ts", "safetensors", "pkl", "tflite"])
def test_a_pointer_of_git_lfs_is_named_whatever_it_stands_for(suffix: str, tmp_path: Path) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 3079024\n"
    (tmp_path / f"net.{suffix}").write_text(pointer)
    for subject in (tmp_path / f"net.{suffix}", *(described(tmp_path, f"net.{suffix}", format_) for format_ in FILES)):
        with pytest.raises(BadSubjectError, match=r"git-lfs pointer, .* in place of the file of 3,079,024 bytes; run `git lfs pull`"):
            load_subject(subject)
    with pytest.raises(BadSubjectError, match="git-lfs pointer"):
        propose(tmp_path / f"net.{suffix}")


def test_weights_of_a_config_may_be_a_pointer_too(tmp_path: Path) -> None:
    (tmp_path / "net.json").write_text('{"class_name": "Sequential", "config": []}')
    (tmp_path / "net_weights.h5").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(BadSubjectError, match=r"net_weights\.h5 is a git-lfs pointer"):
        propose(tmp_path / "net.json")


def test_a_folder_is_no_subject(tmp_path: Path) -> None:
    with pytest.raises(BadSubjectError, match="is a folder and no subject"):
        load_subject(tmp_path)
