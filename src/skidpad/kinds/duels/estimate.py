"""Duels as an estimator asks for them: points of the distribution of starts, opponents and of a random front's actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skidpad.core.errors import SkidpadError
from skidpad.core.images import BoolArray, FloatArray, IntArray
from skidpad.core.seeding import child_seed
from skidpad.highway.engine import START_DRAWS
from skidpad.highway.episodes import least_gaps_m
from skidpad.highway.evaluation import evaluate_starts, starts_from
from skidpad.highway.layout import ACTIONS, Outcome, Side
from skidpad.highway.opponents import Idm, RandomActions
from skidpad.kinds.duels.drivers import AGGRESSIVE, IDM, RANDOM, SLOW, trained_name
from skidpad.kinds.duels.records import Bout, build_records
from skidpad.kinds.duels.settings import GIVEN
from skidpad.kinds.estimating import PHASE, FailureEstimate
from skidpad.statistics.rare import Batch, Goal, Method, everywhere

if TYPE_CHECKING:
    from skidpad.highway.episodes import Episodes
    from skidpad.kinds.duels.phases import DuelWork
    from skidpad.runs.workers.protocol import Crew

BATCHES = 100
"""Batches of a whole budget; of at least 50 duels, since a look costs more than a duel, and at most 5,000."""
NEAR_M = 5.0
"""A gap that is half way from far apart to a crash, for estimators that climb towards crashes."""
_BELOW_ONE = 1.0 - 2.0**-53


@dataclass(frozen=True, eq=False)
class DuelSimulation:
    """Lets an ego meet opponents, each as likely as the others.

    A point: which opponent, where there are several; START_DRAWS numbers of the start; and where a random front is among the opponents,
    one number for each of its actions.
    """

    work: DuelWork
    opponents: tuple[str, ...]

    @property
    def dimensions(self) -> int:
        """How many numbers decide a duel."""
        acting = self.work.arena.scenario.episode_steps if RANDOM in self.opponents else 0
        return self._first + START_DRAWS + acting

    @property
    def _first(self) -> int:
        return 1 if len(self.opponents) > 1 else 0

    def is_valid(self, points: FloatArray) -> BoolArray:
        """Every start can be driven from."""
        return everywhere(points)

    def records(self, batch: Batch, first: int, crew: Crew) -> pa.Table:  # noqa: ARG002  thousands take a second here
        """Drives a batch; `excess` of a duel without a crash says how near one was."""
        parts, rows = [], []
        for opponent, episodes, places in self.driven(batch.points, first):
            bout = Bout(PHASE, opponent, self.work.best_ego(), opponent, 0, 0, len(places), self.seed, first)
            hashes = self.work.drivers.hash(bout.ego, Side.EGO), self.work.drivers.hash(opponent, Side.FRONT)
            table = build_records(bout, episodes, *hashes)
            excess = np.where(table["violated"].to_numpy(), table["excess"].to_numpy(), nearness(episodes))
            parts.append(table.set_column(table.schema.get_field_index("excess"), table.schema.field("excess"), pa.array(excess)))
            rows.append(places)
        return pa.concat_tables(parts).take(pa.array(np.argsort(np.concatenate(rows), kind="stable"))).combine_chunks()

    @property
    def seed(self) -> int:
        """The seed that the episodes are numbered under."""
        return child_seed(self.work.settings.seed, PHASE)

    def driven(self, points: FloatArray, first: int = 0) -> list[tuple[str, Episodes, IntArray]]:
        """Drives points, (N, dimensions), and returns for each opponent its name, its episodes and their places among the points."""
        numbers = np.minimum(points, _BELOW_ONE)
        which = (numbers[:, 0] * len(self.opponents)).astype(np.int64) if self._first else np.zeros(len(points), np.int64)
        ego = self.work.drivers.ego(self.work.best_ego())
        found: list[tuple[str, Episodes, IntArray]] = []
        for number in np.unique(which).tolist():
            name, places = self.opponents[number], np.flatnonzero(which == number)
            front = self.work.drivers.front(name)
            scenario = self.work.arena.pretraining if isinstance(front, Idm) else self.work.arena.scenario
            own = numbers[places, self._first :]
            played = (own[:, START_DRAWS:] * ACTIONS).astype(np.int8) if isinstance(front, RandomActions) else None
            starts = starts_from(scenario, own[:, :START_DRAWS])
            found.append((name, evaluate_starts(scenario, ego, front, starts, self.seed, first + places, played=played), places))
        return found


def nearness(episodes: Episodes) -> FloatArray:
    """Returns how near to a crash each episode came, (N,): 1 for one, the less the more room was left; NaN where a policy failed."""
    near = 1.0 / (1.0 + least_gaps_m(episodes) / NEAR_M)
    near = np.where(episodes.outcomes == Outcome.CRASH.code, 1.0, np.minimum(near, 1.0 - 1e-9))
    return np.asarray(np.where(episodes.outcomes == Outcome.ERROR.code, np.nan, near), np.float64)


def opponents_of(work: DuelWork) -> tuple[str, ...]:
    """Returns the names of the drivers in front: those that the settings name, and every given adversary for `given`."""
    s = work.settings
    known: dict[str, tuple[str, ...]] = {name: (name,) for name in (IDM, RANDOM, SLOW, AGGRESSIVE)}
    known[GIVEN] = tuple(trained_name(GIVEN, index) for index in range(len(s.fronts)))
    chosen = s.against or ((GIVEN,) if s.fronts else (RANDOM,))
    unknown = [name for name in chosen if not known.get(name)]
    if unknown:
        raise SkidpadError(
            f"an estimate can be made against {IDM}, {RANDOM}, {SLOW}, {AGGRESSIVE} and, with --front, {GIVEN}; got {', '.join(unknown)}"
        )
    return tuple(name for each in chosen for name in known[each])


def duel_estimate(work: DuelWork) -> FailureEstimate:
    """Returns the estimate that the settings of a run ask for."""
    s = work.settings
    batch = min(max(s.budget // BATCHES, 50), 5000)
    simulation = DuelSimulation(work, opponents_of(work))
    return FailureEstimate(simulation, Method(s.estimate), Goal(s.budget, s.stop_below, s.within, batch=batch), s.seed)
