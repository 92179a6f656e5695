from base64 import b64decode

import numpy as np
import pytest
from report_samples import frame, pair

from skidpad.core.images import decode
from skidpad.oracles.error import ErrorScale
from skidpad.page.pictures import cards, embed


@pytest.mark.parametrize(
    ("height", "width", "size"), [(240, 320, (240, 320)), (480, 640, (360, 480)), (2000, 10, (480, 2)), (1, 1000, (1, 480))]
)
def test_embedded_pictures_decode_and_fit(height: int, width: int, size: tuple[int, int]) -> None:
    source, wide, high = embed(frame(120, height, width))
    assert (high, wide) == size
    picture = decode(b64decode(source.removeprefix("data:image/jpeg;base64,")))
    assert picture is not None
    assert picture.shape == (*size, 3)
    assert abs(int(picture.mean()) - 120) <= 2


def test_embedding_keeps_red_red() -> None:
    red = np.zeros((16, 16, 3), np.uint8)
    red[..., 0] = 220
    picture = decode(b64decode(embed(red)[0].split(",")[1]))
    assert picture is not None
    assert picture[8, 8, 0] > 200
    assert picture[8, 8, 2] < 40


def test_the_same_angle_is_drawn_alike_whatever_stands_beside_it() -> None:
    alone, beside = cards([pair()]), cards([pair(original_answer=70.0, mutant_answer=-70.0), pair()])
    assert alone[0].panels == beside[1].panels


def test_a_card_leads_with_the_distance_that_was_judged() -> None:
    made = cards([pair(scale=ErrorScale.SQUARES, label_answer=4.2, original_answer=0.4, mutant_answer=0.8), pair(label_answer=4.2)])
    assert [card.difference for card in made] == ["3.4° from the human", "14.0° apart"]
    unlabelled = cards([pair(scale=ErrorScale.SQUARES, label_answer=float("nan"))])
    assert unlabelled[0].difference == "14.0° apart"


def test_numbers_that_are_no_angles_have_no_arrow_but_a_missing_one_is_crossed_out() -> None:
    made = cards([pair(unit="m/s"), pair(unit="m/s", mutant_answer=float("nan"), excess=float("inf"))])
    assert [len(panel.arrows) for card in made for panel in card.panels] == [0, 0, 0, 1]
    assert made[0].panels[1].answer == "-12\N{NO-BREAK SPACE}m/s"
    assert "label 1\N{NO-BREAK SPACE}m/s" in made[0].label


def test_a_card_of_a_moved_camera_says_that_the_right_answer_moved_and_shows_both() -> None:
    moved, still = cards([pair(original_answer=12.0, label_answer=11.0, moved=10.0, mutant_answer=2.0), pair()])
    assert moved.difference == "10.0° apart"  # from the moved answer, not from the one before
    assert moved.mark == "the camera moved, and the right answer with it: from 2.0° left to 12.0° left"
    assert [panel.answer for panel in moved.panels] == ["2.0° left", "2.0° left"]
    points = [{arrow.kind: arrow.points for arrow in panel.arrows} for panel in moved.panels]
    assert points[0]["original"] != points[1]["original"]
    assert points[0]["original"] == points[1]["mutant"]  # the network went on as if nothing had moved
    assert still.mark == ""
