"""What is odd about the answers that a run holds for unchanged pictures; read from its records, so that no network is loaded again."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan, radians
from typing import TYPE_CHECKING, Any

import numpy as np

from skidpad.core.images import FloatArray
from skidpad.core.stimuli import Recipe
from skidpad.oracles.doubts import Doubt, DoubtKind, doubts_of
from skidpad.oracles.relations import SteersAlike
from skidpad.runs.records import ORIGINALS, holds_pictures
from skidpad.subjects.base import squeezed_frames

if TYPE_CHECKING:
    from skidpad.runs.folder import Run


_ANSWERED = ("frame_index", "original", "mutant", "label")
"""Columns of pictures: which frame, and what was answered on it as it is and changed, and by the human."""

_SERIES = ("mode", "recipe", "answers_rad", "truth_rad")
"""Columns of drives: who steers, what sits in front of the camera, and what was answered and right at every step."""

_NEED_LABELS = frozenset({DoubtKind.ANTI_CORRELATED, DoubtKind.WORSE_THAN_MEAN, DoubtKind.SCALE})


def run_doubts(run: Run) -> tuple[Doubt, ...]:
    """Returns what is odd about how a run's frames reach the network, and about its answers on unchanged ones where they are angles."""
    return (*_of_frames(run), *_of_answers(run))


def _of_frames(run: Run) -> tuple[Doubt, ...]:
    return tuple(Doubt(DoubtKind.SQUEEZED, said[0].upper() + said[1:] + ".") for said in squeezed_frames(run.manifest.subject))


def _of_answers(run: Run) -> tuple[Doubt, ...]:
    if holds_pictures(run.schema) or set(_ANSWERED) <= set(run.schema.names):
        return _of_pictures(run) if run.config.get("unit", "rad") == "rad" else ()
    return _of_drives(run) if set(_SERIES) <= set(run.schema.names) else ()


def _of_pictures(run: Run) -> tuple[Doubt, ...]:
    # a search keeps no phase of its own for scenes as they are, but every condition holds the answer to each of them
    phase = ORIGINALS if ORIGINALS in run.phases() else next(iter(run.phases()), "")
    tables = list(run.iter_records(phase, ("original", "label"))) if phase else []
    parts = tables if phase == ORIGINALS else tables[:1]
    answer, label = (_joined([part[name].to_numpy() for part in parts]) for name in ("original", "label"))
    return doubts_of(answer, label, radians(_tolerated_deg(run.config)))


def _tolerated_deg(config: Mapping[str, Any]) -> float:
    """Returns by how many degrees an answer may change; NaN where the relation compares with the label."""
    bounds = config.get("thresholds_deg") or config.get("bounds_deg")
    first = (
        bounds[0] if isinstance(bounds, list | tuple) else config.get("tolerance") if config.get("relation") == SteersAlike.name else nan
    )
    return float(first) if isinstance(first, int | float) else nan


def _of_drives(run: Run) -> tuple[Doubt, ...]:
    """Prefers drives that the truth steered: where the subject strays, what is right changes with where it has got to."""
    answers: dict[str, list[FloatArray]] = {}
    truths: dict[str, list[FloatArray]] = {}
    unchanged = Recipe().to_json()
    for table in run.iter_records(None, _SERIES):
        for row in table.to_pylist():
            if row["recipe"] == unchanged:
                answers.setdefault(row["mode"], []).append(np.frombuffer(row["answers_rad"], "<f8"))
                truths.setdefault(row["mode"], []).append(np.frombuffer(row["truth_rad"], "<f8"))
    mode = "offline" if "offline" in answers else "online"
    # a program that was served has no description: it prepares its frames itself
    prepared_by = "the program" if "clamped" in run.schema.names else "the description"
    found = doubts_of(_joined(answers.get(mode, [])), _joined(truths.get(mode, [])), prepared_by=prepared_by)
    return found if mode == "offline" else tuple(doubt for doubt in found if doubt.kind not in _NEED_LABELS)


def _joined(parts: list[FloatArray]) -> FloatArray:
    return np.concatenate(parts) if parts else np.zeros(0)
