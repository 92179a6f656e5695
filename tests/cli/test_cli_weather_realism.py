"""Rendering sets, learning a classifier and measuring realism, as commands."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from skidpad.core.images import encode
from skidpad.stimuli.weather.pretrained import classifier_path, pretrained_names, pretrained_weather, weather_path


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("weather-sets")
    rng = np.random.default_rng(0)
    for name, level in (("clear", 150.0), ("fog", 30.0)):
        (root / name).mkdir()
        for number in range(50):
            picture = rng.normal(level, 10.0, (40, 60, 3)) + np.linspace(0, 40, 60)[None, :, None] * rng.random(3)
            (root / name / f"{number:02d}.png").write_bytes(encode(picture.clip(0, 255).astype(np.uint8)))
    return root


def test_a_classifier_is_learned_and_judges(skidpad, sets: Path, tmp_path: Path) -> None:
    words = [part for name in ("clear", "fog") for part in ("--set", f"{name}={sets / name}")]
    done = skidpad("weather", "classifier", *words, "--epochs", "1", "--samples", "256", "--out", tmp_path / "judge", "--json")
    assert done.code == 0, done.err
    card = json.loads(done.out)
    assert card["classes"] == ["clear", "fog"]
    assert sum(map(sum, card["confusion"])) == 20
    wishes = (
        "--from",
        sets / "clear",
        "--classifier",
        tmp_path / "judge",
        "--real",
        sets / "fog",
        "--transforms",
        "deeptest-fog",
        "--frames",
        "10",
    )
    done = skidpad("weather", "realism", *wishes, "--json")
    assert done.code == 0, done.err
    rows = {row["name"]: row for row in json.loads(done.out)["rows"]}
    assert set(rows) == {"real fog", "as it was", "deeptest-fog"}
    assert rows["deeptest-fog"]["total"] == 10
    assert rows["as it was"]["share_low"] <= rows["as it was"]["share"] <= rows["as it was"]["share_high"]
    shown = skidpad("weather", "realism", *wishes)
    assert "deeptest-fog" in shown.out
    assert "50 % is not at all" in shown.out
    assert "what is left of the road" in shown.out
    assert len(re.findall(r"│ fog +│ recorded frames, unchanged +│", shown.out)) == 2


def test_a_set_is_rendered_and_says_so(skidpad, tmp_path: Path) -> None:
    done = skidpad("weather", "render", "--weather", "snow", "--count", "2", "--size", "64x48", "--out", tmp_path / "snow")
    assert done.code == 0, done.err
    assert "2 pictures of snow" in done.out
    assert 'weather = "snow"' in (tmp_path / "snow" / "rendered.toml").read_text()
    again = skidpad("weather", "render", "--weather", "snow", "--count", "2", "--out", tmp_path / "snow")
    assert again.code == 2
    assert "is in use" in again.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("render", "--weather", "hail", "--out", "x"), "no rendered weather named 'hail'"),
        (("render", "--weather", "rain", "--size", "big", "--out", "x"), "written WIDTHxHEIGHT"),
        (("classifier", "--set", "fog", "--out", "x"), "written CLASS=FOLDER"),
        (("classifier", "--set", "fog=nowhere", "--set", "clear=nowhere", "--out", "x"), "nowhere"),
        (("realism", "--from", "rendered", "--classifier", "nowhere"), "there is no weather classifier"),
    ],
)
def test_bad_wishes_end_in_clear_words(skidpad, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str) -> None:
    monkeypatch.chdir(tmp_path)
    done = skidpad("weather", *words)
    assert done.code == 2
    assert said in done.err


def test_weathers_are_listed(skidpad) -> None:
    done = skidpad("list", "weathers", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert set(found["bundled"]) == set(pretrained_names())
    assert {"rain", "dusk", "snow", "snow-night"} <= set(found["rendered"])
    bundled, looks = skidpad("list", "weathers").out.split("looks of the built-in world, for `weather render`")
    for name, times in {"rain": (1, 1), "snow": (0, 1)}.items():
        assert tuple(len(re.findall(rf"│ {name} +│", part)) for part in (bundled, looks)) == times


def test_names_of_weathers_that_come_along_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert weather_path("some/file") == Path("some/file")
    assert classifier_path("mine.toml") == Path("mine.toml")
    for name in pretrained_names():
        assert weather_path(name) == pretrained_weather(name)
        Path(f"{name}.toml").touch()
        assert weather_path(name) == Path(name)
