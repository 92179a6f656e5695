"""Which frames of a drive a recipe gets: enough of them, and none twice under the same recipe."""

from __future__ import annotations

import numpy as np
import pytest

from skidpad.core.stimuli import Params, Recipe
from skidpad.drives.opening import open_drive
from skidpad.repairs.pairs import clips_of

LOOKS = [Recipe.of("blur", Params(kind="averaging", size=size)) for size in range(1, 11)]


@pytest.mark.parametrize("lead", [0, 9])
@pytest.mark.parametrize(("looks", "length", "frames"), [(1, 48, 48), (1, 60, 48), (10, 20, 5), (10, 40, 5), (10, 400, 5), (3, 2, 5)])
def test_no_frame_stands_twice_under_a_recipe_that_is_given_four_times(looks: int, length: int, frames: int, lead: int) -> None:
    drive = open_drive(f"rendered?frames={length}&seed=3")
    recipes = [recipe for recipe in LOOKS[:looks] for _ in range(4)]
    clips = clips_of(drive, recipes, frames, lead, np.random.default_rng(0))
    for recipe in LOOKS[:looks]:
        given = [clip.frames for clip in clips if clip.recipe == recipe]
        chosen = np.concatenate(given)
        assert len(chosen) == sum(min(frames, len(part)) for part in np.array_split(np.arange(length), 4)) > 0
        assert len(set(chosen.tolist())) == len(chosen)
        assert all(len(some) > 0 for some in given)
        if lead:
            assert all((np.diff(some) == 1).all() for some in given)


@pytest.mark.parametrize("lead", [0, 9])
def test_a_recipe_that_is_given_once_gets_frames_from_anywhere(lead: int) -> None:
    drive = open_drive("rendered?frames=40&seed=3")
    found = [clips_of(drive, LOOKS[:1], 8, lead, np.random.default_rng(seed))[0].frames for seed in range(60)]
    assert all(len(frames) == 8 for frames in found)
    assert set(np.concatenate(found).tolist()) == set(range(40))
