"""The real command, killed at random moments, ends with the findings of one never killed."""

import subprocess
import sys
from pathlib import Path

import numpy as np

SHARDS = 2 + 2 + 4


def start(*words: object) -> subprocess.Popen[bytes]:
    code = "from skidpad.cli.main import main; main()"
    return subprocess.Popen([sys.executable, "-c", code, *map(str, words)], stdout=subprocess.DEVNULL)


def segments(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "segments").glob("*.parquet"))


def runs_on(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return True
    return False


def test_killed_ten_times_and_resumed(subject: Path, drive: Path, drive_text: str, tmp_path: Path) -> None:
    frames = tmp_path / "drive"
    frames.mkdir()
    pictures = sorted(drive.glob("*.png"))
    for number in range(72):  # two shards of 64
        (frames / f"{number:03d}.png").write_bytes(pictures[number % 8].read_bytes())
    options = (
        "--transforms",
        "blur,rotation,fog",
        "--search",
        "grid,greedy",
        "--seeds",
        "4",
        "--relation",
        "steers-alike",
        "--within-deg",
        "0.5",
    )
    whole = start("test", subject, f"folder:{frames}", "--out", tmp_path / "whole", *options)
    assert whole.wait(120) == 0
    run = tmp_path / "killed"
    rng = np.random.default_rng(3)
    process = start("test", subject, f"folder:{frames}", "--out", run, *options)
    for _ in range(10):
        # wait for a random amount of real progress, and a random moment more, then kill without warning
        goal = min(len(segments(run)) + int(rng.integers(0, 2)), SHARDS)
        while runs_on(process, 0.005) and (len(segments(run)) < goal or not (run / "manifest.json").exists()):
            pass
        runs_on(process, float(rng.uniform(0.001, 0.05)))
        process.kill()
        process.wait()
        process = start("resume", run)
    assert process.wait(120) == 0
    assert segments(run) == segments(tmp_path / "whole")  # names carry the hash of the content
