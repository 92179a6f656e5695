"""From a run under learned weathers to its page."""

from __future__ import annotations

import json
import shlex
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from skidpad.campaigns.deeproad_summary import RoadSummary, summarise_road
from skidpad.campaigns.originals import Originals
from skidpad.core.stimuli import Recipe
from skidpad.report.arrows import MAX_LEAN_DEG
from skidpad.report.deeproad_tables import MAX_WEATHERS, charts, degrees_words, tables
from skidpad.report.deeptest import showcase
from skidpad.report.deeptest_words import relation_sentence
from skidpad.report.gallery import Gallery, gallery_row
from skidpad.report.model import Fact, Headline, PicturePair, Tone
from skidpad.report.page import Page
from skidpad.report.pictures import cards, drawn
from skidpad.report.reproducing import commands_of, doubt_words, run_warnings
from skidpad.report.tagging import looked_at, with_tags
from skidpad.report.weather_warnings import weather_warnings
from skidpad.report.wording import angles_sentence, count, counted, drive_with, percent, plain

if TYPE_CHECKING:
    from skidpad.campaigns.deeproad import DeepRoad
    from skidpad.runs.folder import Run
    from skidpad.runs.records import Record

_SCENES = 5


def deeproad_page(run: Run, campaign: DeepRoad) -> Page:
    """Counts the run, renders its worst findings again and words the verdict."""
    summary = summarise_road(run, campaign)
    relation = campaign.relation(Originals.of(run, len(campaign.drive)))
    sentence = relation_sentence(relation, campaign.judged)
    found = summary.overall.counts[0].inconsistent
    records = showcase(run)
    pairs, undrawn = drawn(records, partial(_pair, run, campaign))
    pictures = cards(pairs, "")
    doubtful = doubt_words(run)
    page = Page(
        title=plain(f"{campaign.subject.description.name} on {campaign.drive.name} under {_weathers(campaign)}", 200),
        tone=Tone.UNKNOWN if doubtful or not summary.overall.cases else Tone.ALARM if found else Tone.CALM,
        verdict=plain(doubtful + verdict(summary, finished=run.is_finished), 600),
        headlines=_headlines(summary),
        context=_context(campaign, summary),
        notes=tuple(plain(note, 1000) for note in _notes(campaign, summary)),
        pictures=pictures,
        pictures_note=_pictures_note(len(pictures), found, sentence),
        charts=tuple(charts(campaign, summary)),
        tables=tuple(table for table in tables(campaign, summary) if table.rows),
        configuration=tuple(Fact(plain(name, 120), plain(_plain(value), 2000)) for name, value in run.config.items()),
        manifest=tuple(Fact(plain(name, 120), plain(_plain(value), 2000)) for name, value in run.manifest.facts().items()),
        commands=tuple(plain(command, 1000) for command in commands_of(run)),
        galleries=_galleries(campaign, summary),
        warnings=(*run_warnings(run), *undrawn, *(plain(warning, 1000) for warning in road_warnings(campaign))),
    )
    return with_tags(page, looked_at(run))


def road_warnings(campaign: DeepRoad) -> tuple[str, ...]:
    """Says what a reader must know before believing the figures."""
    learned = [looks.weather.card for looks in campaign.weathers.values()]
    return weather_warnings(learned, campaign.settings.drive, campaign.subject)


def tried_words(campaign: DeepRoad, summary: RoadSummary) -> str:
    """Says how many answers come of how many frames: each is shown in every style of every weather."""
    looks = sum(len(each.space.grid) for each in campaign.weathers.values())
    frames = counted(summary.originals, "frame")
    if looks == 1:
        return frames
    named = counted(looks, "weather") if len(campaign.weathers) == looks else counted(looks, "style")
    return f"{frames} in {named} each, {counted(summary.overall.cases, 'answer')}"


def verdict(summary: RoadSummary, *, finished: bool) -> str:
    """Says in one sentence how consistent the subject is."""
    state = "" if finished else "Not finished yet. "
    first = summary.overall.counts[0]
    if not first.cases:
        return f"{state}No answer was judged."
    if not first.inconsistent:
        return f"{state}No findings: all {count(first.cases)} answers under weather stay within {first.threshold_deg:g}° of those without."
    worst = max(summary.by_weather, key=lambda each: each.counts[0].rate if each.cases else -1.0)
    moved = f"{state}{count(first.inconsistent)} of {count(first.cases)} answers move by {first.threshold_deg:g}° or more under"
    if len(summary.by_weather) == 1:
        return f"{moved} {worst.weather}."
    return f"{moved} a weather; the worst is {worst.weather} with {percent(worst.counts[0].rate)}."


def style_words(campaign: DeepRoad) -> str:
    """Says which styles MUNIT weathers were tried under; empty where there is none."""
    rendered = {looks.weather.card.rendered for looks in campaign.weathers.values() if looks.weather.style_size}
    if not rendered:
        return ""
    road = campaign.road
    pictures = (
        "the pictures that each learned from" if len(rendered) > 1 else "rendered pictures" if rendered == {True} else "real pictures"
    )
    if road.style == "mean":
        return f"the mean style of {pictures}"
    drawn = f"the styles of {pictures}" if road.style == "real" else "N(0, 1)"
    return f"{road.styles} {'style' if road.styles == 1 else 'styles'} drawn from {drawn}, seed {road.seed}"


def _weathers(campaign: DeepRoad) -> str:
    names = list(campaign.weathers)
    return ", ".join(names) if len(names) <= 4 else f"{len(names)} weathers"


def _headlines(summary: RoadSummary) -> tuple[Headline, ...]:
    whole = summary.overall
    bounds = [
        Headline(
            f"move by {each.threshold_deg:g}° or more", percent(each.rate), f"{count(each.inconsistent)} of {counted(each.cases, 'answer')}"
        )
        for each in whole.counts[:4]
    ]
    return (
        *bounds,
        Headline("mean change", degrees_words(whole.mean_deg), f"the answers themselves spread by {degrees_words(summary.spread_deg)}"),
    )


def _context(campaign: DeepRoad, summary: RoadSummary) -> tuple[Fact, ...]:
    name = plain(campaign.subject.description.name, 400)
    drive = plain(drive_with(campaign.settings.drive, tried_words(campaign, summary)), 400)
    return (Fact("Subject", name), Fact("Drive", drive), Fact("Weather", plain(_weathers(campaign), 400)))


def _notes(campaign: DeepRoad, summary: RoadSummary) -> list[str]:
    notes = [
        (
            "The subject should steer as it does on the frame as it is: the weather changes, the road does not. "
            f"{angles_sentence(campaign.judged.output)}Pictures are computed again from their recipes."
        ),
        (
            f"The answers on the frames as they are have a standard deviation of {degrees_words(summary.spread_deg)}: a network that "
            "hardly steers is consistent without being robust, so read the counts beside it."
        ),
        "Intervals are 95 % Wilson intervals; neighbouring frames are not independent, so read them as lower bounds of the uncertainty.",
    ]
    words = style_words(campaign)
    if words:
        notes.append(f"MUNIT weathers are under {words}; UNIT weathers have one look.")
    rendered = [name for name, looks in campaign.weathers.items() if looks.weather.card.rendered]
    if rendered:
        notes.append(f"Learned from rendered pictures, not from real ones: {', '.join(rendered)}.")
    if campaign.window_words:
        notes.append(f"The subject has a memory: the weather is {campaign.window_words}; pictures show the last.")
    if summary.overall.not_finite:
        notes.append(
            f"{counted(summary.overall.not_finite, 'answer')} under weather not finite, which counts as inconsistent at every bound."
        )
    if isfinite(summary.rmse_rad):
        notes.append(f"Against the labels: RMSE {summary.rmse_rad:.4f} rad on the frames as they are; the table has it by weather.")
    return notes


def _pictures_note(shown: int, findings: int, sentence: str) -> str:
    which = (
        f"{count(shown)} of {count(findings)} findings, the worst first; the weathers take turns." if shown < findings else "All findings."
    )
    arrows = f"Arrows start at the car and lean to the side it would steer to, by the angle itself, up to {MAX_LEAN_DEG:g}°."
    return f"{which} Each breaks the relation “{sentence}”. {arrows}"


def _pair(run: Run, campaign: DeepRoad, record: Record) -> PicturePair:
    judged = campaign.judged
    return PicturePair(
        case_id=record.case_id,
        frame_id=record.frame_id,
        stimulus=record.recipe.name,
        recipe=recipe_words(campaign, record.recipe),
        original=campaign.picture(record.frame_index, Recipe()),
        mutant=campaign.picture(record.frame_index, record.recipe),
        original_answer=judged.shown(record.original),
        mutant_answer=judged.shown(record.mutant),
        excess=record.excess,
        label_answer=judged.shown(record.label),
        unit=judged.shown_unit,
        replay=f"skidpad replay {shlex.quote(run.place)} {record.case_id}",
    )


def recipe_words(campaign: DeepRoad, recipe: Recipe) -> str:
    """Names a weather and which of its styles it is; eight numbers say nothing to a reader."""
    grid = campaign.weathers[recipe.name].space.grid
    style = f", style {grid.index(recipe.steps[0].params) + 1} of {len(grid)}" if len(grid) > 1 else ""
    return " ".join(filter(None, (f"{recipe.name}{style}", campaign.window_words)))


def _galleries(campaign: DeepRoad, summary: RoadSummary) -> tuple[Gallery, ...]:
    places = np.linspace(0, len(campaign.drive) - 1, _SCENES + 2).round().astype(int).tolist()[1:-1]
    frames = [place for place in dict.fromkeys(places) if not _is_broken(campaign, place)]
    if not frames:
        return ()
    rates = {each.weather: each.counts[0] for each in summary.by_weather}
    rows = [gallery_row("as recorded", "", [campaign.picture(place, Recipe()) for place in frames])]
    for name, looks in list(campaign.weathers.items())[:MAX_WEATHERS]:
        recipe = Recipe.of(name, looks.space.grid[0])
        bound = rates[name]
        note = f"{looks.weather.card.method.value.upper()}; {percent(bound.rate)} move by {bound.threshold_deg:g}° or more"
        rows.append(gallery_row(name, note, [campaign.picture(place, recipe) for place in frames]))
    words = style_words(campaign)
    first = ", the first of its styles" if campaign.road.styles > 1 else ""
    caption = f"The same scenes under each weather{first}.{f' MUNIT: {words}.' if words else ''}"
    return (Gallery("What the subject is shown", caption, tuple(rows)),)


def _is_broken(campaign: DeepRoad, place: int) -> bool:
    return not isinstance(campaign.drive.frame(place), np.ndarray)


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
