"""The pages of one run: its findings, one of them, its pictures, its progress, its report."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from skidpad.core.errors import SkidpadError, UnknownNameError
from skidpad.core.images import decode
from skidpad.kinds.exhibits import Form, Motion, PictureSide, Sight
from skidpad.page.model import damage_of
from skidpad.page.pictures import ALREADY
from skidpad.page.wording import plain
from skidpad.runs.findings import run_doubts
from skidpad.runs.tags import Tag
from skidpad.ui.reading import PAGE_ROWS, UNTAGGED, Question, Show, View
from skidpad.ui.views import fact_rows, page, pair_view, rate_words, setting_rows

if TYPE_CHECKING:
    from skidpad.ui.library import Library
    from skidpad.ui.reading import Line
    from skidpad.ui.run_view import Digest, RunView

CARDS = 24
WORST_FILMS = 4
_FRESH = {"cache-control": "private, max-age=300"}
FOREIGN_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; sandbox"
"""For files in a run's folder, e.g. its report and its films: they may show themselves and do nothing."""


def run_routes(library: Library) -> APIRouter:
    """Returns the addresses below /runs."""
    router = APIRouter(prefix="/runs/{key}")

    @router.get("")
    def show_run(request: Request, key: str) -> HTMLResponse:
        view = library.view(key)
        question = _question(request)
        digest = view.digest()
        groups = [
            (group, rate_words(group.rates.rate, group.rates.findings, group.rates.cases, f"group-{number}"))
            for number, group in enumerate(digest.groups)
        ]
        return page(
            "run.jinja",
            line=library.line(view.found, counted=False),
            groups=groups,
            worst=_worst(view, digest),
            failed=digest.rates.findings > 0,
            choices=digest.choices,
            phases=view.run.phases(),
            settings=setting_rows(view.run.config),
            doubts=[plain(doubt.said, 1000) for doubt in run_doubts(view.run)],
            notices=damage_of(view.run),
            damaged=[plain(name, 120) for name in view.run.damaged],
            untagged=UNTAGGED,
            **_status(view),
            **_results(view, question),
        )

    @router.get("/rows")
    def show_rows(request: Request, key: str) -> HTMLResponse:
        return page("results.jinja", **_results(library.view(key), _question(request)))

    @router.get("/status")
    def show_status(key: str) -> HTMLResponse:
        view = library.view(key)
        return page("status.jinja", **_status(view))

    @router.get("/line")
    def show_line(key: str) -> HTMLResponse:
        return page("line.jinja", line=library.line(library.folder.find(key)))

    @router.get("/report")
    def show_report(key: str) -> Response:
        html = library.view(key).report()
        return Response(html, media_type="text/html; charset=utf-8", headers={"content-security-policy": FOREIGN_POLICY})

    @router.get("/at/{number}")
    def go_to(request: Request, key: str, number: int) -> RedirectResponse:
        view, question = library.view(key), _question(request)
        line = view.reader().at(question, number)
        if line is None:
            raise UnknownNameError("there is no finding at this place (any more); go back to the list")
        return RedirectResponse(_case_address(view, line, question), 303)

    @router.get("/cases/{case_id}")
    def show_case(request: Request, key: str, case_id: str) -> HTMLResponse:
        view, question = library.view(key), _question(request)
        return page("case.jinja", **_case(library, view, case_id, question, _whole(request.query_params.get("at", ""))))

    @router.post("/cases/{case_id}/tag")
    async def put_tag(request: Request, key: str, case_id: str) -> Response:
        given = parse_qs((await request.body()).decode("utf-8", "replace"), keep_blank_values=True)
        said = given.get("tag", [""])[0]

        def put() -> None:
            library.view(key).put_tag(case_id, Tag.of(said) if said else None)

        await run_in_threadpool(put)
        if request.headers.get("x-skidpad") == "script":
            return Response(status_code=204)
        return RedirectResponse(f"/runs/{key}/cases/{case_id}?{given.get('back', [''])[0]}", 303)

    @router.get("/cases/{case_id}/{side}.jpg")
    def show_picture(key: str, case_id: str, side: PictureSide) -> Response:
        return Response(library.picture(library.view(key), case_id, side), media_type="image/jpeg", headers=_FRESH)

    @router.get("/cases/{case_id}/{motion}.svg")
    def show_film(key: str, case_id: str, motion: Motion) -> Response:
        data = library.film(library.view(key), case_id, motion)
        return Response(data, media_type="image/svg+xml", headers={**_FRESH, "content-security-policy": FOREIGN_POLICY})

    return router


def _question(request: Request) -> Question:
    return Question.of(dict(request.query_params))


def _results(view: RunView, question: Question) -> dict[str, Any]:
    rows = CARDS if question.view is View.PICTURES else PAGE_ROWS
    found = view.reader().page(question, rows)
    pages = max(1, -(-found.total // rows))
    shown = [column for column in view.columns if column.form is not Form.HIDDEN]
    exhibit = view.exhibit
    sights = [Sight.NOTHING if question.view is View.TABLE else _sight(view, line) for line in found.lines]
    return {
        "key": view.found.key,
        "question": question,
        "rule": view.rule(),
        "columns": shown,
        "lines": [
            (
                line,
                _case_address(view, line, question),
                sight,
                *(view.words(line.values) if question.view is View.PICTURES else ("", "")),
            )
            for line, sight in zip(found.lines, sights, strict=True)
        ],
        "total": found.total,
        "first": question.page * rows + 1 if found.lines else 0,
        "last": question.page * rows + len(found.lines),
        "pages": pages,
        "cases": exhibit.cases if question.show is Show.ALL else "findings",
        "sort_words": {column.name: _turned(question, column.name, is_number=column.is_number) for column in shown},
    }


def _worst(view: RunView, digest: Digest) -> list[tuple[str, Line, Sight, str, str]]:
    """Returns the worst finding of each group, to be looked at first; none where the kind has nothing to look at."""
    shown = [(f"/runs/{view.found.key}/cases/{line.case_id}", line, _sight(view, line), *view.words(line.values)) for line in digest.worst]
    films = any(sight is Sight.FILM for _, _, sight, _, _ in shown)
    return [each for each in shown if each[2] is not Sight.NOTHING][: WORST_FILMS if films else None]


def _sight(view: RunView, line: Line) -> Sight:
    """Tells what a line shows; packed columns are not at hand here, so that a film is taken for granted where the kind has films."""
    packed = {column.name: b"        " for column in view.columns if column.form is Form.HIDDEN}
    return view.exhibit.sight({**packed, **line.values})


def _turned(question: Question, name: str, *, is_number: bool) -> str:
    descending = not question.descending if question.sort == name else is_number
    return question.parameters(sort=name, descending=descending, page=0)


def _case_address(view: RunView, line: Line, question: Question) -> str:
    parameters = question.parameters(page=0)
    return f"/runs/{view.found.key}/cases/{line.case_id}?at={line.number}{'&' if parameters else ''}{parameters}"


def _status(view: RunView) -> dict[str, Any]:
    digest, state = view.digest(), view.state
    rates = digest.rates
    try:
        shards = view.shards()
    except SkidpadError:
        shards = {}  # the drive cannot be opened to see how long it is
    done, total = (sum(each[place] for each in shards.values()) for place in (0, 1))
    return {
        "view": view,
        "state": state.value,
        "shards": shards,
        "done": done,
        "total_shards": total if all(each[1] for each in shards.values()) else 0,
        "rates": rates,
        "already_broken": digest.already_broken,
        "parts": [
            (part.values[0], rate_words(part.rates.rate, part.rates.findings, part.rates.cases, f"part-{number}"))
            for number, part in enumerate(digest.parts)
        ],
        "rate": rate_words(rates.rate, rates.findings, rates.cases, "rate"),
        "confirmed": rate_words(rates.confirmed, rates.real_faults, rates.cases, "confirmed"),
        "possible": rate_words(rates.without_false_alarms, rates.findings - rates.false_alarms, rates.cases, "possible"),
        "precision": rate_words(rates.precision, rates.real_faults, rates.real_faults + rates.false_alarms, "precision"),
    }


def _case(library: Library, view: RunView, case_id: str, question: Question, at: int | None) -> dict[str, Any]:
    row = view.row(case_id)
    exhibit, sight = view.exhibit, view.exhibit.sight(row)
    title, verdict = view.words(row)
    problem = ""
    pair = None
    if sight is Sight.PAIR:
        try:
            pair = pair_view(exhibit.answers(row), *_size(library.picture(view, case_id, PictureSide.ORIGINAL)), view.exhibit.rule.scale)
        except SkidpadError as error:
            problem = plain(str(error), 400)
    asked = replace(question, page=0)
    total = view.reader().page(asked, 1).total if at is not None else 0
    tag = view.tag_of(case_id)
    parameters = asked.parameters()
    rows = CARDS if question.view is View.PICTURES else PAGE_ROWS
    place = "worst" if at is None else "case"
    return {
        "view": view,
        "key": view.found.key,
        "case_id": case_id,
        "title": title,
        "told": exhibit.told(row),
        "verdict": verdict,
        "violated": bool(row["violated"]),
        "rule": (rule := view.rule()),
        "mark": ALREADY if rule.is_already_broken(row) else "",
        "sight": sight,
        "pair": pair,
        "problem": problem,
        "facts": [("phase", plain(str(row["phase"]), 40)), *fact_rows(view.columns, row)],
        "tag": tag.value if tag is not None else "",
        "at": at,
        "total": total,
        "parameters": parameters,
        "back": f"/runs/{view.found.key}?{asked.parameters(page=(at or 0) // rows)}#{place}-{quote(case_id, safe='')}",
        "stay": f"at={at}&{parameters}" if at is not None else parameters,
        "replay": f"skidpad replay {_quoted(view)} {case_id}",
        "shrink": f"skidpad shrink {_quoted(view)} {case_id}",
        "export": f"skidpad export {_quoted(view)} {case_id} --out finding-{case_id}",
    }


def _quoted(view: RunView) -> str:
    return plain(shlex.quote(str(view.found.path)), 400)


def _size(jpeg: bytes) -> tuple[int, int]:
    frame = decode(jpeg)
    return (frame.shape[1], frame.shape[0]) if frame is not None else (640, 480)


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
