"""The conformance checks: every row of ours passes, and what is wrong is named."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import cv2
import numpy as np
import pytest
import torch

from skidpad.core.stimuli import Params, Real, Recipe, Space
from skidpad.coverage.criteria import CRITERIA
from skidpad.drives.readers import READERS
from skidpad.oracles.relations import AnswersAlike, DecidesAlike, LabelMse, SteersAlike
from skidpad.search.protocol import SEARCHES
from skidpad.stimuli.pictures import stimuli
from skidpad.stimuli.registry import stimuli_of
from skidpad.testing import (
    NonconformingError,
    check_criterion,
    check_reader,
    check_relation,
    check_search,
    check_stimulus,
)


@pytest.mark.parametrize("name", stimuli())
def test_our_stimuli_pass(name):
    check_stimulus(stimuli()[name])


def test_a_learned_weather_passes_on_numpy_and_torch_frames():
    check_stimulus(stimuli_of(["weather:rain(style=0)", "weather:rain(style=7)"])["weather:rain"])


@pytest.mark.parametrize("name", CRITERIA.names())
def test_our_criteria_pass(name):
    check_criterion(CRITERIA.get(name)())


@pytest.mark.parametrize("relation", [SteersAlike(), AnswersAlike(0.1), LabelMse(0.01), DecidesAlike()], ids=lambda each: each.name)
def test_our_relations_pass(relation):
    check_relation(relation)


@pytest.mark.parametrize("name", SEARCHES.names())
def test_our_searches_over_recipes_pass(name):
    check_search(SEARCHES.get(name))


def test_our_reader_of_folders_passes(tmp_path: Path):
    for number in range(3):
        cv2.imwrite(str(tmp_path / f"{number}.png"), np.full((8, 8, 3), number, np.uint8))
    check_reader(READERS.get("folder")(), tmp_path)


@dataclass(frozen=True)
class Darker:
    """Faulty in one way each."""

    fault: str
    space: ClassVar[Space] = Space((Real("depth", 0.0, 1.0, 0.0),), (Params(depth=0.5),))

    def apply(self, frames, params):
        if self.fault == "in place":
            frames[...] = 0
            return frames
        if self.fault == "torch only gives NumPy" and params.real("depth"):
            return np.zeros(tuple(frames.shape), np.uint8)
        if self.fault == "by company":
            return frames // (1 + len(frames))
        if self.fault == "identity":
            return frames // 2
        return frames + 0


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("in place", "changed its input"),
        ("torch only gives NumPy", "must answer with Tensor"),
        ("by company", "otherwise alone than in a batch"),
        ("identity", "must change nothing"),
        ("nothing", "no row of the grid changes"),
    ],
)
def test_what_is_wrong_with_a_stimulus_is_said(fault, said):
    with pytest.raises(NonconformingError, match=said):
        check_stimulus(Darker(fault))


class Tally:
    name, sections, needs_profile = "tally", 1, False

    def regions(self, values, layers, profile):
        return torch.zeros(values.shape, dtype=torch.int64)

    def reachable(self, neurons, profile):
        return neurons


def test_a_criterion_that_counts_what_is_not_finite_is_refused():
    with pytest.raises(NonconformingError, match="not finite must hit no region"):
        check_criterion(Tally())


class Endless:
    done = False

    def __init__(self, task):
        self.task = task

    def ask(self, width):
        return [Recipe.of("deeptest-fog", Params(density=0.5, seed=0))][:width]

    def tell(self, feedback):
        return [len(feedback)]


def test_a_search_that_keeps_what_it_never_asked_for_is_refused():
    with pytest.raises(ValueError, match="places of the 1 candidates"):
        check_search(Endless)
