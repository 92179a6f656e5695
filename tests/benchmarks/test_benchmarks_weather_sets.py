"""The pictures that the bundled weathers learn from, made of a few small ones."""

import runpy
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from skidpad.core.images import NumpyFrames, decode, write_image
from skidpad.stimuli.weather.classifier import held_out

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "weather_sets.py"
DAYS = 16
OTHERS = ("clear", "day_street", "night", "snow_day", "wet", "wet_japan", "fog")


def road(light: float, tint: tuple[float, float, float] = (1.0, 1.0, 1.0), seed: int = 0) -> NumpyFrames:
    """A grey road below a bright sky, with grain."""
    picture = np.full((120, 160, 3), 90.0)
    picture[:50] = 200.0
    picture += np.random.default_rng(seed).normal(0, 6, picture.shape)
    return np.asarray((cv2.GaussianBlur(picture, (0, 0), 1.0) * light * np.array(tint)).clip(0, 255), np.uint8)


@pytest.fixture
def data(tmp_path: Path) -> tuple[Path, Path]:
    """comma10k in small: days, one rainy day, and the folders by tag, of four cameras."""
    comma, weather = tmp_path / "comma10k", tmp_path / "weather"
    lines = ["name,light,rain_or_wet,odd_scene,device"]
    for number in range(DAYS):
        day = road(1.0, seed=number)
        mask = np.full((*day.shape[:2], 3), 3, np.uint8)
        mask[50:] = 1
        if number % 2:  # a hard shadow across the road
            day[60:, 80:] //= 3
        write_image(comma / "imgs" / f"{number:04}_cam{number % 4}_x.jpg", day)
        write_image(comma / "masks" / f"{number:04}_cam{number % 4}_x.png", mask)
        lines.append(f"{number:04}_cam{number % 4}_x,day,0,0,cam{number % 4}")
    lines += ["9999_cam0_x,day,1,0,cam0", "9998_cam0_x,day,0,0,cam0"]  # rainy; not there
    (comma / "tags.csv").write_text("\n".join(lines) + "\n")
    for kind, light, tint in (("night", 0.2, (1.0, 1.0, 1.0)), ("dusk", 0.5, (0.8, 0.9, 1.1)), ("rain", 0.7, (1.0, 1.0, 1.0))):
        for camera in range(8):
            orange = (1.4, 1.0, 0.5) if kind == "night" and camera % 2 else tint
            write_image(weather / f"comma_{kind}" / f"{camera:04}_cam{camera}_{kind}.jpg", road(light, orange, camera))
    for folder in OTHERS:
        for number in range(12):
            write_image(weather / folder / f"{number:04}.jpg", road(0.9, seed=number))
    return comma, weather


def made(data: tuple[Path, Path], out: Path, monkeypatch: pytest.MonkeyPatch, drive: str = "") -> dict[str, list[Path]]:
    script: dict[str, Any] = runpy.run_path(str(SCRIPT))
    main = script["main"]
    small = {"DAYS": 8, "NIGHTS": 2, "RAINS": 2, "FOGS": 2, "DUSKS": 1, "GUIDE_DUSKS": 1, "RENDERED": {"clear": 2, "night": 1}}
    small |= {"SOFT": 0.5, "SOFT_EACH": 3, "OWN_DAYS": 20, "OWN_NIGHTS": 3, "OWN_FOGS": 4}
    main.__globals__.update(small)
    monkeypatch.setattr(sys, "argv", ["weather_sets.py", *map(str, data), "--out", str(out), *(["--drive", drive] if drive else [])])
    main()
    return {str(folder.relative_to(out)): sorted(folder.glob("*.jpg")) for folder in out.rglob("*") if folder.is_dir()}


def test_days_are_half_harsh_and_nights_are_real_computed_and_rendered(
    data: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = made(data, tmp_path / "sets", monkeypatch)
    light = {file: float(np.asarray(decode(file.read_bytes())).mean()) for files in sets.values() for file in files}
    assert len(sets["day"]) == 8 + 2
    assert sum("-harsh" in file.name for file in sets["day"]) == 4
    assert len(sets["night"]) == 8 + 2 + 1
    assert len(sets["rain"]) == 4 * 8 + 2
    assert len(sets["dusk"]) == 3 * 8 + 1
    computed = [light[file] for file in sets["night"] if "-computed" in file.name]
    assert max(computed) < 0.6 * min(light[file] for file in sets["day"] if "-harsh" not in file.name)
    plain = decode(next(file for file in sets["day"] if "-harsh" not in file.name and "cam" in file.name).read_bytes())
    assert plain is not None
    assert plain.shape == (90, 160, 3), "without the bonnet"
    names = {file.name.removesuffix("-computed.jpg") for folder in ("night", "rain") for file in sets[folder] if "-computed" in file.name}
    assert not names & {file.name.removesuffix(".jpg").removesuffix("-harsh") for file in sets["day"]}, "no day is its own night"


def test_looks_are_of_dark_nights_that_are_not_orange(data: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = made(data, tmp_path / "sets", monkeypatch)
    assert [file.name[:4] for file in sets["night-looks"]] == ["0000", "0002", "0004", "0006"]


def test_guide_and_judge_share_no_camera(data: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = made(data, tmp_path / "sets", monkeypatch)
    cameras = [
        {file.name.split("_")[1] for kind in ("night", "dusk", "rain") for file in sets[f"{kind}-{who}"]} for who in ("guide", "judge")
    ]
    assert all(cameras)
    assert not cameras[0] & cameras[1]
    assert len(cameras[0] | cameras[1]) == 8


def test_the_same_command_gives_the_same_bytes(data: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (made(data, tmp_path / name, monkeypatch) for name in ("one", "two"))
    for name, files in first.items():
        assert [file.read_bytes() for file in files] == [file.read_bytes() for file in second[name]], name


def test_soft_dusks_and_rains_are_of_days_whose_roads_lie_in_even_light(
    data: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = made(data, tmp_path / "sets", monkeypatch)
    for kind, times in (("dusk", 3), ("rain", 4)):
        computed = [file for file in sets[f"soft-{kind}"] if "-computed" in file.name]
        assert len(computed) == 3
        assert all(int(file.name[:4]) % 2 == 0 for file in computed), "no day with a hard shadow"
        assert len(sets[f"soft-{kind}"]) == 3 + times * 8
    assert len(sets["soft-rain-looks"]) == 3 + 8
    light = [float(np.asarray(decode(file.read_bytes())).mean()) for file in sets["soft-dusk-looks"]]
    assert all(54.0 <= mean < 80.0 for mean in light)


def test_a_drive_has_sets_of_its_own_without_the_frames_that_realism_holds_out(
    data: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = made(data, tmp_path / "sets", monkeypatch, "rendered?frames=200&width=96&height=64")
    marks = held_out(200)
    own = [
        file for kind in ("day", "night", "fog") for file in sets[f"drive/{kind}"] if len(file.name.split("-")[0].removesuffix(".jpg")) == 6
    ]
    assert len(own) == 20 + 3 + 4
    assert not any(marks[int(file.name[:6])] for file in own)
    assert len(sets["drive/night"]) == 7 + 3  # each tenth of eight pictures is left out
    assert len(sets["drive/snow"]) == 10
    assert len(sets["drive/snow-looks"]) == 5
    assert len(sets["drive/wet"]) == 12, "0002 of the one set lies over 0002 of the other"
    for kind in ("clear", "night", "snow", "wet", "fog"):
        assert sets[f"guide/{kind}"]
        assert sets[f"judge/{kind}"]
