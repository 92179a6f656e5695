"""Threads that share work: every piece once, whatever the number of threads; failures are told; arrays are held and let go."""

import sys
import threading
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds_scenes import CAMERA, CLEAR, RAIN, caster, crowded, pose_at

from skidpad.core.images import Camera
from skidpad.worlds.render.raycast import render_side_by_side, share
from skidpad.worlds.scenario.scenario import Conditions


@given(st.integers(0, 40), st.integers(1, 6))
def test_every_piece_is_done_once(count: int, threads: int) -> None:
    done: list[int] = []
    share((partial(done.append, number) for number in range(count)), threads)
    assert sorted(done) == list(range(count))


def test_two_threads_work_at_the_same_time_and_one_works_alone() -> None:
    both = threading.Barrier(2)
    share([partial(both.wait, 20.0)] * 2, 2)
    names: set[str] = set()
    share([lambda: names.add(threading.current_thread().name)] * 5, 1)
    assert names == {threading.current_thread().name}


@pytest.mark.parametrize("threads", [1, 3])
def test_what_fails_is_told_and_ends_the_rest(threads: int) -> None:
    done: list[int] = []
    failed = threading.Event()

    def piece(number: int) -> None:
        if number == 4:
            failed.set()
            raise ValueError("the fourth piece is broken")
        # So many pieces that no thread does them all before it hears of the failure.
        assert number < 4 or failed.wait(20.0)
        done.append(number)

    with pytest.raises(ValueError, match="fourth"):
        share((partial(piece, number) for number in range(200_000)), threads)
    assert len(done) < 199_999


@pytest.mark.parametrize("conditions", [CLEAR, RAIN], ids=["clear", "rain"])
@pytest.mark.parametrize("camera", [CAMERA, Camera(400, 300)], ids=["small", "large"])
def test_bands_of_a_frame_change_nothing(conditions: Conditions, camera: Camera) -> None:
    """One frame and many threads: a large frame is painted in bands, which drops on the lens must not see."""
    renderer = caster(crowded(conditions), camera)
    pose, time_s = pose_at(renderer.scene, 20.0), np.array([1.0])
    alone = renderer.render(pose, time_s)
    for threads in (2, 3, 16):
        np.testing.assert_array_equal(renderer.render(pose, time_s, threads), alone)


def test_no_frames_are_no_frames() -> None:
    assert render_side_by_side([], np.empty((0, 3)), np.empty(0), 2).shape == (0, 0, 0, 3)


def test_rendering_holds_no_array_after_it_is_done() -> None:
    """Compiled code that counts references and code that does not call each other: none may be lost or left."""
    renderer = caster(crowded(RAIN))
    tables = [
        renderer.stage.sky,
        renderer.stage.standing,
        renderer.stage.colours,
        renderer.stage.ground.nodes,
        renderer.stage.precipitation.drops,
    ]
    pose, time_s = pose_at(renderer.scene, 20.0), np.array([1.0])
    renderer.render(pose, time_s)
    before = [sys.getrefcount(table) for table in tables]
    for threads in (1, 2, 1):
        renderer.render(pose, time_s, threads)
    assert [sys.getrefcount(table) for table in tables] == before
