"""How an excess is said: how many times the tolerated error was reached, the same words under every relation."""

from collections.abc import Mapping
from enum import Enum
from math import isfinite, isnan, sqrt

NO_ANSWER = "no finite answer"


class Scale(Enum):
    """What an excess is a multiple of."""

    ERRORS = "errors"
    """The tolerated error."""
    SQUARES = "squares"
    """The tolerated squared error, as under `label-mse`: four times that is an error twice as large."""
    DECISIONS = "decisions"
    """Nothing: the decision is another or it is not."""
    CRASHES = "crashes"
    """Nothing: 1 for a crash, and the closing speed in m/s on top."""


_SCALES = {"label-mse": Scale.SQUARES, "decides-alike": Scale.DECISIONS}


def scale_of(relation: str) -> Scale:
    """Returns what the excess of a relation is a multiple of, by the relation's name."""
    return _SCALES.get(relation, Scale.ERRORS)


def scale_of_run(config: Mapping[str, object]) -> Scale:
    """Returns what the excess of a run's cases is a multiple of, by its config: a duel has no relation, a drive the width of its lane."""
    return Scale.CRASHES if config.get("campaign") == "duel" else scale_of(str(config.get("relation", "")))


def times_tolerated(excess: float, scale: Scale = Scale.ERRORS) -> str:
    """Words an excess: how many times the tolerated error was reached, or that the decision is another where none is.

    Of squares their root is said first, so that times mean the same under every relation.
    """
    if isnan(excess):
        return "not judged"
    if not isfinite(excess):
        return NO_ANSWER
    if scale is Scale.DECISIONS:
        return "decides otherwise" if excess > 1.0 else "decides alike"
    if scale is Scale.CRASHES:
        return f"a crash at {excess - 1.0:.1f} m/s" if excess >= 1.0 else "no crash"
    if scale is Scale.SQUARES:
        return f"{_times(sqrt(max(excess, 0.0)))} tolerance ({_times(excess)} in squares)"
    return f"{_times(excess)} tolerance"


def _times(factor: float) -> str:
    if f"{factor:.1f}" == "1.0" and factor != 1.0:
        # just beyond what is tolerated, or just within: one digit would not tell which
        return next((f"{factor:.{digits}f}×" for digits in (2, 3) if f"{factor:.{digits}f}" != f"{1:.{digits}f}"), f"{factor:.4f}×")
    return f"{factor:.1f}×" if factor < 1000 else f"{factor:.1e}×"
