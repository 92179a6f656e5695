"""Features: every scenario has one cell of a map, and the bins say what they hold."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.core.stimuli import Choice
from skidpad.worlds.scenario.domain import DOMAINS, sample
from skidpad.worlds.scenario.features import FEATURES, FeatureMap
from skidpad.worlds.scenario.scenario import Conditions, Ego, OtherVehicle, RoadKind, RoadPlan, Scenario, Surroundings, Weather


@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_every_scenario_has_a_bin_of_every_feature(seed: int) -> None:
    (scenario,) = sample(DOMAINS.get("extended"), seed, 1).scenarios
    every = FeatureMap.of(*FEATURES.names())
    cell = every.cell(scenario)
    assert all(0 <= number < bins for number, bins in zip(cell, every.shape, strict=True))


def bin_name(feature: str, scenario: Scenario) -> str:
    return FeatureMap.of(feature).label(FeatureMap.of(feature).cell(scenario))


@pytest.mark.parametrize(
    ("radius_m", "name"),
    [
        (800.0, "200 m and more"),
        (200.0, "200 m and more"),
        (199.9, "100-200 m"),
        (100.0, "100-200 m"),
        (60.0, "60-100 m"),
        (59.9, "below 60 m"),
    ],
)
def test_curvature_is_binned_by_radius(radius_m: float, name: str) -> None:
    assert bin_name("curvature", Scenario(RoadPlan(RoadKind.CURVED, radius_m))) == name
    assert bin_name("curvature", Scenario(RoadPlan(RoadKind.STRAIGHT, radius_m))) == "straight"


@pytest.mark.parametrize(
    ("feature", "scenario", "name"),
    [
        ("weather", Scenario(conditions=Conditions(Weather.RAIN)), "rain"),
        ("light", Scenario(conditions=Conditions(night=True)), "night"),
        ("road", Scenario(RoadPlan(RoadKind.EXIT)), "exit-lane"),
        ("lanes", Scenario(RoadPlan(lanes=3)), "3"),
        ("speed", Scenario(ego=Ego(14.0)), "14-18 m/s"),
        ("speed", Scenario(ego=Ego(9.0)), "below 10 m/s"),
        ("speed", Scenario(ego=Ego(22.0)), "22 m/s and more"),
        ("lateral", Scenario(RoadPlan(RoadKind.CURVED, 100.0), ego=Ego(11.0)), "1-1.5 m/s²"),
        ("lateral", Scenario(ego=Ego(30.0)), "below 0.5 m/s²"),
        ("visibility", Scenario(conditions=Conditions(Weather.FOG, 1.0)), "below 50 m"),
        ("traffic", Scenario(), "none"),
        ("traffic", Scenario(vehicles=tuple(OtherVehicle(0, 20.0 * k, 9.0) for k in range(4))), "3-4"),
        ("traffic", Scenario(vehicles=tuple(OtherVehicle(0, 20.0 * k, 9.0) for k in range(9))), "5 and more"),
        ("trees", Scenario(surroundings=Surroundings(trees=0.6)), "0.5-0.75"),
    ],
)
def test_bins_say_what_they_hold(feature: str, scenario: Scenario, name: str) -> None:
    assert bin_name(feature, scenario) == name


def test_the_default_map_is_curvature_by_weather() -> None:
    plan = FeatureMap.of()
    assert plan.shape == (5, 4)
    assert len(plan) == len(list(plan)) == len(set(plan)) == 20
    assert plan.label((3, 1)) == "60-100 m, fog"
    domain = DOMAINS.get("extended").with_parameters(Choice("road.kind", ("straight", "curved")))
    assert {plan.cell(scenario) for scenario in sample(domain, 0, 400).scenarios} == set(plan)


def test_maps_need_known_and_different_features() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'weather'"):
        FeatureMap.of("wether")
    with pytest.raises(BadParametersError, match="different features"):
        FeatureMap.of("speed", "speed")
    with pytest.raises(BadParametersError, match="got none"):
        FeatureMap(())
