"""The records of closed-loop campaigns: one row a drive, with everything that it takes to drive it again, and its judgement."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import inf, nan
from typing import Any, Self

import numpy as np
import pyarrow as pa

from skidpad.core.images import FloatArray
from skidpad.core.stimuli import Recipe, Stimulus
from skidpad.kinds.drives.loop import Course, Wheel
from skidpad.oracles.error import prediction_error
from skidpad.oracles.lane_departure import CAP_M, departure_step, mdcl
from skidpad.referee.verdict import Word
from skidpad.runs.records import CASE_ID_DIGITS, REFEREE
from skidpad.stimuli.registry import WrittenStimulus
from skidpad.worlds.scenario.files import NamedScenario
from skidpad.worlds.scenario.scenario import Scenario, scenario_of, table_of
from skidpad.worlds.world import STEP_S

SCHEMA = pa.schema(
    [
        pa.field("case_id", pa.string(), nullable=False),
        pa.field("mode", pa.string(), nullable=False),
        pa.field("scenario_name", pa.string(), nullable=False),
        pa.field("scenario", pa.string(), nullable=False),
        pa.field("condition", pa.string(), nullable=False),
        pa.field("recipe", pa.string(), nullable=False),
        pa.field("repeat", pa.int32(), nullable=False),
        pa.field("slot", pa.int32(), nullable=False),
        pa.field("steps", pa.int32(), nullable=False),
        pa.field("max_lateral_m", pa.float64(), nullable=False),
        pa.field("mdcl", pa.float64(), nullable=False),
        pa.field("departed_at_s", pa.float64(), nullable=False),
        pa.field("collided_at_s", pa.float64(), nullable=False),
        pa.field("mae_rad", pa.float64(), nullable=False),
        pa.field("rmse_rad", pa.float64(), nullable=False),
        pa.field("lateral_m", pa.binary(), nullable=False),
        pa.field("answers_rad", pa.binary(), nullable=False),
        pa.field("truth_rad", pa.binary(), nullable=False),
        pa.field("problem", pa.string(), nullable=False),
        pa.field("excess", pa.float64(), nullable=False),
        pa.field("violated", pa.bool_(), nullable=False),
        *REFEREE,
    ]
)
"""mode: `online` (the subject steers) or `offline` (the truth steers, the subject is asked). scenario, recipe: JSON. condition: the entry
of `stimuli` that the recipe was drawn for. slot: see `Case`. max_lateral_m, mdcl: see `oracles.lane_departure`. departed_at_s,
collided_at_s: NaN for never. mae_rad, rmse_rad: of the answers against the truth. The series are packed 64-bit floats, one a frame.
problem: why the drive cannot be judged, "" where it can. excess: the largest distance from the lane in caps, at least 1 for a
collision; NaN where it cannot be judged. violated: whether an online drive left its lane or touched something; an offline one is never
a finding by itself."""


@dataclass(frozen=True, slots=True)
class Case:
    """One drive to make: a scenario under a recipe, for the `repeat`-th time.

    slot: the number of the case in its campaign, the same for every repeat; it decides the car's slot in a network's batches
    (`online_loop.Eyes`), so that a replay alone gives the same bits.
    """

    name: str
    scenario: Scenario
    condition: str
    recipe: Recipe
    repeat: int = 0
    slot: int = 0

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Reads the case of a record."""
        scenario = scenario_of(json.loads(row["scenario"]))
        # runs of older versions do not say in which slot a car was asked
        return cls(row["scenario_name"], scenario, row["condition"], Recipe.from_json(row["recipe"]), row["repeat"], row.get("slot", 0))


def cases_of(
    scenarios: Sequence[NamedScenario], conditions: Sequence[WrittenStimulus], stimuli: Mapping[str, Stimulus], seed: int, repeats: int
) -> tuple[Case, ...]:
    """Returns every scenario under every condition, as often as `repeats` says."""
    return tuple(
        Case(named.name, named.scenario, condition.text, condition.recipe(stimuli, seed, place), repeat, number * len(scenarios) + place)
        for repeat in range(repeats)
        for number, condition in enumerate(conditions)
        for place, named in enumerate(scenarios)
    )


def scenario_json(scenario: Scenario) -> str:
    """Writes a scenario as canonical JSON, the form that is stored and hashed."""
    return json.dumps(table_of(scenario), separators=(",", ":"), sort_keys=True)


def case_id(case: Case, mode: Wheel, world: str, subject_sha256: str) -> str:
    """Names a case: the same subject, world, scenario and recipe have the same name in every run and repeat."""
    text = "\x1f".join([mode.value, world, subject_sha256, scenario_json(case.scenario), case.recipe.to_json()])
    return blake2b(text.encode(), digest_size=CASE_ID_DIGITS // 2).hexdigest()


def build_records(cases: Sequence[Case], courses: Sequence[Course], mode: Wheel, world: str, subject_sha256: str) -> pa.Table:
    """Judges the courses and builds their table."""
    rows = [
        {
            "case_id": case_id(case, mode, world, subject_sha256),
            "mode": mode.value,
            "scenario_name": case.name,
            "scenario": scenario_json(case.scenario),
            "condition": case.condition,
            "recipe": case.recipe.to_json(),
            "repeat": case.repeat,
            "slot": case.slot,
            **_judged(course, mode),
        }
        for case, course in zip(cases, courses, strict=True)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def refused(problem: str) -> Course:
    """The course of a scenario that could not begin."""
    nothing = np.zeros(0)
    return Course(nothing, nothing, nothing, None, problem)


def unpack(series: bytes) -> FloatArray:
    """Reads a packed series, (steps,)."""
    return np.frombuffer(series, "<f8").astype(np.float64)


def _judged(course: Course, mode: Wheel) -> dict[str, Any]:
    strayed = mdcl(course.lateral_m)
    gone = departure_step(course.lateral_m)
    error = prediction_error(course.answers_rad, course.truth_rad, 0)
    failed = strayed.departed or course.collided_step is not None
    word = None if course.reason is None else course.reason.word
    is_apart = word not in {None, Word.KEPT}
    violated = mode is Wheel.SUBJECT and failed and not is_apart
    problem = course.problem
    if is_apart and not problem:
        problem = f"the referee says of what the subject saw: {word and word.value} ({course.reason and course.reason.value})"
    # A car that has left its lane has failed, whatever its subject answers afterwards.
    unjudged = bool(problem) and not violated
    return {
        "steps": len(course.lateral_m),
        "max_lateral_m": strayed.max_m,
        "mdcl": nan if unjudged else strayed.normalised,
        "departed_at_s": nan if gone is None else gone * STEP_S,
        "collided_at_s": nan if course.collided_step is None else course.collided_step * STEP_S,
        "mae_rad": nan if unjudged else error.mae_rad,
        "rmse_rad": nan if unjudged else error.rmse_rad,
        "lateral_m": pack(course.lateral_m),
        "answers_rad": pack(course.answers_rad),
        "truth_rad": pack(course.truth_rad),
        "problem": problem,
        "excess": nan if unjudged else max(strayed.max_m / CAP_M, 1.0 if violated else -inf),
        "violated": violated,
        "referee": word and word.value,
        "reason": (course.reason and course.reason.value) or None,
    }


def pack(series: FloatArray) -> bytes:
    """Writes a series as `unpack` reads it."""
    return np.ascontiguousarray(series, "<f8").tobytes()
