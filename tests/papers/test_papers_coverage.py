"""RQ1 to RQ3 on made-up runs, against scipy and plain sets."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from replicate_toys import Case, made_up_run
from scipy import stats

from skidpad.core.errors import BadRunError
from skidpad.core.stimuli import Recipe
from skidpad.coverage.criteria import NC
from skidpad.coverage.tracker import CoverageTracker
from skidpad.papers.deeptest.coverage import associate, combine, diversify, read_activated
from skidpad.stimuli.pictures import SIMPLE, stimuli
from skidpad.subjects.base import Layer

NEURONS = 20


def test_association_is_that_of_scipy(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    answer = rng.normal(0, 0.2, 90)
    active = np.clip(np.rint(12 - 20 * answer + rng.normal(0, 4, 90)), 0, 20).astype(int)
    cases = [Case(frame, original=answer[frame], active=int(active[frame])) for frame in range(90)]
    found = associate(made_up_run(tmp_path / "run", {"originals": [cases[:40], cases[40:]]}), NEURONS)
    expected = stats.spearmanr(active, answer)
    assert found.spearman == pytest.approx(expected.statistic)
    assert found.spearman_p == pytest.approx(expected.pvalue)
    left, right = active[answer > 0], active[answer < 0]
    assert found.direction_p == pytest.approx(stats.mannwhitneyu(left, right, method="asymptotic").pvalue)
    pooled = np.sqrt(((left - left.mean()) ** 2).sum() + ((right - right.mean()) ** 2).sum()) / np.sqrt(len(active) - 2)
    assert found.cohens_d == pytest.approx((left.mean() - right.mean()) / pooled)
    assert (found.direction, found.effect) == ("left < right", "large")
    assert (found.left, found.right, found.frames, found.median_active) == (len(left), len(right), 90, np.median(active))
    spearman, direction, effect = found.rows()
    assert spearman.gap == pytest.approx(found.spearman - 0.78)
    assert (direction.gap, effect.gap) == ("same", "differs")


def test_a_network_that_always_answers_alike_has_no_association_and_no_crash(tmp_path: Path) -> None:
    found = associate(made_up_run(tmp_path / "run", {"originals": [[Case(frame, active=3) for frame in range(5)]]}), NEURONS)
    assert np.isnan(found.spearman)
    assert found.direction == "not significant"
    assert found.rows()[0].gap is None


@pytest.fixture
def sets() -> dict[tuple[str, int], list[frozenset[int]]]:
    """The activated neurons of ten pictures for each transformation and frame."""
    rng = np.random.default_rng(9)
    return {
        (name, frame): [frozenset(rng.choice(NEURONS, rng.integers(1, 7), replace=False).tolist()) for _ in range(10)]
        for name in SIMPLE
        for frame in range(5)
    }


ORIGINALS = (frozenset({1, 2, 3}), frozenset({4}), frozenset({5, 6}), frozenset(range(8)), frozenset({0, 19}))


def grid_run(path: Path, sets: dict[tuple[str, int], list[frozenset[int]]]) -> object:
    grids = {name: stimulus.space.grid for name, stimulus in stimuli(SIMPLE).items()}
    shards = [
        [
            Case(frame, Recipe.of(name, params), activated=sets[name, frame][place])
            for name in SIMPLE
            for place, params in enumerate(grids[name])
            for frame in block
        ]
        for block in ((0, 1), (2, 3, 4))
    ]
    originals = [[Case(frame, activated=ORIGINALS[frame]) for frame in range(5)]]
    return made_up_run(path, {"originals": originals, "grid": shards})


def test_diversity_is_that_of_plain_sets(tmp_path: Path, sets: dict[tuple[str, int], list[frozenset[int]]]) -> None:
    found = diversify(read_activated(grid_run(tmp_path / "run", sets)))
    union = {key: frozenset().union(*parts) for key, parts in sets.items()}
    distances = {
        (a, b): [1 - len(union[a, frame] & union[b, frame]) / len(union[a, frame] | union[b, frame]) for frame in range(5)]
        for a, b in combinations(SIMPLE, 2)
    }
    assert found.median_distance == pytest.approx(np.median([value for part in distances.values() for value in part]))
    assert {(pair.first, pair.second): pair.distance for pair in found.pairs} == pytest.approx(
        {pair: np.median(part) for pair, part in distances.items()}
    )
    for count, _ in enumerate(SIMPLE, 1):
        together = [len(frozenset().union(*(union[name, frame] for name in SIMPLE[:count]))) for frame in range(5)]
        assert found.cumulative[count - 1] == pytest.approx(np.mean(together))
    assert found.mean_original == pytest.approx(np.mean([3, 1, 2, 8, 2]))
    for change in found.changes:
        counts = np.array([len(union[change.transform, frame]) for frame in range(5)])
        before = np.array([len(neurons) for neurons in ORIGINALS])
        singles = [(len(part) - before[frame]) / before[frame] for frame in range(5) for part in sets[change.transform, frame]]
        assert change.more_neurons == np.median(counts - before)
        assert change.change == pytest.approx(np.median((counts - before) / before))
        assert change.single_change == pytest.approx(np.median(singles))
        assert 0 < change.p_value <= 1
    rows = found.rows()
    assert rows[0].gap == pytest.approx(found.median_distance - 0.67)
    assert [row.quantity.partition(":")[0] for row in rows[2:]] == list(SIMPLE)
    assert rows[2].paper == 155.0


def test_a_grid_without_activations_is_refused(tmp_path: Path) -> None:
    cases = [Case(0, Recipe.of("blur", stimuli(["blur"])["blur"].space.grid[0]))]
    run = made_up_run(tmp_path / "run", {"originals": [[Case(0)]], "grid": [cases]})
    with pytest.raises(BadRunError, match="keep_activations"):
        read_activated(run)


def test_a_run_without_a_grid_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRunError, match="no grid"):
        read_activated(made_up_run(tmp_path / "run", {"originals": [[Case(0)]]}))


def test_combination_counts_the_neurons_of_each_way_with_the_seeds(tmp_path: Path) -> None:
    blank = CoverageTracker([NC()], (Layer("only", 0, 10),))

    def covering(*neurons: int) -> bytes:
        values = torch.zeros((1, 10))
        values[0, list(neurons)] = 1.0
        tracker = blank.fresh()
        tracker.update(values)
        return tracker.pack()

    coverage = {
        "originals": covering(0, 1, 2, 3),
        "grid": covering(1, 4),
        "greedy": covering(3, 4, 5, 6),
        "random": covering(0, 5, 6),
    }
    sizes = {"originals": 2, "grid": 140, "greedy": 5, "random": 27}
    run = made_up_run(tmp_path / "run", {phase: [[Case(0)] * size] for phase, size in sizes.items()}, coverage)
    found = combine(run, blank)
    ways = (found.baseline, found.cumulative, found.guided, found.random)
    assert [way.covered for way in ways] == [4, 5, 7, 6]
    assert [way.pictures for way in ways] == [2, 140, 5, 27]
    assert [way.percent for way in ways] == pytest.approx([40, 50, 70, 60])
    by_quantity = {row.quantity: row for row in found.rows()}
    assert by_quantity["guided over baseline (%)"].ours == pytest.approx(75)
    assert by_quantity["guided over cumulative (%)"].ours == pytest.approx(40)
    assert by_quantity["neuron coverage, guided (%)"].gap == pytest.approx(70 - 100 * 1266 / 2500)
    assert by_quantity["neuron coverage, random pairs (%)"].paper is None
    assert found.sheet().rows[-1][:6] == ("ours", 10, 4, 5, 7, 6)
