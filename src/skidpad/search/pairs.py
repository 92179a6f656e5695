"""Pairs of transformations with rows of their grids, drawn as in Algorithm 1."""

from collections.abc import Mapping

import numpy as np

from skidpad.core.stimuli import Recipe, Step, Stimulus


def draw_pair(stimuli: Mapping[str, Stimulus], rng: np.random.Generator, first: str | None = None) -> Recipe:
    """Draws T1 (unless `first` names it), P1, T2 and P2, in this order; T1 may equal T2.

    Names are drawn from their sorted order, so the order in which a user lists transforms changes nothing.

    Reference: DeepTest 3.3, Algorithm 1, lines 12 to 17.
    """
    names = sorted(stimuli)
    return Recipe((_draw_step(stimuli, names, rng, first), _draw_step(stimuli, names, rng, None)))


def _draw_step(stimuli: Mapping[str, Stimulus], names: list[str], rng: np.random.Generator, given: str | None) -> Step:
    name = names[int(rng.integers(len(names)))] if given is None else given
    return Step(name, stimuli[name].space.pick(rng))
