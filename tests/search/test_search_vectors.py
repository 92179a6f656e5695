"""Searches over the unit cube: budgets, determinism, and a planted peak that guidance must reach before chance does."""

import sys
from collections.abc import Callable

import numpy as np
import pytest

from skidpad.core.errors import BadParametersError, MissingExtraError
from skidpad.core.images import FloatArray
from skidpad.search.protocol import SEARCHES, Fitness, SearchTask, searchers
from skidpad.search.vectors import Cube, MapElites, OnePlusOne
from skidpad.statistics.ranks import mann_whitney

NAMES = tuple(searchers(Cube))


def task_of(dimensions: int, budget: int, seed: int, cell: Callable[[FloatArray], str] | None = None) -> SearchTask[Cube]:
    return SearchTask(Cube(dimensions, cell), seed, budget)


def peak(point: np.ndarray) -> Fitness:
    """Highest in one corner; cells are quarters of the first number."""
    return Fitness(1.0 - float(np.abs(point - 0.93).max()), str(min(int(point[0] * 4), 3)))


def searched(name: str, budget: int = 96, width: int = 8, dimensions: int = 6, seed: int = 0) -> list[tuple[np.ndarray, Fitness]]:
    search = SEARCHES.get(name)(task_of(dimensions, budget, seed))
    tried: list[tuple[np.ndarray, Fitness]] = []
    while not search.done:
        points = search.ask(width)
        assert 1 <= len(points) <= width
        found = [peak(point) for point in points]
        search.tell(found)
        tried += zip(points, found, strict=True)
    assert search.ask(width) == []
    return tried


def test_there_are_six() -> None:
    assert set(NAMES) >= {"random", "es", "map-elites", "surrogate", "cma-es", "cma-me"}


def ridge(point: np.ndarray) -> Fitness:
    """Fails where the first number is very large, in any of twenty cells of the others."""
    return Fitness(float(point[0]) / 0.97, cell_of_ridge(point))


def cell_of_ridge(point: np.ndarray) -> str:
    return f"{int(point[1] * 4.999)} {int(point[2] * 3.999)}"


def test_a_surrogate_finds_failures_in_more_cells_than_chance() -> None:
    """Ten repeats each at the same budget: 200 points, of which chance makes three in a hundred fail."""

    def cells(name: str, seed: int) -> int:
        search = SEARCHES.get(name)(task_of(12, 200, seed, cell_of_ridge))
        failed = set()
        while not search.done:
            found = [ridge(point) for point in search.ask(8)]
            search.tell(found)
            failed |= {fitness.cell for fitness in found if fitness.value >= 1.0}
        return len(failed)

    guided, chance = ([float(cells(name, seed)) for seed in range(10)] for name in ("surrogate", "random"))
    assert mann_whitney(guided, chance).p_value < 0.001
    assert np.mean(guided) > 2 * np.mean(chance)


@pytest.mark.parametrize("name", NAMES)
def test_a_budget_is_spent_to_the_last_point_and_no_further(name) -> None:
    assert len(searched(name, budget=21, width=8)) == 21


@pytest.mark.parametrize("name", NAMES)
def test_points_lie_in_the_cube_and_the_same_seed_gives_the_same(name) -> None:
    first, again, other = searched(name), searched(name), searched(name, seed=1)
    assert all(np.all((point >= 0.0) & (point <= 1.0)) for point, _ in first)
    assert all(np.array_equal(a, b) for (a, _), (b, _) in zip(first, again, strict=True))
    assert not np.array_equal(first[0][0], other[0][0])


@pytest.mark.parametrize("name", NAMES)
def test_how_many_are_asked_for_at_a_time_may_change(name) -> None:
    search = SEARCHES.get(name)(task_of(4, 30, 0))
    for width in (3, 8, 1, 8, 5, 8):
        search.tell([peak(point) for point in search.ask(width)])
    while not search.done:
        search.tell([peak(point) for point in search.ask(7)])
    assert search.ask(4) == []


@pytest.mark.parametrize(("name", "package"), [("cma-es", "cmaes"), ("cma-me", "ribs")])
def test_without_its_library_a_search_names_the_extra(name, package, monkeypatch) -> None:
    for module in (package, f"{package}.archives"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"skidpad\[search\]"):
        SEARCHES.get(name)(task_of(3, 10, 0))


@pytest.mark.parametrize("name", ["cma-es", "cma-me"])
def test_one_dimension_is_enough(name) -> None:
    tried = searched(name, budget=40, dimensions=1)
    assert max(fitness.value for _, fitness in tried) > 0.9


@pytest.mark.parametrize("name", NAMES)
def test_asking_again_without_telling_is_free(name) -> None:
    search = SEARCHES.get(name)(task_of(3, 10, 0))
    assert np.array_equal(search.ask(4), search.ask(4))
    with pytest.raises(ValueError, match="tell"):
        search.tell([Fitness(0.0)])


@pytest.mark.parametrize("name", ["es", "cma-es"])
def test_a_climber_climbs_higher_than_chance_at_the_same_budget(name) -> None:
    best = {which: np.mean([max(f.value for _, f in searched(which, 200, seed=seed)) for seed in range(5)]) for which in (name, "random")}
    assert best[name] > best["random"] + 0.05


@pytest.mark.parametrize("which", ["map-elites", "cma-me"])
def test_the_map_is_filled_better_than_by_chance_at_the_same_budget(which) -> None:
    def filled(name: str, seed: int) -> float:
        best: dict[str, float] = {}
        for _, fitness in searched(name, 300, seed=seed):
            best[fitness.cell] = max(best.get(fitness.cell, 0.0), fitness.value)
        return sum(best.values())

    guided, blind = (np.mean([filled(name, seed) for seed in range(5)]) for name in (which, "random"))
    assert guided > blind + 0.15


def test_the_map_keeps_the_fittest_of_every_cell() -> None:
    search = MapElites(task_of(4, 120, 0))
    best: dict[str, float] = {}
    while not search.done:
        found = [peak(point) for point in search.ask(8)]
        for fitness in found:
            best[fitness.cell] = max(best.get(fitness.cell, -1.0), fitness.value)
        search.tell(found)
    assert {cell: value for cell, (_, value) in search.elites.items()} == best
    assert len(best) == 4


@pytest.mark.parametrize("name", NAMES)
def test_a_point_that_could_not_be_tried_teaches_nothing(name) -> None:
    search = SEARCHES.get(name)(task_of(3, 40, 0))
    while not search.done:
        search.tell([Fitness(float("nan"), "x")] * len(search.ask(8)))
    if isinstance(search, MapElites):
        assert not search.elites
    if isinstance(search, OnePlusOne):
        assert not search._climbers


def test_nothing_to_search_is_refused() -> None:
    with pytest.raises(BadParametersError, match="budget"):
        task_of(3, 0, 0)
