"""Which episodes of a run are worth a film: the two collision patterns of Figure 5, and the same start after the repair."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from skidpad.highway.evaluation import scenario_against
from skidpad.highway.layout import EGO as EGO_ROW
from skidpad.highway.layout import FRONT, LANE, Action
from skidpad.highway.opponents import Idm, RandomActions
from skidpad.kinds.duels import film as duel_film
from skidpad.kinds.duels.drivers import IDM
from skidpad.kinds.duels.names import OWN
from skidpad.kinds.duels.records import LETTERS, actions_of
from skidpad.kinds.duels.replaying import trace_of
from skidpad.kinds.estimating import PHASE
from skidpad.page.model import FilmCard
from skidpad.page.wording import plain

if TYPE_CHECKING:
    from skidpad.highway.episodes import Trace
    from skidpad.kinds.duels.phases import DuelWork


_LOOKED_AT = 300
"""Crashes among which the patterns are looked for."""
_CALM = {
    "": "",
    "nobody": "nobody broke the safe distance before",
    "start": "they started too near each other",
    "ego": "the ego broke the safe distance first",
    "front": "the front vehicle broke the safe distance first",
}


def films(work: DuelWork, columns: Sequence[str]) -> tuple[FilmCard, ...]:
    """Returns at most three films: two crashes of different patterns, of the first column that has any, and one after the repair."""
    crashes = next((rows for rows in (_crashes(work, column) for column in columns) if rows), [])
    seen: dict[str, tuple[Mapping[str, Any], Trace]] = {}
    for row in crashes[:_LOOKED_AT]:
        drawn = _trace(work, row)
        if drawn is not None:
            seen.setdefault(_pattern(drawn), (row, drawn))
    order = [pattern for pattern in _PATTERNS if pattern in seen][:2]
    made = [_film(work, f"film-{index}", pattern, *seen[pattern]) for index, pattern in enumerate(order)]
    if order:
        after = _after_repair(work, seen[order[0]][0])
        drawn = _trace(work, after) if after else None
        if after and drawn is not None:
            made.append(_film(work, "film-after", "the same start after the repair", after, drawn))
    return tuple(made)


def film_of(work: DuelWork, row: Mapping[str, Any], drawn: Trace) -> duel_film.Film:
    """Returns a record as a film."""
    steps = row["steps"]
    actions = [tuple(actions_of(row[name], steps).tolist()) for name in ("ego_actions", "front_actions")]
    return duel_film.Film(drawn, work.arena.scenario.lanes, actions[0], actions[1], row["avoidable_until_s"])


def _crashes(work: DuelWork, column: str) -> list[Mapping[str, Any]]:
    phase = column if column == PHASE else f"test-{column}"
    found: list[Mapping[str, Any]] = []
    for table in work.run.iter_records(phase):
        found += table.filter(table["violated"]).slice(0, _LOOKED_AT).to_pylist()
        if len(found) >= _LOOKED_AT:
            break
    # not too short to see what happens, not longer than a strip can show
    return sorted(found, key=lambda row: abs(row["steps"] - 5))


_PATTERNS = (
    "both change lanes and meet",
    "the front cuts in, the ego keeps its lane",
    "the ego changes lane into the front",
    "the front brakes, the ego runs into it",
)


def _pattern(drawn: Trace) -> str:
    """Names a crash by who changed lanes in it."""
    last = drawn.impact_frame or len(drawn.states) - 1
    changes = [len(set(drawn.states[: last + 1, side, LANE].tolist())) > 1 for side in (EGO_ROW, FRONT)]
    if all(changes):
        return _PATTERNS[0]
    if changes[FRONT]:
        return _PATTERNS[1]
    return _PATTERNS[2] if changes[EGO_ROW] else _PATTERNS[3]


def _after_repair(work: DuelWork, row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Finds the episode with the same start that a repaired ego drove against the adversary it was retrained on."""
    for phase in work.run.phases():
        if phase.startswith("test-repair-"):
            for table in work.run.iter_records(phase):
                for other in table.to_pylist():
                    if other["column"] == OWN and (other["seed"], other["episode"]) == (row["seed"], row["episode"]):
                        return dict(other)
    return None


def _trace(work: DuelWork, row: Mapping[str, Any]) -> Trace | None:
    is_idm = row["front"] == IDM  # what any other driver did stands in the record, so that it need not be there
    scenario = work.arena.pretraining if is_idm else work.arena.scenario
    return trace_of(row, scenario_against(scenario, Idm() if is_idm else RandomActions()))


def _film(work: DuelWork, key: str, title: str, row: Mapping[str, Any], drawn: Trace) -> FilmCard:
    film = film_of(work, row, drawn)
    crashed = row["violated"]
    badge = f"crash at {row['impact_s']:.1f} s" if crashed else "no crash"
    return FilmCard(
        title=f"{plain(title, 120)[:1].upper()}{plain(title, 120)[1:]}",
        badge=badge,
        is_bad=bool(crashed),
        moving=duel_film.animation(f"{key}-moving", title, film),
        strip=duel_film.film_strip(f"{key}-strip", title, film),
        said=_said(row),
        case_id=row["case_id"],
        replay=f"skidpad replay {shlex.quote(work.run.place)} {row['case_id']} --picture film.svg",
    )


def _said(row: Mapping[str, Any]) -> str:
    who = f"{row['ego']} against {row['front']}"
    if not row["violated"]:
        slower = row["ego_actions"].count(LETTERS[Action.SLOWER])
        return f"{who}: {row['outcome']} after {row['steps']} steps at {row['ego_mps']:.1f} m/s on average, slower chosen {slower} times."
    until = row["avoidable_until_s"]
    chance = (
        f"could be avoided until {row['impact_s'] - until:.1f} s before the impact"
        if isfinite(until)
        else "could not be avoided from the start"
    )
    chance = "could not be judged: the search ran out of tries" if row["avoidable"] == "undecided" else chance
    words = _CALM[row["first_break"]]
    return f"{who}: the crash, closing in at {row['closing_mps']:.1f} m/s, {chance}{'; ' + words if words else ''}."
