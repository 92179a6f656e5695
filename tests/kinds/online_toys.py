"""Small closed loops: the bundled network, the same with planted faults, and scenarios that take a second."""

from dataclasses import replace
from functools import cache

import numpy as np
import torch

from skidpad.kinds.drives.campaign import Online, OnlineSettings
from skidpad.stimuli.registry import conditions_of
from skidpad.subjects.description import pretrained
from skidpad.subjects.loading import load_subject
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.worlds.scenario.files import NamedScenario
from skidpad.worlds.scenario.scenario import Ego, RoadKind, RoadPlan, Scenario, Side

DEMO = str(pretrained("pilotnet-rendered"))

ROADS = (
    NamedScenario("straight", Scenario(duration_s=0.8, seed=1)),
    NamedScenario("left", Scenario(RoadPlan(RoadKind.CURVED, 120.0, Side.LEFT), ego=Ego(speed_m_s=13.0), duration_s=0.8, seed=2)),
    NamedScenario("right", Scenario(RoadPlan(RoadKind.CURVED, 90.0, Side.RIGHT), ego=Ego(speed_m_s=11.0), duration_s=0.6, seed=3)),
)


LONGER = tuple(NamedScenario(each.name, replace(each.scenario, duration_s=3.6)) for each in ROADS)


class Tampered(torch.nn.Module):
    """A network whose answers are moved: `bias_rad` to the left; NaN for dark pictures where `blind`."""

    def __init__(self, inner: torch.nn.Module, bias_rad: float = 0.0, blind: bool = False) -> None:
        super().__init__()
        self.inner, self.bias_rad, self.blind = inner, bias_rad, blind

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        answer = self.inner(inputs) + self.bias_rad
        if not self.blind:
            return answer
        dark = inputs[:, :1].mean(dim=(1, 2, 3), keepdim=False)[:, None] < -0.35
        return torch.where(dark, torch.full_like(answer, float("nan")), answer)


class Moody:
    """A subject that is no network and really random: now and then it begins or ends to lean to the left."""

    layers = ()
    lead = 0
    sha256 = "moody"

    def __init__(self, seed: int) -> None:
        self.description = demo().description
        self._rng = np.random.default_rng(seed)
        self._lean_rad = 0.0

    def predict(self, clip, now=None) -> np.ndarray:
        if self._rng.random() < 1.0 / 60.0:
            self._lean_rad = float(self._rng.choice([0.0, 1.5]))
        return np.full((len(clip), 1), self._lean_rad)


@cache
def demo() -> NetworkSubject:
    return load_subject(DEMO)


def tampered(bias_rad: float = 0.0, blind: bool = False) -> NetworkSubject:
    subject = demo()
    return NetworkSubject.of_module(Tampered(subject.module, bias_rad, blind), subject.description)


def online(subject=None, scenarios=ROADS, **changes) -> Online:
    settings = OnlineSettings(subject=DEMO, scenarios=len(scenarios), seconds=0.0, **changes)
    conditions, stimuli = conditions_of(settings.stimuli)
    return Online(settings, subject or demo(), tuple(scenarios), conditions, stimuli)


def series(row) -> np.ndarray:
    return np.frombuffer(row["lateral_m"], "<f8")
