"""The random repaint: against its formula written plainly, the same by seed, without flicker, and dark about half of the time."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skidpad.core.stimuli import Params, Recipe
from skidpad.repairs.looks import LOOK, REPAINT, RandomRepaint, drawn_look
from skidpad.repairs.repainting import drawn, lines, reduced, repainted

_REACH, _FLOOR, _DARKEST, _MOST_GAIN = 3, 1e-3, 0.05, 2.0


def road(count: int = 2, height: int = 60, width: int = 80) -> np.ndarray:
    """Returns a bright sky above a grey road with a line that wanders, 0 to 1."""
    down, right = np.meshgrid(np.linspace(0, 1, height), np.linspace(0, 1, width), indexing="ij")
    frames = np.stack([np.where(down < 0.4, 0.9, 0.35 + 0.1 * right) for _ in range(count)])
    for number in range(count):
        frames[number][(np.abs(right - 0.5 - 0.02 * number - 0.2 * (down - 0.4)) < 0.02) & (down >= 0.4)] = 0.8
    noise = np.random.default_rng(3).normal(0.0, 0.02, (height, width, 3))
    return np.clip(frames[..., None] + noise, 0.0, 1.0).astype(np.float32)


def plain_mean(one: np.ndarray) -> np.ndarray:
    """Returns the mean of each cell's window, which the border cuts."""
    rows, columns = one.shape
    found = np.empty_like(one)
    for row in range(rows):
        for column in range(columns):
            window = one[max(0, row - _REACH) : row + _REACH + 1, max(0, column - _REACH) : column + _REACH + 1]
            found[row, column] = window.mean()
    return found


def test_the_lines_are_those_of_the_formula() -> None:
    """Guided filter, equations 5, 6 and 8, with our two deviations."""
    rng = np.random.default_rng(0)
    small, wanted = (rng.random((2, 13, 17, 3)).astype(np.float32) for _ in range(2))
    wanted[0] = 0.6 * small[0] + 0.1  # a place where the filter finds the very line
    share, contrast = 0.3, 0.9
    slope, level = lines(small, wanted, np.float32(share), np.float32(contrast))
    for number, channel in np.ndindex(2, 3):
        one, other = (np.float64(each[number, ..., channel]) for each in (small, wanted))
        mean, mean_wanted = plain_mean(one), plain_mean(other)
        variance = plain_mean(one**2) - mean**2
        fitted = np.maximum((plain_mean(one * other) - mean * mean_wanted) / (variance + _FLOOR), 0.0)
        gain = np.minimum(mean_wanted / np.maximum(mean, _DARKEST), _MOST_GAIN)
        expected = contrast * (share * fitted + (1.0 - share) * gain)
        assert_allclose(slope[number, ..., channel], plain_mean(expected), atol=2e-4)
        assert_allclose(level[number, ..., channel], plain_mean(mean_wanted - expected * mean), atol=2e-4)


def test_the_frame_comes_back_where_the_repaint_is_the_frame() -> None:
    frames = road()
    small = reduced(frames)
    slope, level = lines(small, small, np.float32(0.0), np.float32(1.0))  # the brightness stays, and so does all detail
    assert_allclose(drawn(frames, slope, level), frames, atol=1e-5)


def test_no_line_falls_so_that_a_mark_never_turns_round() -> None:
    small = np.random.default_rng(1).random((1, 20, 30, 3)).astype(np.float32)
    slope, _ = lines(small, 1.0 - small, np.float32(1.0), np.float32(1.2))
    assert slope.min() >= 0.0


@pytest.mark.parametrize("size", [(60, 80), (61, 47), (12, 200), (5, 7)])
def test_the_same_seed_paints_the_same_and_another_something_else(size: tuple[int, int]) -> None:
    frames = road(2, *size)
    before = frames.copy()
    seen = set()
    for seed in range(20):
        found = repainted(frames, np.random.default_rng(seed))
        assert found.shape == frames.shape
        assert found.dtype == np.float32
        assert np.isfinite(found).all()
        assert np.array_equal(found, repainted(frames, np.random.default_rng(seed)))
        seen.add(found.tobytes())
    assert len(seen) == 20
    assert np.array_equal(frames, before)


def test_a_clip_does_not_flicker() -> None:
    """One random network paints all frames: a still clip stays still, and what moves a little changes the rest hardly."""
    still, moving = np.repeat(road(1), 3, axis=0), road(3)
    for seed in range(10):
        painted = repainted(still, np.random.default_rng(seed))
        assert np.array_equal(painted, np.repeat(painted[:1], 3, axis=0))
        changed = repainted(moving, np.random.default_rng(seed))
        assert np.median(np.abs(changed[2] - changed[0])) < 0.02


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_a_frame_without_contrast_ruins_no_other(level: float) -> None:
    """The frames of a recipe may be of different places, and one of them burnt out or black."""
    frames = np.concatenate([np.full_like(road(1), level), road(7)])
    clipped = []
    for seed in range(40):
        found = repainted(frames, np.random.default_rng(seed))[1:]
        clipped.append(np.mean((found <= 0.0) | (found >= 1.0)))
    assert np.mean(clipped) < 0.15


def test_about_half_of_the_repaints_are_dark_and_marks_stay_visible() -> None:
    frames = road()
    line = np.flatnonzero(frames[0, 40].mean(axis=1) > 0.6)
    means, kept = [], []
    for seed in range(120):
        found = np.clip(repainted(frames, np.random.default_rng(seed)), 0.0, 1.0)
        means.append(float(found.mean()))
        row = found[0, 40].mean(axis=1)
        kept.append(row[line].mean() > (row[line[0] - 3] + row[line[-1] + 3]) / 2.0)
    assert 0.4 < np.mean(np.array(means) < 0.7 * frames.mean()) < 0.75
    assert np.mean(kept) > 0.9


def test_a_repaint_is_pure_and_nothing_at_no_strength() -> None:
    look, frames = RandomRepaint(), np.round(road() * 255.0).astype(np.uint8)
    whole = look.apply(frames, Params(seed=4, strength=1.0)).astype(float)
    half = look.apply(frames, Params(seed=4, strength=0.5)).astype(float)
    assert np.array_equal(look.apply(frames, Params(seed=4, strength=0.0)), frames)
    assert_allclose(half, (whole + frames) / 2.0, atol=1.0)
    assert np.abs(whole - frames).mean() > 5.0


def test_looks_begin_with_a_repaint_as_often_as_they_are_asked_to() -> None:
    rng = np.random.default_rng(0)
    drawn_recipes = [drawn_look(rng, 0.5) for _ in range(400)]
    begun = [recipe for recipe in drawn_recipes if recipe.steps[0].stimulus == REPAINT]
    assert 160 < len(begun) < 240
    assert 0.35 < np.mean([len(recipe.steps) == 2 for recipe in begun]) < 0.65
    assert all(recipe.steps[-1].stimulus == LOOK for recipe in drawn_recipes if len(recipe.steps) == 2 or recipe not in begun)
    assert all(drawn_look(rng, 0.0).name == LOOK for _ in range(20))
    assert all(drawn_look(rng, 1.0).steps[0].stimulus == REPAINT for _ in range(20))
    assert all(Recipe.from_json(recipe.to_json()) == recipe for recipe in begun[:5])
