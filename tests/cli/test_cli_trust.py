"""A stranger's folder on the command line: nothing in it runs unsaid, and what needs no subject works without one."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

Skidpad = Callable[..., object]


@pytest.fixture
def folder(tmp_path: Path, write_driver: Callable[[Path, str, float], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A black box that leaves a mark whenever its module is imported."""
    name = f"stranger_{tmp_path.name}"
    path = write_driver(tmp_path, name, 0.6)
    module = tmp_path / f"{name}_driver.py"
    module.write_text(module.read_text() + "open(__file__ + '.mark', 'w').close()\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return path.rename(tmp_path / "box.toml").parent


def marks(folder: Path) -> list[Path]:
    return list(folder.glob("*.mark"))


@pytest.mark.usefixtures("untrusting")
def test_every_command_asks_before_it_runs_the_code_of_a_subject(skidpad: Skidpad, folder: Path, drive_text: str) -> None:
    toml, run = folder / "box.toml", folder / "run"
    test = ("test", toml, drive_text, "--transforms", "brightness", "--criteria", "", "--out", run)
    for words in (("inspect", toml), ("evaluate", toml, drive_text), test):
        refused = skidpad(*words)
        assert (refused.code, refused.out) == (2, "")
        assert "would import the Python code" in refused.err
        assert "allow it once with --trust, or for good with `skidpad trust SUBJECT`" in refused.err
    assert not marks(folder)
    assert not run.exists()
    assert skidpad(*test, "--trust").code == 0
    assert marks(folder)
    finding = ("worst",)
    for words in (("resume", run), ("replay", run, *finding), ("shrink", run, *finding), ("export", run, *finding, "--out", folder / "b")):
        assert "would import the Python code" in skidpad(*words).err
    assert "would import the Python code" in skidpad("run", run / "config.toml", "--out", folder / "again").err
    assert not (folder / "again").exists()
    assert skidpad("replay", run, *finding, "--trust").code == 0


@pytest.mark.usefixtures("untrusting")
def test_a_run_is_reported_where_its_subject_is_gone(skidpad: Skidpad, folder: Path, drive_text: str) -> None:
    run, out = folder / "run", ("--out", folder / "run", "--json", "--trust")
    for command in (
        ("test", folder / "box.toml", drive_text, "--transforms", "brightness", "--criteria", ""),
        ("drive", folder / "box.toml", "--scenarios", 1, "--seconds", 1),
        ("compare", folder / "box.toml", "--scenarios", 1, "--seconds", 1),
    ):
        first = skidpad(*command, *out)
        assert first.code == 0, first.err
        page = (run / "report.html").read_text()
        files = {file: file.read_bytes() for file in (*folder.glob("*.py"), *folder.glob("*.toml"))}
        for file in (*files, *marks(folder)):
            file.unlink()
        again = skidpad("report", run, "--json")
        assert again.code == 0, again.err
        assert again.out == first.out
        assert (run / "report.html").read_text() == page
        assert not marks(folder)
        shutil.rmtree(run)
        for file, data in files.items():
            file.write_bytes(data)


@pytest.mark.usefixtures("untrusting")
def test_a_persons_word_is_remembered_and_taken_back(skidpad: Skidpad, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toml = folder / "box.toml"
    monkeypatch.setattr("typer.confirm", lambda _: False)
    refused = skidpad("trust", toml)
    assert refused.code == 2
    assert "is not trusted; nothing was changed" in refused.err
    told = skidpad("trust", toml, "--yes")
    assert "would import the Python code" in told.out
    assert "_driver.py" in told.out
    assert not marks(folder)
    assert skidpad("inspect", toml).code == 0
    assert "you trust it already" in skidpad("trust", toml).out
    assert "no longer trusted" in skidpad("trust", toml, "--forget").out
    assert skidpad("inspect", toml).code == 2
    assert "runs no code" in skidpad("trust", "demo").out


@pytest.mark.usefixtures("untrusting")
def test_a_policy_named_in_a_runs_settings_is_asked_for_and_one_typed_is_not(
    skidpad: Skidpad, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"policy_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(
        "import numpy as np\nopen(__file__ + '.mark', 'w').close()\ndef keep(seen):\n    return np.ones(len(seen), np.int64)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    run = tmp_path / "run"
    typed = skidpad("duel", "test", "--ego", f"{module}:keep", "--test-episodes", 4, "--out", run)
    assert typed.code == 0, typed.err
    for file in marks(tmp_path):
        file.unlink()
    monkeypatch.delitem(__import__("sys").modules, module)
    assert f"would import the Python code '{module}:keep'" in skidpad("resume", run).err
    reported = skidpad("report", run)
    assert reported.code == 0, reported.err
    assert not marks(tmp_path)
    assert "Not drawn: this would import the Python code" in (run / "report.html").read_text()


@pytest.mark.usefixtures("untrusting")
@pytest.mark.parametrize(("place", "said"), [("/gone", "no folder"), ("http://127.0.0.1:9/drive", "allow it once with --trust")])
def test_a_run_is_reported_without_its_drive_and_asks_no_server(
    skidpad: Skidpad, folder: Path, drive: Path, place: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, frames = folder / "run", folder / "frames"
    shutil.copytree(drive, frames)
    text = f"folder:{frames}?csv=angles.csv&id=frame&steering=angle&unit=deg"
    first = skidpad("test", folder / "box.toml", text, "--transforms", "brightness", "--criteria", "", "--out", run, "--json", "--trust")
    assert first.code == 0, first.err
    shutil.rmtree(frames)
    config = run / "config.toml"
    config.write_text(config.read_text().replace(str(frames), place))
    monkeypatch.setattr("skidpad.drives.opening.mirror_of", lambda url: pytest.fail(f"{url} was asked"))
    again = skidpad("report", run, "--json")
    assert again.code == 0, again.err
    kept, found = json.loads(first.out), json.loads(again.out)
    assert found["overall"] == kept["overall"]
    assert found["overall"]["findings"] > 0
    assert found["frames"] == kept["frames"]
    page = (run / "report.html").read_text()
    assert "pictures cannot be drawn" in page
    assert said in page
