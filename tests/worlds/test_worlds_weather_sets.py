"""Rendered sets: the weather that was asked for, the same bytes every time, and a folder that says how it was made."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.core.images import Camera, decode
from skidpad.worlds.render.weather_sets import MARK, RENDERED_WEATHERS, render_set, rendered_weather, write_set
from skidpad.worlds.scenario.domain import Domain, sample
from skidpad.worlds.scenario.domains import DUSK_DEG
from skidpad.worlds.scenario.scenario import Weather

SMALL = Camera(64, 48)


@pytest.mark.parametrize("name", RENDERED_WEATHERS)
def test_scenarios_have_the_weather_and_obey_the_domain(name: str) -> None:
    row = RENDERED_WEATHERS[name]
    domain = row.domain()
    assert isinstance(domain, Domain)
    for scenario in sample(domain, 0, 6).scenarios:
        assert scenario.conditions.weather is row.weather
        assert scenario.conditions.night == row.night
        assert row.weather is Weather.SUNNY or row.intensity[0] <= scenario.conditions.intensity <= row.intensity[1]
        assert row.night or (DUSK_DEG[0] <= scenario.conditions.sun_elevation_deg <= DUSK_DEG[1]) == row.dusk
        assert scenario.ego.headlights or not row.dusk
        assert not domain.violations(scenario)


def test_deep_snow_may_hide_the_lane_where_nobody_drives() -> None:
    drawn = sample(rendered_weather("snow").domain(), 0, 20).scenarios
    assert max(scenario.conditions.intensity for scenario in drawn) > 0.6


@pytest.fixture(scope="module")
def pictures() -> dict[str, np.ndarray]:
    return {name: np.stack(list(render_set(rendered_weather(name), 4, SMALL))) for name in ("clear", "snow", "dusk", "night")}


def test_pictures_look_like_their_weather(pictures: dict[str, np.ndarray]) -> None:
    assert pictures["night"].mean() < 0.6 * pictures["clear"].mean()
    redness = {name: frames[..., 0].astype(float).mean() / frames[..., 2].mean() for name, frames in pictures.items()}
    assert pictures["night"].mean() < 0.9 * pictures["dusk"].mean() < 0.9 * pictures["clear"].mean()
    assert redness["dusk"] > redness["clear"]
    ground = {name: frames[:, 30:].astype(float).mean() for name, frames in pictures.items()}
    assert ground["snow"] > ground["clear"] + 25


def test_pictures_are_many_and_the_same_every_time(pictures: dict[str, np.ndarray]) -> None:
    clear = pictures["clear"]
    assert clear.shape == (4, 48, 64, 3)
    assert all(np.abs(clear[a].astype(int) - clear[b]).mean() > 5 for a in range(4) for b in range(a))
    assert np.array_equal(np.stack(list(render_set(rendered_weather("clear"), 2, SMALL))), clear[:2])
    assert not np.array_equal(next(render_set(rendered_weather("clear"), 1, SMALL, seed=1)), clear[0])
    smooth = next(render_set(rendered_weather("clear"), 1, SMALL, supersample=2))
    assert smooth.shape == (48, 64, 3)
    assert 0.5 < np.abs(smooth.astype(int) - clear[0]).mean() < 30


def test_a_folder_says_how_it_was_made(tmp_path: Path, pictures: dict[str, np.ndarray]) -> None:
    seen: list[tuple[int, int]] = []
    folder = tmp_path / "sets" / "clear"
    written = write_set(
        folder,
        rendered_weather("clear"),
        2,
        SMALL,
        quality=95,
        command="skidpad ...",
        progress=lambda done, total, _="": seen.append((done, total)),
    )
    files = sorted(folder.glob("*.jpg"))
    assert [path.name for path in files] == ["00000.jpg", "00001.jpg"]
    assert written == sum(path.stat().st_size for path in files)
    assert seen == [(1, 2), (2, 2)]
    stored = decode(files[0].read_bytes())
    assert stored is not None
    assert np.abs(stored.astype(int) - pictures["clear"][0]).mean() < 8
    mark = tomllib.loads((folder / MARK).read_text())
    assert (mark["weather"], mark["count"], mark["width_px"], mark["command"]) == ("clear", 2, 64, "skidpad ...")
    with pytest.raises(BadParametersError, match="is in use"):
        write_set(folder, rendered_weather("clear"), 2, SMALL)


def test_bad_wishes_end_in_clear_words() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'snow-night'"):
        rendered_weather("snow_night")
    with pytest.raises(BadParametersError, match="at least one picture"):
        next(render_set(rendered_weather("clear"), 0, SMALL))
    with pytest.raises(BadParametersError, match="supersample of 1 to 4"):
        next(render_set(rendered_weather("clear"), 1, SMALL, supersample=9))
