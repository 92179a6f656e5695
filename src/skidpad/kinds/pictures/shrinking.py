"""Recipes made smaller: fewer steps, and parameters nearer to where they change nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from skidpad.core.images import BoolArray, FloatArray, NumpyFrames, as_numpy, pixel_hash
from skidpad.core.progress import Progress, silent
from skidpad.core.stimuli import Choice, Parameter, Params, Real, Recipe, Step, Stimulus, Value, Whole
from skidpad.kinds.pictures.judging import Originals, frame_again
from skidpad.kinds.shrinking import LEFT_OUT, Change, Dial, Minimum, Shrunk, minimise
from skidpad.oracles.relations import Answers, Relation
from skidpad.referee.verdict import Word
from skidpad.runs.records import Record, case_id
from skidpad.runs.workers.here import pinned

if TYPE_CHECKING:
    from skidpad.kinds.pictures.campaign import DeepTest
    from skidpad.kinds.pictures.styles.shrinking import StyleCampaign
    from skidpad.runs.folder import Run

    PictureCampaign: TypeAlias = DeepTest | StyleCampaign
    """A campaign over the frames of a drive, whose records have the columns of `runs.records` and whose stimuli are recipes."""


WIDTH = 16
"""Recipes judged at once: the levels of a dial are cut in seventeen, so that a thousand take three batches."""

_RESOLUTION = 200
"""A real parameter is shrunk to the power of ten below so small a share of its range."""


Accepts = Callable[[NumpyFrames, NumpyFrames], BoolArray]
"""Takes frames as they were and as they became, (N, height, width, 3) each, and tells which may count, (N,)."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """The values of a parameter from where it changes nothing (level 0) to where it stands (the last level)."""

    levels: int
    at: Callable[[int], Value]


def ladder(parameter: Parameter, value: Value, identity: Value | None = None) -> Ladder | None:
    """Returns the way of a parameter to its identity, or to a given value; None where there is no such value.

    Real ones go in steps of a power of ten, whole ones by one, choices through the options in their order. A number of a style has no
    identity, since a weather always shows; it goes towards 0, the middle of its range and the weather's most ordinary look.
    """
    goal = _resting(parameter) if identity is None else identity
    if goal is None:
        return None
    if isinstance(parameter, Choice):
        order = (str(goal), *(option for option in parameter.options if option != goal))
        return Ladder(order.index(str(value)), order.__getitem__)
    start, stop = float(goal), float(value)
    sign = 1 if stop > start else -1
    if isinstance(parameter, Whole):
        return Ladder(abs(round(stop - start)), lambda level: round(start) + sign * level)
    return _real_ladder(parameter, start, stop, sign)


def _resting(parameter: Parameter) -> Value | None:
    is_style = isinstance(parameter, Real) and parameter.identity is None and parameter.low == -parameter.high
    return 0.0 if is_style else parameter.identity


def _real_ladder(parameter: Real, start: float, stop: float, sign: int) -> Ladder:
    digits = -floor(log10((parameter.high - parameter.low) / _RESOLUTION))
    size = 10.0**-digits
    rungs = max(ceil(round(abs(stop - start) / size, 6)), int(stop != start))

    def at(level: int) -> float:
        # both ends are the values themselves, however they are written; the rungs between are readable
        if level in {0, rungs}:
            return start if level == 0 else stop
        return min(max(round(start + sign * level * size, max(digits + 3, 0)), parameter.low), parameter.high)

    return Ladder(rungs, at)


def dials_of(recipe: Recipe, stimuli: Mapping[str, Stimulus]) -> list[tuple[int, str, Ladder]]:
    """Returns step, parameter and way for every parameter that is not where it changes nothing."""
    found = []
    for place, step in enumerate(recipe.steps):
        for parameter in stimuli[step.stimulus].space.parameters:
            way = ladder(parameter, step.params[parameter.name])
            if way is not None and way.levels:
                found.append((place, parameter.name, way))
    return found


def changed(recipe: Recipe, values: Mapping[tuple[int, str], Value], left_out: AbstractSet[int] = frozenset()) -> Recipe:
    """Returns the recipe with other values of some parameters and without some steps."""
    steps = []
    for place, step in enumerate(recipe.steps):
        new = {name: value for (at, name), value in values.items() if at == place}
        if place not in left_out:
            steps.append(Step(step.stimulus, Params(**{**step.params, **new})) if new else step)
    return Recipe(tuple(steps))


@dataclass(frozen=True, eq=False)
class RecipeProblem:
    """Recipes over one frame. fails: judges recipes; the rest follows from the recipe."""

    stimuli: Mapping[str, Stimulus]
    judge: Callable[[Sequence[Recipe]], Sequence[bool]]
    width: int = WIDTH

    def first_tries(self, stimulus: Recipe) -> Sequence[Recipe]:
        """None: a recipe is cheap to judge."""
        del stimulus
        return ()

    def pieces(self, stimulus: Recipe) -> int:
        """The steps."""
        return len(stimulus.steps)

    def dials(self, stimulus: Recipe) -> Sequence[Dial[Recipe]]:
        """The parameters, step by step."""
        return [
            Dial(f"{place}.{name}", way.levels, partial(_at, stimulus, place, name, way))
            for place, name, way in dials_of(stimulus, self.stimuli)
        ]

    def without(self, stimulus: Recipe, pieces: AbstractSet[int], dials: AbstractSet[int]) -> Recipe:
        """Leaves out steps, and puts parameters where they change nothing."""
        ways = dials_of(stimulus, self.stimuli)
        return changed(stimulus, {ways[dial][:2]: ways[dial][2].at(0) for dial in dials}, pieces)

    def fails(self, stimuli: Sequence[Recipe]) -> Sequence[bool]:
        """Asks the subject."""
        return self.judge(stimuli)


def _at(recipe: Recipe, place: int, name: str, way: Ladder, level: int) -> Recipe:
    return changed(recipe, {(place, name): way.at(level)})


@dataclass(frozen=True, eq=False)
class _Frame:
    """One frame of a campaign: shows it to the subject under recipes and judges the answers."""

    campaign: PictureCampaign
    clip: NumpyFrames
    times_s: FloatArray
    relation: Relation
    original: float
    label: float
    accepts: Accepts | None
    is_refereed: bool

    @classmethod
    def of(cls, campaign: PictureCampaign, run: Run, record: Record, accepts: Accepts | None) -> _Frame:
        batch = frame_again(campaign.drive, record.frame_index, campaign.subject.lead)
        relation = campaign.relation(Originals.of(run, len(campaign.drive)))
        original = campaign.look(batch.clip, Recipe())[1].answers[0, campaign.judged.column]
        # a moved camera has moved the label of the record
        label = float(batch.steering_rad[0]) if record.recipe.moves_camera(campaign.stimuli) else record.label
        times_s = campaign.drive.times_at(batch.indices, campaign.subject.lead)
        is_refereed = record.referee == Word.KEPT.value
        return cls(campaign, batch.clip, times_s, relation, float(original), label, accepts, is_refereed)

    def answers(self, recipes: Sequence[Recipe], *, alone: bool) -> FloatArray:
        """Asks about each recipe; a subject with memory sees one window at a time, as does any where `alone`."""
        column = self.campaign.judged.column
        if alone or self.campaign.subject.lead:
            looked = [self.campaign.look(self.clip, recipe, self.times_s)[1] for recipe in recipes]
            return np.array([each.answers[0, column] for each in looked], np.float64)
        together = np.concatenate([as_numpy(self.campaign.mutate(self.clip, recipe, self.times_s)) for recipe in recipes])
        return np.asarray(self.campaign.look(together, Recipe())[1].answers[:, column], np.float64)

    def held_against(self, recipe: Recipe, mutant: float) -> Answers:
        """Puts the answer to a mutant beside that on the original."""
        answers = Answers(*(np.array([value]) for value in (self.original, mutant, self.label)))
        return self.campaign.held_against(answers, self.clip, recipe, self.times_s)

    def excess(self, recipe: Recipe, mutant: float) -> float:
        """Judges an answer."""
        return float(self.relation.excess(self.held_against(recipe, mutant))[0])

    def fails(self, recipes: Sequence[Recipe], *, alone: bool) -> Sequence[bool]:
        """Tells which recipes break the relation with a picture that may count."""
        answers = self.answers(recipes, alone=alone).tolist()
        broken = [self.excess(recipe, mutant) > 1.0 for recipe, mutant in zip(recipes, answers, strict=True)]
        return [each and self._may_count(recipe) for each, recipe in zip(broken, recipes, strict=True)]

    def _may_count(self, recipe: Recipe) -> bool:
        now, times_s = self.clip[self.campaign.subject.lead :], self.times_s[self.campaign.subject.lead :]
        words = self.campaign.words(now, recipe, times_s) if self.is_refereed else None
        if self.accepts is None and words is None:
            return True
        changed = as_numpy(self.campaign.mutate(now, recipe, times_s))
        is_accepted = self.accepts is None or bool(self.accepts(now, changed)[0])
        return is_accepted and (words is None or bool(words(np.zeros(1, np.int64), changed, list(changed)).kept[0]))


def shrink_recipe(
    campaign: PictureCampaign, run: Run, row: Mapping[str, Any], progress: Progress = silent, accepts: Accepts | None = None
) -> Shrunk:
    """Shrinks the recipe of a finding over pictures; the smallest is judged alone, as a replay would.

    accepts: what is refused is no smaller finding, however far the answer moves; everything is taken without it.
    """
    record = Record.from_row(row)
    with pinned():
        frame = _Frame.of(campaign, run, record, accepts)
        found = _minimum(frame, record.recipe, progress)
        recipe = found.stimulus
        mutant = float(frame.answers([recipe], alone=True)[0])
        held = frame.held_against(recipe, mutant)
        picture = pixel_hash(as_numpy(campaign.look(frame.clip, recipe, frame.times_s)[0])[0])
    smallest = {
        **row,
        "case_id": case_id(record.frame_id, recipe),
        "stimulus": recipe.name,
        "recipe": recipe.to_json(),
        "label": float(held.label[0]),
        "original": float(held.original[0]),
        "mutant": mutant,
        "excess": frame.excess(recipe, mutant),
        "violated": True,
        "picture": picture,
    }
    return Shrunk(row, smallest, recipe_changes(record.recipe, recipe), found.judged, found.batches)


def _minimum(frame: _Frame, recipe: Recipe, progress: Progress) -> Minimum[Recipe]:
    """Shrinks by batches; where the last bits of a batch made a difference to the verdict, one recipe at a time."""
    problem = RecipeProblem(frame.campaign.stimuli, partial(frame.fails, alone=False))
    alone = replace(problem, judge=partial(frame.fails, alone=True))
    if problem.fails([recipe])[0]:
        found = minimise(problem, recipe, progress)
        if alone.fails([found.stimulus])[0]:
            return found
    return minimise(alone, recipe, progress)


def recipe_changes(before: Recipe, after: Recipe) -> tuple[Change, ...]:
    """Words what was taken from a recipe; the steps that are left stand in their order."""
    changes, place = [], 0
    for step in before.steps:
        left = after.steps[place] if place < len(after.steps) and after.steps[place].stimulus == step.stimulus else None
        if left is None or _must_come_later(before, after, step, place):
            changes.append(Change(step.stimulus, str(step.params), LEFT_OUT))
            continue
        place += 1
        changes += [
            Change(f"{step.stimulus} {name}", _worded(value), _worded(left.params[name]))
            for name, value in step.params.items()
            if left.params[name] != value
        ]
    return tuple(changes)


def _must_come_later(before: Recipe, after: Recipe, step: Step, place: int) -> bool:
    """Tells whether an equally named step further on is the one that was kept: a parameter never moves away from its identity."""
    rest = before.steps[before.steps.index(step) + 1 :]
    return step.params != after.steps[place].params and any(later == after.steps[place] for later in rest)


def _worded(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
