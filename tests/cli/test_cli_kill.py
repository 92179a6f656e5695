"""The real command in processes of its own, killed at random moments, ends with the findings of one never killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from select import select

import numpy as np
import pytest

SHARDS = 2 + 2 + 4
MOTHER = """
import os, sys
from skidpad.cli.main import main
import skidpad.kinds.pictures.campaign, skidpad.kinds.pictures.page
import skidpad.page.writing, skidpad.runs.folder
import skidpad.drives, skidpad.subjects.description
from skidpad.stimuli.pictures import TRANSFORMS
TRANSFORMS.names()

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.argv = ["skidpad", *line.rstrip("\\n").split("\\t")]
        main()
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""
"""Imports torch and the rest once, computes nothing, and forks a process for every command: ten starts would import for half a minute."""


class Mother:
    """Starts commands, one after the other; each can be killed."""

    def __init__(self) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", MOTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def start(self, *words: object) -> int:
        """Starts a command and returns the id of its process."""
        assert self.process.stdin is not None
        self.process.stdin.write(("\t".join(map(str, words)) + "\n").encode())
        return int(self._line())

    def runs_on(self, seconds: float) -> bool:
        """Tells whether the command still runs after so long, or at its end."""
        return not select([self.process.stdout], [], [], seconds)[0]

    def ended(self) -> int:
        """Waits for the end of the command and returns how it ended."""
        return int(self._line())

    def _line(self) -> bytes:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


@pytest.fixture
def mother() -> Iterator[Mother]:
    made = Mother()
    yield made
    made.process.kill()
    made.process.communicate()


def segments(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "segments").glob("*.parquet"))


def test_killed_ten_times_and_resumed(subject: Path, drive: Path, tmp_path: Path, mother: Mother) -> None:
    frames = tmp_path / "drive"
    frames.mkdir()
    pictures = sorted(drive.glob("*.png"))
    for number in range(66):  # two shards of 64
        (frames / f"{number:03d}.png").write_bytes(pictures[number % 8].read_bytes())
    words = (
        "--transforms",
        "rotation,deeptest-fog",
        "--search",
        "grid,greedy",
        "--seeds",
        "4",
        "--max-failed-tries",
        "3",
        "--within-deg",
        "0.5",
    )
    mother.start("test", subject, f"folder:{frames}", "--out", tmp_path / "whole", *words)
    assert mother.ended() == 0
    run = tmp_path / "killed"
    rng = np.random.default_rng(3)
    process = mother.start("test", subject, f"folder:{frames}", "--out", run, *words)
    killed = 0
    for _ in range(10):
        # wait for a random amount of real progress, and a random moment more, then kill without warning
        goal = min(len(segments(run)) + int(rng.integers(0, 2)), SHARDS)
        while mother.runs_on(0.005) and (len(segments(run)) < goal or not (run / "manifest.json").exists()):
            pass
        mother.runs_on(float(rng.uniform(0.001, 0.05)))
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        killed += mother.ended() == signal.SIGKILL
        process = mother.start("resume", run)
    assert mother.ended() == 0
    assert killed >= 5, "most of them were killed before they were done"
    assert segments(run) == segments(tmp_path / "whole")  # names carry the hash of the content
