"""A case of a search for limits, computed again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite, isnan
from typing import TYPE_CHECKING

import numpy as np

from skidpad.core.errors import BadRunError
from skidpad.core.images import write_image
from skidpad.core.stimuli import Recipe
from skidpad.drives.drive import capture_of
from skidpad.kinds.drives.loop import Wheel
from skidpad.kinds.limits.page import moved_by, pair_of
from skidpad.kinds.limits.probes import ONLINE, Probe, drive_records, show
from skidpad.kinds.pictures.judging import Originals, frame_again
from skidpad.oracles.error import scale_of, times_tolerated
from skidpad.oracles.relations import Answers
from skidpad.page.pictures import pair_picture
from skidpad.runs.replay import DEFAULT_TOLERANCE, ELSEWHERE_TOLERANCE, Replayed, Reproduction

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from skidpad.kinds.limits.campaign import Limits
    from skidpad.runs.folder import Run

_NUMBERS = ("original", "expected", "mutant", "excess")


def replay_case(campaign: Limits, run: Run, finding: str, picture: Path | None = None) -> Replayed:
    """Asks the subject again about a frame, or lets it drive again, under the severity of the record; draws the pair where asked."""
    row = run.find_row(finding)
    again = _driven(campaign, row) if row["mode"] == ONLINE else _shown(campaign, run, row)
    numbers = {name: (float(row[name]), again[name]) for name in _NUMBERS if not (isnan(row[name]) and isnan(again[name]))}
    changes = run.manifest.changes()
    bound = ELSEWHERE_TOLERANCE if changes else DEFAULT_TOLERANCE
    differing = tuple(name for name, (then, now) in numbers.items() if then != now)
    near = all(then == now or abs(then - now) <= bound * max(1.0, abs(then)) for then, now in numbers.values())
    rounds = "asked alone instead of among other frames"
    pictures: tuple[Path, ...] = ()
    if picture is not None:
        if row["mode"] == ONLINE:
            raise BadRunError("a drive of a search for limits has no picture; make it with `skidpad drive --stimulus`, which films it")
        pictures = (_draw(campaign, row, picture),)
    return Replayed(
        title=f"{row['case_id']}: {Recipe.from_json(row['recipe'])} on {row['frame_id']}",
        rows=tuple((name, *values) for name, values in numbers.items()),
        figures={
            "case_id": row["case_id"],
            "mode": row["mode"],
            "severity": row["severity"],
            **{name: now for name, (_, now) in numbers.items()},
        },
        reproduction=Reproduction(differing, near, f"{bound:g}", changes, rounds),
        pictures=pictures,
    )


def _shown(campaign: Limits, run: Run, row: Mapping[str, Any]) -> Mapping[str, float]:
    batch = frame_again(campaign.drive, row["frame_index"], campaign.subject.lead)
    answered = np.asarray(campaign.subject.predict(batch.clip)[:, campaign.judged.column], np.float64)
    label = batch.steering_rad if campaign.judged.is_steering else np.full(1, np.nan)
    capture = capture_of(campaign.drive, batch.indices, campaign.subject.lead)
    recipe = Recipe.from_json(row["recipe"])
    shown = show(campaign.subject, campaign.judged, campaign.stimuli, batch.clip, capture, recipe, answered, label)
    relation = campaign.relation(Originals.of(run, len(campaign.drive)))
    excess = relation.excess(Answers(shown.expected, shown.mutant, shown.label))
    found = {"original": shown.original, "expected": shown.expected, "mutant": shown.mutant, "excess": excess}
    # a frame that did not count has no excess in the run
    return {name: float(values[0]) if name != "excess" or not isnan(row["excess"]) else float("nan") for name, values in found.items()}


def _driven(campaign: Limits, row: Mapping[str, Any]) -> Mapping[str, float]:
    case = next((each for each in campaign.cases if each.name == row["frame_id"]), None)
    if case is None:
        raise BadRunError(f"the scenario {row['frame_id']!r} is not part of this run; its settings were changed")
    probe = Probe(row["severity"], row["position"], Recipe.from_json(row["recipe"]))
    cases = [replace(case, recipe=probe.recipe)]
    again = drive_records(probe, cases, campaign.runner.courses(cases, Wheel.SUBJECT)).to_pylist()[0]
    return {name: float(again[name]) for name in _NUMBERS}


def _draw(campaign: Limits, row: Mapping[str, Any], path: Path) -> Path:
    judged = campaign.judged
    original, mutant = pair_of(campaign, row)
    right, now, human = (judged.shown(float(row[name])) for name in ("expected", "mutant", "label"))
    words = times_tolerated(row["excess"], scale_of(campaign.settings.relation)) if isfinite(row["excess"]) else "does not count"
    caption = f"{Recipe.from_json(row['recipe'])}: {words}"
    return write_image(
        path, pair_picture(original, mutant, right, now, human, caption, unit=judged.shown_unit, moved=moved_by(judged, row))
    )
