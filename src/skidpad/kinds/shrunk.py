"""Shrinking a finding of any run: what the command line and the page call."""

from __future__ import annotations

import json
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skidpad.core.errors import SkidpadError, UnknownNameError
from skidpad.core.files import write_atomically
from skidpad.core.progress import Progress, silent
from skidpad.kinds.evidence import witness_of
from skidpad.kinds.kind import campaign_name
from skidpad.kinds.pictures.shrinking import PictureCampaign, shrink_recipe
from skidpad.kinds.shrinking import SHRINKERS, Shrinker, Shrunk

if TYPE_CHECKING:
    from skidpad.kinds.shrinking import Shrunk
    from skidpad.runs.folder import Run


def shrink_finding(campaign: Any, run: Run, prefix: str, progress: Progress = silent) -> Shrunk:
    """Finds the smallest case that still fails, from the finding whose case id begins with `prefix`.

    campaign: of the kind that the run names, as `load_campaign` gives it; its subject may be a newer one.
    """
    row = run.find_row(prefix)
    if not row["violated"]:
        raise SkidpadError(f"the case {row['case_id']} is no finding, so there is nothing to shrink; `skidpad report` lists findings")
    return shrinker_of(campaign, run)(campaign, run, row, progress)


def shrinker_of(campaign: Any, run: Run) -> Shrinker:
    """Returns what shrinks the findings of a run: its campaign's row, or that of recipes for any campaign over pictures."""
    try:
        return SHRINKERS.get(campaign_name(run.config, str(run.path)))
    except UnknownNameError:
        if isinstance(campaign, PictureCampaign):
            return shrink_recipe
        raise


SHRUNK = "shrunk.json"
_STIMULI = ("recipe", "scenario", "front_actions")


def write_shrunk(campaign: Any, run: Run, shrunk: Shrunk, folder: Path) -> tuple[Path, ...]:
    """Writes `shrunk.json` and pictures of before and after; returns the files. Files of an earlier shrinking are replaced."""
    witness = witness_of(campaign, run)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / SHRUNK, (json.dumps(shrunk_table(shrunk), indent=2, ensure_ascii=False) + "\n").encode())
    except OSError as error:
        raise SkidpadError(f"cannot write to {folder}: {error.strerror}; choose another --out") from error
    drawn = [path for stem, row in (("before", shrunk.row), ("after", shrunk.smallest)) for path in witness.draw(row, folder, stem)]
    return (folder / SHRUNK, *drawn)


def shrunk_table(shrunk: Shrunk) -> dict[str, Any]:
    """Returns a shrunk finding as plain values: both stimuli, the changes and what it took."""
    return {
        "case_id": shrunk.row["case_id"],
        "smallest_case_id": shrunk.smallest["case_id"],
        "changes": [asdict(change) for change in shrunk.changes],
        "before": _stimulus(shrunk.row),
        "after": _stimulus(shrunk.smallest),
        "excess_before": _number(shrunk.row["excess"]),
        "excess_after": _number(shrunk.smallest["excess"]),
        "fails_unchanged": shrunk.fails_unchanged,
        "judged": shrunk.judged,
        "batches": shrunk.batches,
    }


def _stimulus(row: Any) -> dict[str, Any]:
    texts = {name: row[name] for name in _STIMULI if name in row}
    return {name: json.loads(text) if text[:1] in {"[", "{"} else text for name, text in texts.items()}


def _number(value: float) -> float | None:
    return value if isfinite(value) else None
