"""Ours: the campaign itself, from the drive on disk to a finished run folder; and the bare kernels within it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import cv2
import numpy as np
import torch
from torch.nn import functional

from skidpad.kinds.pictures.campaign import DeepTest
from skidpad.kinds.pictures.summary import coverage_gains
from skidpad.runs.folder import Run
from ways.case import Case, threads, to_input
from ways.plain import CROP_TOP, HEIGHT_PX, WIDTH_PX

BATCH = 32
"""Frames a batch of the bare kernels, as in the campaign."""


class SkidpadWay:
    """Executes the campaign into a temporary run folder; the neuron bounds are given, as to every other way."""

    def __init__(self, campaign: DeepTest, profile: Path) -> None:
        self._campaigns = {
            False: campaign,
            True: replace(campaign, settings=replace(campaign.settings, criteria=("nc",))),
        }
        self._profile = profile
        self.covered: dict[str, int] = {}
        self.findings = 0

    def run(self, *, nc_only: bool) -> None:
        """Makes the folder, computes every record and commits it."""
        with TemporaryDirectory() as folder:
            self._execute(Path(folder) / "run", nc_only=nc_only)

    def look(self) -> None:
        """Runs once and notes what was covered and found."""
        campaign = self._campaigns[False]
        with TemporaryDirectory() as folder:
            run = self._execute(Path(folder) / "run", nc_only=False)
            gains = coverage_gains(run, campaign.blank_tracker(campaign.profile(run)))
            self.covered = {gain.criterion: gain.together for gain in gains if not gain.stimulus}
            self.findings = run.findings(columns=("case_id",)).num_rows

    def _execute(self, path: Path, *, nc_only: bool) -> Run:
        campaign = self._campaigns[nc_only]
        run = campaign.start(path)
        shutil.copy(self._profile, run.path / "state" / "profile.safetensors")
        campaign.execute(run)
        return run


class BareKernels:
    """The kernels that no way can do without, one after the other over all images, spread over cores as ours are.

    transform: the plain OpenCV calls. resize: crop, antialiased resize, colour, floats. forward: the network alone. Nothing is
    kept, counted, judged or written. The same images in number and size; resize and forward take the originals, since neither
    depends on what is on the pictures.
    """

    def __init__(self, case: Case, lanes: int) -> None:
        self._case = case
        self._lanes = lanes
        self._transforms = case.transforms()

    def transform(self) -> None:
        """Transforms every frame under every recipe."""
        self._spread(lambda number, start: [self._transforms[number](frame) for frame in self._frames(start)])

    def resize(self) -> None:
        """Makes the network's input of every frame, once for each recipe."""
        self._spread(lambda _number, start: _network_input(self._frames(start)))

    def forward(self) -> None:
        """Runs the network on every input, once for each recipe."""
        inputs = [_network_input(self._frames(start)) for start in range(0, len(self._case.frames), BATCH)]
        self._spread(lambda _number, start: self._case.module(inputs[start // BATCH]))

    def _frames(self, start: int) -> np.ndarray:
        return self._case.frames[start : start + BATCH]

    def _spread(self, work: Callable[[int, int], object]) -> None:
        def one(task: tuple[int, int]) -> None:
            with torch.inference_mode():
                work(*task)

        tasks = [(number, start) for number in range(len(self._transforms)) for start in range(0, len(self._case.frames), BATCH)]
        with threads(1, 1), ThreadPoolExecutor(self._lanes) as pool:
            for _ in pool.map(one, tasks):
                pass


def _network_input(frames: np.ndarray) -> torch.Tensor:
    pixels = torch.from_numpy(frames[:, round(CROP_TOP * frames.shape[1]) :]).permute(0, 3, 1, 2)
    small = functional.interpolate(pixels, (HEIGHT_PX, WIDTH_PX), mode="bilinear", antialias=True)
    tall = small.permute(0, 2, 3, 1).contiguous().numpy().reshape(-1, WIDTH_PX, 3)
    yuv = np.asarray(cv2.cvtColor(tall, cv2.COLOR_RGB2YUV))
    return to_input(torch.from_numpy(yuv.reshape(len(frames), HEIGHT_PX, WIDTH_PX, 3)))
