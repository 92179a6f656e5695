"""Sampling: seeded, obeying every constraint, and honest about what is to blame where it cannot."""

from dataclasses import replace

import numpy as np
import pytest

from skidpad.core.errors import BadParametersError
from skidpad.core.stimuli import Choice, Real
from skidpad.worlds.scenario.constraints import CONSTRAINTS, violations
from skidpad.worlds.scenario.domain import DECIMALS, DOMAINS, Rejections, UnsatisfiableError, sample
from skidpad.worlds.scenario.scenario import RoadKind

TIGHT = replace(
    DOMAINS.get("extended").with_parameters(
        Choice("road.kind", ("curved",)), Real("road.radius_m", 40.0, 42.0, None), Real("ego.speed_m_s", 20.0, 25.0, None)
    ),
    name="tight",
)


@pytest.mark.parametrize("name", DOMAINS.names())
def test_samples_obey_every_constraint_and_every_range(name: str) -> None:
    domain = DOMAINS.get(name)
    for scenario in sample(domain, 11, 60).scenarios:
        assert violations(scenario) == ()
        assert domain.problems(scenario) == ()


def test_a_sample_depends_on_its_seed_and_number_alone() -> None:
    domain = DOMAINS.get("extended")
    six = sample(domain, 4, 6).scenarios
    assert sample(domain, 4, 6).scenarios == six
    assert sample(domain, 4, 2, first=3).scenarios == six[3:5]
    assert sample(domain, 5, 6).scenarios != six
    assert len({scenario.seed for scenario in six}) == 6


def test_sampled_numbers_are_short_unless_a_bound_forbids_it() -> None:
    domain = DOMAINS.get("extended")
    for scenario in sample(domain, 1, 40).scenarios:
        assert all(value == round(value, DECIMALS) for value in domain.to_values(scenario).values() if isinstance(value, float))
    narrow = domain.with_parameters(Real("ego.speed_m_s", 12.34561, 12.34569, None))
    for scenario in sample(narrow, 1, 5).scenarios:
        assert 12.34561 <= scenario.ego.speed_m_s <= 12.34569


def test_the_constraint_to_blame_is_named_with_the_way_out() -> None:
    with pytest.raises(UnsatisfiableError) as caught:
        sample(TIGHT, 0, 1, max_tries=200)
    text = str(caught.value)
    assert text.startswith("no scenario of the domain 'tight' in 200 tries; speed-for-curvature broke 200 of them")
    assert "widen road.radius_m or lower ego.speed_m_s" in text
    assert caught.value.rejections.tries == 200
    assert dict(caught.value.rejections.broken)["speed-for-curvature"] == 200
    counts = [count for _, count in caught.value.rejections.broken]
    assert counts == sorted(counts, reverse=True)


def test_a_contradiction_that_no_range_shows_is_found_too() -> None:
    """A planted constraint without a rule to narrow by: only trying can tell."""
    never = replace(CONSTRAINTS.get("duration"), name="never", sentence="Nothing will do.", remedy="give up", holds=lambda _: False)
    domain = replace(DOMAINS.get("restricted"), constraints=(never,))
    with pytest.raises(UnsatisfiableError, match=r"never broke 50 of them \(Nothing will do\): give up"):
        sample(domain, 0, 1, max_tries=50)


def test_rejections_are_counted_over_all_scenarios() -> None:
    rare = replace(
        CONSTRAINTS.get("duration"), name="many", sentence="At least three vehicles.", remedy="-", holds=lambda s: len(s.vehicles) >= 3
    )
    domain = replace(DOMAINS.get("extended"), constraints=(*DOMAINS.get("extended").constraints, rare))
    drawn = sample(domain, 0, 30)
    assert all(len(scenario.vehicles) >= 3 for scenario in drawn.scenarios)
    broken = dict(drawn.rejections.broken)
    assert max(broken.values()) <= drawn.rejections.tries <= sum(broken.values())
    # Three of seven counts will not do, so that about three tries are lost for four that are kept.
    assert 8 <= broken["many"] <= 50
    assert "many broke" in str(drawn.rejections)
    assert str(Rejections(0)) == "none"


def test_bad_counts_are_refused() -> None:
    domain = DOMAINS.get("restricted")
    assert sample(domain, 0, 0).scenarios == ()
    for wrong in ({"count": -1}, {"count": 1, "first": -1}, {"count": 1, "max_tries": 0}):
        with pytest.raises(BadParametersError):
            sample(domain, 0, **wrong)


@pytest.mark.parametrize(("seconds", "share"), [(5.0, 0.95), (20.0, 0.9)])
def test_a_point_of_a_short_domain_obeys_the_constraints_too(seconds, share) -> None:
    extended = DOMAINS.get("extended")
    domain = replace(extended, base=replace(extended.base, duration_s=seconds))
    rng = np.random.default_rng(1)
    drawn = [domain.decode(rng.random(len(domain.variables))) for _ in range(120)]
    assert np.mean([not domain.violations(scenario) for scenario in drawn]) >= share
    kinds = {scenario.road.kind for scenario in drawn}
    # In five seconds nobody passes an entry or exit lane, so that there is no such road; in twenty there is.
    assert (RoadKind.ENTRY in kinds) == (RoadKind.EXIT in kinds) == (seconds > 10.0)
