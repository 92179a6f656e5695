"""Parameters, spaces and recipes: what a finding is made of."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.core.stimuli import Choice, F, Params, Real, Recipe, Space, Step, Whole

SPACE = Space(
    (Real("gain", 0.0, 3.0, 1.0), Whole("size_px", 1, 9, 1), Choice("kind", ("soft", "hard"), "soft")),
    (Params(gain=1.5, size_px=3, kind="hard"), Params(gain=2.0, size_px=5, kind="soft")),
)


@dataclass(frozen=True)
class Add:
    """A toy stimulus: adds, so that the order of application can be read off the result."""

    space: ClassVar[Space] = Space((Whole("by", 0, 255, 0),), (Params(by=1),))

    def apply(self, frames: F, params: Params) -> F:
        return frames + params.whole("by")


@dataclass(frozen=True)
class Double:
    space: ClassVar[Space] = Space((), (Params(),))

    def apply(self, frames: F, params: Params) -> F:
        return frames * 2


TOYS = {"add": Add(), "double": Double()}
values = st.one_of(st.integers(-1000, 1000), st.floats(allow_nan=False, allow_infinity=False, width=32), st.text(max_size=5))
all_params = st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), values, max_size=4).map(lambda items: Params(**items))
recipes = st.lists(st.tuples(st.text(min_size=1, max_size=6), all_params), max_size=3).map(
    lambda steps: Recipe(tuple(Step(name, params) for name, params in steps))
)


@given(recipes)
def test_a_recipe_survives_json(recipe: Recipe) -> None:
    assert Recipe.from_json(recipe.to_json()) == recipe
    assert Recipe.from_json(recipe.to_json()).to_json() == recipe.to_json()


@given(all_params)
def test_params_are_equal_whatever_the_order_of_their_names(params: Params) -> None:
    backwards = Params(**dict(reversed(list(params.items()))))
    assert backwards == params
    assert hash(backwards) == hash(params)


@given(st.integers(0, 2**32))
def test_what_a_space_draws_it_accepts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    SPACE.check("toy", SPACE.sample(rng))
    SPACE.check("toy", SPACE.pick(rng))


def test_identity_needs_every_parameter_to_have_one() -> None:
    assert SPACE.identity == Params(gain=1.0, size_px=1, kind="soft")
    assert Space((Real("gain", 0, 1, None),), ()).identity is None


@pytest.mark.parametrize(
    ("params", "error", "words"),
    [
        (Params(gain=1.0, size_px=3), BadParametersError, "needs the parameter 'kind'"),
        (Params(gain=4.0, size_px=3, kind="soft"), BadParametersError, r"takes gain in \[0, 3\]; got gain=4.0"),
        (Params(gain=1.0, size_px=2.5, kind="soft"), BadParametersError, "got size_px=2.5"),
        (Params(gain=float("nan"), size_px=3, kind="soft"), BadParametersError, "got gain=nan"),
        (Params(gain=1.0, size_px=3, kind="other"), BadParametersError, "soft, hard"),
        (Params(gian=1.0, size_px=3, kind="soft"), UnknownNameError, "did you mean 'gain'"),
    ],
)
def test_a_space_says_what_is_wrong(params: Params, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        SPACE.check("toy", params)


FOG = Space(
    (Real("density", 0.0, 1.0, 0.0), Real("slant_deg", -9.0, 9.0, 0.0)),
    (Params(density=0.5, slant_deg=4.0), Params(density=1.0, slant_deg=4.0)),
)


def test_what_is_left_out_is_what_the_grid_always_has_or_changes_nothing() -> None:
    assert FOG.filled("fog", Params(density=0.2)) == Params(density=0.2, slant_deg=4.0), "the whole grid leans like this"
    assert FOG.filled("fog", Params(density=0.2, slant_deg=1.0)) == Params(density=0.2, slant_deg=1.0)
    assert SPACE.filled("toy", Params(gain=2.0)) == Params(gain=2.0, size_px=1, kind="soft"), "the grid varies both"
    for params, words in ((Params(slant_deg=1.0), r"needs density in \[0, 1\]"), (Params(), "needs density")):
        with pytest.raises(BadParametersError, match=words):
            FOG.filled("fog", params)
    with pytest.raises(UnknownNameError, match="did you mean 'density'"):
        FOG.filled("fog", Params(densty=0.2))


def test_each_step_is_applied_to_the_running_image() -> None:
    frames = np.full((1, 2, 2, 3), 10, np.uint8)
    add_then_double = Recipe((Step("add", Params(by=5)), Step("double", Params())))
    double_then_add = Recipe(tuple(reversed(add_then_double.steps)))
    assert add_then_double.apply(frames, TOYS)[0, 0, 0, 0] == 30
    assert double_then_add.apply(frames, TOYS)[0, 0, 0, 0] == 25
    assert frames[0, 0, 0, 0] == 10
    assert Recipe().apply(frames, TOYS) is frames


def test_an_unknown_stimulus_is_named() -> None:
    with pytest.raises(UnknownNameError, match="no stimulus named 'ad'; did you mean 'add'"):
        Recipe.of("ad", Params()).apply(np.zeros((1, 1, 1, 3), np.uint8), TOYS)


def test_names_of_recipes() -> None:
    assert Recipe().name == "original"
    assert Recipe((Step("add", Params(by=1)), Step("double", Params()))).name == "add+double"
    assert str(Recipe.of("add", Params(by=1))) == "add(by=1)"
