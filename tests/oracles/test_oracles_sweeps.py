"""Eq. 3's filter and the sweeps of Table 7, against loops over the cases and against the relations themselves."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skidpad.core.errors import BadParametersError
from skidpad.core.units import AngleUnit
from skidpad.oracles.filters import (
    TABLE_7_EPSILONS_RAD2,
    TABLE_7_LAMBDAS,
    group,
    near_original,
    sweep_composite,
    sweep_simple,
)
from skidpad.oracles.relations import Answers, LabelMse, violated

CASES = st.lists(
    st.tuples(
        st.sampled_from(["rotation 3", "rotation 30", "blur 3"]),
        st.one_of(st.integers(0, 12).map(lambda whole: whole / 8), st.sampled_from([math.nan, math.inf])),
    ),
    max_size=25,
)


def columns(cases):
    return [key for key, _ in cases], np.array([error for _, error in cases], float)


def plain_kept(cases, mse, epsilon):
    kept = set()
    for key in {key for key, _ in cases}:
        finite = [error for other, error in cases if other == key and math.isfinite(error)]
        if finite and abs(math.fsum(finite) / len(finite) - mse) <= epsilon:
            kept.add(key)
    return kept


@settings(max_examples=80, deadline=None)
@given(CASES, st.sampled_from([0.0, 0.25, 0.5]), st.sampled_from([0.0, 0.125, 0.25, 1.0]))
def test_filter_is_the_plain_loop(cases, mse, epsilon):
    keys, errors = columns(cases)
    result = near_original(keys, errors, mse, epsilon)
    kept = plain_kept(cases, mse, epsilon)
    assert {key for key, keep in zip(result.groups.keys, result.kept, strict=True) if keep} == kept
    assert result.kept_cases.tolist() == [key in kept or math.isinf(error) for key, error in cases]
    assert int(result.groups.cases.sum()) == len(cases)
    assert int(result.groups.not_finite.sum()) == sum(math.isinf(error) for _, error in cases)
    assert int(result.groups.unjudged.sum()) == sum(math.isnan(error) for _, error in cases)


@settings(max_examples=80, deadline=None)
@given(CASES, st.sampled_from([0.0, 0.25, 0.5]), st.permutations([0.5, 1.0, 2.0, 3.0]))
def test_simple_sweep_is_filter_and_relation_run_again(cases, mse, lambdas):
    keys, errors = columns(cases)
    epsilons = (0.5, 0.0, 0.125)
    sweep = sweep_simple(keys, errors, mse, lambdas, epsilons)
    assert sweep.violations.shape == (4, 3)
    for column, epsilon in enumerate(epsilons):
        kept = plain_kept(cases, mse, epsilon)
        assert sweep.kept_groups[column] == len(kept)
        for row, lambda_ in enumerate(lambdas):
            expected = sum(error > lambda_ * mse and (key in kept or math.isinf(error)) for key, error in cases)
            assert sweep.violations[row, column] == expected


@settings(max_examples=60, deadline=None)
@given(CASES, st.sampled_from([0.0, 0.25]))
def test_composite_sweep_agrees_with_the_relation(cases, mse):
    keys, errors = columns(cases)
    sweep = sweep_composite(keys, errors, mse, (1.0, 2.0))
    for row, lambda_ in enumerate(sweep.lambdas):
        for column, stimulus in enumerate(sweep.stimuli):
            roots = np.array([math.sqrt(error) for key, error in cases if key == stimulus])
            mutants = np.where(np.isinf(roots), math.nan, roots)
            labels = np.where(np.isnan(roots), math.nan, 0.0)
            mutants = np.where(np.isnan(roots), 0.0, mutants)
            expected = violated(LabelMse(mse, lambda_), Answers(np.zeros_like(roots), mutants, labels)).sum()
            # the squares of these roots are exact only to rounding, so cases on the bound are told apart by the loop
            on_bound = sum(abs(error - lambda_ * mse) < 1e-9 for key, error in cases if key == stimulus)
            assert abs(int(sweep.violations[row, column]) - int(expected)) <= on_bound
            assert sweep.violations[row, column] == sum(error > lambda_ * mse for key, error in cases if key == stimulus)


def test_table_7_has_the_papers_shape_and_trend():
    rng = np.random.default_rng(0)
    keys = np.repeat(np.arange(70), 100)
    errors = np.square(rng.normal(0, np.linspace(0.05, 0.4, 70).repeat(100)))
    sweep = sweep_simple(keys, errors, 0.0095)
    assert sweep.violations.shape == (10, 5)
    assert sweep.groups == 70
    assert (np.diff(sweep.violations, axis=0) <= 0).all()
    assert (np.diff(sweep.violations, axis=1) >= 0).all()
    assert sweep.violations[0, 0] > sweep.violations[9, 0]


def test_the_papers_epsilons_are_converted():
    assert TABLE_7_LAMBDAS[4] == 5.0
    # 0.03 of (degrees / 25)^2: sqrt(0.03) x 25 degrees = 4.33 degrees = 0.0756 rad, squared
    assert TABLE_7_EPSILONS_RAD2[2] == pytest.approx(math.radians(25 * math.sqrt(0.03)) ** 2)
    assert AngleUnit.SCALED_25.rad == pytest.approx(0.43633231)


def test_the_bound_of_the_filter_is_included():
    assert near_original(["a", "a", "b"], np.array([0.25, 0.75, 0.8]), 0.25, 0.25).kept.tolist() == [True, False]


def test_bad_input_is_refused():
    with pytest.raises(BadParametersError, match="one key for each"):
        group(["a"], np.zeros(2))
    with pytest.raises(BadParametersError, match="epsilon_rad2"):
        near_original(["a"], np.zeros(1), 0.1, -1.0)
    assert group([], np.zeros(0)).keys == ()
