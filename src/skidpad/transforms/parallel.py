"""One batch over all cores: threads, each with a share of the frames.

OpenCV releases the interpreter lock in every call, and a call that finds OpenCV's own threads busy runs in the thread it
was made in. So frames are shared out among threads and OpenCV's global settings stay as the user left them; with
`cv2.setNumThreads(1)` (a worker process beside others, say) everything runs in the calling thread.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise

import cv2
import numpy as np

from skidpad.core.images import NumpyFrames

FrameWork = Callable[[NumpyFrames, NumpyFrames], object]
"""Reads one frame and writes the other, both (height, width, 3) and contiguous."""


def over_frames(frames: NumpyFrames, work: FrameWork) -> NumpyFrames:
    """Returns new frames, each written by `work(frame, new_frame)`; any strides come in, contiguous frames go out."""
    out = np.empty(frames.shape, np.uint8)
    if out.size == 0:
        return out

    def run(start: int, stop: int) -> None:
        for index in range(start, stop):
            work(np.ascontiguousarray(frames[index]), out[index])

    count = len(frames)
    allowed = cv2.getNumThreads()
    threads = min(allowed, count)
    if threads <= 1:
        run(0, count)
        return out
    edges = [count * share // threads for share in range(threads + 1)]
    others = [_pool(os.getpid(), allowed - 1).submit(run, *pair) for pair in pairwise(edges[1:])]
    run(0, edges[1])
    for other in others:
        other.result()
    return out


@lru_cache(maxsize=1)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Keeps the threads between batches; `process` is in the key because a forked child has none of its parent's."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"skidpad-transforms-{process}")
