"""From a run of transformed recordings to the model of its report."""

from __future__ import annotations

import json
import shlex
from math import degrees, nan, sqrt
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from skidpad.campaigns.originals import Originals
from skidpad.campaigns.summary import EPSILON_RAD2, CoverageGain, Rate, Summary, summarise
from skidpad.drives.inspection import count_problems
from skidpad.oracles.relations import AnswersAlike, DecidesAlike, LabelMse, SteersAlike
from skidpad.report.model import (
    CoverageRow,
    DeviationHistogram,
    Fact,
    Headline,
    PicturePair,
    ProblemRow,
    RateRow,
    ReportModel,
    YieldRow,
)
from skidpad.report.wording import count, interval, percent
from skidpad.runs.records import Record, worst_first

if TYPE_CHECKING:
    from skidpad.campaigns.deeptest import DeepTest
    from skidpad.campaigns.outputs import JudgedOutput
    from skidpad.oracles.relation import Relation
    from skidpad.runs.folder import Run

PAIRS = 24
"""Pictures that a report shows; more would not be looked at."""


def deeptest_report(run: Run, campaign: DeepTest) -> ReportModel:
    """Counts the run, renders its worst findings again and words the verdict."""
    summary = summarise(run, campaign.blank_tracker(campaign.profile(run)), campaign.judged)
    originals = Originals.of(run, len(campaign.drive))
    relation = campaign.relation(originals)
    overall = summary.overall
    return ReportModel(
        title=f"{campaign.subject.description.name} on {campaign.drive.name}",
        verdict=_verdict(summary, relation_sentence(relation, campaign.judged), finished=run.is_finished),
        cases=overall.cases,
        findings=overall.findings,
        headlines=_headlines(summary),
        subject=f"{campaign.subject.description.name} ({campaign.settings.subject})",
        output=_output_words(campaign),
        drive=f"{campaign.drive.name}: {summary.originals} frames ({campaign.settings.drive})",
        pairs=tuple(_pair(run, campaign, relation, record) for record in showcase(run)),
        rates=tuple(map(_rate_row, summary.by_stimulus)),
        rates_by_parameters=tuple(map(_rate_row, summary.by_parameters)),
        coverage=tuple(
            CoverageRow(gain.criterion, gain.originals, gain.together, gain.total) for gain in summary.coverage if not gain.stimulus
        ),
        yields=_yields(summary),
        deviations=_deviations(summary, relation, campaign.judged),
        problems=tuple(
            ProblemRow(kind.kind.value, kind.count, tuple(map(str, kind.examples)))
            for kind in count_problems([*campaign.drive.problems, *summary.problems])
        ),
        configuration=tuple(Fact(name, _plain(value)) for name, value in run.config.items()),
        manifest=tuple(Fact(name, _plain(value)) for name, value in json.loads(run.manifest.to_json()).items()),
        commands=_commands(run),
        notes=_notes(campaign, relation, originals, summary),
    )


def showcase(run: Run, pairs: int = PAIRS) -> list[Record]:
    """Returns findings worth looking at, worst first: no frame twice, and no stimulus more often than its turn.

    The worst findings of all are often neighbours in time under one transformation, and twenty-four of those teach no more
    than one; so the stimuli take turns, each with its worst.
    """
    queues: dict[str, list[Record]] = {}
    for stimulus, table in _worst_by_stimulus(run, 8 * pairs).items():
        queues[stimulus] = [Record.from_row(row) for row in table.to_pylist()]
    chosen: list[Record] = []
    frames: set[str] = set()
    while any(queues.values()) and len(chosen) < pairs:
        for queue in queues.values():
            record = next((record for record in queue if record.frame_id not in frames), None)
            queue[:] = queue[queue.index(record) + 1 :] if record is not None else []
            if record is not None and len(chosen) < pairs:
                chosen.append(record)
                frames.add(record.frame_id)
    return sorted(chosen, key=lambda record: -record.excess)


def _worst_by_stimulus(run: Run, limit: int) -> dict[str, pa.Table]:
    worst: dict[str, pa.Table] = {}
    for phase in run.phases():
        for table in run.iter_records(phase):
            found = table.filter(table["violated"])
            keys = pc.unique(found["stimulus"]).to_pylist() if phase in {"originals", "grid"} else [phase]
            for key in keys:
                part = found.filter(pc.equal(found["stimulus"], key)) if phase == "grid" else found
                worst[key] = worst_first(pa.concat_tables([worst[key], part]) if key in worst else part, limit)
    return {key: table for key, table in worst.items() if table.num_rows}


def _pair(run: Run, campaign: DeepTest, relation: Relation, record: Record) -> PicturePair:
    recipe, judged = record.recipe, campaign.judged
    return PicturePair(
        case_id=record.case_id,
        frame_id=record.frame_id,
        stimulus=recipe.name,
        recipe=" ".join(filter(None, (str(recipe), campaign.window_words))),
        original=campaign.picture(record.frame_index, type(recipe)()),
        mutant=campaign.picture(record.frame_index, recipe),
        original_answer=judged.shown(record.original),
        mutant_answer=judged.shown(record.mutant),
        excess=record.excess,
        label_answer=judged.shown(record.label),
        unit=judged.shown_unit,
        tolerated=not isinstance(relation, DecidesAlike),
        relation=relation_sentence(relation, judged),
        replay=f"skidpad replay {shlex.quote(str(run.path))} {record.case_id}",
    )


def relation_sentence(relation: Relation, judged: JudgedOutput) -> str:
    """Says in one sentence what a case had to satisfy."""
    if isinstance(relation, LabelMse):
        bound_deg = degrees(sqrt(relation.tolerated_rad2))
        return f"squared error against the label at most {relation.lambda_:g} x MSE of the originals (within {bound_deg:.2f} deg)"
    if isinstance(relation, SteersAlike):
        verb = "steers" if judged.is_steering else f"answers {judged.name}"
        return f"{verb} within {relation.within_deg:g} deg of its answer on the original"
    if isinstance(relation, AnswersAlike):
        return f"answers {judged.name} within {relation.within:g}{_spaced(judged.shown_unit)} of its answer on the original"
    if isinstance(relation, DecidesAlike):
        return f"decides {judged.name} (at least {relation.threshold:g}{_spaced(judged.shown_unit)}) as on the original"
    return relation.name


def _spaced(unit: str) -> str:
    return f" {unit}" if unit in {"m/s", "m/s2"} else ""


def _output_words(campaign: DeepTest) -> str:
    if campaign.judged.is_steering and len(campaign.subject.description.outputs) == 1:
        return ""
    unit = campaign.judged.shown_unit
    return f"{campaign.judged.name} ({unit})" if unit else campaign.judged.name


def _verdict(summary: Summary, sentence: str, *, finished: bool) -> str:
    overall = summary.overall
    state = "" if finished else "Not finished yet. "
    if overall.cases == 0:
        return f"{state}No mutant was judged."
    if overall.findings == 0:
        return f"{state}No findings: all {count(overall.cases)} mutants satisfy the relation ({sentence})."
    worst = max(summary.by_stimulus, key=lambda rate: rate.rate)
    return (
        f"{state}{count(overall.findings)} of {count(overall.cases)} mutants break the relation ({sentence}); "
        f"the worst is {worst.name} with {percent(worst.rate)}."
    )


def _headlines(summary: Summary) -> tuple[Headline, ...]:
    overall = summary.overall
    headlines = [
        Headline("findings", count(overall.findings), f"of {count(overall.cases)} mutants of {count(summary.originals)} frames"),
        Headline("failure rate", percent(overall.rate), f"95 % interval {interval(overall.low, overall.high)}"),
    ]
    whole = next((gain for gain in summary.coverage if not gain.stimulus), None)
    if whole is not None and whole.total:
        detail = f"originals alone {percent(whole.originals / whole.total)}; coverage is no score, read it beside the findings"
        headlines.append(Headline(f"{whole.criterion.upper()} coverage", percent(whole.together / whole.total), detail))
    return tuple(headlines)


def _rate_row(rate: Rate) -> RateRow:
    return RateRow(rate.name, rate.parameters, rate.findings, rate.cases, rate.rate, rate.low, rate.high)


def _yields(summary: Summary) -> tuple[YieldRow, ...]:
    found = {rate.name: rate for rate in summary.by_stimulus}

    def row(gain: CoverageGain) -> YieldRow:
        rate = found[gain.stimulus]
        return YieldRow(gain.stimulus, gain.criterion, gain.together - gain.originals, gain.total, rate.findings, rate.cases)

    return tuple(row(gain) for gain in summary.coverage if gain.stimulus in found)


def _deviations(summary: Summary, relation: Relation, judged: JudgedOutput) -> DeviationHistogram:
    bound = relation.within_deg if isinstance(relation, SteersAlike) else relation.within if isinstance(relation, AnswersAlike) else nan
    return DeviationHistogram(judged.edges, tuple(summary.deviations.tolist()), bound, summary.not_finite, judged.shown_unit)


def _commands(run: Run) -> tuple[str, ...]:
    path = shlex.quote(str(run.path))
    return (shlex.join(run.manifest.command), f"skidpad resume {path}", f"skidpad report {path}")


def _notes(campaign: DeepTest, relation: Relation, originals: Originals, summary: Summary) -> tuple[str, ...]:
    judged, sentence = campaign.judged, relation_sentence(relation, campaign.judged)
    angles = "Angles are degrees, positive is left. " if judged.output.is_angle else ""
    notes = [
        f"Relation: {relation.name}; {sentence}."
        if isinstance(relation, LabelMse)
        else f"Relation: {relation.name}; a case breaks it unless it {sentence}.",
        f"{angles}Pictures are computed again from their recipes.",
        "Intervals are 95 % Wilson intervals; neighbouring frames are not independent, so read them as lower bounds of the uncertainty.",
        "More coverage does not by itself mean more faults; it stands beside the fault yield, never as the score."
        if campaign.has_coverage
        else "The subject is a black box: its neurons cannot be seen, so there is no coverage.",
    ]
    if campaign.window_words:
        notes.append(f"The subject has a memory: each transform is applied {campaign.window_words}; pictures show the last.")
    if summary.not_finite:
        notes.append(f"{count(summary.not_finite)} mutants have no finite answer on themselves or their original.")
    if originals.labelled:
        rmse = f"RMSE {sqrt(originals.mse_rad2):.4f} rad"
        notes.append(f"Originals: MSE {originals.mse_rad2:.5f} rad^2, {rmse} over {originals.labelled} labelled frames.")
    if isinstance(relation, LabelMse):
        near = summary.near_original()
        kept = f"keeps {len(near)} of {len(summary.by_parameters)} of them, with {count(sum(rate.findings for rate in near))} findings"
        notes.append(
            f"Eq. 3 asks which parameters leave the error near that of the originals (epsilon {EPSILON_RAD2:.4f} rad^2): it {kept}."
        )
    return tuple(notes)


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
