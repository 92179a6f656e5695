"""The referee's word: scenes that were kept and pictures that were ruined on purpose, on real pictures; and what campaigns make of it."""

import json
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from skidpad.cli.main import app
from skidpad.core.errors import BadParametersError, SkidpadError
from skidpad.core.images import NumpyFrames, decode, write_image
from skidpad.core.stimuli import Params, Recipe
from skidpad.drives.opening import open_drive
from skidpad.referee.network import HEIGHT_PX, WIDTH_PX
from skidpad.referee.verdict import Reason, Verdicts, Word, judge
from skidpad.stimuli.pictures import stimuli

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks import referee as bench


@pytest.fixture(scope="module")
def road() -> NumpyFrames:
    """Frames of the built-in world."""
    return open_drive("rendered?frames=4&seed=3").read(range(4)).frames


def words(found: Verdicts) -> list[str]:
    return [word.value for word in found.words]


@pytest.mark.parametrize("name", ["exposure -1 EV", "gamma 0.6", "veil 0.3", "noise 6", "blur 1 px", "jpeg 20"])
def test_a_rendered_road_in_another_light_is_kept(road: NumpyFrames, name: str) -> None:
    rng = np.random.default_rng(0)
    changed = np.stack([bench.KEEPING[name](frame, rng) for frame in road])
    assert words(judge(road, changed)) == ["kept"] * 4


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("black", Reason.BLANK),
        ("grey", Reason.BLANK),
        ("white", Reason.BLANK),
        ("rotated 12 deg, black corners", Reason.BORDER),
        ("black bars above and below", Reason.BORDER),
        ("right half mirrors the left", Reason.MIRRORED),
    ],
)
def test_ruin_is_refused_with_its_reason(road: NumpyFrames, name: str, reason: Reason) -> None:
    # a rendered straight road mirrors itself nearly, so that it is seen askew
    shear, size = np.array([[1, 0.3, 0], [0, 1, 0]], np.float32), (road.shape[2], road.shape[1])
    askew = np.stack([cv2.warpAffine(frame, shear, size, borderMode=cv2.BORDER_REFLECT) for frame in road])
    changed = np.stack([bench.RUINING[name](frame, np.random.default_rng(0)) for frame in askew])
    assert set(judge(askew, changed).reasons) == {reason}


def test_a_road_that_light_burns_away_is_refused_and_one_that_loses_a_part_is_unclear(road: NumpyFrames) -> None:
    for rows, reason in ((slice(96, 152), Reason.ROAD_BURNT), (slice(88, 120), Reason.ROAD_PALE)):
        burnt = road.copy()
        burnt[:, rows] = 255
        assert set(judge(road, burnt).reasons) == {reason}
    assert (Reason.ROAD_BURNT.word, Reason.ROAD_PALE.word) == (Word.REFUSED, Word.UNCLEAR)


@pytest.mark.parametrize("level", [0, 128], ids=["black", "grey"])
def test_frames_without_a_road_are_unclear(level: int) -> None:
    frames = np.full((2, 120, 160, 3), level, np.uint8)
    found = judge(frames, frames)
    assert words(found) == ["unclear"] * 2
    assert found.reasons[0].value == "no road in the original"


def test_a_moved_camera_is_compared_with_what_it_must_show(road: NumpyFrames) -> None:
    shift = np.array([[1.0, 0.0, -40.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    size = road.shape[2], road.shape[1]
    moved = np.stack([cv2.warpPerspective(frame, shift, size, borderMode=cv2.BORDER_REFLECT) for frame in road])
    assert words(judge(road, moved, shift)) == ["kept"] * 4
    assert "kept" not in words(judge(road, moved))


def test_one_picture_is_judged_as_it_is_among_others_and_pairs_must_match(road: NumpyFrames) -> None:
    rng = np.random.default_rng(0)
    changed = np.stack([bench.KEEPING["veil 0.5"](road[0], rng), bench.RUINING["black"](road[1], rng), road[2], road[0]])
    together = judge(road, changed)
    alone = [judge(road[k : k + 1], changed[k : k + 1]).reasons[0] for k in range(4)]
    assert list(together.reasons) == alone
    assert len(judge(road[:0], road[:0])) == 0
    with pytest.raises(BadParametersError, match="each changed picture needs its original"):
        judge(road, road[:2])


def test_the_command_says_its_word_and_draws_both_roads(road: NumpyFrames, tmp_path: Path) -> None:
    files = [str(write_image(tmp_path / f"{name}.png", frame)) for name, frame in (("a", road[0]), ("b", road[0] // 2), ("c", road[0] * 0))]
    ask = ["referee", files[0]]
    kept = json.loads(CliRunner().invoke(app, [*ask, files[1], "--out", str(tmp_path / "pair.png"), "--json"]).stdout)
    assert (kept["word"], kept["reason"]) == ("kept", "")
    drawn = decode((tmp_path / "pair.png").read_bytes())
    assert drawn is not None
    assert drawn.shape == (road.shape[1], 2 * road.shape[2], 3)
    refused = CliRunner().invoke(app, [*ask, files[2]])
    assert "refused" in refused.stdout
    assert "blank" in refused.stdout
    for bad in (ask, [*ask, str(tmp_path / "none.png")]):
        assert isinstance(CliRunner().invoke(app, bad).exception, SkidpadError)


def _rates(frames: NumpyFrames, made: dict[str, NumpyFrames]) -> tuple[float, dict[str, float]]:
    refused = {name: np.mean([word is Word.REFUSED for word in judge(frames, changed).words]) for name, changed in made.items()}
    return float(np.mean(list(refused.values()))), {name: float(share) for name, share in refused.items()}


UNTUNED = {
    "dashcams": ("comma10k/imgs", "_([0-9a-f]{16})_", "comma10k/masks"),
    "dusk": ("camvid/train/imgs", "^(.{6})", ""),
}
"""Pictures that neither the network nor the thresholds were made with: folder, what tells cameras or sequences apart, masks."""


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("name", "count"),
    [
        pytest.param("dusk", 6, id="few"),
        pytest.param("dusk", 24, id="dusk", marks=pytest.mark.slow),
        pytest.param("dashcams", 30, id="dashcams", marks=pytest.mark.slow),
    ],
)
def test_on_pictures_it_was_not_made_with_it_refuses_ruin_and_nothing_else(shared_data: Path, name: str, count: int) -> None:
    folder, group, masks = UNTUNED[name]
    files = bench.chosen(shared_data / folder, count, group, 0, shared_data / masks if masks else None)
    frames = bench.read(files)
    wrong, by_change = _rates(frames, bench.kept(frames, 1))
    assert wrong <= 0.01, by_change
    roads = bench.masks_of(files, shared_data / masks, (WIDTH_PX, HEIGHT_PX)) if masks else bench.roads_of(frames)
    ruined = bench.ruined(frames, roads, 2)
    ruined.pop(bench.HALF_GRASS)
    right, by_ruin = _rates(frames, ruined)
    assert right >= 0.99, by_ruin


@pytest.mark.real_data
@pytest.mark.slow
def test_on_a_recorded_drive_it_refuses_ruin_and_nothing_else(shared_data: Path) -> None:
    frames = bench.read(bench.chosen(shared_data / "udacity-ch2-test" / "center", 150))
    wrong, by_change = _rates(frames, bench.kept(frames, 1))
    assert wrong <= 0.01, by_change
    ruined = bench.ruined(frames, bench.roads_of(frames), 2)
    ruined.pop(bench.HALF_GRASS)
    right, by_ruin = _rates(frames, ruined)
    assert right >= 0.99, by_ruin


def test_a_mirrored_scene_is_refused(road: NumpyFrames) -> None:
    shear, size = np.array([[1, 0.3, 0], [0, 1, 0]], np.float32), (road.shape[2], road.shape[1])
    askew = np.stack([cv2.warpAffine(frame, shear, size, borderMode=cv2.BORDER_REFLECT) for frame in road])
    assert set(judge(askew, np.ascontiguousarray(askew[:, :, ::-1])).reasons) <= {Reason.FLIPPED, Reason.MIRRORED}


def test_an_even_wet_sky_is_no_border(road: NumpyFrames) -> None:
    rain = Recipe.of("rain", Params(mm_per_h=30.0, seed=0)).apply(road, stimuli(["rain"]))
    assert words(judge(road, rain)) == ["kept"] * 4


def test_a_road_that_fog_hides_from_the_network_is_kept_by_its_own_pixels(road: NumpyFrames) -> None:
    fog = bench.fog(50.0)
    changed = np.stack([fog(frame, np.random.default_rng(0)) for frame in road])
    assert words(judge(road, changed)) == ["kept"] * 4
