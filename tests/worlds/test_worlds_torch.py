"""The torch renderer against the compiled one, and against itself."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from worlds_scenes import CAMERA, CLEAR, FOG, NIGHT, RAIN, SNOW, caster, crowded, pose_at
from worlds_truths import bend

from skidpad.core.errors import BadParametersError
from skidpad.worlds.raycast import render_side_by_side
from skidpad.worlds.roadtable import RoadTable
from skidpad.worlds.scenario import RoadKind
from skidpad.worlds.torch_cards import DEEP, KEPT
from skidpad.worlds.torch_raycast import AGREEMENT, TorchRayCaster
from skidpad.worlds.torch_terrain import locate

SCENARIOS = [
    crowded(CLEAR),
    crowded(CLEAR, RoadKind.ENTRY, 2),
    crowded(FOG, RoadKind.EXIT),
    crowded(RAIN),
    crowded(SNOW, RoadKind.STRAIGHT, 3),
    crowded(replace(RAIN, night=True), seed=1),
    crowded(NIGHT, RoadKind.STRAIGHT),
]
TIMES = np.array([0.0, 0.45, 1.3, 2.0, 0.85, 1.75, 2.4])


@pytest.fixture(scope="module")
def poses() -> np.ndarray:
    return np.concatenate([pose_at(caster(scenario).scene, 14.0 + 7.0 * k, 0.2 * k - 0.5) for k, scenario in enumerate(SCENARIOS)])


@pytest.fixture(scope="module")
def renderer() -> TorchRayCaster:
    return TorchRayCaster([caster(scenario).scene for scenario in SCENARIOS], CAMERA)


def agree(frames: torch.Tensor, poses: np.ndarray) -> None:
    expected = render_side_by_side([caster(scenario) for scenario in SCENARIOS], poses, TIMES).astype(int)
    apart = np.abs(frames.cpu().numpy().astype(int) - expected)
    assert apart.mean(axis=(1, 2, 3)).max() < AGREEMENT.mean
    assert (apart > AGREEMENT.near).mean(axis=(1, 2, 3)).max() < AGREEMENT.beyond
    assert expected.std() > 30.0


def test_frames_agree_with_the_compiled_ones(renderer: TorchRayCaster, poses: np.ndarray) -> None:
    agree(renderer.render(poses, TIMES, np.arange(len(poses))), poses)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_frames_on_a_gpu_agree_and_do_not_depend_on_the_batch(poses: np.ndarray) -> None:
    renderer = TorchRayCaster([caster(scenario).scene for scenario in SCENARIOS], CAMERA, "cuda")
    frames = renderer.render(poses, TIMES, np.arange(len(poses)))
    agree(frames, poses)
    for k in range(len(poses)):
        assert torch.equal(renderer.render(poses[k : k + 1], TIMES[k : k + 1], np.array([k]))[0], frames[k])


def test_frames_do_not_depend_on_batch_or_order(renderer: TorchRayCaster, poses: np.ndarray) -> None:
    which = np.arange(len(poses))
    together = renderer.render(poses, TIMES, which)
    assert together.dtype == torch.uint8
    assert together.shape == (len(poses), CAMERA.height_px, CAMERA.width_px, 3)
    assert torch.equal(renderer.render(poses[::-1].copy(), TIMES[::-1].copy(), which[::-1].copy()).flip(0), together)
    assert torch.equal(renderer.render(poses[3:4], TIMES[3:4], which[3:4])[0], together[3])
    alone = TorchRayCaster([caster(SCENARIOS[3]).scene], CAMERA).render(poses[3:4], TIMES[3:4])
    assert torch.equal(alone[0], together[3])


def test_road_coordinates_are_within_a_millimetre(renderer: TorchRayCaster) -> None:
    road, rng = bend(30.0, 100.0), np.random.default_rng(0)
    points = road.at(rng.uniform(0.0, 99.0, 500)).beside(rng.uniform(-12.0, 12.0, 500))
    table = RoadTable.build(road)
    tables = renderer._pack._replace(
        nodes=torch.tensor(table.nodes, dtype=torch.float32),
        cells=torch.tensor(table.cells.ravel()),
        node_start=torch.zeros(1, dtype=torch.int32),
        cell_start=torch.zeros(1, dtype=torch.int32),
        node_count=torch.tensor([len(table.nodes)], dtype=torch.int32),
        cell_rows=torch.tensor([table.cells.shape[0]], dtype=torch.int32),
        cell_columns=torch.tensor([table.cells.shape[1]], dtype=torch.int32),
        origin=torch.tensor(table.origin_m[None], dtype=torch.float32),
    )
    x, y = torch.tensor(points, dtype=torch.float32).T
    lateral, s, _, _ = locate(tables, torch.zeros(500, dtype=torch.int32), x, y)
    truth = road.project(points)
    assert np.abs(lateral.numpy() - truth.lateral_m).max() < 0.001
    assert np.abs(s.numpy() - truth.s_m).max() < 0.02


def test_the_kept_cards_are_enough() -> None:
    """Where a frame had more cards than are kept, the two renderers would differ."""
    made = caster(crowded(CLEAR, seed=2))
    assert len(made.stage.standing) > KEPT > DEEP


@pytest.mark.parametrize(
    ("poses", "times", "scene"),
    [
        (np.zeros((2, 2)), np.zeros(2), np.zeros(2)),
        (np.zeros((2, 3)), np.zeros(3), np.zeros(2)),
        (np.full((1, 3), np.inf), np.zeros(1), np.zeros(1)),
    ],
)
def test_bad_poses_are_refused(renderer: TorchRayCaster, poses: np.ndarray, times: np.ndarray, scene: np.ndarray) -> None:
    with pytest.raises(BadParametersError, match="poses"):
        renderer.render(poses, times, scene)


def test_unknown_scenes_are_refused(renderer: TorchRayCaster) -> None:
    with pytest.raises(BadParametersError, match="numbered 0 to 6"):
        renderer.render(np.zeros((1, 3)), np.zeros(1), np.array([7]))
    with pytest.raises(BadParametersError, match="at least one scene"):
        TorchRayCaster([], CAMERA)
