"""Which relation judges a campaign, and whether it can judge the chosen output at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skidpad.core.errors import SkidpadError
from skidpad.core.units import PlainUnit
from skidpad.oracles.relations import RELATIONS, AnswersAlike, DecidesAlike, LabelMse, SteersAlike

if TYPE_CHECKING:
    from skidpad.campaigns.originals import Originals
    from skidpad.campaigns.outputs import JudgedOutput
    from skidpad.campaigns.settings import DeepTestSettings
    from skidpad.drives.drive import Drive
    from skidpad.oracles.relation import Relation

LAMBDA = 5.0
"""DeepTest's highlighted tolerance (section 5, Table 8)."""

WITHIN_DEG = 10.0
"""DeepRoad's tightest error bound."""

WITHIN_FRACTION = 0.1
"""A tenth of the way of a pedal."""


def default_relation(judged: JudgedOutput, drive: Drive) -> str:
    """Returns the relation that suits an output: Eq. 2 where there are labels, else the answer on the original."""
    if judged.is_steering and drive.has_labels:
        return LabelMse.name
    if judged.output.is_angle:
        return SteersAlike.name
    return DecidesAlike.name if judged.output.unit is PlainUnit.PROBABILITY else AnswersAlike.name


def default_tolerance(relation: str, judged: JudgedOutput) -> float:
    """Returns the tolerance of a relation where nobody names one."""
    if relation == AnswersAlike.name and judged.output.unit not in {PlainUnit.FRACTION, PlainUnit.PROBABILITY}:
        unit = judged.shown_unit or "the unit of its answers"
        raise SkidpadError(f"the relation {relation} needs a tolerance for {judged.name!r}; give --within in {unit}")
    return {LabelMse.name: LAMBDA, SteersAlike.name: WITHIN_DEG}.get(relation, WITHIN_FRACTION)


def check_relation(relation: str, judged: JudgedOutput, drive: Drive) -> None:
    """Refuses a relation that cannot judge this output on this drive."""
    RELATIONS.get(relation)
    for_angles, for_others = f"use --relation {SteersAlike.name}", f"use --relation {DecidesAlike.name} or {AnswersAlike.name}"
    if relation == LabelMse.name and not judged.is_steering:
        other = for_angles if judged.output.is_angle else for_others
        raise SkidpadError(
            f"the relation {relation} compares with the human's steering, and drives hold no labels of {judged.name!r}; {other}"
        )
    if relation == LabelMse.name and not drive.has_labels:
        raise lacks_labels(drive)
    if relation == SteersAlike.name and not judged.output.is_angle:
        raise SkidpadError(f"the relation {relation} takes degrees, and the output {judged.name!r} is no angle; {for_others}")
    if relation in {DecidesAlike.name, AnswersAlike.name} and judged.output.is_angle:
        raise SkidpadError(f"the relation {relation} is for outputs that are no angles, and {judged.name!r} is one; {for_angles}")


def relation_of(settings: DeepTestSettings, judged: JudgedOutput, drive: Drive, originals: Originals) -> Relation:
    """Returns the relation that judges a campaign's answers."""
    name = settings.relation or default_relation(judged, drive)
    if name == DecidesAlike.name:
        return DecidesAlike(threshold=settings.threshold)
    tolerance = default_tolerance(name, judged) if settings.tolerance is None else settings.tolerance
    if name == SteersAlike.name:
        return SteersAlike(within_deg=tolerance)
    if name == AnswersAlike.name:
        return AnswersAlike(within=tolerance)
    if name == LabelMse.name:
        if originals.labelled == 0:
            raise lacks_labels(drive)
        return LabelMse(lambda_=tolerance, mse_original_rad2=originals.mse_rad2)
    return RELATIONS.get(name)()


def lacks_labels(drive: Drive) -> SkidpadError:
    """Says that the relation cannot be used on this drive."""
    return SkidpadError(
        f"the relation {LabelMse.name} compares with the human's steering, but {drive.name!r} has no frame with a label and a "
        f"finite answer; use --relation {SteersAlike.name}"
    )
