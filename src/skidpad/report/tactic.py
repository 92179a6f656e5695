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
from skidpad.report.model import Curve, Fact, Headline, PicturePair, Tone
from skidpad.report.page import Chart, Page, Table
from skidpad.report.pictures import PairCard, cards
from skidpad.report.plots import Bar, bars
from skidpad.report.tagging import looked_at, with_tags
from skidpad.report.weather_warnings import weather_warnings
from skidpad.report.wording import NOTHING, count, counted, drive_with, interval, percent, plain
from skidpad.search.evolution import StyleTask
from skidpad.statistics.intervals import wilson

if TYPE_CHECKING:
    from skidpad.campaigns.tactic import Tactic
    from skidpad.runs.folder import Run

NAMES = {"es": "(1+1)-ES", "random-search": "random search (RS)", "random-styles": "random styles (R_c)"}
SCENES, RANDOM, PAIRS = 5, 2, 6
"""How many scenes, random styles and worst pairs are shown."""


def tactic_page(campaign: Tactic, run: Run) -> Page:
    """Counts the run, renders its conditions and words the verdict."""
    summary = summarise(campaign, run)
    # of the first search, the repeat with the most errors
    first = summary.of(summary.searches[0]) if summary.repeats else ()
    shown = max(first, key=lambda repeat: repeat.errors[0]) if first else None
    conditions = shown.conditions if shown else ()
    errors = sum(sum(repeat.errors[:1]) for repeat in summary.repeats)
    pictures = _pairs(campaign, run, summary)
    name = plain(campaign.subject.description.name, 80)
    page = Page(
        title=plain(f"{name} on {campaign.drive.name}: the worst of {campaign.weather.card.name}", 200),
        tone=Tone.ALARM if errors else Tone.CALM if summary.repeats else Tone.UNKNOWN,
        verdict=_verdict(summary, conditions, name, finished=run.is_finished),
        headlines=_headlines(summary, shown),
        context=_context(campaign, conditions),
        notes=tuple(plain(note, 1000) for note in _notes(campaign, summary)),
        pictures=pictures,
        pictures_note=_pictures_note(len(pictures), campaign.settings.bounds_deg[0]),
        charts=tuple(_charts(summary, conditions)),
        tables=tuple(table for table in _tables(campaign, summary, conditions) if table.rows),
        configuration=tuple(Fact(key, plain(_text(value), 2000)) for key, value in run.config.items()),
        manifest=tuple(Fact(key, plain(_text(value), 2000)) for key, value in json.loads(run.manifest.to_json()).items()),
        commands=_commands(run),
        galleries=_galleries(campaign, conditions),
        warnings=tuple(plain(warning, 1000) for warning in tactic_warnings(campaign)),
    )
    return with_tags(page, looked_at(run))


def tactic_warnings(campaign: Tactic) -> tuple[str, ...]:
    """Says what a reader must know before believing the figures."""
    return weather_warnings([campaign.weather.card], campaign.settings.drive, campaign.subject)


def search_name(search: str) -> str:
    """Words a search."""
    return NAMES.get(search, search)


def _verdict(summary: TacticSummary, conditions: tuple[ConditionSummary, ...], name: str, *, finished: bool) -> str:
    state = "" if finished else "Not finished yet. "
    if not conditions:
        return f"{state}No condition was found yet."
    worst = max(conditions, key=lambda each: each.errors[0])
    rate = worst.error_rate(0)
    bound = summary.bounds_deg[0]
    which = "the condition found" if len(conditions) == 1 else f"the worst of {len(conditions)} conditions"
    if not worst.errors[0]:
        return f"{state}Under {which} {name} never moves by {bound:g}° or more."
    return (
        f"{state}Under {which} {name} moves by {bound:g}° or more on {count(worst.errors[0])} of "
        f"{counted(worst.judged, 'scene')}: {interval(rate.low, rate.high)} with 95 % confidence."
    )


def _headlines(summary: TacticSummary, shown: Repeat | None) -> tuple[Headline, ...]:
    if shown is None:
        return ()
    judged = sum(each.judged for each in shown.conditions)
    lines = [
        Headline(f"move by {bound:g}° or more", percent(wilson(errors, judged).estimate), f"{count(errors)} of {count(judged)}")
        for bound, errors in zip(summary.bounds_deg[:4], shown.errors, strict=False)
    ]
    beyond = f"and {percent(shown.coverage[1])} of the regions beyond it (NBC)"
    return (*lines, Headline("neuron coverage, inside the known range (KMNC)", percent(shown.coverage[0]), beyond))


def _context(campaign: Tactic, conditions: tuple[ConditionSummary, ...]) -> tuple[Fact, ...]:
    card = campaign.weather.card
    scenes = conditions[0].scenes if conditions else 0
    kind = "rendered pictures" if card.rendered else "real pictures"
    return (
        Fact("Subject", plain(campaign.subject.description.name, 400)),
        Fact("Drive", plain(drive_with(campaign.settings.drive, counted(scenes, "scene")), 400)),
        Fact("Weather", plain(f"{card.name}, learned by MUNIT from {kind}", 400)),
    )


def _notes(campaign: Tactic, summary: TacticSummary) -> list[str]:
    s = campaign.settings
    notes = [
        (
            "A condition is one style of the weather, applied to every scene. The subject should steer as it does on the scene as it is; "
            "an error at a bound is an answer that moved by so many degrees or more."
        ),
        (
            f"Fitness F = {s.coverage_weight:g} F_c + {s.divergence_weight:g} norm(F_d): F_c is the share of uncovered "
            f"{s.criterion.upper()} regions that a style enters, F_d the mean divergence in radians, norm(x) = x / (x + 1). A search "
            f"ends after {s.patience} tries without anything better; the next one starts from what is covered."
        ),
        "Intervals are 95 % Wilson intervals; neighbouring scenes are not independent, so read them as lower bounds of the uncertainty.",
    ]
    if s.racing:
        word = "only where they cannot win" if s.risk == 0.0 else f"where they hardly can (risk {s.risk:g} a comparison)"
        notes.append(f"Tries were dropped before they had seen all scenes {word}.")
    farthest = max((each.condition.farthest for repeat in summary.repeats for each in repeat.conditions), default=0.0)
    notes.append(
        f"Styles are drawn from N(0, 1) and kept within {s.style_limit:g}; the farthest number of a condition found is {farthest:.1f}. "
        "Far from 0 a condition may be none that a camera meets: look at the pictures."
    )
    rejected = [each.rejection_rate.estimate for repeat in summary.repeats for each in repeat.conditions]
    if s.validity and rejected:
        notes.append(f"The filter refused {percent(float(np.mean(rejected)))} of the scenes; they count neither as errors nor as covered.")
    else:
        notes.append("No filter of scenes was used: scenes that a style destroyed count as any other.")
    if not s.profile_drive:
        notes.append("The neurons' bounds come from the drive itself as it is; the paper's from the training drive (--profile-drive).")
    if campaign.subject.lead:
        notes.append(f"The subject looks at {campaign.subject.lead + 1} frames, all of which are under the condition.")
    return notes


def _pictures_note(shown: int, bound_deg: float) -> str:
    which = "The worst scene" if shown == 1 else f"The {shown} worst scenes"
    return f"{which} under a condition found; arrows lean by the angle itself, and each moved by {bound_deg:g}° or more." if shown else ""


def _charts(summary: TacticSummary, conditions: tuple[ConditionSummary, ...]) -> list[Chart]:
    charts = []
    lines = [
        Curve(f"condition {each.condition.number + 1}", tuple(float(place) for place in range(1, len(after) + 1)), after)
        for each in conditions
        if len(after := each.condition.best_after) > 1
    ]
    if lines:
        said = "; ".join(f"{line.label} ends at {line.y[-1]:.3f} after {len(line.y)} tries" for line in lines)
        svg = curves("fitness", "Fitness", said, ("tries", "best fitness so far"), lines, from_zero=True)
        charts.append(Chart("Fitness", "The best fitness after each try; every search begins anew, on what is left uncovered.", svg))
    rows = []
    for search in summary.searches:
        judged = sum(each.judged for repeat in summary.of(search) for each in repeat.conditions)
        rate = wilson(sum(repeat.errors[0] for repeat in summary.of(search)), judged)
        rows.append(Bar(search_name(search), rate.estimate, rate.low, rate.high))
    if rows:
        said = "; ".join(f"{row.label} {percent(row.value)}" for row in rows)
        title = f"Answers that move by {summary.bounds_deg[0]:g}° or more"
        caption = "Share of scenes, all repeats and conditions; whiskers are 95 % intervals."
        charts.append(Chart(title, caption, bars("errors", title, said, rows)))
    return charts


def _tables(campaign: Tactic, summary: TacticSummary, conditions: tuple[ConditionSummary, ...]) -> list[Table]:
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
        for each in conditions
    )
    means = []
    for search in summary.searches:
        values = summary.means(search)
        cells = [percent(float(values[0])), percent(float(values[1])), *(f"{number:,.1f}" for number in values[2:])]
        means.append((search_name(search), str(len(summary.of(search))), *cells))
    tables = [
        Table("conditions", "Conditions found", ("condition", "F", "F_c", "F_d", *bounds, "tries", "refused"), found),
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
    means = [percent(value) if share else f"{value:,.1f}" if isfinite(value) else NOTHING for value in (test.mean, test.other_mean)]
    if not test.tested:
        word = FAILED if test.failed else NOTHING
        return (test.metric, *means, word, word, NOTHING)
    return (test.metric, *means, f"{test.p_value:.2g}", f"{test.a12:.2f}", "yes" if test.better else "no")


def _galleries(campaign: Tactic, conditions: tuple[ConditionSummary, ...]) -> tuple[Gallery, ...]:
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
        share = percent(each.error_rate(0).estimate)
        rows.append(
            _row(
                campaign,
                f"condition {each.condition.number + 1}",
                f"{share} errors, mean change {each.mean_divergence_deg:.1f}°",
                each.condition.style,
                scenes,
            )
        )
    task = StyleTask(campaign.weather.style_size, campaign.settings.seed, limit=campaign.settings.style_limit)
    drawn = [tuple(task.fresh("shown", number).tolist()) for number in range(RANDOM)]
    rows += [_row(campaign, f"random style {number}", "", style, scenes) for number, style in enumerate(drawn, 1)]
    caption = "The same scenes in every row: as they were recorded, under the conditions found, and under styles drawn at random."
    return (Gallery("Critical conditions", caption, tuple(rows)),)


def _row(campaign: Tactic, label: str, note: str, style: tuple[float, ...], scenes: NumpyFrames) -> GalleryRow:
    # one by one, as pictures are made everywhere but in the search: a GPU has code for that size already
    made = [as_numpy(campaign.weather.translate(scene[None], torch.tensor(style)))[0] for scene in scenes]
    return gallery_row(label, note, made)


def _pairs(campaign: Tactic, run: Run, summary: TacticSummary) -> tuple[PairCard, ...]:
    """The worst findings of the first search, at most one a frame, under the number of their condition."""
    first = summary.of(campaign.settings.searches[0])
    found = first[0].conditions if first else ()
    numbers = {recipe_of(campaign.weather.card.name, each.condition.style).to_json(): each.condition.number + 1 for each in found}
    rows = run.findings(limit=40 * PAIRS, phase=phase_name(campaign.settings.searches[0], 0)).to_pylist()
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
        replay = f"skidpad replay {shlex.quote(str(run.path))} {row['case_id']} --picture pair.png"
        number = numbers.get(row["recipe"])
        words = f"{campaign.weather.card.name}, {f'condition {number}' if number else 'a condition of an earlier run'}"
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
    path = shlex.quote(str(run.path))
    return (
        *([] if run.is_finished else [f"skidpad resume {path}"]),
        f"skidpad report {path}",
        f"skidpad replay {path} CASE --picture pair.png",
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
