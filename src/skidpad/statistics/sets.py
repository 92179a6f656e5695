"""Distances and unions of sets of activated neurons, as rows of bits."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from skidpad.core.errors import BadParametersError
from skidpad.core.images import BoolArray, FloatArray, IntArray

PackedBits = NDArray[np.uint8]
"""Bits as of `numpy.packbits` along the last axis; the padding is zero."""

_ONES = np.array([value.bit_count() for value in range(256)], np.uint8)


@dataclass(frozen=True, slots=True)
class PairDistance:
    """Jaccard distances between what two transforms activate on the same pictures, (pictures,)."""

    first: str
    second: str
    distance: FloatArray

    @property
    def median(self) -> float:
        """The median over the pictures; NaN without pictures."""
        return float(np.median(self.distance)) if len(self.distance) else float("nan")


def count_bits(packed: PackedBits) -> IntArray:
    """Returns how many bits are set along the last axis."""
    # numpy.bitwise_count came with NumPy 2, and a table is as fast
    return np.asarray(_ONES[packed].sum(axis=-1, dtype=np.int64))


def jaccard_packed(first: PackedBits, second: PackedBits) -> FloatArray:
    """Returns 1 - |A and B| / |A or B| along the last axis; the other axes broadcast. Two empty sets are equal: 0.

    Reference: DeepTest, section 5 (RQ2), Figure 4.1.
    """
    if first.shape[-1] != second.shape[-1]:
        raise BadParametersError(
            f"sets must have equally many bits, got {first.shape[-1]} and {second.shape[-1]} bytes; compare one subject's"
        )
    both = count_bits(first & second)
    either = count_bits(first | second)
    return np.asarray(1.0 - np.where(either > 0, both / np.maximum(either, 1), 1.0), np.float64)


def jaccard(first: BoolArray, second: BoolArray) -> FloatArray:
    """Returns the Jaccard distance of rows of bools along the last axis."""
    if first.shape[-1] != second.shape[-1]:
        raise BadParametersError(f"sets must have equally many bits, got {first.shape[-1]} and {second.shape[-1]}; compare one subject's")
    return jaccard_packed(np.packbits(first, axis=-1), np.packbits(second, axis=-1))


def transform_distances(names: tuple[str, ...], packed: PackedBits) -> tuple[PairDistance, ...]:
    """Returns the distances of every pair of transforms; packed: (transforms, pictures, bytes)."""
    _check_names(names, packed)
    return tuple(PairDistance(names[i], names[j], jaccard_packed(packed[i], packed[j])) for i, j in combinations(range(len(names)), 2))


def cumulative_counts(names: tuple[str, ...], packed: PackedBits) -> IntArray:
    """Returns how many neurons the first 1, 2, ... transforms activate together on each picture, (transforms, pictures).

    Reference: DeepTest, section 5 (RQ2), Figure 4.2.
    """
    _check_names(names, packed)
    return count_bits(np.bitwise_or.accumulate(packed, axis=0))


def _check_names(names: tuple[str, ...], packed: PackedBits) -> None:
    if packed.ndim != 3 or len(names) != len(packed):
        raise BadParametersError(f"{len(names)} transforms need bits of shape ({len(names)}, pictures, bytes), got {packed.shape}")
