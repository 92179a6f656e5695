"""The page of a search for critical conditions (TACTIC): verdict, figures, the conditions found, and how searches compare."""

from __future__ import annotations

import json
import shlex
from math import degrees, isfinite
from typing import TYPE_CHECKING

import numpy as np
import torch

from skidpad.core.errors import SkidpadError
from skidpad.core.images import NumpyFrames, as_numpy
from skidpad.core.seeding import child_rng
from skidpad.drives.drive import Problem
from skidpad.drives.opening import LostDrive
from skidpad.kinds import kind as kinds
from skidpad.kinds.pictures.styles.applying import picture, recipe_of
from skidpad.kinds.pictures.styles.campaign import GUIDES, phase_name
from skidpad.kinds.pictures.styles.summary import FAILED, Compared, ConditionSummary, Repeat, TacticSummary, summarise
from skidpad.kinds.pictures.weather.page import weather_warnings
from skidpad.page.charts import Curve, bar_chart, curve_chart
from skidpad.page.model import Chart, Headline, Page, Table, Tone, doubt_words, run_page
from skidpad.page.pictures import Gallery, GalleryRow, PairCard, PicturePair, cards, gallery_row
from skidpad.page.svg import Bar
from skidpad.page.wording import NOTHING, count, counted, drive_with, interval, percent, plain
from skidpad.search.evolution import Styles
from skidpad.statistics.intervals import wilson

if TYPE_CHECKING:
    from skidpad.kinds.pictures.styles.campaign import Tactic, TacticSettings
    from skidpad.runs.folder import Run


NAMES = {"es": "(1+1)-ES", "random-search": "random search (RS)", "random-styles": "random styles (R_c)"}


def tactic_warnings(campaign: Tactic, summary: TacticSummary) -> tuple[str, ...]:
    """Says what a reader must know before believing the figures."""
    warnings = [*weather_warnings([campaign.weather.card], campaign.settings.drive, campaign.subject)]
    found = [each for repeat in summary.repeats for each in repeat.conditions]
    if found and summary.problems:
        broken, scenes = counted(summary.problems, "broken frame"), counted(found[0].scenes, "scene")
        warnings.append(f"{broken} left out, so that the search had {scenes}; `skidpad inspect` lists what is wrong.")
    if found and not any(each.judged for each in found):
        warnings.append(
            "The filter refused every scene under every condition, so that nothing was judged. Look at the scenes: where the weather "
            "destroys them, learn it for longer; where it does not, search with --validity off."
        )
    if isinstance(campaign.drive, LostDrive):
        warnings.append(f"Pictures cannot be drawn: {campaign.drive.why}")
    return tuple(warnings)


def search_name(search: str) -> str:
    """Words a search."""
    return NAMES.get(search, search)


def shown_words(summary: TacticSummary, search: str) -> str:
    """Says which repeat of a search is shown; empty where there is but one."""
    repeats = summary.of(search)
    return f"repeat {summary.worst_of(search).number + 1} of {len(repeats)}, the one with the most errors" if len(repeats) > 1 else ""


def tone(summary: TacticSummary) -> Tone:
    """Returns whether errors were found by any search, none, or nothing was judged."""
    if any(repeat.errors[0] for repeat in summary.repeats):
        return Tone.ALARM
    return Tone.CALM if any(repeat.judged for repeat in summary.repeats) else Tone.UNKNOWN


def verdict(summary: TacticSummary, name: str) -> str:
    """Words what the first search found, over all its repeats, and what another found where it found nothing."""
    if not summary.repeats:
        return "No condition was found yet."
    first, *others = summary.searches
    conditions = [each for repeat in summary.of(first) for each in repeat.conditions]
    worst = max(conditions, key=lambda each: each.errors[0])
    rate = worst.error_rate(0)
    bound = summary.bounds_deg[0]
    which = "the condition found" if len(conditions) == 1 else f"the worst of {len(conditions)} conditions"
    if worst.errors[0]:
        return (
            f"Under {which} {name} moves by {bound:g}° or more on {count(worst.errors[0])} of "
            f"{counted(worst.judged, 'scene')}: {interval(rate.low, rate.high)} with 95 % confidence."
        )
    judged, shown = sum(each.judged for each in conditions), sum(each.scenes for each in conditions)
    only = "" if judged == shown else f" on the {count(judged)} of {counted(shown, 'answer')} that could be judged"
    said = f"Under {which} {name} never moves by {bound:g}° or more{only}." if judged else "Nothing was judged: every scene was refused."
    elsewhere = {search: sum(repeat.errors[0] for repeat in summary.of(search)) for search in others}
    found = ", ".join(f"{search_name(search)} found {counted(errors, 'error')}" for search, errors in elsewhere.items() if errors)
    return f"{said}{f' But {found}.' if found else ''}"


def headlines(summary: TacticSummary) -> tuple[Headline, ...]:
    """The figures of the first search, over all its repeats."""
    repeats = summary.of(summary.searches[0]) if summary.repeats else ()
    judged = sum(repeat.judged for repeat in repeats)
    if not judged:
        return ()
    over = f", {len(repeats)} repeats" if len(repeats) > 1 else ""
    lines = [
        Headline(f"move by {bound:g}° or more", percent(errors / judged), f"{count(errors)} of {count(judged)}{over}")
        for bound, errors in zip(
            summary.bounds_deg[:4], (sum(each) for each in zip(*(repeat.errors for repeat in repeats), strict=True)), strict=False
        )
    ]
    inside, beyond = (float(value) for value in summary.means(summary.searches[0])[:2])
    words = f"and {percent(beyond)} of the regions beyond it (NBC){', means' if over else ''}"
    return (*lines, Headline("neuron coverage, inside the known range (KMNC)", percent(inside), words))


def notes(campaign: Tactic, summary: TacticSummary) -> list[str]:
    """Says how the figures came about."""
    s = campaign.settings
    said = [
        (
            "A condition is one style of the weather, applied to every scene. The subject should steer as it does on the scene as it is; "
            "an error at a bound is an answer that moved by so many degrees of the steering wheel or more."
        ),
        (
            f"Fitness F = {s.coverage_weight:g} F_c + {s.divergence_weight:g} norm(F_d): F_c is the share of uncovered "
            f"{s.criterion.upper()} regions that a style enters, F_d the mean divergence in radians, norm(x) = x / (x + 1). A search "
            f"ends after {_end_words(s)}; the next one starts from what is covered."
        ),
        "Intervals are 95 % Wilson intervals; neighbouring scenes are not independent, so read them as lower bounds of the uncertainty.",
    ]
    found = [each.condition for repeat in summary.repeats for each in repeat.conditions]
    dropped = sum(each.dropped for each in found)
    if dropped:
        word = "only where they cannot win" if s.risk == 0.0 else f"where they hardly can (risk {s.risk:g} a comparison)"
        tries = counted(sum(len(each.tries) for each in found), "try", "tries")
        said.append(f"{count(dropped)} of {tries} were dropped before they had seen all scenes, {word}.")
    farthest = max((each.farthest for each in found), default=0.0)
    limit = f"and kept within {s.style_limit:g}" if s.style_limit else "and not limited"
    said.append(
        f"Styles are drawn from N(0, 1) {limit}; the farthest number of a condition found is {farthest:.1f}. "
        "Far from 0 a condition may be none that a camera meets: look at the pictures."
    )
    cut = [f"{percent(share)} of {name.upper()}'s" for name, share in zip(GUIDES, summary.reachable, strict=True) if share < 1.0]
    if cut:
        said.append(
            f"Coverage is of all regions, those of a neuron times the neurons, as in the paper. Under this profile {' and '.join(cut)} can "
            "be reached at all: a constant neuron has one section. F_c, unlike the paper's, counts the reachable ones alone."
        )
    if not s.profile_drive:
        said.append("The neurons' bounds come from the drive itself as it is; the paper's from the training drive (--profile-drive).")
    if campaign.subject.lead:
        said.append(f"The subject looks at {campaign.subject.lead + 1} frames, all of which are under the condition.")
    return said


def filter_words(campaign: Tactic, summary: TacticSummary) -> str:
    """Says how many scenes the referee and the filter refused."""
    if kinds.asks_referee(campaign.settings.referee):
        shares = {
            search: np.mean([each.condition.refused / max(each.scenes, 1) for repeat in summary.of(search) for each in repeat.conditions])
            for search in summary.searches
        }
        refused = ", ".join(f"{percent(float(share))} under {search}" for search, share in shares.items())
        said = f"Of the scenes the referee refused {refused}, by the road and the edges; they count neither as errors nor as covered."
        return f"{said} {_filtered(campaign, summary)}" if campaign.settings.validity else said
    return _filtered(campaign, summary)


def _filtered(campaign: Tactic, summary: TacticSummary) -> str:
    if not campaign.settings.validity:
        return "No filter of scenes was used: scenes that a style destroyed count as any other."
    rejected = [each.rejection_rate.estimate for repeat in summary.repeats for each in repeat.conditions] or [float("nan")]
    return f"The filter refused {percent(float(np.mean(rejected)))} of the scenes; they count neither as errors nor as covered."


def _end_words(settings: TacticSettings) -> str:
    """Says what ends a search."""
    if 0 < settings.iterations <= settings.patience:
        return counted(settings.iterations, "try", "tries")
    most = f", or {settings.iterations} in all" if settings.iterations else ""
    return f"{counted(settings.patience, 'try', 'tries')} without anything better{most}"


SCENES, RANDOM, PAIRS = 5, 2, 6
"""How many scenes, random styles and worst pairs are shown."""


def tactic_page(campaign: Tactic, run: Run) -> Page:
    """Counts the run, renders its conditions and words the verdict."""
    summary = summarise(campaign, run)
    shown = summary.worst_of(summary.searches[0]) if summary.repeats else None
    conditions = shown.conditions if shown else ()
    pictures = _pairs(campaign, run, summary)
    name, card, doubtful = plain(campaign.subject.description.name, 80), campaign.weather.card, doubt_words(run)
    scenes = counted(conditions[0].scenes if conditions else 0, "scene")
    return run_page(
        run,
        title=f"{name} on {campaign.drive.name}: the worst of {card.name}",
        tone=Tone.UNKNOWN if doubtful else tone(summary),
        verdict=doubtful + verdict(summary, name),
        headlines=headlines(summary),
        context={
            "Subject": campaign.subject.description.name,
            "Drive": drive_with(campaign.settings.drive, scenes),
            "Weather": f"{card.name}, learned by MUNIT from {card.learned_from}{card.drawn_words}",
        },
        warnings=tactic_warnings(campaign, summary),
        remarks=(filter_words(campaign, summary),),
        notes=notes(campaign, summary),
        pictures=pictures,
        pictures_note=_pictures_note(len(pictures), campaign.settings.bounds_deg[0]),
        galleries=_galleries(campaign, summary, conditions),
        charts=_charts(summary, shown),
        tables=_tables(campaign, summary, shown),
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
        caption = f"The best fitness after each try{_which(summary)}; every search begins anew, on what is left uncovered."
        charts.append(curve_chart("fitness", "Fitness", caption, ("tries", "best fitness so far"), lines, said, reach=(0.0,)))
    rows = []
    for search in summary.searches:
        judged = sum(repeat.judged for repeat in summary.of(search))
        rate = wilson(sum(repeat.errors[0] for repeat in summary.of(search)), judged)
        rows.append(Bar(search_name(search), rate.estimate, rate.low, rate.high))
    if rows:
        title = f"Answers that move by {summary.bounds_deg[0]:g}° or more"
        charts.append(bar_chart("errors", title, "Share of scenes, all repeats and conditions; whiskers are 95 % intervals.", rows))
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
    styles = Styles(campaign.weather.style_size, campaign.settings.style_limit)
    drawn = [tuple(styles.draw(child_rng(campaign.settings.seed, "shown", number)).tolist()) for number in range(RANDOM)]
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
