from statistics import NormalDist

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import beta

from skidpad.core.errors import BadParametersError
from skidpad.statistics.rare import Goal, Method, bernoulli_sequence, estimate, estimator


def tail(dimensions, probability, used=None):
    """A plane in normal space, beyond which a share of exactly `probability` lies; only the first `used` dimensions matter."""
    far, used = -NormalDist().inv_cdf(probability), used or dimensions
    # the lower tail, where the points of the cube keep their digits
    return lambda points: -ndtri(points[:, :used]).sum(axis=1) / np.sqrt(used) / far


def repeats(simulate, method, dimensions, goal, count, **more):
    return [estimate(simulate, method, dimensions, goal, seed, **more) for seed in range(count)]


def coverage(found, probability):
    return np.mean([each.interval.low <= probability <= each.interval.high for each in found])


@pytest.mark.parametrize(("dimensions", "used", "probability"), [(2, 2, 1e-3), (5, 5, 1e-4), (5, 5, 1e-6), (28, 3, 1e-4)])
def test_importance_sampling_covers_known_tails_with_few_simulations(dimensions, used, probability):
    found = repeats(tail(dimensions, probability, used), Method.IMPORTANCE, dimensions, Goal(20_000), 200)
    assert coverage(found, probability) >= 0.93
    assert np.mean([each.interval.estimate for each in found]) == pytest.approx(probability, rel=0.06)
    by_tilting = [each for each in found if each.method is Method.IMPORTANCE]
    assert len(by_tilting) >= 190
    assert np.median([each.plain_simulations / each.simulations for each in by_tilting]) > 10


def test_monte_carlo_may_be_looked_at_after_every_batch():
    """A fixed interval, looked at as often, misses the truth far more often than it says."""
    goal = Goal(4000, within=0.0, batch=20)
    rng, missed, naive = np.random.default_rng(3), 0, 0
    for _ in range(300):
        hits = np.cumsum(rng.binomial(20, 0.02, 200))
        trials = 20 * np.arange(1, 201)
        missed += any(
            not (i := bernoulli_sequence(int(h), int(n))).low <= 0.02 <= i.high for h, n in zip(hits[::8], trials[::8], strict=True)
        )
        low, high = beta.ppf(0.025, hits, trials - hits + 1), beta.ppf(0.975, hits + 1, trials - hits)
        naive += bool(((low > 0.02) | (high < 0.02)).any())
    assert missed <= 0.07 * 300
    assert naive > 0.12 * 300
    assert goal.budget == trials[-1]


def test_monte_carlo_covers_and_stops_when_it_is_within():
    found = repeats(tail(3, 0.05), Method.MONTE_CARLO, 3, Goal(20_000, batch=200), 100)
    assert coverage(found, 0.05) >= 0.93
    assert all("within 30 %" in each.stopped and each.simulations < 20_000 for each in found)


def test_splitting_covers_where_failures_have_two_sides():
    """No single tilt covers both tails; levels do."""
    far = -NormalDist().inv_cdf(0.5e-3)

    def both(points):
        return np.abs(ndtri(points[:, 0])) / far

    found = repeats(both, Method.SPLITTING, 4, Goal(20_000, within=0.5), 60)
    assert coverage(found, 1e-3) >= 0.93
    assert np.mean([each.interval.estimate for each in found]) == pytest.approx(1e-3, rel=0.1)


def test_the_method_is_chosen_and_said():
    often = estimate(tail(3, 0.2), Method.AUTO, 3, Goal(3000), 0)
    rare = estimate(tail(3, 1e-4), Method.AUTO, 3, Goal(6000), 0)
    assert (often.method, rare.method) == (Method.MONTE_CARLO, Method.IMPORTANCE)
    assert "plain draws failed" in often.chosen
    assert "too few" in rare.chosen
    assert coverage(repeats(tail(3, 1e-3), Method.AUTO, 3, Goal(6000), 150), 1e-3) >= 0.93


def test_common_failures_are_counted_by_plain_draws_and_the_reason_to_stop_is_that_of_the_interval():
    found = estimate(tail(3, 0.2), Method.AUTO, 3, Goal(200), 0)
    assert found.method is Method.MONTE_CARLO
    assert "common enough for plain draws" in found.chosen
    for method in Method:
        small = estimate(tail(3, 0.2), method, 3, Goal(200), 0)
        half = max(small.interval.high - small.interval.estimate, small.interval.estimate - small.interval.low)
        assert (small.stopped == "the budget is spent") == (half > 0.3 * small.interval.estimate), method


@pytest.mark.parametrize("method", list(Method))
def test_a_budget_too_small_for_anything_else_is_spent_on_plain_draws(method):
    found = estimate(tail(3, 1e-3), method, 3, Goal(8), 0)
    assert (found.simulations, found.method) == (8, Method.MONTE_CARLO)
    assert method is Method.MONTE_CARLO or "not tried (budget too small)" in found.chosen


def test_a_subject_that_never_fails_stops_below_the_bound():
    found = estimate(lambda points: np.full(len(points), 0.2), Method.AUTO, 3, Goal(10_000, stop_below=1e-3), 0)
    assert found.interval.estimate == 0
    assert found.interval.high <= 1e-3
    assert 3000 <= found.simulations <= 6000  # none of 3,000 fails with a chance of 5 % at a rate of 1e-3
    assert found.stopped == "the upper bound is below 0.001"


def test_the_probability_is_that_of_the_valid_part():
    """Half of the cube is not of the domain, and all failures are in the other half."""

    def is_valid(points):
        return points[:, 1] < 0.5

    for method, budget in ((Method.MONTE_CARLO, 20_000), (Method.IMPORTANCE, 8_000), (Method.SPLITTING, 20_000)):
        found = estimate(lambda points: np.where(points[:, 1] < 0.5, tail(2, 5e-3, 1)(points), 9.0), method, 2, Goal(budget), 1, is_valid)
        assert found.interval.low <= 5e-3 <= found.interval.high, method


def test_an_estimator_hangs_on_seed_and_answers_alone_and_keeps_its_budget():
    for method in Method:
        asked = []

        def simulate(points, asked=asked):
            asked.append(points)
            return tail(4, 1e-3)(points)

        first = estimate(simulate, method, 4, Goal(1500, within=0.05), 7)
        told = list(asked)
        work, again = estimator(method, 4, Goal(1500, within=0.05), 7), None
        batch = next(work)
        for points in told:
            np.testing.assert_array_equal(batch.points, points)
            try:
                batch = work.send(tail(4, 1e-3)(points))
            except StopIteration as end:
                again = end.value
        assert again == first
        assert first.simulations == sum(map(len, told)) <= 1500


def test_what_cannot_be_judged_is_counted_apart():
    found = estimate(lambda points: np.where(points[:, 0] < 0.5, np.nan, 2.0 * (points[:, 0] < 0.6)), Method.MONTE_CARLO, 1, Goal(4000), 0)
    assert found.unjudged > 0
    assert found.interval.low <= 0.2 <= found.interval.high


def test_nonsense_is_refused():
    with pytest.raises(BadParametersError, match="stop-below is a probability"):
        Goal(10, stop_below=2.0)
    with pytest.raises(BadParametersError, match="budget"):
        Goal(0)
    with pytest.raises(BadParametersError, match="0 <= hits <= trials"):
        bernoulli_sequence(3, 2)
