"""Every criterion against a plain loop over pictures and neurons, and against dnn-tip where the definitions agree."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.coverage.criteria import CRITERIA, KMNC, NBC, NC, SNAC, TKNC, BadCoverageError, neurons_of
from skidpad.coverage.profile import Profile
from skidpad.subjects.base import Layer

LAYERS = (Layer("a", 0, 4), Layer("b", 4, 9), Layer("out", 9, 10))
NEURONS = 10
f32 = np.float32


def profile_over(values: np.ndarray) -> Profile:
    profile = Profile(values.shape[1], subject_sha256="s", drive_sha256="d")
    profile.update(torch.from_numpy(values))
    return profile


def plain_nc(values, threshold=0.2):
    out = np.full(values.shape, -1)
    for row in range(len(values)):
        for layer in LAYERS:
            part = values[row, layer.start : layer.stop]
            if not np.isfinite(part).all():
                continue
            low, high = min(part), max(part)
            for at, value in enumerate(part):
                if value > f32(low + f32(f32(threshold) * f32(high - low))):
                    out[row, layer.start + at] = 0
    return out


def plain_kmnc(values, low, high, k):
    out = np.full(values.shape, -1)
    for row in range(len(values)):
        for neuron in range(values.shape[1]):
            value = values[row, neuron]
            if math.isfinite(value) and low[neuron] <= value <= high[neuron]:
                width = f32(high[neuron] - low[neuron])
                part = 0 if width == 0 else math.floor(f32(f32(f32(value - low[neuron]) / width) * f32(k)))
                out[row, neuron] = min(part, k - 1)
    return out


def plain_nbc(values, low, high):
    out = np.full(values.shape, -1)
    for row in range(len(values)):
        for neuron in range(values.shape[1]):
            value = values[row, neuron]
            if math.isfinite(value):
                out[row, neuron] = 0 if value < low[neuron] else 1 if value > high[neuron] else -1
    return out


def plain_tknc(values, k):
    out = np.full(values.shape, -1)
    for row in range(len(values)):
        for layer in LAYERS:
            ranked = sorted(
                (neuron for neuron in range(layer.start, layer.stop) if math.isfinite(values[row, neuron])),
                key=lambda neuron: (-values[row, neuron], neuron),
            )
            out[row, ranked[:k]] = 0
    return out


# a coarse grid makes ties, constants and exact borders common; NaN and infinities belong to the definition
NUMBERS = st.one_of(
    st.integers(-4, 4).map(lambda whole: whole / 4),
    st.floats(-10, 10, width=32),
    st.sampled_from([math.nan, math.inf, -math.inf]),
)
BATCHES = hnp.arrays(f32, st.tuples(st.integers(0, 4), st.just(NEURONS)), elements=NUMBERS)
TRAINING = hnp.arrays(f32, (3, NEURONS), elements=st.one_of(st.integers(-3, 3).map(float), st.floats(-5, 5, width=32)))


def same(regions: torch.Tensor, expected: np.ndarray) -> None:
    assert not regions.is_floating_point()
    np.testing.assert_array_equal(regions.numpy(), expected)


@settings(max_examples=60, deadline=None)
@given(BATCHES, st.sampled_from([0.0, 0.2, 0.5, 0.75]))
def test_nc_is_the_plain_loop(values, threshold):
    same(NC(threshold).regions(torch.from_numpy(values), LAYERS), plain_nc(values, threshold))


@settings(max_examples=60, deadline=None)
@given(BATCHES, TRAINING, st.sampled_from([1, 2, 7, 1000]))
def test_kmnc_is_the_plain_loop(values, training, k):
    profile = profile_over(training)
    same(KMNC(k).regions(torch.from_numpy(values), LAYERS, profile), plain_kmnc(values, training.min(0), training.max(0), k))


@settings(max_examples=40, deadline=None)
@given(BATCHES, TRAINING, st.sampled_from([0.0, 0.5, 1.0]))
def test_nbc_and_snac_are_the_plain_loop(values, training, margin):
    profile = profile_over(training)
    spread = (profile.std * margin).float().numpy()
    expected = plain_nbc(values, training.min(0) - spread, training.max(0) + spread)
    same(NBC(margin).regions(torch.from_numpy(values), LAYERS, profile), expected)
    same(SNAC(margin).regions(torch.from_numpy(values), LAYERS, profile), np.where(expected == 1, 0, -1))


@settings(max_examples=60, deadline=None)
@given(BATCHES, st.integers(1, 6))
def test_tknc_is_the_plain_loop(values, k):
    same(TKNC(k).regions(torch.from_numpy(values), LAYERS), plain_tknc(values, k))


@pytest.mark.parametrize("name", CRITERIA.names())
@settings(max_examples=15, deadline=None)
@given(values=BATCHES, training=TRAINING)
def test_every_criterion_is_pure_and_stays_in_its_sections(name, values, training):
    criterion = CRITERIA.get(name)()
    profile = profile_over(training)
    given_values = torch.from_numpy(values.copy())
    regions = criterion.regions(given_values, LAYERS, profile)
    assert regions.shape == given_values.shape
    assert bool(((regions >= -1) & (regions < criterion.sections)).all())
    assert bool((regions[~given_values.isfinite()] == -1).all())
    np.testing.assert_array_equal(given_values.numpy(), values)
    assert criterion.name == name
    assert 0 <= criterion.reachable(NEURONS, profile) <= NEURONS * criterion.sections


def test_nc_is_strict_and_scaled_by_layer():
    values = torch.tensor([[0.0, 1.0, 5.0, 1.1, 0, 0, 0, 0, 0, 7.0]])
    assert NC(0.2).regions(values, LAYERS).tolist() == [[-1, -1, 0, 0, -1, -1, -1, -1, -1, -1]]


def test_a_value_that_is_not_finite_darkens_its_layer_only():
    values = torch.tensor([[0.0, 1.0, math.inf, 1.0, 0, 0, 0, 0, 3.0, 7.0]])
    assert NC().activated(values, LAYERS).int().tolist() == [[0, 0, 0, 0, 0, 0, 0, 0, 1, 0]]


def test_kmnc_ends_of_the_range():
    layers = (Layer("a", 0, 1),)
    profile = profile_over(np.array([[0.0], [1.0]], f32))
    values = torch.tensor([[0.0], [0.0999], [0.1], [0.95], [1.0], [1.0001], [-0.0001], [math.nan]])
    assert KMNC(10).regions(values, layers, profile).squeeze(1).tolist() == [0, 0, 1, 9, 9, -1, -1, -1]


def test_kmnc_counts_only_what_can_be_reached():
    training = np.array([[0.0, 2.0, math.nan, -3e38], [1.0, 2.0, math.inf, 3e38]], f32)
    profile = profile_over(training)
    layers = (Layer("a", 0, 4),)
    assert KMNC(100).reachable(4, profile) == 100 + 1 + 0 + 0
    values = torch.tensor([[0.5, 2.0, 0.0, 1.0], [0.5, 2.1, math.nan, 3e38]])
    assert KMNC(100).regions(values, layers, profile).tolist() == [[50, 0, -1, -1], [50, -1, -1, -1]]
    assert NBC().reachable(4, profile) == 6
    assert SNAC().reachable(4, profile) == 3
    assert NBC().regions(torch.tensor([[9.0, 9.0, 9.0, 3.2e38]]), layers, profile).tolist() == [[1, 1, -1, 1]]


def test_kmnc_survives_a_subnormal_range():
    tiny = f32(1e-44)
    profile = profile_over(np.array([[0.0], [tiny]], f32))
    assert KMNC(1000).regions(torch.tensor([[0.0], [float(tiny)]]), (Layer("a", 0, 1),), profile).tolist() == [[0], [999]]


def test_tknc_ties_go_to_the_lower_index():
    values = torch.tensor([[1.0, 2.0, 2.0, 2.0, 0, 0, 0, 0, 0, 1.0]])
    assert TKNC(2).regions(values, LAYERS).tolist() == [[-1, 0, 0, -1, 0, 0, -1, -1, -1, 0]]


def layered(values: np.ndarray) -> list[np.ndarray]:
    return [values[:, layer.start : layer.stop] for layer in LAYERS]


def test_parity_with_dnn_tip_away_from_the_borders():
    tip = pytest.importorskip("dnn_tip.neuron_coverage")
    rng = np.random.default_rng(3)
    training, values = rng.normal(size=(200, NEURONS)).astype(f32), (2 * rng.normal(size=(300, NEURONS))).astype(f32)
    profile = profile_over(training)
    low, high, std = training.min(0), training.max(0), profile.std.float().numpy()
    tensor = torch.from_numpy(values)

    theirs = tip.KMNC([low], [high], 50)([values])[1]
    ours = KMNC(50).regions(tensor, LAYERS, profile).numpy()
    np.testing.assert_array_equal(np.where(theirs.any(2), theirs.argmax(2), -1), ours)

    theirs = tip.NBC([low], [high], [std], 0.5)([values])[1]
    ours = NBC(0.5).regions(tensor, LAYERS, profile).numpy()
    np.testing.assert_array_equal(theirs, np.stack([ours == 0, ours == 1], axis=2))

    theirs = tip.SNAC([high], [std], 0.5)([values])[1]
    np.testing.assert_array_equal(theirs, SNAC(0.5).regions(tensor, LAYERS, profile).numpy() == 0)

    theirs = tip.TKNC(3)(layered(values))[1]
    np.testing.assert_array_equal(theirs, TKNC(3).regions(tensor, LAYERS).numpy() == 0)

    spread = np.concatenate(
        [(part - part.min(1, keepdims=True)) / np.maximum(np.ptp(part, axis=1, keepdims=True), 1e-9) for part in layered(values)], axis=1
    )
    theirs = tip.NAC(0.2)([spread])[1]
    np.testing.assert_array_equal(theirs, NC(0.2).activated(tensor, LAYERS).numpy())


def test_known_differences_from_dnn_tip():
    tip = pytest.importorskip("dnn_tip.neuron_coverage")
    layers = (Layer("a", 0, 4),)
    low, high = np.zeros(4, f32), np.array([1, 1, 1, 0], f32)
    profile = profile_over(np.stack([low, high]))
    edge = np.array([[0.0, 1.0, 0.5, 0.0]], f32)
    tensor = torch.from_numpy(edge)
    # its last section is open, so the maximum belongs to none; a constant neuron has no section
    assert tip.KMNC([low], [high], 10)([edge])[1].any(2).tolist() == [[True, False, True, False]]
    assert KMNC(10).regions(tensor, layers, profile).tolist() == [[0, 9, 5, 0]]
    # its corners include the bounds themselves
    assert tip.NBC([low], [high], [low], 0)([edge])[1].any(2).tolist() == [[True, True, False, True]]
    assert NBC().regions(tensor, layers, profile).tolist() == [[-1, -1, -1, -1]]
    assert tip.SNAC([high], [low], 0)([edge])[1].tolist() == [[False, True, False, True]]
    # its activation is not scaled by the layer
    assert tip.NAC(0.2)([edge * 0.1])[1].any() == np.False_
    assert NC(0.2).activated(tensor * 0.1, layers).tolist() == [[False, True, True, False]]


@pytest.mark.parametrize(
    "make",
    [lambda: NC(1.0), lambda: NC(-0.1), lambda: NC(math.nan), lambda: KMNC(0), lambda: NBC(-1.0), lambda: SNAC(math.inf), lambda: TKNC(0)],
)
def test_settings_out_of_range_are_refused(make):
    with pytest.raises(BadParametersError, match="takes"):
        make()


def test_clear_words_for_what_is_missing():
    values = torch.zeros(2, NEURONS)
    with pytest.raises(BadCoverageError, match="'kmnc' needs a profile"):
        KMNC().regions(values, LAYERS, None)
    with pytest.raises(BadCoverageError, match="has seen no picture"):
        NBC().regions(values, LAYERS, Profile(NEURONS, subject_sha256="", drive_sha256=""))
    with pytest.raises(BadCoverageError, match="7 neurons and the subject 10"):
        SNAC().regions(values, LAYERS, profile_over(np.zeros((1, 7), f32)))
    with pytest.raises(BadCoverageError, match=r"shape \(N, 10\)"):
        NC().regions(values[:, :3], LAYERS)
    with pytest.raises(BadCoverageError, match="floating"):
        TKNC().regions(values.int(), LAYERS)
    with pytest.raises(BadCoverageError, match="no layers"):
        neurons_of(())
    with pytest.raises(BadCoverageError, match="layer 'b'"):
        neurons_of((Layer("a", 0, 2), Layer("b", 3, 4)))
    with pytest.raises(UnknownNameError, match="did you mean 'kmnc'"):
        CRITERIA.get("kmnk")
