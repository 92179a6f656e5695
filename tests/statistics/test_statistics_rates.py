"""Rates over clusters, and whether they rose, against plain references and scipy."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, fisher_exact
from scipy.stats import t as student

from skidpad.core.errors import BadParametersError
from skidpad.statistics.intervals import Clusters, holm, sign_flip, student_mean, two_proportions, wilson


def clusters(*pairs: tuple[int, int]) -> Clusters:
    hits, trials = zip(*pairs, strict=True) if pairs else ((), ())
    return Clusters(np.array(hits, np.int64), np.array(trials, np.int64))


@given(st.lists(st.integers(-4, 4), max_size=9))
def test_sign_flip_is_the_share_of_signs_that_sum_to_as_much(differences) -> None:
    nonzero = [each for each in differences if each]
    sums = [sum(sign * abs(each) for sign, each in zip(signs, nonzero, strict=True)) for signs in product((-1, 1), repeat=len(nonzero))]
    expected = sum(each >= sum(differences) for each in sums) / len(sums)
    assert sign_flip(np.array(differences, np.int64)) == pytest.approx(expected)


@given(st.integers(0, 40), st.integers(0, 40))
def test_sign_flip_of_single_cases_is_mcnemars_exact_test(new, fixed) -> None:
    found = sign_flip(np.array([1] * new + [-1] * fixed + [0] * 5))
    expected = binomtest(new, new + fixed, alternative="greater").pvalue if new + fixed else 1.0
    assert found == pytest.approx(expected)


def test_many_large_clusters_are_near_the_exact_answer() -> None:
    rng = np.random.default_rng(0)
    differences = rng.integers(-30, 34, 1500)
    draws = np.array([(differences * rng.choice((-1, 1), len(differences))).sum() for _ in range(4000)])
    assert sign_flip(differences) == pytest.approx(float((draws >= differences.sum()).mean()), abs=0.02)


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_a_case_alone_in_its_cluster_counts_once(failed) -> None:
    alone = clusters(*((int(each), 1) for each in failed))
    assert alone.design_effect == pytest.approx(1.0)
    found, plain = alone.interval(), wilson(sum(failed), len(failed))
    assert (found.low, found.high, found.n) == pytest.approx((plain.low, plain.high, plain.n))


def test_a_case_met_ten_times_counts_once() -> None:
    """Ten copies of every case widen the interval to that of the cases themselves, but for the correction for few clusters."""
    once = clusters(*((each, 1) for each in [1, 0, 0, 1, 1, 0, 1, 1] * 20))
    copied = clusters(*((10 * each, 10) for each in [1, 0, 0, 1, 1, 0, 1, 1] * 20))
    assert copied.design_effect == pytest.approx(10 * 160 / 159)
    assert copied.interval().low == pytest.approx(once.interval().low, abs=1e-3)
    assert copied.interval().n == 1600


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)).map(lambda both: (min(both), max(both))), max_size=12))
def test_an_interval_holds_its_rate_and_is_never_narrower_than_wilsons(pairs) -> None:
    rates = clusters(*pairs)
    found, plain = rates.interval(), wilson(rates.failed, rates.total)
    if rates.total:
        assert found.low <= rates.rate <= found.high
    assert found.low <= plain.low + 1e-12
    assert found.high >= plain.high - 1e-12


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.lists(st.booleans(), min_size=1, max_size=40))
def test_two_samples_of_single_cases_are_fishers_exact_test(now, then) -> None:
    samples = [clusters(*((int(each), 1) for each in sample)) for sample in (now, then)]
    table = [[sum(now), len(now) - sum(now)], [sum(then), len(then) - sum(then)]]
    assert two_proportions(*samples) == pytest.approx(fisher_exact(table, alternative="greater").pvalue)


def test_clustered_noise_seldom_looks_like_a_rise() -> None:
    """Frames that fail altogether or not at all: as if independent, one comparison in four would be called significant."""
    rng = np.random.default_rng(3)

    def sample() -> Clusters:
        hits = 30 * (rng.random(40) < 0.3)
        return Clusters(hits.astype(np.int64), np.full(40, 30))

    alarms = sum(two_proportions(sample(), sample()) < 0.01 for _ in range(300))
    assert alarms <= 9


@given(st.lists(st.floats(0, 1) | st.just(float("nan")), max_size=8), st.floats(0.001, 0.2))
@settings(max_examples=60)
def test_holm_is_never_braver_than_each_test_alone_nor_shyer_than_bonferroni(p_values, alpha) -> None:
    found = holm(np.array(p_values, np.float64), alpha)
    known = [each for each in p_values if not np.isnan(each)]
    for p_value, is_significant in zip(p_values, found, strict=True):
        assert not is_significant or p_value <= alpha
        assert is_significant or not p_value <= alpha / max(len(known), 1)


def test_holm_goes_step_by_step() -> None:
    assert holm(np.array([0.01, 0.04, 0.03, 0.005]), 0.05) == [True, False, False, True]


def test_impossible_clusters_are_refused() -> None:
    with pytest.raises(BadParametersError, match="between 0 and its trials"):
        clusters((3, 2))
    assert np.isnan(two_proportions(clusters(), clusters((1, 2))))


@pytest.mark.parametrize("values", [(0.1, 0.2, 0.4), (1.0, 1.5)])
def test_the_mean_of_a_few_seeds_has_students_interval(values: tuple[float, ...]) -> None:
    found = student_mean([*values, float("nan")])
    low, high = student.interval(0.95, len(values) - 1, np.mean(values), np.std(values, ddof=1) / len(values) ** 0.5)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert np.isnan(student_mean([0.5]).low)
    assert student_mean([0.5]).estimate == 0.5


@pytest.mark.parametrize("values", [(0.0, 0.0), (0.1, 0.1, 0.1)])
def test_equal_values_have_a_mean_and_no_interval(values: tuple[float, ...]) -> None:
    found = student_mean(values)
    assert found.estimate == pytest.approx(values[0])
    assert np.isnan([found.low, found.high]).all()
    assert "equal" in found.note
