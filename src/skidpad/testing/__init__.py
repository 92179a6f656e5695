"""Conformance checks for what you add to skidpad; call them in your own tests.

    from skidpad.testing import check_stimulus

    def test_dusk():
        check_stimulus(Dusk())

Each check raises NonconformingError, which says what was expected and what was got.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from skidpad.core.images import Camera, Capture, FloatArray, Frames, IntArray, NumpyFrames, as_numpy
from skidpad.core.stimuli import Condition, Params, Recipe, Space, Stimulus
from skidpad.coverage.criteria import Criterion
from skidpad.coverage.profile import Profile
from skidpad.drives.drive import Drive, Problem
from skidpad.drives.readers import Options, Reader
from skidpad.oracles.relations import Answers, Relation
from skidpad.search.evolution import Styles
from skidpad.search.pairs import Pairs, pairs_task
from skidpad.search.protocol import Fitness, MakeSearch, SearchTask, asked_of, kept
from skidpad.search.vectors import Cube
from skidpad.stimuli.pictures import stimuli
from skidpad.subjects.base import Layer
from skidpad.worlds.conformance import CHECKS, EXACT, MakeWorld, NonconformingError, Tolerance

__all__ = [
    "NonconformingError",
    "Tolerance",
    "check_criterion",
    "check_reader",
    "check_relation",
    "check_search",
    "check_stimulus",
    "check_world",
]

_SIZES = ((2, 24, 32), (1, 7, 13), (0, 24, 32))
_CAMERA_SIZES = ((2, 24, 32), (1, 16, 21), (0, 24, 32))
"""For conditions: a camera's picture is at least 16 pixels wide and high."""
_MOST_ASKS = 10_000


def check_stimulus(stimulus: Stimulus, *, on_torch: bool = True) -> None:
    """Checks that a stimulus is pure, keeps shape and kind, and changes frames within its bounds.

    on_torch: False for one that takes NumPy frames alone, and so cannot be used on a GPU.
    """
    space = stimulus.space
    _expect(isinstance(space, Space) and bool(space.grid), f"`space` must be a Space with at least one row in its grid; got {space!r}")
    rows = [*space.grid, space.sample(np.random.default_rng(0))]
    for params in rows:
        space.check(type(stimulus).__name__, params)
    sizes = _CAMERA_SIZES if isinstance(stimulus, Condition) else _SIZES
    for as_torch in (False, True) if on_torch else (False,):
        moved = [_applied(stimulus, params, size, as_torch=as_torch) for params in rows for size in sizes]
        _expect(any(moved), "no row of the grid changes a picture of noise")
        if space.identity is not None:
            changed = any(_applied(stimulus, space.identity, size, as_torch=as_torch) for size in sizes)
            _expect(not changed, f"the identity {space.identity} must change nothing")


def _applied(stimulus: Stimulus, params: Params, size: tuple[int, int, int], *, as_torch: bool) -> bool:
    """Applies a stimulus to noise in every way that must come out alike; returns whether it changed anything."""
    noise = np.random.default_rng(1).integers(0, 256, (*size, 3), np.uint8)
    frames: Frames = torch.from_numpy(noise.copy()) if as_torch else noise.copy()
    where = f"apply() with {params} on {'torch' if as_torch else 'NumPy'} frames of shape {tuple(frames.shape)}"
    changed = _change(stimulus, frames, params)
    _expect(type(changed) is type(frames), f"{where} must answer with {type(frames).__name__}; got {type(changed).__name__}")
    _expect(changed.shape == frames.shape and changed.dtype == frames.dtype, f"{where} gave {changed.dtype} of {tuple(changed.shape)}")
    _expect(np.array_equal(as_numpy(frames), noise), f"{where} changed its input")
    first = as_numpy(changed).copy()
    _expect(np.array_equal(as_numpy(_change(stimulus, frames, params)), first), f"{where} answers otherwise the second time")
    for place in range(len(noise)):
        alone = as_numpy(_change(stimulus, frames[place : place + 1], params, place))[0]
        _expect(np.array_equal(alone, first[place]), f"{where} changes a frame otherwise alone than in a batch")
    return not np.array_equal(first, noise)


def _change(stimulus: Stimulus, frames: Frames, params: Params, first: int = 0) -> Frames:
    """Applies a stimulus to frames of a drive; first: which frame of it the first one is."""
    if not isinstance(stimulus, Condition):
        return stimulus.apply(frames, params)
    height, width = int(frames.shape[1]), int(frames.shape[2])

    def earlier(_: IntArray, times_s: FloatArray) -> NumpyFrames:
        grey = np.rint(200.0 - 20.0 * times_s).astype(np.uint8)
        return np.broadcast_to(grey[:, None, None, None], (len(times_s), height, width, 3)).copy()

    times_s = np.asarray(3.95 + 0.05 * (first + np.arange(len(frames))), np.float64)
    return stimulus.apply_at(frames, params, Capture(Camera.guess(height, width), times_s, earlier))


def check_criterion(criterion: Criterion) -> None:
    """Checks that a coverage criterion divides values into regions picture by picture, whatever company they are in."""
    layers = (Layer("first", 0, 5), Layer("second", 5, 12))
    values = torch.from_numpy(np.random.default_rng(0).normal(size=(6, 12)).astype(np.float32))
    values[2, 3], values[4, 7] = torch.nan, torch.inf
    _expect(isinstance(criterion.name, str) and bool(criterion.name), f"`name` must be the name of its row; got {criterion.name!r}")
    _expect(isinstance(criterion.sections, int) and criterion.sections >= 1, f"`sections` must be 1 or more; got {criterion.sections!r}")
    profile = None
    if criterion.needs_profile:
        profile = Profile(12, subject_sha256="", drive_sha256="")
        profile.update(values[:4])
    regions = criterion.regions(values, layers, profile)
    _expect(tuple(regions.shape) == (6, 12), f"regions() must be of shape (pictures, neurons), (6, 12); got {tuple(regions.shape)}")
    _expect(regions.dtype in {torch.int64, torch.int8}, f"regions() must be int64 or int8; got {regions.dtype}")
    low, high = int(regions.min()), int(regions.max())
    _expect(low >= -1 and high < criterion.sections, f"regions lie in -1..{criterion.sections - 1}; got {low} to {high}")
    _expect(bool((regions[~torch.isfinite(values)] == -1).all()), "a value that is not finite must hit no region, -1")
    alone = torch.cat([criterion.regions(values[place : place + 1], layers, profile) for place in range(6)])
    _expect(torch.equal(alone, regions), "a picture must hit the same regions alone as beside others")
    reachable = criterion.reachable(12, profile)
    hit = sum(len(set(column.tolist()) - {-1}) for column in regions.T)
    _expect(hit <= reachable <= criterion.sections * 12, f"reachable() must lie in {hit}..{criterion.sections * 12}; got {reachable}")


def check_relation(relation: Relation) -> None:
    """Checks that a relation judges each case by itself, holds for equal answers, and condemns those that are not finite."""
    original = np.array([0.1, -0.2, 0.0, 0.3])
    mutant = np.array([0.1, 0.9, np.nan, np.inf])
    label = original.copy()
    _expect(isinstance(relation.name, str) and bool(relation.name), f"`name` must be the name of its row; got {relation.name!r}")
    excess = relation.excess(Answers(original, mutant, label))
    _expect(excess.shape == (4,) and excess.dtype == np.float64, f"excess() must be 4 floats for 4 cases; got {excess!r}")
    _expect(bool(np.isposinf(excess[2:]).all()), f"excess() must be infinite where the mutant's answer is not finite; got {excess[2:]}")
    same = relation.excess(Answers(original, original, label))
    _expect(bool((same <= 1.0).all()), f"answers that are equal to the original's and the label must hold (at most 1); got {same}")
    for place in range(4):
        some = slice(place, place + 1)
        alone = relation.excess(Answers(original[some], mutant[some], label[some]))[0]
        _expect(alone == excess[place], f"a case alone must be judged as beside others; got {alone} and {excess[place]}")


def check_search(make: MakeSearch, task: SearchTask[Any] | None = None) -> None:
    """Checks that a search proposes valid candidates, repeats itself for the same task, and ends.

    task: what it is made for; by default one over each space that it searches, which are those that its `over` names, or all.
    """
    examples: tuple[SearchTask[Any], ...] = (
        pairs_task("frame", stimuli(("deeptest-fog", "blur")), seed=1, max_failed_tries=5, max_tries=100),
        SearchTask(Styles(4), 1, budget=60, patience=20),
        SearchTask(Cube(4), 1, budget=40),
    )
    searched = [each for each in examples if type(each.space) in getattr(make, "over", (type(each.space),))]
    for given in searched if task is None else (task,):
        _check_search_of(make, given)


def _check_search_of(make: MakeSearch, task: SearchTask[Any]) -> None:
    one, two = make(task), make(task)
    rng = np.random.default_rng(0)
    for asks in range(_MOST_ASKS):
        if one.done:
            _expect(not one.ask(4), "ask() must return nothing once the search is done")
            _expect(asks > 0, "the search was done before it tried anything")
            return
        width = 1 + asks % 5
        candidates = asked_of(one, width, type(one).__name__)
        _expect(len(candidates) <= width, f"ask({width}) returned {len(candidates)} candidates")
        _alike(candidates, one.ask(width), "asking again without telling must give the same candidates")
        _alike(candidates, two.ask(width), "two searches of the same task, told the same, must ask for the same candidates")
        for candidate in candidates:
            _check_candidate(candidate, task.space)
        feedback = [_feedback(task.space, float(rng.random())) for _ in candidates]
        told = one.tell(feedback)
        two.tell(feedback)
        kept(len(candidates), told)
    _expect(holds=False, words=f"the search is not done after {_MOST_ASKS} asks")


def _feedback(space: object, value: float) -> Fitness:
    return Fitness(float(value > 0.8)) if isinstance(space, Pairs) else Fitness(value, f"{value:.1f}", (value, value))


def _check_candidate(candidate: Any, space: object) -> None:
    if isinstance(space, Pairs):
        _expect(isinstance(candidate, Recipe) and bool(candidate.steps), f"a candidate must be a Recipe with steps; got {candidate!r}")
        for step in candidate.steps:
            _expect(step.stimulus in space.stimuli, f"a candidate names {step.stimulus!r}, which is not among the task's stimuli")
            space.stimuli[step.stimulus].space.check(step.stimulus, step.params)
    elif isinstance(space, Cube | Styles):
        point = np.asarray(candidate)
        within = point.shape == (space.dimensions,) and np.array_equal(space.within(point), point)
        _expect(within, f"a candidate must be {space.dimensions} numbers within the bounds of {space}; got {candidate!r}")


def _alike(first: Any, second: Any, words: str) -> None:
    pairs = zip(first, second, strict=False)
    same = len(first) == len(second) and all(a == b if isinstance(a, Recipe) else np.array_equal(a, b) for a, b in pairs)
    _expect(same, f"{words}; got {first!r} and {second!r}")


def check_reader(reader: Reader, path: Path, options: Mapping[str, str] | None = None) -> None:
    """Checks that a reader recognises and opens the drive at `path`, and nothing in an empty folder."""
    for name, kind in (("looks_for", str), ("needs_path", bool), ("takes_files", bool), ("options", tuple)):
        _expect(isinstance(getattr(reader, name, None), kind), f"`{name}` must be a {kind.__name__}; got {getattr(reader, name, None)!r}")
    if reader.needs_path:
        _expect(reader.recognises(path) is True, f"recognises() must be True for {path}")
        with TemporaryDirectory() as empty:
            _expect(reader.recognises(Path(empty)) is False, "recognises() must be False for an empty folder")
    given = Options.of(type(reader).__name__, reader.options, options or {})
    drive = reader.open(path, given)
    _expect(isinstance(drive, Drive) and len(drive) > 0, f"open() must return a Drive with frames; got {drive!r}")
    _expect(len(set(drive.frame_ids)) == len(drive), "frames must have ids of their own")
    frame, again = drive.frame(0), drive.frame(0)
    if isinstance(frame, Problem) or isinstance(again, Problem):
        raise NonconformingError(f"the first frame of the example cannot be read: {frame}")
    _expect(frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[2] == 3, f"a frame is uint8 RGB; got {frame.dtype} {frame.shape}")
    _expect(np.array_equal(frame, again), "a frame must be the same when it is read again")
    _expect(reader.open(path, given).sha256 == drive.sha256, "opening the drive again must give the same hash")


def check_world(make: MakeWorld, tolerance: Tolerance = EXACT) -> None:
    """Runs every check of `worlds.conformance` on new worlds that `make` returns."""
    for check in CHECKS:
        check.run(make, tolerance)


def _expect(holds: object, words: str) -> None:
    if not holds:
        raise NonconformingError(words)
