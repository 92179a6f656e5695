"""The pages over several runs: the list, two side by side by the rules of the gate, and questionnaires."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import numpy as np
from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from skidpad.core.errors import SkidpadError, UnknownNameError
from skidpad.page.svg import add, drawing, write
from skidpad.page.wording import count, percent, plain
from skidpad.ui.library import PictureCache
from skidpad.ui.study import ApproachTally, Background, Preference, Recognition, Study, tally
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
class FindingsChange:
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


def changes(views: list[RunView]) -> list[FindingsChange]:
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


def _change(other: RunView, base: RunView) -> FindingsChange:
    name, key, base_key = plain(other.found.name, 120), other.found.key, base.found.key
    now = then = None
    reasons = _reasons(other, base)
    if not reasons:
        try:
            now, then = other.cases(), base.cases()
        except SkidpadError as error:
            reasons = (plain(str(error), 400),)
    if now is None or then is None:
        return FindingsChange(name, key, base_key, reasons)
    mine, theirs = now.shared_with(then)
    failed, before = now.failed[mine], then.failed[theirs]
    new, fixed, kept = failed & ~before, ~failed & before, failed & before
    return FindingsChange(
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
class ComparedRun:
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
                ComparedRun(lines[each.found.key], each.found.key, f"/compare?{chosen}&base={each.found.key}", overall(each))
                for each in views
            ],
            groups=groups(views),
            changes=changes(views),
            beside=_beside(views),
            limit=MAX_LISTED,
        )

    return router


_STRIP_WIDTH, _STRIP_HEIGHT = 480.0, 34.0


def study_routes(study: Study | None) -> APIRouter:
    """Returns the addresses below /study; without a study they say how to make one."""
    router = APIRouter(prefix="/study")
    if study is None:

        @router.get("")
        def explain() -> HTMLResponse:
            return page("study/none.jinja")

        return router
    cache = PictureCache(32 << 20)

    @router.get("")
    def begin() -> HTMLResponse:
        return page("study/begin.jinja", pairs=len(study.pairs), backgrounds=[each.value for each in Background])

    @router.post("/participants")
    async def enter(request: Request) -> RedirectResponse:
        said = _form(await request.body()).get("background", Background.OTHER.value)
        known = {each.value: each for each in Background}
        if said not in known:
            raise UnknownNameError.among("background", plain(said, 40), known)
        participant = await run_in_threadpool(study.begin, known[said])
        return RedirectResponse(f"/study/{participant}", 303)

    @router.get("/tally")
    def show_tally() -> HTMLResponse:
        found = tally(study)
        return page(
            "study/tally.jinja",
            found=found,
            people=[(each.value, found.participants[each]) for each in Background if found.participants[each]],
            realism=[
                (row, _strip(f"five-{n}", row.approach, [(each.value, row.preferences[each]) for each in Preference]), _real(row, n))
                for n, row in enumerate(found.approaches)
            ],
            recognition=[
                (row, _strip(f"six-{n}", row.approach, [(each.value, row.recognitions[each]) for each in Recognition]), _right(row, n))
                for n, row in enumerate(found.approaches)
                if row.recognitions.total()
            ],
            preferences=[each.value for each in Preference],
            recognitions=[each.value for each in Recognition],
            file=place_words(study.journal.path),
        )

    @router.get("/pictures/{key}.jpg")
    def show_picture(key: str) -> Response:
        picture = study.pictures.get(key)
        if picture is None:
            raise UnknownNameError("no such picture belongs to the questionnaire")
        return Response(cache.get(key, picture.shown), media_type="image/jpeg", headers={"cache-control": "private, max-age=3600"})

    @router.get("/{participant}")
    def ask(participant: str, at: int | None = None) -> HTMLResponse:
        answered = study.answered(participant)
        number = at - 1 if at is not None else next((n for n in range(study.count) if n not in answered), None)
        if number is None:
            return page("study/thanks.jinja", participant=participant)
        return page(
            "study/question.jinja",
            participant=participant,
            question=study.question(number),
            chosen=answered.get(number, ""),
            done=len(answered),
            count=study.count,
        )

    @router.post("/{participant}")
    async def answer(request: Request, participant: str) -> RedirectResponse:
        given = _form(await request.body())
        number = given.get("number", "")
        if not (number.isascii() and number.isdigit() and len(number) < 7):
            raise UnknownNameError("an answer says to which question it belongs")
        await run_in_threadpool(study.answer, participant, int(number), given.get("choice", ""))
        return RedirectResponse(f"/study/{participant}", 303)

    return router


def _form(body: bytes) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}


def _real(row: ApproachTally, number: int) -> RateWords:
    return rate_words(row.real_chosen, row.preferences[Preference.REAL], row.preferences.total(), f"real-{number}")


def _right(row: ApproachTally, number: int) -> RateWords:
    return rate_words(row.recognised, row.recognitions[Recognition.RIGHT], row.recognitions.total(), f"right-{number}")


def _strip(key: str, approach: str, parts: Sequence[tuple[str, int]]) -> str:
    """Draws the shares of the answers as one bar."""
    total = sum(hits for _, hits in parts)
    said = ", ".join(f"{name} {percent(hits / total)}" for name, hits in parts) if total else "no answers yet"
    root = drawing(key, plain(approach, 60), said, _STRIP_HEIGHT, _STRIP_WIDTH)
    root.set("class", "shares")
    left = 0.0
    for place, (_, hits) in enumerate(parts):
        width = _STRIP_WIDTH * hits / total if total else 0.0
        if width > 0.0:
            add(root, "rect", x=left, y=0.0, width=width, height=_STRIP_HEIGHT, class_=f"share-{place}")
        if width > 44.0:
            add(root, "text", percent(hits / total), x=left + width / 2.0, y=22.0, text_anchor="middle", class_=f"on-{place}")
        left += width
    if not total:
        add(root, "rect", x=0.0, y=0.0, width=_STRIP_WIDTH, height=_STRIP_HEIGHT, class_="ground")
        add(root, "text", f"{count(0)} answers", x=_STRIP_WIDTH / 2.0, y=22.0, text_anchor="middle", class_="none")
    return write(root)
