"""Deep Q-learning in compiled code: one update of the network from a batch of remembered steps.

Plain DQN (not double): squared error, gradients held to +-1 element by element, Adam, a target network that is copied whole.
Reference: adversarial testing, section V-A, which takes the settings of rl-agents.
"""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skidpad.core.errors import BadParametersError
from skidpad.core.settings import Count, Positive, Within, check
from skidpad.highway.dense import (
    GRAIN,
    Activations,
    Matrix,
    Shape,
    Vector,
    activations_for,
    add_product,
    best_output,
    forward,
    layers_of,
    size_of,
)
from skidpad.highway.randomness import whole

UPDATES = 0
POWER_1, POWER_2 = 0, 1
_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-8


@dataclass(frozen=True, slots=True)
class DqnSettings:
    """The learner's constants; the defaults are those of the published experiment."""

    hidden: tuple[Count, Count] = (256, 256)
    discount: Annotated[float, Within(least=0, below=1)] = 0.8
    learning_rate: Positive = 5e-4
    gradient_limit: Positive = 1.0
    batch: int = 32
    memory: int = 15_000
    target_every: Count = 50
    """Updates between two copies to the target network."""
    exploration_start: float = 1.0
    exploration_end: float = 0.05
    exploration_steps: Positive = 6000.0
    """Epsilon falls as exp(-steps / this)."""
    cooling: float = 0.0
    """By which share the learning rate has fallen at the end of a training, in a straight line."""
    is_overtaking_an_end: bool = True
    """Whether nothing follows after the ego has overtaken, as in the paper; False bootstraps, as after running out of time."""
    crash_share: Annotated[float, Within(least=0, below=1)] = 0.0
    """Which share of every batch comes from the last steps before crashes, which are kept apart: a driver that has learned to avoid them
    makes no new ones, and forgets."""
    is_conditioned: bool = False
    """Whether the network learns on gap and speeds of about 1 (see `lens_for`) instead of the raw observation."""

    def __post_init__(self) -> None:
        check(self, BadParametersError)
        if self.batch < GRAIN or self.batch % GRAIN or self.memory < self.batch:
            raise BadParametersError(
                f"the batch is a multiple of {GRAIN} and fits into the memory; got batch={self.batch}, memory={self.memory}"
            )
        if not 0.0 <= self.exploration_end <= self.exploration_start <= 1.0:
            raise BadParametersError(f"exploration falls within [0, 1]; got {self.exploration_start} to {self.exploration_end}")


class Rates(NamedTuple):
    """The constants of an update, in the precision of the network."""

    discount: np.float32
    learning_rate: float
    gradient_limit: np.float32
    target_every: int


class Batch(NamedTuple):
    """Steps drawn from the memory: (batch, padded inputs) twice, and (batch,) three times."""

    seen: Matrix
    then: Matrix
    actions: NDArray[np.int64]
    rewards: Vector
    goes_on: Vector
    """1 where the episode went on or was cut short by time, 0 where it ended."""


class Learner(NamedTuple):
    """Everything that an update reads and writes; the vectors are flat networks (see `dense`)."""

    shape: Shape
    """Padded."""
    online: Vector
    target: Vector
    mean: Vector
    square: Vector
    gradient: Vector
    powers: NDArray[np.float64]
    """Adam's two betas to the power of the updates so far."""
    counts: NDArray[np.int64]
    now: Activations
    later: Activations
    back_1: Matrix
    back_2: Matrix
    seen_t: Matrix
    h1_t: Matrix
    w2_t: Matrix


def rates_of(settings: DqnSettings) -> Rates:
    """Returns the constants of an update."""
    return Rates(np.float32(settings.discount), settings.learning_rate, np.float32(settings.gradient_limit), settings.target_every)


def empty_batch(shape: Shape, size: int) -> Batch:
    """Returns room for a batch."""
    inputs = shape.padded().inputs
    rows = np.zeros((size, inputs), np.float32)
    return Batch(rows, rows.copy(), np.zeros(size, np.int64), np.zeros(size, np.float32), np.zeros(size, np.float32))


def learner_from(weights: Vector, shape: Shape, batch: int) -> Learner:
    """Returns a learner that starts from a copy of the weights, with a fresh optimiser."""
    padded = shape.padded()
    inputs, first, second, _ = padded
    size = size_of(shape)
    return Learner(
        shape=padded,
        online=weights.astype(np.float32).copy(),
        target=weights.astype(np.float32).copy(),
        mean=np.zeros(size, np.float32),
        square=np.zeros(size, np.float32),
        gradient=np.zeros(size, np.float32),
        powers=np.ones(2),
        counts=np.zeros(1, np.int64),
        now=activations_for(shape, batch),
        later=activations_for(shape, batch),
        back_1=np.zeros((batch, first), np.float32),
        back_2=np.zeros((batch, second), np.float32),
        seen_t=np.zeros((inputs, batch), np.float32),
        h1_t=np.zeros((first, batch), np.float32),
        w2_t=np.zeros((second, first), np.float32),
    )


@njit(nogil=True, cache=True, error_model="numpy")
def _transpose(source: Matrix, out: Matrix) -> None:
    """Writes the transpose; both sides are multiples of 8, and blocks of 8 x 8 stay in the nearest cache."""
    for j in range(0, source.shape[1], 8):
        for i in range(0, source.shape[0], 8):
            for jj in range(8):
                for ii in range(8):
                    out[j + jj, i + ii] = source[i + ii, j + jj]


@njit(nogil=True, cache=True, error_model="numpy")
def _add_rows(values: Matrix, out: Vector) -> None:
    for i in range(values.shape[0]):
        for n in range(values.shape[1]):
            out[n] += values[i, n]


@njit(nogil=True, cache=True, error_model="numpy")
def _mask(values: Matrix, activations: Matrix) -> None:
    for i in range(values.shape[0]):
        for n in range(values.shape[1]):
            values[i, n] = values[i, n] if activations[i, n] > np.float32(0.0) else np.float32(0.0)


@njit(nogil=True, cache=True, error_model="numpy")
def backward(learner: Learner, rates: Rates, batch: Batch, outputs: int) -> float:
    """Writes the gradient of the mean squared temporal difference, unclamped, and returns that mean."""
    layers, ahead = layers_of(learner.online, learner.shape), layers_of(learner.target, learner.shape)
    forward(layers, batch.seen, learner.now)
    forward(ahead, batch.then, learner.later)
    learner.gradient[:] = np.float32(0.0)
    slope = layers_of(learner.gradient, learner.shape)
    size = len(batch.actions)
    loss = 0.0
    for i in range(size):
        action = batch.actions[i]
        future = learner.later.q[i, best_output(learner.later.q[i], outputs)]
        error = learner.now.q[i, action] - (batch.rewards[i] + rates.discount * batch.goes_on[i] * future)
        loss += error * error
        pull = np.float32(2.0) * error / np.float32(size)
        slope.b3[action] += pull
        for n in range(learner.shape.second):
            slope.w3[n, action] += learner.now.h2[i, n] * pull
            learner.back_2[i, n] = layers.w3[n, action] * pull
    _mask(learner.back_2, learner.now.h2)
    _add_rows(learner.back_2, slope.b2)
    _transpose(learner.now.h1, learner.h1_t)
    add_product(learner.h1_t, learner.back_2, slope.w2)
    _transpose(layers.w2, learner.w2_t)
    learner.back_1[:] = np.float32(0.0)
    add_product(learner.back_2, learner.w2_t, learner.back_1)
    _mask(learner.back_1, learner.now.h1)
    _add_rows(learner.back_1, slope.b1)
    _transpose(batch.seen, learner.seen_t)
    add_product(learner.seen_t, learner.back_1, slope.w1)
    return loss / size


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def _adam(learner: Learner, rates: Rates) -> None:
    """Reference: Kingma and Ba, Adam, ICLR 2015, Algorithm 1, with epsilon outside the corrected root as in torch."""
    learner.powers[POWER_1] *= _BETA_1
    learner.powers[POWER_2] *= _BETA_2
    step = np.float32(rates.learning_rate / (1.0 - learner.powers[POWER_1]))
    root = np.float32(1.0 / np.sqrt(1.0 - learner.powers[POWER_2]))
    beta_1, rest_1 = np.float32(_BETA_1), np.float32(1.0 - _BETA_1)
    beta_2, rest_2 = np.float32(_BETA_2), np.float32(1.0 - _BETA_2)
    epsilon, limit, tiny = np.float32(_EPSILON), rates.gradient_limit, np.float32(1e-35)
    gradient, mean, square, online = learner.gradient, learner.mean, learner.square, learner.online
    for i in range(len(online)):
        slope = min(max(gradient[i], -limit), limit)
        # Tiny values are set to 0: numbers below the format's normal range slow the processor down many times.
        m = beta_1 * mean[i] + rest_1 * slope
        s = beta_2 * square[i] + rest_2 * slope * slope
        mean[i] = m if abs(m) > tiny else np.float32(0.0)
        square[i] = s if s > tiny else np.float32(0.0)
        online[i] -= step * mean[i] / (np.sqrt(square[i]) * root + epsilon)


@njit(nogil=True, cache=True, error_model="numpy")
def update(learner: Learner, rates: Rates, batch: Batch, outputs: int) -> float:
    """Makes one update, copies the target network when it is due, and returns the loss before it."""
    loss = backward(learner, rates, batch, outputs)
    _adam(learner, rates)
    learner.counts[UPDATES] += 1
    if learner.counts[UPDATES] % rates.target_every == 0:
        learner.target[:] = learner.online
    return loss


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
        _fill(batch, i, memory, row)
    return counter


@njit(nogil=True, cache=True, error_model="numpy")
def draw_crashes(crashes: ReplayMemory, key: np.uint64, counter: int, count: int, batch: Batch) -> int:
    """Puts steps before crashes into the last places of a batch, if there are any; returns the counter after the numbers used."""
    held = min(crashes.counts[WRITTEN], len(crashes.actions))
    if held == 0:
        return counter
    for i in range(len(batch.actions) - count, len(batch.actions)):
        _fill(batch, i, crashes, whole(key, counter, held))
        counter += 1
    return counter


@njit(nogil=True, cache=True, error_model="numpy")
def keep_last(memory: ReplayMemory, crashes: ReplayMemory, steps: int) -> None:
    """Copies the newest steps of the memory to those before crashes."""
    written, room = memory.counts[WRITTEN], len(memory.actions)
    for back in range(min(steps, written, room), 0, -1):
        row = (written - back) % room
        remember(crashes, memory.seen[row], memory.actions[row], memory.rewards[row], memory.then[row], memory.goes_on[row])


@njit(nogil=True, cache=True, error_model="numpy")
def _fill(batch: Batch, place: int, memory: ReplayMemory, row: int) -> None:
    batch.seen[place] = memory.seen[row]
    batch.then[place] = memory.then[row]
    batch.actions[place] = memory.actions[row]
    batch.rewards[place] = memory.rewards[row]
    batch.goes_on[place] = memory.goes_on[row]
