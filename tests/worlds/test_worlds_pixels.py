"""The picture as a function of a pixel, which is how a GPU does it, against the CPU's rows; compiled for the CPU, too."""

import sys
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numba import njit
from worlds_scenes import CAMERA, CLEAR, FOG, NIGHT, RAIN, SNOW, caster, crowded, plain, pose_at

from skidpad.core.errors import BadParametersError
from skidpad.worlds.render import gpu as gpu_raycast
from skidpad.worlds.render.cards import SEEN, STANDING, see_cards
from skidpad.worlds.render.gpu import AGREEMENT, GpuRayCaster, _as_if_numba_were_new, baked, check, obstacle
from skidpad.worlds.render.packs import Pack, pack, stage_at
from skidpad.worlds.render.pixels import begin_frame, overlaps, paint_pixel
from skidpad.worlds.render.raycast import render_side_by_side
from skidpad.worlds.scenario.scenario import RoadKind

SCENARIOS = [
    crowded(CLEAR),
    crowded(CLEAR, RoadKind.ENTRY, 2),
    crowded(FOG, RoadKind.EXIT),
    crowded(RAIN),
    crowded(SNOW, RoadKind.STRAIGHT, 3),
    crowded(replace(RAIN, night=True), seed=1),
    crowded(NIGHT, RoadKind.STRAIGHT),
    plain(FOG),
]
TIMES = np.array([0.0, 0.45, 1.3, 2.0, 0.85, 1.75, 2.4, 0.1])
WHOLE = (10_000, 10_000)


@pytest.fixture(scope="module")
def poses() -> np.ndarray:
    return np.concatenate([pose_at(caster(scenario).scene, 14.0 + 6.0 * k, 0.2 * k - 0.5) for k, scenario in enumerate(SCENARIOS)])


@pytest.fixture(scope="module")
def packed() -> Pack:
    return pack(baked([caster(scenario).scene for scenario in SCENARIOS], CAMERA), CAMERA)


@pytest.fixture(scope="module")
def rows(poses: np.ndarray) -> np.ndarray:
    return render_side_by_side([caster(scenario) for scenario in SCENARIOS], poses, TIMES)


@njit(cache=True)
def by_pixels(packed, pose, time_s, scene, forward_m, tile_size, frame):  # type: ignore[no-untyped-def]
    """Paints a frame as the kernels do, tile after tile."""
    stage = stage_at(packed, scene)
    room = len(stage.standing) + 3 * packed.movers.shape[1]
    eye, cards, shadows = np.empty(5), np.empty((3 * packed.movers.shape[1], STANDING)), np.empty((packed.movers.shape[1], 6))
    depths, order, boxes = np.empty(room), np.empty(room, np.int64), np.empty((room, 4), np.int32)
    seen, bounds, listed = np.empty((room, SEEN), np.float32), np.empty((room, 4), np.int32), np.empty(room, np.int32)
    moving = begin_frame(stage, pose, time_s, forward_m, eye, cards, shadows)
    height, width = frame.shape[:2]
    count = see_cards(
        cards[:moving], stage.standing, stage.sprites, (eye[0], eye[1], eye[3], eye[4]), stage.lens, (width, height), stage.sun,
        stage.look, depths, order, boxes, seen, bounds,
    )  # fmt: skip
    for top in range(0, height, tile_size[1]):
        for left in range(0, width, tile_size[0]):
            tile = (left, left + tile_size[0] - 1, top, top + tile_size[1] - 1)
            places = 0
            for k in range(count):
                if overlaps(bounds[k], tile):
                    listed[places] = k
                    places += 1
            for v in range(top, min(top + tile_size[1], height)):
                for u in range(left, min(left + tile_size[0], width)):
                    paint_pixel(packed, time_s, scene, eye, seen, bounds, count, tile, listed, places, shadows, frame, u, v)


def painted(packed: Pack, poses: np.ndarray, scene: int, tile: tuple[int, int] = WHOLE) -> np.ndarray:
    frame = np.zeros((CAMERA.height_px, CAMERA.width_px, 3), np.uint8)
    by_pixels(packed, poses[scene], TIMES[scene], scene, CAMERA.forward_m, tile, frame)
    return frame


def apart(frame: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """The mean difference of a byte, and the share that differs by more than is near."""
    difference = np.abs(frame.astype(int) - other)
    return float(difference.mean()), float((difference > AGREEMENT.near).mean())


@pytest.mark.parametrize("scene", range(len(SCENARIOS)))
def test_pixels_agree_with_rows(packed: Pack, poses: np.ndarray, rows: np.ndarray, scene: int) -> None:
    mean, beyond = apart(painted(packed, poses, scene), rows[scene])
    assert mean < AGREEMENT.mean
    assert beyond < AGREEMENT.beyond
    assert rows[scene].std() > 10.0


def test_the_agreement_is_narrow_enough_to_tell_pictures_apart(packed: Pack, poses: np.ndarray, rows: np.ndarray) -> None:
    """A hand's breadth to the side is beyond it, and so is the next scene."""
    mean, beyond = apart(painted(packed, poses + np.array([0.0, 0.1, 0.0]), 0), rows[0])
    assert mean > AGREEMENT.mean
    assert beyond > AGREEMENT.beyond
    assert apart(rows[1], rows[0])[0] > AGREEMENT.mean


@pytest.mark.parametrize("scene", [0, 3])
def test_tiles_change_nothing(packed: Pack, poses: np.ndarray, scene: int) -> None:
    """Each tile has its own list of cards; drops look out of their tile."""
    np.testing.assert_array_equal(painted(packed, poses, scene, (32, 8)), painted(packed, poses, scene))


@pytest.mark.parametrize("scene", [1, 7])
def test_a_scene_looks_the_same_whoever_is_in_the_pack(packed: Pack, poses: np.ndarray, scene: int) -> None:
    """So that a drive can be made again without those that were beside it."""
    alone, frame = pack([caster(SCENARIOS[scene]).stage], CAMERA), np.zeros((CAMERA.height_px, CAMERA.width_px, 3), np.uint8)
    assert alone.standing.shape != packed.standing[:1].shape
    by_pixels(alone, poses[scene], TIMES[scene], 0, CAMERA.forward_m, WHOLE, frame)
    np.testing.assert_array_equal(frame, painted(packed, poses, scene))


def test_a_stage_comes_out_of_a_pack_as_it_went_in(packed: Pack) -> None:
    for scene, scenario in enumerate(SCENARIOS):
        put, got = caster(scenario).stage, stage_at(packed, scene)
        assert got.look == put.look
        np.testing.assert_array_equal(got.movers, put.movers)
        np.testing.assert_array_equal(got.standing[: len(put.standing)], put.standing)
        assert not got.standing[len(put.standing) :].any()
        np.testing.assert_array_equal(got.sky, put.sky)
        np.testing.assert_array_equal(got.ground.nodes[: len(put.ground.nodes)], put.ground.nodes)
        np.testing.assert_array_equal(got.ground.nodes[-1], put.ground.nodes[-1])
        np.testing.assert_array_equal(got.precipitation.layers[: len(put.precipitation.layers)], put.precipitation.layers)
        assert (got.precipitation.kind, got.precipitation.intensity) == (put.precipitation.kind, put.precipitation.intensity)


def test_a_sky_that_scenes_share_is_there_once() -> None:
    stage = caster(SCENARIOS[0]).stage
    assert len(pack([stage, stage], CAMERA).sky) == 1


@pytest.mark.parametrize(
    ("poses", "times", "scenes"), [((2, 2), (2,), (2,)), ((2, 3), (3,), (2,)), ((2, 3), (2,), (1,)), ((3,), (1,), (1,))]
)
def test_wrong_shapes_are_refused(poses: tuple[int, ...], times: tuple[int, ...], scenes: tuple[int, ...]) -> None:
    with pytest.raises(BadParametersError, match="poses"):
        check(poses, times, scenes)


def test_a_renderer_without_scenes_is_refused() -> None:
    with pytest.raises(BadParametersError, match="at least one scene"):
        GpuRayCaster([], CAMERA)


def test_why_there_is_no_gpu_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_raycast, "_cuda", lambda: SimpleNamespace(is_available=lambda: True))
    assert obstacle() == ""
    monkeypatch.setattr(gpu_raycast, "_cuda", lambda: SimpleNamespace(is_available=lambda: False))
    assert "no GPU" in obstacle()
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "numba.cuda", None)
    monkeypatch.delattr("numba.cuda", raising=False)
    assert "pip install 'skidpad[gpu]'" in obstacle()


@pytest.mark.parametrize("module", ["numba.cuda.np.npdatetime_helpers", "numba_cuda.numba.cuda.types"])
def test_what_numba_says_of_numpy_is_hidden_and_nothing_else_is(module: str) -> None:
    with _as_if_numba_were_new():
        warnings.warn_explicit("The 'generic' unit is deprecated", DeprecationWarning, "helpers.py", 1, module)
        with pytest.raises(DeprecationWarning):
            warnings.warn_explicit("old", DeprecationWarning, "mine.py", 1, "mine")
        warnings.warn_explicit("Grid size 1 will likely result in GPU under-utilization", UserWarning, "dispatcher.py", 1, module)
        with pytest.raises(UserWarning):
            warnings.warn_explicit("slow", UserWarning, "helpers.py", 1, module)
    with pytest.raises(DeprecationWarning):
        warnings.warn_explicit("old", DeprecationWarning, "helpers.py", 1, module)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_frames_on_a_gpu_agree_and_do_not_depend_on_the_batch(poses: np.ndarray, rows: np.ndarray) -> None:
    renderer = GpuRayCaster([caster(scenario).scene for scenario in SCENARIOS], CAMERA, at_once=3)
    which = np.arange(len(SCENARIOS))
    frames = renderer.render(poses, TIMES, which)
    for k, frame in enumerate(frames.cpu().numpy()):
        mean, beyond = apart(frame, rows[k])
        assert mean < AGREEMENT.mean
        assert beyond < AGREEMENT.beyond
        assert torch.equal(renderer.render(poses[k : k + 1], TIMES[k : k + 1], which[k : k + 1])[0], frames[k])
    assert torch.equal(renderer.render(poses[::-1].copy(), TIMES[::-1].copy(), which[::-1].copy()).flip(0), frames)
