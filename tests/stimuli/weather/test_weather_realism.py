"""The two-sample tests: right where nothing differs, sure where much does; and the rows of a measurement."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skidpad.core.errors import BadParametersError
from skidpad.stimuli.weather.realism import _cross_validated, _folds, _mmd2, _squared_distances, common_bandwidth, two_sample


def gaussians(seed: int, shift: float, count: int = 40, size: int = 12) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, size)), rng.normal(size=(count, size)) + shift


def test_mmd_is_the_plain_formula() -> None:
    real, made = gaussians(0, 0.4, 9, 3)
    pooled = np.concatenate([real, made])
    kernel = np.exp(-_squared_distances(pooled) / 2.5)
    within = sum(kernel[i, j] + kernel[i + 9, j + 9] for i in range(9) for j in range(9) if i != j) / (9 * 8)
    across = 2.0 * kernel[:9, 9:].mean()
    labels = np.repeat([1.0, -1.0], 9)[:, None]
    np.testing.assert_allclose(_mmd2(kernel, labels), [within - across], atol=1e-12)


def test_every_answer_is_by_a_classifier_that_did_not_learn_the_row() -> None:
    real, made = gaussians(1, 0.5, 10, 4)
    kernel = np.exp(-_squared_distances(np.concatenate([real, made])) / 4.0)
    labels = np.repeat([1.0, -1.0], 10)[:, None]
    answers = _cross_validated(kernel, labels, np.random.default_rng(3))
    for held in _folds(20, np.random.default_rng(3)):
        turned = labels.copy()
        turned[held] *= -1.0
        np.testing.assert_allclose(_cross_validated(kernel, turned, np.random.default_rng(3))[held], answers[held])
    assert sorted(np.concatenate(_folds(20, np.random.default_rng(3))).tolist()) == list(range(20))


def test_many_tests_of_nothing_are_wrong_about_one_time_in_twenty() -> None:
    found = [two_sample(*gaussians(seed, 0.0, 16, 4), seed, permutations=49) for seed in range(120)]
    for values in ([each.accuracy_p for each in found], [each.mmd2_p for each in found]):
        assert np.mean(np.array(values) <= 0.06) <= 0.13
        assert 0.35 < np.mean(values) < 0.68


@settings(max_examples=15)
@given(seed=st.integers(0, 1000))
def test_a_large_difference_is_always_told(seed: int) -> None:
    found = two_sample(*gaussians(seed, 1.5), seed, permutations=99)
    assert found.accuracy > 0.9
    assert found.accuracy_p == found.mmd2_p == 0.01
    assert found.mmd2 > 0.1


def test_the_same_seed_gives_the_same_test_and_sizes_are_evened() -> None:
    real, made = gaussians(2, 0.3)
    found = two_sample(real, made[:25], 7, permutations=20)
    assert (found.real, found.made, found.permutations) == (25, 25, 20)
    assert found == two_sample(real, made[:25], 7, permutations=20)


def test_nearer_sets_have_a_smaller_mmd() -> None:
    real, far = gaussians(4, 1.0)
    _, near = gaussians(5, 0.3)
    width = common_bandwidth(real, far)
    assert 0.0 < two_sample(real, near, bandwidth=width, permutations=5).mmd2 < two_sample(real, far, bandwidth=width, permutations=5).mmd2


def test_too_few_pictures_are_refused() -> None:
    with pytest.raises(BadParametersError, match="at least 8 pictures a side; got 40 and 5"):
        two_sample(gaussians(0, 0.0)[0], gaussians(0, 0.0)[1][:5])
