"""Effect sizes, intervals and set distances, by hand, by loops and against scipy."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from skidpad.core.errors import BadParametersError
from skidpad.statistics.intervals import mean_error, none_failed, wilson
from skidpad.statistics.ranks import (
    Magnitude,
    a12,
    cohens_d,
    compare_directions,
    count_bits,
    cumulative_counts,
    jaccard_packed,
    transform_distances,
)

SAMPLES = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(SAMPLES, SAMPLES)
def test_a12_is_the_count_over_all_pairs(first, second):
    wins = sum((x > y) + 0.5 * (x == y) for x in first for y in second)
    assert a12(first, second).size == pytest.approx(wins / (len(first) * len(second)))
    assert a12(first, second).size + a12(second, first).size == pytest.approx(1.0)
    assert a12(first, second).magnitude is a12(second, first).magnitude


@pytest.mark.parametrize(
    ("wins", "word"),
    [(50, "negligible"), (55, "negligible"), (56, "small"), (44, "small"), (64, "medium"), (36, "medium"), (71, "large"), (29, "large")],
)
def test_a12_words(wins, word):
    # one value against a hundred: it beats exactly `wins` of them
    effect = a12([wins - 0.5], range(100))
    assert effect.size == pytest.approx(wins / 100)
    assert effect.magnitude.value == word


@settings(max_examples=60, deadline=None)
@given(SAMPLES, SAMPLES)
def test_cohens_d_is_the_formula(first, second):
    effect = cohens_d(first, second)
    n, m = len(first), len(second)
    if n + m < 3:
        assert effect.magnitude is Magnitude.UNDEFINED
        return
    pooled = (n * np.var(first) + m * np.var(second)) / (n + m - 2)
    if np.ptp(first) == np.ptp(second) == 0:
        assert effect.size == (0.0 if first[0] == second[0] else math.copysign(math.inf, first[0] - second[0]))
    else:
        assert effect.size == pytest.approx((np.mean(first) - np.mean(second)) / math.sqrt(pooled), abs=1e-12)


@pytest.mark.parametrize(("shift", "word"), [(0.1, "negligible"), (0.3, "small"), (-0.6, "medium"), (0.9, "large")])
def test_cohens_d_words(shift, word):
    sample = stats.norm.ppf(np.linspace(0.001, 0.999, 999))
    assert cohens_d(sample / sample.std() + shift, sample / sample.std()).magnitude.value == word


def test_direction_splits_by_sign():
    steering = np.array([0.1] * 30 + [-0.1] * 30 + [0.0, math.nan])
    figure = np.concatenate([np.arange(30) + 10, np.arange(30), [1e6, 1e6]])
    result = compare_directions(figure, steering)
    assert (result.positive, result.negative, result.verdict) == (30, 30, "positive > negative")
    assert result.effect.magnitude is Magnitude.LARGE
    assert result.test.p_value == pytest.approx(stats.mannwhitneyu(figure[:30], figure[30:60]).pvalue, rel=1e-6)
    assert compare_directions(figure, -steering).verdict == "positive < negative"
    assert compare_directions(np.ones(62), steering).verdict == "not significant"
    assert compare_directions([1.0], [1.0]).verdict == "not significant"


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 60), st.integers(0, 60), st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_is_scipys(a, b, confidence):
    hits, trials = min(a, b), max(a, b)
    interval = wilson(hits, trials, confidence)
    assert 0 <= interval.low <= interval.high <= 1
    if trials:
        expected = stats.binomtest(hits, trials).proportion_ci(confidence, method="wilson")
        assert (interval.low, interval.high) == (pytest.approx(expected.low, abs=1e-12), pytest.approx(expected.high, abs=1e-12))
        assert interval.low <= interval.estimate <= interval.high
    else:
        assert (interval.low, interval.high, interval.note) == (0.0, 1.0, "there were no trials")


def test_standard_error():
    values = [1.0, 4.0, 4.0, 7.0, math.nan]
    assert mean_error(values).sem == pytest.approx(stats.sem(values[:4]))
    assert (mean_error(values).mean, mean_error(values).n) == (4.0, 4)
    assert mean_error([0.1] * 7).sem == 0.0
    assert math.isnan(mean_error([2.0]).sem)
    assert mean_error([2.0]).note == "one value has no spread"
    assert mean_error([]).note == "there are no values"


def test_degenerate_effects_and_rates():
    for make in (lambda: wilson(3, 2), lambda: wilson(-1, 2), lambda: wilson(1, 2, 1.0)):
        with pytest.raises(BadParametersError, match=r"rate|confidence"):
            make()
    assert a12([], [1.0]).magnitude is Magnitude.UNDEFINED
    assert cohens_d([1.0], [2.0]).note == "two values have no spread"
    assert cohens_d([], []).note == "a sample is empty"
    assert cohens_d([1.0, math.inf], [2.0]).note == "a value is infinite"


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 20), st.integers(0, 2**20 - 1), st.integers(0, 2**20 - 1))
def test_jaccard_is_that_of_python_sets(width, a, b):
    first = np.array([bool(a >> place & 1) for place in range(width)])
    second = np.array([bool(b >> place & 1) for place in range(width)])
    one, two = set(np.flatnonzero(first)), set(np.flatnonzero(second))
    expected = 1 - len(one & two) / len(one | two) if one | two else 0.0
    assert float(jaccard_packed(np.packbits(first), np.packbits(second))) == pytest.approx(expected)
    assert int(count_bits(np.packbits(first))) == len(one)


def test_distances_and_unions_over_transforms():
    rows = np.random.default_rng(4).random((3, 5, 21)) < 0.3
    packed = np.packbits(rows, axis=-1)
    pairs = transform_distances(("blur", "rotation", "scale"), packed)
    assert [(pair.first, pair.second) for pair in pairs] == [("blur", "rotation"), ("blur", "scale"), ("rotation", "scale")]
    np.testing.assert_allclose(pairs[1].distance, [1 - (x & y).sum() / (x | y).sum() for x, y in zip(rows[0], rows[2], strict=True)])
    assert pairs[1].median == pytest.approx(float(np.median(pairs[1].distance)))
    np.testing.assert_array_equal(cumulative_counts(("a", "b", "c"), packed), np.logical_or.accumulate(rows, axis=0).sum(-1))
    assert jaccard_packed(packed[:1], packed).shape == (3, 5)
    with pytest.raises(BadParametersError, match="2 transforms"):
        transform_distances(("a", "b"), packed)
    with pytest.raises(BadParametersError, match="equally many bits"):
        jaccard_packed(packed[0], packed[0][:, :1])


@pytest.mark.parametrize("trials", [1, 3, 20, 300])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_none_failed_is_where_a_plain_binomial_leaves_the_rest_of_the_chance(trials, confidence):
    bound = none_failed(trials, confidence)
    none = math.comb(trials, 0) * bound**0 * (1 - bound) ** trials
    assert none == pytest.approx(1 - confidence)
    assert bound == pytest.approx(stats.binomtest(0, trials, alternative="less").proportion_ci(confidence).high)


def test_none_failed_of_three_and_of_nothing():
    assert none_failed(3) == pytest.approx(0.6316, abs=1e-4)
    assert none_failed(0) == 1.0
    with pytest.raises(BadParametersError, match="-1"):
        none_failed(-1)
