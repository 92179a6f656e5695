"""Pages of closed-loop runs: what is shown, escaped, small, and without scripts."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from skidpad.kinds.drives import page as online
from skidpad.kinds.drives.filmstrip import DriveFilm, _stills, moving, strip, told, worded_m
from skidpad.kinds.drives.summary import ConditionRate, OnlineSummary


def film(lateral: np.ndarray, lane_width_m: float = 3.5) -> DriveFilm:
    stills = _stills(lateral)
    moments = tuple(range(0, len(lateral), 5))
    picture = np.random.default_rng(0).integers(0, 256, (160, 320, 3), np.uint8)
    return DriveFilm(dict.fromkeys({*stills, *moments}, picture), stills, moments, lateral, lane_width_m)


GONE = film(np.linspace(0.0, 2.4, 81))
KEPT = film(0.4 * np.sin(np.linspace(0.0, 6.0, 121)))


@pytest.mark.parametrize("drawn", [strip, moving], ids=["strip", "moving"])
@pytest.mark.parametrize("shown", [GONE, KEPT], ids=["gone", "kept"])
def test_films_are_svg_without_script_and_escape_their_title(drawn, shown) -> None:
    text = drawn("key", "<b>night & fog</b>", shown)
    root = ET.fromstring(text)
    assert root.find("title").text == "<b>night & fog</b>"
    assert "<script" not in text
    assert "http" not in text
    assert all(node.get("href").startswith("data:image/jpeg;base64,") for node in root.iter("image"))


def test_the_strip_shows_how_a_departure_came_about() -> None:
    gone = GONE.departure
    assert gone == 50
    assert gone in GONE.stills
    assert GONE.stills[-1] == 80
    assert 3 <= len(GONE.stills) <= 5
    texts = [node.text for node in ET.fromstring(strip("k", "t", GONE)).iter("text")]
    assert "1.50 m left" in texts
    assert "2.5 s" in texts
    assert "leaves its lane after 2.5 s" in told(GONE)
    assert "at most" in told(KEPT)


def test_a_car_far_beside_its_lane_stays_within_its_gauge() -> None:
    root = ET.fromstring(strip("k", "t", film(np.linspace(0.0, 40.0, 60))))
    cars = [node for node in root.iter("rect") if node.get("fill-opacity")]
    assert cars
    assert all(-60.0 < float(car.get("x")) < 200.0 for car in cars)


def test_the_sheet_shows_one_picture_at_a_time_in_real_time() -> None:
    root = ET.fromstring(moving("k", "t", KEPT))
    change = next(root.iter("animate"))
    assert change.get("calcMode") == "discrete"
    times = [float(time) for time in change.get("keyTimes").split(";")]
    assert times[0] == 0.0
    assert times == sorted(times)
    assert times[-1] < 1.0
    assert len(times) == len(change.get("values").split(";")) == len(KEPT.moments)
    assert float(change.get("dur").removesuffix("s")) == pytest.approx(len(KEPT.moments) * 0.25 + 1.2)


def test_an_animation_is_small() -> None:
    grey = np.full((160, 320, 3), 120, np.uint8)
    many = DriveFilm(dict.fromkeys(range(0, 200, 5), grey), (0,), tuple(range(0, 200, 5)), np.zeros(200), 3.5)
    assert len(moving("k", "t", many)) < 120_000


def test_a_drive_without_a_frame_is_drawn_empty() -> None:
    nothing = DriveFilm({}, (), (), np.zeros(0), 3.5)
    assert ET.fromstring(moving("k", "t", nothing)).find("image") is None
    assert re.search("0.0 s", told(nothing))
    assert worded_m(-0.254) == "0.25 m right"


@pytest.mark.parametrize(("cases", "most"), [(1, 95.0), (3, 63.2), (59, 5.0)])
def test_where_no_case_failed_the_bound_is_the_exact_one(cases: int, most: float) -> None:
    """Were more to fail, all would be kept less often than once in twenty."""
    assert (1 - most / 100) ** cases == pytest.approx(0.05, abs=0.002)
    said = online._verdict(OnlineSummary((), (), cases), "net", 0, cases)
    assert f"at most {most}\N{NO-BREAK SPACE}% of such cases fail, with 95 % confidence" in said
    row = ConditionRate("original", passed=cases, failed=0, flaky=0, errors=0, departed=0, collided=0, median_mdcl=0.1)
    (table, *_) = online._tables(OnlineSummary((), (row,), cases))
    assert table.rows[0][6] == f"0\N{NO-BREAK SPACE}% to {most}\N{NO-BREAK SPACE}%", "the table says what the verdict says"
