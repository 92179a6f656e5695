"""The two kernels of the GPU renderer: a warp to a frame that finds what its camera sees, then a thread to a pixel.

What they compute stands in functions that the CPU compiles as well; here is only who does what.
"""

from __future__ import annotations

from typing import Any

import numba.cuda
import numpy as np

from skidpad.worlds.cards import depth_of, see_card
from skidpad.worlds.packs import stage_at
from skidpad.worlds.pixels import begin_frame, overlaps, paint_pixel

cuda: Any = numba.cuda
"""What it has depends on the machine, so that it has no types."""
WARP = 32
ALL = 0xFFFFFFFF
BLOCK = (32, 8, 1)
"""Columns and rows of the pixels that are rendered by one block of threads."""
REGISTERS = 64
"""So that four blocks of 256 threads fit on a multiprocessor, for a few words that spill: time goes into waiting for tables. Measured on
an H200, frames a second: 172,990 with 64, 156,272 with 80, 127,705 with 96, 124,355 with 128; by `benchmarks/world_variants.py`."""
LISTED = 1024
"""So many cards of a block are painted at most, the nearest ones."""


@cuda.jit  # type: ignore[untyped-decorator]  # numba is not typed
def see(
    packed: Any,
    poses: Any,
    times: Any,
    scenes: Any,
    forward_m: float,
    eyes: Any,
    cards: Any,
    depths: Any,
    order: Any,
    boxes: Any,
    seen: Any,
    bounds: Any,
    count: Any,
    shadows: Any,
) -> None:
    """Launched with a warp to each frame; `cards.see_cards` by 32 threads. Every array has a row for each frame."""
    k, lane = cuda.blockIdx.x, cuda.threadIdx.x
    stage = stage_at(packed, scenes[k])
    moving = cuda.shared.array(1, np.int32)
    if lane == 0:
        moving[0] = begin_frame(stage, poses[k], times[k], forward_m, eyes[k], cards[k], shadows[k])
    cuda.syncthreads()
    eye = (eyes[k, 0], eyes[k, 1], eyes[k, 3], eyes[k, 4])
    pixels = (len(stage.left), len(stage.down))
    movers = cards[k][: moving[0]]
    total, found = len(movers) + len(stage.standing), 0
    for start in range(0, total, WARP):
        number = start + lane
        depth = -1.0
        if number < total:
            card = movers[number] if number < len(movers) else stage.standing[number - len(movers)]
            depth = depth_of(card, eye, stage.lens, pixels, stage.look, boxes[k, number])
        votes = cuda.ballot_sync(ALL, depth >= 0.0)
        if depth >= 0.0:
            place = found + cuda.popc(votes & ((1 << lane) - 1))
            depths[k, place], order[k, place] = depth, number
        found += cuda.popc(votes)
    cuda.syncthreads()
    for place in range(lane, found, WARP):
        depth, rank = depths[k, place], 0
        for other in range(found):
            if depths[k, other] < depth or (depths[k, other] == depth and other < place):
                rank += 1
        number = order[k, place]
        for side in range(4):
            bounds[k, rank, side] = boxes[k, number, side]
        card = movers[number] if number < len(movers) else stage.standing[number - len(movers)]
        see_card(seen[k, rank], card, stage.sprites, eye, stage.lens[0], stage.sun, stage.look)
    if lane == 0:
        count[k] = found


@cuda.jit(fastmath=True, max_registers=REGISTERS)  # type: ignore[untyped-decorator]  # likewise
def paint(packed: Any, times: Any, scenes: Any, eyes: Any, seen: Any, bounds: Any, count: Any, shadows: Any, frames: Any) -> None:
    """Launched over columns, rows and frames, in blocks of BLOCK."""
    u, v, k = cuda.grid(3)
    left, top = cuda.blockIdx.x * BLOCK[0], cuda.blockIdx.y * BLOCK[1]
    tile = (left, left + BLOCK[0] - 1, top, top + BLOCK[1] - 1)
    listed, found = cuda.shared.array(LISTED, np.int32), cuda.shared.array(1, np.int32)
    # The first warp lists the cards of the tile for all.
    if cuda.threadIdx.y == 0:
        lane, places = cuda.threadIdx.x, 0
        for start in range(0, count[k], WARP):
            number = start + lane
            inside = number < count[k] and overlaps(bounds[k, min(number, count[k] - 1)], tile)
            votes = cuda.ballot_sync(ALL, inside)
            place = places + cuda.popc(votes & ((1 << lane) - 1))
            if inside and place < LISTED:
                listed[place] = number
            places += cuda.popc(votes)
        if lane == 0:
            found[0] = min(places, LISTED)
    cuda.syncthreads()
    if v < frames.shape[1] and u < frames.shape[2]:
        paint_pixel(packed, times[k], scenes[k], eyes[k], seen[k], bounds[k], count[k], tile, listed, found[0], shadows[k], frames[k], u, v)
