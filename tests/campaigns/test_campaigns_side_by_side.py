"""Shards side by side: all of them, once each, one progress, and nothing at work after a failure."""

from threading import Barrier, Event, Lock

import pytest

from skidpad.campaigns.side_by_side import Meter, cores, metered, side_by_side
from skidpad.core.errors import InterruptedRunError
from skidpad.runs.schemas import REQUIRED
from skidpad.runs.segments import ShardResult


def shard(index: int) -> ShardResult:
    return ShardResult("test", index, REQUIRED.empty_table())


def test_every_shard_is_computed_once_whatever_the_number_of_workers() -> None:
    for workers in (1, 3):
        results = list(side_by_side(Event(), workers)(shard, range(7)))
        assert sorted(result.index for result in results) == list(range(7))
    assert cores() >= 1


def test_shards_run_at_the_same_time() -> None:
    together = Barrier(2, timeout=60)

    def work(index: int) -> ShardResult:
        together.wait()
        return shard(index)

    assert len(list(side_by_side(Event(), 2)(work, [0, 1]))) == 2


def test_a_failure_stops_the_others() -> None:
    begun, lock, stop = [], Lock(), Event()
    meter = Meter(lambda done, total, note="": None, 100)

    def work(index: int) -> ShardResult:
        with lock:
            begun.append(index)
        if index == 0:
            raise RuntimeError("broken shard")
        stop.wait(60)
        meter.stop.set()
        meter.part(1)(1, 1)
        return shard(index)

    with pytest.raises(RuntimeError, match="broken shard"):
        list(side_by_side(stop, 2)(work, range(40)))
    assert stop.is_set()
    assert len(begun) < 40, "shards that had not begun never did"


def test_a_meter_adds_up_what_all_shards_tell() -> None:
    seen = []
    meter = Meter(lambda done, total, note="": seen.append((done, total, note)), 30)
    meter.begin("training", 10)
    first, second = meter.part(10), meter.part(10)
    first(1, 2, "half")
    second(1, 4)
    first(2, 2)
    second(4, 4)
    assert [done for done, _, _ in seen] == [10, 15, 18, 22, 30]
    assert {total for _, total, _ in seen} == {30}
    assert seen[1][2] == "training: half"
    meter.stop.set()
    with pytest.raises(InterruptedRunError, match="stopped during training"):
        first(2, 2)


def test_work_that_tells_nothing_still_counts() -> None:
    seen = []
    meter = Meter(lambda done, total, note="": seen.append(done), 8)
    work = metered(lambda index, progress: shard(index), meter, 4)
    assert [work(0).index, work(1).index] == [0, 1]
    assert seen == [4, 8]
