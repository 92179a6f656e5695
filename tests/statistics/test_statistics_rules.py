from hashlib import blake2b

import numpy as np
import pytest

from skidpad.core.errors import BadParametersError
from skidpad.statistics.rules import Cases, Trait, learn_rules


def world(seed, count, fails, *, noise=0.03):
    """Cases of a made-up world: fog, bends, weather, sides and things that do not matter."""
    rng = np.random.default_rng(seed)
    fog, bend, junk = rng.uniform(20, 400, count), rng.uniform(40, 300, count), rng.random((6, count))
    weather, side = rng.choice(["sunny", "rain", "snow"], count), rng.choice(["left", "right"], count)
    failed = np.where(fails(fog, bend, weather, side), rng.random(count) < 0.95, rng.random(count) < noise)
    traits = (
        Trait("visibility", fog, "m"),
        Trait("radius", bend, "m", "the bend is tighter than {}", "the bend is wider than {}"),
        Trait("the weather", weather.tolist()),
        Trait("the side", side.tolist()),
        *(Trait(f"junk {number}", values) for number, values in enumerate(junk)),
    )
    return Cases(failed, traits, [str(number) for number in range(count)])


def test_the_planted_region_is_found_in_words():
    ruled = learn_rules(world(0, 800, lambda fog, bend, weather, side: (fog < 150) & (bend < 120)))
    assert len(ruled.rules) == 1
    said = str(ruled.rules[0])
    assert ruled.rules[0].kept_apart.rate > 0.7
    assert "visibility is below 1" in said
    assert "and the bend is tighter than 1" in said
    assert "junk" not in said
    assert ruled.rules[0].rest.rate < 0.08


def test_blind_on_the_left_when_it_rains():
    ruled = learn_rules(world(1, 500, lambda fog, bend, weather, side: (weather == "rain") & (side == "left")))
    assert [set(rule.where.split(" and ")) for rule in ruled.rules] == [{"the weather is rain", "the side is left"}]


def test_two_faults_make_two_rules():
    ruled = learn_rules(world(2, 1500, lambda fog, bend, weather, side: (fog < 60) | (weather == "snow")))
    assert len(ruled.rules) == 2
    assert "snow" in ruled.rules[0].where
    assert "visibility is below" in ruled.rules[1].where


def test_chance_alone_makes_no_rule():
    """Half of the cases fail for no reason: over forty worlds, at most a few rules survive the cases kept apart."""
    found = [len(learn_rules(world(seed, 300, lambda fog, bend, weather, side: fog < -1, noise=0.5)).rules) for seed in range(40)]
    assert sum(found) <= 4


def test_cases_of_one_cluster_are_on_one_side():
    """Ninety copies of each scenario: what holds for a few scenarios must not look certain."""
    few = world(3, 12, lambda fog, bend, weather, side: fog < -1, noise=0.5)
    traits = tuple(Trait(t.name, np.repeat(t.values, 90) if t.is_number else np.repeat(t.values, 90).tolist()) for t in few.traits)
    ruled = learn_rules(Cases(np.repeat(few.failed, 90), traits, np.repeat(few.clusters, 90).tolist()))
    assert not ruled.rules


def test_nothing_fails_nothing_is_said_and_nonsense_is_refused():
    cases = world(4, 50, lambda fog, bend, weather, side: fog < -1, noise=0.0)
    assert not learn_rules(cases).rules
    with pytest.raises(BadParametersError, match="every case has a verdict"):
        Cases(cases.failed[:-1], cases.traits, cases.clusters)


def test_a_rule_needs_more_than_one_failure_kept_apart():
    """One of a few tight bends fails on each side of the split, and nothing else of hundreds: significant, and believed by nobody."""
    rng = np.random.default_rng(4)
    count = 320
    names = [str(number) for number in range(count)]
    first = np.array([blake2b(name.encode(), digest_size=1).digest()[0] % 2 == 0 for name in names])
    bend = rng.uniform(60, 300, count)
    tight = np.concatenate([np.flatnonzero(first)[:8], np.flatnonzero(~first)[:8]])
    bend[tight] = 45.0
    failed = np.zeros(count, np.bool_)
    failed[np.flatnonzero(first)[:4]] = True
    failed[np.flatnonzero(~first)[0]] = True
    ruled = learn_rules(Cases(failed, (Trait("the bend", bend, "m"),), names))
    assert (len(ruled.rules), ruled.dropped) == (0, 1)
    failed[np.flatnonzero(~first)[:4]] = True
    assert len(learn_rules(Cases(failed, (Trait("the bend", bend, "m"),), names)).rules) == 1
