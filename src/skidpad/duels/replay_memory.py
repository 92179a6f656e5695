"""The learner's memory of past steps: a ring buffer of fixed size, sampled without replacement."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skidpad.duels.dense import Matrix, Shape, Vector
from skidpad.duels.dqn import Batch
from skidpad.duels.randomness import whole

WRITTEN = 0


class ReplayMemory(NamedTuple):
    """Steps by row: what was seen before and after, (capacity, padded inputs), the action, its reward, whether it went on."""

    seen: Matrix
    then: Matrix
    actions: NDArray[np.int64]
    rewards: Vector
    goes_on: Vector
    counts: NDArray[np.int64]
    """How many steps were ever written."""


def new_memory(shape: Shape, capacity: int) -> ReplayMemory:
    """Returns an empty memory."""
    rows = np.zeros((capacity, shape.padded().inputs), np.float32)
    return ReplayMemory(
        rows,
        rows.copy(),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.float32),
        np.zeros(capacity, np.float32),
        np.zeros(1, np.int64),
    )


@njit(nogil=True, cache=True, error_model="numpy")
def remember(memory: ReplayMemory, seen: Vector, action: int, reward: float, then: Vector, goes_on: float) -> None:
    """Writes one step over the oldest."""
    row = memory.counts[WRITTEN] % len(memory.actions)
    memory.seen[row] = seen
    memory.then[row] = then
    memory.actions[row] = action
    memory.rewards[row] = reward
    memory.goes_on[row] = goes_on
    memory.counts[WRITTEN] += 1


@njit(nogil=True, cache=True, error_model="numpy")
def draw(memory: ReplayMemory, key: np.uint64, counter: int, rows: NDArray[np.int64], batch: Batch) -> int:
    """Fills the batch with different steps and returns the counter after the numbers used; `rows` is room for their places."""
    held = min(memory.counts[WRITTEN], len(memory.actions))
    for i in range(len(rows)):
        is_new = False
        while not is_new:
            row = whole(key, counter, held)
            counter += 1
            is_new = True
            for earlier in range(i):
                if rows[earlier] == row:
                    is_new = False
        rows[i] = row
        batch.seen[i] = memory.seen[row]
        batch.then[i] = memory.then[row]
        batch.actions[i] = memory.actions[row]
        batch.rewards[i] = memory.rewards[row]
        batch.goes_on[i] = memory.goes_on[row]
    return counter
