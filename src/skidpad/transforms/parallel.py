"""One batch over all cores: threads, each taking frames while there are any.

OpenCV releases the interpreter lock in every call, and a call that finds OpenCV's own threads busy runs in the thread it
was made in. So threads share out the frames and OpenCV's global settings stay as the user left them; with
`cv2.setNumThreads(1)` (a worker process beside others, say) everything runs in the calling thread.
"""

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

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

    count = len(frames)
    allowed = cv2.getNumThreads()
    threads = min(allowed, count)
    step = max(1, count // (8 * threads))
    starts = deque(range(0, count, step))

    def run() -> None:
        while starts:
            try:
                start = starts.popleft()
            except IndexError:  # another thread took the last one
                return
            for index in range(start, min(start + step, count)):
                work(np.ascontiguousarray(frames[index]), out[index])

    others = [_pool(os.getpid(), allowed - 1).submit(run) for _ in range(threads - 1)]
    run()
    for other in others:
        # One that never got to run has nothing left to do: on a busy machine the caller does not wait for it.
        if not other.cancel():
            other.result()
    return out


@lru_cache(maxsize=1)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Keeps the threads between batches; `process` is in the key because a forked child has none of its parent's."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"skidpad-transforms-{process}")
