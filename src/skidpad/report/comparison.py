"""From a comparison's run to its page: do offline and online testing agree, and is the simulation like the recording?"""

from __future__ import annotations

import json
from math import degrees, isfinite
from typing import TYPE_CHECKING

from skidpad.campaigns.comparing_matching import CONSISTENT
from skidpad.campaigns.comparing_summary import Comparison, summarise
from skidpad.campaigns.online_scenarios import features_of
from skidpad.report.comparison_charts import agreement_chart, difference_chart, telling_charts, unit_words
from skidpad.report.model import Fact, Headline, Tone
from skidpad.report.online import films
from skidpad.report.page import Chart, Page, Table
from skidpad.report.reproducing import commands_of, run_warnings
from skidpad.report.tagging import looked_at, with_tags
from skidpad.report.wording import NOTHING, count, counted, interval, percent, plain

if TYPE_CHECKING:
    from skidpad.campaigns.comparing import Comparing
    from skidpad.runs.folder import Run

_MAX_ROWS = 500


def comparison_page(campaign: Comparing, run: Run) -> Page:
    """Compares, draws one disagreement and words the verdict."""
    found = summarise(campaign, run)
    name = plain(campaign.subject.description.name, 80)
    table = found.agreement
    telling = found.telling
    page = Page(
        title=f"Offline and online: {name}",
        tone=tone_of(found),
        verdict=("" if run.is_finished else "Not finished yet. ") + verdict(found),
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
        context=(Fact("Subject", name), Fact("World", campaign.settings.world), Fact("Recorded", _recorded(campaign))),
        notes=_notes(found, campaign),
        pictures=(),
        pictures_note="A scenario on which offline and online testing differ, as the subject drove it.",
        charts=tuple(_charts(found)),
        tables=tuple(each for each in _tables(found) if each.rows),
        configuration=tuple(Fact(key, _plain(value)) for key, value in run.config.items()),
        manifest=tuple(Fact(key, _plain(value)) for key, value in run.manifest.facts().items()),
        commands=commands_of(run),
        films=films(campaign.rides, run, [telling.online_id]) if telling is not None else (),
        warnings=run_warnings(run),
    )
    return with_tags(page, looked_at(run))


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


def _notes(found: Comparison, campaign: Comparing) -> tuple[str, ...]:
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
        for each in found.results[:_MAX_ROWS]
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
        for pair in found.matching.pairs[:_MAX_ROWS]
    )
    columns = ("Scenario", "Recorded from frame", "Labels apart", "Comparable", "MAE simulated", "MAE recorded", "Difference")
    return [Table("pairs", "Simulated drives and their recorded counterparts (RQ0)", columns, pairs)]


def _recorded(campaign: Comparing) -> str:
    return (
        "none: RQ0 was left out"
        if campaign.drive is None
        else f"{plain(campaign.drive.name, 120)}, {counted(len(campaign.drive), 'frame')}"
    )


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
