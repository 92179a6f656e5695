"""The page of a comparison: Figure 8 with both thresholds, Figure 7 as a curve, and one disagreement as in Figure 9."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import degrees, isfinite
from typing import TYPE_CHECKING

import numpy as np

from skidpad.core.units import AngleUnit
from skidpad.drives.opening import LostDrive
from skidpad.kinds.drives.campaign import features_of
from skidpad.kinds.drives.compare.campaign import MATCHED, OFFLINE
from skidpad.kinds.drives.compare.summary import CONSISTENT, Comparison, Matching, ScenarioResult, summarise
from skidpad.kinds.drives.page import films
from skidpad.page.charts import Curve, curve_chart, plot_frame
from skidpad.page.model import Chart, Headline, Page, Table, Tone, run_page
from skidpad.page.svg import WIDTH, Axis, add, drawing, round_up, tip, write
from skidpad.page.wording import NOTHING, count, counted, interval, percent, plain
from skidpad.worlds.world import STEP_S

if TYPE_CHECKING:
    from skidpad.kinds.drives.compare.campaign import OfflineVsOnline
    from skidpad.runs.folder import Run


_LEFT, _RIGHT, _TOP, _BOTTOM, _HEIGHT = 52.0, WIDTH - 10.0, 14.0, 246.0, 288.0


def unit_words(unit: AngleUnit) -> str:
    """Words the unit of prediction errors."""
    return {AngleUnit.RAD: "rad of the steering wheel", AngleUnit.DEG: "degrees", AngleUnit.SCALED_25: "degrees / 25"}[unit]


def agreement_chart(comparison: Comparison) -> Chart:
    """Draws Figure 8: every scenario by its error offline and its distance online, the thresholds dashed, counts in the corners."""
    judged = [each for each in comparison.results if isfinite(each.mae) and isfinite(each.mdcl)]
    table = comparison.agreement
    title = "Offline against online (Figure 8)"
    apart = f"{table.false_safe} offline alone, {table.false_alarm} online alone"
    said = f"{table.both_safe} acceptable both ways, {apart}, {table.both_unsafe} neither."
    reach = round_up(max([each.mae for each in judged], default=0.0) * 1.05 + 1e-9)
    x = Axis(0.0, max(reach, 1.3 * comparison.mae_limit), _LEFT, _RIGHT)
    y = Axis(0.0, 1.15, _BOTTOM, _TOP)  # above 1, room for the counts
    root = drawing("agreement", title, said, _HEIGHT)
    plot_frame(root, x, y, (f"MAE offline, {unit_words(comparison.unit)}", "MDCL online"))
    at_x, at_y = x.at(comparison.mae_limit), y.at(comparison.mdcl_limit)
    add(root, "line", class_="limit", x1=at_x, x2=at_x, y1=_TOP, y2=_BOTTOM)
    add(root, "line", class_="limit", x1=_LEFT, x2=_RIGHT, y1=at_y, y2=at_y)
    for each in judged:
        agrees = (each.mae < comparison.mae_limit) == (each.mdcl < comparison.mdcl_limit)
        mark = add(root, "circle", class_="point" if agrees else "point apart", cx=x.at(each.mae), cy=y.at(each.mdcl), r=4.0)
        if not agrees:
            mark.set("style", "fill:var(--fail)")
        tip(mark, f"{each.name}: MAE {each.mae:.4f}, MDCL {each.mdcl:.3f}")
    corners = (
        (table.false_safe, at_x - 6.0, _TOP + 10.0, "end"),
        (table.both_unsafe, at_x + 6.0, _TOP + 10.0, "start"),
        (table.both_safe, at_x - 6.0, _BOTTOM - 8.0, "end"),
        (table.false_alarm, at_x + 6.0, _BOTTOM - 8.0, "start"),
    )
    for number, left, top, anchor in corners:
        add(root, "text", str(number), class_="label", x=left, y=top, text_anchor=anchor, font_weight="650")
    caption = "One mark a scenario; those on which the two ways of testing differ have the other colour. Numbers count each corner."
    return Chart(title, caption, write(root))


def difference_chart(matching: Matching) -> Chart | None:
    """Draws Figure 7 as a curve: the share of comparable pairs whose errors differ by at most so much."""
    apart = sorted(pair.difference for pair in matching.comparable)
    if not apart:
        return None
    shares = tuple((place + 1) / len(apart) for place in range(len(apart)))
    title = "Simulated against recorded drives (Figure 7)"
    limit = Curve("consistent up to here", (CONSISTENT, CONSISTENT), (0.0, 1.0))
    said = f"{len(apart)} pairs; mean difference {matching.mean_difference:.3f}; {100 * matching.consistent.estimate:.1f} % are consistent."
    caption = "How far the prediction errors on a simulated drive and on its recorded counterpart are apart."
    axes = ("|MAE simulated − MAE recorded|", "share of pairs")
    return curve_chart("differences", title, caption, axes, [Curve("pairs", tuple(apart), shares), limit], said)


def telling_charts(result: ScenarioResult, unit: AngleUnit) -> Sequence[Chart]:
    """Draws Figure 9: the error at every frame offline, and the distance from the lane online."""
    seconds = tuple(step * STEP_S for step in range(len(result.errors)))
    errors_deg = tuple(degrees(float(error) * unit.rad) for error in result.errors)
    name = plain(result.name, 60)
    largest = float(np.nanmax(errors_deg)) if errors_deg else 0.0
    lateral = tuple(float(abs(value)) for value in result.lateral_m)
    times = tuple(step * STEP_S for step in range(len(lateral)))
    return (
        curve_chart(
            "told-offline",
            f"{name}, offline: prediction error (Figure 9a)",
            f"The truth drives, the subject is only asked: its error is {largest:.2f} degrees of the steering wheel at most.",
            ("time, s", "error, degrees"),
            [Curve("offline", seconds, errors_deg)],
            f"at most {largest:.2f} degrees",
        ),
        curve_chart(
            "told-online",
            f"{name}, online: distance from the lane (Figure 9b)",
            "The subject drives the same scenario.",
            ("time, s", "distance, m"),
            [Curve("online", times, lateral)],
            f"up to {max(lateral, default=0.0):.2f} m",
        ),
    )


def comparison_page(campaign: OfflineVsOnline, run: Run) -> Page:
    """Compares, draws one disagreement and words the verdict."""
    found = summarise(campaign, run)
    name = plain(campaign.subject.description.name, 80)
    table = found.agreement
    telling = found.telling
    return run_page(
        run,
        title=f"Offline and online: {name}",
        tone=tone_of(found),
        verdict=verdict(found),
        headlines=(
            Headline("scenarios that differ", percent(found.disagreement.estimate), f"{count(table.disagreeing)} of {count(table.total)}"),
            Headline(
                "fine offline, unsafe online (false-safe)",
                percent(found.false_safe.estimate),
                f"{count(table.false_safe)} of {count(table.unsafe_online)} unsafe online",
            ),
            Headline(
                "alarm offline, fine online (false alarm)",
                percent(found.false_alarm.estimate),
                f"{count(table.false_alarm)} of {count(table.safe_online)} safe online",
            ),
        ),
        context={"Subject": name, "World": campaign.settings.world, "Recorded": _recorded(campaign)},
        notes=_notes(found, campaign),
        remarks=_remarks(found),
        pictures_note="A scenario on which offline and online testing differ, as the subject drove it.",
        charts=_charts(found),
        tables=_tables(found),
        films=films(campaign.runner, run, [telling.online_id]) if telling is not None else (),
        unjudged=(MATCHED, OFFLINE),
    )


def tone_of(found: Comparison) -> Tone:
    """Calm only where the two agree, or differ to the safe side for certain."""
    table = found.agreement
    if table.false_safe:
        return Tone.ALARM
    return Tone.CALM if table.total and (not table.disagreeing or found.optimist == "online") else Tone.UNKNOWN


def verdict(found: Comparison) -> str:
    """Words RQ1."""
    table = found.agreement
    if not table.total:
        return "No scenario could be judged both ways."
    if not table.disagreeing:
        which = "the only scenario" if table.total == 1 else f"all {count(table.total)} scenarios"
        return f"Offline and online testing agree on {which}."
    p_value = f"exact two-sided sign test, p = {found.two_sided_p:.2g}"
    tail = {
        "offline": f"Offline testing is the more optimistic ({p_value}).",
        "online": f"Online testing is the more optimistic, against the paper's finding ({p_value}).",
        "neither": f"That is too few to say which is the more optimistic ({p_value}).",
    }[found.optimist]
    if table.false_safe == table.false_alarm:
        tail = f"Neither is more optimistic ({p_value})."
    return f"Offline and online testing differ on {count(table.disagreeing)} of {counted(table.total, 'scenario')}. {tail}"


def _notes(found: Comparison, campaign: OfflineVsOnline) -> tuple[str, ...]:
    unit = unit_words(found.unit)
    limit_deg = degrees(found.mae_limit * found.unit.rad)
    notes = [
        (
            f"Offline, the truth steers and the subject is asked at every frame; acceptable is a mean absolute error below "
            f"{found.mae_limit:g} ({unit}; {limit_deg:.1f} degrees of the wheel). Online, the subject steers; acceptable is an MDCL below "
            f"{found.mdcl_limit:g} of 1.5 m."
        ),
        (
            "The paper computes with the numbers of Udacity's file and reads 0.1 as 2.5 degrees; those numbers are radians of the "
            "steering wheel, so that 0.1 is 5.7 degrees of it. The sensitivity table has both readings (0.1 and 0.0436 rad)."
        ),
    ]
    worst = max((each.truth_mdcl for each in found.results if isfinite(each.truth_mdcl)), default=float("nan"))
    if isfinite(worst):
        notes.append(
            f"The truth itself strays by an MDCL of {worst:.2f} at most: less than that cannot be asked of a subject that learned from it."
        )
    if found.matching is not None:
        notes.append(
            f"Recorded drive: a simulated drive is comparable with the part of the recording whose labels are nearest, if they are within "
            f"{campaign.settings.epsilon:g} on average; their errors are consistent if they differ by at most {CONSISTENT:g}."
        )
    return tuple(notes)


def _remarks(found: Comparison) -> tuple[str, ...]:
    remarks = []
    if found.matching is not None:
        matching, share = found.matching, found.matching.consistent
        remarks.append(
            f"RQ0: {len(matching.comparable)} of {len(matching.pairs)} simulated drives are comparable with a part of the recorded one; "
            f"their errors differ by {matching.mean_difference:.3f} on average, and {percent(share.estimate)} are consistent "
            f"({interval(share.low, share.high)}); MAE on the recorded drive {found.recorded_mae:.3f}."
        )
    lost = [each for each in found.results if each.problem]
    if lost:
        remarks.append(
            f"{counted(len(lost), 'scenario')} met a problem; the first, {plain(lost[0].name, 60)}: {plain(lost[0].problem, 300)}"
        )
    return tuple(remarks)


def _charts(found: Comparison) -> list[Chart]:
    charts = [agreement_chart(found)]
    if found.telling is not None:
        charts += telling_charts(found.telling, found.unit)
    if found.matching is not None:
        drawn = difference_chart(found.matching)
        charts += [drawn] if drawn is not None else []
    return charts


def _tables(found: Comparison) -> list[Table]:
    table = found.agreement
    three = (
        (f"MDCL < {found.mdcl_limit:g}", count(table.both_safe), count(table.false_alarm), count(table.safe_online)),
        (f"MDCL ≥ {found.mdcl_limit:g}", count(table.false_safe), count(table.both_unsafe), count(table.unsafe_online)),
        ("Total", count(table.both_safe + table.false_safe), count(table.false_alarm + table.both_unsafe), count(table.total)),
    )
    rates = tuple(
        (what, percent(each.estimate), interval(each.low, each.high), count(each.n))
        for what, each in (
            ("differ", found.disagreement),
            ("false-safe, of those unsafe online", found.false_safe),
            ("false alarm, of those safe online", found.false_alarm),
        )
    )
    sensitivity = tuple(
        (
            f"{each.mae_limit:g}",
            f"{each.mdcl_limit:g}",
            *(
                count(n)
                for n in (each.agreement.both_safe, each.agreement.false_safe, each.agreement.false_alarm, each.agreement.both_unsafe)
            ),
            each.agreement.optimist,
        )
        for each in found.sensitivity
    )
    scenarios = tuple(
        (
            plain(each.name, 60),
            features_of(json.loads(each.scenario)),
            f"{each.mae:.4f}" if isfinite(each.mae) else NOTHING,
            f"{each.mdcl:.3f}" if isfinite(each.mdcl) else NOTHING,
            f"{each.departed_at_s:.1f}" if isfinite(each.departed_at_s) else NOTHING,
            each.online_id,
        )
        for each in found.results
    )
    problems = tuple((plain(each.name, 60), plain(each.problem, 300)) for each in found.results if each.problem)
    mae = f"MAE < {found.mae_limit:g}", f"MAE ≥ {found.mae_limit:g}"
    corners = ("both safe", "false-safe", "false alarm", "both unsafe")
    return [
        Table("three", "Scenarios by result (Table III)", ("", *mae, "Total"), three),
        Table("rates", "Rates", ("", "Share", "95 % interval", "Scenarios"), rates),
        Table("sensitivity", "Other thresholds", ("MAE below", "MDCL below", *corners, "More optimistic"), sensitivity, 0),
        *_matching_tables(found),
        Table("scenarios", "Scenarios", ("Scenario", "What it is", "MAE", "MDCL", "Departs at s", "Online case"), scenarios, 2),
        Table("problems", "Could not be judged, or ended early", ("Scenario", "Why"), problems, 2),
    ]


def _matching_tables(found: Comparison) -> list[Table]:
    if found.matching is None:
        return []
    pairs = tuple(
        (
            plain(pair.name, 60),
            count(pair.start) if pair.start >= 0 else NOTHING,
            f"{pair.apart:.4f}",
            "yes" if pair.is_comparable else "no",
            f"{pair.mae_sim:.4f}",
            f"{pair.mae_real:.4f}",
            f"{pair.difference:.4f}",
        )
        for pair in found.matching.pairs
    )
    columns = ("Scenario", "Recorded from frame", "Labels apart", "Comparable", "MAE simulated", "MAE recorded", "Difference")
    return [Table("pairs", "Simulated drives and their recorded counterparts (RQ0)", columns, pairs)]


def _recorded(campaign: OfflineVsOnline) -> str:
    if campaign.drive is None:
        return "none: RQ0 was left out"
    if isinstance(campaign.drive, LostDrive):
        return plain(f"{campaign.drive.name}, without which there is no RQ0: {campaign.drive.why}", 600)
    return f"{plain(campaign.drive.name, 120)}, {counted(len(campaign.drive), 'frame')}"
