"""Mutated model files of every format end in a subject or in one sentence: no signal, no hang, no traceback."""

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import torch
from format_family import write_export, write_onnx, write_torchscript
from safetensors.torch import save_file
from torch import nn

from skidpad.subjects.description import Description, Format, write_description
from skidpad.subjects.inputs import InputSpec
from skidpad.subjects.introspection import propose
from skidpad.subjects.zoo import ARCHITECTURES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded as Linux does it")
KERAS = Path(__file__).with_name("keras_files")
ZOO, SHAPE = "pilotnet", (3, 16, 24)


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(2 * 14 * 22, 1)).eval()


def of_zoo(folder: Path) -> str:
    save_file(ARCHITECTURES.get(ZOO).build().state_dict(), folder / "net.safetensors")
    return "net.safetensors"


def of_weights(folder: Path) -> str:
    torch.save(ARCHITECTURES.get(ZOO).build().state_dict(), folder / "net.pt")
    return "net.pt"


def of_keras(name: str, *further: str) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        for file in (name, *further):
            (folder / file).write_bytes((KERAS / file).read_bytes())
        return name

    return write


SEEDS: dict[str, tuple[Callable[[Path], str], str]] = {
    "safetensors": (of_zoo, ""),
    "toml": (of_zoo, "seed.toml"),
    "pt": (of_weights, ""),
    "ts": (lambda folder: write_torchscript(net(), SHAPE, folder).name, ""),
    "pt2": (lambda folder: write_export(net(), SHAPE, folder).name, ""),
    "onnx": (lambda folder: write_onnx(net(), SHAPE, folder).name, ""),
    "h5": (of_keras("residual_keras2.h5"), ""),
    "keras": (of_keras("residual_keras3.keras"), ""),
    "json": (of_keras("recurrent_keras2.json", "recurrent_keras2_weights.h5"), ""),
    "weights": (of_keras("recurrent_keras2.json", "recurrent_keras2_weights.h5"), "recurrent_keras2_weights.h5"),
}
"""What writes a whole subject, and which of its files is mutated where it is not the first."""


def seeded(kind: str, folder: Path) -> str:
    write, other = SEEDS[kind]
    file = folder / write(folder)
    if kind == "ts":
        write_description(folder / "seed.toml", Description("net", file.name, Format.TORCHSCRIPT, InputSpec(24, 16)))
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (folder / "seed.toml").write_text(propose(file).to_toml())
    return other or file.name


def run(kinds: Iterable[str], count: int, folder: Path) -> None:
    """Mutates files of these kinds in one process, since to start one costs more than a hundred files."""
    files: list[str] = []
    for kind in kinds:
        (folder / kind).mkdir()
        files.append(str(folder / kind / seeded(kind, folder / kind)))
    words = [sys.executable, str(Path(__file__).with_name("mutating.py")), str(count), *files]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=1800, check=False)
    last = {path.parent.name: path.read_text() for path in folder.glob("*/number")}
    assert ended.returncode == 0, f"code {ended.returncode}; the last mutations are {last}\n{ended.stdout}{ended.stderr[-2000:]}"
    assert ended.stdout.count("loaded") == len(files)


def test_some_mutated_files_of_each_kind_end_well(tmp_path: Path) -> None:
    run(SEEDS, 60, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1900)
@pytest.mark.parametrize("kind", SEEDS)
def test_a_thousand_mutated_files_end_well(kind: str, tmp_path: Path) -> None:
    run([kind], 1000, tmp_path)
