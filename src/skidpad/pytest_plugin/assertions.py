"""Assertions about driving networks: every frame of a drive under every recipe, and a picture of the worst when it fails."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from math import isfinite
from pathlib import Path
from typing import NoReturn, TypeAlias

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.images import FloatArray, as_numpy, write_image
from skidpad.core.stimuli import Condition, Params, Recipe, Stimulus
from skidpad.drives.drive import Drive, Problem, capture_of
from skidpad.drives.opening import open_drive
from skidpad.kinds.bundles import FINDING, DrawnScene, judge_bundle, loaded
from skidpad.kinds.limits.campaign import Limits, LimitsSettings, default_judge, resolved
from skidpad.kinds.limits.curves import Standing
from skidpad.kinds.limits.holding import tested
from skidpad.kinds.limits.probes import show
from skidpad.kinds.pictures.judging import JudgedOutput
from skidpad.oracles.doubts import Doubt, doubts_of
from skidpad.oracles.relations import Answers, AnswersAlike, DecidesAlike, Relation, SteersAlike
from skidpad.page.pictures import pair_picture
from skidpad.page.wording import answer, difference, percent
from skidpad.pytest_plugin import current
from skidpad.runs.workers.here import open_lanes
from skidpad.statistics.intervals import wilson
from skidpad.stimuli.pictures import TRANSFORMS, stimuli
from skidpad.stimuli.registry import allow_typed, conditions_of
from skidpad.subjects.base import Subject
from skidpad.subjects.description import STEERING

StimulusLike: TypeAlias = "str | Recipe | Stimulus | tuple[Stimulus, Params]"
"""`"brightness(shift=40)"`, `"fog"` or `Fog()` (every row of its grid), `"fog+blur"`, a Recipe, `(Fog(), Params(...))`."""

_FRAMES = 64
PICTURE = "skidpad_picture"
"""The property of a test's report that names its picture."""


def assert_steers_alike(
    subject: str | Path | Subject,
    drive: str | Drive,
    stimulus: StimulusLike | list[StimulusLike],
    *,
    within_deg: float = 10.0,
    max_rate: float = 0.0,
    output: str = STEERING,
    accept_doubts: bool = False,
) -> None:
    """Fails where a frame under the stimulus is steered `within_deg` or more away from the frame as it is.

    max_rate: the share of cases, 0..1, that may break it. output: an angle of the subject. accept_doubts: whether it may pass although
    the answers on unchanged frames make no sense, as constant or implausible ones.
    """
    __tracebackhide__ = True
    _check(subject, drive, stimulus, SteersAlike(within_deg), f"{within_deg:g}° or more", max_rate, output, accept_doubts=accept_doubts)


def assert_answers_alike(
    subject: str | Path | Subject,
    drive: str | Drive,
    stimulus: StimulusLike | list[StimulusLike],
    *,
    within: float,
    output: str,
    max_rate: float = 0.0,
) -> None:
    """Fails where an output that is no angle moves by `within` or more, in its own unit."""
    __tracebackhide__ = True
    _check(subject, drive, stimulus, AnswersAlike(within), f"{within:g} or more", max_rate, output)


def assert_decides_alike(
    subject: str | Path | Subject,
    drive: str | Drive,
    stimulus: StimulusLike | list[StimulusLike],
    *,
    output: str,
    threshold: float = 0.5,
    max_rate: float = 0.0,
) -> None:
    """Fails where an output reaches the threshold on one of the two pictures and not on the other."""
    __tracebackhide__ = True
    _check(subject, drive, stimulus, DecidesAlike(threshold), f"across {threshold:g}", max_rate, output)


def assert_holds(
    subject: str | Path | Subject,
    drive: str | Drive,
    condition: StimulusLike,
    *,
    within_deg: float = 10.0,
    share: float = 0.05,
    frames: int = 500,
    output: str = STEERING,
    referee: bool = True,
) -> None:
    """Fails where a network does not hold a severity, as Fog(visibility_m=150): where 5 % of the frames may fail, or more.

    That is the rule of `skidpad limits`: the upper bound of the failing share, with an interval that knows that neighbouring frames are
    alike, must be below `share`. within_deg: how far the steering may move. frames: how many, evenly spaced over the drive (0: all).
    referee: whether pictures that are no longer the same scene are left out.
    """
    __tracebackhide__ = True
    asked, opened = loaded(subject), open_drive(drive) if isinstance(drive, str) else drive
    recipes, named = recipes_of(condition)
    if len(recipes) != 1 or not all(isinstance(each, Condition) for each in named.values()):
        raise BadParametersError(
            f"a severity is one condition in physical units with its parameters, as Fog(visibility_m=150); got {condition!r}"
        )
    settings = LimitsSettings(
        subject=asked.description.name,
        drive=opened.origin or opened.name,
        output=output,
        tolerance=within_deg,
        accepted_share=share,
        frames=frames,
        referee="on" if referee else "off",
    )
    campaign = Limits(resolved(settings, asked, opened), asked, opened, (), named, default_judge(settings, opened.views))
    found = tested(campaign, recipes[0])
    standing, failing = found.point.standing(share), found.point.failing
    if standing is Standing.HOLDS:
        if not found.point.is_sure(share):
            few = (
                f"none of {failing.n} frames fails, but up to {percent(failing.high)} could on a longer drive; {percent(share)} are allowed"
            )
            warnings.warn(f"{recipes[0]}: {few}; show more frames to be sure", stacklevel=2)
        return
    words = f"95 % interval {percent(failing.low)} to {percent(failing.high)}, whose upper end must lie below {percent(share)}"
    lines = [f"{recipes[0]} does not hold: {percent(failing.estimate)} of {failing.n} frames fail ({words})"]
    if standing is Standing.REFUSED:
        lines = [f"{recipes[0]} cannot be told: the referee keeps {percent(found.point.kept_share)} of the pictures it looked at"]
    if found.worst is None:
        _fail(lines)
    was, now, unit = *(campaign.judged.shown(found.worst[name]) for name in ("original", "mutant")), campaign.judged.shown_unit
    worst = _Worst(
        found.worst["excess"],
        found.worst["frame_index"],
        found.worst["frame_id"],
        recipes[0],
        found.worst["original"],
        found.worst["mutant"],
    )
    lines.append(f"worst: frame {worst.frame_id}: {answer(was, unit)} became {answer(now, unit)} ({difference(was, now, unit)})")
    _fail(lines, _picture(opened, worst, named, was, now, unit))


def assert_mended(subject: str | Path | Subject, bundle: str | Path) -> None:
    """Fails while a subject, loaded or by the text that names it, still does wrong what the bundle of `skidpad export` shows."""
    __tracebackhide__ = True
    folder = Path(bundle)
    judgement = judge_bundle(folder, subject)
    if not judgement.holds:
        title = json.loads((folder / FINDING).read_text(encoding="utf-8"))["title"]
        picture = None if judgement.scene is None else _scene(judgement.scene, title)
        _fail([f"{title}: {judgement.said}"], picture)


def _scene(scene: DrawnScene, title: str) -> Path:
    path = current().next_picture(scene.suffix)
    scene.draw(title, path)
    return path


@dataclass(frozen=True, slots=True)
class _Worst:
    excess: float
    frame: int
    frame_id: str
    recipe: Recipe
    original: float
    mutant: float


def _check(
    subject: str | Path | Subject,
    drive: str | Drive,
    stimulus: StimulusLike | list[StimulusLike],
    relation: Relation,
    moved: str,
    max_rate: float,
    output: str,
    *,
    accept_doubts: bool = False,
) -> None:
    __tracebackhide__ = True
    if not 0.0 <= max_rate <= 1.0:
        raise BadParametersError(f"max_rate is a share from 0 to 1, as 0.02 for 2 %; got {max_rate:g}")
    asked = loaded(subject)
    opened = open_drive(drive) if isinstance(drive, str) else drive
    judged = JudgedOutput.of(asked.description, output)
    if judged.output.is_angle != isinstance(relation, SteersAlike):
        other = "assert_steers_alike" if judged.output.is_angle else "assert_answers_alike or assert_decides_alike"
        raise BadParametersError(f"the output {output!r} {'is' if judged.output.is_angle else 'is not'} an angle; use {other}")
    recipes, stimuli = recipes_of(stimulus)
    cases, broken, worst, originals = _search(asked, opened, recipes, stimuli, relation, judged)
    if not cases:
        _fail([f"nothing can be judged: {asked.description.name!r} has no finite {output} on the frames of {opened.name!r} as they are"])
    doubts = _doubts(originals, opened, relation, judged)
    doubted = [f"in doubt: {doubt.said}" for doubt in doubts]
    if worst is None or broken / cases <= max_rate:
        if any(doubt.refuses for doubt in doubts) and not accept_doubts:
            _fail([*doubted, f"{broken} of {cases} mutants break the relation, which says nothing then; accept_doubts=True passes"])
        return
    interval = wilson(broken, cases)
    names = ", ".join(dict.fromkeys(recipe.name for recipe in recipes))
    allowed = f", {percent(max_rate)} allowed" if max_rate else ""
    was, now = judged.shown(worst.original), judged.shown(worst.mutant)
    unit = judged.shown_unit
    share = f"{percent(interval.estimate)}, 95 % interval {percent(interval.low)} to {percent(interval.high)}{allowed}"
    lines = [
        *doubted,
        f"{names}: {broken} of {cases} mutants move {output} by {moved} ({share})",
        f"worst: {worst.recipe} on frame {worst.frame_id}: {answer(was, unit)} became {answer(now, unit)} ({difference(was, now, unit)})",
    ]
    _fail(lines, _picture(opened, worst, stimuli, was, now, unit))


def recipes_of(stimulus: StimulusLike | list[StimulusLike]) -> tuple[tuple[Recipe, ...], Mapping[str, Stimulus]]:
    """Returns the recipes that are meant, and the stimuli that they name."""
    recipes: dict[Recipe, None] = {}
    stimuli: dict[str, Stimulus] = {}
    for each in stimulus if isinstance(stimulus, list) else [stimulus]:
        found, named = _recipes(each)
        recipes |= dict.fromkeys(found)
        stimuli |= named
    if not recipes:
        raise BadParametersError(f"a stimulus is needed, as 'brightness(shift=40)' or 'fog'; got {stimulus!r}")
    return tuple(recipes), stimuli


def _recipes(stimulus: StimulusLike) -> tuple[list[Recipe], Mapping[str, Stimulus]]:
    if isinstance(stimulus, Recipe):
        return [stimulus], stimuli(step.stimulus for step in stimulus.steps)
    if isinstance(stimulus, str):
        allow_typed([stimulus])  # who writes a test means the code that it names
        (condition,), named = conditions_of([stimulus])
        return list(condition.grid(named)), named
    given, params = stimulus if isinstance(stimulus, tuple) else (stimulus, None)
    name = next((row for row in TRANSFORMS.names() if TRANSFORMS.get(row) is type(given)), type(given).__name__)
    if params is not None:
        given.space.check(name, params)
    return [Recipe.of(name, row) for row in ((params,) if params is not None else given.space.grid)], {name: given}


def _search(
    subject: Subject, drive: Drive, recipes: Sequence[Recipe], stimuli: Mapping[str, Stimulus], relation: Relation, judged: JudgedOutput
) -> tuple[int, int, _Worst | None, FloatArray]:
    """Returns how many cases could be judged, how many broke the relation, the worst of those, and the answers on unchanged frames."""
    cases, broken, worst = 0, 0, None
    originals = np.full(len(drive), np.nan)

    with open_lanes() as lanes:
        for batch in drive.batches(max(_FRAMES, 2 * subject.lead), lead=subject.lead):
            original = np.asarray(subject.predict(batch.clip)[:, judged.column], np.float64)
            originals[batch.indices] = original
            unlabelled = np.full(len(batch), np.nan)
            capture = capture_of(drive, batch.indices, subject.lead, batch.clip)
            ask = partial(show, subject, judged, stimuli, batch.clip, capture, answered=original, label=unlabelled)
            with closing(lanes.map(ask, recipes)) as answers:
                for recipe, said in zip(recipes, answers, strict=True):
                    expected, mutant = said.expected, said.mutant
                    # where the frame as it is has no finite answer, there is nothing to be alike
                    excess = np.where(np.isfinite(expected), relation.excess(Answers(expected, mutant, unlabelled)), np.nan)
                    cases += int((~np.isnan(excess)).sum())
                    broken += int((excess > 1.0).sum())
                    at = int(np.nan_to_num(excess, nan=-1.0, posinf=np.inf).argmax())
                    if excess[at] > 1.0 and (worst is None or excess[at] > worst.excess):
                        worst = _Worst(
                            float(excess[at]), int(batch.indices[at]), batch.frame_ids[at], recipe, float(expected[at]), float(mutant[at])
                        )
    return cases, broken, worst, originals


def _doubts(originals: FloatArray, drive: Drive, relation: Relation, judged: JudgedOutput) -> tuple[Doubt, ...]:
    if not isinstance(relation, SteersAlike):
        return ()
    labels = drive.steering_rad if judged.is_steering else np.full(len(drive), np.nan)
    return doubts_of(originals, labels, relation.tolerated_rad)


def _picture(drive: Drive, worst: _Worst, stimuli: Mapping[str, Stimulus], was: float, now: float, unit: str) -> Path | None:
    frame = drive.frame(worst.frame)
    if isinstance(frame, Problem):
        return None
    capture = capture_of(drive, np.array([worst.frame]))
    before, mutant = (as_numpy(make(frame[np.newaxis], stimuli, capture))[0] for make in (worst.recipe.reference, worst.recipe.apply))
    path = current().next_picture()
    write_image(path, pair_picture(before, mutant, was, now, caption=f"{worst.recipe}: {difference(was, now, unit)}", unit=unit))
    about = {
        "frame_id": worst.frame_id,
        "recipe": json.loads(worst.recipe.to_json()),
        "unit": unit,
        "original": was,
        "mutant": now if isfinite(now) else None,
        "said": f"{answer(was, unit)} became {answer(now, unit)}",
        "excess": worst.excess if isfinite(worst.excess) else None,
    }
    path.with_suffix(".json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    return path


def _fail(lines: Sequence[str], picture: Path | None = None) -> NoReturn:
    __tracebackhide__ = True
    if picture is not None:
        current().note(PICTURE, str(picture))
    raise AssertionError("\n".join([*lines, *([f"picture: {picture}"] if picture is not None else [])]))
