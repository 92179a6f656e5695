"""The page of a run under learned weathers (DeepRoad): inconsistent answers at every error bound, and the scenes in each weather."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from math import degrees, isfinite
from typing import TYPE_CHECKING

import numpy as np

from skidpad.core.stimuli import Recipe
from skidpad.kinds.pictures.apart import apart_galleries
from skidpad.kinds.pictures.charts import deviation_chart, problem_table
from skidpad.kinds.pictures.judging import Originals
from skidpad.kinds.pictures.page import WILSON, pictures_note, relation_sentence, worst_cards
from skidpad.kinds.pictures.weather.summary import RoadSummary, summarise_road
from skidpad.kinds.weathers import drawn_sentence, lost_road_words
from skidpad.page.charts import Curve, DeviationHistogram, bar_chart, curve_chart
from skidpad.page.model import Chart, Headline, Page, Table, Tone, doubt_words, run_page
from skidpad.page.pictures import Gallery, gallery_row
from skidpad.page.svg import Bar
from skidpad.page.wording import NOTHING, angles_sentence, count, counted, drive_with, interval, percent, plain

if TYPE_CHECKING:
    from skidpad.kinds.pictures.weather.campaign import DeepRoad
    from skidpad.kinds.pictures.weather.summary import WeatherConditions
    from skidpad.runs.folder import Run
    from skidpad.stimuli.weather.files import WeatherCard
    from skidpad.subjects.base import Subject


_RENDERED = "rendered"


def weather_warnings(cards: Sequence[WeatherCard], drive: str, subject: Subject) -> tuple[str, ...]:
    """Warns of weathers that lose the road, of those from rendered pictures on a drive that is none, and of those with too few pixels.

    drive: the text that names it.
    """
    warnings = [words for card in cards if (words := lost_road_words(card))]
    foreign = [card.name for card in cards if card.rendered]
    if foreign and drive.partition("?")[0].partition(":")[0] != _RENDERED:
        them = "it makes" if len(foreign) == 1 else "they make"
        was = "was" if len(foreign) == 1 else "were"
        warnings.append(
            f"{', '.join(foreign)} {was} learned from rendered pictures, and this drive is not rendered: what {them} of it is no weather "
            "that a camera meets, so the figures say little. Look at the scenes first; learn a weather from photographs with "
            "skidpad weather train."
        )
    small = enlarged(cards, subject)
    if small:
        warnings.append(
            f"Learned at fewer pixels than the subject sees: {', '.join(small)}. The scenes are enlarged, and part of the change may be "
            "blur; learn at a larger --size."
        )
    return tuple(warnings)


def enlarged(cards: Sequence[WeatherCard], subject: Subject) -> tuple[str, ...]:
    """Names the weathers that were learned at fewer pixels than the subject sees, so that their scenes are blurred as well.

    Not those whose scenes have all of their detail from the frames.
    """
    spec = subject.description.input
    return tuple(card.name for card in cards if card.detail < 1.0 and card.size_px < min(spec.height_px, spec.width_px))


MAX_WEATHERS = 16


def charts(campaign: DeepRoad, summary: RoadSummary) -> list[Chart]:
    """Draws shares by weather, shares over the error bounds, and how far the answers move."""
    if not summary.overall.cases:
        return []
    first = campaign.road.thresholds_deg[0]
    order = sorted((each for each in summary.by_weather if each.cases), key=lambda each: -each.counts[0].rate)
    marks = [Bar(plain(each.weather, 80), each.counts[0].rate, each.counts[0].low, each.counts[0].high, _note(each)) for each in order]
    caption = "Share of the answers, by weather; whiskers are 95 % intervals."
    drawn = [bar_chart("weathers", f"Answers that move by {first:g}° or more", caption, marks[:MAX_WEATHERS])]
    if len(campaign.road.thresholds_deg) > 1:
        lines = [
            Curve(each.weather, tuple(bound.threshold_deg for bound in each.counts), tuple(100.0 * bound.rate for bound in each.counts))
            for each in order[:6]
        ]
        title = "Inconsistent answers over the error bound"
        said = "; ".join(f"{line.label} from {line.y[0]:.3g} % to {line.y[-1]:.3g} %" for line in lines)
        axes = ("error bound, degrees", "inconsistent, % of answers")
        drawn.append(curve_chart("bounds", title, "DeepRoad's Table 2 as curves.", axes, lines, said, reach=(0.0,)))
    moved = tuple(summary.deviations.tolist())
    return [*drawn, deviation_chart(DeviationHistogram(campaign.judged.edges, moved, first, summary.overall.not_finite))]


def _note(each: WeatherConditions) -> str:
    bound = each.counts[0]
    return f"{plain(each.weather, 120)}: {count(bound.inconsistent)} of {count(bound.cases)} ({interval(bound.low, bound.high)})"


def tables(campaign: DeepRoad, summary: RoadSummary) -> list[Table]:
    """Lays out the counts by weather and by style, the weathers themselves, and what was left out."""
    bounds = tuple(f"≥ {bound:g}°" for bound in campaign.road.thresholds_deg)
    first = campaign.road.thresholds_deg[0]
    errors = ("RMSE in the weather", "RMSE as recorded")
    columns = ("Weather", *bounds, "Answers", f"Share ≥ {first:g}°", "95 % interval", "Mean change", "Largest", "Correlation", *errors)
    rmse_note = "RMSE: against the labels, in the weather and on the same frames as recorded, over the answers that count."
    whole = [*summary.by_weather, *([summary.overall] if len(summary.by_weather) > 1 else [])]
    made = [
        (
            name,
            looks.weather.card.method.value.upper(),
            f"{looks.weather.card.learned_from}{looks.weather.card.drawn_words}",
            count(looks.weather.card.steps),
            f"{looks.weather.card.size_px}",
            f"{100.0 * looks.weather.card.detail:.0f} %",
            looks.weather.card.weights_sha256[:12],
        )
        for name, looks in campaign.weathers.items()
    ]
    return [
        Table("weathers", "Inconsistent answers by weather", columns, tuple(_row((each.weather,), each) for each in whole), note=rmse_note),
        Table(
            "styles",
            "Inconsistent answers by style",
            ("Weather", "Style", *columns[1:]),
            tuple(_row((each.weather, each.style), each) for each in summary.by_style),
        ),
        Table(
            "learned",
            "The weathers",
            ("Weather", "Method", "Learned from", "Steps", "Shorter side (px)", "Detail from the frame", "Hash of the weights"),
            tuple(made),
            3,
            "Detail from the frame: the share of edges and texture that is the recorded frame's own; the network paints the rest.",
        ),
        problem_table([*campaign.drive.problems, *summary.problems]),
    ]


def _row(names: Sequence[str], each: WeatherConditions) -> tuple[str, ...]:
    first = each.counts[0]
    return (
        *(plain(name, 80) for name in names),
        *(count(bound.inconsistent) for bound in each.counts),
        count(each.cases),
        percent(first.rate),
        interval(first.low, first.high),
        degrees_words(each.mean_deg),
        degrees_words(each.worst_deg),
        f"{each.correlation:.3f}" if isfinite(each.correlation) else NOTHING,
        degrees_words(degrees(each.rmse_rad)),
        degrees_words(degrees(each.original_rmse_rad)),
    )


def degrees_words(value: float) -> str:
    """Words an angle; a dash for none."""
    return f"{value:.1f}°" if isfinite(value) else NOTHING


_SCENES = 5


def deeproad_page(campaign: DeepRoad, run: Run) -> Page:
    """Counts the run, renders its worst findings again and words the verdict."""
    summary = summarise_road(run, campaign)
    relation = campaign.relation(Originals.of(run, len(campaign.drive)))
    found, name, doubtful = summary.overall.counts[0].inconsistent, campaign.subject.description.name, doubt_words(run)
    pictures, undrawn = worst_cards(run, campaign, relation, partial(recipe_words, campaign))
    return run_page(
        run,
        title=f"{name} on {campaign.drive.name} under {_weathers(campaign)}",
        tone=Tone.UNKNOWN if doubtful or not summary.overall.cases else Tone.ALARM if found else Tone.CALM,
        verdict=doubtful + verdict(summary),
        headlines=_headlines(summary),
        context={
            "Subject": name,
            "Drive": drive_with(campaign.settings.drive, tried_words(campaign, summary)),
            "Weather": _weathers(campaign),
        },
        warnings=(*undrawn, *road_warnings(campaign)),
        remarks=_remarks(campaign, summary),
        notes=(
            "The subject should steer as it does on the frame as it is: the weather changes, the road does not.",
            f"{angles_sentence(campaign.judged.output)}Pictures are computed again from their recipes.",
            WILSON,
        ),
        pictures=pictures,
        pictures_note=pictures_note(pictures, found, relation_sentence(relation, campaign.judged)),
        galleries=(*_galleries(campaign, summary), *apart_galleries(run, campaign, partial(recipe_words, campaign))),
        charts=charts(campaign, summary),
        tables=tables(campaign, summary),
    )


def deeproad_figures(campaign: DeepRoad, run: Run) -> Mapping[str, object]:
    """Returns the counts at every error bound as plain values."""
    found = summarise_road(run, campaign)
    return {
        "output": campaign.judged.name,
        "originals": found.originals,
        "spread_deg": found.spread_deg,
        "rmse_rad": found.rmse_rad,
        "thresholds_deg": list(campaign.road.thresholds_deg),
        "overall": _conditions(found.overall),
        "by_weather": [_conditions(each) for each in found.by_weather],
        "by_style": [_conditions(each) for each in found.by_style],
        "problems": len(found.problems),
        "warnings": list(road_warnings(campaign)),
    }


def _conditions(each: WeatherConditions) -> dict[str, object]:
    """Returns the figures of one weather or style as plain values."""
    values = asdict(each)
    for row, bound in zip(values["counts"], each.counts, strict=True):
        row["rate"] = bound.rate
    return values


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


def verdict(summary: RoadSummary) -> str:
    """Says in one sentence how consistent the subject is."""
    first = summary.overall.counts[0]
    if not first.cases:
        return "No answer was judged."
    if not first.inconsistent:
        return f"No findings: all {count(first.cases)} answers under weather stay within {first.threshold_deg:g}° of those without."
    worst = max(summary.by_weather, key=lambda each: each.counts[0].rate if each.cases else -1.0)
    moved = f"{count(first.inconsistent)} of {count(first.cases)} answers move by {first.threshold_deg:g}° or more under"
    if len(summary.by_weather) == 1:
        return f"{moved} {worst.weather}."
    return f"{moved} a weather; the worst is {worst.weather} with {percent(worst.counts[0].rate)}."


def style_words(campaign: DeepRoad) -> str:
    """Says which styles MUNIT weathers were tried under; empty where there is none."""
    rendered = [looks.weather.card.rendered for looks in campaign.weathers.values() if looks.weather.style_size]
    if not rendered:
        return ""
    road = campaign.road
    pictures = "rendered pictures" if all(rendered) else f"the pictures that {'each' if len(rendered) > 1 else 'it'} learned from"
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


def _remarks(campaign: DeepRoad, summary: RoadSummary) -> list[str]:
    notes = [
        (
            f"The answers on the frames as they are have a standard deviation of {degrees_words(summary.spread_deg)}: a network that "
            "hardly steers is consistent without being robust, so read the counts beside it."
        ),
        f"Tried: {tried_words(campaign, summary)}",
    ]
    words = style_words(campaign)
    if words:
        notes.append(f"MUNIT weathers are under {words}; UNIT weathers have one look.")
    rendered = [name for name, looks in campaign.weathers.items() if looks.weather.card.rendered]
    if rendered:
        notes.append(f"Learned from rendered pictures, not from real ones: {', '.join(rendered)}.")
    notes += [words for name, looks in campaign.weathers.items() if (words := drawn_sentence(name, looks.weather.card))]
    if campaign.window_words:
        notes.append(f"The subject has a memory: the weather is {campaign.window_words}; pictures show the last.")
    if summary.overall.not_finite:
        notes.append(
            f"{counted(summary.overall.not_finite, 'answer')} under weather not finite, which counts as inconsistent at every bound."
        )
    if campaign.road.subject_device != campaign.road.device:
        notes.append(f"The subject cannot run on {campaign.road.device}, so it ran on {campaign.road.subject_device}.")
    notes += [
        f"The GPU ran out of memory, so {name} translated {looks.weather.batch_size} frames at a time."
        for name, looks in campaign.weathers.items()
        if looks.is_halved
    ]
    return [*notes, _error_words(summary)]


def _error_words(summary: RoadSummary) -> str:
    """Words the errors against the labels, those of the same frames beside each other; empty without labels."""
    if not isfinite(summary.rmse_rad):
        return ""
    whole, every = summary.overall, degrees_words(degrees(summary.rmse_rad))
    if not isfinite(whole.rmse_rad):
        return f"Error against the labels (RMSE): {every} on all frames as recorded."
    changed, recorded = degrees_words(degrees(whole.rmse_rad)), degrees_words(degrees(whole.original_rmse_rad))
    return (
        f"Error against the labels (RMSE) over the answers that count: {changed} under weather, {recorded} on the same frames as recorded; "
        f"{every} on all frames as recorded."
    )


def recipe_words(campaign: DeepRoad, recipe: Recipe) -> str:
    """Names a weather and which of its styles it is; eight numbers say nothing to a reader."""
    grid = campaign.weathers[recipe.name].space.grid
    style = f", style {grid.index(recipe.steps[0].params) + 1} of {len(grid)}" if len(grid) > 1 else ""
    return f"{recipe.name}{style}"


def _galleries(campaign: DeepRoad, summary: RoadSummary) -> tuple[Gallery, ...]:
    places = np.linspace(0, len(campaign.drive) - 1, _SCENES + 2).round().astype(int).tolist()[1:-1]
    frames = [place for place in dict.fromkeys(places) if isinstance(campaign.drive.frame(place), np.ndarray)]
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
