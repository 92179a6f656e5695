"""Rank tests against scipy, against enumeration of every permutation, and on degenerate samples."""

import math
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from skidpad.core.errors import BadParametersError
from skidpad.statistics.ranks import Alternative, mann_whitney, midranks, signed_rank, spearman

SIDES = list(Alternative)
COARSE = st.lists(st.integers(0, 4).map(float), min_size=1, max_size=5)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-3, 3).map(float), max_size=30))
def test_midranks_are_scipys(values):
    np.testing.assert_array_equal(midranks(np.array(values)), stats.rankdata(values))


@settings(max_examples=40, deadline=None)
@given(COARSE, COARSE, st.sampled_from(SIDES))
def test_exact_u_with_ties_is_the_enumeration_of_all_permutations(first, second, side):
    result = mann_whitney(first, second, side)
    ranks = stats.rankdata(first + second)
    sums = np.array([sum(ranks[list(chosen)]) for chosen in combinations(range(len(ranks)), len(first))])
    seen = ranks[: len(first)].sum()
    less, greater = float((sums <= seen + 1e-9).mean()), float((sums >= seen - 1e-9).mean())
    expected = {Alternative.LESS: less, Alternative.GREATER: greater, Alternative.TWO_SIDED: min(1.0, 2 * min(less, greater))}[side]
    assert result.method == "exact"
    assert result.p_value == pytest.approx(expected)
    assert result.statistic == pytest.approx(stats.mannwhitneyu(first, second).statistic)


@pytest.mark.parametrize("side", SIDES)
def test_u_is_scipys_exact_and_scipys_normal(side):
    rng = np.random.default_rng(1)
    small, other = rng.normal(size=12), rng.normal(0.7, size=9)
    expected = stats.mannwhitneyu(small, other, alternative=side.value, method="exact")
    result = mann_whitney(small, other, side)
    assert (result.statistic, result.p_value) == pytest.approx((expected.statistic, expected.pvalue))
    many, more = rng.integers(0, 30, 400), rng.integers(2, 31, 300)
    expected = stats.mannwhitneyu(many, more, alternative=side.value, method="asymptotic")
    result = mann_whitney(many, more, side)
    assert result.method == "normal"
    assert (result.statistic, result.p_value) == pytest.approx((expected.statistic, expected.pvalue), rel=1e-9)


def test_complete_separation_of_ten_and_ten_with_and_without_ties():
    # 2 / C(20, 10): the smallest p-value that ten runs against ten can have
    assert mann_whitney(range(10, 20), range(10)).p_value == pytest.approx(2 / math.comb(20, 10), rel=1e-12)
    assert mann_whitney(range(10, 20), range(10)).p_value == pytest.approx(1.08e-5, rel=3e-3)
    tied = mann_whitney([1.0] * 10, [0.0] * 10)
    assert tied.p_value == pytest.approx(1.08e-5, rel=3e-3)
    assert tied.statistic == 100


def test_far_tails_do_not_vanish():
    result = mann_whitney(np.arange(500) + 500, np.arange(500))
    assert 0 < result.p_value < 1e-150


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-4, 4), min_size=1, max_size=8), st.sampled_from(SIDES))
def test_exact_signed_rank_is_the_enumeration_of_all_signs(differences, side):
    result = signed_rank(differences, np.zeros(len(differences)), side)
    moved = [difference for difference in differences if difference]
    assert result.n == len(moved)
    if not moved:
        assert (result.p_value, result.note) == (1.0, "no pair differs")
        return
    ranks = stats.rankdata(np.abs(moved))
    sums = np.array([ranks @ signs for signs in product([0, 1], repeat=len(moved))])
    seen = ranks @ (np.array(moved) > 0)
    less, greater = float((sums <= seen + 1e-9).mean()), float((sums >= seen - 1e-9).mean())
    expected = {Alternative.LESS: less, Alternative.GREATER: greater, Alternative.TWO_SIDED: min(1.0, 2 * min(less, greater))}[side]
    assert result.p_value == pytest.approx(expected)
    assert result.statistic == pytest.approx(seen)


@pytest.mark.parametrize("side", SIDES)
def test_signed_rank_is_scipys(side):
    rng = np.random.default_rng(2)
    first, second = rng.normal(size=30), rng.normal(0.3, size=30)
    expected = stats.wilcoxon(first, second, alternative=side.value, method="exact")
    assert signed_rank(first, second, side).p_value == pytest.approx(expected.pvalue)
    first, second = rng.integers(0, 50, 300), rng.integers(0, 52, 300)
    expected = stats.wilcoxon(first, second, alternative=side.value, method="asymptotic", correction=True)
    result = signed_rank(first, second, side)
    assert (result.method, result.p_value) == ("normal", pytest.approx(expected.pvalue))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=3, max_size=40))
def test_spearman_is_scipys(pairs):
    first, second = np.array(pairs, float).T
    result = spearman(first, second)
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        assert math.isnan(result.rho)
        assert result.note == "a sample is constant"
        return
    expected = stats.spearmanr(first, second)
    assert (result.rho, result.p_value) == (pytest.approx(expected.statistic, abs=1e-12), pytest.approx(expected.pvalue, abs=1e-7))


def test_degenerate_samples_get_a_clear_answer():
    empty = mann_whitney([], [1.0])
    assert math.isnan(empty.p_value)
    assert (empty.method, empty.note) == ("none", "a sample is empty")
    assert mann_whitney([3.0], [3.0]).p_value == 1.0
    assert mann_whitney([3.0] * 40, [3.0] * 40).p_value == 1.0
    assert mann_whitney([1.0], [2.0]).p_value == 1.0
    assert mann_whitney([1.0, math.nan], [2.0]).note == "1 NaN left out"
    assert signed_rank([], []).note == "there are no pairs"
    assert signed_rank([1.0, math.nan], [2.0, 1.0]).n == 1
    assert spearman([1.0, 2.0], [1.0, 2.0]).note == "fewer than three pairs"
    assert spearman([1.0, 2.0, 3.0, math.inf], [1.0, 2.0, 3.0, 4.0]).pairs == 3
    assert spearman([1, 2, 3], [3, 2, 1]).rho == -1.0
    with pytest.raises(BadParametersError, match="equally long"):
        spearman([1.0], [1.0, 2.0])
