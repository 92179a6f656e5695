"""The bootstrap over stretches: against a plain one written here, and whether it covers what it says it covers."""

import numpy as np
import pytest

from skidpad.core.errors import BadParametersError
from skidpad.statistics.intervals import share_over_stretches, wilson


def plainly(values: np.ndarray, block: int, resamples: int, seed: int) -> np.ndarray:
    """Draws stretches one after the other and returns the means, sorted."""
    rng = np.random.default_rng(seed)
    means = []
    for _ in range(resamples):
        starts = rng.integers(len(values), size=-(-len(values) // block))
        means.append(np.nanmean([values[(start + k) % len(values)] for start in starts for k in range(block)]))
    return np.sort(means)


def alike(rng: np.random.Generator, frames: int, share: float, keeps: float = 0.9) -> np.ndarray:
    """Returns failures of which a share is 1 in the long run, with neighbours that are alike: a Markov chain."""
    failed = np.empty(frames)
    failed[0] = rng.random() < share
    for place in range(1, frames):
        failed[place] = failed[place - 1] if rng.random() < keeps else rng.random() < share
    return failed


def test_the_interval_is_wilsons_of_as_many_values_as_a_plain_bootstrap_says_the_series_is_worth() -> None:
    values = alike(np.random.default_rng(1), 120, 0.3)
    values[[3, 50]] = np.nan
    found = share_over_stretches(values, 10, np.random.default_rng(2), resamples=4000)
    share = float(np.nanmean(values))
    assert (found.estimate, found.n) == (pytest.approx(share), 118)
    # 12 stretches: 11 degrees of freedom, for which Student's t has its 97.5 % at 2.201
    worth = share * (1.0 - share) / (plainly(values, 10, 4000, 3).var() * 12.0 / 11.0) / (2.201 / 1.960) ** 2
    plain = wilson(share * worth, worth)
    assert (found.low, found.high) == pytest.approx((plain.low, plain.high), abs=0.01)
    assert found.high - found.low > 1.5 * (wilson(share * 118, 118).high - wilson(share * 118, 118).low)


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_it_covers_the_truth_where_neighbours_are_alike_and_an_interval_of_single_frames_does_not(share: float) -> None:
    rng = np.random.default_rng(5)
    tries, stretches, frames = 300, 0, 0
    for number in range(tries):
        failed = alike(rng, 500, share, keeps=0.8)
        found, single = share_over_stretches(failed, 40, np.random.default_rng(number), resamples=400), wilson(int(failed.sum()), 500)
        stretches += found.low <= share <= found.high
        frames += single.low <= share <= single.high
    assert stretches / tries > 0.9  # 0.94 and 0.95 of 1000 other tries
    assert frames / tries < 0.75


def test_what_never_changes_could_hide_what_so_few_stretches_miss_and_what_is_empty_has_no_mean() -> None:
    rng = np.random.default_rng(0)
    none, all_of_them = share_over_stretches(np.zeros(20), 4, rng), share_over_stretches(np.ones(20), 4, rng)
    missed = 1.0 - 0.05 ** (1 / 5)  # five stretches, each of which passes
    assert (none.low, none.high) == (0.0, pytest.approx(missed))
    assert (all_of_them.low, all_of_them.high) == (pytest.approx(1.0 - missed), 1.0)
    assert share_over_stretches(np.zeros(400), 4, rng).high < 0.05 < none.high, "fewer frames claim less"
    assert np.isnan(share_over_stretches([np.nan, np.nan], 1, rng).estimate)
    for block in (0, 21):
        with pytest.raises(BadParametersError, match="a stretch has at least 1 value and at most all 20"):
            share_over_stretches(np.zeros(20), block, rng)


def test_a_failure_that_was_seen_makes_nothing_surer() -> None:
    none, one = np.zeros(60), np.zeros(60)
    one[7] = 1.0
    bounds = [share_over_stretches(series, 6, np.random.default_rng(0)).high for series in (none, one)]
    assert bounds[1] >= bounds[0]
    assert share_over_stretches(1.0 - one, 6, np.random.default_rng(0)).low <= 1.0 - bounds[0]
