"""The phases of a duel campaign, and the work of their shards: a shard is one training, or all tests of one policy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skidpad.core.errors import BadRunError
from skidpad.core.progress import Progress
from skidpad.core.seeding import child_seed
from skidpad.highway.layout import Side
from skidpad.highway.rewards import REWARDS, driving_reward
from skidpad.highway.training import Selection, TrainingSettings
from skidpad.kinds.duels.drivers import IDM, RANDOM, SEARCH, SLOW, Drivers, learned, packed_training, trained_name
from skidpad.kinds.duels.names import (
    EGO,
    EVERY_EGO,
    OTHER_REWARDS,
    OTHER_SEEDS,
    OWN,
    TRAIN_EGO,
    Phase,
    front_name,
    read_counts,
    repair_family,
    repair_phase,
)
from skidpad.kinds.duels.records import SCHEMA, Bout, BoutCounts, build_records
from skidpad.kinds.duels.rounds import TRAINING_WEIGHT, Rounds
from skidpad.kinds.duels.settings import GIVEN, DuelSettings
from skidpad.runs.folder import Run
from skidpad.runs.records import ShardResult

if TYPE_CHECKING:
    from skidpad.highway.training import Training
    from skidpad.kinds.duels.arena import Arena
    from skidpad.kinds.duels.drivers import Kept


@dataclass(frozen=True)
class DuelWork:
    """Everything that the shards of one run are computed from."""

    settings: DuelSettings
    arena: Arena
    drivers: Drivers
    kept: Kept

    @property
    def run(self) -> Run:
        """The run; only available where its folder is."""
        if not isinstance(self.kept, Run):
            raise BadRunError("a worker has no folder of the run")
        return self.kept

    def phases(self) -> tuple[Phase, ...]:
        """Returns the steps in their order; each builds on all before it."""
        s = self.settings
        egos = 1 if s.ego else s.egos
        learning, tests = TRAINING_WEIGHT * s.train_episodes, s.test_runs * s.test_episodes
        phases = [] if s.ego else [Phase(TRAIN_EGO, s.egos, learning, self._train_ego)]
        if s.is_tested or egos > 1:
            phases.append(self.tests(EGO, egos, tests, self._ego_bouts))
        for group in s.groups:
            if group != GIVEN:
                phases.append(Phase(f"train-{group}", s.adversaries, learning, partial(self._train_front, group)))
            if s.is_tested or (group in s.repaired and s.members(group) > 1):
                phases.append(self.tests(group, s.members(group), tests, partial(self._group_bouts, group)))
        if s.is_tested:
            phases.append(self.tests(RANDOM, max(s.adversaries, 1), tests, self._random_bouts))
            if egos > 1:
                phases.append(self.tests("every-ego", egos, s.test_episodes, self._every_ego_bouts))
            if self.is_searched:
                phases.append(self.tests(SEARCH, 1, s.search_episodes, self._search_bouts))
            if s.cross_episodes:
                phases.append(self.tests(SLOW, 1, 3 * s.cross_episodes, self._slow_bouts))
        for group in s.repaired:
            for weight in range(len(s.w_col)):
                name = repair_phase(group, weight)
                phases.append(Phase(name, s.repairs, learning, partial(self._repair, group, weight)))
                if s.is_tested:
                    phases.append(self.tests(name, s.repairs, tests + 4 * s.cross_episodes, partial(self._repair_bouts, group, weight)))
        return (*phases, *Rounds(self).phases()) if s.rounds else tuple(phases)

    @property
    def is_searched(self) -> bool:
        """Whether the search opponent takes part."""
        return self.arena.is_judged and self.settings.search_episodes > 0

    @property
    def is_ego_known(self) -> bool:
        """Whether the run has come so far that its best ego is known."""
        done = self.kept.completed
        tested = self.settings.egos == 1 or len(done(f"test-{EGO}")) == self.settings.egos
        return bool(self.settings.ego) or (len(done(TRAIN_EGO)) == self.settings.egos and tested)

    def is_front_known(self, group: str) -> bool:
        """Tells whether the run has come so far that the best adversary of a group is known."""
        members, done = self.settings.members(group), self.kept.completed
        is_there = group == GIVEN or len(done(f"train-{group}")) == members
        return is_there and (members == 1 or len(done(f"test-{group}")) == members)

    def best_ego(self) -> str:
        """Returns the ego with the lowest failure rate against IDM, the first of equals; choosing by speed would choose by risk."""
        if self.settings.ego:
            return GIVEN
        if self.settings.egos == 1:
            return trained_name(TRAIN_EGO, 0)
        return trained_name(TRAIN_EGO, _least(self._by_training(EGO), sign=1.0))

    def best_front(self, group: str) -> int:
        """Returns the adversary of a group that makes the ego fail most often, the first of equals."""
        if self.settings.members(group) == 1:
            return 0
        return _least(self._by_training(group), sign=-1.0)

    def _by_training(self, column: str) -> dict[int, list[BoutCounts]]:
        found: dict[int, list[BoutCounts]] = {}
        for counts in read_counts(self.kept, f"test-{column}"):
            found.setdefault(counts.bout.training, []).append(counts)
        return found

    def training_settings(self, selection: Selection = Selection.VALIDATION) -> TrainingSettings:
        """Returns how egos and adversaries are trained."""
        s = self.settings
        return TrainingSettings(
            episodes=s.train_episodes,
            selection=selection,
            validate_every=min(50, s.train_episodes),
            validation_episodes=s.validation_episodes,
        )

    def _train_ego(self, index: int, progress: Progress) -> ShardResult:
        settings = self.training_settings(Selection(self.settings.ego_selection))
        training = self.arena.train_ego(settings, self.seed(TRAIN_EGO, index), progress)
        return _kept(TRAIN_EGO, index, training)

    def _train_front(self, group: str, index: int, progress: Progress) -> ShardResult:
        ego, reward = self.drivers.ego(self.best_ego()), REWARDS.get(group)()
        phase = f"train-{group}"
        training = self.arena.train_front(ego, reward, self.training_settings(), self.seed(phase, index), progress)
        return _kept(phase, index, training)

    def _repair(self, group: str, weight: int, index: int, progress: Progress) -> ShardResult:
        ego = learned(self.drivers.ego(self.best_ego()), self.best_ego())
        front = learned(self.drivers.front(front_name(group, self.best_front(group))), group)
        phase = repair_phase(group, weight)
        # the same seed for every weight, so that a sweep compares weights and not luck
        seed = self.seed(repair_phase(group, 0), index)
        reward = driving_reward(self.settings.w_col[weight])
        return _kept(phase, index, self.arena.retrain_ego(ego, front, reward, self.training_settings(), seed, progress))

    def tests(self, name: str, shards: int, weight: int, bouts: Callable[[int], list[Bout]]) -> Phase:
        """Returns the phase whose shards drive bouts."""
        return Phase(f"test-{name}", shards, weight, partial(self._test, f"test-{name}", bouts))

    def _test(self, phase: str, bouts: Callable[[int], list[Bout]], index: int, progress: Progress) -> ShardResult:
        tables, counted, done = [SCHEMA.empty_table()], [], 0
        chosen = bouts(index)
        total = sum(bout.episodes for bout in chosen)
        for bout in chosen:
            ego, front = self.drivers.tested_ego(bout.ego), self.drivers.front(bout.front)
            episodes = self.arena.drive(ego, front, bout.episodes, bout.seed, bout.first)
            counted.append(BoutCounts.of(bout, episodes))
            kept = episodes.take(np.arange(min(self.settings.keep_episodes, len(episodes))))
            hashes = self.drivers.hash(bout.ego, Side.EGO), self.drivers.hash(bout.front, Side.FRONT)
            tables.append(build_records(bout, kept, *hashes))
            done += bout.episodes
            progress(done, total, f"{bout.ego} against {bout.front}")
        return ShardResult(phase, index, pa.concat_tables(tables).combine_chunks(), {f"{index:06d}": _pack(counted)})

    def _ego_bouts(self, index: int) -> list[Bout]:
        return self._runs(EGO, IDM, GIVEN if self.settings.ego else trained_name(TRAIN_EGO, index), IDM, index)

    def _group_bouts(self, group: str, index: int) -> list[Bout]:
        return self._runs(EGO, group, self.best_ego(), front_name(group, index), index)

    def _random_bouts(self, index: int) -> list[Bout]:
        return self._runs(EGO, RANDOM, self.best_ego(), RANDOM, index)

    def _every_ego_bouts(self, index: int) -> list[Bout]:
        return [self._bout(EVERY_EGO, RANDOM, trained_name(TRAIN_EGO, index), RANDOM, index, self.settings.test_episodes)]

    def _search_bouts(self, index: int) -> list[Bout]:
        return [self._bout(EGO, SEARCH, self.best_ego(), SEARCH, index, self.settings.search_episodes)]

    def _slow_bouts(self, index: int) -> list[Bout]:
        s = self.settings
        columns = [(IDM, [IDM]), (RANDOM, [RANDOM])]
        columns += [(group, [front_name(group, member) for member in range(s.members(group))]) for group in s.groups]
        return self.crossing(SLOW, SLOW, columns, index)

    def _repair_bouts(self, group: str, weight: int, index: int) -> list[Bout]:
        s = self.settings
        family, ego = repair_family(s, group, weight), trained_name(repair_phase(group, weight), index)
        best = self.best_front(group)
        columns = [
            (IDM, [IDM]),
            (RANDOM, [RANDOM]),
            (OTHER_SEEDS, [front_name(group, member) for member in range(s.members(group)) if member != best]),
            (OTHER_REWARDS, [front_name(other, member) for other in s.groups if other != group for member in range(s.members(other))]),
        ]
        return self._runs(family, OWN, ego, front_name(group, best), index) + self.crossing(family, ego, columns, index)

    def crossing(self, family: str, ego: str, columns: Iterable[tuple[str, list[str]]], index: int, tests: int = 1) -> list[Bout]:
        """Returns one ego against the members of each column, and against the search."""
        bouts = self.shared(family, ego, columns, index, tests)
        if self.is_searched:
            bouts.append(self._bout(family, SEARCH, ego, SEARCH, index, self.settings.search_episodes))
        return bouts

    def shared(
        self, family: str, ego: str, columns: Iterable[tuple[str, list[str]]], index: int, tests: int, episodes: int | None = None
    ) -> list[Bout]:
        """Returns one ego against the members of each column, which share the episodes of each of the column's tests."""
        total = self.settings.cross_episodes if episodes is None else episodes
        bouts = []
        for column, fronts in columns:
            share = total // len(fronts) if fronts else 0
            bouts += [
                self._bout(family, column, ego, front, index, share, test, first=place * share)
                for test in range(tests)
                for place, front in enumerate(fronts)
                if share
            ]
        return bouts

    def _runs(self, family: str, column: str, ego: str, front: str, index: int) -> list[Bout]:
        s = self.settings
        return [self._bout(family, column, ego, front, index, s.test_episodes, test) for test in range(s.test_runs)]

    def _bout(self, family: str, column: str, ego: str, front: str, index: int, episodes: int, test: int = 0, *, first: int = 0) -> Bout:
        # the same starts in every column, so that columns differ by who drives and not by luck
        return Bout(family, column, ego, front, index, test, episodes, self.seed("test", index, test), first)

    def seed(self, *names: str | int) -> int:
        """Returns a seed of the campaign's own by name."""
        return child_seed(self.settings.seed, *names)


def _pack(counted: list[BoutCounts]) -> bytes:
    return json.dumps([_plain(asdict(counts)) for counts in counted], sort_keys=True).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return None if isinstance(value, float) and isnan(value) else value


def _kept(phase: str, index: int, training: Training) -> ShardResult:
    return ShardResult(phase, index, SCHEMA.empty_table(), packed_training(trained_name(phase, index), training))


def _least(found: dict[int, list[BoutCounts]], sign: float) -> int:
    """Returns the training with the least sign x failure rate, the first of equals; one with an unmeasured test comes last."""
    rates = {index: sign * sum(counts.failure_rate for counts in tests) / len(tests) for index, tests in found.items()}
    return min(rates, key=lambda index: (isnan(rates[index]), rates[index], index))
