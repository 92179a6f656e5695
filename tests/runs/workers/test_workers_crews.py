"""Every kind of workers: each item once, the same results, the same errors."""

import os
import re
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from workers_toys import ARRAY, Toy, die_while_loading, fail_to_load, load

from skidpad.core.errors import BadRunError, LostDriveError, LostWorkError, SkidpadError, WorkersError
from skidpad.kinds.shards import workers_of
from skidpad.runs.workers.here import Here, patiently
from skidpad.runs.workers.processes import Processes
from skidpad.runs.workers.protocol import Crew, Workers, in_order
from skidpad.runs.workers.ray_cluster import RayCluster

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A real cluster of this machine, small; RayCluster uses one that is there and leaves it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(num_cpus=5, include_dashboard=False, log_to_driver=False, logging_level="ERROR", object_store_memory=80 << 20)
        yield
        ray.shutdown()


@pytest.fixture(scope="module", params=["one thread", "threads", "processes", "ray"])
def crew(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    kinds: dict[str, Workers] = {"one thread": Here(1), "threads": Here(3), "processes": Processes(2), "ray": RayCluster(most=2)}
    if request.param == "ray":
        request.getfixturevalue("cluster")
    folder = tmp_path_factory.mktemp("crew")
    with kinds[request.param].start(load(folder), partial(load, str(folder)), folder) as crew:
        yield crew
    assert list(folder.glob(".given*")) == []


def test_every_item_is_computed_once(crew: Crew) -> None:
    assert sorted(crew.map("square", None, range(9))) == [(place, place * place) for place in range(9)]
    assert list(in_order(crew.map("square", [5], [3, 2, 1]))) == [14, 9, 6]
    assert list(crew.map("square", None, [])) == []
    assert crew.count >= 1


def test_large_arrays_are_shared_and_small_ones_sent(crew: Crew) -> None:
    for given in (ARRAY, ARRAY[:10]):
        found = [result for _, result in crew.map("total", given, range(4))]
        assert sorted(total for total, _, _ in found) == [float(given.sum()) + item for item in range(4)]
    if all(pid != os.getpid() for _, _, pid in crew_total(crew)):
        assert not any(writeable for _, writeable, _ in crew_total(crew)), "arrays in the shared memory cannot be changed by one of many"


def crew_total(crew: Crew) -> list[tuple[float, bool, int]]:
    return [result for _, result in crew.map("total", ARRAY, range(2))]


def test_an_error_ends_the_map_and_the_next_one_is_whole(crew: Crew) -> None:
    with pytest.raises(BadRunError, match="item 2 is broken"):
        list(crew.map("breaks", 2, range(40)))
    with pytest.raises(ZeroDivisionError):
        list(crew.map("divides", None, [1, 0]))
    with pytest.raises(BadRunError, match="this step cannot begin"):
        list(crew.map("unprepared", None, [1]))
    assert sorted(crew.map("square", None, range(5))) == [(place, place * place) for place in range(5)]


def test_a_map_that_is_left_leaves_nothing_behind(crew: Crew) -> None:
    results = crew.map("square", None, range(30))
    next(results)
    results.close()
    assert sorted(crew.map("square", [1], range(5))) == [(place, place * place + 1) for place in range(5)]


@pytest.mark.parametrize("kind", ["processes", pytest.param("ray", marks=pytest.mark.slow)])
def test_a_worker_that_is_killed_costs_nothing_but_time(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    deaths: list[str] = []
    workers: Workers = Processes(2, deaths.append)
    if kind == "ray":
        request.getfixturevalue("cluster")
        workers = RayCluster(most=2, died=deaths.append)
    with workers.start(load(tmp_path), partial(load, str(tmp_path)), tmp_path) as crew:
        done = dict(crew.map("dies", {"once": (1, 4), "always": ()}, range(6)))
        assert done == {item: item * item for item in range(6)}
        assert len(list(tmp_path.glob("died-*"))) == 2
        said = [
            re.fullmatch(r"a worker died \(process \d+.*: (?:killed|was lost).*\) and others take over its work; (\d) so far", word)
            for word in deaths
        ]
        assert [match and match[1] for match in said] == ["1", "2"]
        others: dict[int, int] = {}
        with pytest.raises(LostWorkError, match=r"dies of 3: .*(killed|lost)") as caught:
            others.update(item for item in crew.map("dies", {"once": (), "always": (3,)}, range(6)))
        assert {**others} == {item: item * item for item in (0, 1, 2, 4, 5)}
        assert list(caught.value.lost) == ["dies of 3"]
        assert dict(crew.map("square", None, [7])) == {0: 49}


def test_what_cannot_be_loaded_is_said(tmp_path: Path) -> None:
    with Processes(2).start(load(tmp_path), fail_to_load, tmp_path) as crew, pytest.raises(SkidpadError, match="nothing to load here"):
        list(crew.map("square", None, [1]))
    with Processes(1).start(load(tmp_path), die_while_loading, tmp_path) as crew, pytest.raises(WorkersError, match="ended with code 3"):
        list(crew.map("square", None, [1]))


def test_a_machine_that_lacks_something_is_named(tmp_path: Path, cluster: None) -> None:
    with (
        RayCluster(most=1).start(load(tmp_path), fail_to_load, tmp_path) as crew,
        pytest.raises(WorkersError, match=f"on {socket.gethostname()}: nothing to load here"),
    ):
        list(crew.map("square", None, [1]))


def test_a_machine_with_other_files_is_refused(tmp_path: Path, cluster: None) -> None:
    other = partial(load, str(tmp_path), {"toy": "2"})
    with (
        RayCluster(most=1).start(load(tmp_path), other, tmp_path) as crew,
        pytest.raises(WorkersError, match=r"the toy on .* is not the one here"),
    ):
        list(crew.map("square", None, [1]))


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_no_cluster_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    start = RayCluster(address).start(load(tmp_path), fail_to_load, tmp_path)
    with pytest.raises(WorkersError, match=r"no Ray cluster answers at .*127\.0\.0\.1:1; start one"), start:
        pass


@pytest.mark.parametrize(("failures", "calls"), [(2, 3), (3, 3)])
def test_a_head_that_fails_to_serve_its_client_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int, calls: int
) -> None:
    called: list[str] = []

    def connect(address: str, **options: object) -> None:
        called.append(address)
        if len(called) <= failures:
            raise ConnectionAbortedError("Starting Ray client server failed")
        raise KeyboardInterrupt  # we are in, and this is all that we wanted to know

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", connect)
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"ray://127.0.0.1:{head.getsockname()[1]}"
        sentence = r"no Ray cluster can be used at .*server failed; start one .*token.*or use --workers N"
        start = RayCluster(address).start(load(tmp_path), fail_to_load, tmp_path)
        with pytest.raises(WorkersError, match=sentence) if failures >= calls else pytest.raises(KeyboardInterrupt), start:
            pass
    assert called == [address] * calls


def test_a_cluster_without_a_gpu_is_refused_at_once_where_one_is_needed(tmp_path: Path, cluster: None) -> None:
    start = RayCluster(gpu=True).start(load(tmp_path), fail_to_load, tmp_path)
    with pytest.raises(WorkersError, match=r"the local Ray cluster has no GPU; add a machine that has one, or use --workers N"), start:
        pass


class Heard:
    def __init__(self) -> None:
        self.words: list[tuple[int, float, str]] = []

    def __call__(self, place: int, share: float, note: str) -> None:
        self.words.append((place, share, note))


def test_progress_is_heard_from_everyone(tmp_path: Path) -> None:
    for workers in (Here(1), Here(2), Processes(2)):
        heard = Heard()
        with workers.start(load(tmp_path), partial(load, str(tmp_path)), tmp_path) as crew:
            list(crew.map("square", None, [4, 5], heard))
        assert sorted(heard.words) == [(0, 0.5, "half of 4"), (1, 0.5, "half of 5")]


def test_a_drive_that_comes_back_was_never_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("skidpad.runs.workers.here.time.sleep", waits.append)

    def read() -> str:
        if len(waits) < 3:
            raise LostDriveError("gone")
        return "frames"

    assert patiently(read) == "frames"
    assert waits == sorted(waits)

    def never() -> str:
        raise LostDriveError("gone for good")

    with pytest.raises(LostDriveError, match="gone for good"):
        patiently(never)
    assert 5.0 < sum(waits) < 20.0, "some seconds, no longer"


@pytest.mark.parametrize(
    ("text", "workers"),
    [
        ("", None),
        ("1", Here(1)),
        ("4", Processes(4)),
        ("ray", RayCluster()),
        ("ray:auto", RayCluster("auto")),
        ("ray:10.0.0.1:6379", RayCluster("10.0.0.1:6379")),
        ("ray://head:10001", RayCluster("ray://head:10001")),
    ],
)
def test_workers_are_chosen_by_what_a_user_writes(text: str, workers: Workers | None) -> None:
    assert workers_of(text) == workers


def test_a_gpu_is_asked_for_where_networks_run_on_one() -> None:
    assert workers_of("ray", "cuda") == RayCluster(gpu=True)


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "rays", "dask://x", "ray//x:1"])
def test_what_are_no_workers_is_refused(text: str) -> None:
    with pytest.raises(SkidpadError, match="workers are a number of at least 1, or ray, ray:auto, ray:HOST:PORT or ray://HOST:PORT; got"):
        workers_of(text)


def test_there_are_never_more_processes_than_items(tmp_path: Path) -> None:
    with Processes(1000).start(load(tmp_path), partial(load, str(tmp_path)), tmp_path) as crew:
        assert dict(crew.map("square", None, [3, 4])) == {0: 9, 1: 16}
        assert len(crew._workers) <= 2


def test_a_thousand_small_items_need_no_thousand_processes(tmp_path: Path) -> None:
    toy: Toy = load(tmp_path)
    with Processes(2).start(toy, partial(load, str(tmp_path)), tmp_path) as crew:
        pids = {pid for _, (_, _, pid) in crew.map("total", np.zeros(1), range(1000))}
    assert 1 <= len(pids) <= 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
