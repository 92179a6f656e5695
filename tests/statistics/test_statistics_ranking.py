from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skidpad.core.errors import BadParametersError
from skidpad.statistics.orders import apfd, by_gain, by_score, farthest_first, ideal_order


def plain_apfd(failed, order):
    """The textbook: 1 - (TF1 + ... + TFm) / (n m) + 1 / (2 n)."""
    places = [place for place, test in enumerate(order, 1) if failed[test]]
    n, m = len(failed), len(places)
    return 1 - sum(places) / (n * m) + 1 / (2 * n)


@given(st.lists(st.booleans(), min_size=1, max_size=12).filter(any), st.randoms())
def test_apfd_is_the_textbook_formula(failed, random):
    order = list(range(len(failed)))
    random.shuffle(order)
    assert apfd(np.array(failed), np.array(order)) == pytest.approx(plain_apfd(failed, order))


def test_chance_is_one_half_and_the_ideal_is_the_best():
    failed, costs = np.array([True, False, False, True, False]), np.array([4.0, 1.0, 2.0, 1.0, 3.0])
    for prices in (None, costs):
        every = [apfd(failed, np.array(order), prices) for order in permutations(range(5))]
        assert np.mean(every) == pytest.approx(0.5)
        assert apfd(failed, ideal_order(failed, prices), prices) == pytest.approx(max(every))


def test_costs_count_what_is_left_to_spend():
    """Two tests of 1 s and 3 s, the second fails: found after 1 s and half of its own 3 s, of 4 s."""
    assert apfd(np.array([False, True]), np.array([0, 1]), np.array([1.0, 3.0])) == pytest.approx(1.5 / 4)


def test_scores_go_from_high_to_low_and_cheap_ones_first():
    assert by_score(np.array([1.0, np.nan, 3.0, 3.0])).tolist() == [2, 3, 0, 1]
    assert by_score(np.array([0.0, 2.0, 3.0]), np.array([1.0, 1.0, 3.0])).tolist() == [1, 2, 0]


def test_farthest_first_visits_every_cluster_before_it_returns():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(centre, 0.1, (10, 2)) for centre in ((0, 0), (9, 0), (0, 9), (9, 9))])
    order = farthest_first(points)
    assert sorted(order.tolist()) == list(range(40))
    assert {place // 10 for place in order[:4].tolist()} == {0, 1, 2, 3}


def test_gain_takes_what_is_new_and_then_begins_anew():
    covered = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]], np.bool_)
    assert by_gain(covered).tolist() == [1, 2, 0, 3]


def test_nonsense_is_refused_and_no_failure_has_no_figure():
    with pytest.raises(BadParametersError, match="names each of 2 tests once"):
        apfd(np.array([True, False]), np.array([0, 0]))
    assert np.isnan(apfd(np.array([False]), np.array([0])))
