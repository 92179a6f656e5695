"""Shards in parts: cut when they are asked for, whole whatever the order in which their parts come."""

from __future__ import annotations

import random
import weakref
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skidpad.kinds.pictures.judging import Originals
from skidpad.kinds.shards import Meter, mapped_parts
from skidpad.runs.records import SCHEMA, ShardResult
from skidpad.runs.workers.protocol import Heard


class Item:
    """A part of a shard that can be watched."""

    def __init__(self, shard: int, part: int) -> None:
        self.name = (shard, part)


class Shuffled:
    """A crew that has some items in hand and finishes any of them; most_alive: how many of the cut items there were at a time."""

    count = 3

    def __init__(self, chance: random.Random, alive: weakref.WeakSet[Item]) -> None:
        self._chance = chance
        self._alive = alive
        self.most_alive = 0

    def spare_cores(self, items: int) -> int:
        return 1

    def map(self, step: str, given: Any, items: Sequence[Any], heard: Heard | None = None) -> Generator[tuple[int, Any], None, None]:
        in_hand: dict[int, Any] = {}
        left = iter(range(len(items)))
        while True:
            for place in left:
                in_hand[place] = items[place]
                if len(in_hand) == self.count:
                    break
            self.most_alive = max(self.most_alive, len(self._alive))
            if not in_hand:
                return
            place = self._chance.choice(sorted(in_hand))
            yield place, in_hand.pop(place).name


@given(st.lists(st.integers(1, 5), max_size=12), st.randoms(use_true_random=False))
def test_shards_are_whole_in_any_order_and_the_meter_ends_full(sizes: list[int], chance: random.Random) -> None:
    alive: weakref.WeakSet[Item] = weakref.WeakSet()
    crew = Shuffled(chance, alive)
    indices = [3 * place for place in range(len(sizes))]
    told: list[tuple[int, int]] = []
    wholes: dict[int, list[tuple[int, int]]] = {}

    def cut(index: int) -> list[Item]:
        made = [Item(index, part) for part in range(sizes[index // 3])]
        alive.update(made)
        return made

    def whole(index: int, parts: Sequence[Any]) -> ShardResult:
        wholes[index] = list(parts)
        return ShardResult("toy", index, SCHEMA.empty_table())

    meter = Meter(lambda done, total, _="": told.append((done, total)), 2 * sum(sizes))
    shards = mapped_parts(crew, "toy", None, cut, whole, meter, weight=lambda _: 2.0)
    assert sorted(shard.index for shard in shards(indices)) == indices
    assert wholes == {index: [(index, part) for part in range(sizes[index // 3])] for index in indices}
    assert not sizes or told[-1] == (2 * sum(sizes), 2 * sum(sizes))


def test_items_of_shards_that_are_done_or_to_come_are_not_kept() -> None:
    alive: weakref.WeakSet[Item] = weakref.WeakSet()
    crew = Shuffled(random.Random(7), alive)

    def cut(index: int) -> list[Item]:
        made = [Item(index, part) for part in range(5)]
        alive.update(made)
        return made

    shards = mapped_parts(crew, "toy", None, cut, lambda index, _: ShardResult("toy", index, SCHEMA.empty_table()))
    assert len(list(shards(range(200)))) == 200
    assert 5 <= crew.most_alive <= 40, "a thousand items were cut"


def test_a_place_beyond_the_items_is_refused() -> None:
    class Beyond(Shuffled):
        def map(self, step: str, given: Any, items: Sequence[Any], heard: Heard | None = None) -> Generator[tuple[int, Any], None, None]:
            assert [items[place] for place in range(len(items))] == [0, 0, 1, 1] == list(items)
            yield len(items), None

    shards = mapped_parts(Beyond(random.Random(0), weakref.WeakSet()), "toy", None, lambda index: [index] * 2, pytest.fail)
    with pytest.raises(IndexError, match="there are 4 items; got place 4"):
        list(shards([0, 1]))


@given(st.lists(st.booleans(), max_size=20), st.integers(0, 20), st.integers(0, 20))
def test_the_readable_frames_of_a_block_are_those_that_were_seen(seen: list[bool], start: int, stop: int) -> None:
    nothing = np.full(len(seen), np.nan)
    originals = Originals(nothing, nothing, np.array(seen, np.bool_))
    block = range(min(start, len(seen)), min(stop, len(seen)))
    assert originals.readable(block).tolist() == [frame for frame in block if seen[frame]]
