"""A small network, a small weather with random weights and a few scenes: a search for critical conditions in a second."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

from skidpad.core.units import AngleUnit
from skidpad.drives.drive import Drive
from skidpad.drives.opening import drive_from_arrays
from skidpad.kinds.pictures.styles.campaign import Tactic, TacticSettings
from skidpad.stimuli.weather.blocks import start
from skidpad.stimuli.weather.files import WeatherCard
from skidpad.stimuli.weather.munit import Munit
from skidpad.stimuli.weather.settings import Method, Sizes
from skidpad.stimuli.weather.translation import Weather
from skidpad.subjects.description import Description, Format, Output
from skidpad.subjects.inputs import History, HistoryKind, InputSpec
from skidpad.subjects.network_subject import NetworkSubject

SIZES = Sizes(filters=4, blocks=1, style=3, hidden=8, scales=1)
HEIGHT_PX, WIDTH_PX = 32, 48
CARD = WeatherCard("toy-rain", Method.MUNIT, SIZES, 16, "day", "a" * 64, "rain", "b" * 64, True, 1, 1, 16, 0, weights_sha256="c" * 64)


def toy_weights(seed: int = 0) -> dict[str, torch.Tensor]:
    model = Munit(SIZES)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        start(model, gain_from_relu=True)
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def toy_drive(frames: int = 20) -> Drive:
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, (frames, 4, 6, 3), np.uint8)
    return drive_from_arrays(coarse.repeat(8, 1).repeat(8, 2), np.linspace(-0.3, 0.3, frames))


def toy_subject(frames: int = 1, seed: int = 1) -> NetworkSubject:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        channels = 3 * frames
        module = nn.Sequential(nn.Conv2d(channels, 4, 5, 2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(6), nn.Tanh(), nn.Linear(6, 1))
        module(torch.zeros(1, channels, 12, 20))
    history = History(frames, HistoryKind.STACK) if frames > 1 else History()
    spec = InputSpec(20, 12, history=history)
    description = Description("toy", "toy.pt2", Format.EXPORT, spec, (Output("steering", AngleUnit.RAD),))
    return NetworkSubject.of_module(module, description)


def toy_campaign(drive: Drive | None = None, subject: NetworkSubject | None = None, **changes: object) -> Tactic:
    settings = TacticSettings(**{"subject": "toy", "drive": "toy", "weather": "toy", "patience": 4, "conditions": 2, **changes})  # type: ignore[arg-type]
    weights = toy_weights()
    return Tactic(settings, subject or toy_subject(), drive or toy_drive(), Weather(CARD, weights))


def run_of(campaign: Tactic, folder: Path):  # type: ignore[no-untyped-def]
    run = campaign.start(folder)
    campaign.execute(run)
    return run
