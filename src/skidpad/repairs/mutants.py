"""The mutants of a run, rendered again and kept as bytes at the network's size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from skidpad.core.errors import BadRunError
from skidpad.core.progress import Progress, silent
from skidpad.core.seeding import child_rng
from skidpad.core.stimuli import Recipe
from skidpad.drives.opening import open_drive
from skidpad.kinds.pictures.campaign import DeepTest
from skidpad.kinds.pictures.settings import DeepTestSettings
from skidpad.runs.records import ORIGINALS, may_count
from skidpad.stimuli.pictures import stimuli
from skidpad.subjects.description import STEERING
from skidpad.subjects.preprocess import Preprocessor
from skidpad.subjects.training.data import Labelled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skidpad.core.images import BoolArray, IntArray
    from skidpad.drives.drive import Drive, FrameBatch
    from skidpad.repairs.settings import RepairSettings
    from skidpad.runs.folder import Run
    from skidpad.subjects.network_subject import NetworkSubject

_BLOCK_FRAMES = 64
_COLUMNS = ("frame_index", "recipe", "label", "referee")


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
    frame_ids: F names; identities: the same frames, told from those of other drives. drive_sha256, subject_sha256: of the drive and
    the subject that the run was made with.
    """

    mutants: Labelled
    originals: Labelled
    frame_of: IntArray
    recipe_of: IntArray
    frame_ids: tuple[str, ...]
    identities: tuple[str, ...]
    cases: Cases
    drive_sha256: str
    subject_sha256: str

    @property
    def stimuli(self) -> tuple[str, ...]:
        """The stimulus of each mutant, N names."""
        names = [recipe.name for recipe in self.cases.recipes]
        return tuple(names[place] for place in self.recipe_of.tolist())


def campaign_of(run: Run, subject: NetworkSubject, device: str) -> DeepTest:
    """Puts the campaign of a run together around a given subject; refuses a drive that has changed since."""
    if run.config.get("campaign") != "deeptest":
        raise BadRunError(f"{run.path} holds a campaign {run.config.get('campaign')!r}; a repair takes runs of `skidpad test`")
    settings = replace(DeepTestSettings.from_config(run.config), device=device)
    if settings.output != STEERING:
        raise BadRunError(
            f"{run.path} judges the output {settings.output!r}; a repair trains on labels, and drives have them for steering only"
        )
    return DeepTest(settings, subject, unchanged_drive(run, settings.drive), stimuli())


def unchanged_drive(run: Run, text: str) -> Drive:
    """Opens the drive of a run; refuses one that has changed since."""
    drive, then = open_drive(text), run.manifest.hashes.get("drive")
    if drive.sha256 != then:
        raise BadRunError(
            f"the drive {text!r} has changed since the run {run.path} ({then} then, {drive.sha256} now); put it back as it was"
        )
    return drive


def choose_cases(run: Run, settings: RepairSettings) -> Cases:
    """Picks the labelled mutants whose recipe has no step but the chosen transforms, each once; draws where there are too many.

    Shards are read one by one; a few numbers of each record stay in memory, and each recipe once.
    """
    wanted = frozenset(settings.transforms)
    known: dict[str, int] = {}
    parts: list[tuple[IntArray, IntArray, BoolArray]] = []
    for phase in run.phases():
        if phase != ORIGINALS:
            for table in run.iter_records(phase, _COLUMNS):
                counted = table.filter(pa.array(may_count(table))) if settings.kept_alone else table
                parts.append(_shard_cases(counted, wanted, known))
    if not known:
        raise BadRunError(
            f"the run {run.path} holds no mutant of {', '.join(settings.transforms)}; it has {', '.join(_stimuli_of(run)) or 'none'}: "
            "choose among those with --transforms, or make a run with `skidpad test`"
        )
    frame_index, recipe_of, labelled = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    _, first = np.unique(frame_index * len(known) + recipe_of, return_index=True)  # a case is a frame and a recipe
    first.sort()
    places = first[labelled[first]]
    available = len(places)
    if available == 0:
        raise BadRunError(f"none of the {len(first)} mutants in {run.path} has a label to train on; use a run over a drive with labels")
    if available > settings.max_mutants:
        places = np.sort(child_rng(settings.seed, "repair", "mutants").choice(places, settings.max_mutants, replace=False))
    places = places[np.argsort(frame_index[places], kind="stable")]
    used, recipe_of = np.unique(recipe_of[places], return_inverse=True)
    texts = list(known)
    return Cases(
        frame_index=frame_index[places],
        recipe_of=recipe_of.astype(np.int64),
        recipes=tuple(Recipe.from_json(texts[place]) for place in used.tolist()),
        available=available,
        unlabelled=len(first) - available,
    )


def gather(campaign: DeepTest, run: Run, settings: RepairSettings, progress: Progress = silent) -> Pool:
    """Renders the chosen mutants and their originals through the campaign and shrinks them as the subject does.

    Frames are read once, block by block, and a recipe is applied to all of a block's frames that want it.
    """
    cases = choose_cases(run, settings)
    spec = campaign.subject.description.input
    preprocess = Preprocessor(spec, torch.device(settings.device))
    frames, frame_of = np.unique(cases.frame_index, return_inverse=True)
    shape = (spec.height_px, spec.columns_px, spec.channels)
    mutants = torch.empty((len(cases.frame_index), *shape), dtype=torch.uint8)
    originals = torch.empty((len(frames), *shape), dtype=torch.uint8)
    for start, batch in _blocks(campaign, run, frames):
        originals[start : start + len(batch)] = preprocess.shrink(batch.frames).cpu()
        first, last = np.searchsorted(frame_of, [start, start + len(batch)])
        recipe_of = cases.recipe_of[first:last]
        for recipe in np.unique(recipe_of).tolist():
            places = first + np.flatnonzero(recipe_of == recipe)
            chosen = frame_of[places] - start
            times_s = campaign.drive.times_at(batch.indices[chosen])
            pictures = campaign.mutate(batch.frames[chosen], cases.recipes[recipe], times_s)
            mutants[torch.from_numpy(places)] = preprocess.shrink(pictures).cpu()
        progress(int(last), len(mutants), "rendering the mutants")
    labels_rad = campaign.drive.steering_rad[frames]
    return Pool(
        mutants=Labelled(mutants, labels_rad[frame_of]),
        originals=Labelled(originals, labels_rad),
        frame_of=frame_of.astype(np.int64),
        recipe_of=cases.recipe_of,
        frame_ids=tuple(campaign.drive.frame_ids[frame] for frame in frames.tolist()),
        identities=tuple(map(campaign.drive.identity, frames.tolist())),
        cases=cases,
        drive_sha256=campaign.drive.sha256,
        subject_sha256=run.manifest.hashes.get("subject", ""),
    )


def _shard_cases(table: pa.Table, wanted: frozenset[str], known: dict[str, int]) -> tuple[IntArray, IntArray, BoolArray]:
    """Returns frame, place of the recipe among the known and whether there is a label, (M,) each; adds new recipes to the known."""
    encoded = table["recipe"].combine_chunks().dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    taken = [{step.stimulus for step in Recipe.from_json(text).steps} <= wanted for text in texts]
    places = [known.setdefault(text, len(known)) if take else -1 for text, take in zip(texts, taken, strict=True)]
    recipe_of = np.asarray(places, np.int64)[encoded.indices.to_numpy()]
    kept = recipe_of >= 0
    return table["frame_index"].to_numpy()[kept], recipe_of[kept], np.isfinite(table["label"].to_numpy()[kept])


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
