"""Which candidate is recommended, and what refused the others."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from skidpad.page.wording import counted, percent
from skidpad.repairs.lessons import KEPT_RESPONSE
from skidpad.repairs.plan import CONTROL, Trained, TrainedEpoch, badness, is_flat

if TYPE_CHECKING:
    from collections.abc import Sequence


class Limit(Enum):
    """What refuses a candidate."""

    CLEAN = "clean error too high"
    RESPONSE = "response too low"
    MUTANTS = "no better on mutants"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a candidate is not recommended. limits: none where it may be, and another one is better. because: in words."""

    candidate: str
    limits: tuple[Limit, ...]
    because: str


def chosen(before: Trained, controls: Sequence[Trained], candidates: Sequence[Trained], most_cost: float) -> Trained | None:
    """Returns the candidate with the fewest failures among those whose clean error rose by at most a share and that still steer into bends.

    None where it is no better than the start or than any control. The clean error may rise over that of the start or of the control of the
    same learning rate, whichever is larger: what any further training costs is no cost of the mutants.
    """
    affordable = [each for each in candidates if each.clean_rmse_rad <= (1.0 + most_cost) * _least_clean(each, before, controls)]
    best = min((each for each in affordable if not is_flat(each, before)), key=badness, default=None)
    if best is None:
        return None
    others = (before, *controls)
    fewest, least = min(each.failure_rate for each in others), min(each.stressed_rms_rad for each in others)
    helps = best.failure_rate < fewest or (best.failure_rate == fewest and best.stressed_rms_rad < least)
    return best if helps else None


def refusals(before: Trained, candidates: Sequence[Trained], most_cost: float, recommended: str) -> tuple[Refusal, ...]:
    """Says of each candidate but the recommended one and the controls why it is not recommended."""
    controls = [each for each in candidates if each.candidate.way == CONTROL]
    others = [each for each in candidates if each.candidate.way != CONTROL and each.candidate.name != recommended]
    return tuple(_refusal(each, before, controls, most_cost) for each in others)


def summed_up(found: Sequence[Refusal]) -> str:
    """Counts what refused the candidates, in a sentence."""
    counts = {limit: sum(limit in each.limits for each in found) for limit in Limit}
    said = [f"{limit.value}, {count}" for limit, count in counts.items() if count]
    return f" Of {counted(len(found), 'candidate')}: {'; '.join(said)}." if said else ""


def _refusal(each: Trained, before: Trained, controls: Sequence[Trained], most_cost: float) -> Refusal:
    name = each.candidate.name
    if each.best_epoch == 0:
        if each.reached is None:
            return Refusal(name, (Limit.MUTANTS,), "no epoch was better than the network itself")
        reasons = _beyond(each.reached, before, before.clean_rmse_rad, most_cost)
        if each.reached.stressed_rms_rad >= before.stressed_rms_rad:
            reasons[Limit.MUTANTS] = "mutants move its answers no less than the network's"
    else:
        reasons = _beyond(each, before, _least_clean(each, before, controls), most_cost)
        unbeaten = _unbeaten(each, before, controls)
        if unbeaten:
            reasons[Limit.MUTANTS] = f"mutants fail no less often than with {' and '.join(unbeaten)}"
    return Refusal(name, tuple(reasons), "; ".join(reasons.values()) or "another candidate is better")


def _beyond(each: Trained | TrainedEpoch, before: Trained, clean_rad: float, most_cost: float) -> dict[Limit, str]:
    """Says which limits a network is beyond. clean_rad: the clean error that it may exceed by a share."""
    found = {}
    if each.clean_rmse_rad > (1.0 + most_cost) * clean_rad:
        rise = 100.0 * (each.clean_rmse_rad / clean_rad - 1.0)
        found[Limit.CLEAN] = f"clean error {rise:+.1f} %, and {percent(most_cost)} is allowed"
    if is_flat(each, before):
        found[Limit.RESPONSE] = f"response {each.response:.2f}, and {KEPT_RESPONSE * before.response:.2f} is needed"
    return found


def _least_clean(each: Trained, before: Trained, controls: Sequence[Trained]) -> float:
    alike = [control for control in controls if control.candidate.learning_rate == each.candidate.learning_rate]
    return max(one.clean_rmse_rad for one in (before, *alike))


def _unbeaten(each: Trained, before: Trained, controls: Sequence[Trained]) -> list[str]:
    """Names those of the network and the controls that a candidate does no better than."""
    known = {"the network": (before,), "the control": controls}
    return [name for name, others in known.items() if any(not badness(each) < badness(other) for other in others)]
