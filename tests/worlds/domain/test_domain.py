"""Domains: values, vectors, ranges, and the two instances of the paper."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.core.stimuli import Choice, Params, Real
from skidpad.worlds.scenario.constraints import Known, Outside
from skidpad.worlds.scenario.domain import DOMAINS, Domain, Variable, fraction_of, read_fraction, sample
from skidpad.worlds.scenario.scenario import (
    BadScenarioError,
    Conditions,
    Ego,
    OtherVehicle,
    Pedestrian,
    RoadKind,
    RoadPlan,
    Scenario,
    Side,
    Surroundings,
    Weather,
    scenario_from,
    scenario_of,
    table_of,
    values_of,
)

NAMES = ("restricted", "extended")

finite = st.floats(-1e6, 1e6)
anything = st.builds(
    Scenario,
    st.builds(RoadPlan, st.sampled_from(RoadKind), finite, st.sampled_from(Side), st.integers(1, 4), finite, finite),
    st.builds(Conditions, st.sampled_from(Weather), finite, st.booleans(), finite, finite),
    st.builds(Surroundings, finite, finite, st.booleans(), st.integers(0, 9)),
    st.builds(Ego, finite, st.integers(-3, 9), st.booleans(), st.booleans()),
    st.lists(st.builds(OtherVehicle, st.integers(-4, 4), finite, finite, st.integers(0, 7)), max_size=3).map(tuple),
    st.lists(st.builds(Pedestrian, st.sampled_from(Side), finite, finite), max_size=3).map(tuple),
    finite,
    st.integers(-(2**63), 2**63 - 1),
)


@given(anything)
@settings(max_examples=50, deadline=None)
def test_tables_and_flat_values_hold_every_scenario(scenario: Scenario) -> None:
    assert scenario_of(table_of(scenario)) == scenario
    assert scenario_from(values_of(scenario)) == scenario


def test_registry_has_the_two_domains_of_the_paper() -> None:
    assert DOMAINS.names() == NAMES
    with pytest.raises(UnknownNameError, match="did you mean 'restricted'"):
        DOMAINS.get("restrictd")


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_vectors_and_values_give_the_same_scenario_back(name: str, seed: int) -> None:
    domain = DOMAINS.get(name)
    (scenario,) = sample(domain, seed, 1).scenarios
    values = domain.to_values(scenario)
    assert domain.to_scenario(values, scenario.seed) == scenario
    vector = domain.encode(scenario)
    assert vector.shape == (len(domain.names),)
    assert np.all((vector >= 0.0) & (vector <= 1.0))
    again = domain.to_values(domain.decode(vector, scenario.seed))
    assert set(again) == set(values)
    for key, value in values.items():
        assert again[key] == (pytest.approx(value, rel=1e-9, abs=1e-9) if isinstance(value, float) else value)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("corner", [0.0, 1.0])
def test_corners_of_the_cube_obey_every_constraint(name: str, corner: float) -> None:
    domain = DOMAINS.get(name)
    scenario = domain.decode(np.full(len(domain.names), corner))
    assert domain.violations(scenario) == ()
    # Beyond the cube the nearest bound counts.
    assert domain.decode(np.full(len(domain.names), 9.0 * corner - 4.0)) == scenario


@pytest.mark.parametrize("name", NAMES)
def test_nearly_every_point_of_the_cube_obeys_the_constraints(name: str) -> None:
    domain, rng = DOMAINS.get(name), np.random.default_rng(5)
    good = [not domain.violations(domain.decode(rng.random(len(domain.names)))) for _ in range(300)]
    assert np.mean(good) > 0.8


def test_vectors_of_the_wrong_kind_are_refused() -> None:
    domain = DOMAINS.get("restricted")
    for wrong in (np.zeros(3), np.full(len(domain.names), np.nan), np.zeros((1, len(domain.names)))):
        with pytest.raises(BadParametersError, match=f"is {len(domain.names)} finite numbers"):
            domain.decode(wrong)


def test_restricted_is_sunny_without_people_and_belongs_to_extended() -> None:
    extended = DOMAINS.get("extended")
    for scenario in sample(DOMAINS.get("restricted"), 3, 40).scenarios:
        assert scenario.conditions.weather is Weather.SUNNY
        assert not scenario.conditions.night
        assert scenario.road.lanes == 1
        assert scenario.pedestrians == ()
        assert not scenario.ego.headlights
        assert extended.problems(scenario) == ()


def test_extended_shows_every_road_weather_light_and_somebody_of_each_kind() -> None:
    found = sample(DOMAINS.get("extended"), 3, 120).scenarios
    assert {scenario.road.kind for scenario in found} == set(RoadKind)
    assert {(scenario.conditions.weather, scenario.conditions.night) for scenario in found} == {
        (w, n) for w in Weather for n in (False, True)
    }
    assert {scenario.ego.lane for scenario in found} == {1, 2, 3}
    assert {scenario.ego.fog_lights for scenario in found} == {False, True}
    assert {len(scenario.vehicles) for scenario in found} == set(range(7))
    assert {len(scenario.pedestrians) for scenario in found} == set(range(5))
    assert {vehicle.lane for scenario in found for vehicle in scenario.vehicles} == {-2, -1, 0, 1, 2, 3}


def test_variables_without_effect_have_no_value() -> None:
    domain = DOMAINS.get("extended")
    values = domain.to_values(Scenario(conditions=Conditions(intensity=0.0, night=True), ego=Ego(headlights=True)))
    for name in ("road.radius_m", "road.side", "road.turn_deg", "conditions.intensity", "conditions.sun_elevation_deg", "vehicles.1.lane"):
        assert name not in values
    fog = domain.to_values(Scenario(RoadPlan(RoadKind.CURVED), Conditions(Weather.FOG), vehicles=(OtherVehicle(0, 50.0, 9.0),)))
    for name in ("road.radius_m", "conditions.intensity", "conditions.sun_elevation_deg", "vehicles.1.lane"):
        assert name in fog


def test_values_are_checked_by_name() -> None:
    domain = DOMAINS.get("restricted")
    values = dict(domain.to_values(sample(domain, 0, 1).scenarios[0]))
    with pytest.raises(UnknownNameError, match=r"did you mean 'ego.speed_m_s'"):
        domain.to_scenario(values | {"ego.speed": 3.0})
    with pytest.raises(BadScenarioError, match=r"ego.speed_m_s is 99, outside of its range: ego.speed_m_s in \[8, 20\]"):
        domain.to_scenario(values | {"ego.speed_m_s": 99.0})
    del values["ego.speed_m_s"]
    with pytest.raises(BadScenarioError, match=r"needs a value for 'ego.speed_m_s'"):
        domain.to_scenario(values)


def test_problems_name_ranges_fixed_values_and_constraints_all_at_once() -> None:
    scenario = Scenario(conditions=Conditions(Weather.FOG), ego=Ego(speed_m_s=40.0), pedestrians=(Pedestrian(Side.LEFT, 9.0),))
    told = " | ".join(DOMAINS.get("restricted").problems(scenario))
    assert "conditions.weather is fog, and always sunny there" in told
    assert "pedestrians.count is 1, and always 0 there" in told
    assert "ego.speed_m_s is 40, outside of its range" in told
    assert "it breaks lights-on" in told
    with pytest.raises(BadScenarioError, match="not a scenario of the domain 'restricted'"):
        DOMAINS.get("restricted").check(scenario)
    with pytest.raises(BadScenarioError):
        DOMAINS.get("restricted").encode(scenario)


def test_too_many_vehicles_are_told_once() -> None:
    crowd = Scenario(vehicles=tuple(OtherVehicle(0, 20.0 * k, 10.0) for k in range(1, 10)))
    assert [told for told in DOMAINS.get("extended").problems(crowd) if "vehicles" in told] == [
        "vehicles.count is 9, outside of its range: vehicles.count in {0..6}"
    ]


def test_ranges_can_be_changed() -> None:
    domain = DOMAINS.get("extended").with_parameters(Choice("road.kind", ("curved",)), Real("road.radius_m", 50.0, 55.0, None))
    for scenario in sample(domain, 1, 20).scenarios:
        assert scenario.road.kind is RoadKind.CURVED
        assert 50.0 <= scenario.road.radius_m <= 55.0
    with pytest.raises(UnknownNameError, match=r"did you mean 'road.radius_m'"):
        domain.with_parameters(Real("road.radius", 50.0, 55.0, None))
    with pytest.raises(BadParametersError, match="names a variable twice"):
        replace(domain, variables=(*domain.variables, domain.variables[0]))


def test_a_domain_of_ones_own_starts_from_its_base() -> None:
    base = Scenario(RoadPlan(RoadKind.CURVED, 90.0), Conditions(Weather.RAIN, 0.7), ego=Ego(headlights=True))
    domain = Domain("rain", "one bend in the rain", (Variable(Real("ego.speed_m_s", 8.0, 14.0, None)),), base)
    assert domain.decode(np.array([0.5])) == replace(base, ego=replace(base.ego, speed_m_s=11.0))
    assert domain.to_values(base) == Params(**{"ego.speed_m_s": 14.0})


@given(
    st.lists(st.tuples(st.floats(0.0, 100.0), st.floats(0.0, 100.0)).map(lambda pair: (min(pair), max(pair))), max_size=4),
    st.floats(0.0, 1.0),
)
@settings(max_examples=200, deadline=None)
def test_fractions_skip_the_gaps_and_rise(gaps: list[tuple[float, float]], fraction: float) -> None:
    variable, known = Variable(Real("x", 0.0, 100.0, None)), Known({})
    rules = [lambda _: Outside(tuple(gaps))]
    value = read_fraction(variable, fraction, rules, known)
    inside = [low < value < high for low, high in gaps]
    left_m = 100.0 - sum(b - a for a, b in _merged(gaps))
    if left_m > 1e-6:
        assert not any(inside)
        assert read_fraction(variable, min(fraction + 0.01, 1.0), rules, known) >= value
        # Even on what is left: the share of the free metres below the value is the fraction.
        free_below = value - sum(max(min(b, value) - a, 0.0) for a, b in _merged(gaps))
        assert free_below == pytest.approx(fraction * left_m, abs=1e-6)
        back = fraction_of(variable, value, rules, known)
        assert back == pytest.approx(fraction, abs=1e-6)


def _merged(gaps: list[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for low, high in sorted(gaps):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def test_a_logarithmic_variable_is_even_by_its_logarithm() -> None:
    variable = Variable(Real("r", 40.0, 640.0, None), logarithmic=True)
    assert read_fraction(variable, 0.25, (), Known({})) == pytest.approx(80.0)
    assert fraction_of(variable, 160.0, (), Known({})) == pytest.approx(0.5)
    assert fraction_of(variable, 10.0, (), Known({})) is None
