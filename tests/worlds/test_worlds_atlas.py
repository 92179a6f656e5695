"""The pictures that cards carry."""

import numpy as np
import pytest

from skidpad.worlds.render.props import BROADLEAVES, BUSHES, CONIFERS, FACADES
from skidpad.worlds.render.sprites.atlas import COVER, LEVELS, RED, SHINE, atlas, empty_picture, shrunk
from skidpad.worlds.render.sprites.cars import CAR_ANGLES
from skidpad.worlds.render.sprites.living import WALK_PHASES


def picture(number: int, level: int = 0) -> np.ndarray:
    pictures = atlas()
    start, width, height = pictures.sprites[number]
    for below in range(level):
        start += (width >> below) * (height >> below)
    count = (width >> level) * (height >> level)
    return pictures.texels[start : start + count].reshape(height >> level, width >> level, -1).astype(float)


def test_every_picture_has_its_place() -> None:
    pictures = atlas()
    counts = [BROADLEAVES + CONIFERS + BUSHES, CAR_ANGLES, WALK_PHASES, FACADES, 1, 1, 1, 1, 1]
    firsts = [
        pictures.trees,
        pictures.cars,
        pictures.people,
        pictures.facades,
        pictures.board,
        pictures.beam,
        pictures.post,
        pictures.delineator,
        pictures.glow,
    ]
    assert firsts == np.cumsum([0, *counts[:-1]]).tolist()
    assert len(pictures.sprites) == sum(counts)
    for start, width, height in pictures.sprites:
        assert width & (width - 1) == 0
        assert width >> (LEVELS - 1) >= 1
        assert height % (1 << (LEVELS - 1)) == 0
        assert start + sum((width >> k) * (height >> k) for k in range(LEVELS)) <= len(pictures.texels)


@pytest.mark.parametrize("group", ["trees", "cars", "people", "glow"])
def test_coarser_levels_show_the_same(group: str) -> None:
    number = getattr(atlas(), group)
    fine = picture(number)
    for level in range(1, LEVELS):
        coarse = picture(number, level)
        np.testing.assert_allclose(coarse[..., : COVER + 1].mean((0, 1)), fine[..., : COVER + 1].mean((0, 1)), atol=2.5)


def test_uncovered_texels_do_not_darken_their_neighbours() -> None:
    made = empty_picture(32, 32)
    made[:16, :, RED], made[:16, :, COVER], made[:16, :, SHINE] = 200.0, 255.0, 100.0
    coarse = shrunk(made, 32)
    # Half covered, but what is covered is as red and as bright as before.
    assert coarse[0, 0, RED] / coarse[0, 0, COVER] == pytest.approx(200.0 / 255.0)
    assert coarse[0, 0, COVER] == pytest.approx(127.5)
    assert coarse[0, 0, SHINE] == pytest.approx(100.0, abs=0.1)


def test_cars_are_red_behind_and_white_ahead_and_turn_in_between() -> None:
    pictures = atlas()
    behind, ahead = picture(pictures.cars), picture(pictures.cars + CAR_ANGLES - 1)
    side = picture(pictures.cars + CAR_ANGLES // 2)
    for seen, red in ((behind, True), (ahead, False)):
        lamps = seen[seen[..., SHINE] > 250.0]
        assert len(lamps) > 50
        assert np.all((lamps[:, 0] > 2.0 * lamps[:, 2] + 50.0) == red)
    widths = [float((seen[..., COVER] > 128.0).any(axis=0).sum()) for seen in (behind, side, ahead)]
    assert widths[1] > 2.0 * widths[0]
    assert widths[0] == pytest.approx(widths[2], rel=0.1)
    # Straight from behind and ahead a car is symmetrical.
    cover = behind[..., COVER] > 128.0
    assert (cover != cover[:, ::-1]).mean() < 0.03


def test_light_without_a_body_covers_nothing() -> None:
    glow = picture(atlas().glow)
    assert not glow[..., COVER].any()
    assert glow[32, 32, RED] > 200.0 > glow[0, 0, RED] == 0.0
