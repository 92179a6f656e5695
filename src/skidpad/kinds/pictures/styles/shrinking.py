"""Critical conditions made again, and made smaller: a style nearer to its weather's most ordinary look that still turns the wheel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from math import degrees, isfinite, isnan
from typing import TYPE_CHECKING, Any

import torch

from skidpad.core.images import FloatArray, Frames, NumpyFrames, as_numpy, write_image
from skidpad.core.progress import Progress, silent
from skidpad.core.stimuli import Recipe, Stimulus
from skidpad.kinds import kind as kinds
from skidpad.kinds.pictures.evidence import PictureExporter, verdict_of
from skidpad.kinds.pictures.judging import JudgedOutput
from skidpad.kinds.pictures.shrinking import Accepts, shrink_recipe
from skidpad.kinds.pictures.styles.applying import picture as rendered
from skidpad.kinds.pictures.styles.applying import replay_scene, reproduction
from skidpad.kinds.pictures.styles.campaign import GUIDES
from skidpad.kinds.pictures.styles.fitness import filter_of
from skidpad.kinds.pictures.styles.page import tactic_warnings
from skidpad.kinds.pictures.styles.scenes import at_working_size
from skidpad.kinds.pictures.styles.summary import ConditionSummary, summarise
from skidpad.kinds.shrinking import Shrunk
from skidpad.oracles.error import times_tolerated
from skidpad.oracles.relations import Answers, SteersAlike
from skidpad.page.model import values_of
from skidpad.page.pictures import pair_picture
from skidpad.referee.verdict import judge
from skidpad.runs.replay import Replayed
from skidpad.stimuli.weather.translation import WeatherStimulus
from skidpad.subjects.base import Observation

if TYPE_CHECKING:
    from pathlib import Path

    from skidpad.drives.drive import Drive
    from skidpad.kinds.pictures.judging import Originals, Words
    from skidpad.kinds.pictures.styles.campaign import Tactic
    from skidpad.oracles.relations import Relation
    from skidpad.runs.folder import Run
    from skidpad.runs.replay import ReplayResult
    from skidpad.subjects.base import Subject


@dataclass(frozen=True)
class StyleCampaign:
    """A search for conditions seen as a campaign over pictures: one stimulus, the weather, whose parameters are its style."""

    campaign: Tactic

    @property
    def subject(self) -> Subject:
        """The network under test."""
        return self.campaign.subject

    @property
    def drive(self) -> Drive:
        """Where the scenes are from."""
        return self.campaign.drive

    @cached_property
    def stimuli(self) -> Mapping[str, Stimulus]:
        """The weather under its name."""
        return {self.campaign.weather.card.name: WeatherStimulus(self.campaign.weather)}

    @cached_property
    def judged(self) -> JudgedOutput:
        """The angle that is judged."""
        return JudgedOutput.of(self.subject.description, self.campaign.settings.output)

    def relation(self, originals: Originals) -> Relation:
        """Returns the relation at the smallest bound of the search, which findings are told by."""
        del originals
        return SteersAlike(within_deg=self.campaign.settings.bounds_deg[0])

    def mutate(self, frames: NumpyFrames, recipe: Recipe, times_s: FloatArray | None = None) -> Frames:  # noqa: ARG002  a style knows no time
        """Translates frames one by one, as a replay does: how a convolution rounds may hang on its company."""
        return as_numpy(recipe.apply(frames, self.stimuli))

    def held_against(self, answers: Answers, clip: Frames, recipe: Recipe, times_s: FloatArray) -> Answers:  # noqa: ARG002  no camera moves
        """Returns the answers as they are."""
        return answers

    def words(self, frames: NumpyFrames, recipe: Recipe, times_s: FloatArray) -> Words | None:  # noqa: ARG002  one weather, which knows no time
        """Returns the referee; None where it is not asked."""
        if not kinds.asks_referee(self.campaign.settings.referee):
            return None
        return lambda places, mutants, _: judge(frames[places], mutants[places], device=self.campaign.settings.device)

    def look(self, clip: Frames, recipe: Recipe, times_s: FloatArray | None = None) -> tuple[Frames, Observation]:  # noqa: ARG002  see above
        """Shows the subject a clip in the weather; neurons are not looked at."""
        changed = recipe.apply(as_numpy(clip), self.stimuli)
        answers = self.subject.predict(changed)
        return changed[self.subject.lead :], Observation(answers, torch.zeros((len(answers), 0)))


def shrink_style(campaign: Tactic, run: Run, row: Mapping[str, Any], progress: Progress = silent) -> Shrunk:
    """Shrinks the style of a finding; where the search had a filter of scenes, through pictures alone that it takes."""
    return shrink_recipe(StyleCampaign(campaign), run, row, progress, accepted_by_search(campaign))


def accepted_by_search(campaign: Tactic) -> Accepts | None:
    """Returns the search's filter, which is given scenes at the size at which the search gives them; None without one."""
    settings, weather = campaign.settings, campaign.weather
    scene_filter = filter_of(settings.validity, weather.card, settings.device)
    if scene_filter is None:
        return None
    return lambda sources, changed: scene_filter.accepts(at_working_size(sources, weather), changed)


def style_exporter(campaign: Tactic, run: Run) -> PictureExporter:
    """Returns what shows the scenes of a search for conditions."""
    return PictureExporter(StyleCampaign(campaign), run)


def tactic_figures(campaign: Tactic, run: Run) -> Mapping[str, object]:
    """Returns every condition, the means over repeats and the tests."""
    summary = summarise(campaign, run)
    first = summary.searches[0] if summary.searches else ""
    return {
        "bounds_deg": list(summary.bounds_deg),
        "criterion": summary.criterion,
        "reachable_share": dict(zip(GUIDES, summary.reachable, strict=True)),
        "conditions": [_condition_json(each) for repeat in summary.repeats for each in repeat.conditions],
        "repeats": [
            {"search": repeat.search, "repeat": repeat.number, "coverage": list(repeat.coverage), "errors": list(repeat.errors)}
            for repeat in summary.repeats
        ],
        "warnings": list(tactic_warnings(campaign, summary)),
        "problems": summary.problems,
        "tests": {other: [asdict(test) for test in summary.compare(first, other)] for other in summary.searches[1:]},
    }


def replay_style(campaign: Tactic, run: Run, finding: str, picture: Path | None = None) -> Replayed:
    """Translates a scene again and compares picture, answers and verdict; draws the pair where asked."""
    result = replay_scene(campaign, run, finding)
    record = result.record
    # a scene that the filter refused was not judged, and is not now
    excess = record.excess if isnan(record.excess) else result.excess
    rows: list[tuple[str, object, object]] = [
        ("original (deg)", degrees(record.original), degrees(result.original)),
        ("mutant (deg)", degrees(record.mutant), degrees(result.mutant)),
        *([("human (deg)", degrees(record.label), degrees(record.label))] if isfinite(record.label) else []),
        ("error", times_tolerated(record.excess), times_tolerated(excess)),
        ("verdict", verdict_of(record.excess), verdict_of(excess)),
        ("picture", record.picture or "not stored", result.picture_again),
    ]
    return Replayed(
        title=f"{record.case_id}: {record.recipe} on frame {record.frame_id}",
        rows=tuple(rows),
        figures={
            "case_id": record.case_id,
            "frame_id": record.frame_id,
            "recipe": str(record.recipe),
            "picture": result.picture.value,
            "violated": result.violated,
            "original_deg": degrees(result.original),
            "mutant_deg": degrees(result.mutant),
            "label_deg": degrees(record.label),
            "excess": result.excess,
            "answer_change": result.answer_change,
        },
        reproduction=reproduction(campaign, result),
        pictures=() if picture is None else (_write_pair(campaign, result, picture),),
    )


def _write_pair(campaign: Tactic, result: ReplayResult, path: Path) -> Path:
    record = result.record
    original, mutant = (rendered(campaign.drive, campaign.weather, record.frame_index, recipe) for recipe in (Recipe(), record.recipe))
    answers = (degrees(result.original), degrees(result.mutant), degrees(record.label))
    return write_image(path, pair_picture(original, mutant, *answers, caption=str(record.recipe), unit="deg"))


def _condition_json(each: ConditionSummary) -> dict[str, object]:
    condition = each.condition
    return {
        **values_of(condition, "search repeat fitness diversity divergence_rad dropped frames seconds refused"),
        "condition": condition.number,
        "style": list(condition.style),
        "errors": list(each.errors),
        "judged": each.judged,
        "rejection_rate": each.rejection_rate.estimate,
        "coverage": list(each.coverage),
        "tries": len(condition.tries),
    }
