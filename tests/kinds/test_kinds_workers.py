"""The same findings and coverage whoever computes, and whatever happens on the way."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from bar_world import BarSubject, bar_campaign

from skidpad.core.errors import InterruptedRunError
from skidpad.drives.opening import drive_from_arrays
from skidpad.kinds.kind import load_campaign
from skidpad.kinds.pictures.campaign import DeepTest
from skidpad.kinds.pictures.settings import DeepTestSettings
from skidpad.kinds.pictures.work import cut
from skidpad.runs.folder import Run
from skidpad.runs.workers.here import Here
from skidpad.runs.workers.processes import Processes
from skidpad.runs.workers.protocol import Workers
from skidpad.runs.workers.ray_cluster import RayCluster
from skidpad.stimuli.pictures import stimuli
from skidpad.stimuli.weather.pretrained import weather_path
from skidpad.subjects.description import pretrained
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.subjects.zoo import ARCHITECTURES

SUBJECT = str(pretrained("pilotnet-rendered"))
pytestmark = pytest.mark.usefixtures("referee_on")
"""Worker processes ask the referee, since they know nothing of the tests; so this process does, too."""

RAIN = str(weather_path("rain").absolute())
CONFIGS = {
    "deeptest": {
        "drive": "rendered?frames=20&seed=3",
        "transforms": ["rotation", "deeptest-rain"],
        "searches": ["grid", "greedy", "random"],
        "criteria": ["nc", "kmnc"],
        "profile_drive": "rendered?frames=10&seed=4",
        "relation": "steers-alike",
        "tolerance": 2.0,
        "seeds": 2,
        "max_failed_tries": 8,
        "shard_frames": 8,
    },
    "deeproad": {"drive": "rendered?frames=6&seed=3", "weathers": [RAIN], "shard_frames": 2},
    "tactic": {
        "drive": "rendered?frames=8&seed=3",
        "weather": RAIN,
        "conditions": 1,
        "patience": 1,
        "iterations": 2,
        "searches": ["es", "map-elites"],
    },
    "online": {"scenarios": 2, "seconds": 1.0, "stimuli": ["original", "deeptest-fog"], "width": 2},
    "compare": {"scenarios": 1, "matched": 1, "seconds": 1.0, "drive": "rendered?frames=70&seed=5"},
    "duel": {
        "rewards": ["sound"],
        "egos": 2,
        "train_episodes": 6,
        "validation_episodes": 2,
        "test_episodes": 6,
        "cross_episodes": 4,
        "search_episodes": 1,
        "search_depth": 3,
        "seed": 1,
    },
    "search": {"campaign": "online", "scenarios": 2, "seconds": 1.0, "searches": ["es"], "width": 2},
}


def config_of(kind: str) -> dict:
    return {"campaign": kind, **({} if kind == "duel" else {"subject": SUBJECT}), **CONFIGS[kind]}


def segments(run: Run) -> list[str]:
    """The names of the segments, which carry the hash of records, coverage and problems."""
    return sorted(path.name for path in (run.path / "segments").glob("*.parquet"))


def computed(kind: str, folder: Path, workers: Workers) -> list[str]:
    campaign = load_campaign(config_of(kind), "the test")
    run = campaign.start(folder / "run")
    campaign.execute(run, workers=workers)
    assert run.is_finished
    return segments(run)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[str]]:
    """What one thread of this process computes."""
    return cache(lambda kind: computed(kind, tmp_path_factory.mktemp(kind), Here(1)))


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A real cluster of this machine, small; RayCluster uses one that is there and leaves it."""
    ray = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR", object_store_memory=80 << 20)
        yield
        ray.shutdown()


@pytest.mark.parametrize("kind", ["deeptest", "online"])  # all kinds: `slow`, below
def test_two_processes_write_the_bytes_of_one_thread(kind: str, alone: Callable[[str], list[str]], tmp_path: Path) -> None:
    assert computed(kind, tmp_path, Processes(2)) == alone(kind)


@pytest.mark.parametrize("kind", ["tactic", "duel", "deeproad", "compare", "search"])
def test_threads_write_them_too(kind: str, alone: Callable[[str], list[str]], tmp_path: Path) -> None:
    assert computed(kind, tmp_path, Here(3)) == alone(kind)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "most"), [("deeptest", 2)])
def test_a_ray_cluster_writes_them_too(kind: str, most: int, cluster: None, alone: Callable[[str], list[str]], tmp_path: Path) -> None:
    assert computed(kind, tmp_path, RayCluster(most=most)) == alone(kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", CONFIGS)
def test_any_number_of_workers_writes_them(kind: str, cluster: None, alone: Callable[[str], list[str]], tmp_path: Path) -> None:
    for place, workers in enumerate((Here(2), Processes(2), Processes(3), RayCluster())):
        assert computed(kind, tmp_path / str(place), workers) == alone(kind)


def test_any_number_of_threads_writes_the_same_bytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    frames = np.stack([cv2.resize(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8), (80, 60)) for _ in range(16)])
    architecture = ARCHITECTURES.get("pilotnet")
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        subject = NetworkSubject.of_module(architecture.build(), architecture.describe("net", "net.safetensors"))
    settings = DeepTestSettings(
        subject="net",
        drive="noise",
        transforms=("rotation", "deeptest-rain"),
        searches=("grid", "greedy", "random"),
        relation="steers-alike",
        tolerance=1e-5,
        seeds=2,
        max_failed_tries=8,
    )
    campaign = DeepTest(settings, subject, drive_from_arrays(frames), stimuli(settings.transforms))
    written = []
    for threads in (1, 2, 3):
        run = campaign.start(tmp_path / str(threads))
        campaign.execute(run, workers=Here(threads))
        assert run.findings().num_rows > 0
        written.append(segments(run))
    assert len(written[0]) == 1 + 1 + 2 + 2
    assert written[0] == written[1] == written[2]


def test_what_breaks_in_a_thread_ends_the_campaign(tmp_path: Path) -> None:
    class Breaking(BarSubject):
        def observe(self, frames):
            if frames.mean() > 60:  # brightened far enough
                raise RuntimeError("the subject broke")
            return super().observe(frames)

    before = torch.get_num_threads()
    campaign = bar_campaign(Breaking())
    run = campaign.start(tmp_path / "run")
    with pytest.raises(RuntimeError, match="the subject broke"):
        campaign.execute(run, workers=Here(2))
    assert run.completed("originals") == {0, 1, 2}
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(("frames", "sizes"), [(0, []), (5, [5]), (32, [32]), (70, [32, 32, 6])])
def test_cutting_leaves_out_no_frame(frames: int, sizes: list[int]) -> None:
    parts = cut(frames)
    assert [part.stop - part.start for part in parts] == sizes
    assert [place for part in parts for place in range(part.start, part.stop)] == list(range(frames))


def test_a_run_that_one_thread_began_goes_on_with_two_processes(alone: Callable[[str], list[str]], tmp_path: Path) -> None:
    run = load_campaign(config_of("duel"), "the test").start(tmp_path / "run")

    def stop(done: int, total: int, note: str = "") -> None:
        if 2 * done > total:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError, match="go on with: skidpad resume"):
        load_campaign(config_of("duel"), "the test").execute(run, stop, Here(1))
    again = Run.open(run.path)
    assert set() < set(segments(again)) < set(alone("duel"))
    load_campaign(again.config, again.place).execute(again, workers=Processes(2))
    assert segments(again) == alone("duel")
