"""Killed at any moment, a resumed run ends as one that was never killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from runs_toy_campaign import SHARDS, campaign, make, merged

from skidpad.core.seeding import child_rng
from skidpad.runs.folder import Run

PROGRAM = Path(__file__).with_name("runs_toy_campaign.py")
KILLS = 10


def start(path, *arguments, code=None):
    program = [str(PROGRAM)] if code is None else ["-c", code]
    command = [sys.executable, *program, str(path), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(PROGRAM.parent), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)


def segments(path):
    return {entry.name: entry.read_bytes() for entry in sorted((path / "segments").iterdir())}


def kept(path):
    return sum(1 for _ in (path / "segments").glob("*.parquet"))


def never_killed(path, shards=SHARDS):
    run = make(path)
    campaign(run, shards=shards)
    return run


def assert_same_run(path, unharmed, shards=SHARDS):
    assert segments(path) == segments(unharmed.path)
    run = Run.open(path)
    assert run.is_finished
    assert run.damaged == ()
    for phase, count in shards.items():
        assert run.completed(phase) == set(range(count))
        assert run.records(phase).equals(unharmed.records(phase))
        np.testing.assert_array_equal(merged(run, phase), merged(unharmed, phase))
    assert run.findings().equals(unharmed.findings())
    assert run.problems() == unharmed.problems()
    assert run.findings().num_rows > 3 * sum(shards.values())


def test_ten_kills_leave_no_trace(tmp_path):
    path = make(tmp_path / "run").path
    rng = child_rng(2018, "kills")
    for _ in range(KILLS):
        before = kept(path)
        shards_more = int(rng.integers(1, 6))
        process = start(path, "7")  # the first call of progress comes before any shard: at most six shards a start
        while kept(path) < before + shards_more:
            assert process.poll() is None, process.stderr.read().decode()
            try:
                process.wait(timeout=float(rng.uniform(0.0005, 0.006)))
            except subprocess.TimeoutExpired:
                continue
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert before + shards_more <= kept(path) <= before + 6
    process = start(path)
    _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()
    assert_same_run(path, never_killed(tmp_path / "unharmed"))


# Each program kills itself within the commit of the tenth shard, at a step that a random kill seldom meets.
FEW = {"guided": 3, "mutants": 12}
DEADLY = """
import os, signal
from pathlib import Path
import runs_toy_campaign
from skidpad.core import files

calls = 0
def die(*arguments, **options):
    global calls
    calls += 1
    if calls == {call}:
        {before}
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments, **options)

real = {owner}.{name}
{owner}.{name} = die
runs_toy_campaign.SHARDS.update({shards})
runs_toy_campaign.main()
"""


@pytest.mark.parametrize(
    ("owner", "name", "call", "before", "whole", "torn"),
    [
        ("os", "fsync", 19, "", 9, 1),  # written, not forced to disk
        ("os", "fsync", 19, "os.ftruncate(arguments[0], 100)", 9, 1),  # half written
        ("Path", "replace", 10, "", 9, 1),  # on disk, not renamed
        ("os", "fsync", 20, "", 10, 0),  # renamed, the folder not forced to disk
    ],
    ids=["unsynced", "half written", "not renamed", "folder unsynced"],
)
def test_killed_inside_a_commit(tmp_path, owner, name, call, before, whole, torn):
    path = make(tmp_path / "run").path
    process = start(path, code=DEADLY.format(owner=owner, name=name, call=call, before=before or "pass", shards=FEW))
    _, errors = process.communicate()
    assert process.returncode == -signal.SIGKILL, errors.decode()
    assert kept(path) == whole
    assert sum(1 for _ in (path / "segments").glob(".*.tmp")) == torn
    campaign(Run.open(path), shards=FEW)
    assert_same_run(path, never_killed(tmp_path / "unharmed", FEW), FEW)
