"""The mutants of a run, rendered again and kept as bytes at the network's size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from skidpad.campaigns.deeptest import DeepTest
from skidpad.campaigns.originals import ORIGINALS
from skidpad.campaigns.settings import DeepTestSettings
from skidpad.core.errors import BadRunError
from skidpad.core.progress import Progress, silent
from skidpad.core.seeding import child_rng
from skidpad.core.stimuli import Recipe
from skidpad.drives.opening import open_drive
from skidpad.subjects.labelled import Labelled
from skidpad.subjects.preprocess import Preprocessor
from skidpad.transforms import stimuli

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skidpad.core.images import IntArray
    from skidpad.drives.drive import FrameBatch
    from skidpad.repair.settings import RepairSettings
    from skidpad.runs.folder import Run
    from skidpad.subjects.torch_subject import TorchSubject

_BLOCK_FRAMES = 64
_COLUMNS = ("case_id", "frame_index", "stimulus", "recipe", "label_rad")


@dataclass(frozen=True, slots=True)
class Cases:
    """Which recipes on which frames: frame_index, recipe_of (N,), sorted by frame; recipes: those that recipe_of points at.

    available: labelled mutants before the cap. unlabelled: mutants left out for want of a label.
    """

    frame_index: IntArray
    recipe_of: IntArray
    recipes: tuple[Recipe, ...]
    available: int
    unlabelled: int


@dataclass(frozen=True, slots=True)
class Pool:
    """N mutants with the F originals they came from, at the network's size; frames in time order.

    frame_of: (N,) place of a mutant's frame among the originals. recipe_of: (N,) place in `cases.recipes`.
    frame_ids: F names. drive_sha256, subject_sha256: of the drive and the subject that the run was made with.
    """

    mutants: Labelled
    originals: Labelled
    frame_of: IntArray
    recipe_of: IntArray
    frame_ids: tuple[str, ...]
    cases: Cases
    drive_sha256: str
    subject_sha256: str

    @property
    def stimuli(self) -> tuple[str, ...]:
        """The stimulus of each mutant, N names."""
        names = [recipe.name for recipe in self.cases.recipes]
        return tuple(names[place] for place in self.recipe_of.tolist())


def campaign_of(run: Run, subject: TorchSubject, device: str) -> DeepTest:
    """Puts the campaign of a run together around a given subject; refuses a drive that has changed since."""
    if run.config.get("campaign") != "deeptest":
        raise BadRunError(f"{run.path} holds a campaign {run.config.get('campaign')!r}; a repair takes runs of `skidpad test`")
    settings = replace(DeepTestSettings.from_config(run.config), device=device)
    drive = open_drive(settings.drive)
    then = run.manifest.hashes.get("drive")
    if drive.sha256 != then:
        raise BadRunError(
            f"the drive {settings.drive!r} has changed since the run {run.path} ({then} then, {drive.sha256} now); put it back as it was"
        )
    return DeepTest(settings, subject, drive, stimuli())


def choose_cases(run: Run, settings: RepairSettings) -> Cases:
    """Picks the labelled mutants whose recipe has no step but the chosen transforms, each once; draws where there are too many."""
    wanted = frozenset(settings.transforms)
    parts: list[pa.Table] = []
    for phase in run.phases():
        for table in run.iter_records(phase, _COLUMNS) if phase != ORIGINALS else ():
            recipes = pc.unique(table["recipe"]).to_pylist()
            taken = [text for text in recipes if {step.stimulus for step in Recipe.from_json(text).steps} <= wanted]
            parts.append(table.filter(pc.is_in(table["recipe"], pa.array(taken, pa.string()))))
    found = pa.concat_tables(parts).combine_chunks() if parts else None
    if found is None or found.num_rows == 0:
        raise BadRunError(
            f"the run {run.path} holds no mutant of {', '.join(settings.transforms)}; it has {', '.join(_stimuli_of(run)) or 'none'}: "
            "choose among those with --transforms, or make a run with `skidpad test`"
        )
    _, first = np.unique(found["case_id"].to_numpy(zero_copy_only=False), return_index=True)
    found = found.take(pa.array(np.sort(first)))
    labelled = np.isfinite(found["label_rad"].to_numpy())
    places = np.flatnonzero(labelled)
    if len(places) == 0:
        raise BadRunError(f"none of the {found.num_rows} mutants in {run.path} has a label to train on; use a run over a drive with labels")
    if len(places) > settings.max_mutants:
        places = np.sort(child_rng(settings.seed, "repair", "mutants").choice(places, settings.max_mutants, replace=False))
    chosen = found.take(pa.array(places))
    encoded = chosen["recipe"].combine_chunks().dictionary_encode()
    frame_index = chosen["frame_index"].to_numpy()
    order = np.argsort(frame_index, kind="stable")
    return Cases(
        frame_index=frame_index[order],
        recipe_of=encoded.indices.to_numpy().astype(np.int64)[order],
        recipes=tuple(Recipe.from_json(text) for text in encoded.dictionary.to_pylist()),
        available=int(labelled.sum()),
        unlabelled=int((~labelled).sum()),
    )


def gather(campaign: DeepTest, run: Run, settings: RepairSettings, progress: Progress = silent) -> Pool:
    """Renders the chosen mutants and their originals through the campaign and shrinks them as the subject does.

    Frames are read once, block by block, and a recipe is applied to all of a block's frames that want it.
    """
    cases = choose_cases(run, settings)
    spec = campaign.subject.description.input
    preprocess = Preprocessor(spec, torch.device(settings.device))
    frames, frame_of = np.unique(cases.frame_index, return_inverse=True)
    shape = (spec.height_px, spec.width_px, spec.colour.channels)
    mutants = torch.empty((len(cases.frame_index), *shape), dtype=torch.uint8)
    originals = torch.empty((len(frames), *shape), dtype=torch.uint8)
    for start, batch in _blocks(campaign, run, frames):
        originals[start : start + len(batch)] = preprocess.shrink(batch.frames).cpu()
        first, last = np.searchsorted(frame_of, [start, start + len(batch)])
        recipe_of = cases.recipe_of[first:last]
        for recipe in np.unique(recipe_of).tolist():
            places = first + np.flatnonzero(recipe_of == recipe)
            pictures = campaign.mutate(batch.frames[frame_of[places] - start], cases.recipes[recipe])
            mutants[torch.from_numpy(places)] = preprocess.shrink(pictures).cpu()
        progress(int(last), len(mutants), "rendering the mutants")
    labels_rad = campaign.drive.steering_rad[frames]
    return Pool(
        mutants=Labelled(mutants, labels_rad[frame_of]),
        originals=Labelled(originals, labels_rad),
        frame_of=frame_of.astype(np.int64),
        recipe_of=cases.recipe_of,
        frame_ids=tuple(campaign.drive.frame_ids[frame] for frame in frames.tolist()),
        cases=cases,
        drive_sha256=campaign.drive.sha256,
        subject_sha256=run.manifest.hashes.get("subject", ""),
    )


def _blocks(campaign: DeepTest, run: Run, frames: IntArray) -> Iterator[tuple[int, FrameBatch]]:
    for start in range(0, len(frames), _BLOCK_FRAMES):
        batch = campaign.drive.read(frames[start : start + _BLOCK_FRAMES])
        if batch.problems:
            raise BadRunError(f"a frame of the run {run.path} can no longer be read: {batch.problems[0]}; put the drive back as it was")
        yield start, batch


def _stimuli_of(run: Run) -> list[str]:
    names: set[str] = set()
    for phase in run.phases():
        for table in run.iter_records(phase, ("stimulus",)) if phase != ORIGINALS else ():
            names.update(pc.unique(table["stimulus"]).to_pylist())
    return sorted(names)
