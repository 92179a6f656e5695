"""MDCL: capped, normalised, exact; and who has departed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skidpad.core.errors import BadParametersError
from skidpad.oracles.lane_departure import ACCEPTABLE_MDCL, CAP_M, Agreement, departure_step, mdcl

series = st.lists(st.floats(-10.0, 10.0), min_size=1, max_size=50)


@given(series)
def test_it_is_the_largest_distance_capped_and_divided_by_the_cap(values: list[float]) -> None:
    found = mdcl(np.array(values))
    largest = max(abs(value) for value in values)
    assert found.max_m == largest
    assert found.normalised == pytest.approx(min(largest, 1.5) / 1.5, abs=1e-12)
    assert found.departed == (largest >= 1.5)
    assert abs(values[found.step]) == largest


@given(series, st.randoms())
def test_neither_side_nor_order_matters(values: list[float], random) -> None:
    mixed = [value * random.choice((-1.0, 1.0)) for value in values]
    random.shuffle(mixed)
    assert mdcl(np.array(mixed)).max_m == mdcl(np.array(values)).max_m


@given(series)
def test_the_departure_is_the_first_step_at_the_cap(values: list[float]) -> None:
    gone = departure_step(np.array(values))
    beyond = [step for step, value in enumerate(values) if abs(value) >= CAP_M]
    assert gone == (beyond[0] if beyond else None)
    assert (gone is not None) == mdcl(np.array(values)).departed


def test_exactly_at_the_cap_the_car_has_departed_and_seven_tenths_are_about_a_metre() -> None:
    assert mdcl(np.array([1.5])).departed
    assert not mdcl(np.array([np.nextafter(1.5, 0.0)])).departed
    assert pytest.approx(1.05) == ACCEPTABLE_MDCL * CAP_M


def test_no_steps_have_no_distance_and_nan_is_refused() -> None:
    assert np.isnan(mdcl(np.zeros(0)).normalised)
    assert not mdcl(np.zeros(0)).departed
    for wrong in (np.array([0.1, np.nan]), np.zeros((2, 2))):
        with pytest.raises(BadParametersError, match="distances"):
            mdcl(wrong)


def test_table_three_of_the_paper_comes_out_of_its_counts() -> None:
    mae = np.concatenate([np.full(26, 0.05), np.full(24, 0.2)])
    strayed = np.concatenate([np.full(4, 0.5), np.full(22, 0.9), np.full(24, 1.0)])
    found = Agreement.of(mae, strayed, 0.1, 0.7)
    assert (found.both_safe, found.false_safe, found.false_alarm, found.both_unsafe) == (4, 22, 0, 24)
    assert found.disagreeing / found.total == pytest.approx(0.44)
    assert (found.safe_online, found.unsafe_online, found.optimist) == (4, 46, "offline")


@given(st.lists(st.tuples(st.floats(0.0, 0.3), st.floats(0.0, 1.0)), max_size=30), st.floats(0.01, 0.3), st.floats(0.01, 1.0))
def test_every_scenario_is_counted_once_as_a_plain_loop_counts(pairs, mae_limit: float, mdcl_limit: float) -> None:
    mae, strayed = (np.array(values, np.float64) for values in (zip(*pairs, strict=True) if pairs else ((), ())))
    found = Agreement.of(mae, strayed, mae_limit, mdcl_limit)
    plain = [0, 0, 0, 0]
    for a, b in pairs:
        plain[2 * (a >= mae_limit) + (b >= mdcl_limit)] += 1
    assert [found.both_safe, found.false_safe, found.false_alarm, found.both_unsafe] == plain
    swapped = Agreement.of(strayed, mae, mdcl_limit, mae_limit)
    assert (swapped.false_safe, swapped.false_alarm) == (found.false_alarm, found.false_safe)


def test_a_value_that_is_not_finite_is_left_out() -> None:
    found = Agreement.of(np.array([0.05, np.nan, 0.05]), np.array([0.1, 0.2, np.inf]), 0.1, 0.7)
    assert found.total == 1
    assert found.optimist == "neither"
    with pytest.raises(BadParametersError, match="one value a scenario"):
        Agreement.of(np.zeros(2), np.zeros(3), 0.1, 0.7)
