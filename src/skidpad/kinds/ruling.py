"""When a run's cases fail, in words: what every kind of campaign shares about rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from skidpad.core.stimuli import Recipe
from skidpad.page.model import Table
from skidpad.page.wording import counted, plain
from skidpad.statistics.rules import Cases, Ruled, Trait, learn_rules, percent_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from skidpad.runs.folder import Run

MAX_CASES = 20_000
"""Cases that rules are learned from; of more, every second, third and so on, so that memory does not grow with the run."""


def judged_rows(run: Run, columns: Sequence[str], only: tuple[str, str] | None = None) -> list[dict[str, Any]]:
    """Reads the cases of a run that have a verdict, or as many as rules are learned from."""
    total = sum(table.num_rows for table in run.iter_records(None, ("case_id",)))
    step = -(-total // MAX_CASES) if total else 1
    rows: list[dict[str, Any]] = []
    for table in _thinned(
        run.iter_records(None, tuple(dict.fromkeys((*columns, "excess", "violated", *((only[0],) if only else ()))))), step
    ):
        fits = [row for row in table.to_pylist() if row["violated"] or row["excess"] == row["excess"]]
        rows += [row for row in fits if only is None or row[only[0]] == only[1]]
    return rows


def _thinned(tables: Iterator[pa.Table], step: int) -> Iterator[pa.Table]:
    first = 0
    for table in tables:
        yield table.take(list(range(first, table.num_rows, step))) if step > 1 else table
        first = (first - table.num_rows) % step


def failed_of(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Returns which rows failed, (N,)."""
    return np.array([row["violated"] for row in rows], np.bool_)


def recipe_traits(recipes: Sequence[str]) -> tuple[Trait, ...]:
    """Returns what a recipe says of each case: which stimulus, and its parameters, as numbers in their own units."""
    read: dict[str, Recipe] = {}
    made = [read.setdefault(text, Recipe.from_json(text)) if text not in read else read[text] for text in recipes]
    numbers: dict[tuple[str, str], list[float]] = {}
    for place, recipe in enumerate(made):
        for step in recipe.steps:
            for name, value in step.params.items():
                if isinstance(value, int | float) and name != "seed":
                    numbers.setdefault((step.stimulus, name), [float("nan")] * len(made))[place] = float(value)
    names = Trait("the stimulus", [recipe.name for recipe in made])
    worded = ((*_worded(*key), np.array(values, np.float64)) for key, values in numbers.items())
    return (names, *(Trait(name, values, unit) for name, unit, values in worded))


_UNITS = {
    "m": "m",
    "deg": "degrees",
    "deg_s": "degrees/s",
    "px": "px",
    "s": "s",
    "ms": "ms",
    "lx": "lx",
    "kmh": "km/h",
    "per_min": "a minute",
}
"""What endings of parameters mean."""
_WHOLE = {"mm_per_h": ("rate", "mm/h"), "kelvin": ("temperature", "K"), "ev": ("step", "EV"), "percent": ("strength", "%")}
"""Parameters that are named after their unit alone."""


def _worded(stimulus: str, name: str) -> tuple[str, str]:
    """Words a parameter and its unit: `visibility_m` of fog is the visibility of fog, in m."""
    ending = max((each for each in _UNITS if name.endswith(f"_{each}")), key=len, default="")
    said, unit = _WHOLE.get(name, (name.removesuffix(f"_{ending}") if ending else name, _UNITS.get(ending, "")))
    said = said.replace("_", " ")
    return stimulus if said in stimulus.split("-") else f"the {said} of {stimulus}", unit


def rules_table(cases: Cases) -> Table:
    """Learns rules and puts them into a table; without rows where nothing fails more often than the rest."""
    ruled = learn_rules(cases)
    rows = tuple(
        (
            plain(rule.where, 300),
            percent_of(rule.kept_apart),
            str(rule.kept_apart),
            percent_of(rule.rest),
            str(rule.rest),
        )
        for rule in ruled.rules
    )
    columns = ("It fails where", "Fails there", "Cases", "Else", "Cases")
    return Table("rules", "When it fails", columns, rows, note=how_learned(ruled))


def how_learned(ruled: Ruled) -> str:
    """Says what the rules rest on."""
    dropped = f" {counted(ruled.dropped, 'rule')} did not hold there." if ruled.dropped else ""
    return (
        f"Learned on {ruled.learned_on:,} cases and counted on {ruled.counted_on:,} others, kept apart. "
        f"Each rule covers only cases that no earlier rule matched.{dropped}"
    )


def rules_figures(ruled: Ruled) -> Mapping[str, object]:
    """The rules as plain values."""
    return {
        "learned_on": ruled.learned_on,
        "counted_on": ruled.counted_on,
        "dropped": ruled.dropped,
        "rules": [
            {
                "said": str(rule),
                "where": [condition.words for condition in rule.conditions],
                **{
                    name: {"failed": part.failed, "cases": part.cases}
                    for name, part in (("learned", rule.learned), ("kept_apart", rule.kept_apart), ("rest", rule.rest))
                },
                "p_value": rule.p_value,
            }
            for rule in ruled.rules
        ],
    }
