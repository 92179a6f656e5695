"""Shrinking a finding of any run: what the command line and the page call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skidpad.campaigns.campaign import campaign_name
from skidpad.campaigns.shrinking import SHRINKERS, Shrinker, Shrunk
from skidpad.campaigns.shrinking_recipes import PictureCampaign, shrink_recipe
from skidpad.core.errors import SkidpadError, UnknownNameError
from skidpad.core.progress import Progress, silent

if TYPE_CHECKING:
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
