"""Families of conditions, their groups, and random recipes of them: what a repair trains on, and what no training sees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.core.stimuli import CameraMove, Condition, Params, Real, Recipe, Severity, Step, Stimulus, Value, Whole, shows_past
from skidpad.stimuli.registry import Preset, preset_stimuli
from skidpad.stimuli.weather.stimulus import named_weather

_FIRST_SHARES, _SECOND_SHARES = (0.15, 1.0), (0.1, 0.6)
"""How far from harmless to worst a recipe's first condition is drawn, and a second one on top of it."""

_TWO = 0.5
"""How often there is a second one: conditions come together on roads, and pairs generalise to families that were never shown."""

_IN_WEATHER = 0.5
"""How often a learned weather takes the place of the first condition, where some are trained on."""

_NAMED = 8
"""Conditions that a list names one by one."""

JUDGED_SHARES = (0.25, 0.5, 0.75, 1.0)
"""The severities under which networks are judged."""


def families() -> Mapping[str, Stimulus]:
    """Returns every condition by name that a repair can do something about: a network cannot mend a camera that shows the past."""
    return {name: each for name, each in preset_stimuli(Preset.CONDITIONS).items() if not shows_past(each)}


def group_of(stimulus: Stimulus) -> str:
    """Returns the group of a condition: the part of the world or the camera that it belongs to, as `atmosphere` or `lens`."""
    kind = type(getattr(stimulus, "stimulus", stimulus))
    return kind.__module__.rpartition(".")[2]


def in_groups(names: Sequence[str]) -> str:
    """Lists conditions for people: a few by name, more by group, with how many of the group where it is not whole; others by name."""
    if len(names) <= _NAMED:
        return ", ".join(names)
    groups: dict[str, list[str]] = {}
    for name, each in families().items():
        groups.setdefault(group_of(each), []).append(name)
    found = []
    for group, members in groups.items():
        count = sum(name in names for name in members)
        if count:
            found.append(f"{group} (all {count})" if count == len(members) else f"{group} ({count} of {len(members)})")
    known = {name for members in groups.values() for name in members}
    return ", ".join([*found, *(name for name in names if name not in known)])


@dataclass(frozen=True, slots=True)
class Families:
    """Which conditions are trained on and which are not. made: all of them. weathers: learned ones that are trained on, by name."""

    seen: tuple[str, ...]
    unseen: tuple[str, ...]
    made: Mapping[str, Stimulus]
    weathers: Mapping[str, Stimulus] = field(default_factory=dict)

    @classmethod
    def of(cls, wanted: Iterable[str], unseen: Sequence[str], weathers: Iterable[str] = ()) -> Families:
        """Divides the conditions: `unseen` are groups or conditions that no training sees, `wanted` those that it may (all if empty).

        What is neither, because a run did not try it, is not seen either. weathers: bundled ones by name, or cards, to train on as well;
        a condition of the same name is then neither seen nor unseen.
        """
        made = families()
        groups = {name: group_of(each) for name, each in made.items()}
        for name in unseen:
            if name not in {*groups, *groups.values()}:
                raise UnknownNameError.among("group or condition", name, {*groups.values(), *groups})
        allowed = [name for name in wanted if name in made] or list(made)
        seen = tuple(name for name in allowed if name not in unseen and groups[name] not in unseen)
        if not seen:
            raise BadParametersError(
                f"nothing is left to train on: --unseen {','.join(unseen)} holds back every condition of the run; use --unseen none, hold "
                "others back, or repair from a run that tried more conditions"
            )
        learned = {f"weather:{name}": named_weather(name)() for name in weathers}
        # a network that was trained in a learned dusk has seen something of a computed one
        shown = {*seen, *(Path(name).stem for name in weathers)}
        return cls(seen, tuple(name for name in made if name not in shown), made, learned)

    def showing(self, name: str) -> Families:
        """Returns the same families with one more that is trained on."""
        return replace(self, seen=(*self.seen, name), unseen=tuple(each for each in self.unseen if each != name))

    @property
    def groups(self) -> Mapping[str, str]:
        """The group of each condition."""
        return {name: group_of(each) for name, each in self.made.items()}

    def draw(self, rng: np.random.Generator) -> Recipe:
        """Draws one or two of the seen conditions, of any severity; or a learned weather in any style, with or without a condition."""
        first = self.seen[int(rng.integers(len(self.seen)))]
        steps = [_drawn(first, self.made[first], _FIRST_SHARES, rng)]
        moved = isinstance(self.made[first], CameraMove)
        others = [name for name in self.seen if name != first and not (moved and isinstance(self.made[name], CameraMove))]
        if others and rng.random() < _TWO:
            second = others[int(rng.integers(len(others)))]
            steps.append(_drawn(second, self.made[second], _SECOND_SHARES, rng))
        if self.weathers and rng.random() < _IN_WEATHER:
            name = list(self.weathers)[int(rng.integers(len(self.weathers)))]
            steps[0] = Step(name, Params(**{each.name: each.sample(rng) for each in self.weathers[name].space.parameters}))
        return Recipe(tuple(steps))

    def ladder(self, name: str) -> tuple[Recipe, ...]:
        """Returns one condition at the severities under which networks are judged."""
        stimulus = self.made[name]
        return tuple(
            Recipe((at_share(name, stimulus, severity, share, {}),)) for severity in _severities(stimulus) for share in JUDGED_SHARES
        )


def aimed(row_stimulus: str, severity: Severity, share: float, made: Mapping[str, Stimulus], rng: np.random.Generator) -> Recipe:
    """Draws one severity up to a share of the way, for a repair that aims at a limit."""
    return Recipe(
        (
            at_share(
                row_stimulus, made[row_stimulus], severity, float(rng.uniform(0.2 * share, share)), _free(made, row_stimulus, severity, rng)
            ),
        )
    )


def _free(made: Mapping[str, Stimulus], name: str, severity: Severity, rng: np.random.Generator) -> dict[str, Value]:
    """Draws the parameters that a severity leaves open: seeds, sides, speeds."""
    fixed = {severity.parameter, *severity.others}
    return {each.name: each.sample(rng) for each in made[name].space.parameters if each.name not in fixed}


def _drawn(name: str, stimulus: Stimulus, shares: tuple[float, float], rng: np.random.Generator) -> Step:
    found = _severities(stimulus)
    severity = found[int(rng.integers(len(found)))]
    return at_share(name, stimulus, severity, float(rng.uniform(*shares)), _free({name: stimulus}, name, severity, rng))


def at_share(name: str, stimulus: Stimulus, severity: Severity, share: float, free: Mapping[str, Value]) -> Step:
    """Returns a condition at a share of the way from harmless to worst. free: parameters that the severity leaves open."""
    space = stimulus.space
    parameter = next(each for each in space.parameters if each.name == severity.parameter)
    value = severity.at(share)
    if isinstance(parameter, Real | Whole):
        value = min(max(value, parameter.low), parameter.high)
    known = dict(severity.others) | {severity.parameter: round(value) if isinstance(parameter, Whole) else float(value)}
    return Step(name, space.filled(name, Params(**(known | dict(free)))))


def _severities(stimulus: Stimulus) -> tuple[Severity, ...]:
    if not isinstance(stimulus, Condition):
        raise BadParametersError(f"a repair draws conditions in physical units; got {stimulus!r}")
    return stimulus.severities
