"""What the report of a run of duels calls egos, front vehicles and trainings, whose names in a run are meant for programs."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from skidpad.kinds.duels.drivers import IDM, SLOW
from skidpad.kinds.duels.phases import POPULATION, TRAIN_EGO, repair_family, repair_phase, round_phase
from skidpad.page.wording import NOTHING, count, percent

if TYPE_CHECKING:
    from skidpad.kinds.duels.settings import DuelSettings
    from skidpad.kinds.duels.summary import Column, DuelSummary


def repairs_of(settings: DuelSettings) -> dict[str, tuple[str, str]]:
    """Returns each phase that retrains egos, with the family of those egos and the words for them."""
    found = {}
    for group in settings.repaired:
        whom = f"repaired ({group})" if len(settings.repaired) > 1 else "repaired"
        for place, weight in enumerate(settings.w_col):
            words = f"{whom}, w_col {weight:g}" if len(settings.w_col) > 1 else whom
            found[repair_phase(group, place)] = repair_family(settings, group, place), words
    found |= {round_phase(number): (POPULATION, f"repaired, round {number}") for number in range(1, settings.rounds + 1)}
    return found


def ego_words(settings: DuelSettings, family: str) -> str:
    """Returns what a family of egos is called."""
    if family == SLOW:
        return "always slower"
    if family == POPULATION:
        return "repaired against everybody"
    return dict(repairs_of(settings).values()).get(family, family)


def front_words(column: str) -> str:
    """Returns what a kind of front vehicle is called."""
    return "IDM" if column == IDM else column


def speed(mps: float) -> str:
    """Words a mean speed without its unit."""
    return f"{mps:.1f}" if isfinite(mps) else NOTHING


def slow_words(summary: DuelSummary) -> str:
    """Says how often an ego that always chooses SLOWER crashed in this run, and how fast it drove; empty where it was not tested."""
    tested = [column for column in summary.columns if column.family == SLOW and column.judged]
    if not tested:
        return ""
    rates = ", ".join(f"in {percent(column.across_trainings.mean)} with {front_words(column.column)}" for column in tested)
    speeds = sorted({speed(column.ego_mps) for column in tested})
    return f"An ego that always chooses SLOWER crashes {rates}, and drives {' to '.join(dict.fromkeys((speeds[0], speeds[-1])))} m/s."


def left_out(column: Column) -> str:
    """Warns of episodes that a rate leaves out; empty where it leaves out none."""
    if not column.errors:
        return ""
    return f"{count(column.errors)} of {count(column.episodes)} episodes ended by a policy's error and are left out"


def phase_words(settings: DuelSettings, phase: str) -> str:
    """Returns what a phase of trainings is called."""
    if phase == TRAIN_EGO:
        return "ego"
    _, words = repairs_of(settings).get(phase, ("", phase.removeprefix("train-")))
    return words
