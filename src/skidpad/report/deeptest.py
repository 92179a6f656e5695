"""From a run of transformed recordings to the model of its report."""

from __future__ import annotations

import json
import shlex
from functools import partial
from math import nan
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skidpad.campaigns.originals import Originals
from skidpad.campaigns.summary import CoverageGain, Rate, Summary, summarise
from skidpad.campaigns.untested import untested_frames
from skidpad.campaigns.worst import caused_first, label_relation
from skidpad.drives.inspection import count_problems, drive_warnings
from skidpad.oracles.excess import scale_of
from skidpad.oracles.relation import fails_unchanged
from skidpad.oracles.relations import AnswersAlike, SteersAlike
from skidpad.report.deeptest_words import headlines_of, is_undecided, notes_of, relation_sentence, verdict_words, warnings_of
from skidpad.report.model import (
    CoverageRow,
    DeviationHistogram,
    Fact,
    PicturePair,
    ProblemRow,
    RateRow,
    ReportModel,
    YieldRow,
)
from skidpad.report.pictures import drawn
from skidpad.report.reproducing import commands_of, doubt_words, run_warnings
from skidpad.report.tagging import looked_at
from skidpad.report.untested import drive_frames, untested_words
from skidpad.report.wording import drive_with
from skidpad.runs.records import Record

if TYPE_CHECKING:
    from skidpad.campaigns.deeptest import DeepTest
    from skidpad.campaigns.outputs import JudgedOutput
    from skidpad.oracles.relation import Relation
    from skidpad.oracles.relations import LabelMse
    from skidpad.runs.folder import Run

PAIRS = 24
"""Pictures that a report shows; more would not be looked at."""


def deeptest_report(run: Run, campaign: DeepTest) -> ReportModel:
    """Counts the run, renders its worst findings again and words the verdict."""
    originals = Originals.of(run, len(campaign.drive))
    relation = campaign.relation(originals)
    summary = summarise(run, campaign.blank_tracker(campaign.profile(run)), campaign.judged, relation)
    overall = summary.overall
    untested = untested_frames(summary, originals, campaign.drive, relation, finished=run.is_finished)
    doubtful = doubt_words(run)
    lost = tuple(filter(None, (untested_words(untested),)))
    pairs, undrawn = drawn(showcase(run), partial(_pair, run, campaign, relation))
    return ReportModel(
        title=f"{campaign.subject.description.name} on {campaign.drive.name}",
        verdict=doubtful + verdict_words(summary, relation, originals, campaign.judged, finished=run.is_finished),
        cases=overall.cases,
        findings=overall.findings,
        headlines=headlines_of(summary),
        subject=campaign.subject.description.name,
        output=_output_words(campaign),
        drive=drive_with(campaign.settings.drive, drive_frames(untested)),
        pairs=pairs,
        rates=tuple(map(_rate_row, summary.by_stimulus)),
        rates_by_parameters=tuple(map(_rate_row, summary.by_parameters)),
        coverage=tuple(
            CoverageRow(gain.criterion, gain.originals, gain.together, gain.total, gain.reachable)
            for gain in summary.coverage
            if not gain.stimulus
        ),
        yields=_yields(summary),
        deviations=_deviations(summary, relation, campaign.judged),
        problems=tuple(
            ProblemRow(kind.kind.value, kind.count, tuple(map(str, kind.examples)))
            for kind in count_problems([*campaign.drive.problems, *summary.problems])
        ),
        configuration=tuple(Fact(name, _plain(value)) for name, value in run.config.items()),
        manifest=tuple(Fact(name, _plain(value)) for name, value in run.manifest.facts().items()),
        commands=commands_of(run),
        notes=(*notes_of(campaign, relation, originals, summary), *(() if untested.is_damage else lost)),
        warnings=(
            *run_warnings(run),
            *undrawn,
            *drive_warnings(campaign.drive),
            *warnings_of(relation, originals, summary),
            *(lost if untested.is_damage else ()),
        ),
        looked=looked_at(run),
        undecided=bool(doubtful) or is_undecided(relation, originals, summary),
    )


def showcase(run: Run, pairs: int = PAIRS) -> list[Record]:
    """Returns findings worth looking at, worst first: the worst of each stimulus, then in turns those of other frames.

    Findings on frames that fail as they are come last, as everywhere (`campaigns.worst`).

    The worst findings of all are often neighbours in time under one transformation, and twenty-four of those teach no more
    than one; so the stimuli take turns, each with its worst.
    """
    relation = label_relation(run)

    def badness(record: Record) -> tuple[bool, float]:
        return relation is not None and _already_broken(relation, record), -record.excess

    queues: dict[str, list[Record]] = {}
    for stimulus, table in _worst_by_stimulus(run, relation, 8 * pairs).items():
        queues[stimulus] = [Record.from_row(row) for row in table.to_pylist()]
    # the worst of each stimulus is shown whichever frame it is on; only what comes after them must be on another
    chosen = sorted((queue.pop(0) for queue in queues.values()), key=badness)[:pairs]
    frames = {record.frame_id for record in chosen}
    while any(queues.values()) and len(chosen) < pairs:
        for queue in queues.values():
            record = next((record for record in queue if record.frame_id not in frames), None)
            queue[:] = queue[queue.index(record) + 1 :] if record is not None else []
            if record is not None and len(chosen) < pairs:
                chosen.append(record)
                frames.add(record.frame_id)
    return sorted(chosen, key=badness)


def _worst_by_stimulus(run: Run, relation: LabelMse | None, limit: int) -> dict[str, pa.Table]:
    worst: dict[str, pa.Table] = {}
    for phase in run.phases():
        for table in run.iter_records(phase):
            found = table.filter(table["violated"])
            keys = pc.unique(found["stimulus"]).to_pylist() if phase in {"originals", "grid"} else [phase]
            for key in keys:
                part = found.filter(pc.equal(found["stimulus"], key)) if phase == "grid" else found
                worst[key] = caused_first(pa.concat_tables([worst[key], part]) if key in worst else part, relation, limit)
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
        scale=scale_of(relation.name),
        relation=relation_sentence(relation, judged),
        replay=f"skidpad replay {shlex.quote(run.place)} {record.case_id}",
        already_broken=_already_broken(relation, record),
    )


def _already_broken(relation: Relation, record: Record) -> bool:
    return bool(fails_unchanged(relation, np.array([record.original]), np.array([record.label]))[0])


def _output_words(campaign: DeepTest) -> str:
    if campaign.judged.is_steering and len(campaign.subject.description.outputs) == 1:
        return ""
    unit = campaign.judged.shown_unit
    return f"{campaign.judged.name} ({unit})" if unit else campaign.judged.name


def _rate_row(rate: Rate) -> RateRow:
    return RateRow(rate.name, rate.parameters, rate.findings, rate.cases, rate.rate, rate.low, rate.high, rate.already_broken)


def _yields(summary: Summary) -> tuple[YieldRow, ...]:
    found = {rate.name: rate for rate in summary.by_stimulus}

    def row(gain: CoverageGain) -> YieldRow:
        rate = found[gain.stimulus]
        return YieldRow(gain.stimulus, gain.criterion, gain.together - gain.originals, gain.total, rate.findings, rate.cases)

    return tuple(row(gain) for gain in summary.coverage if gain.stimulus in found)


def _deviations(summary: Summary, relation: Relation, judged: JudgedOutput) -> DeviationHistogram:
    bound = relation.within_deg if isinstance(relation, SteersAlike) else relation.within if isinstance(relation, AnswersAlike) else nan
    return DeviationHistogram(judged.edges, tuple(summary.deviations.tolist()), bound, summary.not_finite, judged.shown_unit)


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
