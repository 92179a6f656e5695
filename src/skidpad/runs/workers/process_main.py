"""The program of one local worker: `python -m skidpad.runs.workers.process_main FD`.

It reads messages from the driver's socket, and ends with the driver, however that ends. It is started by itself rather than through
`multiprocessing`, which would import the driver's main program again.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from skidpad.core.trust import hand_over
from skidpad.runs.workers.dispatching import Prepare, WorkerTask, told
from skidpad.runs.workers.here import Bench, pin_process

if TYPE_CHECKING:
    from skidpad.core.progress import Progress


_TOLD_EVERY_S = 0.2


def main() -> None:
    """Serves a driver until it goes away."""
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
