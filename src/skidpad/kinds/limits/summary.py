"""What the records of a search for limits come to: curves, limits, maps of pairs, and how the car fared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import nan
from typing import TYPE_CHECKING, Any

import numpy as np

from skidpad.core.seeding import child_rng
from skidpad.core.stimuli import CameraMove, Recipe
from skidpad.kinds.limits.curves import LimitCurve, LimitPoint, Standing, frontier
from skidpad.kinds.limits.probes import KEPT, Probe
from skidpad.runs.records import ORIGINALS
from skidpad.statistics.intervals import Interval, none_failed, share_over_stretches

if TYPE_CHECKING:
    import pyarrow as pa

    from skidpad.core.images import IntArray
    from skidpad.kinds.limits.campaign import Limits, LimitsSettings
    from skidpad.kinds.limits.curves import LimitRow
    from skidpad.runs.folder import Run

_PROBE = ("severity", "position", "other_position")
_NEEDED = (*_PROBE, "frame_index", "excess", "word")
_ROUND, _PAIR, _ONLINE = "round", "pair", "online"


def round_phase(number: int) -> str:
    """Names the phase of a round of severities."""
    return f"{_ROUND}-{number:02d}"


def pair_phase(pair: int, number: int) -> str:
    """Names the phase of a round of a pair's map, of which there is one."""
    return f"{_PAIR}-{pair:02d}-{number:02d}"


def online_phase(number: int) -> str:
    """Names the phase of a round of drives; the first is without a stimulus."""
    return f"{_ONLINE}-{number:02d}"


@dataclass(frozen=True, slots=True)
class Drove:
    """How the drives under one severity went, of those that keep their lane without it."""

    position: int
    left: int
    cases: int


@dataclass(frozen=True, slots=True)
class Limit:
    """One row of the table: how far the network holds, offline and online; drives: mildest first, empty where nothing was driven."""

    row: LimitRow
    curve: LimitCurve
    drives: tuple[Drove, ...]

    @property
    def holds_to(self) -> float | None:
        """The largest severity that holds, in its unit."""
        point = self.curve.holds_to
        return None if point is None else self.row.value(point.position)

    @property
    def fails_from(self) -> float | None:
        """The smallest severity that fails, in its unit."""
        point = self.curve.fails_from
        return None if point is None else self.row.value(point.position)

    @property
    def at_limit(self) -> LimitPoint | None:
        """What is shown as the limit: the first severity that fails, else the last that holds, else the mildest tested."""
        points = self.curve.points
        return self.curve.fails_from or self.curve.holds_to or (points[0] if points else None)

    @property
    def left_from(self) -> Drove | None:
        """The mildest severity under which a car left its lane; None where none did."""
        return next((each for each in self.drives if each.left), None)

    @property
    def is_false_safe(self) -> bool:
        """Whether offline testing says that it holds where a car leaves its lane."""
        held, left = self.curve.holds_to, self.left_from
        return held is not None and left is not None and left.position <= held.position

    @property
    def is_sure(self) -> bool:
        """Whether enough frames were shown for "holds to" to be more than "no frame failed"."""
        held = self.curve.holds_to
        return held is None or held.is_sure(self.curve.accepted)

    @property
    def kept_share(self) -> float:
        """Of the pictures that the referee looked at, at the limit."""
        return nan if self.at_limit is None else self.at_limit.kept_share


@dataclass(frozen=True, slots=True)
class PairMap:
    """How a network fares under two conditions at once. cells: by the two positions. edge: for each of the first, how far the second."""

    first: LimitRow
    second: LimitRow
    positions: tuple[int, ...]
    cells: Mapping[tuple[int, int], LimitPoint | None]
    edge: tuple[tuple[int, int], ...]


def point_of(table: pa.Table, frames: IntArray, settings: LimitsSettings) -> LimitPoint:
    """Returns the failing share of the records of one severity. frames: the indices of all frames that could be read, in order."""
    name, position, other = (table[column][0].as_py() for column in _PROBE)
    series = np.full(len(frames), np.nan)
    excess = table["excess"].to_numpy()
    series[np.searchsorted(frames, table["frame_index"].to_numpy())] = np.where(np.isnan(excess), np.nan, excess > 1.0)
    rng = child_rng(settings.seed, "limits", name, position, other)
    failing = share_over_stretches(series, min(settings.stretch_frames, len(series)), rng)
    words = [word for word in table["word"].to_pylist() if word]
    return LimitPoint(position, failing, words.count(KEPT) / len(words) if words else nan)


@dataclass
class Found:
    """What is known so far; `add` reads a finished phase. frames: the indices of the frames that could be read, in order."""

    campaign: Limits
    run: Run
    frames: IntArray
    points: dict[tuple[str, int, int], LimitPoint] = field(default_factory=dict)
    drives: dict[tuple[str, int], tuple[bool | None, ...]] = field(default_factory=dict)
    predictions: int = 0

    @classmethod
    def of_originals(cls, campaign: Limits, run: Run) -> Found:
        """Begins with the frames as they are."""
        tables = [table["frame_index"].to_numpy() for table in run.iter_records(ORIGINALS, ("frame_index",))]
        frames = np.sort(np.concatenate(tables)) if tables else np.zeros(0, np.int64)
        return cls(campaign, run, frames, predictions=len(frames))

    @classmethod
    def of(cls, campaign: Limits, run: Run) -> Found:
        """Reads everything that a run holds."""
        found = cls.of_originals(campaign, run)
        for phase in run.phases():
            if phase != ORIGINALS:
                found.add(phase)
        return found

    def add(self, phase: str) -> None:
        """Reads the records of a phase."""
        for table in self.run.iter_records(phase, _NEEDED):
            if not table.num_rows:
                continue
            name, position, other = (table[column][0].as_py() for column in _PROBE)
            if phase.startswith(_ONLINE):
                judged = ~np.isnan(table["excess"].to_numpy())
                left = table["excess"].to_numpy() >= 1.0
                self.drives[name, position] = tuple(bool(each) if known else None for each, known in zip(left, judged, strict=True))
            else:
                self.points[name, position, other] = point_of(table, self.frames, self.campaign.settings)
                self.predictions += table.num_rows * (2 if self._moves(name) else 1)

    def _moves(self, name: str) -> bool:
        stimuli = {row.name: row.stimulus for row in self.campaign.rows}
        return any(isinstance(self.campaign.stimuli[stimuli[each]], CameraMove) for each in name.split(",") if each in stimuli)

    def curve(self, row: LimitRow) -> LimitCurve:
        """Returns the curve of a row so far."""
        points = (point for (name, _, _), point in self.points.items() if name == row.name)
        return LimitCurve.of(points, self.campaign.settings.accepted_share, self.campaign.settings.steps)

    def wanted(self) -> list[Probe]:
        """Returns the severities of the next round."""
        return [self._probe(row, position) for row in self.campaign.rows for position in self.curve(row).wanted()]

    def _probe(self, row: LimitRow, position: int) -> Probe:
        return Probe(row.name, position, row.recipe(position, self.campaign.stimuli))

    @property
    def quarters(self) -> tuple[int, ...]:
        """The positions of a pair's map, beside 0."""
        return tuple(self.campaign.settings.steps * quarter // 4 for quarter in (1, 2, 3, 4))

    def wanted_cells(self, pair: tuple[LimitRow, LimitRow]) -> list[Probe]:
        """Returns the cells of a pair's map that are not known; its edges are the curves of the two."""
        first, second = pair
        made = self.campaign.stimuli
        name = f"{first.name},{second.name}"
        return [
            Probe(name, one, Recipe((*first.recipe(one, made).steps, *second.recipe(two, made).steps)), two)
            for one in self.quarters
            for two in self.quarters
            if (name, one, two) not in self.points
        ]

    @property
    def sound(self) -> tuple[bool, ...]:
        """Which scenarios are driven within the lane without any condition."""
        return tuple(each is False for each in self.drives.get(("", 0), ()))

    def drove(self, row: LimitRow) -> tuple[Drove, ...]:
        """Returns how the drives of a row went, mildest first."""
        found = []
        for (name, position), left in sorted(self.drives.items()):
            if name == row.name:
                counted = [each for each, sound in zip(left, self.sound, strict=True) if sound and each is not None]
                found.append(Drove(position, sum(counted), len(counted)))
        return tuple(found)

    def wanted_drives(self) -> list[Probe]:
        """Returns the drives of the next round: without a condition first, then the middle and the end, then between held and left."""
        if not self.drives:
            return [Probe("", 0, Recipe())]
        if not any(self.sound):
            return []
        steps = self.campaign.settings.steps
        wanted = []
        for row in self.campaign.rows:
            drove = self.drove(row)
            if not drove:
                wanted += [self._probe(row, position) for position in (steps // 2, steps)]
                continue
            left = next((each.position for each in drove if each.left), None)
            if left is None:
                continue
            held = max((each.position for each in drove if each.position < left), default=0)
            if left - held > max(steps // 16, 1):
                wanted.append(self._probe(row, (held + left) // 2))
        return wanted

    @cached_property
    def limits(self) -> tuple[Limit, ...]:
        """The rows of the table; rows that nothing is known of are left out."""
        made = (Limit(row, self.curve(row), self.drove(row)) for row in self.campaign.rows)
        return tuple(each for each in made if each.curve.points)

    @property
    def maps(self) -> tuple[PairMap, ...]:
        """The maps of the pairs."""
        return tuple(self._map(*pair) for pair in self.campaign.pairs)

    def _map(self, first: LimitRow, second: LimitRow) -> PairMap:
        positions = (0, *self.quarters)
        cells: dict[tuple[int, int], LimitPoint | None] = {}
        for one in positions:
            for two in positions:
                key = (f"{first.name},{second.name}", one, two) if one and two else (first.name, one, 0) if one else (second.name, two, 0)
                cells[one, two] = self.points.get(key)
        accepted = self.campaign.settings.accepted_share
        held = {key: key == (0, 0) or (point is not None and point.standing(accepted) is Standing.HOLDS) for key, point in cells.items()}
        return PairMap(first, second, positions, cells, frontier(held, positions, positions))

    @property
    def grid_predictions(self) -> int:
        """How many predictions a grid of every step would take for the same rows, and the same maps, which are grids already."""
        cells = {row.name: self.campaign.settings.steps for row in self.campaign.rows}
        cells |= {f"{first.name},{second.name}": len(self.quarters) ** 2 for first, second in self.campaign.pairs}
        return len(self.frames) * (1 + sum(many * (2 if self._moves(name) else 1) for name, many in cells.items()))

    @property
    def could_hide(self) -> float:
        """The largest share of failing stretches that so many could miss: what no failing frame at all still leaves open."""
        return none_failed(max(len(self.frames) // max(self.campaign.settings.stretch_frames, 1), 1))


def interval_payload(found: Interval) -> dict[str, Any]:
    """Returns an interval as plain values."""
    return {"share": found.estimate, "low": found.low, "high": found.high, "frames": found.n}


def limit_payload(limit: Limit, accepted: float) -> dict[str, Any]:
    """Returns a row of the table as plain values, angles and all in the row's unit."""
    row, held, failing = limit.row, limit.holds_to, limit.fails_from
    severity = row.severity
    known = limit.at_limit
    return {
        "condition": row.stimulus,
        "name": row.name,
        "parameter": severity.parameter,
        "unit": severity.unit,
        "attribute": severity.attribute,
        "tested_from": severity.harmless,
        "tested_to": severity.worst,
        "holds_to": held,
        "fails_from": failing,
        "is_sure": limit.is_sure,
        "interval": [severity.harmless if held is None else held, severity.worst if failing is None else failing],
        "failing_at": None if known is None else row.value(known.position),
        "failing_share": None if known is None else interval_payload(known.failing),
        "kept_share": limit.kept_share,
        "online_leaves_from": None if limit.left_from is None else row.value(limit.left_from.position),
        "is_false_safe": limit.is_false_safe,
        "curve": [
            {
                "value": row.value(point.position),
                **interval_payload(point.failing),
                "kept_share": point.kept_share,
                "standing": point.standing(accepted).value,
            }
            for point in limit.curve.points
        ],
        "online": [{"value": row.value(each.position), "left": each.left, "drives": each.cases} for each in limit.drives],
    }


def map_payload(pair: PairMap, accepted: float) -> dict[str, Any]:
    """Returns a pair's map as plain values."""
    return {
        "conditions": [pair.first.name, pair.second.name],
        "units": [pair.first.severity.unit, pair.second.severity.unit],
        "cells": [
            {
                "values": [pair.first.value(one), pair.second.value(two)],
                **interval_payload(point.failing),
                "standing": point.standing(accepted).value,
            }
            for (one, two), point in pair.cells.items()
            if point is not None
        ],
        "frontier": [[pair.first.value(one), pair.second.value(two)] for one, two in pair.edge if two >= 0],
    }


def online_words(found: Found) -> Iterable[str]:
    """Says what is to be known of the drives."""
    scenarios = len(found.sound)
    if scenarios and not any(found.sound):
        yield f"In all {scenarios} scenarios the network leaves its lane without any condition, so that nothing can be told online."
    elif scenarios and not all(found.sound):
        yield f"Of {scenarios} scenarios {sum(found.sound)} count online: in the others the network leaves its lane without any condition."
