"""The relations: where exactly they break, and what cannot be judged."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.oracles.relations import (
    RELATIONS,
    Answers,
    AnswersAlike,
    DecidesAlike,
    LabelMse,
    SteersAlike,
    SteersRight,
    deviation,
    squared_error_rad2,
    violated,
)

ANGLES = st.floats(-3, 3)


def answers(original, mutant, label=math.nan) -> Answers:
    columns = np.broadcast_arrays(
        np.atleast_1d(np.asarray(original, float)), np.atleast_1d(np.asarray(mutant, float)), np.asarray(label, float)
    )
    return Answers(*(np.array(column) for column in columns))


@given(st.floats(0.01, 179), st.floats(0, 3.2))
def test_steers_alike_is_strictly_less(within_deg, difference_rad):
    relation = SteersAlike(within_deg)
    assert bool(violated(relation, answers(0.0, difference_rad))[0]) == (not difference_rad < math.radians(within_deg))


@given(st.floats(0.01, 179))
def test_exactly_the_bound_is_a_violation_and_the_float_below_is_not(within_deg):
    bound = math.radians(within_deg)
    cases = answers(0.0, [bound, -bound, math.nextafter(bound, 0), math.nextafter(-bound, 0)])
    assert violated(SteersAlike(within_deg), cases).tolist() == [True, True, False, False]


@given(st.floats(1e-6, 10), st.floats(0.1, 20), ANGLES, ANGLES)
def test_label_mse_is_at_most(mse, lambda_, label, mutant):
    relation = LabelMse(mse_original_rad2=mse, lambda_=lambda_)
    case = answers(0.0, mutant, label)
    assert bool(violated(relation, case)[0]) == ((mutant - label) ** 2 > lambda_ * mse)


@given(st.floats(1e-6, 10), st.floats(0.1, 20))
def test_exactly_lambda_times_mse_holds(mse, lambda_):
    relation = LabelMse(mse, lambda_)
    root = math.sqrt(relation.tolerated_rad2)
    assume(root * root == relation.tolerated_rad2)
    assert not violated(relation, answers(0.0, root, 0.0))[0]


@pytest.mark.parametrize("relation", [SteersAlike(10), LabelMse(0.01), DecidesAlike(), AnswersAlike(0.1)])
def test_what_cannot_be_judged_is_nan_and_a_broken_answer_is_infinite(relation):
    bad = [math.nan, math.inf, -math.inf]
    with np.errstate(all="raise"):
        assert relation.excess(answers([0.0] * 3, bad, 0.0)).tolist() == [math.inf] * 3
        assert relation.excess(answers(bad, bad, bad)).tolist() == [math.inf] * 3
        assert np.isnan(relation.excess(answers(bad, [0.1] * 3, bad))).all()
        assert not violated(relation, answers(bad, [0.1] * 3, bad)).any()
        assert relation.excess(answers([], [], [])).shape == (0,)


def test_each_relation_looks_at_its_own_reference():
    case = answers(0.0, 0.5, 0.5)
    assert violated(SteersAlike(10), case)[0]
    assert not violated(LabelMse(0.01), case)[0]
    assert SteersAlike(10).excess(answers(0.0, math.radians(25)))[0] == pytest.approx(2.5)
    assert LabelMse(0.01, 5).excess(answers(9.0, 0.5, 0.0))[0] == pytest.approx(5.0)


def test_a_perfect_subject_breaks_nothing_even_with_no_error_to_scale_by():
    relation = LabelMse(mse_original_rad2=0.0)
    assert violated(relation, answers(0.0, [0.2, 0.2000001], 0.2)).tolist() == [False, True]
    assert relation.excess(answers(0.0, [0.2, 0.3], 0.2)).tolist() == [0.0, math.inf]
    assert np.isnan(relation.excess(answers(0.0, 0.2, math.nan)))[0]


def test_huge_answers_give_no_warning():
    with np.errstate(all="raise"):
        assert SteersAlike(10).excess(answers(-1e308, 1e308))[0] == math.inf
        assert LabelMse(1e-300).excess(answers(0.0, 1e300, -1e300))[0] == math.inf


def test_distances():
    case = answers([0.0, math.nan, 0.0], [0.5, 0.5, math.nan], [0.25, 0.25, math.nan])
    np.testing.assert_array_equal(deviation(case), [0.5, math.nan, math.inf])
    np.testing.assert_array_equal(squared_error_rad2(case), [0.0625, 0.0625, math.inf])


@pytest.mark.parametrize(
    "make",
    [lambda: SteersAlike(0), lambda: SteersAlike(math.nan), lambda: LabelMse(0.1, 0), lambda: LabelMse(math.nan), lambda: LabelMse(-1.0)],
)
def test_tolerances_out_of_range_are_refused(make):
    with pytest.raises(BadParametersError, match=r"takes|needs"):
        make()


def test_registry_rows_know_their_names():
    assert RELATIONS.names() == ("steers-alike", "steers-right", "label-mse", "decides-alike", "answers-alike")
    assert RELATIONS.get("steers-alike")(within_deg=20).name == "steers-alike"
    assert RELATIONS.get("label-mse")(mse_original_rad2=0.1).name == "label-mse"
    with pytest.raises(UnknownNameError, match="did you mean 'steers-alike'"):
        RELATIONS.get("steer-alike")


@given(st.floats(-2, 2), st.floats(-2, 2), st.floats(-1, 1))
def test_decides_alike_breaks_exactly_where_the_two_booleans_differ(original, mutant, threshold):
    case = answers(original, mutant)
    excess = DecidesAlike(threshold).excess(case)[0]
    assert bool(violated(DecidesAlike(threshold), case)[0]) == ((original >= threshold) != (mutant >= threshold))
    assert excess == pytest.approx(1 + abs(mutant - original) if excess > 1 else min(abs(mutant - original), 1))


def test_a_flip_too_small_to_see_beside_one_is_still_a_violation():
    below = math.nextafter(0.5, 0)
    assert violated(DecidesAlike(), answers([0.5, below], [below, 0.5])).tolist() == [True, True]


def test_the_widest_flip_is_the_worst():
    excess = DecidesAlike().excess(answers([0.51, 0.99, 0.1], [0.49, 0.01, 0.9]))
    assert np.argsort(-excess).tolist() == [1, 2, 0]


@given(st.floats(0.001, 100), st.floats(0, 120))
def test_answers_alike_is_strictly_less(within, difference):
    assert bool(violated(AnswersAlike(within), answers(0.0, difference))[0]) == (not difference < within)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DecidesAlike(math.nan), "finite threshold, got nan"),
        (lambda: AnswersAlike(0.0), "above 0 in the output's unit, got 0.0"),
        (lambda: AnswersAlike(math.inf), "above 0"),
    ],
)
def test_numbers_that_make_no_relation_are_refused(make, message):
    with pytest.raises(BadParametersError, match=message):
        make()


def test_steers_right_wants_an_answer_that_is_wrong_and_that_the_stimulus_made_wrong() -> None:
    rad = np.radians
    cases = Answers(
        original=rad(np.array([0.0, 0.0, 12.0, 20.0, 5.0, np.nan, 0.0])),
        mutant=rad(np.array([15.0, 8.0, 0.0, 35.0, 16.0, 20.0, np.inf])),
        label=rad(np.array([0.0, 0.0, 6.0, 0.0, np.nan, 0.0, 0.0])),
    )
    excess = SteersRight(10).excess(cases)
    # wrong; right enough; moved by 12 degrees, yet 6 from the human; wrong as it was; no label; no answer before; no answer now
    assert violated(SteersRight(10), cases).tolist() == [True, False, False, False, False, False, True]
    assert excess[0] == pytest.approx(1.5)
    assert np.isnan(excess[3:6]).all()
