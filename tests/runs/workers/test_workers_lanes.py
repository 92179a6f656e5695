"""Threads side by side: all of the work, in order where that is asked, and the process as it was afterwards."""

import threading
from collections.abc import Iterator
from pathlib import Path

import cv2
import pytest
import torch

from skidpad.core.errors import UntrustedError
from skidpad.core.trust import Code, require, trusting
from skidpad.runs.workers.here import cores, open_lanes


@pytest.fixture(autouse=True)
def threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads(), cv2.getNumThreads()
    yield
    torch.set_num_threads(before[0])
    cv2.setNumThreads(before[1])


def test_there_is_a_lane_for_each_thread_and_one_thread_in_each() -> None:
    torch.set_num_threads(3)
    cv2.setNumThreads(2)
    with open_lanes() as lanes:
        assert lanes.count == 3
        assert set(lanes.map(lambda _: (torch.get_num_threads(), cv2.getNumThreads()), range(12))) == {(1, 1)}
    assert (torch.get_num_threads(), cv2.getNumThreads()) == (3, 2)
    assert cores() >= 1


def test_threads_are_given_back_when_the_work_fails() -> None:
    torch.set_num_threads(3)
    cv2.setNumThreads(2)
    with pytest.raises(KeyError), open_lanes():
        raise KeyError
    assert (torch.get_num_threads(), cv2.getNumThreads()) == (3, 2)


def test_lanes_work_side_by_side_and_answer_in_order() -> None:
    meeting = threading.Barrier(3)

    def wait_for_the_others(item: int) -> int:
        meeting.wait(timeout=60)  # breaks, and so fails, where fewer than three are at work
        return item

    with open_lanes(3) as lanes:
        assert list(lanes.map(wait_for_the_others, range(9))) == list(range(9))


def test_after_a_caller_that_stops_early_nothing_is_at_work() -> None:
    started, ended = [], []

    def work(item: int) -> int:
        started.append(item)
        ended.append(item)
        return item

    with open_lanes(2) as lanes:
        mapped = lanes.map(work, range(1000))
        assert next(mapped) == 0
        mapped.close()
        assert sorted(started) == sorted(ended)
        assert len(started) < 100
        assert list(lanes.map(work, [7])) == [7]


def test_a_failure_stops_the_others() -> None:
    begun, lock, stop = [], threading.Lock(), threading.Event()

    def work(item: int) -> int:
        with lock:
            begun.append(item)
        if item == 0:
            raise RuntimeError("broken")
        assert stop.wait(60), "work that never hears of the end would never end"
        return item

    with open_lanes(2) as lanes, pytest.raises(RuntimeError, match="broken"):
        list(lanes.as_they_come(work, range(40), stop))
    assert len(begun) < 40, "what had not begun never did"


def test_what_a_person_trusts_is_trusted_in_every_lane(tmp_path: Path) -> None:
    code = Code("import the Python code 'mine:drive'", tmp_path, remedy="")

    def needs_trust(_number: int) -> bool:
        require(code)
        return True

    with trusting(), open_lanes(2) as lanes:
        assert list(lanes.map(needs_trust, range(4))) == [True] * 4
    with trusting(word=False), open_lanes(2) as lanes, pytest.raises(UntrustedError):
        list(lanes.map(needs_trust, range(4)))
