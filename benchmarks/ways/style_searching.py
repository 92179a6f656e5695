"""A whole search for a critical condition, and the paper's procedure beside it: one frame at a time, in float32."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from dataclasses import dataclass

import cv2
import numpy as np
import torch

from skidpad.core.images import NumpyFrames
from skidpad.coverage.profile import profile_of
from skidpad.coverage.tracker import CoverageState
from skidpad.drives.drive import Drive
from skidpad.kinds.pictures.styles.campaign import Tactic, TacticSettings
from skidpad.kinds.pictures.styles.condition import FoundStyle, find
from skidpad.kinds.pictures.styles.evaluation import Evaluator, Goal
from skidpad.search.evolution import Styles
from skidpad.search.protocol import SearchTask
from skidpad.stimuli.weather.files import WeatherCard
from skidpad.stimuli.weather.munit import Munit
from skidpad.stimuli.weather.scenes import working_size
from skidpad.stimuli.weather.translation import Weather
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.subjects.zoo import ARCHITECTURES


@dataclass(frozen=True)
class DrawnScenes:
    """Scenes drawn when they are asked for: soft shapes, each its own."""

    height_px: int
    width_px: int

    def read(self, index: int) -> NumpyFrames:
        """Draws one scene."""
        coarse = np.random.default_rng(index).integers(0, 256, (12, 16, 3), np.uint8)
        return np.asarray(cv2.resize(coarse, (self.width_px, self.height_px), interpolation=cv2.INTER_LINEAR), np.uint8)

    def fingerprint(self, index: int) -> str:
        """Names a scene."""
        return str(index)


def drawn_drive(frames: int, height_px: int, width_px: int) -> Drive:
    ids = tuple(f"{number:06d}" for number in range(frames))
    return Drive("drawn", ids, np.zeros(frames), None, DrawnScenes(height_px, width_px))


def random_subject(architecture: str, device: str) -> NetworkSubject:
    torch.manual_seed(0)
    row = ARCHITECTURES.get(architecture)
    module = row.build()
    with torch.no_grad():  # random weights answer next to nothing: make the last ones louder, so that answers move
        list(module.parameters())[-2].mul_(20.0)
    return NetworkSubject.of_module(module, row.describe(architecture, "none"), device=device)


@dataclass(frozen=True)
class Prepared:
    """Everything that both ways need."""

    campaign: Tactic
    evaluator: Evaluator
    seconds: float
    kept: AbstractContextManager[Evaluator]


def prepared(
    card: WeatherCard, weights: dict[str, torch.Tensor], drive: Drive, subject: NetworkSubject, device: str, criterion: str
) -> Prepared:
    settings = TacticSettings(subject="none", drive="none", weather="none", device=device, criterion=criterion)
    campaign = Tactic(settings, subject, drive, Weather(card, weights, device))
    begun = time.perf_counter()
    some = drive.select(np.linspace(0, len(drive) - 1, min(512, len(drive))).round().astype(np.int64))
    profile = profile_of(subject, some.batches(64, lead=subject.lead), drive.sha256)
    context = campaign.evaluator(profile)
    evaluator = context.__enter__()  # kept to the end of the process
    return Prepared(campaign, evaluator, time.perf_counter() - begun, context)


def goal_of(made: Prepared, *, racing: bool, risk: float = 0.001) -> Goal:
    evaluator = made.evaluator
    state = CoverageState(evaluator.criterion, evaluator.subject.layers[-1].stop, evaluator.profile, evaluator.decoder.device)
    return Goal.of(state.bits, state.reachable, made.campaign.settings.weights, racing=racing, risk=risk)


def searched(made: Prepared, *, patience: int, budget: int, racing: bool, at_once: int) -> FoundStyle:
    task = SearchTask(Styles(made.campaign.weather.style_size), 1, budget or None, patience)
    begun, told = time.perf_counter(), 0

    def tell(tries: int, best: float) -> None:
        nonlocal told
        if tries >= told + 10:
            told = tries
            print(
                f"  {time.perf_counter() - begun:6.1f} s: try {tries}, fitness {best:.4f}, {made.evaluator.frames_seen:,} frames",
                flush=True,
            )

    return find("es", task, made.evaluator, goal_of(made, racing=racing), at_once, tell)


def looked(made: Prepared, styles: int) -> float:
    """Looks at some styles on all scenes and returns frames a second."""
    rng = np.random.default_rng(0)
    goal = goal_of(made, racing=False)
    draws = [rng.standard_normal(made.campaign.weather.style_size) for _ in range(styles + 1)]
    made.evaluator.look(draws[:1], goal)
    begun, frames = time.perf_counter(), made.evaluator.frames_seen
    for style in draws[1:]:
        made.evaluator.look([style], goal)
    return (made.evaluator.frames_seen - frames) / (time.perf_counter() - begun)


def one_at_a_time(card: WeatherCard, weights: dict[str, torch.Tensor], made: Prepared, frames: int, device: str) -> float:
    """Encodes, decodes, asks and counts frame by frame in float32, as a plain script does; returns frames a second."""
    model = Munit(card.sizes)
    model.load_state_dict({name: tensor.float() for name, tensor in weights.items()}, strict=False)
    model = model.eval().requires_grad_(requires_grad=False).to(device)
    subject, drive = made.campaign.subject, made.campaign.drive
    state = CoverageState(made.evaluator.criterion, subject.layers[-1].stop, made.evaluator.profile, device)
    style = torch.zeros(1, card.sizes.style, device=device)
    rate = 0.0
    for count in (4, frames):  # the first round warms up
        begun = time.perf_counter()
        moved = 0.0
        for index in range(count):
            frame = torch.from_numpy(drive.read([index]).frames).to(device)
            signed = frame.permute(0, 3, 1, 2).float().div(127.5).sub(1.0)
            size = working_size(frame.shape[1], frame.shape[2], card.size_px, card.sizes.stride)
            with torch.inference_mode():
                small = torch.nn.functional.interpolate(signed, size, mode="bilinear", antialias=True)
                picture = model.target.decoder(model.source.content(small), style)
                picture = torch.nn.functional.interpolate(picture, signed.shape[2:], mode="bilinear")
            shown = picture.add(1.0).mul(127.5).round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()
            seen = subject.observe(shown)
            moved += abs(float(seen.answers[0, 0]) - float(made.evaluator.scenes.original[0]))
            state.update(made.evaluator.criterion.regions(seen.values, subject.layers, made.evaluator.profile))
        if device == "cuda":
            torch.cuda.synchronize()
        rate = count / (time.perf_counter() - begun)
    return rate
