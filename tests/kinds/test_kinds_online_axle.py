"""A network that answers with angles of the road wheels, as simulators count them, drives when its description says so."""

from math import radians

import numpy as np
import pytest
import torch

from skidpad.core.stimuli import Recipe
from skidpad.core.units import STEERING_RATIO, AngleUnit, Axle
from skidpad.kinds.drives.loop import ride
from skidpad.oracles.lane_departure import CAP_M
from skidpad.subjects.description import Description, Format, Output
from skidpad.subjects.inputs import InputSpec, Range
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.worlds.builtin import BuiltInWorld
from skidpad.worlds.scenario.scenario import Ego, RoadKind, RoadPlan, Scenario, Side

BENDS = tuple(
    Scenario(RoadPlan(RoadKind.CURVED, radius_m, side, turn_deg=90.0), ego=Ego(speed_m_s=11.0), duration_s=6.0)
    for radius_m in (50.0, 70.0, 90.0)
    for side in Side
)
LOCK_RAD = 8.0


class Written(BuiltInWorld):
    """The built-in world whose cameras show what the truth steers, as 16 bits of red and green, instead of the road."""

    def frames(self, wanted=None) -> np.ndarray:
        level = np.round((self.truth_rad() + LOCK_RAD) / (2.0 * LOCK_RAD) * 65535.0).astype(int)
        colours = np.stack([level // 256, level % 256, 0 * level], axis=-1).astype(np.uint8)
        return np.broadcast_to(colours[:, None, None, :], (len(level), 6, 8, 3)).copy()


def simulator_driver() -> torch.nn.Module:
    """Reads the truth off the picture and answers as Udacity's simulator has it: 1 is 25 degrees of the road wheels, to the right."""
    per_level, per_rad = 2.0 * LOCK_RAD / 65535.0, -1.0 / STEERING_RATIO / radians(25.0)
    reading = torch.nn.Linear(3, 1)
    with torch.no_grad():
        reading.weight.copy_(torch.tensor([[256.0, 1.0, 0.0]]) * per_level * per_rad)
        reading.bias.fill_(-LOCK_RAD * per_rad)
    return torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), reading)


def departed(output: Output) -> list[bool]:
    spec = InputSpec(8, 6, range=Range((0.0,), (255.0,)))
    subject = NetworkSubject.of_module(simulator_driver(), Description("simulator", "net.pt2", Format.EXPORT, spec, (output,)))
    courses = ride(Written(len(BENDS)), BENDS, [Recipe(())] * len(BENDS), {}, subject)
    return [bool(np.abs(course.lateral_m).max() >= CAP_M) for course in courses]


@pytest.mark.parametrize(
    ("output", "keeps"),
    [
        (Output("steering", AngleUnit.SCALED_25, -1.0, Axle.ROAD_WHEEL), True),
        (Output("steering", AngleUnit.SCALED_25, -1.0), False),
        (Output("steering", AngleUnit.SCALED_25, 1.0, Axle.ROAD_WHEEL), False),
    ],
)
def test_the_truth_of_a_simulator_keeps_the_lane_in_six_bends_when_its_axle_is_said(output: Output, keeps: bool) -> None:
    assert departed(output) == [not keeps] * 6
