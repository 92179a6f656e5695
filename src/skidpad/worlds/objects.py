"""What moves in a scene besides the ego, and the room that things take, for collisions and for pictures."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from skidpad.core.images import FloatArray, IntArray

CAR_LENGTH_M, CAR_WIDTH_M, CAR_HEIGHT_M = 4.5, 1.8, 1.46
PERSON_WIDTH_M, PERSON_HEIGHT_M = 0.5, 1.76


class Kind(IntEnum):
    """What a box stands for."""

    VEHICLE = 0
    PEDESTRIAN = 1
    BUILDING = 2
    TREE = 3
    POST = 4


@dataclass(frozen=True, eq=False, slots=True)
class Boxes:
    """Upright boxes on the ground. poses: (K, 3), x, y of the middle and heading; sizes_m: (K, 3), length, width, height; kinds: (K,)."""

    poses: FloatArray
    sizes_m: FloatArray
    kinds: IntArray

    def __len__(self) -> int:
        return len(self.poses)

    @classmethod
    def none(cls) -> Boxes:
        """Returns no box."""
        return cls(np.empty((0, 3)), np.empty((0, 3)), np.empty(0, np.int64))

    @classmethod
    def joined(cls, parts: list[Boxes]) -> Boxes:
        """Returns all boxes of the parts, in order."""
        if not parts:
            return cls.none()
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("poses", "sizes_m", "kinds")))


@dataclass(frozen=True, eq=False, slots=True)
class Movers:
    """Vehicles and pedestrians that follow the road at constant speed.

    s_m: (K,), where they are along the centreline at time 0. lateral_m: (K,), beside it. speed_m_s: (K,), along the centreline, negative
    for oncoming traffic. kinds: (K,). looks: (K,), which colour.
    """

    s_m: FloatArray
    lateral_m: FloatArray
    speed_m_s: FloatArray
    kinds: IntArray
    looks: IntArray

    def __len__(self) -> int:
        return len(self.s_m)

    @property
    def sizes_m(self) -> FloatArray:
        """Length, width and height of each, (K, 3)."""
        person = (self.kinds == Kind.PEDESTRIAN)[:, None]
        return np.where(person, [PERSON_WIDTH_M, PERSON_WIDTH_M, PERSON_HEIGHT_M], [CAR_LENGTH_M, CAR_WIDTH_M, CAR_HEIGHT_M])
