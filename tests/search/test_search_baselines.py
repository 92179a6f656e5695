"""The baselines, and what every search of the registry has in common."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_toys import STIMULI

from skidpad.core.seeding import child_rng
from skidpad.core.stimuli import Recipe, shows_past
from skidpad.search.pairs import Greedy, Grid, Pairs, RandomPairs, draw_pair, pairs_task
from skidpad.search.protocol import SEARCHES, searchers, taken
from skidpad.stimuli.pictures import stimuli

GRID = [Recipe.of(name, row) for name, toy in STIMULI.items() for row in toy.space.grid]


def exhaust(search, widths, feedback=lambda recipe: False):
    """Runs a search to its end and returns the tries that count."""
    tried, turn = [], 0
    while not search.done:
        recipes = search.ask(widths[turn % len(widths)])
        turn += 1
        tried += recipes[: taken(len(recipes), search.tell([feedback(recipe) for recipe in recipes]))]
    return tried


def test_the_three_searches_are_registered():
    assert searchers(Pairs) == {"greedy": Greedy, "grid": Grid, "random": RandomPairs}


@pytest.mark.parametrize("name", ["greedy", "grid", "random"])
@given(seed=st.integers(0, 99), widths=st.lists(st.integers(1, 30), min_size=1, max_size=4))
def test_every_search_takes_the_same_tries_whatever_the_width(name, seed, widths):
    def grew(recipe):
        return child_rng(seed, recipe.to_json()).random() < 0.3

    def make():
        return SEARCHES.get(name)(pairs_task("a", STIMULI, seed, unguided_tries=17))

    tried = exhaust(make(), widths, grew)
    assert tried == exhaust(make(), [1], grew)
    assert tried
    for recipe in tried:
        for step in recipe.steps:
            STIMULI[step.stimulus].space.check(step.stimulus, step.params)


@pytest.mark.parametrize("name", ["greedy", "grid", "random"])
def test_every_search_ends_empty_and_refuses_other_feedback(name):
    search = SEARCHES.get(name)(pairs_task("a", STIMULI, 0))
    with pytest.raises(ValueError, match="width of 1 or more"):
        search.ask(0)
    search.ask(2)
    with pytest.raises(ValueError, match="one feedback for each candidate"):
        search.tell([False])
    exhaust(search, [5])
    assert search.ask(5) == []
    assert not search.tell([])


def test_the_grid_is_every_row_once_in_the_order_given():
    assert exhaust(Grid(pairs_task("a", STIMULI, 0)), [7], lambda recipe: True) == GRID
    assert len(GRID) == 22


@pytest.mark.parametrize(
    ("settings", "tries"), [({}, 11), ({"max_failed_tries": 4}, 5), ({"unguided_tries": 40}, 40), ({"unguided_tries": 0}, 0)]
)
def test_the_random_baseline_makes_the_tries_it_is_given(settings, tries):
    search = RandomPairs(pairs_task("a", STIMULI, 0, **settings))
    recipes = exhaust(search, [6], lambda recipe: True)
    assert len(recipes) == search.tries == tries
    assert all(len(recipe.steps) == 2 for recipe in recipes)


def test_the_cap_holds_for_the_random_baseline_too():
    assert len(exhaust(RandomPairs(pairs_task("a", STIMULI, 0, max_tries=9, unguided_tries=40)), [6])) == 9


def test_the_random_baseline_does_not_repeat_the_draws_of_the_guided_search():
    task = pairs_task("a", STIMULI, 0, unguided_tries=11)
    assert exhaust(RandomPairs(task), [4]) != exhaust(Greedy(task), [4])


@pytest.mark.parametrize("names", [("dropped-frames", "late-frames", "fog"), ("dropped-frames", "late-frames")])
def test_no_pair_shows_earlier_frames_twice_since_only_one_step_can(names):
    chosen = stimuli(names)
    pairs = [draw_pair(chosen, child_rng(seed, "pair")) for seed in range(60)]
    past = [sum(shows_past(chosen[step.stimulus]) for step in pair.steps) for pair in pairs]
    assert max(past) == 1
    assert all(len(pair.steps) == 2 for pair in pairs) == ("fog" in names)
    frames = np.zeros((2, 32, 48, 3), np.uint8)
    assert {pair.apply(frames, chosen).shape for pair in pairs} == {frames.shape}
