"""DeepTest's retraining (RQ5): which frames are trained on, which are held out, and what it brought."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from skidpad.core.errors import BadParametersError, BadSubjectError
from skidpad.core.images import BoolArray
from skidpad.core.progress import Progress, silent
from skidpad.core.seeding import child_rng, child_seed
from skidpad.oracles.error import PredictionError, prediction_error
from skidpad.repairs.mutants import Pool, campaign_of, gather
from skidpad.repairs.report import ALL_MUTANTS, ORIGINALS, Improvement, RepairReport
from skidpad.repairs.settings import RepairSettings, Split
from skidpad.subjects.description import discard
from skidpad.subjects.training.data import Labelled, collect
from skidpad.subjects.training.fitting import FitReport, answers_rad, copied, fit
from skidpad.subjects.training.training import beside, save_subject
from skidpad.subjects.zoo import ARCHITECTURES

if TYPE_CHECKING:
    from skidpad.core.images import BoolArray
    from skidpad.drives.drive import Drive
    from skidpad.runs.folder import Run
    from skidpad.subjects.description import Description
    from skidpad.subjects.network_subject import NetworkSubject


STRETCHES = 5
"""The time split holds out the end of each of so many stretches: parts of the whole drive, and few edges."""


def training_frames(frames: int, settings: RepairSettings) -> BoolArray:
    """Tells which of `frames` frames in time order are trained on, (frames,); the rest is held out.

    Reference: DeepTest, section 5 (RQ5): 66 % at random.
    Deviates: the frame is drawn, not the synthetic picture; else fog of one density on a frame would be trained on and the
        next density on the very same frame held out.
    """
    trained = np.zeros(frames, np.bool_)
    if settings.split is Split.RANDOM:
        order = child_rng(settings.seed, "repair", "split").permutation(frames)
        trained[order[: round(settings.share * frames)]] = True
    else:
        for stretch in np.array_split(np.arange(frames), max(1, min(STRETCHES, frames // 2))):
            trained[stretch[: round(settings.share * len(stretch))]] = True
    if trained.all() or not trained.any():
        raise BadParametersError(
            f"a share of {settings.share} of {frames} frames leaves none to {'hold out' if trained.any() else 'train on'}; "
            "use a run over more frames or another --share"
        )
    return trained


_BATCH = 256


def repair(
    subject: NetworkSubject,
    run: Run,
    out: Path,
    settings: RepairSettings | None = None,
    train_drive: Drive | None = None,
    progress: Progress = silent,
) -> RepairReport:
    """Retrains a subject on a share of a run's mutants and writes OUT.safetensors and OUT.toml; the old subject stays as it is.

    train_drive: what the subject was trained on before; without it the share's originals take its place. Checkpoints stand
    beside OUT until the end; called again after it was killed, it goes on from them to the same result.
    """
    settings = settings or RepairSettings()
    check_repairable(subject)
    check_free(out)
    pool = gather(campaign_of(run, subject, settings.device), run, settings, progress)
    return repair_on(subject, pool, out, settings, train_drive, progress)


def repair_on(
    subject: NetworkSubject, pool: Pool, out: Path, settings: RepairSettings, train_drive: Drive | None = None, progress: Progress = silent
) -> RepairReport:
    """Retrains on mutants that were gathered already, so that several splits share them."""
    description = subject.description
    check_repairable(subject)
    check_free(out)
    trained = training_frames(len(pool.frame_ids), settings)
    mutant_trained = trained[pool.frame_of]
    held_out_ids = {frame for frame, is_trained in zip(pool.identities, trained.tolist(), strict=True) if not is_trained}
    shared = 0
    if train_drive is None:
        base = pool.originals.select(np.flatnonzero(trained))
    else:
        kept = [place for place in range(len(train_drive)) if train_drive.identity(place) not in held_out_ids]
        shared = len(train_drive) - len(kept)
        base = collect(train_drive.select(kept) if shared else train_drive, description.input, progress).data
    held_out = _HeldOut(pool, trained, mutant_trained)
    before = held_out.errors(subject.module, description, settings.device)
    start = _fresh(description, settings.seed) if settings.from_scratch else subject.module
    taken = np.flatnonzero(mutant_trained)
    # A checkpoint knows its data and settings, not the weights it began with: those are in its name.
    begun = "scratch" if settings.from_scratch else subject.sha256[:12]
    checkpoints = [beside(out, f".{name}-{begun}.checkpoint.pt") for name in ("repaired", "control")]

    def retrained(data: Labelled, checkpoint: Path, name: str) -> tuple[nn.Module, FitReport]:
        module = copied(start)
        return module, fit(module, description, data, None, settings.training(), progress=_named(name, progress), checkpoint=checkpoint)

    module, fitted = retrained(base.joined(pool.mutants.select(taken)), checkpoints[0], "retraining")
    after = held_out.errors(module, description, settings.device)
    control: dict[str, PredictionError] = {}
    if settings.control:
        other, _ = retrained(repeated(base, len(base) + len(taken), settings.seed), checkpoints[1], "control")
        control = held_out.errors(other, description, settings.device)
    saved = save_subject(module, replace(description, name=beside(out, "").name), out)
    for checkpoint in checkpoints:
        discard(checkpoint)
    return RepairReport(
        subject=description.name,
        subject_sha256=subject.sha256,
        toml=str(saved.toml),
        weights=str(saved.weights),
        weights_sha256=saved.weights_sha256,
        settings=settings,
        run_drive_sha256=pool.drive_sha256,
        training_drive="" if train_drive is None else train_drive.name,
        training_drive_sha256="" if train_drive is None else train_drive.sha256,
        available_mutants=pool.cases.available,
        unlabelled_mutants=pool.cases.unlabelled,
        training_frames=0 if train_drive is None else len(base),
        training_originals=len(base) if train_drive is None else 0,
        training_mutants=len(taken),
        held_out_frames=int((~trained).sum()),
        held_out_mutants=int((~mutant_trained).sum()),
        shared_frames=shared,
        epochs=len(fitted.curve),
        improvements=tuple(Improvement.of(name, before[name], after[name], control.get(name)) for name in before),
        notes=_notes(subject, pool, settings, train_drive, shared),
    )


def repeated(base: Labelled, pictures: int, seed: int) -> Labelled:
    """Returns the base over and over until there are so many pictures, the last round drawn at random.

    An epoch over them takes as many steps as one over the base and the mutants, at the same learning rates.
    """
    order = child_rng(seed, "repair", "control").permutation(len(base))
    return base.select(np.resize(order, pictures))


class _HeldOut:
    """The held-out pictures, each set by its name: the originals, the mutants by stimulus, and all mutants."""

    def __init__(self, pool: Pool, trained: BoolArray, mutant_trained: BoolArray) -> None:
        self._originals = pool.originals.select(np.flatnonzero(~trained))
        self._mutants = pool.mutants.select(np.flatnonzero(~mutant_trained))
        self._stimuli = np.asarray(pool.stimuli)[~mutant_trained]

    def errors(self, module: nn.Module, description: Description, device: str) -> dict[str, PredictionError]:
        """Measures a network on every set."""
        originals = answers_rad(module, description, self._originals, device)
        mutants = answers_rad(module, description, self._mutants, device)
        labels_rad = self._mutants.labels_rad
        sets = {name: self._stimuli == name for name in sorted(set(self._stimuli.tolist()))}
        return {
            ORIGINALS: prediction_error(originals, self._originals.labels_rad, worst=0),
            **{name: prediction_error(mutants[of], labels_rad[of], worst=0) for name, of in sets.items()},
            ALL_MUTANTS: prediction_error(mutants, labels_rad, worst=0),
        }


def check_trainable(subject: NetworkSubject) -> None:
    """Refuses a subject that skidpad cannot train and write again."""
    description = subject.description
    if description.architecture is None or not description.format.weights_only:
        names = ", ".join(ARCHITECTURES.names())
        raise BadSubjectError(
            f"{description.name!r} is of format {description.format.value!r}, a network that skidpad can run but not train; "
            f"only weights of a network of the zoo ({names}) can be repaired. `--export FOLDER` writes the mutants for your own training"
        )


def check_repairable(subject: NetworkSubject) -> None:
    """Refuses a subject that cannot be retrained the paper's way, which knows single pictures alone."""
    check_trainable(subject)
    if subject.lead:
        raise BadSubjectError(
            f"{subject.description.name!r} looks at {subject.lead + 1} frames at once, and the paper's retraining knows single pictures; "
            "leave out --preset deeptest"
        )


def check_free(out: Path) -> None:
    """Refuses a place where a subject stands already; a repair never writes over one."""
    for suffix in (".toml", ".safetensors"):
        if beside(out, suffix).exists():
            raise BadSubjectError(f"{beside(out, suffix)} exists, and a repair writes over no subject; choose another --out")


def _named(name: str, progress: Progress) -> Progress:
    def report(done: int, total: int, note: str = "") -> None:
        progress(done, total, f"{name}, {note}")

    return report


def _fresh(description: Description, seed: int) -> nn.Module:
    with torch.random.fork_rng([]):  # the global generator is the caller's
        torch.manual_seed(child_seed(seed, "repair", "weights"))
        return ARCHITECTURES.get(description.architecture or "").build(description.input)


def _notes(subject: NetworkSubject, pool: Pool, settings: RepairSettings, train_drive: Drive | None, shared: int) -> tuple[str, ...]:
    notes = []
    if settings.split is Split.RANDOM:
        notes.append("random split, the paper's: held-out frames have near-duplicates in time among those trained on, so it flatters")
    else:
        notes.append(f"time split: the end of each of {STRETCHES} stretches of the drive is held out")
    if pool.cases.available > len(pool.mutants):
        notes.append(f"{len(pool.mutants)} of the {pool.cases.available} labelled mutants were drawn at random (max_mutants)")
    if pool.cases.unlabelled:
        notes.append(f"{pool.cases.unlabelled} mutants without a label were left out")
    if pool.subject_sha256 != subject.sha256:
        notes.append("the run was made with another subject: its mutants were not found, only reused, on this one")
    if train_drive is None:
        notes.append("no training drive: retrained on the mutants' share and their originals only, so what was learned before may fade")
    if shared:
        notes.append(
            f"the training drive shares {shared} held-out frames with the run; they were left out of it, but their neighbours in time "
            "were not: the errors after are too good"
        )
    if settings.control:
        notes.append("control: retrained from the same weights, with the same settings and steps, on the same pictures without the mutants")
    else:
        notes.append("no control: the change holds what any further training brings, too; compare the mutants' with the originals'")
    return tuple(notes)
