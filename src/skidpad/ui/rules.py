"""By what the cases of a run were judged: the relation and its tolerance, in words and as a number where a frame may break it by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import degrees, isfinite, nan, sqrt
from typing import TYPE_CHECKING, Any

from skidpad.oracles.excess import Scale, scale_of
from skidpad.report.wording import plain, with_unit

if TYPE_CHECKING:
    from skidpad.ui.exhibits import Row

LABEL_MSE = "label-mse"
_STEERS, _ANSWERS, _DECIDES = "steers-alike", "answers-alike", "decides-alike"


@dataclass(frozen=True, slots=True)
class Rule:
    """What a case had to keep to.

    relation, tolerance: in words, "" where there is none. multiple: of the originals' mean squared error, for `label-mse`, else NaN.
    bound_rad2: the largest squared error against the label that is tolerated, NaN where none is or it is not known yet.
    """

    relation: str = ""
    tolerance: str = ""
    multiple: float = nan
    bound_rad2: float = nan

    @property
    def words(self) -> str:
        """Relation and tolerance together."""
        return ", ".join(part for part in (self.relation, self.tolerance) if part)

    @property
    def scale(self) -> Scale:
        """What an excess is a multiple of."""
        return scale_of(self.relation)

    def measured(self, mse_rad2: float) -> Rule:
        """Returns the rule with the tolerance that the originals' mean squared error makes of its multiple."""
        bound = self.multiple * mse_rad2
        if not isfinite(bound) or bound < 0.0:
            return self
        return replace(self, bound_rad2=bound, tolerance=f"{self.tolerance} (within {degrees(sqrt(bound)):.1f}°)")

    def is_already_broken(self, row: Row) -> bool:
        """Tells whether a row is a finding whose original breaks the rule before anything is changed."""
        original, label = row.get("original"), row.get("label")
        if not row["violated"] or not isinstance(original, float):
            return False
        if not isfinite(original):
            return True
        return isinstance(label, float) and isfinite(self.bound_rad2) and (original - label) ** 2 > self.bound_rad2


def picture_rule(config: Mapping[str, Any]) -> Rule:
    """Reads the rule of a run over pictures from its config; what is missing or odd is left out."""
    relation = plain(str(config.get("relation", "")), 60)
    tolerance, threshold = _number(config.get("tolerance")), _number(config.get("threshold"))
    if relation == LABEL_MSE and isfinite(tolerance):
        return Rule(relation, f"{tolerance:g} × MSE of the originals", tolerance)
    if relation == _STEERS and isfinite(tolerance):
        return Rule(relation, f"within {tolerance:g}°")
    if relation == _ANSWERS and isfinite(tolerance):
        return Rule(relation, f"within {with_unit(tolerance, plain(str(config.get('unit', '')), 20))}")
    if relation == _DECIDES and isfinite(threshold):
        return Rule(relation, f"at {threshold:g}")
    return Rule(relation)


def bound_rule(bounds_deg: object) -> Rule:
    """Returns the rule of a run that counts at several error bounds: a finding is what breaks the smallest."""
    first = _number(bounds_deg[0]) if isinstance(bounds_deg, list | tuple) and bounds_deg else nan
    return Rule(_STEERS, f"within {first:g}°" if isfinite(first) else "")


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else nan
