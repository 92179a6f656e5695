"""Runs under learned weathers on the command line, and several of them side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from skidpad.kinds.pictures.presenter import DeepTestPresenter
from skidpad.page.terminal import print_json, say, table

if TYPE_CHECKING:
    from pathlib import Path

    from skidpad.kinds.pictures.weather.campaign import DeepRoad
    from skidpad.kinds.pictures.weather.summary import BoundCount, Conditions, Ranked, RoadSummary


@dataclass(frozen=True)
class DeepRoadPresenter(DeepTestPresenter):
    """Shows a run of `skidpad weather test`."""

    campaign: DeepRoad

    @cached_property
    def _found(self) -> RoadSummary:
        from skidpad.kinds.pictures.weather.summary import summarise_road

        return summarise_road(self.run, self.campaign)

    def payload(self) -> Mapping[str, object]:
        """Returns the counts at every error bound."""
        from skidpad.kinds.pictures.weather.page import road_warnings

        found = self._found
        return {
            "output": self.campaign.judged.name,
            "originals": found.originals,
            "spread_deg": found.spread_deg,
            "rmse_rad": found.rmse_rad,
            "thresholds_deg": list(self.campaign.road.thresholds_deg),
            "overall": conditions_json(found.overall),
            "by_weather": [conditions_json(each) for each in found.by_weather],
            "by_style": [conditions_json(each) for each in found.by_style],
            "problems": len(found.problems),
            "warnings": list(road_warnings(self.campaign)),
        }

    def show(self) -> None:
        """Prints the counts by weather and the worst finding's replay command."""
        from skidpad.kinds.pictures.weather.page import road_warnings, style_words, tried_words
        from skidpad.page.wording import counted
        from skidpad.runs.worst import worst_finding

        found, run, campaign = self._found, self.run, self.campaign
        bounds = [f"{bound:g} deg" for bound in campaign.road.thresholds_deg]
        whole = [*found.by_weather, *([found.overall] if len(found.by_weather) > 1 else [])]
        rows = [
            (each.weather, *(bound.inconsistent for bound in each.counts), each.cases, share_words(each.counts[0]), each.mean_deg)
            for each in whole
        ]
        columns = ("weather", *bounds, "answers", f"share at {bounds[0]} (95 % interval)", "mean change (deg)")
        for warning in road_warnings(campaign):
            say(f"warning: {warning}")
        table("inconsistent answers", columns, rows)
        say(f"tried: {tried_words(campaign, found)}")
        words = style_words(campaign)
        if words:
            say(f"styles of MUNIT weathers: {words}")
        say(
            f"the answers on the frames as they are spread by {found.spread_deg:.1f} deg: a network that hardly steers is always consistent"
        )
        if campaign.window_words:
            say(f"memory: each weather is {campaign.window_words}")
        if campaign.road.subject_device != campaign.road.device:
            say(f"note: the subject cannot run on {campaign.road.device}, so it ran on {campaign.road.subject_device}")
        for name, looks in campaign.weathers.items():
            if looks.is_halved:
                say(f"note: the GPU ran out of memory, so {name} translated {looks.weather.batch_size} frames at a time")
        if found.overall.not_finite:
            say(f"{found.overall.not_finite} answers under weather are not finite; they count as inconsistent at every bound")
        if found.problems:
            left = counted(len(found.problems), "broken frame")
            say(f"{left} left out; `skidpad inspect` lists what is wrong")
        worst = worst_finding(run)
        if worst:
            say(f"worst finding: skidpad replay {run.place} {worst}")

    def write_report(self, path: Path) -> None:
        """Writes the HTML page."""
        from skidpad.kinds.pictures.weather.page import deeproad_page
        from skidpad.page.html import render_page, write_text_whole

        write_text_whole(path, render_page(deeproad_page(self.run, self.campaign)))


def share_words(bound: BoundCount) -> str:
    """Words a share with its interval."""
    return f"{bound.rate:.1%} ({bound.low:.1%} to {bound.high:.1%})" if bound.cases else "-"


def conditions_json(each: Conditions) -> dict[str, object]:
    """Returns the figures of one weather or style as plain values."""
    values = asdict(each)
    for row, bound in zip(values["counts"], each.counts, strict=True):
        row["rate"] = bound.rate
    return values


def show_ranking(rows: Sequence[Ranked], *, json: bool) -> None:
    """Prints subjects, the most consistent first."""
    if json:
        print_json({"ranking": [{**asdict(row), "moved_in_spreads": row.moved, "rank": place} for place, row in enumerate(rows, 1)]})
        return
    bounds = [f"{bound.threshold_deg:g} deg" for bound in rows[0].counts]
    cells = [
        (
            place,
            row.subject,
            *(bound.inconsistent for bound in row.counts),
            row.counts[0].cases,
            share_words(row.counts[0]),
            row.mean_deg,
            row.spread_deg,
            row.moved,
        )
        for place, row in enumerate(rows, 1)
    ]
    columns = ("rank", "subject", *bounds, "cases", f"share at {bounds[0]}", "mean change (deg)", "spread (deg)", "change / spread")
    table("subjects by robustness, the most consistent first", columns, cells)
    say(
        "spread is the standard deviation of a subject's answers on the frames as they are: one that hardly steers is consistent without "
        "being robust; where change / spread is 1, the answer says as little as one to another frame"
    )
