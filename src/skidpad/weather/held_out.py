"""Which pictures of a set are never learned from, so that learning and judging agree on it without a list."""

from __future__ import annotations

import numpy as np

from skidpad.core.images import BoolArray

STRETCHES = 20
LEAST_STRETCH = 10
"""Pictures; a small set is cut into fewer stretches."""
SHARE = 0.2
SPLIT = (
    f"in order of name or time, {STRETCHES} stretches of equal length (at least {LEAST_STRETCH} pictures); "
    f"the last {SHARE:.0%} of each are held out"
)


def held_out(count: int) -> BoolArray:
    """Marks the held-out pictures of a set of `count`, (count,).

    Whole pieces of a drive are held out, because neighbouring frames look alike; of every part of it, because weather and place
    change along it. Of every k-th picture of a set the same ones are held out, as long as 200 are left.
    """
    stretches = max(min(STRETCHES, count // LEAST_STRETCH), 1)
    return (np.arange(count) / max(count, 1) * stretches) % 1.0 >= 1.0 - SHARE - 1e-9
