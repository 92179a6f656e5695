"""Late, stuck and lost frames: in a clip, in a recorded drive, and for each car of a closed loop."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from skidpad.core.errors import BadParametersError
from skidpad.core.images import Camera, Capture
from skidpad.core.stimuli import Params, Recipe, Step
from skidpad.drives.drive import Drive, Problem, ProblemKind, capture_of
from skidpad.kinds.drives.loop import past_steps, ride, seen
from skidpad.stimuli.pictures import stimuli
from skidpad.stimuli.registry import stimuli_of
from skidpad.worlds.scenario.scenario import Scenario

ROWS = stimuli(("late-frames", "frozen-frames", "dropped-frames", "exposure"))


def numbered(count, first=0):
    """Frames that show their own number."""
    return np.broadcast_to(np.arange(first, first + count, dtype=np.uint8)[:, None, None, None], (count, 16, 16, 3)).copy()


def numbers(frames):
    return np.asarray(frames)[:, 0, 0, 0].tolist()


class Numbered:
    """A drive's source; frame 7 is broken."""

    def read(self, index):
        return Problem(ProblemKind.CORRUPT, f"{index}", "spoiled") if index == 7 else numbered(1, index)[0]

    def fingerprint(self, index):
        return f"{index}"


@pytest.fixture
def drive():
    count = 60
    return Drive("numbered", [f"{place:03d}" for place in range(count)], np.zeros(count), np.arange(count) / 20.0, Numbered())


def test_late_frames_are_the_frames_before():
    assert numbers(ROWS["late-frames"].apply(numbered(8), Params(latency_ms=150.0))) == [0, 0, 0, 0, 1, 2, 3, 4]
    late = ROWS["late-frames"].apply(torch.from_numpy(numbered(8)), Params(latency_ms=150.0))
    assert numbers(late) == [0, 0, 0, 0, 1, 2, 3, 4]


def test_a_stuck_picture_stays_the_same_and_catches_up():
    shown = numbers(ROWS["frozen-frames"].apply(numbered(80), Params(frozen_s=0.5)))
    assert shown[:30] == list(range(30))
    assert shown[29:40] == [29] * 11
    assert shown[40:70] == list(range(40, 70))
    assert shown[69:] == [69] * 11


def test_lost_frames_are_replaced_by_the_last_that_came_and_more_loss_loses_the_same():
    lost = {}
    for share in (0.2, 0.5, 0.8):
        shown = numbers(ROWS["dropped-frames"].apply(numbered(250), Params(share=share)))
        assert all(now in (before, place) for place, (before, now) in enumerate(pairwise(shown), 1))
        lost[share] = {place for place, number in enumerate(shown) if number != place}
        assert len(lost[share]) / 250 == pytest.approx(share, abs=0.07)
    assert lost[0.2] < lost[0.5] < lost[0.8]


def test_a_recorded_drive_knows_what_came_before_whichever_frames_are_shown_together(drive):
    recipe = Recipe.of("late-frames", Params(latency_ms=200.0))
    some = np.array([2, 11, 12, 40])
    frames = np.concatenate([numbered(1, place) for place in some])
    # Frame 7 is broken, so that frame 6 is the last that was seen; before the first frame there is none.
    assert numbers(recipe.apply(frames, ROWS, capture_of(drive, some))) == [0, 6, 8, 36]
    for place, number in ((2, 0), (11, 6), (40, 36)):
        assert numbers(recipe.apply(numbered(1, place), ROWS, capture_of(drive, np.array([place])))) == [number]
    with_lead = capture_of(drive, np.array([12, 13]), lead=2)
    assert numbers(recipe.apply(numbered(4, 10), ROWS, with_lead)) == [6, 6, 8, 9]
    read = capture_of(drive, np.array([40, 44]), clip=np.concatenate([numbered(1, 200), numbered(1, 44)]))
    assert numbers(recipe.apply(numbered(1, 40)[[0, 0]], ROWS, read)) == [36, 200], "what was read already is not read again"


def test_each_car_has_its_own_past():
    recipes = [Recipe.of("late-frames", Params(latency_ms=100.0)), Recipe(), Recipe.of("late-frames", Params(latency_ms=100.0))]
    steps = [np.stack([numbered(1, 100 * car + step)[0] for car in range(3)]) for step in range(5)]
    past = []
    shown = []
    for step, frames in enumerate(steps):
        shown.append(numbers(seen(frames, recipes, ROWS, None, step * 0.05, past)))
        past.append(frames)
    assert shown == [[0, 100, 200], [0, 101, 200], [0, 102, 200], [1, 103, 201], [2, 104, 202]]
    on_torch = seen(torch.from_numpy(steps[4]), recipes, ROWS, None, 4 * 0.05, [torch.from_numpy(frames) for frames in steps[:4]])
    assert numbers(on_torch) == shown[4]
    assert past_steps(ROWS) == 38
    assert past_steps({"exposure": ROWS["exposure"]}) == 0
    assert past_steps(stimuli_of(["late-frames(latency_ms=100)"])) == 20


class CountingWorld:
    """Two cars whose cameras show the number of the step, the second one from 100 on."""

    def reset(self, scenarios):
        self.step_number = 0

    def frames(self, running=None):
        return np.concatenate([numbered(1, self.step_number), numbered(1, 100 + self.step_number)])

    def step(self, steering_rad):
        self.step_number += 1

    def lateral_m(self):
        return np.zeros(2)

    truth_rad = lateral_m

    def collided(self):
        return np.zeros(2, np.bool_)


class Reader:
    """Answers with the number that it sees."""

    lead = 0
    description = SimpleNamespace(steering_column=0)

    def predict(self, frames):
        return np.array(numbers(frames), np.float64)[:, None]


def test_a_car_in_the_closed_loop_is_steered_by_what_was_seen_before():
    recipes = [Recipe.of("late-frames", Params(latency_ms=150.0)), Recipe.of("frozen-frames", Params(frozen_s=1.0))]
    late, stuck = ride(CountingWorld(), [Scenario(duration_s=2.5)] * 2, recipes, ROWS, Reader())
    assert late.answers_rad.tolist() == [0, 0, 0, *range(47)]
    assert stuck.answers_rad.tolist() == [*range(100, 119), *[119] * 21, *range(140, 150)]


def test_other_steps_act_on_the_earlier_frame_wherever_they_stand():
    late, dark = Step("late-frames", Params(latency_ms=50.0)), Step("exposure", Params(ev=-1.0))
    frames = numbered(4, 100)
    capture = Capture(Camera.guess(16, 16), np.arange(4) / 20.0, lambda _, times_s: numbered(len(times_s), 200))
    expected = ROWS["exposure"].apply(numbered(4, 200), dark.params)
    for steps in ((late, dark), (dark, late)):
        assert np.array_equal(Recipe(steps).apply(frames, ROWS, capture), expected)
    with pytest.raises(BadParametersError, match="one step of a recipe can show earlier frames"):
        Recipe((late, Step("frozen-frames", Params(frozen_s=0.5)))).apply(frames, ROWS)
