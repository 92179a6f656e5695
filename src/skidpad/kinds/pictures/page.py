"""The page of a run over pictures: the verdict and the words around it, and its worst findings rendered again."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict
from math import degrees, nan, radians, sqrt
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skidpad.core.stimuli import Recipe
from skidpad.drives.opening import LOCK_DEG, drive_warnings
from skidpad.kinds.pictures.apart import apart_galleries
from skidpad.kinds.pictures.charts import deviation_chart, picture_charts, picture_tables, problem_table
from skidpad.kinds.pictures.judging import Originals
from skidpad.kinds.pictures.nearest import nearest_galleries
from skidpad.kinds.pictures.summary import EPSILON_RAD2, Summary, Untested, summarise, untested_frames
from skidpad.kinds.weathers import drawn_remarks, lost_roads
from skidpad.oracles.doubts import DoubtKind, doubts_of
from skidpad.oracles.error import scale_of
from skidpad.oracles.relations import AnswersAlike, DecidesAlike, LabelMse, SteersAlike, SteersRight, fails_unchanged
from skidpad.page.charts import DeviationHistogram
from skidpad.page.model import Headline, Page, Tone, doubt_words, run_page
from skidpad.page.pictures import MAX_LEAN_DEG, PairCard, PicturePair, cards, drawn
from skidpad.page.wording import DEGREES, angles_sentence, count, counted, drive_with, interval, percent, plain, with_unit
from skidpad.runs.findings import caused_first, label_relation
from skidpad.runs.records import Record
from skidpad.search.protocol import SEARCHES

if TYPE_CHECKING:
    from skidpad.kinds.pictures.campaign import DeepTest
    from skidpad.kinds.pictures.judging import JudgedOutput
    from skidpad.oracles.relations import Relation
    from skidpad.runs.folder import Run


def untested_words(untested: Untested) -> str:
    """Says how many frames went untested and why; "" where none did."""
    if not untested.reasons:
        return ""
    why = ", ".join(f"{count(number)} {reason}" for reason, number in untested.reasons)
    were = "was" if untested.judged == 1 else "were"
    return f"{count(untested.judged)} of {counted(untested.frames, 'frame')} {were} judged. The others went untested: {why}."


def drive_frames(untested: Untested) -> str:
    """Words how many frames a drive has, and how many of them were judged where not all were."""
    whole = counted(untested.frames, "frame")
    return whole if untested.judged == untested.frames else f"{count(untested.judged)} of {whole} judged"


_CRITERIA = {
    "nc": "neuron coverage (NC)",
    "kmnc": "neuron coverage, inside the known range (KMNC)",
    "nbc": "neuron coverage, beyond the known range (NBC)",
    "snac": "neuron coverage, above the known range (SNAC)",
    "tknc": "neuron coverage, top neurons (TKNC)",
}
_STRICT_DEG = 1.0
"""A wheel is not held steadier than this, so a tighter tolerance says more about the tolerance than about the network."""

_HARDLY_ANY = 0.05
"""The share of findings of the worst transform below which a tolerance that is wide already is said to let almost everything pass."""

WILSON = "Intervals are 95 % Wilson intervals; neighbouring frames are not independent, so read them as lower bounds of the uncertainty."


def relation_sentence(relation: Relation, judged: JudgedOutput) -> str:
    """Says in one sentence what a case had to satisfy."""
    if isinstance(relation, LabelMse):
        bound_deg = degrees(sqrt(relation.tolerated_rad2))
        return f"squared error against the label at most {relation.lambda_:g} x MSE of the originals (within {bound_deg:.2f} deg)"
    if isinstance(relation, SteersRight):
        return f"steers within {relation.within_deg:g} deg of the human or of its answer on the original"
    if isinstance(relation, SteersAlike):
        verb = "steers" if judged.is_steering else f"answers {judged.name}"
        return f"{verb} within {relation.within_deg:g} deg of its answer on the original"
    if isinstance(relation, AnswersAlike):
        return f"answers {judged.name} within {relation.within:g}{_spaced(judged.shown_unit)} of its answer on the original"
    if isinstance(relation, DecidesAlike):
        return f"decides {judged.name} (at least {relation.threshold:g}{_spaced(judged.shown_unit)}) as on the original"
    return relation.name


def verdict_words(summary: Summary, relation: Relation, originals: Originals, judged: JudgedOutput) -> str:
    """Says in a sentence or two, without the papers' names, what was found."""
    overall = summary.overall
    if overall.cases == 0:
        return "No changed picture was judged."
    if isinstance(relation, LabelMse) and is_undecided(relation, originals, summary):
        bound_deg = degrees(sqrt(relation.tolerated_rad2))
        why = f"the tolerance is {_bound(bound_deg)}°, which is" if bound_deg > LOCK_DEG else "there are labels that lie"
        return (
            f"Undecided: {why} further than any steering wheel turns, so that {counted(overall.cases, 'changed picture')} "
            f"with {counted(overall.findings, 'finding')} say nothing about the network. Are labels and answers in the units that they "
            "are said to be in?"
        )
    kept, broken = _kept_and_broken(relation, judged)
    if overall.findings == 0:
        return f"No findings: on all {count(overall.cases)} changed pictures the network {kept}."
    tried = [rate for rate in summary.by_stimulus if rate.cases]
    conditions = [rate for rate in tried if rate.name not in SEARCHES.names()]  # a search goes where it fails: its rate says less
    worst = max(conditions or tried, key=lambda rate: rate.rate)
    return (
        f"On {count(overall.findings)} of {count(overall.cases)} changed pictures the network {broken}. "
        f"Most often it fails under {worst.name}: {percent(worst.rate)}."
    )


def is_undecided(relation: Relation, originals: Originals, summary: Summary) -> bool:
    """Tells whether more is tolerated than a steering wheel turns, or nothing is found against labels beyond that: neither is a verdict."""
    if not isinstance(relation, LabelMse):
        return False
    has_odd_labels = bool((np.abs(originals.label) > radians(LOCK_DEG)).any())
    return degrees(sqrt(relation.tolerated_rad2)) > LOCK_DEG or (has_odd_labels and not summary.overall.findings)


def _bound(angle_deg: float) -> str:
    return f"{angle_deg:.0f}" if angle_deg >= 100.0 else f"{angle_deg:.2g}"


def _kept_and_broken(relation: Relation, judged: JudgedOutput) -> tuple[str, str]:
    """Says what a network does that satisfies a relation, and what one does that breaks it."""
    verb, answer = "steers" if judged.is_steering else f"answers {judged.name}", "its answer on the unchanged picture"
    if isinstance(relation, LabelMse):
        bound, whom, beyond = f"{_bound(degrees(sqrt(relation.tolerated_rad2)))}°", "the human", "more than {}"
    elif isinstance(relation, SteersRight):
        bound, whom, beyond = f"{relation.within_deg:g}°", f"the human and {answer}", "{} or more"
    elif isinstance(relation, SteersAlike):
        bound, whom, beyond = f"{relation.within_deg:g}°", answer, "{} or more"
    elif isinstance(relation, AnswersAlike):
        bound, whom, beyond = with_unit(relation.within, judged.shown_unit), answer, "{} or more"
    elif isinstance(relation, DecidesAlike):
        return f"decides {judged.name} as on the unchanged picture", f"decides {judged.name} otherwise than on the unchanged picture"
    else:
        return f"satisfies the relation {relation.name}", f"breaks the relation {relation.name}"
    return f"{verb} within {bound} of {whom}", f"{verb} {beyond.format(bound)} away from {whom}"


def headlines_of(summary: Summary) -> tuple[Headline, ...]:
    """Words the figures beside the verdict."""
    overall = summary.overall
    frames = counted(summary.frames, "frame")
    headlines = [
        Headline("findings", count(overall.findings), f"of {count(overall.cases)} changed pictures (mutants) of {frames}"),
        Headline("failure rate", percent(overall.rate), f"95 % interval {interval(overall.low, overall.high)}"),
    ]
    whole = next((gain for gain in summary.coverage if not gain.stimulus), None)
    if whole is not None and whole.total:
        detail = f"{percent(whole.originals / whole.total)} by the unchanged pictures alone; not a measure of quality"
        label = _CRITERIA.get(whole.criterion, f"{whole.criterion.upper()} coverage")
        headlines.append(Headline(label, percent(whole.together / whole.total), detail))
    return tuple(headlines)


def warnings_of(relation: Relation, originals: Originals, summary: Summary) -> tuple[str, ...]:
    """Says what a reader must know before believing the verdict."""
    warnings = []
    already, found = summary.overall.already_broken, summary.overall.findings
    if already:
        frames = "a frame that the network" if already == 1 else "frames that the network"
        warnings.append(
            f"{count(already)} of {counted(found, 'finding')} {'is' if already == 1 else 'are'} on {frames} gets wrong before anything is "
            "changed: the original already breaks the relation, and the transform need not be at fault. Such findings are marked."
        )
    if isinstance(relation, LabelMse):
        bound_deg = degrees(sqrt(relation.tolerated_rad2))
        if any(doubt.kind is DoubtKind.WORSE_THAN_MEAN for doubt in doubts_of(originals.answer, originals.label)):
            most = max((rate.rate for rate in summary.by_stimulus if rate.cases), default=0.0)
            wide = "almost everything" if most < _HARDLY_ANY else f"{_bound(bound_deg)}°, which is much"
            warnings.append(
                "The tolerance is a multiple of this network's error on unchanged frames, which is larger than that of one that always "
                f"answers the mean label, so the relation tolerates {wide}. Use --within-deg."
            )
        elif bound_deg < _STRICT_DEG:
            warnings.append(
                f"The tolerance is only {_bound(bound_deg)}°, because it is a multiple of the network's error on these very frames, which "
                f"is {_bound(degrees(sqrt(originals.mse_rad2)))}° (RMSE). If it was trained on them, that says little: test on frames that "
                "it has never seen, or set the tolerance with --within-deg."
            )
    return tuple(warnings)


def remarks_of(campaign: DeepTest, relation: Relation, originals: Originals, summary: Summary) -> tuple[str, ...]:
    """Says how the run was judged, and what was out of the ordinary in it."""
    sentence = relation_sentence(relation, campaign.judged)
    unless = "" if isinstance(relation, LabelMse) else "a case breaks it unless it "
    remarks = [f"Relation: {relation.name}; {unless}{sentence}."]
    if not campaign.has_coverage:
        remarks.append("The subject is a black box: its neurons cannot be seen, so there is no coverage.")
    if campaign.window_words:
        remarks.append(f"The subject has a memory: each transform is applied {campaign.window_words}; pictures show the last.")
    if summary.unjudged:
        why = "has no label" if isinstance(relation, LabelMse) else "has no finite answer on the original"
        if isinstance(relation, SteersRight):
            why = "has no label, or the network steers it wrong unchanged"
        remarks.append(f"{counted(summary.unjudged, 'mutant')} could not be judged and count in no rate: the frame {why}.")
    if summary.not_finite:
        have = "has" if summary.not_finite == 1 else "have"
        remarks.append(f"{counted(summary.not_finite, 'mutant')} {have} no finite answer on themselves or their original.")
    if originals.labelled:
        rmse = f"RMSE {sqrt(originals.mse_rad2):.4f} rad"
        remarks.append(f"Originals: MSE {originals.mse_rad2:.5f} rad^2, {rmse} over {counted(originals.labelled, 'labelled frame')}.")
    return (*remarks, *drawn_remarks(campaign.stimuli))


def notes_of(campaign: DeepTest, relation: Relation, summary: Summary) -> tuple[str, ...]:
    """Says how the figures are to be read."""
    notes = [f"{angles_sentence(campaign.judged.output)}Pictures are computed again from their recipes.", WILSON]
    if campaign.has_coverage:
        notes.append("More coverage does not by itself mean more faults; it stands beside the fault yield, never as the score.")
    if isinstance(relation, LabelMse):
        notes.insert(
            0,
            "The relation compares squares: a squared error of 9 times the tolerated one is an error of 3 times the tolerated angle. Both "
            "are said of each finding, and the excess in the records is the ratio of squares.",
        )
        near = summary.near_original()
        found = counted(sum(rate.findings for rate in near), "finding")
        notes.append(
            f"Eq. 3 asks which parameters leave the error near that of the originals (epsilon {EPSILON_RAD2:.4f} rad^2): it keeps "
            f"{len(near)} of {len(summary.filtered)} of them, with {found}. Fog and rain are exempt, as in the paper."
        )
    return tuple(notes)


def _spaced(unit: str) -> str:
    return f" {unit}" if unit in {"m/s", "m/s2"} else ""


PAIRS = 24
"""Pictures that a report shows; more would not be looked at."""


def deeptest_page(campaign: DeepTest, run: Run) -> Page:
    """Counts the run, renders its worst findings again and words the verdict."""
    relation, originals, summary, untested = _counted(campaign, run)
    name, overall, doubtful = campaign.subject.description.name, summary.overall, doubt_words(run)
    pictures, undrawn = worst_cards(run, campaign, relation)
    lost = untested_words(untested)
    bound = relation.within_deg if isinstance(relation, SteersAlike) else relation.within if isinstance(relation, AnswersAlike) else nan
    moved = DeviationHistogram(
        campaign.judged.edges, tuple(summary.deviations.tolist()), bound, summary.not_finite, campaign.judged.shown_unit
    )
    unknown = doubtful or not overall.cases or is_undecided(relation, originals, summary)
    return run_page(
        run,
        title=f"{name} on {campaign.drive.name}",
        tone=Tone.UNKNOWN if unknown else Tone.ALARM if overall.findings else Tone.CALM,
        verdict=doubtful + verdict_words(summary, relation, originals, campaign.judged),
        headlines=headlines_of(summary),
        context={
            "Subject": name,
            "Output": _output_words(campaign),
            "Drive": drive_with(campaign.settings.drive, drive_frames(untested)),
        },
        warnings=(
            *undrawn,
            *lost_roads(campaign.stimuli),
            *drive_warnings(campaign.drive),
            *warnings_of(relation, originals, summary),
            *([lost] if untested.is_damage else []),
        ),
        remarks=(*remarks_of(campaign, relation, originals, summary), "" if untested.is_damage else lost),
        notes=notes_of(campaign, relation, summary),
        pictures=pictures,
        pictures_note=pictures_note(pictures, overall.findings, relation_sentence(relation, campaign.judged), campaign.judged.shown_unit),
        galleries=(*(() if overall.findings else nearest_galleries(run, campaign)), *apart_galleries(run, campaign)),
        charts=(
            *picture_charts(summary.by_stimulus, summary.by_parameters, summary.coverage),
            *([deviation_chart(moved)] if sum(moved.counts) else []),
        ),
        tables=(
            *picture_tables(summary.by_stimulus, summary.by_parameters, summary.coverage),
            problem_table([*campaign.drive.problems, *summary.problems]),
        ),
    )


def deeptest_figures(campaign: DeepTest, run: Run) -> Mapping[str, object]:
    """Returns rates and coverage as plain values; coverage as the papers divide it, and of the reachable regions, which deviates."""
    relation, originals, summary, untested = _counted(campaign, run)
    return {
        "output": campaign.judged.name,
        "unit": campaign.judged.shown_unit,
        "originals": summary.originals,
        "frames": {"judged": untested.judged, "all": untested.frames, "untested": dict(untested.reasons)},
        "overall": {**asdict(summary.overall), "rate": summary.overall.rate},
        "by_stimulus": [{**asdict(rate), "rate": rate.rate} for rate in summary.by_stimulus],
        "coverage": [
            {
                **asdict(gain),
                "share": gain.together / gain.total if gain.total else None,
                "share_of_reachable": gain.together / gain.reachable if gain.reachable else None,
            }
            for gain in summary.coverage
        ],
        "black_box": not campaign.has_coverage,
        "not_finite": summary.not_finite,
        "unjudged": summary.unjudged,
        "problems": len(summary.problems),
        "warnings": [*drive_warnings(campaign.drive), *warnings_of(relation, originals, summary)],
    }


def _counted(campaign: DeepTest, run: Run) -> tuple[Relation, Originals, Summary, Untested]:
    originals = Originals.of(run, len(campaign.drive))
    relation = campaign.relation(originals)
    summary = summarise(run, campaign.blank_tracker(campaign.profile(run)), campaign.judged, relation)
    return relation, originals, summary, untested_frames(summary, originals, campaign.drive, relation, finished=run.is_finished)


def worst_cards(
    run: Run, campaign: DeepTest, relation: Relation, named: Callable[[Recipe], str] = str
) -> tuple[tuple[PairCard, ...], tuple[str, ...]]:
    """Renders the findings worth looking at; says of how many that is no longer possible. named: what a recipe is called."""
    judged = campaign.judged

    def pair(record: Record) -> PicturePair:
        return PicturePair(
            case_id=record.case_id,
            frame_id=record.frame_id,
            recipe=" ".join(filter(None, (named(record.recipe), campaign.window_words))),
            original=campaign.original(record.frame_index, record.recipe),
            mutant=campaign.picture(record.frame_index, record.recipe),
            original_answer=judged.shown(record.original),
            mutant_answer=judged.shown(record.mutant),
            excess=record.excess,
            label_answer=judged.shown(record.label),
            unit=judged.shown_unit,
            scale=scale_of(relation.name),
            replay=f"skidpad replay {shlex.quote(run.place)} {record.case_id}",
            already_broken=_already_broken(relation, record),
            moved=campaign.moved_by(record.recipe, record.original),
        )

    pairs, undrawn = drawn(showcase(run), pair)
    return cards(pairs), undrawn


def pictures_note(shown: tuple[PairCard, ...], findings: int, relation: str, unit: str = DEGREES) -> str:
    """Says which findings are shown, what each of them breaks, and how arrows are to be read."""
    which = (
        f"{count(len(shown))} of {count(findings)} findings: the worst of each stimulus first, then the second of each on another frame, "
        "and so on."
        if len(shown) < findings
        else "All findings: the worst of each stimulus first, then the second of each, and so on."
    )
    arrows = f" Arrows start at the car and lean to the side it would steer to, by the angle itself, up to {MAX_LEAN_DEG:g}°."
    rule = f" Each breaks the relation “{plain(relation)}”."
    return f"{which}{rule}{arrows if unit == DEGREES else ''} A cross is an answer that is not finite."


def showcase(run: Run, pairs: int = PAIRS) -> list[Record]:
    """Returns findings worth looking at: the worst of each stimulus, worst first, then the second of each on another frame, and so on.

    The worst findings of all are often one fault, seen on neighbouring frames under one stimulus; so the stimuli take turns, and the
    first screen shows every fault once. Findings on frames that fail as they are come last, as everywhere (`runs.worst`).
    """
    relation = label_relation(run)

    def already_broken(record: Record) -> bool:
        return relation is not None and _already_broken(relation, record)

    ranked: list[tuple[int, Record]] = []
    for table in _worst_by_stimulus(run, relation, 8 * pairs).values():
        first_on_frame: dict[str, Record] = {}
        for row in table.to_pylist():
            record = Record.from_row(row)
            first_on_frame.setdefault(record.frame_id, record)
        ranked += enumerate(first_on_frame.values())
    ranked.sort(key=lambda each: (each[0], -each[1].excess))
    return sorted((record for _, record in ranked[:pairs]), key=already_broken)


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


def _already_broken(relation: Relation, record: Record) -> bool:
    return bool(fails_unchanged(relation, np.array([record.original]), np.array([record.label]))[0])


def _output_words(campaign: DeepTest) -> str:
    if campaign.judged.is_steering and len(campaign.subject.description.outputs) == 1:
        return ""
    unit = campaign.judged.shown_unit
    return f"{campaign.judged.name} ({unit})" if unit else campaign.judged.name
