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
from skidpad.highway.dqn import DqnSettings
from skidpad.highway.layout import Side
from skidpad.highway.opponents import Idm, RandomActions
from skidpad.highway.rewards import REWARDS, careful_reward, driving_reward
from skidpad.highway.training import Match, Selection, TrainingSettings, repair_ego
from skidpad.kinds.duels.drivers import AGGRESSIVE, IDM, RANDOM, SEARCH, SLOW, Drivers, learned, packed_training, trained_name
from skidpad.kinds.duels.records import SCHEMA, Bout, BoutCounts, build_records
from skidpad.kinds.duels.settings import GIVEN, RISK_AVERSION, DuelSettings
from skidpad.runs.folder import Run
from skidpad.runs.segments import ShardResult

if TYPE_CHECKING:
    from skidpad.highway.opponents import Opponent
    from skidpad.highway.training import Training
    from skidpad.kinds.duels.arena import Arena
    from skidpad.kinds.duels.drivers import Kept


EGO = "ego"
"""The family of the ego as it was trained or given; the others are `slow` and the repaired ones."""
EVERY_EGO = "every ego"
"""The family of all trained egos, including the chosen one: how often a random front vehicle makes one crash depends on the ego."""
TRAIN_EGO = "train-ego"
OWN, OTHER_SEEDS, OTHER_REWARDS = "own adversary", "other seeds", "other rewards"
"""Columns of a repaired ego: whom it was retrained against, and adversaries of other trainings that it has never met."""

POPULATION = "repaired-population"
"""The family of the egos that were repaired in rounds."""
POOL, AFTERWARDS = "pool", "trained afterwards"
"""Columns: adversaries of the rounds, which the ego was repaired against; and adversaries trained against the repaired ego itself."""

_LITTLE = 0.02
"""A round is skipped where every new adversary makes the ego crash in at most this share of the episodes."""
_GAIN_EPISODES = 500

_TRAINING_WEIGHT = 8
"""How many tested episodes take as long as one that is learned from, roughly; for the progress bar only."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One step: how many shards, what each weighs in the progress, and the work of one."""

    name: str
    shards: int
    weight: int
    work: Callable[[int, Progress], ShardResult]


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
        learning, tests = _TRAINING_WEIGHT * s.train_episodes, s.test_runs * s.test_episodes
        phases = [] if s.ego else [Phase(TRAIN_EGO, s.egos, learning, self._train_ego)]
        if s.is_tested or egos > 1:
            phases.append(self._tests(EGO, egos, tests, self._ego_bouts))
        for group in s.groups:
            if group != GIVEN:
                phases.append(Phase(f"train-{group}", s.adversaries, learning, partial(self._train_front, group)))
            if s.is_tested or (group in s.repaired and s.members(group) > 1):
                phases.append(self._tests(group, s.members(group), tests, partial(self._group_bouts, group)))
        if s.is_tested:
            phases.append(self._tests(RANDOM, max(s.adversaries, 1), tests, self._random_bouts))
            if egos > 1:
                phases.append(self._tests("every-ego", egos, s.test_episodes, self._every_ego_bouts))
            if self.is_searched:
                phases.append(self._tests(SEARCH, 1, s.search_episodes, self._search_bouts))
            if s.cross_episodes:
                phases.append(self._tests(SLOW, 1, 3 * s.cross_episodes, self._slow_bouts))
        for group in s.repaired:
            for weight in range(len(s.w_col)):
                name = repair_phase(group, weight)
                phases.append(Phase(name, s.repairs, learning, partial(self._repair, group, weight)))
                if s.is_tested:
                    phases.append(self._tests(name, s.repairs, tests + 4 * s.cross_episodes, partial(self._repair_bouts, group, weight)))
        return (*phases, *self._rounds(learning)) if s.rounds else tuple(phases)

    def _rounds(self, learning: int) -> Iterable[Phase]:
        """Returns the repair against a population, and adversaries trained afterwards against it and against the paper's repair."""
        s = self.settings
        for number in range(1, s.rounds + 1):
            for reward in s.pool_rewards:
                yield Phase(round_front(reward, number), s.repairs, learning, partial(self._train_round, reward, number))
            weight = _TRAINING_WEIGHT * s.round_episodes
            yield Phase(round_phase(number), s.repairs, weight, partial(self._repair_round, number))
        if not s.is_tested:
            return
        egos = {POPULATION: round_phase(s.rounds)} | {repair_family(s, group, 0): repair_phase(group, 0) for group in s.repaired[:1]}
        for family, phase in egos.items():
            for reward in s.pool_rewards:
                work = partial(self._train_after, family, phase, reward)
                yield Phase(after_front(reward, family), s.repairs, learning, work)
            weight = 6 * s.test_runs * s.cross_episodes
            yield self._tests(f"all-{family}", s.repairs, weight, partial(self._all_bouts, family, phase))
        yield self._tests("all-ego", 1, 2 * s.test_runs * s.cross_episodes, self._all_ego_bouts)

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

    def _training_settings(self, selection: Selection = Selection.VALIDATION) -> TrainingSettings:
        s = self.settings
        return TrainingSettings(
            episodes=s.train_episodes,
            selection=selection,
            validate_every=min(50, s.train_episodes),
            validation_episodes=s.validation_episodes,
        )

    def _train_ego(self, index: int, progress: Progress) -> ShardResult:
        settings = self._training_settings(Selection(self.settings.ego_selection))
        training = self.arena.train_ego(settings, self._seed(TRAIN_EGO, index), progress)
        return _kept(TRAIN_EGO, index, training)

    def _train_front(self, group: str, index: int, progress: Progress) -> ShardResult:
        ego, reward = self.drivers.ego(self.best_ego()), REWARDS.get(group)()
        phase = f"train-{group}"
        training = self.arena.train_front(ego, reward, self._training_settings(), self._seed(phase, index), progress)
        return _kept(phase, index, training)

    def _repair(self, group: str, weight: int, index: int, progress: Progress) -> ShardResult:
        ego = learned(self.drivers.ego(self.best_ego()), self.best_ego())
        front = learned(self.drivers.front(front_name(group, self.best_front(group))), group)
        phase = repair_phase(group, weight)
        # the same seed for every weight, so that a sweep compares weights and not luck
        seed = self._seed(repair_phase(group, 0), index)
        reward = driving_reward(self.settings.w_col[weight])
        return _kept(phase, index, self.arena.retrain_ego(ego, front, reward, self._training_settings(), seed, progress))

    def _train_round(self, reward: str, number: int, index: int, progress: Progress) -> ShardResult:
        ego = self.best_ego() if number == 1 else trained_name(round_phase(number - 1), index)
        return self._train_against(round_front(reward, number), ego, reward, index, progress)

    def _train_after(self, family: str, phase: str, reward: str, index: int, progress: Progress) -> ShardResult:
        return self._train_against(after_front(reward, family), trained_name(phase, index), reward, index, progress)

    def _train_against(self, phase: str, ego: str, reward: str, index: int, progress: Progress) -> ShardResult:
        seed, settings = self._seed(phase, index), self._training_settings()
        return _kept(phase, index, self.arena.train_front(self.drivers.ego(ego), REWARDS.get(reward)(), settings, seed, progress))

    def _repair_round(self, number: int, index: int, progress: Progress) -> ShardResult:
        """Retrains the ego against everyone so far; where the newest adversaries gain little, it stays as it is."""
        s, phase = self.settings, round_phase(number)
        before = self.best_ego() if number == 1 else trained_name(round_phase(number - 1), index)
        ego = learned(self.drivers.ego(before), before)
        if number > 1 and self._gain(before, number, index) <= _LITTLE:
            return ShardResult(phase, index, SCHEMA.empty_table(), self.drivers.renamed(before, trained_name(phase, index)))
        names = [IDM, RANDOM, SLOW, AGGRESSIVE, *((SEARCH,) if self.is_searched else ())]
        names += [front_name(group, member) for group in s.groups for member in range(s.members(group))]
        names += [trained_name(round_front(reward, past), index) for past in range(1, number + 1) for reward in s.pool_rewards]
        matches, reward = [self._match(self.drivers.front(name), len(names)) for name in names], careful_reward(s.crash_cost)
        settings = population_settings(s.round_episodes, s.validation_episodes * len(names))
        training = repair_ego(ego, matches, settings, self._seed(phase, index), reward=reward, progress=progress)
        return _kept(phase, index, training)

    def _match(self, front: Opponent, pool: int) -> Match:
        """Returns where and how often the ego meets one of the pool; ordinary traffic is what it mostly meets, and forgets first."""
        if isinstance(front, Idm):
            return Match(self.arena.pretraining, front, pool / 3.0)
        return Match(self.arena.scenario, front, pool / 6.0 if isinstance(front, RandomActions) else 1.0)

    def _gain(self, ego: str, number: int, index: int) -> float:
        """Returns the greatest failure rate that an adversary of a round reaches with the ego it was trained against."""
        fronts = [self.drivers.front(trained_name(round_front(reward, number), index)) for reward in self.settings.pool_rewards]
        seed = self._seed("gain", number, index)
        return max(self.arena.drive(self.drivers.ego(ego), front, _GAIN_EPISODES, seed).failure_rate for front in fronts)

    def _tests(self, name: str, shards: int, weight: int, bouts: Callable[[int], list[Bout]]) -> Phase:
        return Phase(f"test-{name}", shards, weight, partial(self._test, f"test-{name}", bouts))

    def _test(self, phase: str, bouts: Callable[[int], list[Bout]], index: int, progress: Progress) -> ShardResult:
        tables, counted, done = [SCHEMA.empty_table()], [], 0
        chosen = bouts(index)
        total = sum(bout.episodes for bout in chosen)
        for bout in chosen:
            ego, front = self.drivers.ego(bout.ego), self.drivers.front(bout.front)
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
        return self._crossing(SLOW, SLOW, columns, index)

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
        return self._runs(family, OWN, ego, front_name(group, best), index) + self._crossing(family, ego, columns, index)

    def _all_bouts(self, family: str, phase: str, index: int) -> list[Bout]:
        """Returns a repaired ego against every kind of front vehicle, and against adversaries trained afterwards."""
        s, ego = self.settings, trained_name(phase, index)
        after = [trained_name(after_front(reward, family), index) for reward in s.pool_rewards]
        columns = [(AFTERWARDS, after), (SLOW, [SLOW]), (AGGRESSIVE, [AGGRESSIVE])]
        if family != POPULATION:  # its other columns are those of its own phase
            return self._shared(family, ego, columns, index, s.test_runs)
        columns += [(IDM, [IDM]), (RANDOM, [RANDOM])]
        columns += [(group, [front_name(group, member) for member in range(s.members(group))]) for group in s.groups]
        rounds = range(1, s.rounds + 1)
        columns += [(POOL, [trained_name(round_front(reward, number), index) for number in rounds for reward in s.pool_rewards])]
        return self._crossing(family, ego, columns, index, s.test_runs)

    def _all_ego_bouts(self, index: int) -> list[Bout]:
        """Returns the ego before any repair against the front vehicles that the paper does not have."""
        return self._shared(EGO, self.best_ego(), [(SLOW, [SLOW]), (AGGRESSIVE, [AGGRESSIVE])], index, self.settings.test_runs)

    def _crossing(self, family: str, ego: str, columns: Iterable[tuple[str, list[str]]], index: int, tests: int = 1) -> list[Bout]:
        """Returns one ego against the members of each column, and against the search."""
        bouts = self._shared(family, ego, columns, index, tests)
        if self.is_searched:
            bouts.append(self._bout(family, SEARCH, ego, SEARCH, index, self.settings.search_episodes))
        return bouts

    def _shared(self, family: str, ego: str, columns: Iterable[tuple[str, list[str]]], index: int, tests: int) -> list[Bout]:
        """Returns one ego against the members of each column, which share the episodes of each of the column's tests."""
        s = self.settings
        bouts = []
        for column, fronts in columns:
            share = s.cross_episodes // len(fronts) if fronts else 0
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
        return Bout(family, column, ego, front, index, test, episodes, self._seed("test", index, test), first)

    def _seed(self, *names: str | int) -> int:
        return child_seed(self.settings.seed, *names)


def front_name(group: str, index: int) -> str:
    """Names an adversary of a group."""
    return trained_name(GIVEN if group == GIVEN else f"train-{group}", index)


def round_phase(number: int) -> str:
    """Names the phase that retrains egos in a round."""
    return f"repair-population-round{number}"


def round_front(reward: str, number: int) -> str:
    """Names the phase that trains the adversaries of a round, against the egos of the round before."""
    return f"train-{reward}-round{number}"


def after_front(reward: str, family: str) -> str:
    """Names the phase that trains adversaries against the repaired egos of a family."""
    return f"train-{reward}-after-{family}"


def population_settings(episodes: int, validation_episodes: int) -> TrainingSettings:
    """Returns how a round is trained: a long memory for many opponents, a longer view, and weights that settle down."""
    dqn = DqnSettings(
        discount=0.9,
        memory=60_000,
        target_every=200,
        exploration_start=0.5,
        exploration_end=0.03,
        exploration_steps=4.0 * episodes,
        cooling=0.95,
        is_overtaking_an_end=False,
        is_conditioned=True,
    )
    every = max(episodes // 20, 1)
    return TrainingSettings(
        episodes=episodes, dqn=dqn, validate_every=every, validation_episodes=validation_episodes, accepted_rate=_LITTLE
    )


def repair_phase(group: str, weight: int) -> str:
    """Names the phase that retrains egos against a group's best adversary with one of the weights."""
    return f"repair-{group}-w{weight}"


def repair_family(settings: DuelSettings, group: str, weight: int) -> str:
    """Names the egos of such a phase; the weight is said where it is not the paper's."""
    value = settings.w_col[weight]
    return f"repaired-{group}" if value == RISK_AVERSION else f"repaired-{group} w_col {value:g}"


def read_counts(run: Kept, phase: str) -> list[BoutCounts]:
    """Reads the counts of all tests of a phase, in the order of shards."""
    packed = run.coverage(phase, bytes, lambda kept, _: kept)
    return [BoutCounts.from_table(table) for _, data in sorted(packed.items()) for table in json.loads(data)]


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
