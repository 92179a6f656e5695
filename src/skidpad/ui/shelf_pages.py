"""The pages over all runs: the list, and some of them side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from skidpad.report.wording import plain
from skidpad.ui.templating import page
from skidpad.ui.views import RateWords, RunLine, place_words, rate_words, run_line

if TYPE_CHECKING:
    from skidpad.ui.library import Library
    from skidpad.ui.volumes import Volume

MAX_COMPARED = 6
MAX_LISTED = 30


@dataclass(frozen=True, slots=True)
class Compared:
    """One run of a comparison."""

    line: RunLine
    key: str


@dataclass(frozen=True, slots=True)
class Change:
    """What became of the findings of the first run in another: case ids of the worst of each kind, and how many there are.

    same_ground: whether both tested the same drive or scenarios; else equal case ids name different pictures.
    """

    name: str
    key: str
    base_key: str
    same_ground: bool
    new: tuple[str, ...]
    fixed: tuple[str, ...]
    kept: tuple[str, ...]
    counts: tuple[int, int, int]


def shelf_routes(library: Library) -> APIRouter:
    """Returns the addresses of all runs together."""
    router = APIRouter()

    @router.get("/")
    def show_shelf() -> HTMLResponse:
        lines = [run_line(summary) for summary in library.summaries()]
        return page("shelf.jinja", lines=lines, root=place_words(library.shelf.root))

    @router.get("/compare")
    def compare(request: Request) -> HTMLResponse:
        keys = list(dict.fromkeys(request.query_params.getlist("run")))[:MAX_COMPARED]
        # The older run is what the newer ones are compared with, in whatever order they were chosen.
        volumes = sorted((library.volume(key) for key in keys), key=lambda volume: library.summary(volume.found).created)
        return page(
            "compare.jinja",
            runs=[Compared(run_line(library.summary(volume.found)), volume.found.key) for volume in volumes],
            groups=_groups(volumes),
            changes=_changes(volumes),
            limit=MAX_LISTED,
        )

    return router


def _groups(volumes: list[Volume]) -> list[tuple[str, list[RateWords | None]]]:
    """Returns the rates of every group that the runs have, a column a run; those that most runs share first."""
    found = [{" · ".join(group.values): group.rates for group in volume.digest().groups} for volume in volumes]
    highest: dict[str, float] = {}
    for rates in found:
        for name, rate in rates.items():
            highest[name] = max(highest.get(name, 0.0), rate.findings / max(rate.cases, 1))
    shared = {name: sum(name in rates for rates in found) for name in highest}
    names = sorted(highest, key=lambda name: (-shared[name], -highest[name], name))
    return [
        (
            name,
            [
                rate_words(rates[name].rate, rates[name].findings, rates[name].cases, f"g{row}-{column}") if name in rates else None
                for column, rates in enumerate(found)
            ],
        )
        for row, name in enumerate(names)
    ]


def _changes(volumes: list[Volume]) -> list[Change]:
    """Compares the findings of each later run with those of the first: the same frame and recipe have one case id in every run."""
    if len(volumes) < 2:
        return []
    base = dict.fromkeys(volumes[0].reader().failing())
    changes = []
    for other in volumes[1:]:
        theirs = dict.fromkeys(other.reader().failing())
        new = [case for case in theirs if case not in base]
        fixed = [case for case in base if case not in theirs]
        kept = [case for case in theirs if case in base]
        changes.append(
            Change(
                plain(other.found.name, 120),
                other.found.key,
                volumes[0].found.key,
                _ground(other) == _ground(volumes[0]),
                new=tuple(new[:MAX_LISTED]),
                fixed=tuple(fixed[:MAX_LISTED]),
                kept=tuple(kept[:MAX_LISTED]),
                counts=(len(new), len(fixed), len(kept)),
            )
        )
    return changes


def _ground(volume: Volume) -> tuple[str, ...]:
    """What the cases of a run are made of; the hash of the drive or the scenarios where it is known, else their name."""
    hashes = volume.run.manifest.hashes
    return tuple(hashes.get(name) or volume.setting(name) for name in ("drive", "scenarios", "scenario"))
