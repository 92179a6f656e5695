"""Closed loops whose world is rendered on a GPU: with a stand-in that renders on the CPU but answers as a GPU does, and on a real one."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from online_toys import ROADS, demo, online
from typer.testing import CliRunner

from skidpad.cli.main import app
from skidpad.core.stimuli import Recipe
from skidpad.kinds.drives.loop import BATCHES, Eyes, Wheel, seen
from skidpad.kinds.drives.records import unpack
from skidpad.kinds.drives.replaying import frames_at, replay_drive
from skidpad.kinds.drives.work import GPU_WIDTH, WIDTH, ClosedLoopRunner
from skidpad.runs.workers.here import pinned
from skidpad.stimuli.registry import conditions_of
from skidpad.subjects.loading import load_subject
from skidpad.worlds import builtin
from skidpad.worlds.builtin import BuiltInWorld, rendering_warning, world_on
from skidpad.worlds.render.raycast import RayCaster, render_side_by_side

MEAN_RAD, LARGEST_RAD = 0.01, 0.05
"""How far answers of the bundled network may be from the CPU's on the same drive: renderer, resizing and network differ."""

ON_GPU = [pytest.mark.cuda, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]


class StandIn:
    """Has the methods of the GPU's renderer; its tensors lie on the CPU."""

    made = 0

    def __init__(self, scenes, camera, at_once) -> None:
        assert at_once == len(scenes)
        type(self).made += 1
        self._casters = [RayCaster(scene, camera) for scene in scenes]

    def render(self, poses, time_s, scene) -> torch.Tensor:
        return torch.from_numpy(render_side_by_side([self._casters[k] for k in scene.tolist()], poses, time_s))


@pytest.fixture(autouse=True)
def one_thread():
    """As in a run: a network's last bits hang on torch's threads."""
    with pinned():
        yield


@pytest.fixture
def pretended(monkeypatch) -> type[StandIn]:
    """A machine that has a GPU, as far as the world can tell."""
    monkeypatch.setattr(builtin, "obstacle", lambda: "")
    monkeypatch.setattr(builtin, "GpuRayCaster", StandIn)
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    monkeypatch.setattr(StandIn, "made", 0)
    return StandIn


def executed(campaign, path):
    run = campaign.start(path)
    campaign.execute(run)
    return run


def told(run) -> list[str]:
    return sorted(repr(row) for row in run.records().to_pylist())


def test_tensors_are_driven_by_as_arrays_are_and_a_drive_is_made_again(pretended, tmp_path) -> None:
    """The third road ends before the others, so that a part of the frames is rendered, too."""
    on_gpu = executed(online(device="cuda"), tmp_path / "gpu")
    assert pretended.made == 1  # all scenarios at once
    assert told(on_gpu) == told(executed(online(), tmp_path / "cpu"))
    assert on_gpu.manifest.device == "cuda"
    row = on_gpu.records().to_pylist()[1]
    replayed = replay_drive(online(device="cuda").runner, on_gpu, row["case_id"])
    assert pretended.made == 2
    assert replayed.is_reproduced, replayed.differences
    picture = frames_at(online(device="cuda").runner, row, [5])[0]  # which no GPU is needed for
    assert pretended.made == 2
    assert float(Eyes(demo(), [row["slot"]]).answer(picture[None])[0]) == unpack(row["answers_rad"])[5]


def test_only_what_is_wanted_is_rendered(pretended) -> None:
    world = world_on("cuda:0", "built-in", 3, 1)
    world.reset([road.scenario for road in ROADS])
    whole, part = world.frames(), world.frames(np.array([True, False, True]))
    assert isinstance(part, torch.Tensor)
    assert torch.equal(part[[0, 2]], whole[[0, 2]])
    assert not part[1].any()
    assert pretended.made == 1


def test_what_sits_in_front_of_the_camera_takes_tensors_and_leaves_them_as_they_are() -> None:
    frames = np.random.default_rng(0).integers(0, 256, (3, 20, 40, 3), np.uint8)
    conditions, stimuli = conditions_of(["brightness(shift=40)"])
    recipes = [Recipe(), *[conditions[0].recipe(stimuli, 0, k) for k in range(2)]]
    given = torch.from_numpy(frames.copy())
    shown = seen(given, recipes, stimuli, np.array([True, True, False]))
    assert isinstance(shown, torch.Tensor)
    np.testing.assert_array_equal(shown.numpy(), seen(frames, recipes, stimuli, np.array([True, True, False])))
    np.testing.assert_array_equal(given.numpy(), frames)
    assert shown[1].float().mean() > given[1].float().mean() + 10.0


def test_shards_hang_on_the_settings_and_not_on_the_machine(monkeypatch) -> None:
    for obstacle in ("", "no GPU"):
        monkeypatch.setattr(builtin, "obstacle", lambda said=obstacle: said)
        assert len(ClosedLoopRunner(demo(), "built-in", {}, device="cuda").cut(GPU_WIDTH)) == 1
        assert len(ClosedLoopRunner(demo(), "built-in", {}, width=16, device="cuda").cut(GPU_WIDTH)) == GPU_WIDTH // 16
        assert len(ClosedLoopRunner(demo(), "metadrive", {}, device="cuda").cut(2 * WIDTH)) == 2
    assert GPU_WIDTH % BATCHES["cuda"] == 0


def test_without_a_gpu_the_cpu_renders_and_the_command_says_why(monkeypatch) -> None:
    monkeypatch.setattr(builtin, "obstacle", lambda: "numba finds no GPU")
    world = world_on("cuda", "built-in", 1, 1)
    world.reset([ROADS[0].scenario])
    assert isinstance(world.frames(), np.ndarray)
    assert rendering_warning("cpu", "built-in") == rendering_warning("cuda", "metadrive") == ""
    assert "CPU renders the built-in world" in rendering_warning("cuda:1", "built-in")
    if not torch.cuda.is_available():
        done = CliRunner().invoke(app, ["drive", "demo", "--scenarios", "1", "--device", "cuda"])
        assert "numba finds no GPU" in done.output + done.stderr
        assert done.exit_code != 0  # the subject's device is not there either


@pytest.fixture(scope="module")
def on_gpu():
    return online(load_subject(online().settings.subject, "cuda"), ROADS[:2], device="cuda")


class TestOnAGpu:
    pytestmark = ON_GPU

    def test_answers_on_the_way_of_the_truth_agree_with_the_cpus(self, on_gpu) -> None:
        theirs = on_gpu.runner.courses(on_gpu.cases, Wheel.TRUTH)
        ours = online(scenarios=ROADS[:2]).runner.courses(on_gpu.cases, Wheel.TRUTH)
        distances = np.abs(np.concatenate([a.answers_rad - b.answers_rad for a, b in zip(theirs, ours, strict=True)]))
        assert len(distances) == 32
        assert distances.mean() < MEAN_RAD
        assert distances.max() < LARGEST_RAD

    def test_a_loop_stays_near_the_cpus_and_is_made_again_alone_to_the_last_bit(self, on_gpu, tmp_path) -> None:
        run = executed(on_gpu, tmp_path / "gpu")
        ours = online(scenarios=ROADS[:2]).runner.courses(on_gpu.cases, Wheel.SUBJECT)
        for row, course in zip(run.records().to_pylist(), ours, strict=True):
            assert np.abs(unpack(row["lateral_m"]) - course.lateral_m).max() < 0.02
            assert np.abs(unpack(row["answers_rad"]) - course.answers_rad).max() < LARGEST_RAD
            replayed = replay_drive(on_gpu.runner, run, row["case_id"])
            assert replayed.is_reproduced, replayed.differences

    def test_frames_stay_on_the_device_whatever_stream_is_used(self, on_gpu) -> None:
        world = world_on("cuda", "built-in", 2, 1)
        assert isinstance(world, BuiltInWorld)
        world.reset([case.scenario for case in on_gpu.cases])
        frames = world.frames()
        assert isinstance(frames, torch.Tensor)
        assert frames.is_cuda
        with torch.cuda.stream(torch.cuda.Stream()):
            again = world.frames()
            assert torch.equal(again, frames)
