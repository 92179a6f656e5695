"""One thread a worker: N workers use N cores, and no product is summed in an order that the number of threads decides."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

VARIABLES: Mapping[str, str] = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
"""What tells libraries before they are imported to use one thread."""


def cores() -> int:
    """Returns how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_lanes() -> int:
    """Returns how many items this process computes at a time where nobody says: as many as torch has threads, else one a core."""
    torch = sys.modules.get("torch")
    return torch.get_num_threads() if torch is not None else cores()


def pin_process() -> None:
    """Gives torch and OpenCV one thread for the rest of this process, where they are loaded; work without them stays light."""
    torch, cv2 = sys.modules.get("torch"), sys.modules.get("cv2")
    if torch is not None:
        torch.set_num_threads(1)
    if cv2 is not None:
        cv2.setNumThreads(1)


@contextmanager
def pinned() -> Iterator[None]:
    """Gives torch and OpenCV one thread while the block runs; both settings belong to the process and are put back at the end."""
    torch, cv2 = sys.modules.get("torch"), sys.modules.get("cv2")
    torch_threads = torch.get_num_threads() if torch is not None else 0
    opencv_threads = cv2.getNumThreads() if cv2 is not None else 0
    pin_process()
    try:
        yield
    finally:
        if torch is not None:
            torch.set_num_threads(torch_threads)
        if cv2 is not None:
            cv2.setNumThreads(opencv_threads)
