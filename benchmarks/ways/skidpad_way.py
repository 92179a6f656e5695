"""Ours: the campaign itself, from the drive on disk to a finished run folder; and the floor that it stands on."""

from __future__ import annotations

import shutil
from dataclasses import replace
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory

from skidpad.core.images import NumpyFrames
from skidpad.core.stimuli import Recipe, grid_recipes
from skidpad.kinds.pictures.campaign import DeepTest
from skidpad.kinds.pictures.summary import coverage_gains
from skidpad.kinds.pictures.work import cut, grid_cut
from skidpad.runs.folder import Run
from skidpad.runs.workers.here import default_lanes, open_lanes
from skidpad.subjects.network_subject import NetworkSubject
from ways.case import Found


class SkidpadWay:
    """Executes the campaign into a temporary run folder; the neuron bounds are given, as to every other way."""

    def __init__(self, campaign: DeepTest, profile: Path) -> None:
        self._campaigns = {
            False: campaign,
            True: replace(campaign, settings=replace(campaign.settings, criteria=("nc",))),
        }
        self._profile = profile

    def run(self, *, nc_only: bool) -> None:
        """Makes the folder, computes every record and commits it."""
        with TemporaryDirectory() as folder:
            self._execute(Path(folder) / "run", nc_only=nc_only)

    def found(self) -> Found:
        """Runs once and tells what was covered and found."""
        campaign = self._campaigns[False]
        with TemporaryDirectory() as folder:
            run = self._execute(Path(folder) / "run", nc_only=False)
            gains = coverage_gains(run, campaign.blank_tracker(campaign.profile(run)))
            covered = {gain.criterion: gain.together for gain in gains if not gain.stimulus}
            return Found(covered["nc"], covered["kmnc"], covered["nbc"], run.findings(columns=("case_id",)).num_rows)

    def _execute(self, path: Path, *, nc_only: bool) -> Run:
        campaign = self._campaigns[nc_only]
        run = campaign.start(path)
        shutil.copy(self._profile, run.path / "state" / "profile.safetensors")
        campaign.execute(run)
        return run


class Floor:
    """The campaign's own kernels on the campaign's own batches, spread over cores as the campaign spreads them, and nothing else.

    Each batch is transformed, brought to the network's input and run through the network. The frames are in memory; nothing is
    observed, covered, judged, hashed or written.
    """

    def __init__(self, campaign: DeepTest, subject: NetworkSubject, frames: NumpyFrames) -> None:
        self._campaign = campaign
        self._subject = subject
        self._frames = frames
        blocks = range(ceil(len(frames) / campaign.shard_frames))
        recipes = grid_recipes(campaign.stimuli)
        self._parts: list[tuple[int, tuple[Recipe, ...]]] = [(block, (Recipe(),)) for block in blocks]
        self._parts += [(block, recipes[part.rows]) for block in blocks for part in grid_cut(campaign, block)]

    @property
    def usable_cores(self) -> float:
        """How many cores the floor keeps busy on average where nobody else wants them: each part goes to the lane that is free first."""
        ends = [0] * default_lanes()
        for block, recipes in self._parts:
            ends[ends.index(min(ends))] += len(self._campaign.block(block)) * len(recipes)
        return sum(ends) / max(ends)

    def run(self) -> int:
        """Computes all batches and returns how many images they had."""
        with open_lanes() as lanes:
            return sum(lanes.map(self._part, self._parts))

    def _part(self, part: tuple[int, tuple[Recipe, ...]]) -> int:
        block, recipes = part
        assembler, network = self._subject.assembler, self._subject.network
        places = self._campaign.block(block)
        clip = self._frames[places.start : places.stop]
        for some in cut(len(clip)):
            for recipe in recipes:
                mutants = recipe.apply(clip[some], self._campaign.stimuli)
                network.answer(assembler.normalise(assembler.shrink(mutants)))
        return len(clip) * len(recipes)
