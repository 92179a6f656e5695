"""Cases over pictures: the frames as the subject saw them, the pair with its arrows, and the recipe step by step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skidpad.core.errors import BadRunError
from skidpad.core.images import NumpyFrames, as_numpy, write_image
from skidpad.core.stimuli import Recipe
from skidpad.kinds.bundles import PictureCheck
from skidpad.kinds.evidence import WITNESSES, Evidence
from skidpad.kinds.pictures.judging import Originals
from skidpad.kinds.pictures.settings import StimulusOn
from skidpad.oracles.error import scale_of, times_tolerated
from skidpad.page.arrows import pair_picture
from skidpad.page.wording import answer
from skidpad.runs.records import Record

if TYPE_CHECKING:
    from skidpad.kinds.pictures.shrinking import PictureCampaign
    from skidpad.oracles.relations import Relation
    from skidpad.runs.folder import Run


_PAIR, _STRIP, _RECIPE = "pair.png", "strip.png", "recipe.json"


@WITNESSES.register("deeptest")
@dataclass(frozen=True)
class PictureWitness:
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

    def testify(self, row: Mapping[str, Any], folder: Path) -> Evidence:
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
            ),
        )

    def _clips(self, record: Record) -> tuple[NumpyFrames, NumpyFrames]:
        """Returns the frames that the subject looks at, (lead + 1, height, width, 3), as they are and as the recipe leaves them."""
        lead = self.campaign.subject.lead
        batch = self.campaign.drive.read([record.frame_index], lead=lead)
        if not len(batch):
            raise BadRunError(f"the frame can no longer be read: {batch.problems[0]}; put the drive back as it was")
        changed = as_numpy(self.campaign.mutate(batch.clip, record.recipe))
        if self.run.config.get("stimulus_on") == StimulusOn.LAST_FRAME.value:
            changed = np.concatenate([batch.clip[:lead], changed[lead:]])
        return batch.clip, changed

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
            mutants, observation = self.campaign.look(clip, recipe)
            now = judged.shown(float(observation.answers[0, judged.column]))
            was, label = judged.shown(record.original), judged.shown(record.label)
            last = as_numpy(mutants)[-1]
            rows.append(pair_picture(clip[-1], last, was, now, label, caption=f"{count}. {recipe}", unit=judged.shown_unit))
        return np.concatenate(rows) if rows else self._pair(record, clip[-1], clip[-1])

    def _words(self, record: Record) -> str:
        return times_tolerated(record.excess, scale_of(self._relation.name))
