"""Which frames are trained on and which are held out."""

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.images import BoolArray
from skidpad.core.seeding import child_rng
from skidpad.repair.settings import RepairSettings, Split

STRETCHES = 5
"""The time split holds out the end of each of so many stretches: parts of the whole drive, and few edges."""


def training_frames(frames: int, settings: RepairSettings) -> BoolArray:
    """Tells which of `frames` frames in time order are trained on, (frames,); the rest is held out.

    Reference: DeepTest, section 5 (RQ5): 66 % at random.
    Deviates: the frame is drawn, not the synthetic picture; else fog of one density on a frame would be trained on and the
        next density on the very same frame held out.
    """
    trained = np.zeros(frames, np.bool_)
    if settings.split is Split.RANDOM:
        order = child_rng(settings.seed, "repair", "split").permutation(frames)
        trained[order[: round(settings.share * frames)]] = True
    else:
        for stretch in np.array_split(np.arange(frames), max(1, min(STRETCHES, frames // 2))):
            trained[stretch[: round(settings.share * len(stretch))]] = True
    if trained.all() or not trained.any():
        raise BadParametersError(
            f"a share of {settings.share} of {frames} frames leaves none to {'hold out' if trained.any() else 'train on'}; "
            "use a run over more frames or another --share"
        )
    return trained
