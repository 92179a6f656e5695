"""Batches side by side: the same bytes for any number of lanes, and the process as it was afterwards."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from bar_world import BarSubject, bar_campaign

from skidpad.campaigns.deeptest import DeepTest
from skidpad.campaigns.lanes import Lanes, open_lanes
from skidpad.campaigns.settings import DeepTestSettings
from skidpad.drives.memory import drive_from_arrays
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.subjects.zoo import ARCHITECTURES
from skidpad.transforms import stimuli


@pytest.fixture(autouse=True)
def threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads(), cv2.getNumThreads()
    yield
    torch.set_num_threads(before[0])
    cv2.setNumThreads(before[1])


def test_there_is_a_lane_for_each_thread_and_one_thread_in_each() -> None:
    torch.set_num_threads(3)
    cv2.setNumThreads(2)
    with open_lanes("cpu") as lanes:
        assert lanes.count == 3
        assert set(lanes.map(lambda _: (torch.get_num_threads(), cv2.getNumThreads()), range(12))) == {(1, 1)}
    assert (torch.get_num_threads(), cv2.getNumThreads()) == (3, 2)


def test_threads_are_given_back_when_the_work_fails() -> None:
    torch.set_num_threads(3)
    cv2.setNumThreads(2)
    with pytest.raises(KeyError), open_lanes("cpu"):
        raise KeyError
    assert (torch.get_num_threads(), cv2.getNumThreads()) == (3, 2)


def test_lanes_work_side_by_side_and_answer_in_order() -> None:
    meeting = threading.Barrier(3)

    def wait_for_the_others(item: int) -> int:
        meeting.wait(timeout=60)  # breaks, and so fails, where fewer than three are at work
        return item

    torch.set_num_threads(3)
    with open_lanes("cpu") as lanes:
        assert list(lanes.map(wait_for_the_others, range(9))) == list(range(9))


def test_after_a_caller_that_stops_early_nothing_is_at_work() -> None:
    torch.set_num_threads(2)
    started, ended = [], []

    def work(item: int) -> int:
        started.append(item)
        ended.append(item)
        return item

    with open_lanes("cpu") as lanes:
        mapped = lanes.map(work, range(1000))
        assert next(mapped) == 0
        mapped.close()
        assert sorted(started) == sorted(ended)
        assert len(started) < 100
        assert list(lanes.map(work, [7])) == [7]


@pytest.mark.parametrize(("frames", "sizes"), [(0, []), (5, [5]), (8, [8]), (19, [8, 8, 3])])
def test_cutting_leaves_out_no_frame(frames: int, sizes: list[int]) -> None:
    with ThreadPoolExecutor(1) as pool:
        parts = Lanes(2, 8, pool).cut(frames)
    assert [part.stop - part.start for part in parts] == sizes
    assert [place for part in parts for place in range(part.start, part.stop)] == list(range(frames))


def test_any_number_of_lanes_writes_the_same_bytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    frames = np.stack([cv2.resize(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8), (80, 60)) for _ in range(40)])
    architecture = ARCHITECTURES.get("pilotnet")
    torch.manual_seed(0)
    subject = NetworkSubject.of_module(architecture.build(), architecture.describe("net", "net.safetensors"))
    settings = DeepTestSettings(
        subject="net",
        drive="noise",
        transforms=("rotation", "rain"),
        searches=("grid", "greedy", "random"),
        relation="steers-alike",
        tolerance=1e-5,
        seeds=2,
        max_failed_tries=8,
    )
    campaign = DeepTest(settings, subject, drive_from_arrays(frames), stimuli(settings.transforms))
    written = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        run = campaign.start(tmp_path / str(threads))
        campaign.execute(run)
        assert run.findings().num_rows > 0
        # names carry the hash of the content
        written.append(sorted(path.name for path in (run.path / "segments").iterdir()))
    assert len(written[0]) == 1 + 1 + 2 + 2
    assert written[0] == written[1] == written[2]


def test_what_breaks_in_a_lane_ends_the_campaign(tmp_path: Path) -> None:
    class Breaking(BarSubject):
        def observe(self, frames):
            if frames.mean() > 60:  # brightened far enough
                raise RuntimeError("the subject broke")
            return super().observe(frames)

    torch.set_num_threads(2)
    campaign = bar_campaign(Breaking())
    run = campaign.start(tmp_path / "run")
    with pytest.raises(RuntimeError, match="the subject broke"):
        campaign.execute(run)
    assert run.completed("originals") == {0, 1, 2}
    assert torch.get_num_threads() == 2
