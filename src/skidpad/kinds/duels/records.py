"""The records of a duel campaign: one row an episode, with everything needed to drive it again, and its judgement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from math import nan
from typing import Any, Self

import numpy as np
import pyarrow as pa

from skidpad.core.images import IntArray
from skidpad.highway.avoidability import avoidable_until_s, last_escapes
from skidpad.highway.episodes import NO_ACTION, Episodes, trace
from skidpad.highway.layout import ACTIONS, EGO, FRONT, Outcome
from skidpad.highway.safe_distance import first_break
from skidpad.runs.records import CASE_ID_DIGITS

SCHEMA = pa.schema(
    [
        pa.field("case_id", pa.string(), nullable=False),
        pa.field("family", pa.string(), nullable=False),
        pa.field("column", pa.string(), nullable=False),
        pa.field("ego", pa.string(), nullable=False),
        pa.field("front", pa.string(), nullable=False),
        pa.field("ego_hash", pa.string(), nullable=False),
        pa.field("front_hash", pa.string(), nullable=False),
        pa.field("scenario", pa.string(), nullable=False),
        pa.field("training", pa.int32(), nullable=False),
        pa.field("test", pa.int32(), nullable=False),
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("episode", pa.int64(), nullable=False),
        pa.field("start", pa.list_(pa.float64()), nullable=False),
        pa.field("ego_actions", pa.string(), nullable=False),
        pa.field("front_actions", pa.string(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("steps", pa.int32(), nullable=False),
        pa.field("ego_mps", pa.float64(), nullable=False),
        pa.field("front_mps", pa.float64(), nullable=False),
        pa.field("impact_s", pa.float64(), nullable=False),
        pa.field("closing_mps", pa.float64(), nullable=False),
        pa.field("avoidable", pa.string(), nullable=False),
        pa.field("avoidable_until_s", pa.float64(), nullable=False),
        pa.field("first_break", pa.string(), nullable=False),
        pa.field("broken_at_s", pa.float64(), nullable=False),
        pa.field("problem", pa.string(), nullable=False),
        pa.field("excess", pa.float64(), nullable=False),
        pa.field("violated", pa.bool_(), nullable=False),
    ]
)
"""family: which ego (`ego`, `slow`, `repaired-...`). column: against whom. ego, front: names within the run. start: as in `duels.start`,
NaN where a scene places its own traffic. Actions are one letter a policy step (LIRFS: left, idle, right, faster, slower), one for each
front vehicle where there are several; "" for IDM.
Speeds are means over the steps. What only a crash has is NaN or "" without one. excess: 1 for a crash and its closing speed in m/s
on top, 0 without one, NaN where a policy failed (`problem` says how). violated: whether the ego crashed."""

LETTERS = "LIRFS"
_NO_LETTER = "-"
_TABLE = np.frombuffer((_NO_LETTER + LETTERS).encode(), np.uint8)


@dataclass(frozen=True, slots=True)
class Bout:
    """One test: an ego against a front vehicle, `episodes` episodes from `first` on under a seed; names are those of the run."""

    family: str
    column: str
    ego: str
    front: str
    training: int
    test: int
    episodes: int
    seed: int
    first: int = 0


@dataclass(frozen=True, slots=True)
class BoutCounts:
    """The outcomes of all episodes of a bout, kept or not; speeds are means over all steps."""

    bout: Bout
    crashes: int
    overtaken: int
    timeouts: int
    errors: int
    steps: int
    ego_mps: float
    front_mps: float
    problem: str = ""
    """What the first policy that failed did."""

    @property
    def judged(self) -> int:
        """Episodes that did not end as an error."""
        return self.bout.episodes - self.errors

    @property
    def failure_rate(self) -> float:
        """Crashes among the judged; NaN where there are none."""
        return self.crashes / self.judged if self.judged else nan

    @classmethod
    def of(cls, bout: Bout, episodes: Episodes) -> Self:
        """Counts the episodes of a bout."""
        return cls(
            bout=bout,
            crashes=episodes.count(Outcome.CRASH),
            overtaken=episodes.count(Outcome.OVERTAKEN),
            timeouts=episodes.count(Outcome.TIMEOUT),
            errors=episodes.count(Outcome.ERROR),
            steps=int(episodes.steps.sum()),
            ego_mps=episodes.mean_ego_mps,
            front_mps=episodes.mean_front_mps,
            problem=episodes.failures[0].message if episodes.failures else "",
        )

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Self:
        """Reads what `asdict` wrote; null is NaN."""
        values: dict[str, Any] = {name: nan if value is None else value for name, value in table.items()}
        values["bout"] = Bout(**table["bout"])
        return cls(**values)


@dataclass(frozen=True, slots=True)
class EpisodeJudgement:
    """The judgement of one episode; the defaults are those of an episode without a crash."""

    impact_s: float = nan
    closing_mps: float = nan
    avoidable: str = ""
    avoidable_until_s: float = nan
    first_break: str = ""
    broken_at_s: float = nan


def judge(episodes: Episodes) -> list[EpisodeJudgement]:
    """Judges every crash: when it could last be avoided, and who broke the safe distance first; the engine's highway only."""
    judged = [EpisodeJudgement()] * len(episodes)
    crashes = np.flatnonzero((episodes.outcomes == Outcome.CRASH.code) & np.isfinite(episodes.starts).all(axis=1))
    lasts = last_escapes(
        episodes.scenario,
        episodes.starts[crashes],
        episodes.ego_actions[crashes].astype(np.int64),
        episodes.front_actions[crashes].astype(np.int64),
        episodes.steps[crashes],
    )
    for row, last in zip(crashes.tolist(), lasts.tolist(), strict=True):
        steps = int(episodes.steps[row])
        actions = (side[row, :steps].astype(np.int64) for side in (episodes.ego_actions, episodes.front_actions))
        seen = trace(episodes.scenario, episodes.starts[row], *actions)
        broken = first_break(seen)
        avoidable, until_s = avoidable_until_s(episodes.scenario, last)
        judged[row] = EpisodeJudgement(seen.impact_s, seen.closing_mps, avoidable.value, until_s, broken.who.value, broken.at_s)
    return judged


def build_records(bout: Bout, episodes: Episodes, ego_hash: str, front_hash: str) -> pa.Table:
    """Judges the episodes of a bout and builds their table."""
    rows = len(episodes)
    judged = judge(episodes)
    outcomes = [Outcome.of_code(code) for code in episodes.outcomes.tolist()]
    problems = {failure.episode: failure.message for failure in episodes.failures}
    numbers = episodes.numbers.tolist()
    speeds = episodes.mean_speeds_mps
    closing = np.nan_to_num(np.array([judgement.closing_mps for judgement in judged], np.float64))
    crashed = episodes.outcomes == Outcome.CRASH.code
    scenario = episodes.scenario.to_json()
    columns: dict[str, Any] = {
        "case_id": [case_id(scenario, ego_hash, front_hash, episodes.seed, number) for number in numbers],
        "scenario": [episodes.scenario.name] * rows,
        "ego_hash": [ego_hash] * rows,
        "front_hash": [front_hash] * rows,
        "seed": np.full(rows, episodes.seed),
        "episode": episodes.numbers,
        "start": episodes.starts.tolist(),
        "ego_actions": _letters(episodes.ego_actions, episodes.steps),
        "front_actions": _letters(episodes.front_actions, episodes.steps, episodes.scenario.fronts),
        "outcome": [outcome.value if outcome else "" for outcome in outcomes],
        "steps": episodes.steps.astype(np.int32),
        "ego_mps": speeds[:, EGO],
        "front_mps": speeds[:, FRONT],
        "problem": [problems.get(number, "") for number in numbers],
        "excess": np.where(crashed, 1.0 + closing, np.where(episodes.outcomes == Outcome.ERROR.code, nan, 0.0)),
        "violated": crashed,
    }
    for name in ("family", "column", "ego", "front", "training", "test"):
        columns[name] = [getattr(bout, name)] * rows
    for name in ("impact_s", "closing_mps", "avoidable", "avoidable_until_s", "first_break", "broken_at_s"):
        columns[name] = [getattr(judgement, name) for judgement in judged]
    return pa.table({name: columns[name] for name in SCHEMA.names}, schema=SCHEMA)


def case_id(scenario: str, ego_hash: str, front_hash: str, seed: int, episode: int) -> str:
    """Names an episode: the same drivers, scenario (as JSON), seed and number have the same name in every run."""
    text = "\x1f".join([scenario, ego_hash, front_hash, str(seed), str(episode)])
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=CASE_ID_DIGITS // 2).hexdigest()


def actions_of(letters: str, steps: int) -> IntArray:
    """Reads a column of letters, (steps,), joint where there are several a step; NO_ACTION for a driver that took none."""
    if not letters or not steps:
        return np.full(steps, NO_ACTION, np.int64)
    return joint_actions(letters, len(letters) // steps)


def joint_actions(letters: str, fronts: int) -> IntArray:
    """Reads letters, as many for each step as there are front vehicles, as joint actions; NO_ACTION where one is missing."""
    each = np.array([LETTERS.find(letter) for letter in letters], np.int64).reshape(-1, fronts)
    return np.where((each < 0).any(axis=1), NO_ACTION, each @ ACTIONS ** np.arange(fronts))


def letters_of(actions: Iterable[int], fronts: int = 1) -> str:
    """Writes actions that were taken, joint ones of so many front vehicles, as letters."""
    return "".join(LETTERS[action // ACTIONS**place % ACTIONS] for action in actions for place in range(fronts))


def _letters(actions: np.ndarray[Any, Any], steps: IntArray, fronts: int = 1) -> list[str]:
    """Writes actions, (N, T), as one text a row."""
    whole = actions.astype(np.int64)[..., np.newaxis]
    signs = _TABLE[np.where(whole < 0, 0, whole // ACTIONS ** np.arange(fronts) % ACTIONS + 1)].reshape(len(actions), -1)
    texts = [row[: count * fronts].tobytes().decode("ascii") for row, count in zip(signs, steps.tolist(), strict=True)]
    return ["" if text.strip(_NO_LETTER) == "" else text for text in texts]
