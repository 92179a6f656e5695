"""The repair that helps most at the least cost: candidates trained alike, and chosen on a stretch of the drive that none saw."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property, partial
from math import ceil, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load as load_tensors

from skidpad.core.errors import BadDriveError, BadParametersError, UnknownNameError
from skidpad.core.progress import Progress, silent
from skidpad.core.seeding import child_rng
from skidpad.core.stimuli import Recipe, Stimulus
from skidpad.oracles.relations import Answers, fails_unchanged
from skidpad.repairs.blending import BLENDS, between, write_network
from skidpad.repairs.epochs import Epochs
from skidpad.repairs.families import Families, aimed, families
from skidpad.repairs.lessons import Diet, RepairLesson, Validation
from skidpad.repairs.looks import LOOKS, drawn_look
from skidpad.repairs.pairs import Clip, Held, Pairs, clips_of, render
from skidpad.repairs.plan import (
    BEFORE,
    CLEAN,
    CONTROL,
    SEEN,
    UNSEEN_SET,
    Candidate,
    Rate,
    SearchSettings,
    Task,
    Trained,
    TrainedEpoch,
    Way,
    badness,
    check_labels,
    is_flat,
)
from skidpad.stimuli.pictures import stimuli
from skidpad.subjects.description import discard, write_atomically
from skidpad.subjects.training.data import Labelled, collect, is_staged
from skidpad.subjects.training.fitting import answers_rad, copied, fit

if TYPE_CHECKING:
    from torch import nn

    from skidpad.core.images import BoolArray, FloatArray
    from skidpad.drives.drive import Drive
    from skidpad.kinds.limits.probes import Judge

_FRAMES_PER_RECIPE = 8
"""Frames that share a drawn recipe in the pool: enough draws for variety, few enough to prepare where each run has a lead."""

_FRAMES_OF_A_WEATHER = 16
"""For each frame under a severity of a condition: learned weathers are few, and all that is known of real ones."""

_STRETCHES = 4
"""Runs of frames under each look of a weather that judges: neighbouring frames fail together, so that many short runs tell more."""

_FEW = 20
"""Frames that choose: with fewer, one frame decides which candidate is best."""

_SHARED = 0.5
"""Of the pool of a repair that aims at a limit: the rest is what keeps it general."""

_BEYOND = 1.15
"""How far beyond the limit that is aimed at the pool reaches, as a share of the way from harmless to worst."""


class Repairs:
    """Trains, chooses and judges; whatever is done is kept in a folder, and is not done again.

    share: see `pairs.render`; with a share of the pictures it can render, and neither train nor judge.
    """

    def __init__(
        self, task: Task, out: Path, settings: SearchSettings, progress: Progress = silent, share: tuple[int, int] = (0, 1)
    ) -> None:
        self.task, self.out, self.settings, self.progress, self._share = task, out, settings, progress, share
        known = families()
        for name in (*settings.families, *settings.judged):
            if name not in known:
                raise UnknownNameError.among("condition that a repair can train on", name, known)
        self.families = Families.of(settings.families or task.wanted, settings.unseen, settings.train_weathers)
        aimed_at = "" if task.aim is None else task.aim.row.stimulus
        is_held_back = aimed_at in self.families.made and aimed_at not in self.families.seen
        if is_held_back:
            self.families = self.families.showing(aimed_at)
        self.made: Mapping[str, Stimulus] = {
            **stimuli(),
            **stimuli(f"weather:{name}" for name in settings.weathers),
            **self.families.weathers,
            **LOOKS,
        }
        self._start_answers: dict[str, FloatArray] = {}
        drive = task.drive
        if not drive.has_labels:
            raise BadDriveError(f"no frame of {drive.name!r} has a label, and a repair must know what is right; use a drive with labels")
        first, self.judged_drive = drive.split(settings.train_share)
        self.train_drive, self.validation_drive = first.split(1.0 - settings.validation_share)
        for part, name in ((self.train_drive, "train on"), (self.validation_drive, "validate on"), (self.judged_drive, "judge on")):
            labelled, least = int(np.isfinite(part.steering_rad).sum()), max(4, _FRAMES_PER_RECIPE if self.lead else 0)
            if labelled < least:
                needed = ceil(len(drive) * least / labelled) if labelled else 0
                raise BadDriveError(
                    f"{drive.name!r} leaves {labelled} frames with a label to {name}, and a repair needs {least} there; use a longer drive"
                    f"{f', of about {needed} frames instead of {len(drive)}' if needed else ''}"
                )
        self.notes = list(check_labels(task.subject, self.train_drive))
        choosing = int(np.isfinite(self.validation_drive.steering_rad).sum())
        if choosing < _FEW:
            self.notes.append(f"only {choosing} frames choose among the candidates, so that chance decides much of it; use a longer drive")
        if is_held_back:
            self.notes.append(f"{aimed_at} is aimed at, and so trained on, though --unseen or --families leaves it out")

    @property
    def spec(self) -> Any:
        """The input of the network."""
        return self.task.subject.description.input

    @property
    def lead(self) -> int:
        """How many frames the network looks back."""
        return int(self.spec.history.frames) - 1

    @property
    def pool_folder(self) -> Path:
        """Where rendered pictures are kept."""
        return self.task.pool or self.out / "work"

    # What is trained, validated and judged on.

    @cached_property
    def clean(self) -> Labelled:
        """The clean pictures that are trained on."""
        return collect(self.train_drive, self.spec, self.progress).data

    @cached_property
    def validation(self) -> Validation:
        """Clean pictures and pairs of the validation stretch: families that may be seen, and looks where a candidate is taught them.

        Looks tell whether a candidate that was not taught them learned more than its families.
        """
        count = max(24, self.settings.pictures // 8 // _FRAMES_PER_RECIPE)
        recipes = self._drawn("validation", count)
        if any(Way(way).has_looks for way in self.settings.ways):
            recipes += self._looks("validation looks", count)
        pairs = self._render("validation", self.validation_drive, recipes, _FRAMES_PER_RECIPE, judge=self.task.judge)
        clean = collect(self.validation_drive, self.spec, self.progress).data
        return Validation(clean.joined(clean.mirrored()) if self.settings.mirror_choice else clean, pairs)

    @cached_property
    def random(self) -> Pairs:
        """The pool of random stimuli."""
        recipes = self._drawn("random", max(4, self.settings.pictures // _FRAMES_PER_RECIPE))
        return self._render("random", self.train_drive, recipes, _FRAMES_PER_RECIPE)

    @cached_property
    def looks(self) -> Pairs:
        """The pool of random looks."""
        count = max(1, round(self.settings.looks_each * max(4, self.settings.pictures // _FRAMES_PER_RECIPE)))
        return self._render("looks", self.train_drive, self._looks("looks", count), _FRAMES_PER_RECIPE)

    @cached_property
    def findings(self) -> Pairs | None:
        """The pool of findings on the frames that are trained on, of the families that may be seen; None where there are none."""
        seen, last = set(self.families.seen), len(self.train_drive)
        usable = [
            (frame, recipe)
            for frame, recipe in self.task.findings
            if frame < last and {step.stimulus for step in recipe.steps} <= seen and np.isfinite(self.train_drive.steering_rad[frame])
        ]
        if len(usable) > self.settings.max_findings:
            places = child_rng(self.settings.seed, "repair", "findings").choice(len(usable), self.settings.max_findings, replace=False)
            usable = [usable[place] for place in np.sort(places).tolist()]
        if not usable:
            return None
        by_recipe: dict[Recipe, list[int]] = {}
        for frame, recipe in usable:
            by_recipe.setdefault(recipe, []).append(frame)
        if self.lead == 0:
            clips = [Clip(np.unique(frames), recipe) for recipe, frames in by_recipe.items()]
        else:
            clips = [Clip(np.array([frame]), recipe) for frame, recipe in usable]
        return render(self.train_drive, clips, self.spec, self.made, self.pool_folder, "findings", self.progress)

    @cached_property
    def judged_clean(self) -> Labelled:
        """The clean pictures of the stretch that no training and no choice saw."""
        return collect(self.judged_drive, self.spec, self.progress).data

    @cached_property
    def judged(self) -> Mapping[str, Pairs]:
        """The pairs of that stretch: seen families, each unseen group, and learned weathers."""
        return {name: self.judged_set(name, recipes) for name, recipes in self.judged_recipes.items()}

    @cached_property
    def judged_recipes(self) -> Mapping[str, Sequence[Recipe]]:
        """What judges, by set."""
        groups = self.families.groups
        by_set: dict[str, list[Recipe]] = {SEEN: []}
        judged = self.settings.judged or (*self.families.seen, *self.families.unseen)
        for name in (each for each in judged if each in self.families.seen or each in self.families.unseen):
            key = SEEN if name in self.families.seen else f"unseen: {groups[name]}"
            by_set.setdefault(key, []).extend(self.families.ladder(name))
        for weather in self.settings.weathers:
            name = f"weather:{weather}"
            by_set[name] = [Recipe.of(name, params) for params in self.made[name].space.grid for _ in range(_STRETCHES)]
        return {name: recipes for name, recipes in by_set.items() if recipes}

    def judged_set(self, name: str, recipes: Sequence[Recipe]) -> Pairs:
        """Renders one set that judges; a learned weather has as many frames as four conditions, on short runs."""
        frames = self.settings.judged_frames
        if name.startswith("weather:"):
            frames = max(1, round(frames * _FRAMES_OF_A_WEATHER / len(recipes)))
        file = name.replace(": ", "-").replace(":", "-").replace(" ", "-")
        return self._render(file, self.judged_drive, recipes, frames, judge=self.task.judge)

    def _drawn(self, name: str, count: int) -> list[Recipe]:
        rng, aim = child_rng(self.settings.seed, "repair", name), self.task.aim
        if aim is None:
            return [self.families.draw(rng) for _ in range(count)]
        share = min(1.0, aim.share * _BEYOND)
        aims = partial(aimed, aim.row.stimulus, aim.row.severity, share, self.made)
        return [aims(rng) if rng.random() < _SHARED else self.families.draw(rng) for _ in range(count)]

    def _looks(self, name: str, count: int) -> list[Recipe]:
        rng = child_rng(self.settings.seed, "repair", name)
        return [drawn_look(rng, self.settings.repaints) for _ in range(count)]

    def _render(self, name: str, drive: Drive, recipes: Sequence[Recipe], frames: int, judge: Judge | None = None) -> Pairs:
        clips = clips_of(drive, recipes, frames, self.lead, child_rng(self.settings.seed, "repair", "frames", name))
        return render(drive, clips, self.spec, self.made, self.pool_folder, name, self.progress, judge, self._share)

    # Training.

    def candidates(self) -> list[Candidate]:
        """Returns the candidates of the search; those that need findings are left out where there are none."""
        ways = list(self.settings.ways)
        if self.findings is None and Way.FINDINGS.value in ways:
            ways.remove(Way.FINDINGS.value)
            said = (
                f"no finding of the run lies on the {len(self.train_drive)} frames that are trained on and on a family that may be seen, "
                "so that the way `findings` was left out"
            )
            if not ways:
                raise BadParametersError(
                    f"{said}; nothing is left to train on: use --ways random,consistency or a run that found something"
                )
            self.notes.append(said)
        return self.settings.candidates(ways)

    def pool(self, way: str) -> Pairs:
        """Returns the mutants that a way learns from."""
        if way == Way.FINDINGS.value and self.findings is not None:
            return self.findings
        has_looks = Way(way).has_looks
        if not has_looks and way != Way.MIX.value:
            return self.random
        mixed = self.random if self.findings is None else self.random.joined(self.findings)
        return mixed.joined(self.looks) if has_looks else mixed

    def train(self, candidate: Candidate) -> Trained:
        """Trains a candidate, or reads what was trained; a checkpoint stands beside until the end."""
        record = self.out / "candidates" / f"{candidate.name}.json"
        if record.is_file():
            return Trained.read(record.read_text())
        _ = self.before  # is measured outside of a training
        is_control = candidate.way == CONTROL
        pairs = self.random if is_control else self.pool(candidate.way)
        diet = Diet(candidate.strength, 1.0, 0.0) if is_control else Way(candidate.way).diet(candidate.strength)
        stem = self.out / "work" / f"{candidate.name}-{self.task.subject.sha256[:12]}"
        checkpoint, epochs = stem.with_name(f"{stem.name}.checkpoint.pt"), Epochs(stem.with_name(f"{stem.name}.epochs.json"), self.measured)
        lesson = RepairLesson(
            len(self.clean),
            len(pairs),
            diet,
            self.validation,
            most_cost=self.settings.most_cost,
            is_control=is_control,
            loss=self.task.loss,
            step=self.task.step,
            first=self.task.subject.module if diet.asks_first else None,
            run=_FRAMES_PER_RECIPE if is_staged(self.task.subject.module, self.spec) else 1,
            watch=epochs,
        )
        module, description = copied(self.task.subject.module), self.task.subject.description
        data = self.clean if is_control else self.clean.joined(pairs.mutants, pairs.originals)
        fitted = fit(
            module,
            description,
            data,
            self.validation.data,
            self.settings.training(candidate),
            progress=lambda done, total, note="": self.progress(done, total, f"{candidate.name}, {note}"),
            checkpoint=checkpoint,
            lesson=lesson,
        )
        weights = record.with_suffix(".safetensors")
        made = Trained(candidate, nan, nan, nan, fitted.best_epoch, len(fitted.curve), str(weights.relative_to(self.out)))
        found = self._blended(module, replace(made, reached=epochs.best(fitted.curve, self.settings.epochs)))
        write_network(module, replace(description, name=candidate.name), weights)
        write_atomically(record, json.dumps(asdict(found), indent=2).encode())
        for path in (checkpoint, epochs.path):
            discard(path)
        return found

    def _blended(self, module: nn.Module, made: Trained) -> Trained:
        """Leaves those weights between the start's and the trained ones in the network that fail least among those that may be chosen."""
        limit = (1.0 + self.settings.most_cost) * self.before.clean_rmse_rad
        start, end = self.task.subject.module.state_dict(), {name: each.clone() for name, each in module.state_dict().items()}
        tried = []
        # a network in stages can have changed in an early one though the last one kept what it began with
        is_changed = any(not torch.equal(start[name].to(last.device), last) for name, last in end.items())
        for share in BLENDS if is_changed else (1.0,):
            module.load_state_dict(between(start, end, share))
            tried.append(replace(self.validated(module, made), blend=share))
        affordable = [each for each in tried if each.clean_rmse_rad <= limit and not is_flat(each, self.before)]
        best = min(affordable, key=badness, default=min(tried, key=lambda each: each.clean_rmse_rad))
        module.load_state_dict(between(start, end, best.blend))
        return best

    @cached_property
    def before(self) -> Trained:
        """The network as it is."""
        return self.validated(self.task.subject.module, Trained(Candidate(BEFORE, 0.0, self.settings.seed), nan, nan, nan, 0, 0, ""))

    def validated(self, module: nn.Module, made: Trained) -> Trained:
        """Measures a network on the validation stretch."""
        answers = answers_rad(module, self.task.subject.description, self.validation.data, self.settings.device)
        found = self.measured(answers)
        return replace(
            made,
            clean_rmse_rad=found.clean_rmse_rad,
            stressed_rms_rad=found.stressed_rms_rad,
            failure_rate=found.failure_rate,
            response=found.response,
        )

    def measured(self, answers: FloatArray) -> TrainedEpoch:
        """Returns the figures of a network's answers to the validation stretch, of no epoch yet."""
        clean, stressed = self.validation.errors_rad(answers)
        many, pairs = len(self.validation.clean), self.validation.pairs
        mutants, originals = answers[many : many + len(pairs)], answers[many + len(pairs) :]
        rate = self.rate("validation", pairs, mutants, originals).failure_rate
        return TrainedEpoch(0, clean, stressed, rate, self.validation.response(answers))

    def module_of(self, trained: Trained) -> nn.Module:
        """Returns the network of a candidate."""
        module = copied(self.task.subject.module)
        module.load_state_dict(load_tensors((self.out / trained.weights).read_bytes()))
        return module

    # Judging.

    def rate(self, name: str, pairs: Pairs, mutants: FloatArray, originals: FloatArray) -> Rate:
        """Counts failures among what the referee kept; frames that the first network gets wrong unchanged count for nobody."""
        found = self._held_against(name, pairs, mutants, originals)
        counted = found.counted
        error, moved = (mutants - pairs.mutants.labels_rad)[counted], (mutants - found.right_rad)[counted]
        return Rate.of(int((found.excess[counted] > 1.0).sum()), error, moved)

    def excess(self, name: str, pairs: Pairs, module: nn.Module) -> Held:
        """Returns by how much each mutant of a set breaks the relation with a network."""
        return self._held_against(name, pairs, self._answers(module, pairs.mutants), self._answers(module, pairs.originals))

    def _held_against(self, name: str, pairs: Pairs, mutants: FloatArray, originals: FloatArray) -> Held:
        right = pairs.expected_rad(originals, self.made)
        excess = self.task.relation.excess(Answers(right, mutants, pairs.mutants.labels_rad))
        return Held(originals, right, mutants, excess, pairs.kept & ~self._wrong(name, pairs) & ~np.isnan(excess))

    def _wrong(self, name: str, pairs: Pairs) -> BoolArray:
        if name not in self._start_answers:
            self._start_answers[name] = self._answers(self.task.subject.module, pairs.originals)
        return fails_unchanged(self.task.relation, self._start_answers[name], pairs.originals.labels_rad)

    def rates(self, module: nn.Module) -> dict[str, Rate]:
        """Judges a network on every set of the stretch that no training saw."""
        clean = self._answers(module, self.judged_clean)
        found = {CLEAN: Rate.of(0, clean - self.judged_clean.labels_rad, np.zeros(len(clean)))}
        for name, pairs in self.judged.items():
            found[name] = self.rate(name, pairs, self._answers(module, pairs.mutants), self._answers(module, pairs.originals))
        groups = [rate for name, rate in found.items() if name.startswith("unseen: ")]
        if not groups:
            return found
        # what counts most stands above its parts
        summed = {CLEAN: found.pop(CLEAN)} | ({SEEN: found.pop(SEEN)} if SEEN in found else {}) | {UNSEEN_SET: Rate.pooled(groups)}
        return summed | found

    def _answers(self, module: nn.Module, data: Labelled) -> FloatArray:
        return answers_rad(module, self.task.subject.description, data, self.settings.device)
