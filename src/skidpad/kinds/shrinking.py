"""Minimising a finding: the smallest stimulus that still fails, whatever the stimulus is made of.

A stimulus has pieces, which can be left out (steps of a recipe, other vehicles, actions), and dials, which can be turned towards where
they change nothing (parameters, seconds). Delta debugging leaves out what is not needed, then each dial is turned back as far as the
failure lasts, until neither finds anything more.

Reference: Zeller and Hildebrandt, Simplifying and isolating failure-inducing input (2002), the algorithm ddmin.
Deviates: only complements are tried, since they alone decide 1-minimality, and those of one granularity are judged as one batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from skidpad.core.errors import SkidpadError
from skidpad.core.files import write_atomically
from skidpad.core.progress import Progress, silent
from skidpad.kinds.kind import kind_of

if TYPE_CHECKING:
    from skidpad.runs.folder import Run


S = TypeVar("S")

_MAX_ROUNDS = 50
"""Each round makes the stimulus smaller, so this only bounds a problem whose `dials` contradict themselves."""


class NothingFailsError(SkidpadError):
    """The stimulus to shrink does not fail."""


@dataclass(frozen=True, slots=True)
class Dial(Generic[S]):
    """One quantity of a stimulus: at level 0 it changes nothing, at `levels` it is as it stands.

    at: the stimulus with this dial alone at a level; None where there is no such stimulus.
    """

    name: str
    levels: int
    at: Callable[[int], S | None]


class Reducible(Protocol[S]):
    """A kind of stimulus that can be made smaller; stimuli are hashable, and equal ones fail alike."""

    @property
    def width(self) -> int:
        """How many stimuli are judged best at once."""
        ...

    def first_tries(self, stimulus: S) -> Sequence[S]:
        """Returns smaller stimuli that are likely to fail and make everything after them cheaper; mostly none."""
        ...

    def pieces(self, stimulus: S) -> int:
        """Returns how many pieces it has."""
        ...

    def dials(self, stimulus: S) -> Sequence[Dial[S]]:
        """Returns its dials that are not at level 0."""
        ...

    def without(self, stimulus: S, pieces: AbstractSet[int], dials: AbstractSet[int]) -> S | None:
        """Leaves out some pieces and puts some dials, by their places, to level 0; None where there is no such stimulus."""
        ...

    def fails(self, stimuli: Sequence[S]) -> Sequence[bool]:
        """Judges stimuli, at most `width`."""
        ...


@dataclass(frozen=True, slots=True)
class Minimum(Generic[S]):
    """A stimulus that fails, of which no piece can be left out and no dial turned one level back; and what it took to find it."""

    stimulus: S
    judged: int
    batches: int


def minimise(problem: Reducible[S], stimulus: S, progress: Progress = silent) -> Minimum[S]:
    """Shrinks a stimulus that fails; the same stimulus gives the same minimum."""
    jury = _Jury(problem, progress)
    if jury.first_failing([stimulus]) is None:
        raise NothingFailsError("the case does not fail any more, so there is nothing to shrink; `skidpad replay` shows what changed")
    found = jury.first_failing(problem.first_tries(stimulus))
    smallest = stimulus if found is None else problem.first_tries(stimulus)[found]
    for _ in range(_MAX_ROUNDS):
        before = smallest
        smallest = _turned(problem, jury, _left_out(problem, jury, smallest))
        if smallest == before:
            break
    return Minimum(smallest, jury.judged, jury.batches)


class _Jury(Generic[S]):
    """Judges stimuli in batches, each once."""

    def __init__(self, problem: Reducible[S], progress: Progress) -> None:
        self._problem = problem
        self._progress = progress
        self._known: dict[S, bool] = {}
        self.judged = 0
        self.batches = 0

    def first_failing(self, stimuli: Sequence[S | None]) -> int | None:
        """Returns the place of the first that fails; it does not hang on how many are judged at once."""
        for start in range(0, len(stimuli), self._problem.width):
            part = stimuli[start : start + self._problem.width]
            for place, failed in enumerate(self.verdicts(part)):
                if failed:
                    return start + place
        return None

    def verdicts(self, stimuli: Sequence[S | None]) -> list[bool]:
        """Judges at most a batch; what is no stimulus does not fail."""
        new = list(dict.fromkeys(each for each in stimuli if each is not None and each not in self._known))
        if new:
            self._known.update(zip(new, map(bool, self._problem.fails(new)), strict=True))
            self.judged += len(new)
            self.batches += 1
            self._progress(self.judged, 0, "smaller stimuli judged")
        return [each is not None and self._known[each] for each in stimuli]


def _left_out(problem: Reducible[S], jury: _Jury[S], stimulus: S) -> S:
    """Delta debugging over the pieces, and over the dials as if each were one."""
    pieces = problem.pieces(stimulus)
    atoms = tuple(range(pieces + len(problem.dials(stimulus))))

    def keeping(kept: Sequence[int]) -> S | None:
        gone = set(atoms) - set(kept)
        return problem.without(stimulus, {atom for atom in gone if atom < pieces}, {atom - pieces for atom in gone if atom >= pieces})

    kept, parts = atoms, 1
    while kept:
        options = [tuple(atom for atom in kept if atom not in chunk) for chunk in _chunks(kept, parts)]
        found = jury.first_failing([keeping(option) for option in options])
        if found is not None:
            kept, parts = options[found], max(parts - 1, 1)
        elif parts == len(kept):
            break
        else:
            parts = min(2 * parts, len(kept))
    smallest = keeping(kept)
    return stimulus if smallest is None else smallest


def _turned(problem: Reducible[S], jury: _Jury[S], stimulus: S) -> S:
    """Turns one dial after the other back; a dial that another one took along is left alone."""
    for name in [dial.name for dial in problem.dials(stimulus)]:
        dial = next((each for each in problem.dials(stimulus) if each.name == name), None)
        if dial is None:
            continue
        passing, failing = -1, dial.levels
        while failing - passing > 1:
            levels = _between(passing, failing, problem.width)
            verdicts = jury.verdicts([dial.at(level) for level in levels])
            first = next((place for place, failed in enumerate(verdicts) if failed), len(levels))
            if first < len(levels):
                failing = levels[first]
            if first > 0:
                passing = levels[first - 1]
        smaller = dial.at(failing) if failing < dial.levels else None
        stimulus = stimulus if smaller is None else smaller
    return stimulus


def _between(low: int, high: int, count: int) -> list[int]:
    """Returns at most `count` whole numbers strictly between two, evenly, rising."""
    inner = np.linspace(low, high, min(count, high - low - 1) + 2)[1:-1]
    return sorted({min(max(round(value), low + 1), high - 1) for value in inner.tolist()})


def _chunks(items: Sequence[int], parts: int) -> Iterator[Sequence[int]]:
    edges = [round(place * len(items) / parts) for place in range(parts + 1)]
    return (items[start:stop] for start, stop in pairwise(edges))


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that shrinking changed, in words; `after` is "left out" for a piece that is gone."""

    name: str
    before: str
    after: str


LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True, eq=False)
class Shrunk:
    """A finding, its smallest case as a row of the same columns, what differs, and what it took."""

    row: Mapping[str, Any]
    smallest: Mapping[str, Any]
    changes: tuple[Change, ...]
    judged: int
    batches: int

    @property
    def fails_unchanged(self) -> bool:
        """Whether nothing is left of the changes to a frame, which then fails as it is; of drives and duels a scenario is left."""
        return "frame_id" in self.smallest and "recipe" in self.smallest and not json.loads(self.smallest["recipe"])


def unchanged_words(shrunk: Shrunk) -> str:
    """Says that no transform is at fault."""
    return (
        f"frame {shrunk.smallest['frame_id']} fails without any change: the network breaks the relation on the frame as it was recorded, "
        "so that the transform is not the cause"
    )


def shrink_finding(campaign: Any, run: Run, prefix: str, progress: Progress = silent) -> Shrunk:
    """Finds the smallest case that still fails, from the finding whose case id begins with `prefix`.

    campaign: of the kind that the run names, as `load_campaign` gives it; its subject may be a newer one.
    """
    row = run.find_row(prefix)
    if not row["violated"]:
        raise SkidpadError(f"the case {row['case_id']} is no finding, so there is nothing to shrink; `skidpad report` lists findings")
    found: Shrunk = kind_of(run).part("shrink", "shrunk")(campaign, run, row, progress)
    return found


SHRUNK = "shrunk.json"
_STIMULI = ("recipe", "scenario", "front_actions")


def write_shrunk(campaign: Any, run: Run, shrunk: Shrunk, folder: Path) -> tuple[Path, ...]:
    """Writes `shrunk.json` and pictures of before and after; returns the files. Files of an earlier shrinking are replaced."""
    exporter = kind_of(run).part("exporter", "exported")(campaign, run)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / SHRUNK, (json.dumps(shrunk_table(shrunk), indent=2, ensure_ascii=False) + "\n").encode())
    except OSError as error:
        raise SkidpadError(f"cannot write to {folder}: {error.strerror}; choose another --out") from error
    drawn = [path for stem, row in (("before", shrunk.row), ("after", shrunk.smallest)) for path in exporter.draw(row, folder, stem)]
    return (folder / SHRUNK, *drawn)


def shrunk_table(shrunk: Shrunk) -> dict[str, Any]:
    """Returns a shrunk finding as plain values: both stimuli, the changes and what it took."""
    return {
        "case_id": shrunk.row["case_id"],
        "smallest_case_id": shrunk.smallest["case_id"],
        "changes": [asdict(change) for change in shrunk.changes],
        "before": _stimulus(shrunk.row),
        "after": _stimulus(shrunk.smallest),
        "excess_before": _number(shrunk.row["excess"]),
        "excess_after": _number(shrunk.smallest["excess"]),
        "fails_unchanged": shrunk.fails_unchanged,
        "judged": shrunk.judged,
        "batches": shrunk.batches,
    }


def _stimulus(row: Any) -> dict[str, Any]:
    texts = {name: row[name] for name in _STIMULI if name in row}
    return {name: json.loads(text) if text[:1] in {"[", "{"} else text for name, text in texts.items()}


def _number(value: float) -> float | None:
    return value if isfinite(value) else None
