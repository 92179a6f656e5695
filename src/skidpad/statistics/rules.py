"""When does it fail? Rules that a person reads, learned on one half of the cases and counted on the other.

A rule is a conjunction of a few conditions on traits of the cases. A beam search finds the one that tells failures from the rest best,
then one for the cases that it leaves, and so on. Our own, since the libraries that learn such lists bring scikit-learn, thirty times
the size of this package, and none of them keeps cases of one scenario on one side of the split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import floor, log, log10

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.images import BoolArray, FloatArray
from skidpad.statistics.intervals import Clusters, holm, two_proportions

MAX_CONDITIONS, MAX_RULES = 3, 3
_BEAM = 12
_CUTS = 16
"""Thresholds that are tried for a number, at quantiles of its values."""
_LEAST = 5
"""Cases below which nothing is learned of a region."""
_SEEN = 3
"""Failures kept apart that a rule needs: nobody believes one of eight, however small its p-value."""


@dataclass(frozen=True, slots=True, eq=False)
class Trait:
    """One property of every case, (N,): numbers, NaN where a case has none of it, or texts, "" likewise.

    below, above: the words around a threshold, as "the bend is tighter than {}"; by default name and unit say it.
    """

    name: str
    values: FloatArray | Sequence[str]
    unit: str = ""
    below: str = ""
    above: str = ""

    @property
    def is_number(self) -> bool:
        """Whether the values are numbers."""
        return isinstance(self.values, np.ndarray)


@dataclass(frozen=True, slots=True, eq=False)
class Cases:
    """Cases to learn from. failed: (N,). clusters: one text a case; cases of one cluster are alike, and never on both sides of a split."""

    failed: BoolArray
    traits: tuple[Trait, ...]
    clusters: Sequence[str]

    def __post_init__(self) -> None:
        lengths = {len(self.failed), len(self.clusters), *(len(trait.values) for trait in self.traits)}
        if len(lengths) != 1:
            raise BadParametersError(f"every case has a verdict, a cluster and all traits; got columns of {sorted(lengths)} cases")


@dataclass(frozen=True, slots=True, eq=False)
class RuleCondition:
    """One condition in words, and where it holds, (N,)."""

    words: str
    trait: str
    holds: BoolArray


@dataclass(frozen=True, slots=True)
class Counted:
    """How many of some cases failed."""

    failed: int
    cases: int

    @property
    def rate(self) -> float:
        """The share; NaN without cases."""
        return self.failed / self.cases if self.cases else float("nan")

    def __str__(self) -> str:
        return f"{self.failed:,} of {self.cases:,}"


@dataclass(frozen=True, slots=True, eq=False)
class FailureRule:
    """A region in which cases fail more often.

    learned: in the half that it was found in. kept_apart, rest: inside and outside of it in the other half, without the cases of the
    rules before it. p_value: that chance alone makes the other half so. holds: (N,), over both halves.
    """

    conditions: tuple[RuleCondition, ...]
    learned: Counted
    kept_apart: Counted
    rest: Counted
    p_value: float
    holds: BoolArray

    @property
    def where(self) -> str:
        """The region in words."""
        return " and ".join(condition.words for condition in self.conditions)

    def __str__(self) -> str:
        return (
            f"fails in {percent_of(self.kept_apart)} where {self.where} ({self.kept_apart}), else in {percent_of(self.rest)} ({self.rest})"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Ruled:
    """Rules that hold on cases kept apart, in the order in which they are read, and how many more were found that do not."""

    rules: tuple[FailureRule, ...]
    dropped: int
    learned_on: int
    counted_on: int

    @property
    def is_starved(self) -> bool:
        """Whether there are so few cases that no rule could be learned, whatever they are."""
        return self.learned_on <= _LEAST or self.counted_on < _SEEN


def percent_of(counted: Counted) -> str:
    """Words a share: two digits below ten percent, since 33 of 8,528 are not none."""
    if not counted.cases:
        return "none"
    share = 100 * counted.rate
    return f"{share:.2g} %" if 0 < share < 10 else f"{share:.0f} %"


def learn_rules(cases: Cases, alpha: float = 0.05) -> Ruled:
    """Finds rules on the half of the clusters that their hashes say, and keeps those that hold on the other half, by Holm's test."""
    first = np.array([blake2b(each.encode(), digest_size=1).digest()[0] % 2 == 0 for each in cases.clusters], np.bool_)
    conditions = _conditions(cases.traits, first)
    masks = np.array([condition.holds for condition in conditions], np.float64).reshape(len(conditions), len(cases.failed))
    open_ = np.ones(len(cases.failed), np.bool_)
    found: list[FailureRule] = []
    while len(found) < MAX_RULES and len(conditions):
        chosen = _best(masks, conditions, cases.failed, open_ & first)
        if chosen is None:
            break
        holds = open_ & np.logical_and.reduce([conditions[place].holds for place in chosen])
        inside, outside = (_clusters(cases, part & ~first) for part in (holds, open_ & ~holds))
        found.append(
            FailureRule(
                tuple(conditions[place] for place in chosen),
                _counted(cases.failed, holds & first),
                _counted(cases.failed, holds & ~first),
                _counted(cases.failed, open_ & ~holds & ~first),
                two_proportions(inside, outside),
                holds,
            )
        )
        open_ = open_ & ~holds
    kept = holm(np.array([rule.p_value for rule in found], np.float64), alpha)
    rules = tuple(rule for rule, is_kept in zip(found, kept, strict=True) if is_kept and rule.kept_apart.failed >= _SEEN)
    return Ruled(rules, len(found) - len(rules), int(first.sum()), int((~first).sum()))


def _counted(failed: BoolArray, which: BoolArray) -> Counted:
    return Counted(int(failed[which].sum()), int(which.sum()))


def _clusters(cases: Cases, which: BoolArray) -> Clusters:
    rows = np.flatnonzero(which)
    _, number = np.unique(np.array([cases.clusters[row] for row in rows.tolist()], np.str_), return_inverse=True)
    trials = np.bincount(number, minlength=0)
    hits = np.bincount(number, weights=cases.failed[rows].astype(np.float64), minlength=len(trials))
    return Clusters(hits.astype(np.int64), trials.astype(np.int64))


def _conditions(traits: Sequence[Trait], seen: BoolArray) -> list[RuleCondition]:
    """Returns what may stand in a rule; thresholds come from the cases that may be looked at."""
    found = []
    for trait in traits:
        if isinstance(trait.values, np.ndarray):
            values = trait.values
            known = values[seen & np.isfinite(values)]
            cuts = {_readable(cut) for cut in np.quantile(known, np.linspace(0.03, 0.97, _CUTS))} if len(known) else set()
            for cut in sorted(cuts):
                text = f"{cut:g} {trait.unit}".strip()
                for template, holds in (
                    (trait.below or f"{trait.name} is below {{}}", values < cut),
                    (trait.above or f"{trait.name} is at least {{}}", values >= cut),
                ):
                    found.append(RuleCondition(template.format(text), trait.name, holds))
        else:
            texts = np.array(trait.values, np.str_)
            known_texts = sorted(set(texts[seen].tolist()) - {""})
            found += [RuleCondition(f"{trait.name} is {text}", trait.name, texts == text) for text in known_texts]
            if len(known_texts) > 2:  # of two, the other says it more plainly
                found += [RuleCondition(f"{trait.name} is not {text}", trait.name, (texts != text) & (texts != "")) for text in known_texts]
    return [each for each in found if 0 < each.holds[seen].sum() < seen.sum()]


def _readable(value: float) -> float:
    """Rounds to two digits: nobody reads a bend of 61.372 m."""
    return float(round(value, 1 - floor(log10(abs(value))))) if value else 0.0


def _best(masks: FloatArray, conditions: Sequence[RuleCondition], failed: BoolArray, used: BoolArray) -> tuple[int, ...] | None:
    """Returns the conjunction with the highest gain over not knowing anything; None where none is worth its words."""
    if not failed[used].any():
        return None
    weights = np.stack([used, used & failed]).astype(np.float64)
    beam: list[tuple[int, ...]] = [()]
    best: tuple[float, tuple[int, ...]] = (0.0, ())
    for _ in range(MAX_CONDITIONS):
        scored: dict[tuple[int, ...], float] = {}
        for chosen in beam:
            inside = np.prod(masks[list(chosen)], axis=0) if chosen else np.ones(masks.shape[1], np.float64)
            counts = masks @ (weights * inside).T
            gains = _gain(counts[:, 1], counts[:, 0], int(weights[1].sum()), int(weights[0].sum()), len(chosen) + 1)
            taken = {conditions[place].words for place in chosen}
            for place in np.argsort(-gains)[: 4 * _BEAM].tolist():
                if conditions[place].words not in taken:
                    scored[tuple(sorted((*chosen, place)))] = float(gains[place])
        beam = sorted(scored, key=lambda key: (-scored[key], key))[:_BEAM]
        for key in beam:
            if scored[key] > best[0] + 1e-9:
                best = (scored[key], key)
    return best[1] or None


def _gain(hits: FloatArray, cases: FloatArray, all_hits: int, all_cases: int, conditions: int) -> FloatArray:
    """Returns the gain in log-likelihood of giving the region a rate of its own, less what its conditions cost.

    Each condition costs as one free number in Schwarz's criterion, and as much again for being chosen among many.
    """
    out_hits, out_cases = all_hits - hits, all_cases - cases
    gain = _likelihood(hits, cases) + _likelihood(out_hits, out_cases) - _likelihood(np.array(float(all_hits)), np.array(float(all_cases)))
    with np.errstate(invalid="ignore", divide="ignore"):
        is_worse = hits / cases > out_hits / np.maximum(out_cases, 1)
    fits = (cases >= _LEAST) & (out_cases >= 1) & is_worse
    return np.asarray(np.where(fits, gain - conditions * log(max(all_cases, 2)), -np.inf), np.float64)


def _likelihood(hits: FloatArray, cases: FloatArray) -> FloatArray:
    from scipy.special import xlogy  # noqa: PLC0415  takes longer to import than everything else here

    return np.asarray(xlogy(hits, hits / np.maximum(cases, 1)) + xlogy(cases - hits, (cases - hits) / np.maximum(cases, 1)), np.float64)
