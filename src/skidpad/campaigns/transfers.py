"""Frames to a GPU and back, beside the work that it has in hand: copies of frames go through a stream of their own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch

from skidpad.core.images import Frames, IntArray, NumpyFrames


def uploaded(frames: NumpyFrames, device: str) -> torch.Tensor:
    """Returns the frames on a device; they are there when this returns."""
    here = torch.from_numpy(frames)
    if not device.startswith("cuda"):
        return here.to(device)
    with torch.cuda.stream(_copying(torch.device(device))):
        there = here.to(device)
    # what is queued on them when they are let go still needs their memory
    there.record_stream(torch.cuda.current_stream(there.device))
    return there


def fetched(frames: Frames, places: IntArray) -> Sequence[NumpyFrames]:
    """Returns some of the frames as NumPy arrays, in one copy; a GPU must have made them already (an answer to them has come)."""
    if isinstance(frames, np.ndarray):
        return [frames[place] for place in places.tolist()]
    if not len(places):
        return []
    chosen = torch.from_numpy(places)
    if not frames.is_cuda:
        return list(frames[chosen.to(frames.device)].cpu().numpy())
    copying = _copying(frames.device)
    with torch.cuda.stream(copying):
        there = frames[chosen.to(frames.device)]
        here = torch.empty(there.shape, dtype=there.dtype, pin_memory=True)
        here.copy_(there, non_blocking=True)
        done = copying.record_event()
    done.synchronize()
    return list(here.numpy())


@cache
def _copying(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call] # torch leaves it untyped
