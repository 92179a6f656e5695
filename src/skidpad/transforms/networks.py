"""Selection networks: fixed sequences of compare-and-swap that put the median of k values in its place.

A network has no branches, so one step is a minimum and a maximum over whole images, at the speed of memory.
"""

from functools import lru_cache

Swap = tuple[int, int, bool, bool]
"""The two places compared, the smaller value going to the first; and whether the first and the second are needed later."""


@lru_cache(maxsize=8)
def median_network(count: int) -> tuple[Swap, ...]:
    """Returns the swaps that bring the median of `count` values (odd) to place `count // 2`.

    Batcher's odd-even merge sort (Knuth 5.2.2, Algorithm M), less every step that the median does not need.
    """
    needed = {count // 2}
    kept: list[Swap] = []
    for first, second in reversed(_sorting_network(count)):
        if first in needed or second in needed:
            kept.append((first, second, first in needed, second in needed))
            needed |= {first, second}
    return tuple(reversed(kept))


def _sorting_network(count: int) -> list[tuple[int, int]]:
    swaps: list[tuple[int, int]] = []
    top = 1 << max(0, (count - 1).bit_length() - 1)
    step = top
    while step > 0:
        group, offset, distance = top, 0, step
        while True:
            swaps += [(place, place + distance) for place in range(count - distance) if place & step == offset]
            if group == step:
                break
            offset, distance, group = step, group - step, group // 2
        step //= 2
    return swaps
