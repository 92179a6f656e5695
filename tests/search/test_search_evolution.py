"""Searches over styles: the one-fifth rule, patience and budget, running ahead, and that the guided ones beat chance."""

import sys
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skidpad.core.errors import BadParametersError, MissingExtraError
from skidpad.core.seeding import child_rng
from skidpad.search.evolution import PATIENCE, STYLE_LIMIT, OnePlusOneES, Styles
from skidpad.search.protocol import SEARCHES, Fitness, SearchTask, searchers, taken

NAMES = tuple(searchers(Styles))


def task_of(
    dimensions: int, seed: int, patience: int = PATIENCE, budget: int | None = None, limit: float = STYLE_LIMIT
) -> SearchTask[Styles]:
    return SearchTask(Styles(dimensions, limit), seed, budget, patience)


def peak(style: np.ndarray) -> float:
    """A hill whose top lies off the middle."""
    return float(-np.square(style - np.array([1.5, -1.0, 0.5])[: len(style)]).sum())


def climbed(name: str, width: int = 1, **changes: object) -> tuple[object, list[tuple[float, ...]]]:
    search = SEARCHES.get(name)(task_of(**{"dimensions": 3, "seed": 1, "patience": 20, **changes}))  # type: ignore[arg-type]
    tried: list[tuple[float, ...]] = []
    while not search.done:
        styles = search.ask(width)
        assert 1 <= len(styles) <= width
        accepted = search.tell([Fitness(peak(style), measures=(0.5, 0.5)) for style in styles])
        tried += [tuple(style.tolist()) for style in styles[: taken(len(styles), accepted)]]
    return search, tried


def plain_one_plus_one(task: SearchTask[Styles]) -> list[tuple[float, ...]]:
    """The strategy as the paper tells it, with the step rule written out."""
    best = child_rng(task.seed, "es", 0).standard_normal(task.space.dimensions).clip(-task.space.limit, task.space.limit)
    tried, step, failures = [tuple(best.tolist())], 0.5, 0
    while failures < task.patience:
        draw = child_rng(task.seed, "es", len(tried)).standard_normal(task.space.dimensions)
        style = (best + step * draw).clip(-task.space.limit, task.space.limit)
        tried.append(tuple(style.tolist()))
        if peak(style) > peak(best):
            best, step, failures = style, min(step * 1.5, 2.0), 0
        else:
            step, failures = max(step / 1.5**0.25, 0.1), failures + 1
    return tried


@pytest.mark.parametrize("width", [1, 3, 8])
def test_the_evolution_strategy_tries_what_the_plain_one_tries_however_far_it_runs_ahead(width: int) -> None:
    search, tried = climbed("es", width)
    np.testing.assert_allclose(tried, plain_one_plus_one(search.task))  # type: ignore[attr-defined]
    assert search.best_fitness > -0.1  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", NAMES)
def test_every_search_is_the_same_twice_and_ends(name: str) -> None:
    (first, tried), (second, again) = climbed(name, 4), climbed(name, 4)
    assert tried == again
    assert first.done  # type: ignore[attr-defined]
    assert first.ask(1) == []  # type: ignore[attr-defined]
    assert first.best_fitness == max(peak(np.array(style)) for style in tried)  # type: ignore[attr-defined]
    assert second.best is not None  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "random-styles"])
def test_budget_and_patience_end_a_search(name: str) -> None:
    assert len(climbed(name, 4, budget=13)[1]) == 13
    search, tried = climbed(name, 1, patience=5)
    values = [peak(np.array(style)) for style in tried]
    since = len(values) - 1 - int(np.argmax(values))
    assert since == 5  # five tries after the best one, and no more
    assert search.failures == 5  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=5, deadline=None)
def test_no_number_goes_beyond_the_limit(name: str, seed: int) -> None:
    search = SEARCHES.get(name)(task_of(4, seed, patience=10, limit=0.7, budget=15))
    while not search.done:
        styles = search.ask(5)
        assert all(np.abs(style).max() <= 0.7 for style in styles)
        search.tell([Fitness(float(style.sum()), measures=(0.1, 0.9)) for style in styles])


def test_guided_searches_climb_higher_than_chance_with_the_same_budget() -> None:
    def heights(name: str) -> list[float]:
        return [climbed(name, 4, seed=seed, budget=80, patience=80)[0].best_fitness for seed in range(5)]  # type: ignore[attr-defined]

    chance = np.median(heights("random-search"))
    assert np.median(heights("es")) > chance
    assert np.median(heights("cma-es")) > chance


def test_random_search_draws_as_munit_does_and_random_styles_draws_once() -> None:
    _, tried = climbed("random-search", 6, patience=400, budget=400)
    assert np.std(tried) == pytest.approx(1.0, abs=0.05)
    _, once = climbed("random-styles", 6)
    assert len(once) == 1


def test_a_dropped_try_is_a_failure_and_a_void_one_leaves_no_trace() -> None:
    search = OnePlusOneES(task_of(2, 3, patience=50))
    search.ask(1)
    search.tell([Fitness(0.5)])
    first = search.ask(3)
    assert search.tell([Fitness(-inf), Fitness(0.9), Fitness(2.0)]) == (1,)
    assert search.tries == 3  # the third was void
    assert search.best_fitness == 0.9
    assert search.step == pytest.approx(0.5 * 1.5**-0.25 * 1.5)
    alone = OnePlusOneES(task_of(2, 3, patience=50))
    alone.ask(1)
    alone.tell([Fitness(0.5)])
    for value, style in zip((0.1, 0.9), first, strict=False):
        np.testing.assert_array_equal(alone.ask(1)[0], style)
        alone.tell([Fitness(value)])
    np.testing.assert_array_equal(alone.ask(1)[0], search.ask(1)[0])


def test_equal_fitness_is_no_improvement() -> None:
    search = OnePlusOneES(task_of(2, 3, patience=2))
    for _ in range(3):
        search.ask(1)
        search.tell([Fitness(0.5)])
    assert search.done


def test_a_map_of_elites_fills_its_cells() -> None:
    search = SEARCHES.get("map-elites")(task_of(3, 0, patience=100, budget=60))
    while not search.done:
        styles = search.ask(7)
        search.tell([Fitness(peak(style), measures=tuple((np.tanh(style[:2]) / 2 + 0.5).tolist())) for style in styles])
    assert search.filled > 8  # type: ignore[attr-defined]


@pytest.mark.parametrize(("package", "name"), [("cmaes", "cma-es"), ("ribs.archives", "map-elites")])
def test_a_missing_library_names_its_extra(package: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"skidpad\[search\]"):
        SEARCHES.get(name)(task_of(3, 0))


@pytest.mark.parametrize("changes", [{"dimensions": 0}, {"patience": 0}, {"budget": -1}, {"limit": -1.0}, {"limit": float("nan")}])
def test_bad_tasks_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(BadParametersError, match=r"a style has|of a search must be 1 or more"):
        task_of(**{"dimensions": 2, "seed": 0, **changes})  # type: ignore[arg-type]


def test_feedback_must_match() -> None:
    for name in NAMES:
        search = SEARCHES.get(name)(task_of(3, 0))
        search.ask(1)
        with pytest.raises(ValueError, match="one feedback for each"):
            search.tell([])
