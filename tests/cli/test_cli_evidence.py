"""What the commands make of a run that was changed or damaged, and of names that would drive the terminal."""

import json
import shutil
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from skidpad.page import terminal as console
from skidpad.page.terminal import harmless, print_json
from skidpad.runs.tags import Tag, Tags

EVIL = "\x1b]0;mine\x07\x1b[2Jx\x9b31m\u202egnp.\u2066\x7f"
"""Sets the title, clears the screen, turns red in 8-bit codes, reads backwards, and deletes."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, write_driver, drive: Path) -> Path:
    """A finished run whose findings are tagged, one of them as a false alarm."""
    from skidpad.kinds.pictures.campaign import DeepTest
    from skidpad.kinds.pictures.settings import DeepTestSettings

    subject = write_driver(tmp_path_factory.mktemp("drivers"), "bad-of-evidence", 0.55)
    origin = f"folder:{drive}?csv=angles.csv&id=frame&steering=angle&unit=deg"
    settings = DeepTestSettings(subject=str(subject), drive=origin, transforms=("brightness",), relation="steers-alike", tolerance=10.0)
    campaign = DeepTest.load(settings)
    run = campaign.start(tmp_path_factory.mktemp("runs") / "run")
    campaign.execute(run)
    first, second = (row["case_id"] for row in run.findings(limit=2, columns=["case_id"]).to_pylist())
    Tags.of(run.path).put(first, Tag.FALSE_ALARM)
    Tags.of(run.path).put(second, Tag.REAL_FAULT)
    return run.path


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "run")


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_a_changed_tolerance_is_said_passes_no_gate_and_is_not_resumed(skidpad: Callable[..., object], run: Path) -> None:
    assert json.loads(skidpad("report", run, "--json").out)["evidence"] == "unchanged"
    assert skidpad("gate", run, "--max-rate", "1").code == 0
    change(run / "config.toml", "tolerance = 10.0", "tolerance = 90.0")
    told = skidpad("report", run, "--json")
    assert told.code == 0, told.err
    assert json.loads(told.out)["evidence"] == "changed: config.toml"
    assert "config.toml was changed after the run was made" in told.err
    assert "config.toml was changed after the run was made" in (run / "report.html").read_text()
    for words in (("gate", run, "--max-rate", "1"), ("gate", run, "--max-rate", "1", "--json"), ("resume", run)):
        refused = skidpad(*words)
        assert (refused.code, refused.out) == (2, "")
        assert "config.toml was changed after the run was made" in refused.err
        assert "restore it from a copy, or run the campaign again into another folder" in refused.err.splitlines()[-1]


def test_a_changed_baseline_passes_no_gate_either(skidpad, made: Path, run: Path) -> None:
    assert skidpad("gate", made, "--baseline", run).code == 0
    change(run / "manifest.json", '"seed": 0', '"seed": 1')
    assert skidpad("gate", made, "--baseline", run).code == 2


def test_a_run_without_hashes_is_read_and_its_gate_says_that_it_cannot_be_checked(skidpad, run: Path) -> None:
    content = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({key: value for key, value in content.items() if key not in {"check", "files"}}))
    assert json.loads(skidpad("report", run, "--json").out)["evidence"] == "cannot be checked"
    passed = skidpad("gate", run, "--max-rate", "1")
    assert passed.code == 0
    assert "cannot be checked" in passed.out
    assert skidpad("resume", run).code == 0


@pytest.mark.parametrize("mark", ["", "garbage", "7", '{"grid": 1000000000000}', "{}"])
def test_a_mark_that_lies_passes_no_gate(skidpad, run: Path, mark: str) -> None:
    (run / "state" / "finished.json").write_text(mark)
    refused = skidpad("gate", run, "--max-rate", "1")
    assert refused.code == 2
    assert "is not finished" in refused.err
    assert "skidpad resume" in refused.err
    assert skidpad("report", run).code == 0
    assert skidpad("resume", run).code == 0
    assert skidpad("gate", run, "--max-rate", "1").code == 0


def test_damaged_tags_are_said_and_stop_a_gate_that_hangs_on_them(skidpad, run: Path) -> None:
    whole = skidpad("gate", run, "--max-rate", "1", "--without-false-alarms")
    assert "1 finding is tagged as a false alarm and counts as passed" in whole.out
    change(run / "state" / "tags.jsonl", "false alarm", "false alarn")
    told = skidpad("report", run, "--json")
    assert "1 line is damaged in the tags" in told.err
    assert json.loads(told.out)["damaged_tags"] == 1
    assert "1 line is damaged in the tags" in (run / "report.html").read_text()
    refused = skidpad("gate", run, "--max-rate", "1", "--without-false-alarms")
    assert refused.code == 2
    assert "a gate that leaves out false alarms must know them all" in refused.err
    kept = skidpad("gate", run, "--max-rate", "1")
    assert kept.code == 0
    assert "1 line is damaged in the tags" in kept.out


def obeyed(text: str) -> set[str]:
    """Returns the characters of a text that a terminal obeys instead of showing."""
    return {character for character in text if unicodedata.category(character) in {"Cc", "Cf", "Zl", "Zp"} and character != "\n"}


@pytest.fixture(scope="module")
def evil_drive(tmp_path_factory: pytest.TempPathFactory, drive: Path) -> str:
    folder = tmp_path_factory.mktemp("evil") / "drive"
    shutil.copytree(drive, folder)
    for frame in folder.glob("*.png"):
        frame.rename(folder / f"{EVIL}{frame.name}")
    lines = (folder / "angles.csv").read_text().splitlines()
    (folder / "angles.csv").write_text("\n".join([lines[0], *(EVIL + line for line in lines[1:])]) + "\n")
    return f"folder:{folder}?csv=angles.csv&id=frame&steering=angle&unit=deg"


@pytest.fixture(scope="module")
def evil_subject(tmp_path_factory: pytest.TempPathFactory, write_driver) -> Path:
    folder = tmp_path_factory.mktemp("evil-subject")
    toml = write_driver(folder, "evil", 0.55)
    text = toml.read_text()
    toml = toml.rename(folder / f"{EVIL}.toml")
    toml.write_text(f"name = {json.dumps(EVIL)}".replace("\x7f", "\\u007f") + "\n" + text)
    return toml


def test_no_name_reaches_the_terminal_as_a_command(skidpad, evil_subject: Path, evil_drive: str, tmp_path: Path) -> None:
    run = tmp_path / f"run{EVIL}"
    commands = [
        ("inspect", evil_subject),
        ("inspect", evil_drive),
        ("evaluate", evil_subject, evil_drive),
        ("test", evil_subject, evil_drive, "--within-deg", "5", "--transforms", "brightness", "--out", run),
        ("report", run),
        ("replay", run, "worst"),
        ("shrink", run, "worst"),
        ("gate", run, "--max-rate", "0"),
        ("gate", run, "--max-rate", "0", "--markdown", "-"),
        ("gate", run, "--max-rate", f"{EVIL}=1"),
        ("report", tmp_path / EVIL),
        ("test", EVIL, EVIL),
    ]
    spelt = 0
    for words in commands:
        done = skidpad(*words)
        assert obeyed(done.out + done.err) == set(), (words[0], done)
        spelt += "\\u001b" in done.out + done.err
    assert spelt >= 6, "and it is shown, not left out"
    assert obeyed((run / "report.html").read_text()) == set()
    told = json.loads(skidpad("report", run, "--json").out)
    assert told["run"] == str(run), "a program gets the name as it is"


def test_json_on_the_terminal_is_json_and_obeyed_by_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({EVIL: [EVIL, "ok \u200d é", "\udcff"]})
    printed = capsys.readouterr().out
    assert obeyed(printed) == {"\u200d"}, "what joins letters stays"
    assert json.loads(printed) == {EVIL: [EVIL, "ok \u200d é", "\udcff"]}


def test_the_last_words_of_a_program_are_words(skidpad, drive_text: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"import sys\nsys.stderr.write({EVIL!r} + chr(10) + 'error: all is well')\nsys.exit(3)\n", encoding="utf-8")
    box = tmp_path / "box.toml"
    command = json.dumps([sys.executable, str(program)])
    box.write_text(
        f'format = "box"\nbox = {{ command = {command}, restarts = 0 }}\n[input]\nwidth_px = 80\nheight_px = 60\ncolour = "rgb"\n'
        'range = { low = 0.0, high = 1.0 }\n[[outputs]]\nname = "steering"\nunit = "rad"\n'
    )
    done = skidpad("evaluate", box, drive_text)
    assert done.code != 0
    assert "\\u001b]0;mine" in done.err
    assert obeyed(done.out + done.err) == set()


def test_a_line_break_in_a_name_begins_no_line_of_ours() -> None:
    assert harmless("a\npassed: all") == "a\\npassed: all"
    assert harmless("one\ntwo\x1b", lines=True) == "one\ntwo\\u001b"
    assert harmless("雪 é \u200d\u202f") == "雪 é \u200d\u202f"


@pytest.mark.parametrize("word", [".print(", "OUT.file", " print("])
def test_only_the_console_prints(word: str) -> None:
    root = Path(console.__file__).parents[1]
    others = [path for folder in ("cli", "kinds", "page") for path in (root / folder).rglob("*.py") if path.name != "terminal.py"]
    assert len(others) > 60
    assert [path.name for path in others if word in path.read_text()] == []
