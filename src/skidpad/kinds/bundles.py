"""What a bundle checks: one case, kept so that any later subject can be asked about it again, without the run that found it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from skidpad.core.errors import SkidpadError, UnknownNameError
from skidpad.core.images import NumpyFrames, decode
from skidpad.core.units import side_of
from skidpad.kinds.pictures.judging import JudgedOutput
from skidpad.oracles.error import scale_of, times_tolerated
from skidpad.oracles.relations import RELATIONS, Answers
from skidpad.runs.workers.performing import pinned
from skidpad.subjects.base import Subject
from skidpad.subjects.loading import load_subject
from skidpad.subjects.pretrained import subject_path

FINDING = "finding.json"
FORMAT = 1
"""The version of a bundle's layout."""


class Scene(Protocol):
    """What can be drawn of a judgement: a dataclass of its own for each kind of check, see `report/bundle_pictures.py`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


@dataclass(frozen=True, slots=True, eq=False)
class JudgedPair:
    """The last frames that a subject was asked about, (height, width, 3) each, with its answers and the label as shown."""

    original: NumpyFrames
    mutant: NumpyFrames
    answers: tuple[float, float, float]
    unit: str


@dataclass(frozen=True, slots=True, eq=False)
class Judgement:
    """How a subject did on a bundled case, and what it did, in words and as something to draw (None where there is nothing)."""

    holds: bool
    said: str
    scene: Scene | None = None


class Check(Protocol):
    """A bundled case that judges subjects: a dataclass of plain values."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def judge(self, folder: Path, subject: str | Path | Subject) -> Judgement:
        """Asks a subject, loaded or by the text that names it, about the case whose files lie in `folder`."""
        ...


@dataclass(frozen=True, slots=True)
class PictureCheck:
    """A frame as it is and changed: files of pictures, the window of a subject with memory in order of time.

    relation, settings: the row of RELATIONS and what it is made with. label: in the unit of the records; None for none.
    """

    originals: tuple[str, ...]
    mutants: tuple[str, ...]
    output: str
    relation: str
    settings: Mapping[str, float]
    label: float | None

    def judge(self, folder: Path, subject: str | Path | Subject) -> Judgement:
        """Asks about both pictures and applies the relation."""
        asked = loaded(subject)
        if asked.lead >= len(self.originals):
            raise SkidpadError(
                f"this subject looks back at {asked.lead} frames and the bundle holds {len(self.originals)}; export the finding anew for it"
            )
        judged = JudgedOutput.of(asked.description, self.output)
        clips = [_frames(folder, files[-1 - asked.lead :]) for files in (self.originals, self.mutants)]
        with pinned():
            original, mutant = (float(asked.predict(clip)[-1, judged.column]) for clip in clips)
        relation = RELATIONS.get(self.relation)(**self.settings)
        label = float("nan") if self.label is None else self.label
        excess = float(relation.excess(Answers(np.array([original]), np.array([mutant]), np.array([label])))[0])
        answers = f"{judged.name} {_worded(original, judged)} on the original, {_worded(mutant, judged)} on the mutant"
        human = f"; the human steers {_worded(label, judged)}" if isfinite(label) else ""
        unchanged = float(relation.excess(Answers(np.array([original]), np.array([original]), np.array([label])))[0])
        words = times_tolerated(excess, scale_of(self.relation)) if isfinite(excess) else "that cannot be accepted"
        tolerated = f"{human}; {self.relation}: {words}" + ("; the original breaks it without any change" if unchanged > 1.0 else "")
        shown = (judged.shown(original), judged.shown(mutant), judged.shown(label))
        return Judgement(not excess > 1.0, answers + tolerated, JudgedPair(clips[0][-1], clips[1][-1], shown, judged.shown_unit))


def _worded(value: float, judged: JudgedOutput) -> str:
    """Words an answer; an angle has a side, positive is left."""
    shown = judged.shown(value)
    if judged.output.is_angle and isfinite(shown):
        return f"{abs(shown):.1f} {judged.shown_unit} {side_of(shown)}"
    return f"{shown:.4g} {judged.shown_unit}".strip()


CHECKS: Mapping[str, tuple[str, str]] = {
    "pictures": (__name__, "PictureCheck"),
    "drive": ("skidpad.kinds.drives.evidence", "DriveCheck"),
    "duel": ("skidpad.kinds.duels.evidence", "DuelCheck"),
}
"""The kinds of checks: module and class; a bundle imports nothing that another kind needs."""


def check_to_table(check: Check) -> dict[str, Any]:
    """Writes a check as plain values."""
    kind = next(name for name, (_, row) in CHECKS.items() if row == type(check).__name__)
    return {"kind": kind, **{field.name: getattr(check, field.name) for field in fields(check)}}


def read_check(folder: Path) -> Check:
    """Reads the check of a bundle."""
    path = folder / FINDING
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        version, values = table["skidpad_bundle"], dict(table["check"])
        kind = values.pop("kind")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SkidpadError(f"{folder} is no bundle: {FINDING} cannot be read ({error}); `skidpad export RUN FINDING` writes one") from error
    if version != FORMAT:
        raise SkidpadError(f"the bundle {folder} has format {version}, and this skidpad reads {FORMAT}; export the finding anew")
    if kind not in CHECKS:
        raise UnknownNameError.among("kind of bundle", str(kind), CHECKS)
    try:
        made: Check = _class_of(kind)(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})
    except TypeError as error:
        raise SkidpadError(f"the check in {path} is damaged ({error}); export the finding anew") from error
    return made


def judge_bundle(folder: Path, subject: str | Path | Subject) -> Judgement:
    """Asks a subject about the case of a bundle; the run that found it is not needed."""
    return read_check(folder).judge(folder, subject)


def _class_of(kind: str) -> Callable[..., Check]:
    module, name = CHECKS[kind]
    row: Callable[..., Check] = getattr(import_module(module), name)
    return row


def loaded(subject: str | Path | Subject) -> Subject:
    """Returns a subject, read from its description where only that is named (`demo` comes along)."""
    return load_subject(subject_path(str(subject))) if isinstance(subject, str | Path) else subject


def _frames(folder: Path, files: tuple[str, ...]) -> NumpyFrames:
    pictures = []
    for name in files:
        if not (folder / name).resolve().is_relative_to(folder.resolve()):
            raise SkidpadError(f"the bundle names a picture outside of its folder: {name!r}; export the finding anew")
        try:
            picture = decode((folder / name).read_bytes())
        except OSError as error:
            raise SkidpadError(f"the bundle lacks the picture {name!r} ({error.strerror}); export the finding anew") from error
        if picture is None:
            raise SkidpadError(f"the picture {name!r} of the bundle is damaged; export the finding anew")
        pictures.append(picture)
    return np.stack(pictures)
