"""Runs side by side: whether their findings may be matched, and what became of each; by the rules of the gate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from skidpad.core.errors import SkidpadError
from skidpad.report.wording import plain
from skidpad.ui.views import RateWords, rate_words

if TYPE_CHECKING:
    from skidpad.core.images import BoolArray, IntArray
    from skidpad.runs.gate import Cases
    from skidpad.ui.volumes import Volume

MAX_LISTED = 30


@dataclass(frozen=True, slots=True)
class Change:
    """What became of the findings of the baseline in another run: case ids of the worst of each kind, and how many there are.

    reasons: why their findings are not matched, in words; nothing is counted then. common: cases that both runs have.
    """

    name: str
    key: str
    base_key: str
    reasons: tuple[str, ...] = ()
    common: int = 0
    new: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    counts: tuple[int, int, int] = (0, 0, 0)


def changes(volumes: list[Volume]) -> list[Change]:
    """Compares each later run with the first, the baseline."""
    return [_change(other, volumes[0]) for other in volumes[1:]]


def groups(volumes: list[Volume]) -> list[tuple[str, list[RateWords | None]]]:
    """Returns the rates of every group that the runs have, a column a run; those that most runs share first."""
    found = [{" · ".join(group.values): group.rates for group in volume.digest().groups} for volume in volumes]
    highest: dict[str, float] = {}
    for rates in found:
        for name, rate in rates.items():
            highest[name] = max(highest.get(name, 0.0), rate.findings / max(rate.cases, 1))
    shared = {name: sum(name in rates for rates in found) for name in highest}
    names = sorted(highest, key=lambda name: (-shared[name], -highest[name], name))
    return [
        (
            name,
            [
                rate_words(rates[name].rate, rates[name].findings, rates[name].cases, f"g{row}-{column}") if name in rates else None
                for column, rates in enumerate(found)
            ],
        )
        for row, name in enumerate(names)
    ]


def _change(other: Volume, base: Volume) -> Change:
    name, key, base_key = plain(other.found.name, 120), other.found.key, base.found.key
    now = then = None
    reasons = _reasons(other, base)
    if not reasons:
        try:
            now, then = other.cases(), base.cases()
        except SkidpadError as error:
            reasons = (plain(str(error), 400),)
    if now is None or then is None:
        return Change(name, key, base_key, reasons)
    _, mine, theirs = np.intersect1d(now.key, then.key, assume_unique=True, return_indices=True)
    failed, before = now.failed[mine], then.failed[theirs]
    new, fixed, kept = failed & ~before, ~failed & before, failed & before
    return Change(
        name,
        key,
        base_key,
        common=len(mine),
        new=_worst(now, mine, new),
        fixed=_worst(then, theirs, fixed),
        kept=_worst(now, mine, kept),
        counts=(int(new.sum()), int(fixed.sum()), int(kept.sum())),
    )


def _reasons(other: Volume, base: Volume) -> tuple[str, ...]:
    from skidpad.campaigns.gating import differences  # noqa: PLC0415  nobody needs it before two runs are compared

    names = tuple(f"in {plain(volume.found.name, 80)}" for volume in (other, base))
    try:
        return tuple(plain(reason, 400) for reason in differences(other.run, base.run, *names))
    except SkidpadError as error:
        return (plain(str(error), 400),)


def _worst(cases: Cases, places: IntArray, chosen: BoolArray) -> tuple[str, ...]:
    found = cases.take(places[chosen])
    order = np.argsort(-found.excess, kind="stable")[:MAX_LISTED]
    return tuple(each.decode("utf-8", "replace") for each in found.case_id[order].tolist())
