"""The page of a run of duels: verdict, films of crashes, failure rates, trainings, comparisons with chance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from skidpad.highway.safe_distance import SafeDistance
from skidpad.kinds.duels.charts import duel_charts, front_words, left_out, slow_words, speed
from skidpad.kinds.duels.drivers import IDM, RANDOM
from skidpad.kinds.duels.estimate import duel_estimate
from skidpad.kinds.duels.figures import frontier
from skidpad.kinds.duels.films import films
from skidpad.kinds.duels.names import EGO, OWN, after_column, repair_family
from skidpad.kinds.duels.summary import DuelColumn, DuelSummary, summarise
from skidpad.kinds.duels.tables import duel_tables
from skidpad.kinds.estimating import ESTIMATED, PHASE, facts_of, headlines_of, verdict_of
from skidpad.page.model import Headline, Page, Tone, run_page
from skidpad.page.wording import NOTHING, count, counted, percent, plain

if TYPE_CHECKING:
    from skidpad.kinds.duels.campaign import Duel
    from skidpad.kinds.duels.phases import DuelWork
    from skidpad.kinds.duels.summary import DuelColumn, DuelSummary
    from skidpad.runs.folder import Run
    from skidpad.statistics.rare import Estimate


def campaign_page(campaign: Duel, run: Run) -> Page:
    """Returns the page of a run."""
    work = campaign.work(run)
    found = duel_estimate(work).read(run) if campaign.settings.estimate else None
    return duel_page(work) if found is None else _estimate_page(work, found)


def _estimate_page(work: DuelWork, found: Estimate) -> Page:
    """Says how likely a crash is, and shows some of those that the estimate met."""
    name = plain(Path(work.settings.ego).name or work.best_ego(), 80)
    against = ", ".join(front_words(each) for each in work.settings.against) or (
        "the given adversaries" if work.settings.fronts else front_words(RANDOM)
    )
    return run_page(
        work.run,
        title=f"How likely a crash is: {name} on {work.arena.scenario.name}",
        tone=Tone.ALARM if found.failures else Tone.CALM if found.simulations > found.unjudged else Tone.UNKNOWN,
        verdict=verdict_of(found, name, f"on {work.arena.scenario.name} against {against}", "duel"),
        headlines=headlines_of(found, "duel"),
        context={**{fact.name: fact.value for fact in facts_of(found)}, "Ego": name, "Opponents": against, "Scene": _scene(work)},
        notes=(ESTIMATED,),
        pictures_note=_PICTURES,
        films=films(work, [PHASE]),
    )


def duel_page(work: DuelWork) -> Page:
    """Counts the run, drives some of its episodes again and words the verdict."""
    summary = summarise(work)
    groups = [group for group in work.settings.groups if summary.column(EGO, group)]
    crashed = any(column.crashes for column in summary.columns if column.family == EGO)
    failed = crashed or any(column.errors for column in summary.columns if column.family == EGO)
    tone = Tone.UNKNOWN if not summary.episodes or summary.unmeasured else Tone.ALARM if failed else Tone.CALM
    return run_page(
        work.run,
        title=f"Duels: {_ego(work, summary)} on {work.arena.scenario.name}",
        tone=tone,
        verdict=_verdict(work, summary),
        headlines=_headlines(work, summary),
        context={"Ego": _ego(work, summary), "Scene": _scene(work)},
        notes=_notes(work, summary),
        remarks=_remarks(work, summary),
        pictures_note=_PICTURES,
        charts=duel_charts(work, summary),
        tables=duel_tables(summary, work.settings),
        films=films(work, [*_by_failure(summary, groups), RANDOM, EGO]) if work.arena.is_judged else (),
    )


_PICTURES = (
    "Seen from above; both drive to the right, and the view moves with them. The ego is green, and orange once it has crashed; the front "
    "vehicle is magenta. “Last chance” is the last decision with which the ego could still have avoided the crash, if the front vehicle "
    "did what it did."
)


_CALM = "a calm driver (IDM)"


def _verdict(work: DuelWork, summary: DuelSummary) -> str:
    if not summary.episodes:
        return "Nothing was tested; the policies were only trained."
    if summary.unmeasured:
        return _capital(plain(summary.unmeasured))
    groups = _by_failure(summary, work.settings.groups)
    chance, calm = _measured(summary, EGO, RANDOM), summary.before(IDM)
    parts = []
    if groups:
        worst = summary.column(EGO, groups[0])
        parts.append(f"the adversary ({groups[0]}) makes the ego crash in {_mean(worst)} of the episodes")
    if chance:
        parts.append(f"{'a' if groups else 'A'} random front vehicle in {_mean(chance)}" + ("" if groups else " makes it crash"))
    if calm and calm.judged:  # of the ego that the others met, not of all trained egos
        parts.append(f"{_CALM} in {_mean(calm)}" if parts else f"{_CALM} in front makes it crash in {_mean(calm)} of the episodes")
    words = _capital(", ".join(parts) or "nothing is known about the ego") + _repair_words(work, summary, groups)
    words += _population_words(work, summary)
    dropped = [(front_words(c.column), left_out(c)) for c in summary.columns if c.family == EGO and c.errors]
    warning = f" Note: {'; '.join(f'{name}: {said}' for name, said in dropped)}." if dropped else ""
    return f"{words}.{warning}"


def _repair_words(work: DuelWork, summary: DuelSummary, groups: Sequence[str]) -> str:
    """Says what retraining gained and cost, compared with the same ego before it and the same front vehicle."""
    found = _repaired(work, summary, groups)
    if found is None:
        return ""
    group, repaired = found
    whom = "it" if groups and group == groups[0] else f"the adversary ({group})"
    before, words = summary.before(group), f". Once retrained against {whom}, the ego crashes in {_mean(repaired)}"
    if before and before.judged:
        words += f" with that adversary instead of {_mean(before)}, at {speed(repaired.ego_mps)} instead of {speed(before.ego_mps)} m/s"
    after, calm = _measured(summary, repaired.family, IDM), summary.before(IDM)
    if after and calm and calm.judged:
        words += f", and with IDM in {_mean(after)} instead of {_mean(calm)}"
    return words


def _population_words(work: DuelWork, summary: DuelSummary) -> str:
    """Says how the repair against everybody did with those who matter most; of adversaries trained afterwards, with the worst."""
    trades = [trade for trade in frontier(summary, work.settings) if trade.cost == work.settings.crash_cost[0]]
    after = tuple(map(after_column, work.settings.after_rewards))
    whom = (((IDM,), "IDM"), ((RANDOM,), "a random front vehicle"), (after, "the worst of the adversaries trained against it afterwards"))
    found = [(column, name) for trade in trades for fronts, name in whom if (column := trade.with_front(*fronts))]
    said = [f"in {_mean(column)} at {speed(column.speed.mean)} m/s with {name}" for column, name in found]
    return f". Repaired against everybody, it crashes {', '.join(said)}" if said else ""


def _headlines(work: DuelWork, summary: DuelSummary) -> tuple[Headline, ...]:
    found: list[Headline] = []
    groups = _by_failure(summary, work.settings.groups)
    wanted = [(EGO, group, f"crashes with the adversary ({group})") for group in groups[:1]]
    wanted += [(EGO, RANDOM, "crashes with a random front vehicle")]
    repaired = _repaired(work, summary, groups)
    wanted += [(repaired[1].family, OWN, "crashes of the retrained ego")] if repaired else []
    wanted += [(EGO, IDM, f"crashes with {_CALM}")]
    for family, name, label in wanted:
        column = _measured(summary, family, name)
        if column and len(found) < 3:
            detail = f"{count(column.crashes)} of {count(column.judged)}, ego at {speed(column.ego_mps)} m/s"
            found.append(Headline(label, _mean(column), "; ".join(part for part in (detail, left_out(column)) if part)))
    return tuple(found)


def _repaired(work: DuelWork, summary: DuelSummary, groups: Sequence[str]) -> tuple[str, DuelColumn] | None:
    """Returns the repair against the worst adversary, else against another, with the name of that adversary's group."""
    order = sorted(work.settings.repaired, key=lambda group: groups.index(group) if group in groups else len(groups))
    found = [(group, _measured(summary, repair_family(work.settings, group, 0), OWN)) for group in order]
    return next(((group, column) for group, column in found if column), None)


def _notes(work: DuelWork, summary: DuelSummary) -> tuple[str, ...]:
    failure = (
        ("A failure is a crash of the two vehicles." if work.arena.scenario.fronts == 1 else "A failure is a crash of the ego.")
        if work.arena.is_judged
        else "A failure is a crash of the ego, with the front vehicle or with other traffic."
    )
    notes = [
        (
            f"{failure} A failure rate is the mean over trainings of their means over tests, and SEM is across trainings. Intervals are "
            "Wilson's over all episodes; they ignore that trainings differ, so the uncertainty is larger."
        )
    ]
    slow = slow_words(summary)
    if slow:
        notes.append(f"{slow} Compare a retrained ego's failure rate and speed with it.")
    if work.arena.is_judged:
        notes.append("Mean speeds include the whole last step of a crash, in which both vehicles brake after the impact.")
    if work.arena.is_judged:
        rss = SafeDistance()
        notes.append(
            "A crash is avoidable at a moment if some sequence of the ego's actions from then on avoids it while the front vehicle does "
            "what it did; an exact search decides. Responsibility-sensitive safety (RSS) decides who broke the safe distance first: the "
            f"vehicle behind accelerates by {rss.accelerates_mps2:g} m/s² for {rss.response_s:g} s, then brakes by at least "
            f"{rss.brakes_at_least_mps2:g} m/s²; the one ahead brakes by at most {rss.brakes_at_most_mps2:g} m/s²."
        )
    else:
        notes.append("Avoidability and safe distances are judged only on the built-in highway, not in scenes of highway-env.")
    return tuple(notes)


def _remarks(work: DuelWork, summary: DuelSummary) -> tuple[str, ...]:
    remarks = [summary.unmeasured] if summary.unmeasured else []
    problem = next((column.problem for column in summary.columns if column.problem), "")
    if problem:
        remarks.append(
            f"{counted(summary.errors, 'episode')} ended as an error and count in no rate; the first failure: {plain(problem, 300)}"
        )
    policies = work.run.path / "policies"
    return (*remarks, f"Policies: {policies}") if policies.is_dir() else tuple(remarks)


def _by_failure(summary: DuelSummary, groups: Sequence[str]) -> list[str]:
    found = [(group, column.across_trainings.mean) for group in groups if (column := _measured(summary, EGO, group))]
    return [group for group, _ in sorted(found, key=lambda pair: -pair[1])]


def _measured(summary: DuelSummary, family: str, name: str) -> DuelColumn | None:
    """Returns a column that has a rate."""
    column = summary.column(family, name)
    return column if column and column.judged else None


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _mean(column: DuelColumn | None) -> str:
    return percent(column.across_trainings.mean) if column else NOTHING


def _ego(work: DuelWork, summary: DuelSummary) -> str:
    return work.settings.ego or summary.best_ego or "ego"


def _scene(work: DuelWork) -> str:
    scenario = work.arena.scenario
    if not work.arena.is_judged:
        return f"{scenario.name} of highway-env, {scenario.episode_steps} policy steps at most"
    others = "one front vehicle" if scenario.fronts == 1 else f"{scenario.fronts} front vehicles at once"
    size = f"{scenario.lanes} lanes, {others}, {scenario.episode_steps} policy steps at most, {scenario.simulation_hz} Hz"
    return f"{size} (scenario {scenario.name!r})"
