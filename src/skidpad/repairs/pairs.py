"""Mutants beside their originals at the network's size, rendered once and kept on disk."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from skidpad.core.images import as_numpy
from skidpad.core.stimuli import Recipe
from skidpad.drives.drive import capture_of
from skidpad.referee.verdict import Reason, Word
from skidpad.subjects.description import write_atomically
from skidpad.subjects.training.data import Labelled

if TYPE_CHECKING:
    from skidpad.core.images import BoolArray, FloatArray, IntArray
    from skidpad.core.progress import Progress
    from skidpad.core.stimuli import Stimulus
    from skidpad.drives.drive import Drive
    from skidpad.kinds.limits.probes import Judge
    from skidpad.subjects.inputs import InputSpec

_PART_CLIPS = 24
"""Clips that are kept in one file: what a repair that is killed while it renders loses at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    """Frames of a drive under one recipe; for a network that looks back they follow one another."""

    frames: IntArray
    recipe: Recipe


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """N mutants and the N originals that they came from, in the same order, at the network's size.

    A moved camera's original is cut as its mutant is, and its mutant's label is the one from the moved place. recipe_of: (N,) places
    among `recipes`. frame_of: (N,) frames of the drive. kept: (N,) whether the referee keeps the mutant; all where it was not asked.
    """

    mutants: Labelled
    originals: Labelled
    recipe_of: IntArray
    frame_of: IntArray
    kept: BoolArray
    recipes: tuple[Recipe, ...]

    def __len__(self) -> int:
        return len(self.mutants)

    def select(self, places: IntArray) -> Pairs:
        """Returns the pairs at these places."""
        return Pairs(
            self.mutants.select(places),
            self.originals.select(places),
            self.recipe_of[places],
            self.frame_of[places],
            self.kept[places],
            self.recipes,
        )

    def joined(self, other: Pairs) -> Pairs:
        """Returns these pairs and then the other's."""
        return Pairs(
            self.mutants.joined(other.mutants),
            self.originals.joined(other.originals),
            np.concatenate([self.recipe_of, other.recipe_of + len(self.recipes)]),
            np.concatenate([self.frame_of, other.frame_of]),
            np.concatenate([self.kept, other.kept]),
            (*self.recipes, *other.recipes),
        )

    def expected_rad(self, answers_rad: FloatArray, made: Mapping[str, Stimulus]) -> FloatArray:
        """Returns what a network that answers the originals so must answer the mutants, (N,): the same, or moved with the camera."""
        found = np.array(answers_rad, np.float64)
        for place in np.unique(self.recipe_of).tolist():
            if self.recipes[place].moves_camera(made):
                rows = self.recipe_of == place
                found[rows] = self.recipes[place].moved_rad(found[rows], made)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """The answers of one network to N pairs, (N,) each: on the originals, what is right on the mutants, and on those.

    excess: above 1 the relation is broken. counted: what the referee kept and the first network gets right unchanged.
    """

    original_rad: FloatArray
    right_rad: FloatArray
    mutant_rad: FloatArray
    excess: FloatArray
    counted: BoolArray


def clips_of(drive: Drive, recipes: Sequence[Recipe], frames: int, lead: int, rng: np.random.Generator) -> tuple[Clip, ...]:
    """Gives each recipe so many frames: any for a network that sees one frame, else a run of them.

    Only frames with a label are given to a network that sees one. A recipe that is given several times gets frames from as many stretches
    of the drive, so that no frame stands twice under it; of a short drive that may be fewer than asked for.
    """
    known = np.flatnonzero(np.isfinite(drive.steering_rad)) if lead == 0 else np.arange(len(drive))
    stretches = {recipe: iter(np.array_split(known, times)) for recipe, times in Counter(recipes).items()}
    clips = []
    for recipe in recipes:
        stretch = next(stretches[recipe])
        count = min(frames, len(stretch))
        if lead == 0:
            chosen = np.sort(rng.choice(stretch, count, replace=False))
        else:
            first = int(rng.integers(len(stretch) - count + 1))
            chosen = stretch[first : first + count]
        clips.append(Clip(chosen, recipe))
    return tuple(clip for clip in clips if len(clip.frames))


def render(
    drive: Drive,
    clips: Sequence[Clip],
    spec: InputSpec,
    made: Mapping[str, Stimulus],
    folder: Path,
    name: str,
    progress: Progress,
    judge: Judge | None = None,
    share: tuple[int, int] = (0, 1),
) -> Pairs:
    """Renders clips and shrinks them as the network does; what a former call left in the folder is not rendered again.

    share: which of how many processes this is, where several render one pool: (1, 4) renders every fourth file from the second on, and
    returns the pairs of these alone.
    """
    shown = replace(spec, frame_aspect=None)  # which changes no picture
    text = json.dumps([drive.sha256, repr(shown), judge is not None, [[clip.recipe.to_json(), clip.frames.tolist()] for clip in clips]])
    key = sha256(text.encode()).hexdigest()[:16]
    parts = [clips[start : start + _PART_CLIPS] for start in range(0, len(clips), _PART_CLIPS)]
    found: list[dict[str, np.ndarray]] = []
    for number, part in list(enumerate(parts))[share[0] :: share[1]]:
        path = folder / f"{name}-{key}-{number:04d}.npz"
        if not path.is_file():
            buffer = BytesIO()
            np.savez(buffer, **_rendered(drive, part, number * _PART_CLIPS, spec, made, judge))  # type: ignore[arg-type] # numpy's stub
            write_atomically(path, buffer.getvalue())
        with np.load(path) as stored:
            found.append({each: stored[each] for each in stored.files})
        progress(min((number + 1) * _PART_CLIPS, len(clips)), len(clips), f"rendering {name}")
    return _joined(found, spec, tuple(clip.recipe for clip in clips))


def _rendered(
    drive: Drive, clips: Sequence[Clip], first: int, spec: InputSpec, made: Mapping[str, Stimulus], judge: Judge | None
) -> dict[str, np.ndarray]:
    mutants: list[Labelled] = []
    originals: list[Labelled] = []
    recipe_of, frame_of, kept = [], [], []
    lead = spec.history.frames - 1
    for number, clip in enumerate(clips):
        batch = drive.read(clip.frames, lead=lead)
        if not len(batch):
            continue
        capture = capture_of(drive, batch.indices, lead)
        changed = as_numpy(clip.recipe.apply(batch.clip, made, capture))
        moves = clip.recipe.moves_camera(made)
        shown = as_numpy(clip.recipe.reference(batch.clip, made, capture)) if moves else batch.clip
        pixel_map = clip.recipe.pixel_map(made, capture.camera) if moves else None
        verdict = np.ones(len(batch), np.bool_)
        if judge is not None:
            said = judge(shown[lead:], changed[lead:], pixel_map)
            # as in a campaign: a referee that sees no road in the original must not hide what fails
            verdict = np.array(
                [word is Word.KEPT or reason is Reason.NO_ROAD for word, reason in zip(said.words, said.reasons, strict=True)]
            )
        labels = batch.steering_rad
        places = np.flatnonzero(np.isfinite(labels))
        mutants.append(Labelled.of(changed, clip.recipe.moved_rad(labels, made), spec).select(places))
        originals.append(Labelled.of(shown, labels, spec).select(places))
        recipe_of.append(np.full(len(places), first + number))
        frame_of.append(batch.indices[places])
        kept.append(verdict[places])
    found: dict[str, np.ndarray] = {}
    for side, parts in (("mutants", mutants), ("originals", originals)):
        if parts:
            whole = parts[0].joined(*parts[1:])
            found |= {f"{side}.pictures": whole.pictures.numpy(), f"{side}.labels": whole.labels_rad, f"{side}.windows": whole.rows()}
    if mutants:
        found |= {"recipe_of": np.concatenate(recipe_of), "frame_of": np.concatenate(frame_of), "kept": np.concatenate(kept)}
    return found


def _joined(parts: Sequence[Mapping[str, np.ndarray]], spec: InputSpec, recipes: tuple[Recipe, ...]) -> Pairs:
    whole = [part for part in parts if part]
    single = spec.history.frames == 1

    def side(name: str) -> Labelled:
        made = [
            Labelled(torch.from_numpy(part[f"{name}.pictures"]), part[f"{name}.labels"], None if single else part[f"{name}.windows"])
            for part in whole
        ]
        if not made:
            return Labelled(torch.empty((0, spec.height_px, spec.columns_px, spec.channels), dtype=torch.uint8), np.zeros(0))
        return made[0].joined(*made[1:])

    def column(name: str, kind: type) -> np.ndarray:
        return np.concatenate([part[name] for part in whole]) if whole else np.zeros(0, kind)

    return Pairs(
        side("mutants"), side("originals"), column("recipe_of", np.int64), column("frame_of", np.int64), column("kept", np.bool_), recipes
    )
