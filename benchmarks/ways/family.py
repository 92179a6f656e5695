"""What a process and all that it began use: processor time and memory, as Linux counts them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")
_EVERY_S = 0.2
_STATE_EVERY_S = 0.02
_WORKERS = (b"skidpad.runs.workers.processes", b"ray::RayWorker")


@dataclass(frozen=True, slots=True)
class _Stat:
    parent: int
    processor_s: float


def descendants() -> tuple[int, ...]:
    """Returns the processes that this one began, and those that they began, and so on; local workers and a local Ray are among them."""
    stats = _stats()
    found = {os.getpid()}
    while more := {pid for pid, stat in stats.items() if stat.parent in found} - found:
        found |= more
    return tuple(sorted(found - {os.getpid()}))


def processor_s() -> float:
    """Returns the processor seconds of this process, by its own finer clock, and of all its living descendants."""
    stats = _stats()
    return time.process_time() + sum(stats[pid].processor_s for pid in descendants() if pid in stats)


@dataclass(slots=True)
class Peaks:
    """The most memory, in MB, that each process held: those of this process, and of its descendants by id."""

    driver_mb: float = 0.0
    workers_mb: dict[int, float] = field(default_factory=dict)

    @property
    def worker_mb(self) -> float:
        """The most that one worker held; 0 where there was none."""
        return max(self.workers_mb.values(), default=0.0)


@contextmanager
def peaks() -> Iterator[Peaks]:
    """Looks at the family some times a second while the block runs; the system keeps each one's peak, so nothing is missed between."""
    seen = Peaks()
    stop = threading.Event()

    def look() -> None:
        while True:
            for pid in descendants():
                held = _peak_mb(pid)
                if held:
                    seen.workers_mb[pid] = held
            if stop.wait(_EVERY_S):
                return

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield seen
    finally:
        seen.driver_mb = _peak_mb(os.getpid())
        stop.set()
        watcher.join()


@dataclass(slots=True)
class Business:
    """How often a worker was looked at, and how often it had something to do: it ran, or waited for a core."""

    looks: int = 0
    busy: int = 0

    @property
    def share(self) -> float:
        """The share of the time in which a worker was not waiting for work, a disk or a message."""
        return self.busy / self.looks if self.looks else 1.0


@contextmanager
def business(*, is_here: bool) -> Iterator[Business]:
    """Looks at the workers many times a second while the block runs; is_here: this process is the one that works.

    Unlike a clock, this does not mind other programs: who waits for a core is busy, who waits for the driver is not.
    """
    seen = Business()
    pids = (os.getpid(),) if is_here else workers()
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(_STATE_EVERY_S):
            for pid in pids:
                seen.looks += 1
                seen.busy += _is_busy(pid)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield seen
    finally:
        stop.set()
        watcher.join()


def workers() -> tuple[int, ...]:
    """Returns the descendants that compute."""
    return tuple(pid for pid in descendants() if any(name in _command(pid) for name in _WORKERS))


def _command(pid: int) -> bytes:
    try:
        return (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:
        return b""


def _is_busy(pid: int) -> bool:
    """Tells whether the main thread, which does the work, runs or could."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "R"
    except OSError:
        return False


def _peak_mb(pid: int) -> float:
    try:
        lines = (_PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return 0.0  # it has ended
    return next((int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmHWM:")), 0.0)


def _stats() -> Mapping[int, _Stat]:
    found = {}
    for folder in _PROC.iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found[int(folder.name)] = _Stat(int(fields[1]), (int(fields[11]) + int(fields[12])) / _TICKS)
    return found
