"""Realism side by side: controls behave as controls, a planted fake is told, and held-out frames are used."""

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from skidpad.core.errors import BadDriveError, BadParametersError, SkidpadError, UnknownNameError
from skidpad.core.images import NumpyFrames, encode
from skidpad.kinds.pictures.weather.realism import Realism, RealismLine, RealismSettings, _Asked, _asked, _sources, measure_realism
from skidpad.referee import network as road_network
from skidpad.stimuli.weather.classifier import ClassifierSettings, ClassSet, held_out, learn_classifier, save_classifier
from skidpad.stimuli.weather.files import Styles, WeatherCard, save_weather
from skidpad.stimuli.weather.munit import Munit
from skidpad.stimuli.weather.settings import Method, Sizes

COUNT = 100
SIZES = Sizes(filters=4, blocks=1, style=2, hidden=8, scales=1)

UNTRAINED = WeatherCard(
    name="untrained",
    method=Method.MUNIT,
    sizes=SIZES,
    size_px=32,
    source="clear",
    source_sha256="",
    target="sets/fog",
    target_sha256="",
    rendered=True,
    steps=1,
    batch_size=1,
    crop_px=32,
    seed=0,
    styles=Styles((0.0, 0.0), (0.1, 0.1)),
)


def road(rng: np.random.Generator, haze: float) -> NumpyFrames:
    picture = np.full((48, 64, 3), (90, 130, 220), np.float64)
    picture[20:] = (80, 80, 85)
    cv2.line(picture, (int(rng.integers(8, 56)), 47), (32, 20), (240, 230, 90), 2)
    cv2.rectangle(picture, (int(rng.integers(0, 50)), 8), (int(rng.integers(0, 60)), 20), (40, 110, 40), -1)
    picture += rng.normal(0.0, 6.0, picture.shape)
    return (picture * (1.0 - haze) + 205.0 * haze).clip(0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sets of clear and foggy roads, a classifier of them and a weather that was never trained."""
    root = tmp_path_factory.mktemp("realism")
    rng = np.random.default_rng(0)
    for name, haze in (("clear", (0.0, 0.1)), ("fog", (0.6, 0.8))):
        (root / name).mkdir()
        for number in range(COUNT):
            (root / name / f"{number:03d}.png").write_bytes(encode(road(rng, float(rng.uniform(*haze)))))
    sets = [ClassSet(name, str(root / name)) for name in ("clear", "fog")]
    card, weights = learn_classifier(sets, ClassifierSettings(epochs=2, samples=160, batch_size=16, learning_rate=5e-3))
    save_classifier(root / "judge", card, weights)
    torch.manual_seed(0)
    save_weather(root / "untrained", UNTRAINED, dict(Munit(SIZES).state_dict()))
    return root


@pytest.fixture(scope="module")
def settings(world: Path) -> RealismSettings:
    return RealismSettings(
        drive=str(world / "clear"),
        classifier=str(world / "judge"),
        weathers=(str(world / "untrained"),),
        real=(str(world / "fog"),),
        frames=16,
    )


@pytest.fixture(scope="module")
def found(settings: RealismSettings) -> Realism:
    return measure_realism(settings)


def line(found: Realism, name: str) -> RealismLine:
    return next(each for each in found.lines if each.row.name == name)


def test_controls_are_what_they_should_be(found: Realism) -> None:
    real, plain = line(found, "real fog"), line(found, "as it was")
    assert real.row.right == real.row.total
    assert real.row.kept is None
    assert real.row.against_real is not None
    assert real.row.against_real.accuracy_p > 0.05
    assert plain.row.right == 0
    assert plain.row.kept == plain.row.total == 16
    assert plain.row.against_real is not None
    assert plain.row.against_real.accuracy_p < 0.01
    assert plain.nearer == pytest.approx(0.0)


def test_deeptests_fog_comes_nearer_and_keeps_the_scene(found: Realism) -> None:
    fog, plain = line(found, "deeptest-fog"), line(found, "as it was")
    assert fog.row.right > 0
    assert fog.share.low <= fog.row.right / fog.row.total <= fog.share.high
    assert fog.nearer is not None
    assert fog.nearer > 0.1
    assert fog.row.likeness is not None
    assert plain.row.likeness is not None
    assert fog.row.likeness < plain.row.likeness


def test_a_weather_that_destroys_scenes_is_seen(found: Realism) -> None:
    row = line(found, "untrained").row
    assert row.kind == "munit, rendered"
    assert row.target == "fog"
    assert row.kept == row.valid == 0
    assert row.against_real is not None
    assert row.against_real.accuracy > 0.8
    assert sum(row.called) == row.total == 16


def test_the_road_of_untouched_scenes_is_where_it_was(found: Realism) -> None:
    plain, real = line(found, "as it was").drive, line(found, "real fog").drive
    assert real is None
    assert plain is not None
    assert (plain.road_iou, plain.road_iou_below) in {(1.0, 0.0), (None, None)}
    assert (plain.contrast_near, plain.contrast_far) == pytest.approx((1.0, 1.0))


def test_what_the_referee_does_not_keep_is_left_out_of_the_second_figures(found: Realism) -> None:
    plain, lost = line(found, "as it was").drive, line(found, "untrained").drive
    assert plain is not None
    assert lost is not None
    assert (plain.kept_road_iou, plain.kept_road_iou_below) in {(1.0, 0.0), (None, None)}
    assert plain.not_kept < lost.not_kept == 1.0
    assert lost.kept_road_iou is lost.kept_road_iou_below is None


def test_a_scene_that_a_judge_reads_otherwise_in_other_light_is_counted_apart(
    settings: RealismSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sees(_: object, frames: NumpyFrames) -> NumpyFrames:
        """Sees a road in all of a scene, and in half of the first and the third with more light than they were recorded in."""
        lit = frames.mean(axis=(1, 2, 3)) > 1.2 * plain.mean()
        found = np.ones((len(frames), 8, 8), np.bool_)
        found[[row for row in (0, 2) if lit[row]], :4] = False
        return found

    plain = np.stack([decoded(path) for path in sorted(Path(settings.drive).iterdir())]).astype(np.float64)
    monkeypatch.setattr("skidpad.kinds.pictures.weather.road_kept.drivable_areas", sees)
    drive = line(measure_realism(replace(settings, weathers=(), real=(), frames=4, transforms=("deeptest-fog",))), "as it was").drive
    assert drive is not None
    assert drive.unsteady == 0.5
    assert (drive.road_iou, drive.steady_road_iou, drive.steady_road_iou_below) == (1.0, 1.0, 0.0)


def decoded(path: Path) -> NumpyFrames:
    return np.asarray(cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB), np.uint8)


class Blinking:
    """A weather that turns the light up and down from frame to frame."""

    card = replace(UNTRAINED, name="blinking")
    style_size = 0

    def translate(self, frames: NumpyFrames, style: object) -> NumpyFrames:
        assert style is None
        shift = np.where(np.arange(len(frames)) % 2, 30, 0).reshape(-1, 1, 1, 1)
        return (frames // 2 + 60 + shift).astype(np.uint8)


def test_a_planted_flicker_stands_beside_the_recorded_one(settings: RealismSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skidpad.kinds.pictures.weather.realism.Weather.load", lambda *_: Blinking())
    drive = "rendered?frames=600&width=128&height=96"
    found = measure_realism(replace(settings, drive=drive, real=(), frames=2, clips=2, transforms=()))
    plain, blinking = line(found, "as it was").drive, line(found, "blinking").drive
    assert plain is not None
    assert blinking is not None
    assert plain.flicker is not None
    assert plain.flicker == plain.flicker_recorded == blinking.flicker_recorded
    assert plain.flicker < 8.0
    assert blinking.flicker == pytest.approx(30.0, abs=6.0)
    without = line(measure_realism(replace(settings, drive=drive, real=(), frames=2, clips=0, transforms=())), "blinking").drive
    assert without is not None
    assert without.flicker is None
    assert without.contrast_near == pytest.approx(0.5, abs=0.1)


def test_the_network_that_weathers_learn_from_judges_nobody(settings: RealismSettings) -> None:
    teacher = Path(road_network.__file__).with_name("teacher.safetensors")
    with pytest.raises(SkidpadError, match="is the network that weathers learn from, which cannot judge them"):
        measure_realism(replace(settings, judges=(str(teacher),)))


def test_rain_has_no_class_here_and_is_left_out(found: Realism) -> None:
    assert not any(each.row.name == "deeptest-rain" for each in found.lines)
    assert "held out" in found.notes[0]


def test_the_same_settings_give_the_same_figures(found: Realism, settings: RealismSettings) -> None:
    assert measure_realism(settings) == found


def test_frames_come_from_held_out_places(world: Path, settings: RealismSettings) -> None:
    wanted = [path for path, mark in zip(sorted((world / "clear").iterdir()), held_out(COUNT), strict=True) if mark]
    stored = [cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB) for path in wanted]
    frames = _sources(replace(settings, frames=1000))
    assert np.array_equal(frames, np.stack(stored))


def test_a_class_can_be_named_and_a_picture_is_written(world: Path, settings: RealismSettings, tmp_path: Path) -> None:
    wishes = replace(
        settings,
        weathers=(f"{world / 'untrained'}=clear",),
        real=(),
        transforms=(),
        frames=3,
        styles="real",
        drive="rendered?frames=40&width=64&height=48",
    )
    found = measure_realism(wishes, grid=tmp_path / "grid.png")
    assert [each.row.target for each in found.lines] == ["clear", "clear"]
    assert all(each.row.against_real is None and each.nearer is None for each in found.lines)
    assert "no real pictures were given of clear" in " ".join(found.notes)
    picture = cv2.imread(str(tmp_path / "grid.png"))
    assert picture is not None
    assert picture.shape == (2 * 48, 3 * 64, 3)


def test_air_on_top_of_a_weather_takes_more_contrast_far_away_than_near(
    settings: RealismSettings, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foggy = "fog(visibility_m=150,seed=0)"
    texts = ("rain=clear", f"rain+{foggy}=clear", f"weather:rain+{foggy}+blur(kind=gaussian,size=5)=clear")
    wishes = replace(settings, weathers=texts, real=(), transforms=(), frames=3, clips=1, drive="rendered?frames=60", styles="real")
    shown = measure_realism(wishes)
    alone, below, blurred = (line(shown, name) for name in ("rain", f"rain+{foggy}", f"rain+{foggy}+blur(kind=gaussian,size=5)"))
    near, far = (each.drive.contrast_near for each in (alone, below)), (each.drive.contrast_far for each in (alone, below))
    near_kept, far_kept = (after / before for before, after in (near, far))
    assert near_kept > 0.75
    assert far_kept < 0.6 * near_kept
    assert blurred.drive.contrast_near < below.drive.contrast_near
    assert below.row.kind == alone.row.kind
    with pytest.raises(UnknownNameError, match="did you mean 'fog'"):
        measure_realism(replace(wishes, weathers=("rain+fgo(visibility_m=150)=clear",)))
    for suffix in (".toml", ".safetensors"):
        (world / f"a+b{suffix}").write_bytes((world / f"untrained{suffix}").read_bytes())
    monkeypatch.chdir(world)
    assert [_asked(text) for text in ("a+b=fog", "a+b+fog=fog", "night")] == [
        _Asked("a+b", "fog", ""),
        _Asked("a", "fog", "b+fog"),
        _Asked("night", "", ""),
    ]


def test_bad_wishes_end_in_clear_words(world: Path, settings: RealismSettings, tmp_path: Path) -> None:
    with pytest.raises(BadParametersError, match="at least one frame"):
        replace(settings, frames=0)
    with pytest.raises(UnknownNameError, match="did you mean 'random'"):
        replace(settings, styles="randon")
    with pytest.raises(UnknownNameError, match="class of the weather classifier"):
        measure_realism(replace(settings, weathers=(f"{world / 'untrained'}=snow",)))
    for text in ("rain+", "rain+=clear", "rain+ "):
        with pytest.raises(BadParametersError, match=r"name a stimulus after the \+"):
            measure_realism(replace(settings, weathers=(text,)))
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    for number in range(40):
        (mixed / f"{number:02d}.png").write_bytes(encode(np.zeros((40 + number, 40, 3), np.uint8)))
    with pytest.raises(BadDriveError, match="must be of one size"):
        measure_realism(replace(settings, drive=str(mixed)))


def test_too_few_frames_to_hold_one_out_are_refused(world: Path, settings: RealismSettings, tmp_path: Path) -> None:
    for number, path in enumerate(sorted((world / "fog").iterdir())[:4]):
        (tmp_path / f"{number}.png").write_bytes(path.read_bytes())
    said = "has 4 frames, and realism is measured on held-out ones: at least 5 are needed for one to be held out; give a longer drive"
    for drive in ("rendered?frames=4", str(tmp_path)):
        with pytest.raises(BadDriveError, match=said):
            measure_realism(replace(settings, clips=0, transforms=(), drive=drive))
    assert len(_sources(replace(settings, drive="rendered?frames=5"))) == 1
