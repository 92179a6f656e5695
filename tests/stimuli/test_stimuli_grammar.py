"""One way to write stimuli, wherever they can be given."""

from pathlib import Path

import numpy as np
import pytest

from skidpad.core.errors import BadParametersError, SkidpadError, UnknownNameError, UntrustedError
from skidpad.core.stimuli import Params, Recipe, Step
from skidpad.core.trust import trusting
from skidpad.stimuli.pictures import stimuli
from skidpad.stimuli.registry import allow_typed, conditions_of, model_hashes, read, split_texts, stimuli_of

OWN = '''
from dataclasses import dataclass
from typing import ClassVar

from skidpad.core.stimuli import Params, Real, Space


@dataclass(frozen=True)
class Dusk:
    """Takes light away."""

    space: ClassVar[Space] = Space((Real("depth", 0.0, 0.9, 0.0),), (Params(depth=0.5),))

    def apply(self, frames, params):
        return (frames * (1.0 - params.real("depth"))).astype("uint8")


class Nothing:
    pass
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A module of the user's own in the current folder; each test has one of its own, since Python imports a module once."""
    name = f"own_{request.node.name.partition('[')[0]}"
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    return name


def test_names_parameters_and_steps_are_read():
    (one, two), made = conditions_of(["fog", " rotation( angle_deg=5 ) + fog(visibility_m=8e1) "])
    assert one.steps == (("fog", None),)
    assert two.text == "rotation(angle_deg=5)+fog(visibility_m=8e1)"
    assert two.grid(made) == (Recipe((Step("rotation", Params(angle_deg=5)), Step("fog", Params(visibility_m=80.0, seed=0)))),)
    assert one.grid(made) == tuple(Recipe.of("fog", row) for row in stimuli()["fog"].space.grid)
    assert len(read("deeptest-fog+blur", stimuli()).grid(stimuli())) == 10


def test_lists_are_split_outside_brackets():
    assert split_texts(["fog(density=0.3, seed=1), blur", "a+b"]) == ("fog(density=0.3, seed=1)", "blur", "a+b")


@pytest.mark.parametrize("text", ["fog(", "fog()", "fog++blur", "+fog", "", "fog(density)", "fog(density=1)x", "(density=1)"])
def test_what_is_not_written_so_is_refused(text):
    with pytest.raises(BadParametersError, match="a stimulus is a name"):
        conditions_of([text])


def test_searches_draw_from_the_rows_that_were_given():
    chosen = stimuli_of(["fog(visibility_m=35)", "fog(visibility_m=45)+blur"])
    assert chosen["fog"].space.grid == (Params(visibility_m=35, seed=0), Params(visibility_m=45, seed=0))
    assert chosen["blur"].space.grid == stimuli()["blur"].space.grid
    with pytest.raises(BadParametersError, match="changes nothing"):
        stimuli_of(["original"])


def test_a_weather_is_named_by_name_or_card(tmp_path: Path):
    from skidpad.stimuli.weather.pretrained import pretrained_weather

    card = pretrained_weather("night")
    named, filed = stimuli([f"weather:{name}" for name in ("night", card)]).values()
    frames = np.random.default_rng(0).integers(0, 256, (1, 48, 64, 3), np.uint8)
    one = named.apply(frames, Params(style=3))
    assert np.array_equal(one, filed.apply(frames, Params(style=3)))
    assert not np.array_equal(one, named.apply(frames, Params(style=4)))
    assert list(model_hashes({"weather:night": named, "fog": stimuli()["fog"]})) == ["stimulus weather:night"]
    for wrong, said in (("night", "'weather:night'"), ("weather:nigth", "did you mean 'night'")):
        with pytest.raises(UnknownNameError, match=said):
            stimuli([wrong])


def test_code_that_a_file_names_needs_a_persons_word_and_typed_code_is_their_word(own: str):
    text = f"{own}:Dusk"
    with trusting(word=False), pytest.raises(UntrustedError, match="allow it once with --trust"):
        conditions_of([text])
    allow_typed([f"{text}(depth=0.5)+fog"])
    frames = np.full((1, 4, 4, 3), 200, np.uint8)
    with trusting(word=False):
        (condition,), made = conditions_of([f"{text}(depth=0.5)"])
    assert (condition.grid(made)[0].apply(frames, made) == 100).all()
    Path(f"{own}.py").write_text(OWN + "# changed\n")
    with trusting(word=False), pytest.raises(UntrustedError):
        stimuli([text])


@pytest.mark.parametrize(("name", "said"), [("Dask", "has no attribute 'Dask'"), ("Nothing", "is no stimulus")])
def test_own_code_that_is_no_stimulus_is_refused_in_words(own: str, name: str, said: str):
    with trusting(), pytest.raises(SkidpadError, match=said):
        stimuli([f"{own}:{name}"])
