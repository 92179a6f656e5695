"""Random looks, which teach and judge nothing, and blends with the first network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from repair_toys import Garage

from skidpad.core.stimuli import Params, Recipe
from skidpad.oracles.relations import SteersAlike
from skidpad.repairs.families import families
from skidpad.repairs.looks import LOOKS, REPAINT, RandomLook, drawn_look
from skidpad.repairs.pairs import Clip, render
from skidpad.repairs.plan import Candidate, SearchSettings, Task, Trained
from skidpad.repairs.search import Repairs
from skidpad.stimuli.pictures import stimuli
from skidpad.subjects.training.data import Lesson, collect
from skidpad.subjects.training.fitting import TrainingSettings, copied, fit

SETTINGS = SearchSettings(
    families=("gamma",), unseen=(), weathers=(), ways=("looks",), strengths=(1.0,), pictures=64, referee=False, most_cost=0.05
)


@pytest.fixture
def repairs(garage: Garage, tmp_path: Path) -> Repairs:
    return Repairs(Task(garage.subject, garage.train_drive, SteersAlike(within_deg=6.0)), tmp_path / "out", SETTINGS)


def clip() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (3, 24, 32, 3), dtype=np.uint8)


def test_a_look_is_pure_and_nothing_at_no_strength() -> None:
    look, frames = RandomLook(), clip()
    before = frames.copy()
    seen = set()
    for seed in range(40):
        changed = look.apply(frames, Params(seed=seed, strength=0.8))
        assert changed.shape == frames.shape
        assert changed.dtype == np.uint8
        assert np.array_equal(changed, look.apply(frames, Params(seed=seed, strength=0.8)))
        assert np.array_equal(frames, look.apply(frames, Params(seed=seed, strength=0.0)))
        seen.add(changed.tobytes())
    assert np.array_equal(frames, before)
    assert len(seen) == 40


def test_every_change_of_a_look_changes_the_picture() -> None:
    """So that no layer of a look is wasted."""
    from skidpad.repairs.looks import _CHANGES

    frames = clip().astype(np.float32) / 255.0
    for change in _CHANGES:
        changed = change(frames, np.random.default_rng(1))
        assert changed.shape == frames.shape
        assert np.isfinite(changed).all()
        assert np.abs(changed - frames).max() > 0.05


def test_looks_teach_and_never_judge(repairs: Repairs) -> None:
    assert not {*LOOKS} & {*families()}
    assert not {*LOOKS} & {*stimuli()}
    assert all(step.stimulus not in LOOKS for recipes in repairs.judged_recipes.values() for recipe in recipes for step in recipe.steps)
    pool, mixed = repairs.pool("looks"), repairs.pool("mix")
    shown = [{step.stimulus for step in pool.recipes[place].steps} & {*LOOKS} for place in pool.recipe_of.tolist()]
    assert sum(map(bool, shown)) == len(pool) - len(mixed) == 2 * len(mixed) == 128
    assert set().union(*shown) == {*LOOKS}
    assert np.array_equal(pool.mutants.labels_rad, pool.originals.labels_rad)
    recipe = drawn_look(np.random.default_rng(2), 0.5)
    assert Recipe.from_json(recipe.to_json()) == recipe


@pytest.mark.parametrize(("each", "count"), [(0.01, 1), (0.5, 4), (1.0, 8), (2.0, 16), (2.2, 18)])
def test_the_pool_of_looks_is_in_proportion_to_the_random_one(repairs: Repairs, tmp_path: Path, each: float, count: int) -> None:
    pool = Repairs(repairs.task, tmp_path / "each", replace(SETTINGS, looks_each=each)).looks
    assert len(repairs.random.recipes) == 8
    assert len(pool.recipes) == len({*pool.recipes}) == count
    assert np.bincount(pool.recipe_of).tolist() == count * [8]
    assert len(pool) == len(pool.mutants) == len(pool.originals) == 8 * count


def test_twice_as_many_looks_begin_with_the_same_ones(repairs: Repairs, tmp_path: Path) -> None:
    once, twice = (Repairs(repairs.task, tmp_path / f"{each}", replace(SETTINGS, looks_each=each)).looks for each in (1.0, 2.0))
    assert len(twice) == 2 * len(once)
    assert twice.recipes[: len(once.recipes)] == once.recipes
    assert torch.equal(twice.mutants.pictures[: len(once)], once.mutants.pictures)


def test_two_thirds_of_the_looks_begin_with_a_repaint_unless_a_setting_says_otherwise(repairs: Repairs, tmp_path: Path) -> None:
    for share, least, most in ((None, 0.6, 0.74), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)):
        settings = SETTINGS if share is None else replace(SETTINGS, repaints=share)
        looks = Repairs(repairs.task, tmp_path, settings)._looks("looks", 400)
        assert least <= np.mean([recipe.steps[0].stimulus == REPAINT for recipe in looks]) <= most


@pytest.mark.parametrize(("killed", "kept"), [(10, 0), (30, 24), (55, 48)])
def test_killed_while_it_renders_looks_it_goes_on_to_the_same_pairs(
    repairs: Repairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: int, kept: int
) -> None:
    """Killed inside a file: whole files are kept and are not rendered again, and nothing is left of the one that was begun."""
    plain, applied = Recipe.apply, list[Recipe]()

    def apply(recipe: Recipe, *given: Any) -> Any:
        if len(applied) == killed:
            raise KeyboardInterrupt
        applied.append(recipe)
        return plain(recipe, *given)

    settings, folders = replace(SETTINGS, pictures=8 * 30), [tmp_path / name / "work" for name in ("whole", "killed")]
    whole = Repairs(repairs.task, folders[0].parent, settings).looks
    interrupted = Repairs(repairs.task, folders[1].parent, settings)
    with monkeypatch.context() as patch:
        patch.setattr(Recipe, "apply", apply)
        with pytest.raises(KeyboardInterrupt):
            _ = interrupted.looks
    assert tuple(applied) == whole.recipes[:killed]
    before = {path.name: path.stat().st_mtime_ns for path in folders[1].iterdir()} if kept else {}
    assert len(before) == kept // 24

    applied.clear()
    killed = -1
    with monkeypatch.context() as patch:
        patch.setattr(Recipe, "apply", apply)
        again = Repairs(repairs.task, folders[1].parent, settings).looks
    assert tuple(applied) == whole.recipes[kept:]
    assert before.items() <= {path.name: path.stat().st_mtime_ns for path in folders[1].iterdir()}.items()
    first, second = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders)
    assert len(first) == 3
    assert first == second
    assert again.recipes == whole.recipes
    for one, other in ((again.mutants, whole.mutants), (again.originals, whole.originals)):
        assert torch.equal(one.pictures, other.pictures)
        assert np.array_equal(one.labels_rad, other.labels_rad)
    for name in ("recipe_of", "frame_of", "kept"):
        assert np.array_equal(getattr(again, name), getattr(whole, name))


def test_pictures_are_shared_by_networks_that_saw_frames_of_another_shape(repairs: Repairs, tmp_path: Path) -> None:
    """A network's own `frame_aspect` changes no picture, so that a stand-in can render for it."""
    rendered = []
    for aspect in (None, 1.3333):
        spec = replace(repairs.spec, frame_aspect=aspect)
        render(repairs.train_drive, [Clip(np.arange(2), Recipe(()))], spec, repairs.made, tmp_path / "pool", "one", lambda *_: None)
        rendered.append(sorted(each.name for each in (tmp_path / "pool").iterdir()))
    assert len(rendered[0]) == 1
    assert rendered[0] == rendered[1]


def test_the_validation_shows_looks_where_a_candidate_is_taught_them(garage: Garage, repairs: Repairs, tmp_path: Path) -> None:
    def shown(one: Repairs) -> int:
        return sum(recipe.steps[0].stimulus in LOOKS for recipe in one.validation.pairs.recipes)

    assert shown(repairs) == 24
    plain = Repairs(repairs.task, tmp_path / "plain", replace(SETTINGS, ways=("mix",)))
    assert shown(plain) == 0


def test_a_network_that_costs_too_much_is_blended_with_the_first(repairs: Repairs) -> None:
    module = copied(repairs.task.subject.module)
    last = [each for each in module.modules() if isinstance(each, torch.nn.Linear)][-1]
    first_bias = float(last.bias.detach())
    allowed = (1.0 + SETTINGS.most_cost) * repairs.before.clean_rmse_rad
    with torch.no_grad():
        last.bias += 2.0 * allowed  # a shift of all answers: at the end it costs too much, at a fifth of the way it need not
    made = Trained(Candidate("mix", 1.0, 0), 0.0, 0.0, 0.0, 3, 3, "")
    ended = float(last.bias.detach())
    found = repairs._blended(module, made)
    assert found.blend < 1.0
    assert float(last.bias.detach()) == pytest.approx(first_bias + found.blend * (ended - first_bias), abs=1e-6)
    assert found.clean_rmse_rad == repairs.validated(module, made).clean_rmse_rad
    costs = {}
    for share in (1.0, found.blend):
        with torch.no_grad():
            last.bias.fill_(first_bias + share * (ended - first_bias))
        costs[share] = repairs.validated(module, made).clean_rmse_rad
    assert costs[1.0] > allowed
    assert costs[found.blend] < costs[1.0]


def test_no_early_epoch_is_the_best_of_a_lesson_that_settles(garage: Garage) -> None:
    class Settling(Lesson):
        settles = 0.75

        def score(self, answers_rad: np.ndarray, labels_rad: np.ndarray, first_rad: np.ndarray) -> float:
            return float(next(scores))

    scores = iter(range(8))  # the first epoch has the best score
    data = collect(garage.train_drive, garage.subject.description.input).data
    settings = TrainingSettings(epochs=8, patience=1, mirror=False)
    found = fit(copied(garage.subject.module), garage.subject.description, data, data, settings, lesson=Settling())
    assert found.best_epoch == 7
    assert len(found.curve) == 8  # patience counts from where the network has settled
