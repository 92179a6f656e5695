"""Scenarios and observation specs: round trips, refusals, hashes, presets."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.highway.observation import Feature, ObservationSpec, Quantity
from skidpad.highway.scenario import FrontDriver, Scenario, SpacingMode
from skidpad.highway.scenes import PAPER, PRESETS, PRETRAINING, RELEASED, SCENES, preset, scene

numbers = st.floats(0.1, 60.0)
ranges = st.tuples(numbers, numbers).map(lambda pair: (min(pair), max(pair)))
features = st.builds(
    lambda quantity, bounds: Feature(quantity, *(bounds or (None, None))),
    st.sampled_from(Quantity),
    st.none() | st.tuples(st.floats(-100, -1), st.floats(1, 100)),
)
specs = st.builds(
    ObservationSpec,
    features=st.lists(features, min_size=1, max_size=6).map(tuple),
    vehicles=st.integers(1, 5),
    is_absolute=st.booleans(),
    is_clipped=st.booleans(),
    sees_behind=st.booleans(),
    perception_m=st.floats(1.0, 500.0),
)
scenarios = st.builds(
    Scenario,
    name=st.text(max_size=10),
    lanes=st.integers(1, 6),
    spacing_mode=st.sampled_from(SpacingMode),
    spacing=ranges,
    ego_start_ratio=st.none() | numbers,
    ego_speed_mps=ranges,
    front_speed_mps=ranges,
    overtake_end_m=st.none() | st.floats(-50, 50),
    policy_hz=st.integers(1, 3),
    simulation_hz=st.integers(3, 30),
    episode_steps=st.integers(1, 100),
    front=st.sampled_from(FrontDriver),
    observation=specs,
)


@given(scenarios)
def test_a_scenario_comes_back_from_toml_and_json(scenario: Scenario) -> None:
    assert Scenario.from_toml(scenario.to_toml()) == scenario
    assert Scenario.from_json(scenario.to_json()) == scenario


@given(specs, specs)
def test_the_hash_tells_specs_apart(first: ObservationSpec, second: ObservationSpec) -> None:
    assert (first.hash == second.hash) == (first.to_table() == second.to_table())
    assert ObservationSpec.from_table(first.to_table()).hash == first.hash


def test_the_hash_depends_on_what_is_shown_and_how() -> None:
    spec = ObservationSpec()
    changed = [
        replace(spec, vehicles=3),
        replace(spec, is_absolute=False),
        replace(spec, is_clipped=False),
        replace(spec, sees_behind=False),
        replace(spec, perception_m=100.0),
        replace(spec, features=spec.features[::-1]),
        replace(spec, features=(Feature(Quantity.X), *spec.features[1:])),
    ]
    assert len({spec.hash, *(one.hash for one in changed)}) == 1 + len(changed)


def test_the_hash_of_the_papers_observation_never_changes() -> None:
    # policies are kept with it: another value would refuse every policy that was ever saved
    assert ObservationSpec().hash == "18239771ff9d2a27"


@given(specs)
def test_bounds_are_ordered_and_hold_the_absent(spec: ObservationSpec) -> None:
    lows, highs = spec.bounds()
    assert lows.shape == highs.shape == (spec.size,)
    assert (lows < highs).all()
    assert (lows <= 0).all()
    assert (highs >= 0).all()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('name = "a"\nlane = 2', "did you mean 'lanes'"),
        ("lanes = 2", "the scenario lacks the key 'name'"),
        ('name = "a"\nlanes = 0', "at least 1; got 0"),
        ('name = "a"\nlanes = 2.5', "whole number; got 2.5"),
        ('name = "a"\nlanes = true', "whole number; got True"),
        ('name = "a"\nspacing = [2.0, 0.5]', "0 < low <= high"),
        ('name = "a"\nspacing = 2.0', "spacing must be a list of 2 numbers; got 2.0"),
        ('name = "a"\nspacing_mode = "meters"', "did you mean 'metres'"),
        ('name = "a"\nfront = "imd"', "did you mean 'idm'"),
        ('name = "a"\ntarget_speeds_mps = [20.0, 24.0, 30.0]', "evenly spaced"),
        ('name = "a"\novertake_end_m = "3 m"', "must be a number"),
        ('name = "a"\novertake_end_m = inf', "overtake_end_m must be a finite number; got inf"),
        ('name = "a"\npolicy_hz = 10', "at least policy_hz"),
        ('name = "a"\nobservation = 3', "must be a table"),
        ('name = "a"\n[observation]\nvehicle = 3', "did you mean 'vehicles'"),
        ('name = "a"\n[[observation.features]]\nquantity = "z"', "no value for observation.features.1.quantity named 'z'"),
        ('name = "a"\n[[observation.features]]\nquantity = "x"\nunit = "km"', "observation.features.1.unit must be 'm'"),
        ('name = "a"\n[[observation.features]]\nquantity = "x"\nlow = 1.0', "low < high, or neither"),
        ('name = "a"\n[observation]\nvehicles = 2.5', "whole number; got 2.5"),
        ('name = "a"\n[observation]\nsees_behind = "no"', "true or false; got 'no'"),
        ('name = "a"\n[observation]\nperception_m = "far"', "must be a number; got 'far'"),
        ('name = "a"\n[observation]\nperception_m = 0.0', "above 0; got 0.0"),
        ('name = "a"\n[observation]\nfeatures = []', "at least one feature"),
        ('name = "a"\n[observation]\nfeatures = 3', "one for each; got 3"),
        ('name = "a"\nlanes =', "not valid TOML"),
    ],
)
def test_a_bad_scenario_is_refused_with_the_way_out(text: str, told: str) -> None:
    with pytest.raises((BadParametersError, UnknownNameError), match=told):
        Scenario.from_toml(text)


def test_bad_json_is_refused() -> None:
    with pytest.raises(BadParametersError, match="not valid JSON"):
        Scenario.from_json("{")
    with pytest.raises(BadParametersError, match="table of keys"):
        Scenario.from_json("[]")


def test_presets_say_what_the_paper_and_its_program_do() -> None:
    assert PAPER.spacing_mode is SpacingMode.METRES
    assert RELEASED.spacing_mode is SpacingMode.RATIO
    assert (PAPER.overtake_end_m, RELEASED.overtake_end_m, PRETRAINING.overtake_end_m) == (0.0, 3.0, None)
    assert (PAPER.frames, RELEASED.frames, PRETRAINING.frames) == (5, 15, 5)
    assert PRETRAINING.front is FrontDriver.IDM
    for one in PRESETS.values():
        assert one.lanes == 2
        assert one.episode_steps == 30
        assert one.observation.hash == ObservationSpec().hash
        assert preset(one.name) is one
        assert Scenario.from_toml(one.to_toml()) == one
    with pytest.raises(UnknownNameError, match="did you mean 'released'"):
        preset("release")


def test_scenes_are_found_by_name() -> None:
    for name, one in SCENES.items():
        assert scene(name) is one
        assert one.scenario.name == name
    with pytest.raises(UnknownNameError, match="did you mean 'merge'"):
        scene("merg")


def test_units_are_told() -> None:
    assert [feature.unit for feature in ObservationSpec().features] == ["1", "m", "m/s", "m/s"]
    assert ObservationSpec().size == 8
    assert np.isnan(PAPER.compiled().feature_lows).tolist() == [False, True, True, True]
