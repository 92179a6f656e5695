from math import cos, nan, radians, sin

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_samples import frame

from skidpad.page.pictures import (
    LABEL_RGB,
    MAX_LEAN_DEG,
    MUTANT_RGB,
    ORIGINAL_RGB,
    Arrow,
    cross,
    draw_arrows,
    outline,
    pair_picture,
)

SIZES = [(160, 320), (480, 640), (240, 320), (66, 200)]
TIP = 3


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_left_is_positive_and_straight_is_up(height: int, width: int) -> None:
    assert outline(10.0, width, height)[TIP, 0] < width / 2 < outline(-10.0, width, height)[TIP, 0]
    straight = outline(0.0, width, height)
    assert straight[TIP, 0] == pytest.approx(width / 2)
    assert straight[TIP, 1] == straight[:, 1].min()


@given(st.floats(-300, 300), st.sampled_from(SIZES))
def test_tip_lies_where_the_angle_itself_says(angle: float, size: tuple[int, int]) -> None:
    height, width = size
    points = outline(angle, width, height)
    lean = radians(max(-MAX_LEAN_DEG, min(MAX_LEAN_DEG, angle)))
    base = (points[0] + points[-1]) / 2
    length = float(np.hypot(*(points[TIP] - base)))
    assert base == pytest.approx([width / 2, 0.97 * height])
    assert points[TIP] == pytest.approx([base[0] - length * sin(lean), base[1] - length * cos(lean)])


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(SIZES))
def test_tip_stays_on_the_frame(angle: float, size: tuple[int, int]) -> None:
    height, width = size
    x, y = outline(angle, width, height)[TIP]
    assert 0 <= x <= width
    assert 0 <= y <= height


def test_mirrored_angles_give_mirrored_arrows() -> None:
    left, right = outline(17.0, 320, 240), outline(-17.0, 320, 240)
    assert left[TIP] == pytest.approx([320 - right[TIP, 0], right[TIP, 1]])


def test_cross_is_a_symmetric_ring_of_twelve_corners() -> None:
    points = cross(320, 240) - [160, 0.66 * 240]
    turned = points @ np.array([[0.0, 1.0], [-1.0, 0.0]])
    assert {tuple(row) for row in points.round(6) + 0.0} == {tuple(row) for row in turned.round(6) + 0.0}
    assert len({tuple(row) for row in points.round(6)}) == 12


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_drawing_colours_the_right_half_and_leaves_the_input(height: int, width: int) -> None:
    before = frame(90, height, width)
    copy = before.copy()
    drawn = draw_arrows(before, [Arrow(20.0, ORIGINAL_RGB), Arrow(-20.0, MUTANT_RGB)])
    blue = np.argwhere((drawn == ORIGINAL_RGB).all(-1))
    red = np.argwhere((drawn == MUTANT_RGB).all(-1))
    assert len(blue) > 20
    assert len(red) > 20
    assert blue[:, 1].mean() < width / 2 < red[:, 1].mean()
    assert np.array_equal(before, copy)
    assert drawn.shape == before.shape
    assert drawn.dtype == np.uint8


def test_not_finite_draws_a_cross_only_where_asked() -> None:
    plain = frame()
    assert np.array_equal(draw_arrows(plain, [Arrow(nan, MUTANT_RGB)]), plain)
    crossed = draw_arrows(plain, [Arrow(nan, MUTANT_RGB, crossed=True)])
    assert (crossed == MUTANT_RGB).all(-1).any()


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_pair_picture_has_both_panels_and_their_arrows(height: int, width: int) -> None:
    picture = pair_picture(frame(90, height, width), frame(200, height, width), 4.0, -9.0, 3.0, "fog: 13.0° apart")
    panel = round(height * 480 / width)
    assert picture.shape == (panel + 60, 966, 3)
    left, right = picture[:panel, :480], picture[:panel, 486:]
    for colour, in_left, in_right in ((ORIGINAL_RGB, True, True), (MUTANT_RGB, False, True), (LABEL_RGB, True, True)):
        assert (left == colour).all(-1).any() == in_left
        assert (right == colour).all(-1).any() == in_right


def test_pair_picture_survives_nan_odd_sizes_and_foreign_letters() -> None:
    picture = pair_picture(frame(1, 30, 40), frame(2, 60, 40), nan, nan, caption="雪 " * 300, panel_width_px=120)
    assert picture.shape == (180 + 60, 246, 3)
    assert pair_picture(frame(), frame(), 1.0, 2.0).shape == (360 + 60, 966, 3)
