"""Whether answers that make no sense are told from those that do."""

import numpy as np
import pytest

from skidpad.core.errors import BadParametersError
from skidpad.oracles.doubts import DoubtKind, doubts_of

LABEL = 0.2 * np.sin(np.linspace(0.0, 20.0, 200))
NOISE = np.random.default_rng(0).normal(0.0, 0.03, 200)
NOTHING = np.full(200, np.nan)


def kinds(answer: np.ndarray, label: np.ndarray = LABEL, tolerated_rad: float = np.nan) -> list[DoubtKind]:
    return [doubt.kind for doubt in doubts_of(answer, label, tolerated_rad)]


def test_a_network_that_drives_is_not_doubted() -> None:
    assert kinds(LABEL + NOISE) == []
    assert kinds(0.5 * LABEL + NOISE) == []
    assert kinds(LABEL, tolerated_rad=0.17) == []


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (np.full(200, 0.01), [DoubtKind.CONSTANT]),
        (0.01 + 1e-5 * NOISE, [DoubtKind.CONSTANT]),
        (-LABEL + NOISE, [DoubtKind.ANTI_CORRELATED, DoubtKind.WORSE_THAN_MEAN]),
        (LABEL + 0.4, [DoubtKind.WORSE_THAN_MEAN]),
        (LABEL * 180.0 / np.pi, [DoubtKind.IMPLAUSIBLE, DoubtKind.WORSE_THAN_MEAN, DoubtKind.SCALE]),
        (np.full(200, np.radians(-2118.0)), [DoubtKind.IMPLAUSIBLE, DoubtKind.CONSTANT]),
        (LABEL / 14.8, [DoubtKind.SCALE]),
    ],
)
def test_each_kind_of_nonsense_is_named(answer: np.ndarray, wanted: list[DoubtKind]) -> None:
    assert kinds(answer) == wanted


def test_what_rounding_leaves_of_a_constant_is_said_as_zero() -> None:
    (doubt,) = doubts_of(np.full(200, 0.01) + 1e-17 * np.arange(200), LABEL)
    assert "its answers spread by 0°" in doubt.said


def test_the_doubts_of_a_program_do_not_ask_about_a_description() -> None:
    for answer in (np.zeros(40), np.full(40, 100.0)):
        found = doubts_of(answer, np.linspace(-0.3, 0.3, 40), prepared_by="the program")
        assert found
        assert all("the program" in doubt.said and "description" not in doubt.said for doubt in found)


def test_a_gate_is_refused_by_all_but_another_scale() -> None:
    assert [doubt.refuses for doubt in doubts_of(LABEL / 14.8, LABEL)] == [False]
    assert [doubt.refuses for doubt in doubts_of(LABEL * 180.0 / np.pi, LABEL)] == [True, True, False]


def test_without_labels_the_tolerance_tells_what_is_constant() -> None:
    still = np.radians(0.01) * np.sin(np.arange(200.0))
    assert kinds(still, NOTHING, np.radians(10.0)) == [DoubtKind.CONSTANT]
    assert kinds(still, NOTHING) == []
    assert kinds(LABEL, NOTHING, np.radians(10.0)) == []


def test_a_straight_road_proves_nothing_against_a_network() -> None:
    straight = np.zeros(200)
    assert kinds(straight, straight, np.radians(10.0)) == []
    assert kinds(np.radians(0.9) * np.sin(np.arange(200.0)), straight) == [], "within what counts as straight"
    assert kinds(straight + 1.0, straight) == [DoubtKind.WORSE_THAN_MEAN], "57 degrees off is no steady hand"


def test_too_few_frames_and_missing_ones_are_left_out() -> None:
    assert kinds(np.full(7, 0.01), LABEL[:7], np.radians(10.0)) == []
    holes = np.where(np.arange(200) % 3 == 0, np.nan, LABEL)
    assert kinds(holes + NOISE) == []
    assert kinds(NOTHING) == []
    with pytest.raises(BadParametersError, match="one shape"):
        doubts_of(LABEL, LABEL[:5])
