"""Which frames or scenarios to run first: what a subject and a road tell of them before they are run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import nan, radians
from typing import TYPE_CHECKING

import cv2
import numpy as np

from skidpad.core.errors import SkidpadError
from skidpad.core.images import BoolArray, FloatArray, IntArray, NumpyFrames, as_numpy
from skidpad.core.progress import Progress, silent
from skidpad.kinds.drives.summary import scenario_traits
from skidpad.statistics.orders import apfd, by_gain, by_score, farthest_first, ideal_order, rank_roads
from skidpad.worlds.render.chunks import road_of
from skidpad.worlds.scenario.features import lateral_m_s2
from skidpad.worlds.scenario.scenario import scenario_of
from skidpad.worlds.world import STEP_S, WORLDS

if TYPE_CHECKING:
    from skidpad.drives.drive import Drive
    from skidpad.runs.folder import Run
    from skidpad.subjects.base import Subject

_BATCH = 32
_FEW = 5000
"""Tests up to which orders are made that compare each with all others."""


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """Tests in several orders, by how each was made; where verdicts are known, the best comes first.

    costs_s: (N,), what each test takes. failed: (N,), None where no verdict is known.
    """

    names: tuple[str, ...]
    orders: Mapping[str, IntArray]
    costs_s: FloatArray
    failed: BoolArray | None = None

    def apfd(self, name: str) -> float:
        """How early an order meets the failures, by cost; `ideal` is the order that knows them, 0.5 is chance."""
        if self.failed is None:
            return nan
        order = ideal_order(self.failed, self.costs_s) if name == "ideal" else self.orders[name]
        return apfd(self.failed, order, self.costs_s)


def _changed(frames: NumpyFrames) -> list[NumpyFrames]:
    """Returns the frames a little brighter, darker, flatter and softer: nothing that a driver would steer differently for."""
    values = frames.astype(np.float32)
    flat = 128 + 0.85 * (values - 128)
    soft = np.stack([cv2.GaussianBlur(frame, (3, 3), 0) for frame in frames]).astype(np.float32)
    return [np.clip(each, 0, 255).astype(np.uint8) for each in (values + 12, values - 12, flat, soft)]


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    answers_rad: FloatArray
    spread_rad: FloatArray
    features: FloatArray
    covered: BoolArray


def _look(subject: Subject, clip: NumpyFrames) -> _Seen:
    """Asks a subject about a clip as it is and a little changed."""
    from skidpad.coverage.criteria import NC  # noqa: PLC0415  torch is for those who ask a subject

    column = subject.description.steering_column
    frames = clip[subject.lead :]
    if subject.layers:
        observed = subject.observe(clip)
        answers, values = observed.answers[:, column], observed.values
        features = values.float().cpu().numpy().astype(np.float64)
        covered = NC().activated(values, subject.layers).cpu().numpy()
    else:
        answers = subject.predict(clip)[:, column]
        features = np.stack([cv2.resize(frame, (8, 6), interpolation=cv2.INTER_AREA).ravel() for frame in frames]).astype(np.float64)
        covered = np.zeros((len(frames), 0), np.bool_)
    others = [subject.predict(changed)[:, column] for changed in _changed(clip)]
    return _Seen(answers, np.std([answers, *others], axis=0), features, covered)


def _joined(parts: list[_Seen]) -> _Seen:
    return _Seen(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in ("answers_rad", "spread_rad", "features", "covered"))
    )


def _orders(seen: _Seen, costs_s: FloatArray) -> dict[str, IntArray]:
    """Returns the orders that follow from what the subject did."""
    orders = {"uncertainty": by_score(seen.spread_rad, costs_s)}
    if len(seen.answers_rad) <= _FEW:
        orders["distance"] = farthest_first(seen.features)
        if seen.covered.shape[1]:
            orders["coverage"] = by_gain(seen.covered)
    return orders


def _best_first(ranking: Ranking) -> Ranking:
    if ranking.failed is None or not ranking.failed.any():
        return ranking
    names = sorted(ranking.orders, key=lambda name: -ranking.apfd(name))
    return Ranking(ranking.names, {name: ranking.orders[name] for name in names}, ranking.costs_s, ranking.failed)


def rank_frames(subject: Subject, drive: Drive, within_deg: float, progress: Progress = silent) -> Ranking:
    """Ranks the frames of a drive; one fails where the answer is further than `within_deg` from its label, and all cost the same."""
    parts: list[_Seen] = []
    labels: list[FloatArray] = []
    names: list[str] = []
    for batch in drive.batches(_BATCH, lead=subject.lead):
        parts.append(_look(subject, batch.clip))
        labels.append(batch.steering_rad)
        names += batch.frame_ids
        progress(len(names), len(drive), "frames")
    seen, label_rad = _joined(parts), np.concatenate(labels)
    costs_s = np.ones(len(names))
    change = np.abs(np.gradient(seen.answers_rad)) if len(names) > 1 else np.zeros(len(names))
    orders = _orders(seen, costs_s) | {"geometry": by_score(np.abs(seen.answers_rad) + change)}
    failed = None
    if np.isfinite(label_rad).any():
        failed = ~(np.abs(seen.answers_rad - label_rad) <= radians(within_deg)) & np.isfinite(label_rad)
    return _best_first(Ranking(tuple(names), orders, costs_s, failed))


def rank_scenarios(subject: Subject, run: Run, progress: Progress = silent) -> Ranking:
    """Ranks the scenarios of a closed-loop run by their roads and by what the subject makes of their first pictures; a cost is a drive."""
    if "scenario" not in run.schema.names or "mode" not in run.schema.names:
        raise SkidpadError(f"{run.path} holds no drives; rank takes a drive, or a run of `skidpad drive`")
    columns = ("scenario", "scenario_name", "mode", "violated", "excess", "steps")
    rows = [row for row in run.records(columns=columns).to_pylist() if row["mode"] == "online" and row["excess"] == row["excess"]]
    rows = list({row["scenario_name"]: row for row in rows}.values())
    if not rows:
        raise SkidpadError(f"{run.path} holds no drive with a verdict; go on with `skidpad resume`")
    scenarios = [scenario_of(json.loads(row["scenario"])) for row in rows]
    world = WORLDS.get(str(run.config.get("world", "built-in")))(1, 1)
    parts = []
    for number, scenario in enumerate(scenarios):
        world.reset([scenario])
        frame = as_numpy(world.frames())
        parts.append(_look(subject, np.repeat(frame, subject.lead + 1, axis=0)))
        progress(number + 1, len(scenarios), "scenarios")
    # what a drive will take is known from its scenario; that a failing one ends early is not
    costs_s = np.array([max(each.duration_s, STEP_S) for each in scenarios], np.float64)
    traits = [trait.values for trait in scenario_traits(scenarios) if isinstance(trait.values, np.ndarray)]
    push = np.array([lateral_m_s2(each) for each in scenarios], np.float64)
    orders = _orders(_joined(parts), costs_s) | {"geometry": by_score(push, costs_s), "variety": farthest_first(np.stack(traits, axis=1))}
    orders["road"] = rank_roads([road_of(each).nodes.beside(0.0) for each in scenarios])
    failed = np.array([row["violated"] for row in rows], np.bool_)
    return _best_first(Ranking(tuple(row["scenario_name"] for row in rows), orders, costs_s, failed))
