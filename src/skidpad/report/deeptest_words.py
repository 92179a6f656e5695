"""The words of a report of transformed recordings: verdict, figures, warnings, notes; plain ones first, the papers' names after."""

from __future__ import annotations

from math import degrees, radians, sqrt
from typing import TYPE_CHECKING

import numpy as np

from skidpad.campaigns.summary import EPSILON_RAD2, Summary
from skidpad.drives.inspection import LOCK_DEG
from skidpad.oracles.doubts import DoubtKind, doubts_of
from skidpad.oracles.relations import AnswersAlike, DecidesAlike, LabelMse, SteersAlike
from skidpad.report.model import Headline
from skidpad.report.wording import angles_sentence, count, counted, interval, percent, with_unit

if TYPE_CHECKING:
    from skidpad.campaigns.deeptest import DeepTest
    from skidpad.campaigns.originals import Originals
    from skidpad.campaigns.outputs import JudgedOutput
    from skidpad.oracles.relation import Relation

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


def verdict_words(summary: Summary, relation: Relation, originals: Originals, judged: JudgedOutput, *, finished: bool) -> str:
    """Says in a sentence or two, without the papers' names, what was found."""
    overall = summary.overall
    state = "" if finished else "Not finished yet. "
    if overall.cases == 0:
        return f"{state}No changed picture was judged."
    if isinstance(relation, LabelMse) and is_undecided(relation, originals, summary):
        bound_deg = degrees(sqrt(relation.tolerated_rad2))
        why = f"the tolerance is {_bound(bound_deg)}°, which is" if bound_deg > LOCK_DEG else "there are labels that lie"
        return (
            f"{state}Undecided: {why} further than any steering wheel turns, so that {counted(overall.cases, 'changed picture')} "
            f"with {counted(overall.findings, 'finding')} say nothing about the network. Are labels and answers in the units that they "
            "are said to be in?"
        )
    kept, broken = _kept_and_broken(relation, judged)
    if overall.findings == 0:
        return f"{state}No findings: on all {count(overall.cases)} changed pictures the network {kept}."
    worst = max((rate for rate in summary.by_stimulus if rate.cases), key=lambda rate: rate.rate)
    return (
        f"{state}On {count(overall.findings)} of {count(overall.cases)} changed pictures the network {broken}. "
        f"The worst is {worst.name} with {percent(worst.rate)}."
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
        detail = f"{percent(whole.originals / whole.total)} by the unchanged pictures alone; no score, read it beside the findings"
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


def notes_of(campaign: DeepTest, relation: Relation, originals: Originals, summary: Summary) -> tuple[str, ...]:
    """Says how the figures are to be read."""
    judged, sentence = campaign.judged, relation_sentence(relation, campaign.judged)
    notes = [
        f"Relation: {relation.name}; {sentence}."
        if isinstance(relation, LabelMse)
        else f"Relation: {relation.name}; a case breaks it unless it {sentence}.",
        f"{angles_sentence(judged.output)}Pictures are computed again from their recipes.",
        "Intervals are 95 % Wilson intervals; neighbouring frames are not independent, so read them as lower bounds of the uncertainty.",
        "More coverage does not by itself mean more faults; it stands beside the fault yield, never as the score."
        if campaign.has_coverage
        else "The subject is a black box: its neurons cannot be seen, so there is no coverage.",
    ]
    if isinstance(relation, LabelMse):
        notes.insert(
            1,
            "The relation compares squares: a squared error of 9 times the tolerated one is an error of 3 times the tolerated angle. Both "
            "are said of each finding, and the excess in the records is the ratio of squares.",
        )
    if campaign.window_words:
        notes.append(f"The subject has a memory: each transform is applied {campaign.window_words}; pictures show the last.")
    if summary.unjudged:
        why = "has no label" if isinstance(relation, LabelMse) else "has no finite answer on the original"
        notes.append(f"{counted(summary.unjudged, 'mutant')} could not be judged and count in no rate: the frame {why}.")
    if summary.not_finite:
        have = "has" if summary.not_finite == 1 else "have"
        notes.append(f"{counted(summary.not_finite, 'mutant')} {have} no finite answer on themselves or their original.")
    if originals.labelled:
        rmse = f"RMSE {sqrt(originals.mse_rad2):.4f} rad"
        notes.append(f"Originals: MSE {originals.mse_rad2:.5f} rad^2, {rmse} over {counted(originals.labelled, 'labelled frame')}.")
    if isinstance(relation, LabelMse):
        near = summary.near_original()
        found = counted(sum(rate.findings for rate in near), "finding")
        notes.append(
            f"Eq. 3 asks which parameters leave the error near that of the originals (epsilon {EPSILON_RAD2:.4f} rad^2): it keeps "
            f"{len(near)} of {len(summary.filtered)} of them, with {found}. Fog and rain are exempt, as in the paper."
        )
    return tuple(notes)


def _spaced(unit: str) -> str:
    return f" {unit}" if unit in {"m/s", "m/s2"} else ""
