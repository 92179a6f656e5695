"""From a search for critical conditions to its page: the conditions in pictures, how they were found, what they cost the subject."""

from __future__ import annotations

import json
import shlex
from math import degrees, isfinite
from typing import TYPE_CHECKING

import numpy as np
import torch

from skidpad.campaigns.tactic import phase_name
from skidpad.campaigns.tactic_applying import picture, recipe_of
from skidpad.campaigns.tactic_summary import FAILED, Compared, ConditionSummary, Repeat, TacticSummary, summarise
from skidpad.core.errors import SkidpadError
from skidpad.core.images import NumpyFrames, as_numpy
from skidpad.drives.drive import Problem
from skidpad.report.charts import curves
from skidpad.report.gallery import Gallery, GalleryRow, gallery_row
from skidpad.report.model import Curve, Fact, PicturePair, Tone
from skidpad.report.page import Chart, Page, Table
from skidpad.report.pictures import PairCard, cards
from skidpad.report.plots import Bar, bars
from skidpad.report.reproducing import doubt_words, run_warnings
from skidpad.report.tactic_words import headlines, notes, search_name, shown_words, tactic_warnings, tone, verdict
from skidpad.report.tagging import looked_at, with_tags
from skidpad.report.wording import NOTHING, count, counted, drive_with, percent, plain
from skidpad.search.evolution import StyleTask
from skidpad.statistics.intervals import wilson

if TYPE_CHECKING:
    from skidpad.campaigns.tactic import Tactic
    from skidpad.runs.folder import Run

SCENES, RANDOM, PAIRS = 5, 2, 6
"""How many scenes, random styles and worst pairs are shown."""


def tactic_page(campaign: Tactic, run: Run) -> Page:
    """Counts the run, renders its conditions and words the verdict."""
    summary = summarise(campaign, run)
    shown = summary.worst_of(summary.searches[0]) if summary.repeats else None
    conditions = shown.conditions if shown else ()
    pictures = _pairs(campaign, run, summary)
    name = plain(campaign.subject.description.name, 80)
    doubtful = doubt_words(run)
    page = Page(
        title=plain(f"{name} on {campaign.drive.name}: the worst of {campaign.weather.card.name}", 200),
        tone=Tone.UNKNOWN if doubtful else tone(summary),
        verdict=doubtful + verdict(summary, name, finished=run.is_finished),
        headlines=headlines(summary),
        context=_context(campaign, conditions),
        notes=tuple(plain(note, 1000) for note in notes(campaign, summary)),
        pictures=pictures,
        pictures_note=_pictures_note(len(pictures), campaign.settings.bounds_deg[0]),
        charts=tuple(_charts(summary, shown)),
        tables=tuple(table for table in _tables(campaign, summary, shown) if table.rows),
        configuration=tuple(Fact(key, plain(_text(value), 2000)) for key, value in run.config.items()),
        manifest=tuple(Fact(key, plain(_text(value), 2000)) for key, value in run.manifest.facts().items()),
        commands=_commands(run),
        galleries=_galleries(campaign, summary, conditions),
        warnings=(*run_warnings(run), *(plain(warning, 1000) for warning in tactic_warnings(campaign, summary))),
    )
    return with_tags(page, looked_at(run))


def _context(campaign: Tactic, conditions: tuple[ConditionSummary, ...]) -> tuple[Fact, ...]:
    card = campaign.weather.card
    scenes = conditions[0].scenes if conditions else 0
    kind = "rendered pictures" if card.rendered else "real pictures"
    return (
        Fact("Subject", plain(campaign.subject.description.name, 400)),
        Fact("Drive", plain(drive_with(campaign.settings.drive, counted(scenes, "scene")), 400)),
        Fact("Weather", plain(f"{card.name}, learned by MUNIT from {kind}", 400)),
    )


def _pictures_note(shown: int, bound_deg: float) -> str:
    which = "The worst scene" if shown == 1 else f"The {shown} worst scenes"
    return f"{which} under a condition found; arrows lean by the angle itself, and each moved by {bound_deg:g}° or more." if shown else ""


def _charts(summary: TacticSummary, shown: Repeat | None) -> list[Chart]:
    charts = []
    conditions = shown.conditions if shown else ()
    lines = [
        Curve(f"condition {each.condition.number + 1}", tuple(float(place) for place in range(1, len(after) + 1)), after)
        for each in conditions
        if len(after := each.condition.best_after) > 1
    ]
    if lines:
        said = "; ".join(f"{line.label} ends at {line.y[-1]:.3f} after {len(line.y)} tries" for line in lines)
        svg = curves("fitness", "Fitness", said, ("tries", "best fitness so far"), lines, from_zero=True)
        caption = f"The best fitness after each try{_which(summary)}; every search begins anew, on what is left uncovered."
        charts.append(Chart("Fitness", caption, svg))
    rows = []
    for search in summary.searches:
        judged = sum(repeat.judged for repeat in summary.of(search))
        rate = wilson(sum(repeat.errors[0] for repeat in summary.of(search)), judged)
        rows.append(Bar(search_name(search), rate.estimate, rate.low, rate.high))
    if rows:
        said = "; ".join(f"{row.label} {percent(row.value)}" for row in rows)
        title = f"Answers that move by {summary.bounds_deg[0]:g}° or more"
        caption = "Share of scenes, all repeats and conditions; whiskers are 95 % intervals."
        charts.append(Chart(title, caption, bars("errors", title, said, rows)))
    return charts


def _which(summary: TacticSummary) -> str:
    words = shown_words(summary, summary.searches[0])
    return f" ({words})" if words else ""


def _tables(campaign: Tactic, summary: TacticSummary, shown: Repeat | None) -> list[Table]:
    bounds = tuple(f"≥ {bound:g}°" for bound in summary.bounds_deg)
    found = tuple(
        (
            str(each.condition.number + 1),
            f"{each.condition.fitness:.3f}",
            percent(each.condition.diversity),
            f"{degrees(each.condition.divergence_rad):.2f}°",
            *(f"{count(number)} ({percent(number / each.judged if each.judged else float('nan'))})" for number in each.errors),
            f"{len(each.condition.tries)} ({each.condition.dropped} dropped)",
            percent(each.rejection_rate.estimate) if campaign.settings.validity else NOTHING,
        )
        for each in (shown.conditions if shown else ())
    )
    means = []
    for search in summary.searches:
        values = summary.means(search)
        cells = [percent(float(values[0])), percent(float(values[1])), *(f"{number:,.1f}" for number in values[2:])]
        means.append((search_name(search), str(len(summary.of(search))), *cells))
    which = f"By {search_name(shown.search)}{_which(summary)}." if shown and len(summary.repeats) > 1 else ""
    tables = [
        Table("conditions", "Conditions found", ("condition", "F", "F_c", "F_d", *bounds, "tries", "refused"), found, note=which),
        Table(
            "searches",
            "Means over repeats",
            ("search", "repeats", "KMNC", "NBC", *bounds),
            tuple(means),
            note="All conditions of a repeat together.",
        ),
    ]
    first = summary.searches[0] if summary.searches else ""
    for other in summary.searches[1:]:
        rows = tuple(_test_row(test) for test in summary.compare(first, other))
        title = f"{search_name(first)} against {search_name(other)}"
        note = (
            f"Mann and Whitney's U, the smaller tail, and A12, over repeats; {FAILED}: all numbers are the same; a dash: too few repeats."
        )
        tables.append(
            Table(f"against-{other}", title, ("metric", search_name(first), search_name(other), "p", "A12", "significant"), rows, note=note)
        )
    return tables


def _test_row(test: Compared) -> tuple[str, ...]:
    share = not test.metric.endswith("°")
    values = (test.mean, test.other_mean)
    means = _apart(*values) if share else tuple(f"{value:,.1f}" if isfinite(value) else NOTHING for value in values)
    if not test.tested:
        word = FAILED if test.failed else NOTHING
        return (test.metric, *means, word, word, NOTHING)
    return (test.metric, *means, f"{test.p_value:.2g}", f"{test.a12:.2f}", "yes" if test.better else "no")


def _apart(first: float, second: float) -> tuple[str, str]:
    """Words two shares with as many digits as tell them apart, up to four."""
    words = (percent(first), percent(second))
    for digits in (2, 3, 4):
        if words[0] != words[1] or first == second or not (isfinite(first) and isfinite(second)):
            break
        words = (f"{100.0 * first:.{digits}f} %", f"{100.0 * second:.{digits}f} %")
    return words


def _galleries(campaign: Tactic, summary: TacticSummary, conditions: tuple[ConditionSummary, ...]) -> tuple[Gallery, ...]:
    """The same scenes as they are, under each condition found, and under random styles."""
    if not conditions:
        return ()
    places = np.linspace(0, len(campaign.drive) - 1, SCENES + 2)[1:-1].round().astype(int).tolist()
    frames = [frame for place in places if not isinstance(frame := campaign.drive.frame(place), Problem)]
    if not frames:
        return ()
    scenes = np.stack(frames)
    rows: list[GalleryRow] = [gallery_row("as recorded", "", list(scenes))]
    for each in conditions:
        share = f"{percent(each.error_rate(0).estimate)} errors, mean change {each.mean_divergence_deg:.1f}°"
        rows.append(
            _row(
                campaign,
                f"condition {each.condition.number + 1}",
                share if isfinite(each.mean_divergence_deg) else "every scene refused" if not each.judged else "no finite answer",
                each.condition.style,
                scenes,
            )
        )
    task = StyleTask(campaign.weather.style_size, campaign.settings.seed, limit=campaign.settings.style_limit)
    drawn = [tuple(task.fresh("shown", number).tolist()) for number in range(RANDOM)]
    rows += [_row(campaign, f"random style {number}", "", style, scenes) for number, style in enumerate(drawn, 1)]
    which = _which(summary)
    caption = f"The same scenes in every row: as they were recorded, under the conditions found{which}, and under styles drawn at random."
    return (Gallery("Critical conditions", caption, tuple(rows)),)


def _row(campaign: Tactic, label: str, note: str, style: tuple[float, ...], scenes: NumpyFrames) -> GalleryRow:
    # one by one, as pictures are made everywhere but in the search: a GPU has code for that size already
    made = [as_numpy(campaign.weather.translate(scene[None], torch.tensor(style)))[0] for scene in scenes]
    return gallery_row(label, note, made)


def _pairs(campaign: Tactic, run: Run, summary: TacticSummary) -> tuple[PairCard, ...]:
    """The worst findings of the first search in all its repeats, at most one a frame, each under the name of its condition."""
    search, repeats = campaign.settings.searches[0], campaign.settings.repeats
    names: dict[str, str] = {}
    for repeat in summary.of(search):
        of_repeat = f" of repeat {repeat.number + 1}" if repeats > 1 else ""
        for each in repeat.conditions:
            recipe = recipe_of(campaign.weather.card.name, each.condition.style)
            names[recipe.to_json()] = f"condition {each.condition.number + 1}{of_repeat}"
    phases = [phase_name(search, number) for number in range(repeats)]
    rows = [row for phase in phases for row in run.findings(limit=40 * PAIRS, phase=phase).to_pylist()]
    rows.sort(key=lambda row: -float(row["excess"]))
    seen: set[int] = set()
    pairs: list[PicturePair] = []
    for row in rows:
        if row["frame_index"] in seen or len(pairs) >= PAIRS:
            continue
        seen.add(row["frame_index"])
        style = json.loads(row["recipe"])[0][1]
        recipe = recipe_of(campaign.weather.card.name, [style[f"style_{place}"] for place in range(len(style))])
        try:
            original, mutant = (
                campaign.drive.read([row["frame_index"]]).frames[0],
                picture(campaign.drive, campaign.weather, row["frame_index"], recipe),
            )
        except (IndexError, SkidpadError):
            continue  # the frame can no longer be read; the figures stand
        angles = (degrees(row["original"]), degrees(row["mutant"]))
        replay = f"skidpad replay {shlex.quote(run.place)} {row['case_id']} --picture pair.png"
        words = f"{campaign.weather.card.name}, {names.get(row['recipe'], 'a condition of an earlier run')}"
        pairs.append(
            PicturePair(
                row["case_id"],
                row["frame_id"],
                row["stimulus"],
                words,
                original,
                mutant,
                *angles,
                row["excess"],
                degrees(row["label"]),
                replay=replay,
            )
        )
    return cards(pairs)


def _commands(run: Run) -> tuple[str, ...]:
    path = shlex.quote(run.place)
    return (
        *([] if run.is_finished else [f"skidpad resume {path}"]),
        f"skidpad report {path}",
        f"skidpad replay {path} CASE --picture pair.png",
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
