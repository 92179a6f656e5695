"""From a closed-loop run to its page: verdict, film strips, distances, and what the scenarios that failed have in common."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import degrees, isfinite, nan
from statistics import median as median_of
from typing import TYPE_CHECKING, Any

from skidpad.kinds.drives.campaign import features_of
from skidpad.kinds.drives.filmstrip import film_of, moving, strip, told
from skidpad.kinds.drives.search import cell_of, cells, reach_of
from skidpad.kinds.drives.summary import CaseVerdict, DriveVerdict, OnlineSummary, beside_careful, drive_cases, summarise
from skidpad.kinds.estimating import ESTIMATED, facts_of, figures_of, headlines_of, verdict_of
from skidpad.kinds.ruling import rules_table
from skidpad.kinds.weathers import drawn_remarks, lost_roads
from skidpad.oracles.lane_departure import CAP_M
from skidpad.page.charts import Point, bar_chart, scatter
from skidpad.page.model import Chart, FilmCard, Headline, Page, Table, Tone, run_page, values_of
from skidpad.page.svg import Bar, Cell, HeatRow, heat_map
from skidpad.page.wording import NOTHING, count, counted, interval, percent, plain
from skidpad.statistics.intervals import none_failed

if TYPE_CHECKING:
    from skidpad.kinds.drives.campaign import Online
    from skidpad.kinds.drives.replaying import ReplayStage
    from skidpad.kinds.drives.served.campaign import Served
    from skidpad.runs.folder import Run
    from skidpad.statistics.intervals import Interval
    from skidpad.statistics.rare import Estimate


MAX_FILMS = 4
_KEPT = "kept its lane"
_EXACT = "; where no case fails, they end at the exact one-sided bound"


def online_page(campaign: Online | Served, run: Run) -> Page:
    """Counts the run, drives some of its cases again for their pictures, and words the verdict."""
    summary = summarise(run)
    failed = summary.count(DriveVerdict.FAIL) + summary.count(DriveVerdict.FLAKY)
    judged = failed + summary.count(DriveVerdict.PASS)
    name = plain(campaign.name, 80)
    found = _estimate(campaign, run)
    return run_page(
        run,
        title=f"Closed loop: {name} in the world {campaign.settings.world}",
        tone=Tone.ALARM if failed else Tone.CALM if judged else Tone.UNKNOWN,
        verdict=_verdict(summary, name, failed, judged)
        if found is None
        else verdict_of(found, name, f"in the domain {campaign.settings.domain}"),
        headlines=_headlines(summary, failed, judged) if found is None else headlines_of(found),
        context={
            **({} if found is None else {fact.name: fact.value for fact in facts_of(found)}),
            "Subject": name,
            "World": campaign.settings.world,
            "Scenarios": _scenarios(campaign),
        },
        warnings=lost_roads(campaign.stimuli),
        remarks=(*_remarks(summary, campaign), *drawn_remarks(campaign.stimuli)),
        notes=(
            "MDCL is the largest distance of the rear axle's middle from the middle of the lane, capped at 1.5 m and divided by it.",
            "A car at 1.5 m has left its lane. The lane is fixed from the beginning, and the distance is an exact projection on it.",
            f"Every case was driven {campaign.settings.repeats} times; it is FLAKY where the drives differ. Intervals are Wilson's{_EXACT}."
            if campaign.settings.repeats > 1
            else f"Every case was driven once. Intervals are Wilson's, over cases{_EXACT}.",
            *([] if found is None else [ESTIMATED]),
        ),
        pictures_note=(
            "What the subject saw, and where the car was in its lane; dashed lines mark 1.5 m from the middle, where it has departed. "
            "The worst first; without failures, the drive that strayed most."
        ),
        films=films(campaign.runner, run, [case.case_id for case in _shown(summary)]),
        charts=(*_charts(summary), *_maps(summary, campaign.settings.searches)),
        tables=(
            _reach(summary, campaign.settings.searches),
            *([_beside_careful(summary)] if "pedal" not in run.schema.names else []),
            *_tables(summary),
        ),
        lead_tables=[table for table in (rules_table(drive_cases(campaign, run)),) if table.rows],
    )


def online_figures(campaign: Online | Served, run: Run) -> Mapping[str, object]:
    """Returns the rates and every case's verdict as plain values."""
    summary = summarise(run)
    found = _estimate(campaign, run)
    counts = "passed failed flaky errors unavoidable departed collided median_mdcl"
    measured = "failed judged errors mdcl max_lateral_m departed_at_s collided_at_s mae_rad problem"
    return {
        "estimate": None if found is None else figures_of(found),
        "drives": summary.drives,
        **_rate(summary.rate),
        "searches": [asdict(reach_of(summary, name)) for name in campaign.settings.searches],
        "skipped": [{"scenario": each.name, "reason": each.reason} for each in campaign.skipped],
        "conditions": [{"condition": row.condition, **values_of(row, counts), **_rate(row.rate)} for row in summary.conditions],
        "cases": [
            {
                "scenario": case.scenario_name,
                "verdict": case.verdict.value,
                **values_of(case, f"case_id condition {measured}"),
                **values_of(case.failures, "low high"),
                **({"careful_driver": word} if (word := careful_word(case.scenario)) else {}),
            }
            for case in summary.cases
        ],
    }


def _estimate(campaign: Online | Served, run: Run) -> Estimate | None:
    """Returns what an estimate found; None for runs that made none, as those of a client are."""
    found: Estimate | None = campaign.estimate.read(run) if getattr(campaign.settings, "estimate", "") else None  # type: ignore[union-attr]  # a client's settings have none
    return found


def _rate(found: Interval) -> dict[str, float]:
    return {"failure_rate": found.estimate, "low": found.low, "high": found.high}


def films(runner: ReplayStage, run: Run, case_ids: list[str]) -> tuple[FilmCard, ...]:
    """Drives recorded cases again and draws them."""
    drawn = []
    for number, case in enumerate(case_ids, 1):
        row = run.find_row(case)
        film = film_of(runner, row)
        title = f"{plain(row['scenario_name'], 60)}, {plain(row['condition'], 80)}"
        badge = "left its lane" if isfinite(row["departed_at_s"]) else "collided" if isfinite(row["collided_at_s"]) else _KEPT
        replay = f"skidpad replay {shlex.quote(run.place)} {case} --picture drive.svg"
        said = f"{told(film)} {features_of(json.loads(row['scenario']))}."
        drawings = (moving(f"moving-{number}", title, film), strip(f"strip-{number}", title, film))
        drawn.append(FilmCard(title, badge, *drawings, said, case, replay, is_bad=badge != _KEPT))
    return tuple(drawn)


def _shown(summary: OnlineSummary) -> list[CaseVerdict]:
    """Returns the worst cases, of as many conditions as there is room for; else the one that strayed most."""
    worst: list[CaseVerdict] = []
    rest = list(summary.worst)
    while rest and len(worst) < MAX_FILMS:
        seen = {case.condition for case in worst}
        chosen = next((case for case in rest if case.condition not in seen), rest[0])
        worst.append(chosen)
        rest.remove(chosen)
    driven = [case for case in summary.cases if isfinite(case.mdcl)]
    return worst or sorted(driven, key=lambda case: -case.mdcl)[:1]


def _verdict(summary: OnlineSummary, name: str, failed: int, judged: int) -> str:
    excused = summary.count(DriveVerdict.UNAVOIDABLE)
    spared = f" In {counted(excused, 'case')} a careful driver collides as well; that counts in no rate." if excused else ""
    if not judged:
        return f"No drive could be judged.{spared}"
    rate = f"{interval(summary.rate.low, summary.rate.high)} with 95 % confidence"
    errors = summary.count(DriveVerdict.ERROR)
    lost = (f" {count(errors)} could not be judged." if errors else "") + spared
    if not failed:
        most = f"at most {percent(none_failed(judged))} of such cases fail, with 95 % confidence"
        return f"{name} kept its lane in {'the one case' if judged == 1 else f'all {count(judged)} cases'}: {most}.{lost}"
    flaky = summary.count(DriveVerdict.FLAKY)
    unsteady = f", {count(flaky)} of them flaky" if flaky else ""
    return f"{name} failed in {count(failed)} of {counted(judged, 'case')}{unsteady}: {rate}.{lost}"


def _headlines(summary: OnlineSummary, failed: int, judged: int) -> tuple[Headline, ...]:
    departed = sum(row.departed for row in summary.conditions)
    collided = sum(row.collided for row in summary.conditions)
    mdcls = [case.mdcl for case in summary.cases if isfinite(case.mdcl)]
    median = median_of(mdcls) if mdcls else float("nan")
    return (
        Headline("cases that fail", percent(summary.rate.estimate), f"{count(failed)} of {count(judged)}"),
        Headline("left the lane", count(departed), f"{count(collided)} touched something"),
        Headline(
            "median distance from the middle",
            _distance_words(median),
            f"the largest of each drive; at {CAP_M:g} m the lane is left (MDCL {median:.2f} of 1)" if isfinite(median) else "",
        ),
    )


def _distance_words(mdcl: float) -> str:
    """Words a largest distance in metres; one at the cap may have been any distance beyond it."""
    if not isfinite(mdcl):
        return NOTHING
    return f"{CAP_M * mdcl:.2f} m" if mdcl < 1.0 else f"{CAP_M:g} m or more"


def _remarks(summary: OnlineSummary, campaign: Online | Served) -> tuple[str, ...]:
    notes = [f"Skipped: {plain(each.name, 60)}: {plain(each.reason, 1000)}" for each in campaign.skipped[:20]]
    lost = next((case for case in summary.cases if case.problem), None)
    if lost is not None:
        number = sum(bool(case.problem) for case in summary.cases)
        notes.append(f"{counted(number, 'case')} met a problem; the first, {plain(lost.scenario_name, 60)}: {plain(lost.problem, 300)}")
    return tuple(notes)


def _charts(summary: OnlineSummary) -> list[Chart]:
    charts = []
    if len(summary.conditions) > 1:
        title = "Failures by condition"
        rows = [Bar(plain(row.condition, 60), row.rate.estimate, row.rate.low, row.rate.high) for row in summary.conditions]
        charts.append(bar_chart("conditions", title, "Share of cases that fail; whiskers are 95 % intervals.", rows))
    for key, label in (("curvature", "curvature, 1/km (0 is straight)"), ("speed", "speed, m/s")):
        points = [
            Point(f"{case.scenario_name}, {case.condition}", _feature(case, key), case.mdcl)
            for case in summary.cases
            if isfinite(case.mdcl)
        ]
        title = f"MDCL over {key}"
        said = f"{len(points)} cases, MDCL up to {max((point.y for point in points), default=0.0):.2f}"
        charts.append(
            Chart(title, "One mark a case; 1 is a departure.", scatter(f"mdcl-{key}", title, said, (label, "MDCL"), points, reach=(0.0,)))
        )
    return charts


def _maps(summary: OnlineSummary, searches: Sequence[str]) -> list[Chart]:
    """Draws for each search which bends and weathers it tried, and how often the subject failed there."""
    bends, weathers = cells()
    charts = []
    for name in searches:
        found: dict[tuple[str, str], list[bool]] = {}
        for case in summary.cases:
            if case.condition == name and case.judged:
                found.setdefault(cell_of(json.loads(case.scenario)), []).append(case.failed > 0)
        rows = []
        for bend in bends:
            tried = [found.get((bend, weather), []) for weather in weathers]
            shares = [sum(failed) / len(failed) if failed else nan for failed in tried]
            notes = [f"{bend}, {weather}: {sum(failed)} of {len(failed)} fail" for weather, failed in zip(weathers, tried, strict=True)]
            rows.append(HeatRow(bend, tuple(Cell(share, note) for share, note in zip(shares, notes, strict=True))))
        title = f"Where {plain(name, 40)} made the subject fail"
        failing = sum(any(failed) for failed in found.values())
        said = f"{failing} of {len(found)} cells that were tried hold a failure, of {len(bends) * len(weathers)} in all."
        columns = ", ".join(f"{number} {weather}" for number, weather in enumerate(weathers, 1))
        charts.append(Chart(title, f"{said} Columns: {columns}.", heat_map(f"map-{plain(name, 20)}", title, said, rows)))
    return charts


def _reach(summary: OnlineSummary, searches: Sequence[str]) -> Table:
    """Compares the searches, which all had the same budget."""
    rows = []
    for reach in (reach_of(summary, name) for name in searches):
        numbers = (reach.drives, reach.failures, reach.cells_tried, reach.cells_failing)
        rows.append((plain(reach.name, 40), *(count(number) for number in numbers), count(reach.first) if reach.first else NOTHING))
    columns = ("Search", "Drives", "Failures", "Cells tried", "Cells with a failure", "First failure after")
    return Table(
        "searches", "Searches at the same budget", columns, tuple(rows), note="One failure found a hundred times is one: cells count."
    )


def _feature(case: CaseVerdict, key: str) -> float:
    scenario: dict[str, Any] = json.loads(case.scenario)
    if key == "speed":
        return float(scenario["ego"]["speed_m_s"])
    road = scenario["road"]
    return 1000.0 / float(road["radius_m"]) if road["kind"] == "curved" else 0.0


def _beside_careful(summary: OnlineSummary) -> Table:
    """Says of scenarios whose ego goes at a careful pace whether the driver who holds its pedals, steering well, would have avoided it."""
    rows = [
        (plain(case.scenario_name, 60), plain(case.condition, 60), case.verdict.value, word)
        for case in summary.cases
        if (word := careful_word(case.scenario))
    ]
    note = (
        "The subject steers, and the careful and competent driver of UN R157 holds the pedals. If the reference driver also "
        "collides, the collision is not counted against your network, as long as it keeps its lane."
    )
    return Table(
        "careful", "Beside a careful and competent driver", ("Scenario", "Condition", "Verdict", "The driver"), tuple(rows), 3, note
    )


def careful_word(scenario: str) -> str:
    """Returns what a careful driver does in a recorded scenario, "" where nobody holds the pedals."""
    found = beside_careful(scenario)
    return "" if found is None else str(found)


def _tables(summary: OnlineSummary) -> list[Table]:
    by_condition = [
        (
            plain(row.condition, 80),
            *(count(number) for number in (row.passed, row.failed, row.flaky, row.errors)),
            percent(row.rate.estimate),
            interval(row.rate.low, row.rate.high),
            f"{row.median_mdcl:.2f}" if isfinite(row.median_mdcl) else NOTHING,
        )
        for row in summary.conditions
    ]
    repeated = any(case.judged > 1 for case in summary.cases)
    cases = [
        (
            plain(case.scenario_name, 60),
            plain(case.condition, 60),
            features_of(json.loads(case.scenario)),
            case.verdict.value,
            f"{case.failed}/{case.judged}",
            *((interval(case.failures.low, case.failures.high) if case.judged > 1 else NOTHING,) if repeated else ()),
            f"{case.mdcl:.3f}" if isfinite(case.mdcl) else NOTHING,
            f"{case.departed_at_s:.1f}" if isfinite(case.departed_at_s) else NOTHING,
            f"{case.collided_at_s:.1f}" if isfinite(case.collided_at_s) else NOTHING,
            f"{degrees(case.mae_rad):.2f}" if isfinite(case.mae_rad) else NOTHING,
            case.case_id,
        )
        for case in summary.cases
    ]
    problems = [(plain(case.scenario_name, 60), plain(case.problem, 300)) for case in summary.cases if case.problem]
    return [
        Table(
            "conditions",
            "By condition (camera effect, or search)",
            ("Condition", "PASS", "FAIL", "FLAKY", "ERROR", "Fails", "95 % interval", "Median MDCL"),
            tuple(by_condition),
        ),
        Table(
            "cases",
            "Cases",
            (
                *("Scenario", "Condition", "What it is", "Verdict", "Failed", *(("95 % interval",) if repeated else ()), "MDCL"),
                *("Departs, s", "Hits, s", "Error, deg", "Case"),
            ),
            tuple(cases),
            4,
            "Error: mean distance of the answers from the truth, degrees of the steering wheel.",
        ),
        Table("problems", "Could not be judged, or ended early", ("Scenario", "Why"), tuple(problems), 2),
    ]


def _scenarios(campaign: Online | Served) -> str:
    settings = campaign.settings
    if settings.searches:
        return (
            f"{settings.scenarios} by each of {', '.join(settings.searches)} in the domain {settings.domain!r}, {settings.seconds:g} s each"
        )
    source = f"{len(settings.files)} files" if settings.files else f"{settings.scenarios} of the domain {settings.domain!r}"
    return f"{source}, {settings.seconds:g} s each" if settings.seconds else source
