"""The repair against a population: rounds of new adversaries and a retrained ego, for each cost of a crash, and what is tested then."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from skidpad.core.progress import Progress
from skidpad.highway.dqn import DqnSettings
from skidpad.highway.opponents import Idm, RandomActions
from skidpad.highway.rewards import REWARDS, careful_reward
from skidpad.highway.training import Match, TrainingSettings, repair_ego
from skidpad.kinds.duels.drivers import AGGRESSIVE, IDM, ORACLE, RANDOM, SEARCH, SLOW, learned, packed_training, trained_name
from skidpad.kinds.duels.names import (
    EGO,
    POOL,
    POPULATION,
    Phase,
    after_column,
    after_front,
    front_name,
    population_family,
    repair_family,
    repair_phase,
    round_front,
    round_phase,
)
from skidpad.kinds.duels.records import SCHEMA
from skidpad.runs.records import ShardResult

if TYPE_CHECKING:
    from skidpad.highway.opponents import Opponent
    from skidpad.kinds.duels.phases import DuelWork
    from skidpad.kinds.duels.records import Bout
    from skidpad.kinds.duels.settings import DuelSettings


LITTLE = 0.02
"""A round is skipped where every new adversary makes the ego crash in at most this share of the episodes; an ego that crashes in at most
this share of the validation episodes with each opponent is safe enough."""
_GAIN_EPISODES = 500

TRAINING_WEIGHT = 8
"""How many tested episodes take as long as one that is learned from, roughly; for the progress bar only."""


def population_settings(episodes: int, validation_episodes: int) -> TrainingSettings:
    """Returns how a round is trained: a memory of every step, crashes shown again and again, a longer view, weights that settle down."""
    dqn = DqnSettings(
        discount=0.9,
        memory=200_000,
        target_every=200,
        exploration_start=0.5,
        exploration_end=0.03,
        exploration_steps=4.0 * episodes,
        cooling=0.95,
        crash_share=0.25,
        is_overtaking_an_end=False,
        is_conditioned=True,
    )
    every = max(episodes // 20, 1)
    return TrainingSettings(episodes=episodes, dqn=dqn, validate_every=every, validation_episodes=validation_episodes, accepted_rate=LITTLE)


@dataclass(frozen=True)
class Rounds:
    """The part of a campaign's work that repairs in rounds. A chain is one repair with one cost of a crash, and one shard of a phase."""

    work: DuelWork

    @property
    def settings(self) -> DuelSettings:
        """The campaign's."""
        return self.work.settings

    @property
    def chains(self) -> int:
        """How many repairs there are: those of the first cost, then those of the next."""
        return len(self.settings.crash_cost) * self.settings.repairs

    def phases(self) -> Iterable[Phase]:
        """Returns the rounds, adversaries trained afterwards against their egos and against the paper's repair, and the tests."""
        s = self.settings
        learning, tests = TRAINING_WEIGHT * s.train_episodes, s.test_runs * s.cross_episodes
        for number in range(1, s.rounds + 1):
            fronts = s.repairs if number == 1 else self.chains  # in the first round all chains still have the same ego
            for reward in s.pool_rewards:
                yield Phase(round_front(reward, number), fronts, learning, partial(self._train_round, reward, number))
            yield Phase(round_phase(number), self.chains, TRAINING_WEIGHT * s.round_episodes, partial(self.repair, number))
        if not s.is_tested:
            return
        last = round_phase(s.rounds)
        yield from (self._train_after(reward, POPULATION, last, self.chains, learning) for reward in s.after_rewards)
        yield self.work.tests(f"all-{POPULATION}", self.chains, 6 * tests, self._population_bouts)
        for group in s.repaired[:1]:
            family, phase = repair_family(s, group, 0), repair_phase(group, 0)
            yield from (self._train_after(reward, family, phase, s.repairs, learning) for reward in s.after_rewards)
            yield self.work.tests(f"all-{family}", s.repairs, 3 * tests, partial(self._paper_bouts, family, phase))
        yield self.work.tests("all-ego", 1, 2 * tests, self._ego_bouts)
        if self.work.is_searched:
            yield self.work.tests(ORACLE, 1, 50 * s.search_episodes, self._oracle_bouts)

    def _train_round(self, reward: str, number: int, index: int, progress: Progress) -> ShardResult:
        return self._train_against(round_front(reward, number), self._before(number, index), reward, index, progress)

    def _train_after(self, reward: str, family: str, phase: str, shards: int, weight: int) -> Phase:
        name = after_front(reward, family)

        def work(index: int, progress: Progress) -> ShardResult:
            return self._train_against(name, trained_name(phase, index), reward, index, progress)

        return Phase(name, shards, weight, work)

    def _train_against(self, phase: str, ego: str, reward: str, index: int, progress: Progress) -> ShardResult:
        work, settings = self.work, self.work.training_settings()
        driver, paid = work.drivers.ego(ego), REWARDS.get(reward)()
        training = work.arena.train_front(driver, paid, settings, work.seed(phase, index), progress)
        return ShardResult(phase, index, SCHEMA.empty_table(), packed_training(trained_name(phase, index), training))

    def _before(self, number: int, index: int) -> str:
        """Names the ego that a round starts with."""
        return self.work.best_ego() if number == 1 else trained_name(round_phase(number - 1), index)

    def _fronts(self, number: int, index: int) -> list[str]:
        """Names the adversaries that a round trained for a chain."""
        place = index % self.settings.repairs if number == 1 else index
        return [trained_name(round_front(reward, number), place) for reward in self.settings.pool_rewards]

    def repair(self, number: int, index: int, progress: Progress) -> ShardResult:
        """Retrains the ego against everyone so far; where the newest adversaries gain little, it stays as it is."""
        s, work, phase = self.settings, self.work, round_phase(number)
        before, name = self._before(number, index), trained_name(phase, index)
        if number > 1 and self._gain(before, number, index) <= LITTLE:
            return ShardResult(phase, index, SCHEMA.empty_table(), work.drivers.renamed(before, name))
        names = [IDM, RANDOM, SLOW, AGGRESSIVE, *((SEARCH,) if work.is_searched else ())]
        names += [front_name(group, member) for group in s.groups for member in range(s.members(group))]
        names += [front for past in range(1, number + 1) for front in self._fronts(past, index)]
        matches = [self._match(work.drivers.front(front), len(names)) for front in names]
        # the same seed for every cost, so that a sweep compares costs and not luck
        place, training = divmod(index, s.repairs)
        settings, seed = population_settings(s.round_episodes, s.validation_episodes * len(names)), work.seed(phase, training)
        reward = careful_reward(s.crash_cost[place])
        trained = repair_ego(learned(work.drivers.ego(before), before), matches, settings, seed, reward=reward, progress=progress)
        return ShardResult(phase, index, SCHEMA.empty_table(), packed_training(name, trained))

    def _match(self, front: Opponent, pool: int) -> Match:
        """Returns where and how often the ego meets one of the pool: IDM, which it forgets first, in half of the episodes."""
        arena = self.work.arena
        if isinstance(front, Idm):
            return Match(arena.pretraining, front, float(pool))
        return Match(arena.scenario, front, pool / 6.0 if isinstance(front, RandomActions) else 1.0)

    def _gain(self, ego: str, number: int, index: int) -> float:
        """Returns the greatest failure rate that an adversary of a round reaches with the ego it was trained against."""
        drivers, seed = self.work.drivers, self.work.seed("gain", number, index)
        driven = (
            self.work.arena.drive(drivers.ego(ego), drivers.front(name), _GAIN_EPISODES, seed) for name in self._fronts(number, index)
        )
        return max(episodes.failure_rate for episodes in driven)

    def _population_bouts(self, index: int) -> list[Bout]:
        """Returns a repaired ego against every kind of front vehicle, and against adversaries trained afterwards."""
        s, work = self.settings, self.work
        place, training = divmod(index, s.repairs)
        pool = [front for number in range(1, s.rounds + 1) for front in self._fronts(number, index)]
        columns = [*self._everyone(POPULATION, index), (IDM, [IDM]), (RANDOM, [RANDOM]), *self._groups(), (POOL, pool)]
        return work.crossing(population_family(s, place), trained_name(round_phase(s.rounds), index), columns, training, s.test_runs)

    def _paper_bouts(self, family: str, phase: str, index: int) -> list[Bout]:
        """Returns the paper's repair against those that its own phase does not have."""
        return self.work.shared(family, trained_name(phase, index), self._everyone(family, index), index, self.settings.test_runs)

    def _ego_bouts(self, index: int) -> list[Bout]:
        """Returns the ego before any repair against the front vehicles that the paper does not have."""
        columns = [(SLOW, [SLOW]), (AGGRESSIVE, [AGGRESSIVE])]
        return self.work.shared(EGO, self.work.best_ego(), columns, index, self.settings.test_runs)

    def _oracle_bouts(self, index: int) -> list[Bout]:
        """Returns the ego that knows its opponent, which bounds what an ego could reach with it; few episodes, since it plans each."""
        columns = [*self._everyone(POPULATION, 0), (IDM, [IDM]), (RANDOM, [RANDOM]), *self._groups()]
        return self.work.shared(ORACLE, ORACLE, columns, index, 1, self.settings.search_episodes)

    def _everyone(self, family: str, index: int) -> list[tuple[str, list[str]]]:
        rewards = self.settings.after_rewards
        after = [(after_column(reward), [trained_name(after_front(reward, family), index)]) for reward in rewards]
        return [*after, (SLOW, [SLOW]), (AGGRESSIVE, [AGGRESSIVE])]

    def _groups(self) -> list[tuple[str, list[str]]]:
        s = self.settings
        return [(group, [front_name(group, member) for member in range(s.members(group))]) for group in s.groups]
