"""Runs side by side: whether their findings may be matched, and what became of each; by the rules of the gate."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from skidpad.core.errors import SkidpadError
from skidpad.page.wording import plain
from skidpad.ui.views import RateWords, RunLine, page, place_words, rate_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skidpad.core.images import BoolArray, IntArray
    from skidpad.page.model import Table
    from skidpad.runs.gate import Cases
    from skidpad.statistics.intervals import Interval
    from skidpad.ui.library import Library
    from skidpad.ui.run_view import RunView


MAX_LISTED = 30
MAX_GROUPS = 16


@dataclass(frozen=True, slots=True)
class Listed:
    """One finding of a list: its case id, what it is, and how far it went."""

    case_id: str
    title: str
    said: str


@dataclass(frozen=True, slots=True)
class Change:
    """What became of the findings of the baseline in another run: the worst of each kind, and how many there are.

    reasons: why their findings are not matched, in words; nothing is counted then. common: cases that both runs have.
    """

    name: str
    key: str
    base_key: str
    reasons: tuple[str, ...] = ()
    common: int = 0
    new: tuple[Listed, ...] = ()
    fixed: tuple[Listed, ...] = ()
    kept: tuple[Listed, ...] = ()
    counts: tuple[int, int, int] = (0, 0, 0)


def changes(views: list[RunView]) -> list[Change]:
    """Compares each later run with the first, the baseline."""
    return [_change(other, views[0]) for other in views[1:]]


def groups(views: list[RunView]) -> list[tuple[str, list[RateWords | None]]]:
    """Returns the rates of every group that the runs have, with the gate's intervals, a column a run; those that most runs share first."""
    found = [_rates(view) for view in views]
    highest: dict[str, float] = {}
    for rates in found:
        for name, each in rates.items():
            highest[name] = max(highest.get(name, 0.0), each.estimate if isfinite(each.estimate) else 0.0)
    shared = {name: sum(name in rates for rates in found) for name in highest}
    names = sorted(highest, key=lambda name: (-shared[name], -highest[name], name))
    return [
        (
            name,
            [
                rate_words(rate, round(rate.estimate * rate.n), rate.n, f"g{row}-{column}")
                if (rate := rates.get(name)) and rate.n
                else None
                for column, rates in enumerate(found)
            ],
        )
        for row, name in enumerate(names[:MAX_GROUPS])
    ]


def overall(view: RunView) -> RateWords | None:
    """Returns the rate of a run with the gate's interval; None where several were tested, or nothing could be judged."""
    cases = None if view.exhibit.apart else _judged(view)
    if cases is None:
        return None
    clusters = cases.clusters
    return rate_words(clusters.interval(), clusters.failed, clusters.total, f"rate-{view.found.key}")


def _rates(view: RunView) -> dict[str, Interval]:
    if view.exhibit.apart:
        # the gate's groups would put several egos into one; its intervals are the same, for every episode stands alone
        return {" · ".join(group.values): group.rates.rate for group in view.digest().groups}
    cases = _judged(view)
    return {} if cases is None else {plain(name, 120): cases.of(name).clusters.interval() for name in cases.groups}


def _judged(view: RunView) -> Cases | None:
    try:
        return view.cases()
    except SkidpadError:
        return None  # the page says elsewhere why a run cannot be read


def _change(other: RunView, base: RunView) -> Change:
    name, key, base_key = plain(other.found.name, 120), other.found.key, base.found.key
    now = then = None
    reasons = _reasons(other, base)
    if not reasons:
        try:
            now, then = other.cases(), base.cases()
        except SkidpadError as error:
            reasons = (plain(str(error), 400),)
    if now is None or then is None:
        return Change(name, key, base_key, reasons)
    mine, theirs = now.shared_with(then)
    failed, before = now.failed[mine], then.failed[theirs]
    new, fixed, kept = failed & ~before, ~failed & before, failed & before
    return Change(
        name,
        key,
        base_key,
        common=len(mine),
        new=_worst(other, now, mine, new),
        fixed=_worst(base, then, theirs, fixed),
        kept=_worst(other, now, mine, kept),
        counts=(int(new.sum()), int(fixed.sum()), int(kept.sum())),
    )


def _reasons(other: RunView, base: RunView) -> tuple[str, ...]:
    from skidpad.kinds.gating import differences  # noqa: PLC0415  nobody needs it before two runs are compared

    names = tuple(f"in {plain(view.found.name, 80)}" for view in (other, base))
    try:
        return tuple(plain(reason, 400) for reason in differences(other.run, base.run, *names))
    except SkidpadError as error:
        return (plain(str(error), 400),)


def _worst(view: RunView, cases: Cases, places: IntArray, chosen: BoolArray) -> tuple[Listed, ...]:
    found = cases.take(places[chosen])
    order = np.argsort(-found.excess, kind="stable")[:MAX_LISTED]
    ids = [each.decode("utf-8", "replace") for each in found.case_id[order].tolist()]
    lines = view.reader().named(ids)
    return tuple(Listed(each, *view.said(lines[each].values)) for each in ids if each in lines)


MAX_COMPARED = 6


@dataclass(frozen=True, slots=True)
class Compared:
    """One run of a comparison. as_baseline: the address of the same with this one as the baseline. rate: as the gate takes it."""

    line: RunLine
    key: str
    as_baseline: str
    rate: RateWords | None


def _beside(views: Sequence[RunView]) -> Table | None:
    """Returns the table in which a kind of run compares several of its own; None where they are of several kinds, or it has none."""
    from skidpad.kinds.kind import kind_of  # noqa: PLC0415  nobody needs it before two runs are compared

    try:
        kinds = {id(kind): kind for kind in (kind_of(view.run) for view in views)}
        parts = [kind.side_by_side for kind in kinds.values()]
        return parts[0]([view.run for view in views]) if len(parts) == 1 and parts[0] is not None and len(views) > 1 else None
    except SkidpadError:
        return None  # of a kind that is unknown here, or without what it was made from


def list_routes(library: Library) -> APIRouter:
    """Returns the addresses of all runs together."""
    router = APIRouter()

    @router.get("/")
    def show_runs() -> HTMLResponse:
        return page("runs.jinja", lines=library.lines(), root=place_words(library.folder.root))

    @router.get("/compare")
    def compare(request: Request) -> HTMLResponse:
        keys = list(dict.fromkeys(request.query_params.getlist("run")))[:MAX_COMPARED]
        # The oldest run is what the others are compared with, in whatever order they were chosen, unless another is asked for.
        base = request.query_params.get("base", "")
        views = [library.view(key) for key in keys]
        lines = {view.found.key: library.line(view.found) for view in views}
        views.sort(key=lambda view: (view.found.key != base, lines[view.found.key].created))
        chosen = "&".join(f"run={view.found.key}" for view in views)
        return page(
            "compare.jinja",
            runs=[
                Compared(lines[each.found.key], each.found.key, f"/compare?{chosen}&base={each.found.key}", overall(each)) for each in views
            ],
            groups=groups(views),
            changes=changes(views),
            beside=_beside(views),
            limit=MAX_LISTED,
        )

    return router
