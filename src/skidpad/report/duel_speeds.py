"""Figure 6: the speeds of both vehicles over time, after each step of the procedure.

Reference: adversarial testing, section V-C: 100 episodes that start at 25 m/s, short ones padded with their last speeds.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, isfinite
from typing import TYPE_CHECKING

import numpy as np

from skidpad.campaigns.duel_drivers import IDM, trained_name
from skidpad.campaigns.duel_phases import OWN, front_name, repair_family, repair_phase
from skidpad.core.errors import BadSubjectError
from skidpad.core.seeding import child_seed
from skidpad.duels.evaluation import evaluate
from skidpad.duels.layout import EGO, FRONT, Outcome
from skidpad.duels.opponents import Idm
from skidpad.report.duel_plots import Band, bands
from skidpad.report.page import Chart
from skidpad.report.wording import plain

if TYPE_CHECKING:
    from skidpad.campaigns.duel_phases import DuelWork
    from skidpad.campaigns.duel_summary import DuelSummary
    from skidpad.core.images import FloatArray

EPISODES = 100
START_MPS = 25.0
_RANGE_MPS = (8.0, 32.0)


def speed_plots(work: DuelWork, summary: DuelSummary) -> list[Chart]:
    """Drives the best drivers of each step and draws their speeds; on the engine only."""
    if not work.arena.is_judged or not summary.best_ego:
        return []
    pairs = [("A", "the ego before, IDM in front", summary.best_ego, IDM)]
    for group, best in summary.best_fronts[:1]:
        pairs.append(("B", f"the ego and the adversary ({group})", summary.best_ego, front_name(group, best)))
        if group in work.settings.repaired and work.run.completed(repair_phase(group, 0)):
            repaired = trained_name(repair_phase(group, 0), _best_repair(work, summary, group))
            pairs.append(("C", f"the repaired ego and the adversary ({group})", repaired, front_name(group, best)))
    return [chart for pair in pairs if (chart := _plot(work, *pair))]


def _best_repair(work: DuelWork, summary: DuelSummary, group: str) -> int:
    """Returns the retrained ego with the lowest failure rate, of equals the first; the first where none was tested yet."""
    column = summary.column(repair_family(work.settings, group, 0), OWN)
    rates = [training.mean if isfinite(training.mean) else inf for training in column.by_training] if column else []
    return rates.index(min(rates)) if rates else 0


def _plot(work: DuelWork, letter: str, title: str, ego: str, front: str) -> Chart | None:
    """Draws the episodes that no policy broke off; None where it broke off all. Says so where a given policy cannot be asked."""
    try:
        speeds = _speeds(work, ego, front)
    except BadSubjectError as error:
        return Chart(f"Speeds, {title} (Figure 6 {letter})", plain(f"Not drawn: {error}", 600), "")
    if not len(speeds):
        return None
    times = tuple(float(step) for step in range(speeds.shape[1]))
    lines = [
        Band(name, times, tuple(speeds[:, :, side].mean(axis=0).tolist()), tuple(speeds[:, :, side].std(axis=0).tolist()))
        for side, name in ((EGO, "ego"), (FRONT, "front vehicle"))
    ]
    name = f"Speeds, {title} (Figure 6 {letter})"
    said = "; ".join(f"{line.label} from {line.middle[0]:.1f} to {line.middle[-1]:.1f} m/s" for line in lines)
    caption = (
        f"Mean and standard deviation over {len(speeds)} episodes from {START_MPS:g} m/s; an episode that has ended keeps its last speed."
    )
    low = min(_RANGE_MPS[0], *(min(a - b for a, b in zip(line.middle, line.spread, strict=True)) for line in lines))
    return Chart(
        name, caption, bands(f"speeds-{letter.lower()}", name, said, ("policy step (s)", "forward speed, m/s"), lines, (low, _RANGE_MPS[1]))
    )


def _speeds(work: DuelWork, ego: str, front: str) -> FloatArray:
    """Returns forward speeds, (episodes, steps + 1, 2), padded, of the episodes that did not end as errors."""
    opponent = work.drivers.front(front)
    scenario = work.arena.pretraining if isinstance(opponent, Idm) else work.arena.scenario
    # IDM keeps the speeds that it was trained among; only the ego's start is the paper's
    level = replace(
        scenario,
        ego_speed_mps=(START_MPS, START_MPS),
        front_speed_mps=scenario.front_speed_mps if isinstance(opponent, Idm) else (START_MPS, START_MPS),
    )
    episodes = evaluate(level, work.drivers.ego(ego), opponent, EPISODES, child_seed(work.settings.seed, "figure 6"))
    speeds = episodes.speeds_mps[episodes.outcomes != Outcome.ERROR.code].astype(np.float64)
    last = np.maximum.accumulate(np.where(np.isfinite(speeds[:, :, 0]), np.arange(speeds.shape[1]), 0), axis=1)
    return np.take_along_axis(speeds, last[:, :, None], axis=1)
