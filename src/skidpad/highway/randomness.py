"""Random numbers by counting: the same seed, episode, stream and counter give the same number, in any order and on any thread.

The numbers are those of SplitMix64 (Steele, Lea and Flood, 2014), read at any position instead of one after the other.
"""

import numpy as np
from numba import njit

START_STREAM, EGO_STREAM, FRONT_STREAM, LEARNER_STREAM = 0, 1, 2, 3
"""Streams of one episode that do not touch: the start, the chance in either side's policy, and the learner's own; those of further
front vehicles follow."""

_STRIDE = np.uint64(0x9E3779B97F4A7C15)
_FIRST_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
_SECOND_FACTOR = np.uint64(0x94D049BB133111EB)
_ONE = np.uint64(1)
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11))
_TO_UNIT = 1.0 / (1 << 53)


@njit(nogil=True, cache=True, error_model="numpy")
def _mixed(word: np.uint64) -> np.uint64:
    word = (word ^ (word >> _SHIFTS[0])) * _FIRST_FACTOR
    word = (word ^ (word >> _SHIFTS[1])) * _SECOND_FACTOR
    return word ^ (word >> _SHIFTS[2])


@njit(nogil=True, cache=True, error_model="numpy")
def stream_key(seed: int, episode: int, stream: int) -> np.uint64:
    """Returns the key of one stream of one episode, for `uniform` and `whole`; call it from compiled code."""
    key = _mixed(np.uint64(seed) + _STRIDE)
    key = _mixed(key ^ _mixed(np.uint64(episode) + _STRIDE))
    return _mixed(key + (np.uint64(stream) + _ONE) * _STRIDE)


@njit(nogil=True, cache=True, error_model="numpy")
def uniform(key: np.uint64, counter: int) -> float:
    """Returns the number at `counter` of a stream, within [0, 1)."""
    word = _mixed(key + (np.uint64(counter) + _ONE) * _STRIDE)
    return np.float64(word >> _SHIFTS[3]) * _TO_UNIT


@njit(nogil=True, cache=True, error_model="numpy")
def whole(key: np.uint64, counter: int, count: int) -> int:
    """Returns the number at `counter` of a stream as one of 0 .. count - 1."""
    return int(uniform(key, counter) * count)


@njit(nogil=True, cache=True)
def driver_stream(vehicle: int) -> int:
    """Returns the stream of the chance in a vehicle's policy."""
    return vehicle + EGO_STREAM if vehicle < LEARNER_STREAM - EGO_STREAM else vehicle + EGO_STREAM + 1
