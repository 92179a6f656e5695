"""Accuracy figures by hand, against NumPy, and against a published leaderboard."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skidpad.core.errors import BadParametersError
from skidpad.core.units import AngleUnit
from skidpad.oracles.error import pearson, prediction_error, rad2_to_squared, squared_to_rad2


def test_by_hand():
    error = prediction_error(np.array([0.0, 1.0, 3.0, math.nan, 2.0]), np.array([0.0, 0.0, 1.0, 0.0, math.nan]), worst=2)
    assert (error.frames, error.judged, error.without_label, error.not_finite) == (5, 3, 1, 1)
    assert error.mse_rad2 == pytest.approx(5 / 3)
    assert error.rmse_rad == pytest.approx(math.sqrt(5 / 3))
    assert error.mae_rad == pytest.approx(1.0)
    assert error.bias_rad == pytest.approx(1.0)
    assert error.correlation == pytest.approx(np.corrcoef([0, 1, 3], [0, 0, 1])[0, 1])
    assert [(frame.index, frame.answer_rad, frame.label_rad, frame.error_rad) for frame in error.worst] == [
        (2, 3.0, 1.0, 2.0),
        (1, 1.0, 0.0, 1.0),
    ]


def test_nothing_to_judge_is_nan_without_a_warning():
    with np.errstate(all="raise"):
        for answers, labels in ([], []), ([math.nan], [1.0]), ([1.0], [math.nan]):
            error = prediction_error(np.array(answers), np.array(labels))
            assert error.judged == 0
            assert all(math.isnan(value) for value in (error.mse_rad2, error.rmse_rad, error.mae_rad, error.correlation))
            assert error.worst == ()
        assert math.isnan(prediction_error(np.ones(3), np.arange(3.0)).correlation)
    with pytest.raises(BadParametersError, match="one shape"):
        prediction_error(np.zeros(2), np.zeros(3))


@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), min_size=1, max_size=30))
def test_figures_are_numpys(pairs):
    answers, labels = np.array(pairs).T
    error = prediction_error(answers, labels, worst=3)
    assert error.mse_rad2 == pytest.approx(float(np.mean((answers - labels) ** 2)))
    assert error.mae_rad == pytest.approx(float(np.mean(np.abs(answers - labels))))
    assert [abs(frame.error_rad) for frame in error.worst] == sorted(np.abs(answers - labels), reverse=True)[:3]
    assert math.isnan(error.correlation) or -1 <= error.correlation <= 1


def test_correlation_keeps_its_precision_at_the_ends_of_the_floats():
    values = np.array([1.0, 2.0, 4.0])
    for scale in (1e-200, 1.0, 1e200):
        assert pearson(values * scale, -values * scale) == pytest.approx(-1.0)


def test_units():
    assert squared_to_rad2(1.0, AngleUnit.SCALED_25) == pytest.approx(math.radians(25) ** 2)
    assert rad2_to_squared(squared_to_rad2(0.03, AngleUnit.SCALED_25), AngleUnit.SCALED_25) == pytest.approx(0.03)
    assert squared_to_rad2(0.03, AngleUnit.RAD) == 0.03
