"""A small network and a small drive on disk, and the command line in this process."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from skidpad.cli.main import main
from skidpad.subjects.training.training import save_subject
from skidpad.subjects.zoo import ARCHITECTURES


@dataclass(frozen=True)
class Outcome:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def skidpad(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    monkeypatch.setenv("COLUMNS", "200")

    def call(*words: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["skidpad", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        code = ended.value.code
        return Outcome(code if isinstance(code, int) else 0, printed.out, printed.err)

    return call


@pytest.fixture(scope="session")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("subject")
    with torch.random.fork_rng([]):
        torch.manual_seed(5)
        zoo = ARCHITECTURES.get("pilotnet")
        module = zoo.build(zoo.input)
    save_subject(module, zoo.describe("small", "small.safetensors"), folder / "small")
    return folder / "small.toml"


@pytest.fixture(scope="session")
def drive(tmp_path_factory: pytest.TempPathFactory, write_drive: Callable[[Path], Path]) -> Path:
    return write_drive(tmp_path_factory.mktemp("drive"))


@pytest.fixture(scope="session")
def drive_text(drive: Path) -> str:
    return f"folder:{drive}?csv=angles.csv&id=frame&steering=angle&unit=deg"
