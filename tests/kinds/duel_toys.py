"""Small duels: drivers that anyone can foresee, and settings that take seconds."""

from pathlib import Path

import numpy as np

from skidpad.kinds.duels.campaign import Duel
from skidpad.kinds.duels.phases import DuelWork
from skidpad.kinds.duels.settings import DuelSettings
from skidpad.runs.folder import Run


def reckless(seen):
    """Always faster."""
    return np.full(len(seen), 3)


def broken(seen):
    """Speeds up where the front vehicle is near, and answers nonsense where it is far; x is scaled by 1200 m."""
    ahead_m = (seen[:, 4] - seen[:, 0]) * 1200.0
    answers = np.full(len(seen), 3.0)
    answers[ahead_m > 40.0] = 7
    answers[ahead_m > 50.0] = np.nan
    return answers


def raising(seen):
    """Raises at the first question."""
    raise RuntimeError("out of petrol")


def small(**changes) -> DuelSettings:
    """Trains little, tests little."""
    values = {
        "rewards": ("sound",),
        "train_episodes": 12,
        "validation_episodes": 4,
        "test_runs": 2,
        "test_episodes": 12,
        "cross_episodes": 8,
        "search_episodes": 2,
        "search_depth": 4,
        "seed": 1,
    }
    return DuelSettings(**(values | changes))


def only_tested(**changes) -> DuelSettings:
    """Trains nothing: the reckless ego against IDM, chance and the search."""
    return small(**({"ego": "duel_toys:reckless", "rewards": (), "repairs": 0} | changes))


def made(settings: DuelSettings, out: Path) -> DuelWork:
    """Runs a campaign from its beginning to its end."""
    campaign = Duel.load(settings)
    run = campaign.start(out)
    campaign.execute(run)
    return campaign.work(run)


def segments(run: Run) -> dict[str, bytes]:
    """Everything that a run has computed."""
    return {entry.name: entry.read_bytes() for entry in sorted((run.path / "segments").iterdir())}
