"""Cases over pictures: made again and compared, as the subject saw them, the pair with its arrows, and the recipe step by step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from math import isfinite, isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from skidpad.core.errors import SkidpadError
from skidpad.core.images import NumpyFrames, as_numpy, decode, write_image
from skidpad.core.stimuli import Recipe
from skidpad.core.units import side_of
from skidpad.kinds.bundles import Evidence, Judgement, loaded
from skidpad.kinds.pictures.judging import JudgedOutput, Originals, captured, frame_again
from skidpad.kinds.pictures.settings import StimulusOn
from skidpad.oracles.error import scale_of, times_tolerated
from skidpad.oracles.relations import RELATIONS, Answers, fails_unchanged
from skidpad.page.pictures import pair_picture
from skidpad.page.wording import answer
from skidpad.runs.records import Record
from skidpad.runs.replay import Replayed, ReplayResult, replay
from skidpad.runs.workers.here import pinned
from skidpad.stimuli.pictures import stimuli

if TYPE_CHECKING:
    from skidpad.kinds.pictures.campaign import DeepTest
    from skidpad.kinds.pictures.shrinking import PictureCampaign
    from skidpad.oracles.relations import Relation
    from skidpad.runs.folder import Run
    from skidpad.subjects.base import Subject


@dataclass(frozen=True, slots=True, eq=False)
class JudgedPair:
    """The last frames that a subject was asked about, (height, width, 3) each, with its answers and the label as shown."""

    original: NumpyFrames
    mutant: NumpyFrames
    answers: tuple[float, float, float]
    unit: str

    suffix: ClassVar[str] = ".png"

    def draw(self, title: str, path: Path) -> None:
        """Draws both pictures with the answers."""
        write_image(path, pair_picture(self.original, self.mutant, *self.answers, caption=title, unit=self.unit))


@dataclass(frozen=True, slots=True)
class PictureCheck:
    """A frame as it is and changed: files of pictures, the window of a subject with memory in order of time.

    relation, settings: the row of RELATIONS and what it is made with. label: in the unit of the records; None for none. recipe: as JSON,
    where it moves the camera and with it the right answer; else empty.
    """

    kind: ClassVar[str] = "pictures"

    originals: tuple[str, ...]
    mutants: tuple[str, ...]
    output: str
    relation: str
    settings: Mapping[str, float]
    label: float | None
    recipe: str = ""

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
        if self.recipe and judged.is_steering:
            recipe = Recipe.from_json(self.recipe)
            original = float(recipe.moved_rad(np.array([original]), stimuli(step.stimulus for step in recipe.steps))[0])
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


_PAIR, _STRIP, _RECIPE = "pair.png", "strip.png", "recipe.json"


@dataclass(frozen=True)
class PictureExporter:
    """Shows the cases of a run over pictures."""

    campaign: PictureCampaign
    run: Run

    @cached_property
    def _relation(self) -> Relation:
        return self.campaign.relation(Originals.of(self.run, len(self.campaign.drive)))

    def draw(self, row: Mapping[str, Any], folder: Path, stem: str) -> tuple[Path, ...]:
        """Draws original and mutant side by side with their answers."""
        record = Record.from_row(row)
        original, mutant = self._clips(record)
        path = folder / f"{stem}.png"
        write_image(path, self._pair(record, original[-1], mutant[-1]))
        return (path,)

    def export(self, row: Mapping[str, Any], folder: Path) -> Evidence:
        """Writes the frames (with those that the subject looks back at), the pair, the steps and the recipe."""
        record, judged = Record.from_row(row), self.campaign.judged
        clips = dict(zip(("original", "mutant"), self._clips(record), strict=True))
        names: dict[str, tuple[str, ...]] = {}
        for what, clip in clips.items():
            ages = range(len(clip) - 1, -1, -1)
            names[what] = tuple(f"frames/{what}.png" if age == 0 else f"frames/{what}-{age:02d}-before.png" for age in ages)
            for name, frame in zip(names[what], clip, strict=True):
                write_image(folder / name, frame)
        write_image(folder / _PAIR, self._pair(record, clips["original"][-1], clips["mutant"][-1]))
        write_image(folder / _STRIP, self._strip(record, clips["original"]))
        (folder / _RECIPE).write_text(json.dumps(json.loads(row["recipe"]), indent=2) + "\n", encoding="utf-8")
        unit = judged.shown_unit
        was, now = (answer(judged.shown(value), unit) for value in (record.original, record.mutant))
        steers = "steers" if judged.is_steering else f"answers {judged.name}"
        label = f"; the human: {answer(judged.shown(record.label), unit)}" if isfinite(record.label) else ""
        files = {name: f"what the subject sees: {what}" for what in names for name in names[what]}
        files |= {_PAIR: "both with their answers", _STRIP: "the recipe, step by step", _RECIPE: "the steps and their parameters"}
        return Evidence(
            title=f"{record.recipe} on frame {record.frame_id}",
            said=f"{steers} {was} on the original and {now} on the mutant{label}; {self._words(record)}",
            subject=str(self.run.config.get("subject", "")),
            files=files,
            recipe=json.loads(row["recipe"]),
            answers={
                "output": judged.name,
                "unit": judged.shown_unit,
                "original": judged.shown(record.original),
                "mutant": judged.shown(record.mutant),
                "label": judged.shown(record.label),
                "excess": record.excess,
                "picture": record.picture,
            },
            check=PictureCheck(
                names["original"],
                names["mutant"],
                judged.name,
                self._relation.name,
                asdict(self._relation),  # type: ignore[call-overload] # every relation is a dataclass of numbers
                record.label if isfinite(record.label) else None,
                row["recipe"] if record.recipe.moves_camera(self.campaign.stimuli) else "",
            ),
        )

    def _clips(self, record: Record) -> tuple[NumpyFrames, NumpyFrames]:
        """Returns the frames that the subject looks at, (lead + 1, height, width, 3), as they are and as the recipe leaves them."""
        lead = self.campaign.subject.lead
        batch = frame_again(self.campaign.drive, record.frame_index, lead)
        times_s = self.campaign.drive.times_at(batch.indices, lead)
        changed = as_numpy(self.campaign.mutate(batch.clip, record.recipe, times_s))
        if self.run.config.get("stimulus_on") == StimulusOn.LAST_FRAME.value:
            changed = np.concatenate([batch.clip[:lead], changed[lead:]])
        cut = record.recipe.reference(batch.clip, self.campaign.stimuli, captured(self.campaign.drive, times_s))
        return as_numpy(cut), changed

    def _pair(self, record: Record, original: NumpyFrames, mutant: NumpyFrames) -> NumpyFrames:
        judged = self.campaign.judged
        was, now, label = (judged.shown(value) for value in (record.original, record.mutant, record.label))
        return pair_picture(original, mutant, was, now, label, f"{record.recipe}: {self._words(record)}", unit=judged.shown_unit)

    def _strip(self, record: Record, clip: NumpyFrames) -> NumpyFrames:
        """Shows the picture after each step beside the original, with the answer at each."""
        judged, steps = self.campaign.judged, record.recipe.steps
        rows = []
        for count in range(1, len(steps) + 1):
            recipe = Recipe(steps[:count])
            times_s = self.campaign.drive.times_at([record.frame_index], self.campaign.subject.lead)
            mutants, observation = self.campaign.look(clip, recipe, times_s)
            now = judged.shown(float(observation.answers[0, judged.column]))
            was, label = judged.shown(record.original), judged.shown(record.label)
            last = as_numpy(mutants)[-1]
            rows.append(pair_picture(clip[-1], last, was, now, label, caption=f"{count}. {recipe}", unit=judged.shown_unit))
        return np.concatenate(rows) if rows else self._pair(record, clip[-1], clip[-1])

    def _words(self, record: Record) -> str:
        return times_tolerated(record.excess, scale_of(self._relation.name))


def replay_case(campaign: DeepTest, run: Run, prefix: str) -> ReplayResult:
    """Renders the case whose id begins with `prefix`, asks the subject again and judges again."""
    record = run.find(prefix)
    relation = campaign.relation(Originals.of(run, len(campaign.drive)))

    def render(_frame_id: str, recipe: Recipe) -> NumpyFrames:
        return campaign.picture(record.frame_index, recipe)

    def predict(_frame_id: str, recipe: Recipe) -> float:
        return campaign.answer(record.frame_index, recipe) if recipe.steps else campaign.compared(record.frame_index, record.recipe)

    return replay(record, run.manifest, render, predict, relation)


def replay_finding(campaign: DeepTest, run: Run, finding: str, picture: Path | None = None) -> Replayed:
    """Computes a finding again from its recipe and compares picture, answers and verdict; draws the pair where asked."""
    result = replay_case(campaign, run, finding)
    record, judged = result.record, campaign.judged
    relation = campaign.relation(Originals.of(run, len(campaign.drive)))
    unit = f" ({judged.shown_unit})" if judged.shown_unit else ""
    scale = scale_of(campaign.settings.relation)
    # what the referee did not keep was not judged, and is not now
    excess = record.excess if isnan(record.excess) else result.excess
    rows: list[tuple[str, object, object]] = [
        (f"original{unit}", judged.shown(record.original), judged.shown(result.original)),
        (f"mutant{unit}", judged.shown(record.mutant), judged.shown(result.mutant)),
        *([(f"human{unit}", judged.shown(record.label), judged.shown(record.label))] if isfinite(record.label) else []),
        ("error", times_tolerated(record.excess, scale), times_tolerated(excess, scale)),
        ("verdict", verdict_of(record.excess), verdict_of(excess)),
        ("picture", record.picture or "not stored", result.picture_again),
    ]
    remarks = [f"memory: the stimulus is applied {campaign.window_words}"] if campaign.window_words else []
    if result.violated and bool(fails_unchanged(relation, np.array([result.original]), np.array([record.label]))[0]):
        remarks.append("the original breaks the relation without any change, so that the transform need not be at fault")
    if record.referee is not None:
        remarks.append(f"referee: {record.referee}" + (f" ({record.reason})" if record.reason else ""))
    output = "" if judged.is_steering else f", {judged.name}"
    return Replayed(
        title=f"{record.case_id}: {record.recipe} on frame {record.frame_id}{output}",
        rows=tuple(rows),
        figures=_figures(result, campaign),
        reproduction=result.reproduction(*campaign.rounding),
        remarks=tuple(remarks),
        pictures=() if picture is None else (_write_pair(campaign, result, picture),),
    )


def verdict_of(excess: float) -> str:
    """Words what an excess means."""
    return "not judged" if isnan(excess) else "finding" if excess > 1.0 else "passed"


def _write_pair(campaign: DeepTest, result: ReplayResult, path: Path) -> Path:
    record, judged = result.record, campaign.judged
    original, mutant = campaign.original(record.frame_index, record.recipe), campaign.picture(record.frame_index, record.recipe)
    answers = (judged.shown(result.original), judged.shown(result.mutant), judged.shown(record.label))
    moved = campaign.moved_by(record.recipe, result.original)
    words = times_tolerated(result.excess, scale_of(campaign.settings.relation))
    caption = f"{record.recipe} {campaign.window_words}".strip() + f": {verdict_of(result.excess)}, {words}"
    return write_image(path, pair_picture(original, mutant, *answers, caption, unit=judged.shown_unit, moved=moved))


def _figures(result: ReplayResult, campaign: DeepTest) -> dict[str, object]:
    record, judged = result.record, campaign.judged
    suffix = f"_{judged.shown_unit}" if judged.output.is_angle else ""
    return {
        "case_id": record.case_id,
        "frame_id": record.frame_id,
        "recipe": str(record.recipe),
        "frames": campaign.subject.lead + 1,
        "stimulus_on": campaign.settings.stimulus_on if campaign.subject.lead else None,
        "output": judged.name,
        "unit": judged.shown_unit,
        "picture": result.picture.value,
        "violated": result.violated,
        f"original{suffix}": judged.shown(result.original),
        f"mutant{suffix}": judged.shown(result.mutant),
        f"label{suffix}": judged.shown(record.label),
        "excess": result.excess,
        "answer_change": result.answer_change,
    }
