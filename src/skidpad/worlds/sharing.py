"""Work shared by threads: the calling thread and others that are kept, each taking the next piece while there is one."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

Piece = Callable[[], object]
"""What one thread does without the others; it should release the interpreter's lock for most of its time."""


def share(pieces: Iterable[Piece], threads: int) -> None:
    """Does all pieces, in any order, on up to `threads` threads; what one of them raises is raised here."""
    waiting = deque(pieces)

    def run() -> None:
        try:
            while waiting:
                _next(waiting)()
        finally:
            # After a failure the others need not go on.
            waiting.clear()

    others = [_pool(os.getpid(), threads - 1).submit(run) for _ in range(min(threads, len(waiting)) - 1)]
    try:
        run()
    finally:
        for other in others:
            # One that never got to run has nothing left to do: on a busy machine the caller does not wait for it.
            if not other.cancel():
                other.result()


def _next(waiting: deque[Piece]) -> Piece:
    try:
        return waiting.popleft()
    except IndexError:  # another thread took the last one
        return _nothing


def _nothing() -> None:
    return None


@lru_cache(maxsize=4)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Keeps the threads between frames; `process` is in the key because a forked child has none of its parent's."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"skidpad-worlds-{process}")
