"""The pages of the questionnaire: begin, answer, thank, and the tally."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from skidpad.core.errors import UnknownNameError
from skidpad.page.svg import add, drawing, write
from skidpad.page.wording import count, percent, plain
from skidpad.ui.library import PictureCache
from skidpad.ui.study import ApproachTally, Background, Preference, Recognition, Study, tally
from skidpad.ui.views import RateWords, page, place_words, rate_words

if TYPE_CHECKING:
    from collections.abc import Sequence

_STRIP_WIDTH, _STRIP_HEIGHT = 480.0, 34.0


def study_routes(study: Study | None) -> APIRouter:
    """Returns the addresses below /study; without a study they say how to make one."""
    router = APIRouter(prefix="/study")
    if study is None:

        @router.get("")
        def explain() -> HTMLResponse:
            return page("study_none.jinja")

        return router
    cache = PictureCache(32 << 20)

    @router.get("")
    def begin() -> HTMLResponse:
        return page("study_begin.jinja", pairs=len(study.pairs), backgrounds=[each.value for each in Background])

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
            "study_tally.jinja",
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
            return page("study_thanks.jinja", participant=participant)
        return page(
            "study_question.jinja",
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
