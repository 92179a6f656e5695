"""Algorithm 1: equal to the printed loop for every width of speculation."""

from collections import deque
from hashlib import blake2b

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_toys import STIMULI, Toy

from skidpad.core.errors import BadParametersError
from skidpad.core.seeding import child_rng
from skidpad.core.stimuli import Recipe, Step
from skidpad.search.pairs import DEFAULT_MAX_FAILED_TRIES, DEFAULT_MAX_TRIES, Greedy, pairs_task, stack_order
from skidpad.search.protocol import taken


def activated(frame_id, recipe, neurons):
    """The neurons a toy subject activates: a few, chosen by a hash of the picture."""
    digest = blake2b(f"{frame_id}{recipe.to_json()}".encode(), digest_size=8).digest()
    return {byte % neurons for byte in digest[:3]}


def printed(seed, frame_ids, stimuli, max_failed_tries, neurons):
    """Algorithm 1 as printed, one image and one try at a time; line numbers are the paper's."""
    covered, kept, tries_of = set(), [], {}
    names = sorted(stimuli)
    stack = list(frame_ids)  # 2
    while stack:  # 4
        img = stack.pop()  # 5
        t_queue = deque()  # 6
        failed, tries = 0, 0  # 7
        while failed <= max_failed_tries:  # 8
            rng = child_rng(seed, "guided", img, tries)
            t1 = t_queue.popleft() if t_queue else names[int(rng.integers(len(names)))]  # 9-13
            p1 = stimuli[t1].space.grid[int(rng.integers(len(stimuli[t1].space.grid)))]  # 14
            t2 = names[int(rng.integers(len(names)))]  # 15
            p2 = stimuli[t2].space.grid[int(rng.integers(len(stimuli[t2].space.grid)))]  # 16
            new_image = Recipe((Step(t1, p1), Step(t2, p2)))  # 17
            tries += 1
            if activated(img, new_image, neurons) - covered:  # 18
                t_queue.extend([t1, t2])  # 19-20
                covered |= activated(img, new_image, neurons)  # 21
                kept.append((img, new_image))  # 22
            else:
                failed += 1  # 24
        tries_of[img] = tries
    return kept, covered, tries_of


def speculated(seed, frame_ids, stimuli, max_failed_tries, neurons, widths):
    """The same by ask and tell, with widths that change from one batch to the next."""
    covered, kept, tries_of = set(), [], {}
    turn = 0
    for position in stack_order(len(frame_ids)):
        frame_id = frame_ids[position]
        search = Greedy(pairs_task(frame_id, stimuli, seed, max_failed_tries, max_tries=None))
        while not search.done:
            recipes = search.ask(widths[turn % len(widths)])
            assert 1 <= len(recipes) <= widths[turn % len(widths)]
            turn += 1
            accepted = search.tell([bool(activated(frame_id, recipe, neurons) - covered) for recipe in recipes])
            for recipe in recipes[: taken(len(recipes), accepted)]:
                covered |= activated(frame_id, recipe, neurons)
            kept += [(frame_id, recipes[place]) for place in accepted]
        tries_of[frame_id] = search.tries
        assert search.ask(8) == []
    return kept, covered, tries_of


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    images=st.integers(0, 4),
    names=st.sets(st.sampled_from(sorted(STIMULI)), min_size=1),
    max_failed_tries=st.integers(0, 6),
    neurons=st.integers(1, 200),
    widths=st.lists(st.integers(1, 40), min_size=1, max_size=5),
)
def test_speculation_equals_the_printed_loop(seed, images, names, max_failed_tries, neurons, widths):
    stimuli = {name: STIMULI[name] for name in names}
    frame_ids = [f"frame {index}" for index in range(images)]
    expected = printed(seed, frame_ids, stimuli, max_failed_tries, neurons)
    assert speculated(seed, frame_ids, stimuli, max_failed_tries, neurons, widths) == expected


def test_the_reference_has_successes_and_queued_tries():
    # Without them the property above would compare little.
    kept, covered, tries_of = printed(0, ["a", "b", "c"], STIMULI, 6, 200)
    assert len(kept) > 20
    assert len(covered) > 60
    assert sum(tries_of.values()) == len(kept) + 3 * 7
    assert [frame_id for frame_id, _ in kept] == sorted((frame_id for frame_id, _ in kept), reverse=True)


def test_the_loop_runs_once_more_than_max_failed_tries():
    search = Greedy(pairs_task("a", STIMULI, 0, max_failed_tries=3))
    assert len(search.ask(100)) == 4
    assert search.tell([False] * 4) == ()
    assert (search.done, search.tries, search.failures) == (True, 4, 4)


def test_a_success_queues_both_and_voids_what_was_drawn_after_it():
    search = Greedy(pairs_task("a", STIMULI, 5))
    before = search.ask(6)
    assert search.tell([False, True, True, False, True, False]) == (1,)
    queued = [step.stimulus for step in before[1].steps]
    assert search.queue == tuple(queued)
    assert (search.tries, search.failures) == (2, 1)
    after = search.ask(4)
    assert [recipe.steps[0].stimulus for recipe in after[:2]] == queued
    search.tell([False, False, False, False])
    assert search.queue == ()
    assert (search.tries, search.failures) == (6, 5)


def test_a_dequeued_transformation_that_succeeds_is_queued_again_at_the_end():
    search = Greedy(pairs_task("a", STIMULI, 5))
    first = search.ask(1)[0]
    search.tell([True])
    second = search.ask(1)[0]
    assert second.steps[0].stimulus == first.steps[0].stimulus
    search.tell([True])
    assert search.queue == (first.steps[1].stimulus, second.steps[0].stimulus, second.steps[1].stimulus)


def test_the_cap_ends_a_search_that_never_fails():
    search = Greedy(pairs_task("a", STIMULI, 0, max_tries=25))
    while not search.done:
        search.tell([True] * len(search.ask(7)))
    assert (search.tries, search.failures) == (25, 0)
    assert (DEFAULT_MAX_TRIES, DEFAULT_MAX_FAILED_TRIES) == (1000, 10)


def test_asking_again_changes_nothing():
    search = Greedy(pairs_task("a", STIMULI, 0))
    assert search.ask(3) == search.ask(5)[:3] == search.ask(3)
    assert search.tries == 0


@given(st.permutations(sorted(STIMULI)))
def test_the_order_in_which_transforms_are_listed_does_not_matter(names):
    expected = Greedy(pairs_task("a", STIMULI, 3)).ask(9)
    assert Greedy(pairs_task("a", {name: STIMULI[name] for name in names}, 3)).ask(9) == expected


def test_images_and_seeds_have_draws_of_their_own():
    draws = [tuple(Greedy(pairs_task(frame_id, STIMULI, seed)).ask(5)) for frame_id in ("a", "b") for seed in (0, 1)]
    assert len(set(draws)) == 4


@pytest.mark.parametrize("frame_id", ["", "日本 🚗.jpg", "a\x00b", "\udcff.jpg", "../<b>"])
def test_any_frame_id_has_draws(frame_id):
    assert len(Greedy(pairs_task(frame_id, STIMULI, 0)).ask(3)) == 3


def test_every_transform_and_row_is_drawn():
    search = Greedy(pairs_task("a", STIMULI, 0, max_failed_tries=600))
    recipes = search.ask(600)
    for place in (0, 1):
        assert {recipe.steps[place] for recipe in recipes} == {Step(name, row) for name, toy in STIMULI.items() for row in toy.space.grid}


def test_wrong_use_is_refused():
    search = Greedy(pairs_task("a", STIMULI, 0))
    with pytest.raises(ValueError, match="last ask\\(\\): 0; got 1"):
        search.tell([True])
    search.ask(3)
    with pytest.raises(ValueError, match="last ask\\(\\): 3; got 2"):
        search.tell([True, False])
    with pytest.raises(ValueError, match="width of 1 or more; got 0"):
        search.ask(0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stimuli": {}}, "at least one stimulus"),
        ({"stimuli": {"blur": Toy(0)}}, "stimulus 'blur' has an empty grid"),
        ({"max_failed_tries": -1}, "max_failed_tries must be 0 or more; got -1"),
        ({"max_tries": -2}, "budget of a search must be 1 or more; got -2"),
        ({"unguided_tries": -3}, "unguided_tries must be 0 or more; got -3"),
    ],
)
def test_tasks_that_cannot_be_are_refused(changes, message):
    with pytest.raises(BadParametersError, match=message):
        pairs_task(**{"place": "a", "stimuli": STIMULI, "seed": 0, **changes})
