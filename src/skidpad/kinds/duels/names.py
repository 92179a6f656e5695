"""The families, columns and phases of a duel campaign: who is called what in its records and files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skidpad.core.progress import Progress
from skidpad.kinds.duels.drivers import trained_name
from skidpad.kinds.duels.records import BoutCounts
from skidpad.kinds.duels.settings import GIVEN, RISK_AVERSION, DuelSettings
from skidpad.runs.records import ShardResult

if TYPE_CHECKING:
    from skidpad.kinds.duels.drivers import Kept


EGO = "ego"
"""The family of the ego as it was trained or given; the others are `slow`, `oracle` and the repaired ones."""
EVERY_EGO = "every ego"
"""The family of all trained egos, including the chosen one: how often a random front vehicle makes one crash depends on the ego."""
TRAIN_EGO = "train-ego"
OWN, OTHER_SEEDS, OTHER_REWARDS = "own adversary", "other seeds", "other rewards"
"""Columns of a repaired ego: whom it was retrained against, and adversaries of other trainings that it has never met."""

POPULATION = "repaired-population"
"""The family of the egos that were repaired in rounds, with the first cost of a crash."""
POOL, AFTERWARDS = "pool", "trained afterwards"
"""Columns: adversaries of the rounds, which the ego was repaired against; and adversaries trained against the repaired ego itself.

The second is a column for each reward: a reward that makes harmless adversaries must not lower the rate of the others.
"""


@dataclass(frozen=True, slots=True)
class Phase:
    """One step: how many shards, what each weighs in the progress, and the work of one."""

    name: str
    shards: int
    weight: int
    work: Callable[[int, Progress], ShardResult]


def front_name(group: str, index: int) -> str:
    """Names an adversary of a group."""
    return trained_name(GIVEN if group == GIVEN else f"train-{group}", index)


def round_phase(number: int) -> str:
    """Names the phase that retrains egos in a round; its shards are the repairs of the first cost, then those of the next."""
    return f"repair-population-round{number}"


def round_front(reward: str, number: int) -> str:
    """Names the phase that trains the adversaries of a round, against the egos of the round before."""
    return f"train-{reward}-round{number}"


def after_front(reward: str, family: str) -> str:
    """Names the phase that trains adversaries against the repaired egos of a family."""
    return f"train-{reward}-after-{family}"


def after_column(reward: str) -> str:
    """Names the column of the adversaries of one reward that are trained against the repaired ego itself."""
    return f"{AFTERWARDS} ({reward})"


def population_family(settings: DuelSettings, place: int) -> str:
    """Names the egos that were repaired in rounds with one of the costs of a crash."""
    return POPULATION if place == 0 else f"{POPULATION} cost {settings.crash_cost[place]:g}"


def populations(settings: DuelSettings) -> tuple[str, ...]:
    """Names the families of all costs of a crash; none where nothing was repaired in rounds."""
    return tuple(population_family(settings, place) for place in range(len(settings.crash_cost))) if settings.rounds else ()


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
