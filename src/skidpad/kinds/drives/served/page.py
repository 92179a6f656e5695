"""The page of served drives: that of any closed loop, and how the client behaved."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from skidpad.kinds.drives.page import online_page
from skidpad.kinds.drives.records import unpack
from skidpad.page.wording import counted
from skidpad.worlds.world import STEP_S

if TYPE_CHECKING:
    from skidpad.kinds.drives.served.campaign import Served
    from skidpad.page.model import Page
    from skidpad.runs.folder import Run


_SPEED = (
    "Every drive begins at rest, and the client chooses its speed; the one that a scenario names is its plan for cars of constant speed."
)


def served_page(campaign: Served, run: Run) -> Page:
    """Counts the run; what the client did out of turn is said among the remarks."""
    page = online_page(campaign, run)
    return replace(page, notes=(*page.notes, _SPEED), remarks=(*page.remarks, *_manners(run)))


def _manners(run: Run) -> list[str]:
    rows = run.records(columns=("clamped", "unasked", "speed_m_s")).to_pylist()
    clamped, unasked = (sum(row[name] for row in rows) for name in ("clamped", "unasked"))
    said = []
    ways_m = [float(unpack(row["speed_m_s"]).sum()) * STEP_S for row in rows]
    if ways_m:
        said.append(f"The car came {median(ways_m):.0f} m in the median drive, {min(ways_m):.0f} m in the shortest; it begins at rest.")
    if clamped:
        said.append(f"{counted(clamped, 'answer')} lay outside -1 to 1 and {'was' if clamped == 1 else 'were'} clipped.")
    if unasked:
        said.append(f"{counted(unasked, 'answer')} came before the frame that they could have answered, and were thrown away.")
    return said
