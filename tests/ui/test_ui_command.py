"""skidpad ui: what it refuses before it listens."""

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from skidpad.cli.main import main


@pytest.fixture
def skidpad(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    def call(*words: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["skidpad", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), capsys.readouterr().err

    return call


def test_a_folder_that_is_not_there(skidpad: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    code, said = skidpad("ui", tmp_path / "nowhere")
    assert code == 2
    assert "takes a run, or a folder of runs" in said


def test_a_study_without_pictures(skidpad: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    code, said = skidpad("ui", tmp_path, "--study", tmp_path, tmp_path)
    assert code == 2
    assert "holds no pictures" in said


def test_a_port_that_is_none(skidpad: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    code, said = skidpad("ui", tmp_path, "--port", "70000")
    assert code == 2
    assert "choose another --port" in said


def test_a_missing_package_names_its_extra(
    skidpad: Callable[..., tuple[int, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec

    def without_duckdb(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "duckdb" else found(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without_duckdb)
    code, said = skidpad("ui", tmp_path)
    assert code == 2
    assert "pip install 'skidpad[ui]'" in said


def test_the_page_is_served_until_it_is_stopped(
    skidpad: Callable[..., tuple[int, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from skidpad.ui import app as serving

    taken = []

    class Stopped:
        def __init__(self, app: object) -> None:
            self.app = app

        def run(self, sockets: list[object]) -> None:
            taken.extend(sockets)
            raise KeyboardInterrupt

    monkeypatch.setattr(serving, "server_of", Stopped)
    assert skidpad("ui", tmp_path, "--port", "0") == (0, "")
    assert len(taken) == 1


def test_who_only_looks_at_runs_waits_for_no_torch() -> None:
    code = (
        "import sys, skidpad.ui.app, skidpad.page.writing, skidpad.kinds.limits.exhibit, skidpad.kinds.pictures.exhibit; "
        "print('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "False"
