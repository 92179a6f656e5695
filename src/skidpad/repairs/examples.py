"""Mutants that no training saw, with what the network answered before the repair and what it answers now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from math import degrees
from typing import TYPE_CHECKING

import numpy as np

from skidpad.core.images import NumpyFrames, as_numpy
from skidpad.drives.drive import capture_of
from skidpad.page.pictures import Overlay, PairCard, Panel, embed, overlay
from skidpad.page.wording import DEGREES, answer, plain

if TYPE_CHECKING:
    from torch import nn

    from skidpad.repairs.pairs import Pairs
    from skidpad.repairs.search import Repairs

_MOST = {"mended": 4, "still fails": 2, "fails only now": 2}
"""Pictures of each sort: what the repair did first, but never without what it did not do."""


class Change(Enum):
    """What the repair did to the answer on a mutant."""

    MENDED = "mended"
    STILL = "still fails"
    BROKEN = "fails only now"


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """One mutant of the stretch that judges; answers in degrees, positive is left.

    right_deg: what the first network must answer: as on the original, or moved with the camera.
    """

    change: Change
    pictures: str
    recipe: str
    frame_id: str
    original: NumpyFrames
    mutant: NumpyFrames
    right_deg: float
    original_deg: float
    before_deg: float
    repaired_deg: float
    label_deg: float


def examples(repairs: Repairs, repaired: nn.Module) -> tuple[Example, ...]:
    """Returns some mutants that the repair mended, that still fail, and that fail only since; of each set the clearest first."""
    first = repairs.task.subject.module
    found: dict[Change, list[list[Example]]] = {change: [] for change in Change}
    # families that no training saw first: they are what a repair is judged by
    for name in sorted(repairs.judged, key=lambda each: not each.startswith("unseen: ")):
        pairs = repairs.judged[name]
        before, after = repairs.excess(name, pairs, first), repairs.excess(name, pairs, repaired)
        failed, fails = before.excess > 1.0, after.excess > 1.0
        sorts = {
            Change.MENDED: (failed & ~fails, before.excess - after.excess),
            Change.STILL: (failed & fails, after.excess),
            Change.BROKEN: (~failed & fails, after.excess - before.excess),
        }
        for change, (is_so, clearness) in sorts.items():
            places = np.flatnonzero(is_so & before.counted & after.counted)
            ordered = places[np.argsort(-clearness[places], kind="stable")].tolist()
            chosen = _of_other_recipes(pairs, ordered)[: _MOST[change.value]]
            answers = (before.right_rad, before.original_rad, before.mutant_rad, after.mutant_rad)
            found[change].append([_example(repairs, change, name, pairs, place, [each[place] for each in answers]) for place in chosen])
    return tuple(one for change in Change for one in _in_turns(found[change])[: _MOST[change.value]])


def _of_other_recipes(pairs: Pairs, places: Sequence[int]) -> list[int]:
    """Returns the first place of each condition."""
    return list({pairs.recipes[pairs.recipe_of[place]].name: place for place in reversed(places)}.values())[::-1]


def _in_turns(sets: Sequence[Sequence[Example]]) -> list[Example]:
    return [one for turn in zip_longest(*sets) for one in turn if one is not None]


def _example(repairs: Repairs, change: Change, name: str, pairs: Pairs, place: int, answers_rad: Sequence[float]) -> Example:
    recipe, frame, lead = pairs.recipes[pairs.recipe_of[place]], int(pairs.frame_of[place]), repairs.lead
    batch = repairs.judged_drive.read([frame], lead=lead)
    changed = as_numpy(recipe.apply(batch.clip, repairs.made, capture_of(repairs.judged_drive, batch.indices, lead)))
    right, original, before, after = map(degrees, answers_rad)
    label = degrees(float(pairs.mutants.labels_rad[place]))
    return Example(
        change,
        name,
        str(recipe),
        batch.frame_ids[0],
        np.asarray(batch.clip[lead]),
        changed[lead],
        right,
        original,
        before,
        after,
        label,
    )


def cards(shown: Sequence[Example]) -> tuple[PairCard, ...]:
    """Embeds examples: the frame with the answer to it, and the mutant with the answers of both networks."""
    return tuple(map(_card, shown))


def _card(one: Example) -> PairCard:
    recipe, frame = plain(one.recipe, 240), plain(one.frame_id, 120)
    before, after, original = (answer(each, DEGREES) for each in (one.before_deg, one.repaired_deg, one.original_deg))
    left = f"Original frame {frame}; the network answers {original}."
    right = f"The same frame after {recipe}; before the repair the network answers {before}, repaired {after}."
    on_mutant = (("label", one.label_deg), ("original", one.right_deg), ("mutant", one.before_deg), ("repaired", one.repaired_deg))
    return PairCard(
        case_id=plain(one.pictures, 80),
        frame_id=frame,
        recipe=recipe,
        badge=one.change.value,
        difference=f"before {before}, repaired {after}",
        label=f"as on the unchanged frame {answer(one.right_deg, DEGREES)}, human {answer(one.label_deg, DEGREES)}",
        replay="",
        panels=(
            _panel("Original", original, "original", one.original, left, (("original", one.original_deg),)),
            _panel("Mutant, repaired", after, "repaired", one.mutant, right, on_mutant),
        ),
        is_bad=one.change is not Change.MENDED,
    )


def _panel(heading: str, said: str, kind: str, frame: NumpyFrames, alt: str, arrows: Sequence[tuple[str, float]]) -> Panel:
    source, width, height = embed(frame)
    return Panel(heading, said, kind, source, alt, width, height, tuple(_drawn(arrows, width, height)))


def _drawn(arrows: Sequence[tuple[str, float]], width: int, height: int) -> Iterator[Overlay]:
    # thin ones lie on top, since the wide ones would hide them
    for kind, angle in sorted(arrows, key=lambda arrow: arrow[0] == "label"):
        if np.isfinite(angle):
            yield overlay(kind, angle, width, height)
