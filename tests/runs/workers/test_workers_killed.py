"""Drivers and clusters that end in the middle: what is kept, what is said, who is left, and the same run in the end."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from workers_toys import SHARDS, execute, make, segments, workers_at_work

from skidpad.runs.folder import Run
from skidpad.runs.workers.here import Here
from skidpad.runs.workers.processes import Processes

PROGRAM = "import workers_toys; workers_toys.main()"
FREE = 3
RAY = (sys.executable, "-c", "from ray.scripts.scripts import main; main()")


def start(run: Path, workers: str, free: int = FREE) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(run), workers, str(free)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
    )


def wait_until(true: Callable[[], bool], process: subprocess.Popen[bytes] | None = None) -> None:
    """Waits for something that must come; a test that waits for ever is ended by its time limit."""
    while not true():
        if process is not None and process.poll() is not None:
            _, errors = process.communicate()
            raise AssertionError(f"it ended with {process.returncode}: {(errors or b'').decode()}")
        time.sleep(0.02)


def in_the_middle(run: Path) -> bool:
    """Three shards are kept, and two others are at work that would never end."""
    return len(segments(run)) == FREE and sum(bool(list(run.glob(f"begun-{item}-*"))) for item in (3, 4)) == 2


def unharmed(folder: Path) -> list[str]:
    run = make(folder)
    execute(run, Here(1))
    return segments(run.path)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make(tmp_path / "a run").path


def interrupted(run: Path, workers: str) -> float:
    """Presses Ctrl-C in the middle; returns the seconds until the driver had ended."""
    process = start(run, workers)
    wait_until(lambda: in_the_middle(run), process)
    process.send_signal(signal.SIGINT)
    begun = time.perf_counter()
    _, errors = process.communicate()
    took_s = time.perf_counter() - begun
    assert process.returncode == 130, errors.decode()
    words = errors.decode().strip().splitlines()
    assert words[-1] == f"error: stopped: 3 of {SHARDS} shards of phase 'toy' are kept; go on with: skidpad resume '{run}'"
    assert not any("Traceback" in line for line in words)
    assert workers_at_work(run) == set()
    return took_s


def test_ctrl_c_waits_for_no_work_and_the_run_goes_on_with_other_workers(run: Path, tmp_path: Path) -> None:
    interrupted(run, "2")
    assert list((run / "state").glob(".given*")) == []
    execute(Run.open(run), Here(2))
    assert segments(run) == unharmed(tmp_path / "unharmed")


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["2", "ray"])
def test_ctrl_c_stops_within_two_seconds(run: Path, workers: str) -> None:
    assert interrupted(run, workers) < 2.0


def test_a_driver_that_is_killed_leaves_no_process_and_loses_no_shard(run: Path, tmp_path: Path) -> None:
    process = start(run, "2")
    wait_until(lambda: in_the_middle(run), process)
    assert len(workers_at_work(run)) == 2
    process.kill()
    process.communicate()
    wait_until(lambda: not workers_at_work(run))
    again = Run.open(run)
    assert len(again.completed("toy")) == FREE
    execute(again, Processes(2))
    assert segments(run) == unharmed(tmp_path / "unharmed")


def test_a_worker_that_is_killed_is_replaced(run: Path, tmp_path: Path) -> None:
    process = start(run, "2")
    wait_until(lambda: in_the_middle(run), process)
    os.kill(min(workers_at_work(run)), signal.SIGKILL)
    (run / "go").touch()
    _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()
    assert segments(run) == unharmed(tmp_path / "unharmed")


@pytest.mark.slow
def test_a_ray_head_that_is_killed_is_said_and_the_run_goes_on(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    process = start(run, "ray")
    wait_until(lambda: len(segments(run)) == FREE, process)
    os.kill(head_of(process.pid), signal.SIGKILL)
    _, errors = process.communicate()
    assert process.returncode == 2, errors.decode()
    told = [line for line in errors.decode().splitlines() if line.startswith("error: ")]
    words = f"3 of {SHARDS} shards of phase 'toy' are kept; go on with: skidpad resume '{run}'"
    assert told == [f"error: the local Ray cluster is gone: its head no longer answers; {words}"]
    wait_until(lambda: not workers_at_work(run))
    execute(Run.open(run), Here(1))
    assert segments(run) == unharmed(tmp_path / "unharmed")


@pytest.fixture
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A head that somebody has started by hand, with room for one worker; and its address from outside, where its token is known."""
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0123456789abcdef" * 4)
    with socket.socket() as free, tempfile.TemporaryDirectory(prefix="ray-") as folder:  # sockets need a short path
        port = 20_000 + os.getpid() % 10_000  # where neither Ray nor the system picks ports for others
        free.bind(("127.0.0.1", port))
        free.close()
        # Without the variable, Ray's process for a client dies now and then as it is forked.
        environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "GRPC_ENABLE_FORK_SUPPORT": "0"}
        size = ("--num-cpus=1", f"--object-store-memory={80 << 20}", "--include-dashboard=false", f"--temp-dir={folder}")
        command = (*RAY, "start", "--head", "--block", "--port=0", f"--ray-client-server-port={port}", *size)
        with (tmp_path / "head.txt").open("wb") as words:
            process = subprocess.Popen(command, stdout=words, stderr=subprocess.STDOUT, env=environment)
        wait_until(lambda: listens(port), process)  # later than the head itself, on a busy machine
        yield process, f"ray://127.0.0.1:{port}"
        process.terminate()
        process.communicate()


@pytest.mark.slow
def test_from_outside_a_lost_worker_is_replaced_and_a_lost_head_is_said(
    run: Path, tmp_path: Path, head: tuple[subprocess.Popen[bytes], str]
) -> None:
    cluster, address = head
    process = start(run, address)
    wait_until(lambda: bool(list(run.glob("begun-3-*"))), process)
    os.kill(workers_at_work(run).pop(), signal.SIGKILL)
    wait_until(lambda: len(workers_at_work(run)) == 1, process)
    os.kill(head_of(cluster.pid), signal.SIGKILL)
    _, errors = process.communicate()
    assert process.returncode == 2, errors.decode()
    words = f"3 of {SHARDS} shards of phase 'toy' are kept; go on with: skidpad resume '{run}'"
    assert errors.decode().splitlines()[-1] == f"error: the Ray cluster at {address} is gone: its head no longer answers; {words}"
    execute(Run.open(run), Here(1))
    assert segments(run) == unharmed(tmp_path / "unharmed")


def listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def head_of(driver: int) -> int:
    """The process of the cluster's head that a driver has begun."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                command = (entry / "cmdline").read_bytes()
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if b"gcs_server" in command and parent == driver:
                return int(entry.name)
    raise AssertionError("the driver has begun no cluster")
