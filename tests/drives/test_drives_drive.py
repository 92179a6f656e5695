"""Slices, splits, reading and reading ahead, against plain lists."""

from __future__ import annotations

import pickle
import threading
from dataclasses import dataclass, field

import numpy as np
import pytest
from drive_files import picture
from hypothesis import given, settings
from hypothesis import strategies as st

from skidpad.core.errors import BadDriveError
from skidpad.core.images import NumpyFrames
from skidpad.drives import Drive, FrameBatch, Problem, ProblemKind, drive_from_arrays
from skidpad.drives.frames import BATCHES_AHEAD, FRAMES_PER_TASK

SETTINGS = settings(max_examples=40, deadline=None)
BROKEN = Problem(ProblemKind.CORRUPT, "?", "planted")
brokenness = st.lists(st.booleans(), min_size=1, max_size=40)


def small_drive(count: int, broken: frozenset[int] = frozenset()) -> Drive:
    frames = [
        Problem(ProblemKind.CORRUPT, f"{place:06d}", "planted") if place in broken else picture(place, 3, 4) for place in range(count)
    ]
    return drive_from_arrays(frames, np.arange(count) / 100, time_s=np.arange(count) / 20)


def places(flags: list[bool]) -> frozenset[int]:
    return frozenset(place for place, flag in enumerate(flags) if flag)


def one_by_one(drive: Drive, positions: list[int]) -> FrameBatch:
    frames = {position: frame for position in positions if not isinstance(frame := drive.frame(position), Problem)}
    return FrameBatch(
        indices=np.array(list(frames), np.int64),
        frame_ids=tuple(drive.frame_ids[position] for position in frames),
        clip=np.array(list(frames.values()), np.uint8).reshape(-1, 3, 4, 3),
        steering_rad=drive.steering_rad[list(frames)],
        problems=tuple(problem for position in positions if isinstance(problem := drive.frame(position), Problem)),
    )


def same(one: FrameBatch, other: FrameBatch) -> bool:
    arrays = zip((one.indices, one.frames, one.steering_rad), (other.indices, other.frames, other.steering_rad), strict=True)
    return one.frame_ids == other.frame_ids and all(np.array_equal(a, b) for a, b in arrays)


@dataclass
class CountingSource:
    """Frames that know how often and by whom they were read."""

    count: int
    reads: list[int] = field(default_factory=list)

    def read(self, index: int) -> NumpyFrames | Problem:
        self.reads.append(index)
        return picture(index, 3, 4)

    def fingerprint(self, index: int) -> str:
        return str(index)

    def drive(self) -> Drive:
        return Drive("counted", tuple(map(str, range(self.count))), np.zeros(self.count), None, self)


@SETTINGS
@given(st.integers(0, 30), st.slices(30))
def test_slices_follow_lists(count: int, cut: slice) -> None:
    if cut.step is not None and cut.step < 0:
        cut = slice(cut.start, cut.stop, -cut.step)
    drive = small_drive(count)
    expected = list(range(count))[cut]
    part = drive[cut]
    assert part.frame_ids == tuple(drive.frame_ids[place] for place in expected)
    assert part.steering_rad.tolist() == drive.steering_rad[expected].tolist()
    assert part.time_s is not None
    assert part.time_s.tolist() == [place / 20 for place in expected]
    for place, original in enumerate(expected):
        np.testing.assert_array_equal(part.frame(place), picture(original, 3, 4))


@SETTINGS
@given(st.integers(1, 30), st.data())
def test_slices_of_slices_follow_lists(count: int, data: st.DataObject) -> None:
    drive, expected = small_drive(count), list(range(count))
    for _ in range(3):
        start, stop, step = data.draw(st.integers(0, count)), data.draw(st.integers(0, count)), data.draw(st.integers(1, 3))
        drive, expected = drive[start:stop:step], expected[start:stop:step]
    assert drive.frame_ids == tuple(f"{place:06d}" for place in expected)
    np.testing.assert_array_equal([drive.row(place) for place in range(len(drive))], expected)


@SETTINGS
@given(st.integers(0, 200), st.floats(0, 1))
def test_a_split_is_a_partition_in_time_order(count: int, fraction: float) -> None:
    drive = drive_from_arrays(np.zeros((count, 1, 1, 3), np.uint8))
    first, rest = drive.split(fraction)
    assert drive.frame_ids == (*first.frame_ids, *rest.frame_ids)
    assert abs(len(first) - fraction * count) <= 0.5


def test_head_takes_what_there_is() -> None:
    drive = small_drive(5)
    assert [len(drive.head(count)) for count in (-1, 0, 3, 5, 9)] == [0, 0, 3, 5, 5]


@SETTINGS
@given(brokenness, st.integers(1, 20), st.integers(1, 4))
def test_reading_ahead_equals_reading_one_by_one(broken: list[bool], batch_size: int, threads: int) -> None:
    drive = small_drive(len(broken), places(broken))
    if all(broken):
        with pytest.raises(BadDriveError, match=r"no frame .* the first problem is 000000"):
            list(drive.batches(batch_size, threads=threads))
        return
    batches = list(drive.batches(batch_size, threads=threads))
    stretches = [list(range(len(drive)))[start : start + batch_size] for start in range(0, len(drive), batch_size)]
    expected = [one_by_one(drive, stretch) for stretch in stretches]
    filled = [batch for batch in expected if len(batch)]
    assert all(same(one, other) for one, other in zip(batches, filled, strict=True))
    assert [problem for batch in batches for problem in batch.problems] == [problem for batch in expected for problem in batch.problems]
    assert [p.frame_id for b in batches for p in b.problems] == [f"{place:06d}" for place in sorted(places(broken))]


@SETTINGS
@given(brokenness.filter(lambda flags: not all(flags)), st.integers(1, 20))
def test_scan_gives_one_batch_for_every_stretch(broken: list[bool], batch_size: int) -> None:
    drive = small_drive(len(broken), places(broken))
    batches = list(drive.scan(batch_size, threads=2))
    assert [len(batch) + len(batch.problems) for batch in batches] == [
        min(batch_size, len(drive) - start) for start in range(0, len(drive), batch_size)
    ]


@SETTINGS
@given(brokenness.filter(lambda flags: not all(flags)), st.data())
def test_reading_some_frames_equals_reading_one_by_one(broken: list[bool], data: st.DataObject) -> None:
    drive = small_drive(len(broken), places(broken))
    positions = data.draw(st.permutations(range(len(drive))))[: data.draw(st.integers(0, len(drive)))]
    batch, expected = drive.read(positions, threads=2), one_by_one(drive, positions)
    assert same(batch, expected)
    assert batch.problems == expected.problems


def test_read_keeps_the_order_asked_for_and_drops_broken_frames() -> None:
    batch = small_drive(6, frozenset({2})).read([5, 2, 0, 0])
    assert batch.indices.tolist() == [5, 0, 0]
    assert batch.steering_rad.tolist() == [0.05, 0.0, 0.0]
    np.testing.assert_array_equal(batch.frames, [picture(5, 3, 4), picture(0, 3, 4), picture(0, 3, 4)])
    assert [problem.frame_id for problem in batch.problems] == ["000002"]


def test_no_more_frames_are_decoded_than_the_bound() -> None:
    source = CountingSource(500)
    batch_size = 2 * FRAMES_PER_TASK
    reader = source.drive().batches(batch_size, threads=2)
    next(reader)
    # One batch in hand, one held back, the look-ahead, and the task that fills the gap; plus the frame that gave the size.
    assert len(source.reads) <= (2 + BATCHES_AHEAD) * batch_size + FRAMES_PER_TASK + 1
    for _ in range(3):
        next(reader)
    assert len(source.reads) <= (5 + BATCHES_AHEAD) * batch_size + FRAMES_PER_TASK + 1
    reader.close()


def test_every_frame_is_read_once() -> None:
    source = CountingSource(50)
    drive = source.drive()
    assert drive.frame_shape == (3, 4, 3)
    source.reads.clear()
    list(drive.batches(7, threads=3))
    assert sorted(source.reads) == list(range(50))


def frame_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("skidpad-frames")]


def test_no_thread_outlives_its_reader() -> None:
    drive = CountingSource(200).drive()
    list(drive.batches(16, threads=3))
    assert frame_threads() == []
    for stop in range(4):
        reader = drive.batches(16, threads=3)
        for _ in range(stop):
            next(reader)
        assert bool(frame_threads()) == (stop > 0)
        reader.close()
        assert frame_threads() == []


def test_a_fault_in_a_source_reaches_the_caller_and_ends_the_threads() -> None:
    class Faulty(CountingSource):
        def read(self, index: int) -> NumpyFrames | Problem:
            if index == 30:
                raise RuntimeError("planted")
            return super().read(index)

    with pytest.raises(RuntimeError, match="planted"):
        list(Faulty(100).drive().batches(8, threads=2))
    assert frame_threads() == []


def test_a_frame_of_another_size_is_a_problem_and_a_slice_has_the_size_of_the_whole() -> None:
    drive = drive_from_arrays([BROKEN, picture(0, 3, 4), picture(1, 5, 6), picture(2, 3, 4), picture(3, 5, 6)])
    assert drive.frame_shape == (3, 4, 3)
    assert drive[2:].frame_shape == (3, 4, 3)
    (batch,) = drive[2:].batches(8)
    assert batch.frame_ids == ("000003",)
    assert [(problem.kind, problem.frame_id) for problem in batch.problems] == [
        (ProblemKind.OTHER_SIZE, "000002"),
        (ProblemKind.OTHER_SIZE, "000004"),
    ]
    assert "6x5 where the drive has 4x3" in batch.problems[0].detail


def test_an_empty_slice_has_no_batches() -> None:
    assert list(small_drive(4)[2:2].batches(3)) == []


def test_a_slice_without_a_readable_frame_reads_as_problems_and_ends_as_an_error() -> None:
    part = small_drive(6, frozenset({2, 3}))[2:4]
    assert len(part.read([0, 1])) == 0
    assert len(part.read([0, 1]).problems) == 2
    with pytest.raises(BadDriveError, match="000002"):
        list(part.batches(1))


def test_the_hash_knows_ids_labels_and_frames_but_not_the_name() -> None:
    frames = [picture(place, 3, 4) for place in range(3)]
    labels = [0.1, np.nan, 0.3]
    base = drive_from_arrays(frames, labels)
    assert base.sha256 == drive_from_arrays(frames, labels, name="other").sha256
    others = [
        drive_from_arrays([*frames[:2], picture(9, 3, 4)], labels),
        drive_from_arrays(frames, [0.1, np.nan, 0.31]),
        drive_from_arrays(frames, [0.1, 0.0, 0.3]),
        drive_from_arrays(frames, labels, frame_ids=["a", "b", "c"]),
        base[:2],
    ]
    assert len({drive.sha256 for drive in [base, *others]}) == 6
    assert base[1:].sha256 == base.select([1, 2]).sha256
    assert base[1:].sha256 == drive_from_arrays(frames[1:], labels[1:], frame_ids=base.frame_ids[1:]).sha256


def test_a_drive_travels_to_another_process() -> None:
    drive = small_drive(6)[1:5]
    copy = pickle.loads(pickle.dumps(drive))
    assert copy.sha256 == drive.sha256
    np.testing.assert_array_equal(copy.read([0, 3]).frames, drive.read([0, 3]).frames)


def test_rate_is_the_median_step() -> None:
    frames = np.zeros((5, 1, 1, 3), np.uint8)
    assert drive_from_arrays(frames, time_s=[0.0, 0.05, 0.1, 0.15, 7.0]).rate_hz == pytest.approx(20)
    assert drive_from_arrays(frames, time_s=[0.0] * 5).rate_hz is None
    assert drive_from_arrays(frames).rate_hz is None


def test_labels_may_be_absent_or_in_part() -> None:
    frames = np.zeros((2, 1, 1, 3), np.uint8)
    assert not drive_from_arrays(frames).has_labels
    assert drive_from_arrays(frames, [np.nan, 0.0]).has_labels


@pytest.mark.parametrize(
    ("keywords", "says"),
    [
        ({"steering_rad": [0.1]}, "2 frames but labels"),
        ({"time_s": [0.0, 1.0, 2.0]}, "2 frames but times"),
        ({"time_s": [1.0, 0.0]}, "not in order"),
        ({"time_s": [0.0, np.nan]}, "not in order"),
        ({"frame_ids": ["a", "a"]}, "distinct"),
        ({"frame_ids": ["a"]}, "distinct"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(keywords: dict[str, object], says: str) -> None:
    with pytest.raises(BadDriveError, match=says):
        drive_from_arrays(np.zeros((2, 1, 1, 3), np.uint8), **keywords)


@pytest.mark.parametrize("frames", [np.zeros((2, 4, 4, 3)), np.zeros((2, 4, 4), np.uint8), np.zeros((2, 4, 4, 4), np.uint8)])
def test_frames_that_are_not_uint8_rgb_are_refused(frames: NumpyFrames) -> None:
    with pytest.raises(BadDriveError, match="uint8 RGB"):
        drive_from_arrays(frames)


def test_wrong_positions_are_refused() -> None:
    drive = small_drive(4)
    for indices in ([4], [-1], [0, 9]):
        with pytest.raises(IndexError, match="frames 0 to 3"):
            drive.read(indices)
    for indices in ([1, 1], [2, 1]):
        with pytest.raises(IndexError, match="once each and in time order"):
            drive.select(indices)
    with pytest.raises(TypeError, match=r"drive\.frame\(2\)"):
        drive[2]
    with pytest.raises(BadDriveError, match="within 0 and 1"):
        drive.split(1.5)
    with pytest.raises(ValueError, match="batch_size=0"):
        next(drive.batches(0))
