"""Randomness from one root seed by named children, so that the same command gives the same bytes."""

from hashlib import blake2b

import numpy as np


def child_seed(seed: int, *names: str | int) -> int:
    """Derives a 63-bit seed from the root seed and a path of names; order and spelling matter."""
    text = "\x1f".join([str(seed), *map(str, names)])
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") >> 1


def child_rng(seed: int, *names: str | int) -> np.random.Generator:
    """Returns the generator of the child that the names lead to."""
    return np.random.default_rng(child_seed(seed, *names))
