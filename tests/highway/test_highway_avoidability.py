"""Avoidability: the search agrees with trying everything, and a trace is the engine's own way."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from skidpad.core.errors import BadParametersError
from skidpad.highway import engine
from skidpad.highway.avoidability import NEVER, UNDECIDED, Avoidable, EscapeSettings, avoidable_until_s, last_escapes
from skidpad.highway.episodes import Episodes, trace
from skidpad.highway.evaluation import evaluate
from skidpad.highway.layout import CRASH, EGO, FIELDS, FRONT, RUNNING, STRUCK, Action, Outcome
from skidpad.highway.opponents import ConstantActions, Idm, RandomActions
from skidpad.highway.scenario import SpacingMode
from skidpad.highway.scenes import PAPER, PRETRAINING, RELEASED

RECKLESS = ConstantActions(Action.FASTER)


def crashes(scenario, ego=RECKLESS, front=None, episodes=60, seed=3, longest=30) -> Episodes:
    played = evaluate(scenario, ego, front or RandomActions(), episodes, seed)
    return played.take(np.flatnonzero((played.outcomes == CRASH) & (played.steps <= longest)))


def searched(found: Episodes, **rules):
    actions = (side.astype(np.int64) for side in (found.ego_actions, found.front_actions))
    return last_escapes(found.scenario, found.starts, *actions, found.steps, EscapeSettings(**rules))


def tried_all(found: Episodes, row: int, follow_on: int) -> int:
    """The plain reference: every sequence of the ego's actions from every step, the last step with an escape."""
    params = found.scenario.compiled()
    states = found.trajectory(row)
    steps = int(found.steps[row])
    for begin in range(steps - 1, -1, -1):
        front = [int(action) for action in found.front_actions[row, begin:steps]] + [int(Action.IDLE)] * follow_on
        for ego in product(range(5), repeat=len(front)):
            state, code = states[begin].copy(), RUNNING
            for own, other in zip(ego, front, strict=True):
                code = engine.step(params, state, own, other)
                if code != RUNNING or state[EGO, STRUCK]:
                    break
            if code != CRASH and not state[EGO, STRUCK]:
                return begin
    return NEVER


@settings(max_examples=25)
@given(seed=st.integers(0, 2**40), follow_on=st.integers(0, 2), scenario=st.sampled_from([RELEASED, PAPER]))
def test_search_agrees_with_trying_every_sequence(seed, follow_on, scenario) -> None:
    found = crashes(scenario, ego=RandomActions(), episodes=20, seed=seed, longest=3)
    assume(len(found) > 0)
    found = found.take(np.arange(min(2, len(found))))
    answers = searched(found, follow_on_steps=follow_on)
    assert answers.tolist() == [tried_all(found, row, follow_on) for row in range(len(found))]


def test_every_crash_behind_a_random_front_can_be_avoided_early_enough() -> None:
    found = crashes(RELEASED)
    answers = searched(found)
    assert len(found) > 10
    assert ((answers >= 0) & (answers < found.steps)).all()
    # a second before its crash a reckless ego can still be saved more often than not, three seconds before always
    notice_s = found.steps - answers
    assert (notice_s <= 2).mean() > 0.5
    assert (notice_s <= 4).all()


def test_an_escape_must_last() -> None:
    found = crashes(RELEASED)
    shorter, longer = searched(found, follow_on_steps=0), searched(found, follow_on_steps=4)
    assert (longer <= shorter).all()


def test_a_crash_that_nobody_could_avoid_is_never() -> None:
    # one lane, half a metre of road and ten metres a second too much
    wall = replace(
        RELEASED,
        lanes=1,
        spacing_mode=SpacingMode.METRES,
        spacing=(0.5, 0.5),
        ego_speed_mps=(30.0, 30.0),
        front_speed_mps=(20.0, 20.0),
        overtake_end_m=None,
    )
    found = crashes(wall, front=ConstantActions(Action.SLOWER), episodes=3)
    assert len(found) == 3
    assert searched(found).tolist() == [NEVER] * 3
    kind, until_s = avoidable_until_s(wall, NEVER)
    assert kind is Avoidable.NEVER
    assert np.isnan(until_s)


def test_search_gives_up_when_told_to() -> None:
    found = crashes(RELEASED).take(np.arange(2))
    assert searched(found, max_tries=1).tolist() == [UNDECIDED] * 2
    assert avoidable_until_s(RELEASED, UNDECIDED)[0] is Avoidable.UNDECIDED
    assert avoidable_until_s(replace(RELEASED, policy_hz=5), 3) == (Avoidable.UNTIL, 0.6)


def test_an_idm_front_drives_itself_during_the_search() -> None:
    found = crashes(PRETRAINING, front=Idm())
    assert len(found) > 5
    assert (found.front_actions == -1).all()
    assert (searched(found) >= 0).all()


def test_shapes_are_checked() -> None:
    with pytest.raises(BadParametersError, match="2 crashes need actions"):
        last_escapes(RELEASED, np.zeros((2, 7)), np.zeros((2, 3), np.int64), np.zeros((2, 4), np.int64), np.array([1, 1]))
    with pytest.raises(BadParametersError, match="follow_on_steps"):
        EscapeSettings(follow_on_steps=-1)
    assert len(last_escapes(RELEASED, np.zeros((0, 7)), np.zeros((0, 3), np.int64), np.zeros((0, 3), np.int64), np.zeros(0, np.int64))) == 0


@pytest.mark.parametrize("scenario", [RELEASED, PAPER, PRETRAINING], ids=lambda scenario: scenario.name)
def test_a_trace_passes_through_the_engines_states_bit_for_bit(scenario) -> None:
    played = evaluate(scenario, RandomActions(), Idm() if scenario is PRETRAINING else RandomActions(), 12, 7)
    for row in range(len(played)):
        steps = int(played.steps[row])
        actions = (side[row, :steps].astype(np.int64) for side in (played.ego_actions, played.front_actions))
        seen = trace(played.scenario, played.starts[row], *actions)
        assert seen.states.shape == (steps * scenario.frames + 1, 2, FIELDS)
        np.testing.assert_array_equal(seen.states[:: scenario.frames], played.trajectory(row))
        assert (seen.impact_frame is not None) or played.outcomes[row] != Outcome.CRASH.code


def test_a_trace_tells_when_and_how_hard_they_hit() -> None:
    found = crashes(RELEASED).take(np.arange(4))
    for row in range(len(found)):
        steps = int(found.steps[row])
        seen = trace(found.scenario, found.starts[row], found.ego_actions[row, :steps], found.front_actions[row, :steps])
        frame = seen.impact_frame
        assert frame is not None
        assert steps - 1 - 1 / seen.simulation_hz <= seen.impact_s <= steps
        assert seen.impact_s == seen.times_s[frame]
        assert 0.0 <= seen.closing_mps <= 12.0
        assert not seen.states[:frame, :, STRUCK].any()
    quiet = trace(RELEASED, found.starts[0], np.full(3, Action.SLOWER), np.full(3, Action.FASTER))
    assert quiet.impact_frame is None
    assert np.isnan(quiet.impact_s)
    assert np.isnan(quiet.closing_mps)
    assert quiet.states[-1, FRONT, 0] > quiet.states[-1, EGO, 0]
    with pytest.raises(BadParametersError, match="as many actions"):
        trace(RELEASED, found.starts[0], np.zeros(2, np.int64), np.zeros(3, np.int64))
