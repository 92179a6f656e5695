"""The laws of coverage: monotone, free of order and batch size, mergeable, and stored without loss."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.coverage.criteria import CRITERIA, KMNC, NBC, NC, TKNC, BadCoverageError
from skidpad.coverage.profile import Profile
from skidpad.coverage.tracker import CoverageState, CoverageTracker
from skidpad.subjects.base import Layer

LAYERS = (Layer("a", 0, 5), Layer("b", 5, 12))
NEURONS = 12
SMALL = {"kmnc": {"sections": 9}}


def criterion(name):
    return CRITERIA.get(name)(**SMALL.get(name, {}))


def profile(seed: int = 0) -> Profile:
    made = Profile(NEURONS, subject_sha256="s", drive_sha256="d")
    made.update(torch.from_numpy(np.random.default_rng(seed).uniform(-1, 1, (6, NEURONS)).astype(np.float32)))
    return made


PROFILE = profile()
ELEMENTS = st.one_of(st.integers(-6, 6).map(lambda whole: whole / 4), st.sampled_from([math.nan, math.inf]))
BATCHES = hnp.arrays(np.float32, st.tuples(st.integers(0, 6), st.just(NEURONS)), elements=ELEMENTS)
NAMES = pytest.mark.parametrize("name", CRITERIA.names())


def filled(name: str, values: np.ndarray) -> CoverageState:
    made = criterion(name)
    state = CoverageState(made, NEURONS, PROFILE)
    state.update(made.regions(torch.from_numpy(values), LAYERS, PROFILE))
    return state


def bits(state: CoverageState) -> np.ndarray:
    return state.bits.numpy().copy()


@NAMES
@settings(max_examples=12, deadline=None)
@given(values=BATCHES, more=BATCHES)
def test_coverage_only_grows_and_newly_foretells_by_how_much(name, values, more):
    state = filled(name, values)
    before, count = bits(state), state.covered
    regions = state.criterion.regions(torch.from_numpy(more), LAYERS, PROFILE)
    gain, each = state.newly(regions), state.newly_each(regions)
    np.testing.assert_array_equal(bits(state), before)
    for row, alone in enumerate(each.tolist()):
        assert alone == state.newly(regions[row : row + 1])
    state.update(regions)
    assert (bits(state) >= before).all()
    assert state.covered == count + gain
    assert state.newly(regions) == 0
    assert int(state.newly_each(regions).sum()) == 0
    assert max(each.tolist(), default=0) <= gain <= int(each.sum())


@NAMES
@settings(max_examples=12, deadline=None)
@given(values=BATCHES, order=st.randoms(use_true_random=False), size=st.integers(1, 4))
def test_order_and_batch_size_do_not_matter(name, values, order, size):
    rows = list(range(len(values)))
    order.shuffle(rows)
    state = CoverageState(criterion(name), NEURONS, PROFILE)
    for start in range(0, len(rows), size):
        batch = torch.from_numpy(values[rows[start : start + size]])
        state.update(state.criterion.regions(batch, LAYERS, PROFILE))
    np.testing.assert_array_equal(bits(state), bits(filled(name, values)))


@NAMES
@settings(max_examples=12, deadline=None)
@given(one=BATCHES, two=BATCHES, three=BATCHES)
def test_merge_is_associative_commutative_and_idempotent(name, one, two, three):
    def merged(*states):
        result = states[0].fresh()
        for state in states:
            result.merge(state)
        return result

    a, b, c = (filled(name, values) for values in (one, two, three))
    left = merged(merged(a, b), c)
    np.testing.assert_array_equal(bits(left), bits(merged(a, merged(b, c))))
    np.testing.assert_array_equal(bits(left), bits(merged(c, b, a)))
    np.testing.assert_array_equal(bits(merged(a, a)), bits(a))
    np.testing.assert_array_equal(bits(left), bits(filled(name, np.concatenate([one, two, three]))))


@NAMES
@settings(max_examples=12, deadline=None)
@given(values=BATCHES)
def test_pack_round_trips_and_is_canonical(name, values):
    state = filled(name, values)
    again = state.fresh()
    again.unpack(state.pack())
    np.testing.assert_array_equal(bits(again), bits(state))
    assert again.pack() == state.pack()
    assert again.covered == state.covered
    again.update(state.criterion.regions(torch.from_numpy(values), LAYERS, PROFILE))
    assert again.covered == state.covered


@settings(max_examples=40, deadline=None)
@given(place=st.integers(0, 10_000), flip=st.integers(1, 255))
def test_any_flipped_byte_is_noticed(place, flip):
    state = filled("kmnc", np.linspace(-1, 1, 4 * NEURONS, dtype=np.float32).reshape(4, NEURONS))
    data = bytearray(state.pack())
    data[place % len(data)] ^= flip
    with pytest.raises(BadCoverageError, match="damaged"):
        state.fresh().unpack(bytes(data))


def test_foreign_coverage_is_refused():
    state = filled("kmnc", np.zeros((1, NEURONS), np.float32))
    other_settings = CoverageState(KMNC(8), NEURONS, PROFILE)
    other_profile = CoverageState(KMNC(9), NEURONS, profile(1))
    for other in (other_settings, other_profile, CoverageState(NC(), NEURONS)):
        with pytest.raises(BadCoverageError, match="cannot merge"):
            state.merge(other)
        with pytest.raises(BadCoverageError, match="this campaign counts"):
            other.unpack(state.pack())
    with pytest.raises(BadCoverageError, match="damaged"):
        state.unpack(b"")
    with pytest.raises(BadCoverageError, match=r"shape \(N, 12\)"):
        state.update(torch.zeros(3, 4, dtype=torch.int64))
    # NC does not look at a profile, so another one is no reason to refuse
    CoverageState(NC(), NEURONS, PROFILE).merge(CoverageState(NC(), NEURONS, profile(1)))


def test_ratio_divides_as_the_papers_do_and_by_what_can_be_reached_beside():
    known = Profile(2, subject_sha256="s", drive_sha256="d")
    known.update(torch.tensor([[0.0, 5.0], [1.0, 5.0]]))
    state = CoverageState(KMNC(4), 2, known)
    assert (state.reachable, state.ratio) == (5, 0.0)
    state.update(KMNC(4).regions(torch.tensor([[0.3, 5.0], [1.0, 5.0]]), (Layer("a", 0, 2),), known))
    assert (state.covered, state.ratio, state.coverage().ratio_of_reachable) == (3, 3 / 8, 3 / 5)
    dark = Profile(2, subject_sha256="s", drive_sha256="d")
    dark.update(torch.full((1, 2), math.nan))
    assert CoverageState(KMNC(4), 2, dark).ratio == 0.0
    assert math.isnan(CoverageState(KMNC(4), 2, dark).coverage().ratio_of_reachable)


@pytest.mark.parametrize(("name", "sections"), [("kmnc", 7), ("nbc", 2), ("snac", 1)])
def test_shares_equal_the_papers_formulas_counted_by_hand(name, sections):
    training = np.array([[0.0, 5.0, math.nan], [2.0, 5.0, math.nan], [1.0, 5.0, math.nan]], np.float32)
    seen = np.array([[-0.5, 5.0, 1.0], [0.1, 5.0, 2.0], [1.9, 6.0, 3.0], [2.0, 5.0, 0.0]], np.float32)
    known = Profile(3, subject_sha256="s", drive_sha256="d")
    known.update(torch.from_numpy(training))
    made = KMNC(sections) if name == "kmnc" else CRITERIA.get(name)()
    state = CoverageState(made, 3, known)
    state.update(made.regions(torch.from_numpy(seen), (Layer("a", 0, 3),), known))
    covered = set()
    for neuron in range(3):
        low, high = np.min(training[:, neuron]), np.max(training[:, neuron])
        for value in seen[:, neuron]:
            if name == "kmnc" and low <= value <= high:
                width = (high - low) / sections
                covered.add((neuron, min(int((value - low) / width), sections - 1) if width else 0))
            elif name != "kmnc" and value > high:
                covered.add((neuron, "above"))
            elif name == "nbc" and value < low:
                covered.add((neuron, "below"))
    reachable = {"kmnc": sections + 1, "nbc": 4, "snac": 2}[name]  # one constant neuron, and one that was never finite
    assert state.ratio == len(covered) / (sections * 3)
    assert state.coverage().ratio_of_reachable == len(covered) / reachable


def tracker() -> CoverageTracker:
    return CoverageTracker([criterion(name) for name in CRITERIA.names()], LAYERS, PROFILE)


@settings(max_examples=25, deadline=None)
@given(values=BATCHES, more=BATCHES)
def test_tracker_is_its_states_together(values, more):
    whole, shard = tracker(), tracker().fresh()
    activity = whole.update(torch.from_numpy(values), packed=True)
    activated = NC().activated(torch.from_numpy(values), LAYERS).numpy()
    np.testing.assert_array_equal(activity.active_neurons, activated.sum(1))
    assert activity.active_neurons.dtype == np.int32
    assert activity.packed is not None
    np.testing.assert_array_equal(np.unpackbits(activity.packed, axis=1, count=NEURONS).astype(bool), activated)
    assert shard.update(torch.from_numpy(more)).packed is None
    whole.merge(shard)
    together = np.concatenate([values, more])
    assert whole.pictures == len(together)
    assert whole.broken_pictures == int((~np.isfinite(together)).any(1).sum())
    for state in whole.states:
        np.testing.assert_array_equal(bits(state), bits(filled(state.criterion.name, together)))
    again = tracker()
    again.unpack(whole.pack())
    assert (again.pictures, again.broken_pictures, again.coverage()) == (whole.pictures, whole.broken_pictures, whole.coverage())
    assert again.pack() == whole.pack()


def test_tracker_always_counts_nc_and_finds_states_by_name():
    only = CoverageTracker([TKNC(1)], LAYERS)
    assert [state.criterion for state in only.states] == [NC(), TKNC(1)]
    values = torch.rand(3, NEURONS, generator=torch.Generator().manual_seed(1))
    assert only.state("tknc").newly(only.regions("tknc", values)) > 0
    assert CoverageTracker([NC(0.5)], LAYERS).state("nc").criterion == NC(0.5)
    with pytest.raises(UnknownNameError, match="tracked criterion"):
        only.state("kmnc")
    with pytest.raises(BadCoverageError, match="once"):
        CoverageTracker([TKNC(1), TKNC(2)], LAYERS)
    with pytest.raises(BadCoverageError, match="needs a profile"):
        CoverageTracker([NBC()], LAYERS)


def test_tracker_refuses_damaged_and_foreign_coverage_and_stays_as_it_was():
    values = torch.rand(5, NEURONS, generator=torch.Generator().manual_seed(2))
    stored, kept = tracker(), CoverageTracker([NC(0.5), TKNC()], LAYERS)
    stored.update(values)
    kept.update(values)
    before = kept.pack()
    with pytest.raises(BadCoverageError, match="5 criteria"):
        kept.unpack(stored.pack())
    with pytest.raises(BadCoverageError, match="this campaign counts"):
        kept.unpack(CoverageTracker([NC(0.5), TKNC(1)], LAYERS).pack())
    for cut in (0, 3, 20, len(before) - 1):
        with pytest.raises(BadCoverageError, match="damaged"):
            kept.unpack(before[:cut])
    with pytest.raises(BadCoverageError, match="different criteria"):
        kept.merge(CoverageTracker([NC(0.5)], LAYERS))
    assert kept.pack() == before


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_the_gpu_covers_the_same_bits():
    values = torch.randn(64, NEURONS, generator=torch.Generator().manual_seed(3))
    values[3, 2] = math.nan
    here, there = tracker(), CoverageTracker([criterion(name) for name in CRITERIA.names()], LAYERS, PROFILE, "cuda")
    np.testing.assert_array_equal(here.update(values).active_neurons, there.update(values.cuda()).active_neurons)
    assert here.pack() == there.pack()


def test_a_setting_that_is_out_of_range_never_reaches_a_tracker():
    with pytest.raises(BadParametersError):
        CoverageTracker([CRITERIA.get("kmnc")(sections=-1)], LAYERS, PROFILE)


def test_of_a_black_box_only_the_pictures_are_counted():
    nothing = CoverageTracker([], ())
    activity = nothing.update(torch.zeros((3, 0)), packed=True)
    assert activity.active_neurons.tolist() == [0, 0, 0]
    assert activity.packed.shape == (3, 0)
    other = nothing.fresh()
    other.unpack(nothing.pack())
    other.merge(nothing)
    assert (other.pictures, other.coverage(), other.states) == (6, (), ())
    with pytest.raises(BadCoverageError, match=r"black box without layers, so kmnc cannot be counted"):
        CoverageTracker([KMNC()], ())
    with pytest.raises(BadCoverageError, match=r"shape \(N, 0\)"):
        nothing.update(torch.zeros((3, 2)))
