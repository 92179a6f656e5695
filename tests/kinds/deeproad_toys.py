"""A weather that only makes pictures brighter, and campaigns under it on a world whose answer is known."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
from bar_world import BarSubject, bar_drive

from skidpad.core.stimuli import Params, Real, Space
from skidpad.kinds.pictures.weather.campaign import DeepRoad, DeepRoadSettings
from skidpad.runs.folder import Run
from skidpad.stimuli.weather.settings import Method

FAULTY = BarSubject(left_threshold=60)


class Glare:
    """A weather that only makes everything brighter, by one number."""

    def __init__(self, *shifts: float, sha256: str = "glare") -> None:
        self.space = Space((Real("style_0", 0.0, 255.0, 0.0),), tuple(Params(style_0=shift) for shift in shifts))
        card = SimpleNamespace(
            weights_sha256=sha256,
            sha256=sha256,
            method=Method.MUNIT,
            rendered=True,
            size_px=64,
            learned_from="glare (rendered)",
            steps=3,
            name="glare",
            detail=0.0,
            drawn="",
            drawn_words="",
            road_lost=None,
            loses_road=False,
        )
        self.weather = SimpleNamespace(card=card, style_size=1, batch_size=4)
        self.is_halved = False

    def apply(self, frames, params: Params):
        return np.clip(frames.astype(int) + int(params.real("style_0")), 0, 255).astype(np.uint8)


def road(subject: BarSubject = FAULTY, *shifts: float, frames: int = 12, **changes: object) -> DeepRoad:
    settings = {"subject": "toy", "drive": "toy", "weathers": ("glare",), "thresholds_deg": (2.0, 20.0, 40.0), "shard_frames": 5, **changes}
    made = DeepRoadSettings(**{"styles": len(shifts) or 1, "style": "random", "subject_device": "cpu", **settings})
    return DeepRoad.of(made, subject, bar_drive(frames), {"glare": Glare(*(shifts or (30.0,)))})


def run_of(campaign: DeepRoad, path: Path) -> Run:
    run = campaign.start(path)
    campaign.execute(run)
    return run
