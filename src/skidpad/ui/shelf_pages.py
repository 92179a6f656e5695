"""The pages over all runs: the list, and some of them side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from skidpad.ui.comparing import MAX_LISTED, changes, groups, overall
from skidpad.ui.templating import page
from skidpad.ui.views import RateWords, RunLine, place_words, run_line

if TYPE_CHECKING:
    from skidpad.ui.library import Library

MAX_COMPARED = 6


@dataclass(frozen=True, slots=True)
class Compared:
    """One run of a comparison. as_baseline: the address of the same with this one as the baseline. rate: as the gate takes it."""

    line: RunLine
    key: str
    as_baseline: str
    rate: RateWords | None


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
        # The oldest run is what the others are compared with, in whatever order they were chosen, unless another is asked for.
        base = request.query_params.get("base", "")
        volumes = [library.volume(key) for key in keys]
        summaries = {volume.found.key: library.summary(volume.found) for volume in volumes}
        volumes.sort(key=lambda volume: (volume.found.key != base, summaries[volume.found.key].created))
        chosen = "&".join(f"run={volume.found.key}" for volume in volumes)
        return page(
            "compare.jinja",
            runs=[
                Compared(run_line(summaries[each.found.key]), each.found.key, f"/compare?{chosen}&base={each.found.key}", overall(each))
                for each in volumes
            ],
            groups=groups(volumes),
            changes=changes(volumes),
            limit=MAX_LISTED,
        )

    return router
