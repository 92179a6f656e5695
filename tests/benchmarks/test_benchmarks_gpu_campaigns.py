"""What the benchmark of campaigns on a device says of the referee: how long it is waited for, and that lanes share its device."""

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import gpu_campaigns as bench
from skidpad.kinds.pictures.campaign import DeepTest
from skidpad.referee import network, verdict
from ways.campaign_stages import Stages
from ways.roofline import Cost

STAGES = Stages(read_s=0.06, device_s=0.13, judge_s=0.98, write_s=0.0, wall_s=1.19)
"""As measured on an H200, 128 frames under four styles."""


def test_lanes_share_the_referees_device_and_on_a_cpu_have_a_core_each() -> None:
    asked = bench.Asked(pictures=338, waited_s=0.91)
    beside = bench.floors_of(STAGES, asked, 16.0, 1.69, argparse.Namespace(lanes=4, device="cuda"))
    assert beside["referee"] == pytest.approx(16 * 0.91)
    assert beside["judge"] == pytest.approx(16 * 0.07 / 4)
    assert beside["python"] == pytest.approx(16 * STAGES.rest_s)
    here = bench.floors_of(STAGES, asked, 16.0, 1.69, argparse.Namespace(lanes=4, device="cpu"))
    assert here == {**beside, "referee": pytest.approx(16 * 0.91 / 4)}
    unasked = bench.floors_of(STAGES, bench.Asked(), 16.0, 1.69, argparse.Namespace(lanes=4, device="cuda"))
    assert unasked == STAGES.floors_s(16.0, 1.69, 4)


def test_all_threads_that_ask_the_referee_are_counted_and_it_begins_without_memories(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = verdict.Verdicts((), np.zeros(0), np.zeros(0))
    monkeypatch.setattr(DeepTest, "words", lambda _, name: (lambda *_: nothing) if name else None)
    before, found = network._memory, bench.Asked()
    with bench.asking(found), ThreadPoolExecutor(4) as threads:
        ask = DeepTest.words(None, "asks")
        assert DeepTest.words(None, "") is None
        assert list(threads.map(lambda count: ask(np.arange(count), None, []), (1, 2, 3, 4))) == [nothing] * 4
        assert network._memory is not before
    assert network._memory is before
    assert found.pictures == 10
    assert found.waited_s > 0.0


def test_a_line_says_how_fast_test_and_search_are_and_how_long_the_lanes_waited_for_the_referee() -> None:
    alone = bench.RefereeAlone(9_000.0, 6_000.0, 30, 1, 256, {"conv": 12.5})
    rows = {"lanes": 4, "waited_s": 54.0, "referee": alone, "broken_share": 0.66, "floors_s": {"referee": 14.6}, "search_per_s": 4_448.0}
    row = bench.Row("weather", 10_240, 695.0, 6_056.0, Cost(1.0, 1.0), 8, 0.0, 0.0, wall_s=14.73, stages=STAGES, findings=416, **rows)
    line = bench.line_of(row)
    assert "bound by referee, 0.99 of the time" in line
    assert "0 of 416 findings differ" in line
    assert "decoded frames/s: test 556, search 4,448; the test is 0.12 times as fast" in line
    assert "asked about 0.66 of the mutants; the lanes waited for it 13.50 s, 0.92 of their time" in line
    assert "the referee by itself: 9,000 pictures/s, 6,000 with originals" in line
    assert "of 256 pictures it looked at the corners of 30, and gave 1 another reason than the CPU" in line
    assert "conv 12.50" in line
    assert "the referee" not in bench.line_of(
        bench.Row("test", 1, 1.0, 1.0, Cost(1.0, 1.0), 1, 0.0, 0.0, wall_s=1.0, stages=STAGES, floors_s={"device": 1.0})
    )
