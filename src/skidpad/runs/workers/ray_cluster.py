"""A Ray cluster: one actor a core or GPU, each with the campaign loaded once; what a step is given lies in Ray's object store.

Retries are those of every pool (see `dispatching`), so that a shard that kills its workers is found out here as on one machine. Ray
itself restarts nothing.
"""

from __future__ import annotations

import logging
import os
import pickle
import re
import socket
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skidpad import __version__
from skidpad.core.errors import SkidpadError, WorkersError, optional
from skidpad.core.progress import silent
from skidpad.core.trust import granted, hand_over
from skidpad.runs.workers.dispatching import Died, Done, Event, Failed, PoolCrew, Ready, told, unheard
from skidpad.runs.workers.here import VARIABLES, Bench, pin_process, pinned

if TYPE_CHECKING:
    from skidpad.runs.workers.protocol import Crew, Performer, Reload


_LOOK_EVERY_S = 1.0
_WAIT_S = 0.1
"""Ray's waiting cannot be interrupted, and Ctrl-C should be heard."""
_REACH_S = 2.0
_REACH_TIMES = 3
_GRACE_S = "10"
"""How long Ray's client tries to reach a head again that it has lost; by itself it would for 30 s, and Ctrl-C unheard."""
_CONNECT_TIMES = 3
_PLACED = -1
_PLACED_WITHIN_S = 60.0
"""How long nobody may find a core before we say that the cluster is full."""


@dataclass(frozen=True, slots=True)
class RayCluster:
    """A cluster at an address, or one that is begun on this machine and ended with the run.

    address: `host:port` of a head that this machine is part of, `auto`, or `ray://host:port` from outside; empty for one of our own.
    gpu: whether each worker needs a GPU. most: at most so many workers (0: as many as there are cores, or GPUs).
    died: is told in a sentence of each that dies.
    """

    address: str = ""
    gpu: bool = False
    most: int = 0
    died: Callable[[str], None] = unheard

    @contextmanager
    def start(self, performer: Performer, reload: Reload, scratch: Path) -> Iterator[Crew]:  # noqa: ARG002  the object store shares
        """Connects, and starts actors as there is work for them."""
        ray = _ray()
        ours = not ray.is_initialized()
        if ours:
            self._connect(ray)
        try:
            pool = _ActorPool(ray, self, reload, performer.hashes)
            try:
                with pinned():
                    yield PoolCrew(pool, performer, self.died)
            finally:
                pool.close()
        finally:
            if ours:
                # Of a head that is gone nothing can be taken leave of.
                with suppress(Exception):
                    ray.shutdown()

    def _connect(self, ray: Any) -> None:
        where = f"at {self.address}" if self.address else "on this machine"
        head = place_of(self.address)
        if head is not None and not _answers(head):
            # Ray itself would ask for minutes.
            raise WorkersError(f"no Ray cluster answers {where}; start one with `ray start --head`, or use --workers N")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to anybody
        os.environ.setdefault("RAY_CLIENT_RECONNECT_GRACE_PERIOD", _GRACE_S)
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
        if not self.address:
            options |= {"include_dashboard": False, "num_gpus": None if self.gpu else 0}
        try:
            with warnings.catch_warnings(action="ignore"):  # what it warns of it raises as well
                _begin(ray, self.address or "local", options)
        except Exception as error:
            token = ", bring its token here (~/.ray/auth_token, and RAY_AUTH_MODE=token)" if self.address else ""
            raise WorkersError(
                f"no Ray cluster can be used {where}: {error}; start one with `ray start --head`{token}, or use --workers N"
            ) from error

    def __str__(self) -> str:
        return f"the Ray cluster at {self.address}" if self.address else "the local Ray cluster"


@dataclass(slots=True)
class _Actor:
    handle: Any
    prepared: int = 0
    answers: dict[Any, int | None] = field(default_factory=dict)
    """What is waited for: a task, None for the news that it is ready, _PLACED for that it has found a core."""


class _ActorPool:
    """Starts actors and talks to them."""

    def __init__(self, ray: Any, cluster: RayCluster, reload: Reload, hashes: Mapping[str, str]) -> None:
        self._ray = ray
        self._cluster = cluster
        self._hashes = dict(hashes)
        # What to load is packed by itself: its module may lie where only this path leads.
        self._begin = (tuple(sys.path), str(Path.cwd()), pickle.dumps(reload, protocol=5), granted())
        self._actors: dict[int, _Actor] = {}
        self._hired = 0
        self._step = 0
        self._named: tuple[str, Any] | None = None
        self._given: Any = None
        self._head = _head(ray, cluster)
        self._troubles = (ray.exceptions.RayError, OSError, *_client_troubles(cluster))
        self._misses = 0
        self._look_at = 0.0
        self._full_at = time.monotonic() + _PLACED_WITHIN_S
        unit = "GPU" if cluster.gpu else "CPU"
        there = int(ray.cluster_resources().get(unit, 0))
        if there < 1:
            raise WorkersError(f"{cluster} has no {unit}; add a machine that has one, or use --workers N")
        self._unit = f"{there} {unit}s"
        self.size = min(cluster.most or there, there)
        resources = {"num_cpus": 0 if cluster.gpu else 1, "num_gpus": 1 if cluster.gpu else 0}
        self._class = ray.remote(RayWorker).options(**resources, max_restarts=0, runtime_env={"env_vars": dict(VARIABLES)})

    def hire(self) -> int:
        """Starts one more actor."""
        number = self._hired
        self._hired += 1
        with self._reaching():
            handle = self._class.remote(*self._begin)
            actor = self._actors[number] = _Actor(handle)
            actor.answers[handle.place.remote()] = _PLACED
            actor.answers[handle.begin.remote()] = None
        return number

    def prepare(self, step: str, given: Any) -> None:
        """Puts what the step is given into the object store, once for all maps of the step with the same."""
        if self._named is not None and self._named[0] == step and self._named[1] is given:
            return
        self._step += 1
        self._named = (step, given)
        with self._reaching():
            self._given = self._ray.put(given)

    def give(self, worker: int, task: int, item: Any) -> None:
        """Sends a task, and before the first one of a step the step."""
        actor = self._actors[worker]
        content = pickle.dumps(item, protocol=5)
        with self._reaching():
            if actor.prepared != self._step and self._named is not None:
                actor.handle.prepare.remote(self._step, self._named[0], self._given)
                actor.prepared = self._step
            actor.answers[actor.handle.perform.remote(content)] = task

    def events(self) -> Sequence[Event]:
        """Waits until an actor answers or is gone; now and then looks whether the head is still there."""
        by_answer = {answer: number for number, actor in self._actors.items() for answer in actor.answers}
        with self._reaching():
            done, _ = self._ray.wait(list(by_answer), num_returns=1, timeout=_WAIT_S)
            found = [event for answer in done if (event := self._event(by_answer[answer], answer)) is not None]
        if not done:
            self._look_at_head()
            if time.monotonic() > self._full_at:
                raise WorkersError(f"all {self._unit} of {self._cluster} are taken by others; wait for them, or use --workers N")
        return found

    def close(self) -> None:
        """Ends all actors at once: what they are at is not asked for any more."""
        for actor in self._actors.values():
            # The head may be gone, and the actors with it; whoever asks Ray for anything then is given a new cluster.
            if self._ray.is_initialized():
                with suppress(Exception):
                    self._ray.kill(actor.handle)
        self._actors.clear()

    def _event(self, number: int, answer: Any) -> Event | None:
        task = self._actors[number].answers.pop(answer)
        try:
            kind, content = pickle.loads(self._ray.get(answer))  # noqa: S301  our own actor's words
        except self._ray.exceptions.RayActorError as error:
            self._actors.pop(number)
            return Died(number, _lost_words(str(error)))
        except self._ray.exceptions.RayTaskError as error:
            return Failed(number, task, told(error))
        if kind == "failed":
            return Failed(number, task, content)
        if task == _PLACED:
            self._full_at = inf
            return None
        if task is None:
            self._check(content)
            return Ready(number)
        return Done(number, task, content)

    def _check(self, told: Mapping[str, Any]) -> None:
        """Refuses a machine on which the results would be others."""
        if told["version"] != __version__:
            raise WorkersError(f"{told['host']} has skidpad {told['version']} and this machine {__version__}; install one version on both")
        for what, ours in self._hashes.items():
            if told["hashes"].get(what) != ours:
                raise WorkersError(f"the {what} on {told['host']} is not the one here; copy it there, or share its folder")

    def _look_at_head(self) -> None:
        if self._head is None or time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + _LOOK_EVERY_S
        self._misses = 0 if _answers(self._head) else self._misses + 1
        if self._misses >= _REACH_TIMES:
            raise self._lost()

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except self._troubles as error:
            raise self._lost() from error

    def _lost(self) -> WorkersError:
        return WorkersError(f"{self._cluster} is gone: its head no longer answers")


class RayWorker:
    """The actor: a bench in a process of the cluster."""

    def __init__(self, path: Sequence[str], folder: str, reload: bytes, trusted: frozenset[str]) -> None:
        hand_over(trusted)
        sys.path.extend(part for part in path if part not in sys.path)
        if Path(folder).is_dir():
            os.chdir(folder)
        self._reload = reload
        self._bench: Any = None
        self._trouble = b""

    def place(self) -> bytes:
        """Answers as soon as there is room for the actor."""
        return pickle.dumps(("placed", None), protocol=5)

    def begin(self) -> bytes:
        """Loads the campaign; answers who and what it is."""
        try:
            self._bench = Bench(pickle.loads(self._reload)())  # noqa: S301  the driver's own words
            pin_process()
            content = {"host": socket.gethostname(), "version": __version__, "hashes": dict(self._bench.performer.hashes)}
            return pickle.dumps(("ready", content), protocol=5)
        except SkidpadError as error:
            # What is missing there may well be here: it matters where.
            return pickle.dumps(("failed", WorkersError(f"on {socket.gethostname()}: {error}")), protocol=5)
        except Exception as error:  # noqa: BLE001  whatever it is, the driver says it
            return pickle.dumps(("failed", told(error)), protocol=5)

    def prepare(self, number: int, step: str, given: Any) -> None:
        """Turns to another step; what goes wrong is told with the first item, since nobody waits for this."""
        try:
            self._bench.prepare(number, step, given)
            self._trouble = b""
        except Exception as error:  # noqa: BLE001  see above
            self._trouble = pickle.dumps(("failed", told(error)), protocol=5)

    def perform(self, item: bytes) -> bytes:
        """Computes one item."""
        if self._trouble:
            return self._trouble
        try:
            return pickle.dumps(("done", self._bench.perform(pickle.loads(item), silent)), protocol=5)  # noqa: S301  see above
        except Exception as error:  # noqa: BLE001  see above
            return pickle.dumps(("failed", told(error)), protocol=5)


def _ray() -> Any:
    return optional("ray", "ray", "ray", "a Ray cluster")


def _begin(ray: Any, address: str, options: Mapping[str, Any]) -> None:
    """Connects; again where the head could not start a process for its client, which Ray fails to do now and then."""
    for _ in range(_CONNECT_TIMES - 1):
        with suppress(ConnectionAbortedError):
            ray.init(address, **options)
            return
    ray.init(address, **options)


def _head(ray: Any, cluster: RayCluster) -> tuple[str, int] | None:
    """Returns where the head listens; from outside its port for clients, where no other can be reached."""
    head = place_of(ray.get_runtime_context().gcs_address)
    outside = cluster.address.startswith("ray://")
    return place_of(cluster.address) if outside and (head is None or not _answers(head)) else head


def _lost_words(error: str) -> str:
    """Says who was lost, where Ray knows it, and its first line on why."""
    found = [re.search(rf"^\s*{key}: (\S+)", error, re.MULTILINE) for key in ("pid", "ip")]
    who = " ".join(f"{word} {match[1]}" for word, match in zip(("process", "on"), found, strict=True) if match)
    return f"{who or 'one'}: was lost ({error.strip().splitlines()[0]})"


def _client_troubles(cluster: RayCluster) -> tuple[type[Exception], ...]:
    """Returns what else Ray's client raises of a head that is gone."""
    if not cluster.address.startswith("ray://"):
        return ()
    import grpc  # noqa: PLC0415  comes with Ray's client

    return (grpc.RpcError,)


def place_of(address: str) -> tuple[str, int] | None:
    """Returns host and port of an address; None where it lacks one of them."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    return (host, int(port)) if host and port.isdecimal() else None


def _answers(place: tuple[str, int]) -> bool:
    try:
        with socket.create_connection(place, _REACH_S):
            return True
    except OSError:
        return False
