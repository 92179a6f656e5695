"""Local processes: each loads the campaign once, computes on one core, and ends with the driver.

A worker is this module as a program, `python -m skidpad.runs.workers.processes FD`: it reads messages from the driver's socket. It is
started by itself rather than through `multiprocessing`, which would import the driver's main program again.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from skidpad.core.trust import granted, hand_over
from skidpad.runs.workers.dispatching import (
    Begin,
    Died,
    Done,
    Event,
    Failed,
    PoolCrew,
    Prepare,
    Ready,
    Shared,
    Told,
    WorkerTask,
    told,
    unheard,
)
from skidpad.runs.workers.here import VARIABLES, Bench, pin_process, pinned

if TYPE_CHECKING:
    from skidpad.core.progress import Progress
    from skidpad.runs.workers.protocol import Crew, Performer, Reload

_END_S = 5.0
_TOLD_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class Processes:
    """Processes of this machine, started anew; none is forked, so none holds the run's lock or a half-held mutex.

    count: how many at most; never more than there are pieces of work. died: is told in a sentence of each that dies.
    """

    count: int
    died: Callable[[str], None] = unheard

    @contextmanager
    def start(self, performer: Performer, reload: Reload, scratch: Path) -> Iterator[Crew]:
        """Starts processes as there is work for them."""
        pool = _ProcessPool(self.count, reload, scratch)
        try:
            # The driver computes little, but that as a worker would.
            with pinned():
                yield PoolCrew(pool, performer, self.died)
        finally:
            pool.close()


@dataclass(slots=True)
class _Process:
    popen: subprocess.Popen[bytes]
    connection: Connection
    prepared: int = 0


class _ProcessPool:
    """Starts processes and talks to them."""

    def __init__(self, size: int, reload: Reload, scratch: Path) -> None:
        self.size = size
        self._begin = pickle.dumps(Begin(tuple(sys.path), str(Path.cwd()), reload, granted()), protocol=5)
        self._scratch = scratch
        self._processes: dict[int, _Process] = {}
        self._hired = 0
        self._step = 0
        self._named: tuple[str, Any] | None = None
        self._prepare = b""
        self._file: Path | None = None

    def hire(self) -> int:
        """Starts one more process."""
        ours, theirs = socket.socketpair()
        with theirs:
            popen = subprocess.Popen(  # noqa: S603  this very program
                [sys.executable, "-m", "skidpad.runs.workers.processes", str(theirs.fileno())],
                env={**os.environ, **VARIABLES, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                process_group=0,  # Ctrl-C at the terminal is for the driver, which ends its workers itself
            )
        connection = Connection(ours.detach())
        number = self._hired
        self._hired += 1
        self._processes[number] = _Process(popen, connection)
        self._send(number, self._begin)
        return number

    def prepare(self, step: str, given: Any) -> None:
        """Packs what the step is given, once for all maps of the step with the same."""
        if self._named is not None and self._named[0] == step and self._named[1] is given:
            return
        self._forget()
        self._named = (step, given)
        self._step += 1
        # A name that the run clears away by itself, should this process be killed.
        file = self._scratch / f".given-{os.getpid()}-{self._step}.tmp"
        shared = Shared.of(given, file)
        self._file = file if shared.file else None
        self._prepare = pickle.dumps(Prepare(self._step, step, shared), protocol=5)

    def give(self, worker: int, task: int, item: Any) -> None:
        """Sends a task, and before the first one of a step the step."""
        process = self._processes[worker]
        if process.prepared != self._step:
            self._send(worker, self._prepare)
            process.prepared = self._step
        self._send(worker, pickle.dumps(WorkerTask(task, item), protocol=5))

    def events(self) -> Sequence[Event]:
        """Waits until a process says something or is gone."""
        by_connection = {process.connection: number for number, process in self._processes.items()}
        found: list[Event] = []
        for connection in wait(list(by_connection)):
            number = by_connection[connection]  # type: ignore[index] # what came in
            try:
                kind, task, content = pickle.loads(self._processes[number].connection.recv_bytes())  # noqa: S301  our own worker's words
            except (EOFError, OSError):
                found.append(Died(number, self._ended(number)))
                continue
            found.append(_event(number, kind, task, content))
        return found

    def close(self) -> None:
        """Ends all processes at once: what they are at is not asked for any more."""
        for process in self._processes.values():
            process.popen.kill()
        for process in self._processes.values():
            process.popen.wait()
            process.connection.close()
        self._processes.clear()
        self._forget()

    def _send(self, number: int, data: bytes) -> None:
        try:
            self._processes[number].connection.send_bytes(data)
        except OSError:
            return  # it is gone, and the next events say so

    def _ended(self, number: int) -> str:
        process = self._processes.pop(number)
        process.connection.close()
        try:
            code = process.popen.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.popen.kill()
            code = process.popen.wait()
        if code == -signal.SIGKILL:
            how = "killed, as the system does when memory runs out"
        else:
            how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        return f"process {process.popen.pid}: {how}"

    def _forget(self) -> None:
        if self._file is not None:
            self._file.unlink(missing_ok=True)
            self._file = None


def _event(number: int, kind: str, task: int | None, content: Any) -> Event:
    if kind == "ready":
        return Ready(number)
    if kind == "failed":
        return Failed(number, task, content)
    if task is None:
        raise RuntimeError(f"worker {number} answers {kind!r} without a task")
    if kind == "told":
        return Told(number, task, content[0], content[1])
    return Done(number, task, content)


def main() -> None:
    """Serves a driver as a worker, until it goes away."""
    connection = Connection(int(sys.argv[1]))
    begin = pickle.loads(connection.recv_bytes())  # noqa: S301  the driver's own words, through its own socket
    sys.path[:] = [*begin.path]
    os.chdir(begin.folder)
    hand_over(begin.trusted)
    messages: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(connection, messages), daemon=True).start()
    send_lock = threading.Lock()

    def send(kind: str, task: int | None, content: Any) -> None:
        data = pickle.dumps((kind, task, content), protocol=5)
        with send_lock:
            connection.send_bytes(data)

    try:
        bench = Bench(begin.reload())
        pin_process()
    except Exception as error:  # noqa: BLE001  whatever it is, the driver says it
        send("failed", None, told(error))
        return
    send("ready", None, None)
    while True:
        _serve(pickle.loads(messages.get()), bench, send)  # noqa: S301  see above


def _serve(message: Prepare | WorkerTask, bench: Bench, send: Any) -> None:
    if isinstance(message, Prepare):
        try:
            bench.prepare(message.number, message.step, message.given.load())
        except Exception as error:  # noqa: BLE001  see above
            send("failed", None, told(error))
        return
    try:
        result = bench.perform(message.item, _progress(message.number, send))
        send("done", message.number, result)
    except Exception as error:  # noqa: BLE001  see above
        send("failed", message.number, told(error))


def _listen(connection: Connection, messages: SimpleQueue[bytes]) -> None:
    """Takes messages in while work is at hand, and so learns at once that the driver is gone."""
    while True:
        try:
            messages.put(connection.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)


def _progress(task: int, send: Any) -> Progress:
    last = 0.0

    def report(done: int, total: int, note: str = "") -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _TOLD_EVERY_S:
            last = now
            send("told", task, (done / total if total else 0.0, note))

    return report


if __name__ == "__main__":
    main()
