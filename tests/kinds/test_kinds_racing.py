"""Bounds on what a try can still reach: the sound one is never passed, the likely one hardly ever."""

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skidpad.core.errors import BadParametersError
from skidpad.kinds.pictures.styles.fitness import Apart, Sighting, likely_bound, sound_bound


def seen(regions: np.ndarray, divergence: np.ndarray, count: int, sections: int) -> Sighting:
    """Counts what the first scenes of a table of regions, (scenes, neurons) with -1 for none, brought."""
    entered = np.zeros((regions.shape[1], sections), np.int64)
    for row in regions[:count]:
        for neuron, region in enumerate(row):
            if region >= 0:
                entered[neuron, region] += 1
    return Sighting(count, int((entered > 0).sum()), float(divergence[:count].sum()))


@given(data=st.data(), scenes=st.integers(2, 12), neurons=st.integers(1, 4), sections=st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_no_try_passes_the_sound_bound(data: st.DataObject, scenes: int, neurons: int, sections: int) -> None:
    rows = st.lists(st.integers(-1, sections - 1), min_size=neurons, max_size=neurons)
    regions = np.array(data.draw(st.lists(rows, min_size=scenes, max_size=scenes)))
    divergence = np.array(data.draw(st.lists(st.floats(0.0, 2.0), min_size=scenes, max_size=scenes)))
    end = seen(regions, divergence, scenes, sections)
    for count in range(1, scenes + 1):
        bound = sound_bound(seen(regions, divergence, count, sections), scenes, neurons, neurons * sections, 2.0)
        assert bound.newly >= end.newly
        assert bound.divergence >= end.divergence_sum / scenes - 1e-12
    assert (bound.newly, bound.divergence) == (end.newly, pytest.approx(end.divergence_sum / scenes))


def test_without_a_largest_divergence_the_sound_bound_knows_no_mean() -> None:
    assert sound_bound(Sighting(3, 1, 0.5), 10, 2, 100).divergence == inf
    assert sound_bound(Sighting(3, 1, 0.5), 10, 2, 100).newly == 1 + 7 * 2
    assert sound_bound(Sighting(3, 1, 0.5), 10, 2, 9).newly == 9


def parted(first: np.ndarray, second: np.ndarray, count: int) -> int:
    """Counts the regions that exactly one of two tables enters in its first scenes."""
    sets = [{(neuron, region) for row in table[:count] for neuron, region in enumerate(row) if region >= 0} for table in (first, second)]
    return len(sets[0] ^ sets[1])


def test_the_likely_bound_holds_for_scenes_in_random_order() -> None:
    """Tries near to and far from the best: the bound is passed hardly more often than the risk says, and it says something."""
    rng = np.random.default_rng(0)
    scenes, neurons, sections, passed, cases, bites = 160, 12, 40, 0, 0, 0
    for round_ in range(40):
        # regions are entered unevenly, as activations are; every second try is like the best but for a tenth of its scenes
        best_table = np.minimum(rng.geometric(0.12, (scenes, neurons)), sections) - 1
        other = np.minimum(rng.geometric(0.15, (scenes, neurons)), sections) - 1
        table = np.where(rng.random((scenes, 1)) < (0.1 if round_ % 2 else 1.0), other, best_table)
        moves = [np.abs(rng.normal(shift, 0.2, scenes)) for shift in (0.3, 0.25)]
        best_end, end = seen(best_table, moves[0], scenes, sections), seen(table, moves[1], scenes, sections)
        for count in (20, 40, 80):
            now, best = seen(table, moves[1], count, sections), seen(best_table, moves[0], count, sections)
            apart = Apart(float((moves[1][:count] - moves[0][:count]).std(ddof=1)), parted(table, best_table, count))
            bound = likely_bound(now, best, best_end, apart, 0.01)
            passed += end.newly > bound.newly or end.divergence_sum / scenes > bound.divergence
            bites += bound.newly < neurons * sections and bound.divergence < 0.5
            cases += 1
    assert passed / cases < 0.05
    assert bites > cases / 2


def test_the_likely_bound_ends_in_what_was_seen() -> None:
    end = Sighting(10, 5, 3.0)
    bound = likely_bound(Sighting(10, 4, 2.0), end, end, Apart(0.3, 3), 0.01)
    assert (bound.newly, bound.divergence) == (4, 0.2)


def test_a_clear_loser_is_below_and_a_clear_winner_above_the_best() -> None:
    best, best_end = Sighting(50, 100, 20.0), Sighting(400, 110, 160.0)
    loser = likely_bound(Sighting(50, 40, 5.0), best, best_end, Apart(0.1, 70), 0.001)
    winner = likely_bound(Sighting(50, 160, 30.0), best, best_end, Apart(0.1, 80), 0.001)
    assert loser.newly < best_end.newly < winner.newly
    assert loser.divergence < best_end.divergence_sum / 400 < winner.divergence


@pytest.mark.parametrize("risk", [0.0, 0.5, -1.0])
def test_risks_outside_are_refused(risk: float) -> None:
    with pytest.raises(BadParametersError, match="the risk of dropping a winner"):
        likely_bound(Sighting(1, 0, 0.0), Sighting(1, 0, 0.0), Sighting(2, 0, 0.0), Apart(1.0, 0), risk)
