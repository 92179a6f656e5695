"""The gate: whether a run keeps its limits, and whether it is worse than a baseline; pure functions over judged cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.core.images import BoolArray, FloatArray, IntArray
from skidpad.oracles.doubts import Doubt
from skidpad.runs.tags import Tag
from skidpad.statistics.intervals import Clusters, Interval, holm, sign_flip, two_proportions

ALL = "all"
"""The group of all cases."""

NEAR = 0.02
"""How far the excess of one case may differ between two processors, as a part of what is tolerated: 0.02 m of a lane's 1.5 m, or what a
level of 255 here and there does to an answer."""

Texts = NDArray[np.bytes_]


@dataclass(frozen=True, slots=True, eq=False)
class Cases:
    """The judged cases of a run, (N,) each: key (the same in both runs for the same case), name, group, cluster, excess, verdict, tag.

    Keys are distinct; the texts are UTF-8. tag: what a person said, "" for nothing (`runs/tags.py`).
    """

    key: Texts
    case_id: Texts
    group: Texts
    cluster: Texts
    excess: FloatArray
    failed: BoolArray
    tag: Texts

    def __len__(self) -> int:
        return len(self.key)

    def take(self, rows: BoolArray | IntArray) -> Cases:
        """Returns some of the cases."""
        return Cases(*(getattr(self, column.name)[rows] for column in fields(self)))

    @classmethod
    def joined(cls, parts: Sequence[Cases]) -> Cases:
        """Puts parts, at least one, behind one another."""
        return cls(*(np.concatenate([getattr(part, column.name) for part in parts]) for column in fields(cls)))

    def of(self, group: str) -> Cases:
        """Returns the cases of a group."""
        return self if group == ALL else self.take(self.group == group.encode())

    def among(self, groups: Sequence[str]) -> Cases:
        """Returns the cases of several groups."""
        return self.take(np.isin(self.group, [group.encode() for group in groups]))

    @property
    def false_alarms(self) -> BoolArray:
        """Which findings a person called a false alarm, (N,)."""
        return np.asarray(self.failed & (self.tag == Tag.FALSE_ALARM.value.encode()), np.bool_)

    def without_false_alarms(self) -> Cases:
        """Returns the cases with the false alarms among those that passed."""
        return replace(self, failed=self.failed & ~self.false_alarms)

    def shared_with(self, other: Cases) -> tuple[IntArray, IntArray]:
        """Returns the rows of the cases that both runs have, here and there."""
        _, mine, theirs = np.intersect1d(self.key, other.key, assume_unique=True, return_indices=True)
        return mine, theirs

    def told_by(self, other: Cases) -> Cases:
        """Returns the cases with the tags that the same cases have in another run, where nobody has said anything here."""
        mine, theirs = self.shared_with(other)
        tag = self.tag.astype(f"S{max(self.tag.dtype.itemsize, other.tag.dtype.itemsize)}")
        tag[mine] = np.where(tag[mine] == b"", other.tag[theirs], tag[mine])
        return replace(self, tag=tag)

    def on_the_edge(self, other: Cases, near: float) -> BoolArray:
        """Tells which cases have another verdict in another run though their excess is within `near` of the other's, (N,)."""
        mine, theirs = self.shared_with(other)
        edge = np.zeros(len(self), np.bool_)
        edge[mine] = (self.failed[mine] != other.failed[theirs]) & (np.abs(self.excess[mine] - other.excess[theirs]) <= near)
        return edge

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups by name."""
        return tuple(each.decode() for each in np.unique(self.group).tolist())

    @property
    def clusters(self) -> Clusters:
        """How often the cases of each cluster failed."""
        _, place = np.unique(self.cluster, return_inverse=True)
        return Clusters(np.bincount(place, self.failed).astype(np.int64), np.bincount(place).astype(np.int64))


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run must keep. max_rate: by group, `all` for all cases; 0..1. max_new: findings that the baseline did not have.

    max_rise: how far a rate may lie above the baseline's, however significant. alpha: how often a gate may fail by chance alone.
    without_false_alarms: whether findings that a person called false alarms count as passed. accept_doubts: whether a run may pass whose
    answers on unchanged pictures make no sense. hold: severities that the network must hold to, as fog.visibility_m=150, which the kind of
    the run judges.
    """

    max_rate: Mapping[str, float] = field(default_factory=dict)
    max_new: int | None = None
    max_rise: float = 0.0
    alpha: float = 0.01
    confidence: float = 0.95
    without_false_alarms: bool = False
    accept_doubts: bool = False
    hold: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name, rate in (*self.max_rate.items(), ("the rise", self.max_rise)):
            if not 0.0 <= rate <= 1.0:
                raise BadParametersError(f"a rate lies between 0 and 1, as 0.05; got {rate:g} for {name}")
        if self.max_new is not None and self.max_new < 0:
            raise BadParametersError(f"the number of new findings is 0 or more; got {self.max_new}")
        if not 0.0 < self.alpha < 1.0:
            raise BadParametersError(f"alpha lies between 0 and 1, as 0.01; got {self.alpha:g}")


@dataclass(frozen=True, slots=True)
class GroupRate:
    """How often the cases of a group fail: as the oracle judges, and without the findings that a person called false alarms."""

    group: str
    findings: int
    rate: Interval
    false_alarms: int
    rate_without: Interval


@dataclass(frozen=True, slots=True)
class GateChange:
    """A group in both runs: its rates, how many cases both have, and what became of their findings.

    p_value: how likely chance alone raises the rate so; NaN where there is nothing to compare. is_paired: on common cases.
    """

    group: str
    now: Interval
    then: Interval
    common: int
    new: int
    fixed: int
    persisting: int
    p_value: float
    is_paired: bool

    @property
    def rise(self) -> float:
        """By how much the rate has risen: of common cases where these were compared, else of all."""
        return (self.new - self.fixed) / self.common if self.is_paired else self.now.estimate - self.then.estimate


@dataclass(frozen=True, slots=True)
class Outcome:
    """One limit, whether it is kept, and that in one line."""

    name: str
    is_kept: bool
    said: str
    is_sure: bool = True
    """False where it is kept only for want of cases that could break it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate says. rates: by group, all cases first. new: case ids of the worst new findings first.

    doubts: what is odd about the answers on unchanged pictures, which is said before any figure.
    """

    rates: tuple[GroupRate, ...]
    changes: tuple[GateChange, ...]
    new: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...]
    doubts: tuple[Doubt, ...] = ()

    @property
    def is_passed(self) -> bool:
        """Whether every limit is kept."""
        return all(outcome.is_kept for outcome in self.outcomes)

    @property
    def broken(self) -> tuple[Outcome, ...]:
        """The limits that are not kept."""
        return tuple(outcome for outcome in self.outcomes if not outcome.is_kept)

    @property
    def has_false_alarms(self) -> bool:
        """Whether a person called a finding a false alarm."""
        return any(rate.false_alarms for rate in self.rates)


def judge(now: Cases, limits: Limits, baseline: Cases | None = None, near: float = 0.0) -> Verdict:
    """Applies limits to the cases of a run, and compares them with those of a baseline.

    near: how far apart the two runs may have rounded the excess of a case. One whose verdict differs by no more than that is
    compared as if nothing had become of it.
    """
    if baseline is None and limits.max_new is not None:
        raise BadParametersError("new findings are counted against a baseline; give one with --baseline")
    if baseline is None and not limits.max_rate and not limits.hold:
        raise BadParametersError("a gate needs a limit: give --max-rate, --hold, or --baseline to compare with")
    if baseline is not None:
        now, baseline = now.told_by(baseline), baseline.told_by(now)
    raw = now
    alarms = int(raw.false_alarms.sum())
    if limits.without_false_alarms:
        now, baseline = now.without_false_alarms(), None if baseline is None else baseline.without_false_alarms()
    rates = {name: now.of(name).clusters for name in (ALL, *now.groups)}
    outcomes = [_rate_outcome(name, limit, rates, limits.confidence) for name, limit in limits.max_rate.items()]
    changes: tuple[GateChange, ...] = ()
    new: tuple[str, ...] = ()
    notes: tuple[str, ...] = _tag_notes(alarms, without=limits.without_false_alarms)
    if baseline is not None:
        shared = [name for name in now.groups if name in baseline.groups]
        edge = now.on_the_edge(baseline, near) if near else np.zeros(len(now), np.bool_)
        notes += _edge_notes(now.take(edge), near)
        now = replace(now, failed=now.failed ^ edge)
        here, there = now.among(shared), baseline.among(shared)
        changes = tuple(_change(name, here.of(name), there.of(name), limits.confidence) for name in (ALL, *shared))
        new = _new_findings(now, baseline)
        outcomes += _rises(changes, limits)
        if limits.max_new is not None:
            outcomes.append(_new_outcome(new, limits.max_new))
        notes += _notes(now, baseline, changes[0].common)
    shown = tuple(_group_rate(name, raw.of(name), limits.confidence) for name in rates)
    return Verdict(shown, changes, new, tuple(outcomes), notes)


def _group_rate(name: str, cases: Cases, confidence: float) -> GroupRate:
    clusters, without = cases.clusters, cases.without_false_alarms().clusters
    alarms = clusters.failed - without.failed
    return GroupRate(name, clusters.failed, clusters.interval(confidence), alarms, without.interval(confidence))


def _tag_notes(alarms: int, *, without: bool) -> tuple[str, ...]:
    if not alarms:
        return ()
    tagged = "1 finding is tagged as a false alarm" if alarms == 1 else f"{alarms} findings are tagged as false alarms"
    return (f"{tagged} and {'counts' if alarms == 1 else 'count'} as passed" if without else f"{tagged}, and counted all the same",)


def _edge_notes(edge: Cases, near: float) -> tuple[str, ...]:
    if not len(edge):
        return ()
    ids = [each.decode() for each in edge.case_id.tolist()]
    named = ", ".join(ids[:5]) + (f", and {len(ids) - 5} more" if len(ids) > 5 else "")
    lies, counts = ("case lies", "counts") if len(ids) == 1 else ("cases lie", "count")
    where = f"within {100 * near:.0f} % of what is tolerated, on one side then and on the other now"
    return (f"{len(ids)} {lies} {where}, and {counts} as unchanged: {named}",)


def _rate_outcome(name: str, limit: float, rates: Mapping[str, Clusters], confidence: float) -> Outcome:
    if name not in rates:
        raise UnknownNameError.among("group of cases", name, rates)
    clusters = rates[name]
    found = clusters.interval(confidence)
    is_kept = not found.low > limit
    beyond = "is within" if is_kept else "is beyond"
    said = (
        f"failure rate of {name} {beyond} {limit:.4g}: {clusters.failed} of {clusters.total} cases fail "
        f"({100 * found.estimate:.2f} %, {100 * confidence:.0f} % interval {100 * found.low:.2f} % to {100 * found.high:.2f} %)"
    )
    return Outcome(f"rate of {name}", is_kept, said)


def _change(group: str, now: Cases, then: Cases, confidence: float) -> GateChange:
    mine, theirs = now.shared_with(then)
    failed, before = now.failed[mine], then.failed[theirs]
    clusters = (now.clusters, then.clusters)
    # where most cases are in both runs, what became of each tells far more than two rates
    is_paired = 2 * len(mine) >= min(len(now), len(then)) and len(mine) > 0
    if is_paired:
        _, place = np.unique(now.cluster[mine], return_inverse=True)
        p_value = sign_flip(np.bincount(place, failed.astype(np.int64) - before.astype(np.int64)).round().astype(np.int64))
    else:
        p_value = two_proportions(*clusters)
    return GateChange(
        group,
        clusters[0].interval(confidence),
        clusters[1].interval(confidence),
        common=len(mine),
        new=int((failed & ~before).sum()),
        fixed=int((~failed & before).sum()),
        persisting=int((failed & before).sum()),
        p_value=p_value,
        is_paired=is_paired,
    )


def _new_findings(now: Cases, then: Cases) -> tuple[str, ...]:
    mine, theirs = now.shared_with(then)
    fresh = now.take(mine[now.failed[mine] & ~then.failed[theirs]])
    order = np.argsort(-fresh.excess, kind="stable")
    return tuple(each.decode() for each in fresh.case_id[order].tolist())


def _rises(changes: tuple[GateChange, ...], limits: Limits) -> list[Outcome]:
    """Tells of each group whether its rate has risen; all cases are one test among them, so that a small rise everywhere shows."""
    significant = holm(np.array([change.p_value for change in changes]), limits.alpha)
    outcomes = []
    for change, is_significant in zip(changes, significant, strict=True):
        is_kept = not (is_significant and isfinite(change.rise) and change.rise > limits.max_rise)
        how = f"{change.new} new and {change.fixed} fixed among {change.common} common cases" if change.is_paired else "other cases"
        verb = "has risen" if not is_kept else "has not clearly risen" if change.rise > 0.0 else "has not risen"
        p_value = "" if change.p_value != change.p_value else f", p = {change.p_value:.2g}"
        rates = f"{100 * change.then.estimate:.2f} % then, {100 * change.now.estimate:.2f} % now"
        said = f"failure rate of {change.group} {verb}: {rates} ({how}{p_value})"
        outcomes.append(Outcome(f"{change.group} against the baseline", is_kept, said))
    return outcomes


def _new_outcome(new: tuple[str, ...], limit: int) -> Outcome:
    is_kept = len(new) <= limit
    cut = f", and {len(new) - 5} more" if len(new) > 5 else ""
    named = f": {', '.join(new[:5])}{cut}" if new else ""
    found = f"{len(new)} new {'finding' if len(new) == 1 else 'findings'}"
    return Outcome("new findings", is_kept, f"{found}, {limit} allowed{named}")


def _notes(now: Cases, then: Cases, common: int) -> tuple[str, ...]:
    notes = []
    for text, here, there in (("only this run", now, then), ("only the baseline", then, now)):
        lacking = sorted(set(here.groups) - set(there.groups))
        if lacking:
            notes.append(f"{text} has {', '.join(lacking)}, which is compared with nothing")
    if not common:
        notes.append("none of this run's cases are in the baseline; findings cannot be new or fixed, and all are compared by rate")
    elif common < len(now):
        notes.append(f"{common} of {len(now)} of this run's cases are in the baseline; only these can be new or fixed findings")
    return tuple(notes)
