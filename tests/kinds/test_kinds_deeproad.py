"""DeepRoad on a world whose answer is known, and on a tiny weather on disk."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from bar_world import HEIGHT_PX, WIDTH_PX, BarSubject, bar_drive, column_of, described
from deeproad_toys import FAULTY, Glare, road, run_of
from tactic_toys import toy_drive, toy_subject
from torch.nn import functional

from skidpad.core.errors import BadRunError, BadSubjectError, InterruptedRunError, SkidpadError, UnknownNameError
from skidpad.core.images import pixel_hash
from skidpad.core.stimuli import Params, Recipe
from skidpad.core.units import AngleUnit, PlainUnit
from skidpad.kinds.kind import load_campaign
from skidpad.kinds.pictures.evidence import replay_case
from skidpad.kinds.pictures.weather import campaign as deeproad
from skidpad.kinds.pictures.weather.campaign import DeepRoad, DeepRoadSettings, StyleChoice, drawn_styles, open_weathers
from skidpad.kinds.pictures.weather.page import deeproad_page, style_words, verdict
from skidpad.kinds.pictures.weather.summary import BoundCount, RoadSummary, WeatherConditions, check_comparable, ranked, summarise_road
from skidpad.runs.folder import Run
from skidpad.runs.replay import DEFAULT_TOLERANCE, PictureMatch, ReplayOutcome
from skidpad.stimuli.weather.blocks import start
from skidpad.stimuli.weather.files import BadWeatherError, Styles, WeatherCard, load_weather, save_weather
from skidpad.stimuli.weather.samples import fresh_model
from skidpad.stimuli.weather.scenes import as_frames
from skidpad.stimuli.weather.settings import Method, Sizes, WeatherSettings
from skidpad.stimuli.weather.stimulus import WeatherLooks
from skidpad.stimuli.weather.translation import REDRAWN, TOLERANCE_RAD, Weather, model_of
from skidpad.subjects.description import Output

SIZES = Sizes(filters=4, blocks=1, style=3, hidden=8, scales=1)


def card(method: Method = Method.MUNIT, **changes: object) -> WeatherCard:
    values = {
        "name": "toy",
        "method": method,
        "sizes": SIZES,
        "size_px": 24,
        "source": "a",
        "source_sha256": "",
        "target": "b",
        "target_sha256": "",
        "rendered": True,
        "steps": 1,
        "batch_size": 1,
        "crop_px": 16,
        "seed": 0,
        "styles": Styles((0.5, -0.5, 9.0), (0.1, 0.2, 0.0)) if method is Method.MUNIT else None,
    }
    return WeatherCard(**{**values, **changes})


def write_weather(path: Path, method: Method = Method.MUNIT, seed: int = 0, **changes: object) -> str:
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        model = fresh_model(WeatherSettings(method=method, sizes=SIZES, size_px=32, crop_px=32))
        start(model, gain_from_relu=True)
    save_weather(path, card(method, **changes), model.state_dict())
    return str(path)


def test_a_perfect_subject_is_consistent_at_every_bound(tmp_path: Path) -> None:
    campaign = road(BarSubject(), 30.0)
    run = run_of(campaign, tmp_path / "run")
    found = summarise_road(run, campaign)
    assert run.is_finished
    assert [bound.inconsistent for bound in found.overall.counts] == [0, 0, 0]
    assert (found.overall.cases, found.originals) == (12, 12)
    assert found.overall.correlation == pytest.approx(1.0)
    assert found.overall.mean_deg == pytest.approx(0.0, abs=1e-9)


def test_a_planted_fault_is_found_exactly_where_it_is(tmp_path: Path) -> None:
    campaign = road(FAULTY, 0.0, 30.0)
    run = run_of(campaign, tmp_path / "run")
    rows = run.findings().to_pylist()
    left = {frame for frame in range(12) if column_of(frame) < 32}
    assert {row["frame_index"] for row in rows} == left
    assert {row["stimulus"] for row in rows} == {"glare"}
    assert {row["recipe"] for row in rows} == {Recipe.of("glare", Params(style_0=30.0)).to_json()}


def test_counts_equal_the_formula_on_stored_answers(tmp_path: Path) -> None:
    campaign = road(FAULTY, 0.0, 20.0, 200.0)
    run = run_of(campaign, tmp_path / "run")
    records = run.records("grid")
    moved = np.degrees(np.abs(records["mutant"].to_numpy() - records["original"].to_numpy()))
    style = np.array([Recipe.from_json(text).steps[0].params.real("style_0") for text in records["recipe"].to_pylist()])
    found = summarise_road(run, campaign)
    for place, bound in enumerate((2.0, 20.0, 40.0)):
        assert found.overall.counts[place].inconsistent == int((moved >= bound).sum())
        for row, shift in zip(found.by_style, (0.0, 20.0, 200.0), strict=True):
            assert row.counts[place].inconsistent == int((moved[style == shift] >= bound).sum())
            assert row.counts[place].low <= row.counts[place].rate <= row.counts[place].high
    assert found.overall.mean_deg == pytest.approx(moved.mean())
    assert found.overall.worst_deg == pytest.approx(moved.max())
    original, mutant, label = (records[name].to_numpy() for name in ("original", "mutant", "label"))
    assert found.overall.correlation == pytest.approx(np.corrcoef(original, mutant)[0, 1])
    assert found.overall.rmse_rad == pytest.approx(np.sqrt(np.mean((mutant - label) ** 2)))
    assert found.overall.original_rmse_rad == pytest.approx(np.sqrt(np.mean((original - label) ** 2)))
    assert found.spread_deg == pytest.approx(np.degrees(np.std(run.records("originals")["original"].to_numpy())))
    assert np.array_equal(records["violated"].to_numpy(zero_copy_only=False), moved >= 2.0)
    assert int(found.deviations.sum()) == len(moved)


def test_answers_that_are_no_numbers_are_inconsistent_at_every_bound(tmp_path: Path) -> None:
    class Lost(BarSubject):
        def predict(self, clip, now=None):
            answers = super().predict(clip, now)
            return np.where(np.asarray(clip).max() > 60, np.nan, answers)

    campaign = road(Lost(), 30.0)
    found = summarise_road(run_of(campaign, tmp_path / "run"), campaign)
    assert [bound.inconsistent for bound in found.overall.counts] == [12, 12, 12]
    assert found.overall.not_finite == 12
    assert np.isnan(found.overall.mean_deg)


@pytest.mark.parametrize("shard_frames", [1, 64])
def test_the_size_of_a_shard_changes_nothing(tmp_path: Path, shard_frames: int) -> None:
    key = [("case_id", "ascending")]
    wanted = run_of(road(FAULTY, 20.0, 30.0), tmp_path / "five").records("grid").sort_by(key)
    got = run_of(road(FAULTY, 20.0, 30.0, shard_frames=shard_frames), tmp_path / "other").records("grid").sort_by(key)
    assert got.equals(wanted)


def test_stopped_anywhere_and_resumed_it_ends_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_of(road(), tmp_path / "whole")
    run = road().start(tmp_path / "stopped")
    commit = Run.commit

    def stop_after_one(self: Run, result: object) -> None:
        commit(self, result)
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "commit", stop_after_one)
    for _ in range(6):
        with pytest.raises(InterruptedRunError, match="skidpad resume"):
            road().execute(run)
        run = Run.open(tmp_path / "stopped")
    road().execute(run)
    whole, stopped = (sorted(path.name for path in (tmp_path / name / "segments").iterdir()) for name in ("whole", "stopped"))
    assert stopped == whole


def test_another_weather_of_that_name_is_not_mixed_in(tmp_path: Path) -> None:
    run = road().start(tmp_path / "run")
    other = road()
    other = DeepRoad.of(other.road, FAULTY, bar_drive(), {"glare": Glare(30.0, sha256="another")})
    with pytest.raises(BadRunError, match="the weather glare has changed since"):
        other.execute(run)


@pytest.mark.parametrize(("stimulus_on", "blinded"), [("window", 1.0), ("last-frame", 1 / 3)])
def test_a_memory_is_under_the_weather_as_told(tmp_path: Path, stimulus_on: str, blinded: float) -> None:
    """The subject sees the mean of three frames: the glare of 30 counts whole, or a third."""

    class Meter(BarSubject):
        def _steering(self, frames):
            return frames.mean(axis=(1, 2, 3)) / 100.0

    campaign = road(Meter(lead=2), 30.0, stimulus_on=stimulus_on)
    records = run_of(campaign, tmp_path / "run").records("grid")
    moved = records["mutant"].to_numpy() - records["original"].to_numpy()
    np.testing.assert_allclose(moved, 0.3 * blinded, atol=1e-9)
    assert "3 frames" in campaign.window_words


def test_a_finding_is_made_again_and_hashes_the_same(tmp_path: Path) -> None:
    campaign = road()
    run = run_of(campaign, tmp_path / "run")
    result = replay_case(campaign, run, run.findings(limit=1)["case_id"][0].as_py())
    assert result.is_reproduced(0.0)
    assert result.picture is PictureMatch.SAME


def test_a_page_has_counts_pictures_and_scenes(tmp_path: Path) -> None:
    campaign = road(FAULTY, 10.0, 30.0)
    page = deeproad_page(campaign, run_of(campaign, tmp_path / "run"))
    assert page.tone.value == "alarm"
    assert page.verdict == "7 of 24 answers move by 2° or more under glare."
    assert any(note.startswith("MUNIT weathers are under 2 styles drawn from N(0, 1)") for note in page.remarks)
    assert page.pictures[0].recipe == "glare, style 2 of 2"
    assert [row.label for row in page.galleries[0].rows] == ["as recorded", "glare"]
    assert [table.key for table in page.tables] == ["weathers", "styles", "learned"]
    assert page.tables[2].rows[0][:4] == ("glare", "MUNIT", "glare (rendered)", "3")
    calm = deeproad_page(road(BarSubject(), 30.0), run_of(road(BarSubject(), 30.0), tmp_path / "calm"))
    assert calm.tone.value == "calm"


def test_a_page_names_what_is_drawn_on_the_pictures(tmp_path: Path) -> None:
    campaign = road(FAULTY, 30.0)
    campaign.weathers["glare"].weather.card.drawn = "rain(mm_per_h=5)"
    campaign.weathers["glare"].weather.card.drawn_words = ", with rain(mm_per_h=5) drawn on top"
    page = deeproad_page(campaign, run_of(campaign, tmp_path / "run"))
    assert "Drawn on top of the pictures of glare: rain(mm_per_h=5)." in page.remarks
    (learned,) = (table for table in page.tables if table.key == "learned")
    assert learned.rows[0][2] == "glare (rendered), with rain(mm_per_h=5) drawn on top"


def test_the_words_name_the_worst_of_several_weathers_and_the_pictures_that_styles_are_of() -> None:
    one = WeatherConditions("snow", "", (BoundCount(10.0, 3, 4, 0.3, 0.9),), 4, 1.0, 1.0, 1.0, 1.0, 0)
    two = RoadSummary(4, 1.0, 1.0, replace(one, weather="all"), (one, replace(one, weather="fog")), (), np.zeros(1, int), ())
    assert verdict(two).endswith("under a weather; the worst is snow with 75.0\N{NO-BREAK SPACE}%.")
    assert verdict(replace(two, by_weather=(one,))).endswith("move by 10° or more under snow.")
    for rendered, words in (
        ((True,), "rendered pictures"),
        ((False,), "the pictures that it learned from"),
        ((True, False), "the pictures that each learned from"),
    ):
        campaign = road(style="mean")
        looks = [Glare(30.0) for _ in rendered]
        for each, is_rendered in zip(looks, rendered, strict=True):
            each.weather.card.rendered = is_rendered
        campaign = replace(campaign, weathers=dict(zip("ab", looks, strict=False)))
        assert style_words(campaign) == f"the mean style of {words}"


def test_subjects_rank_by_their_shares(tmp_path: Path) -> None:
    results = {}
    for name, subject in (("faulty", FAULTY), ("perfect", BarSubject(sha256="perfect"))):
        campaign = road(subject)
        run = run_of(campaign, tmp_path / name)
        results[name] = (run, summarise_road(run, campaign))
    check_comparable([run for run, _ in results.values()])
    rows = ranked([(name, [summary]) for name, (_, summary) in results.items()])
    assert [row.subject for row in rows] == ["perfect", "faulty"]
    assert rows[0].moved == pytest.approx(0.0, abs=1e-9)
    steady = ranked([(name, [summary]) for name, (_, summary) in results.items()], ["", "answers the same on every frame"])
    assert [(row.subject, row.senseless) for row in steady] == [("faulty", ""), ("perfect", "answers the same on every frame")]
    two = ranked([("twice", [results["faulty"][1]] * 2)])[0]
    assert two.counts[0].inconsistent == 2 * rows[1].counts[0].inconsistent
    assert two.mean_deg == pytest.approx(rows[1].mean_deg)
    other = run_of(road(thresholds_deg=(5.0, 10.0)), tmp_path / "other")
    with pytest.raises(BadRunError, match="differ in thresholds_deg"):
        check_comparable([results["faulty"][0], other])
    with pytest.raises(BadRunError, match="is not finished"):
        check_comparable([road().start(tmp_path / "begun")])
    with pytest.raises(BadRunError, match="are of one subject; give one run of each"):
        check_comparable([results["perfect"][0], results["faulty"][0], results["faulty"][0]])


def test_settings_survive_a_config_and_wrong_ones_are_refused() -> None:
    settings = DeepRoadSettings(subject="s", drive="d", weathers=("w",), thresholds_deg=(5.0, 7.5), style="real", styles=3)
    assert DeepRoadSettings.from_config({**settings.to_config(), "unit": "rad"}) == settings
    config = settings.to_config()
    for change, message in (
        ({"thresholds_deg": [20, 10]}, "ascending"),
        ({"thresholds_deg": []}, "got none"),
        ({"thresholds_deg": "10"}, "must be a list of numbers"),
        ({"thresholds_deg": [True]}, "thresholds_deg.1 must be a number; got True"),
        ({"weathers": []}, "needs a weather"),
        ({"weathers": "w"}, "must be a list of texts"),
        ({"styles": -1}, "^styles must be at least 1; got -1$"),
        ({"shard_frames": -1}, "^shard_frames must be at least 0; got -1$"),
        ({"style": "mean"}, "the mean style is one style"),
        ({"stimulus_on": "frame"}, "no way to show"),
        ({"seed": "x"}, "must be a whole number"),
    ):
        with pytest.raises(SkidpadError, match=message):
            DeepRoadSettings.from_config({**config, **change})
    with pytest.raises(UnknownNameError, match="did you mean 'styles'"):
        DeepRoadSettings.from_config({**config, "stiles": 2})
    with pytest.raises(SkidpadError, match="lacks the setting 'weathers'"):
        DeepRoadSettings.from_config({"subject": "s", "drive": "d"})


def test_styles_are_drawn_by_choice_and_seed() -> None:
    toy = card(weights_sha256="x")
    assert drawn_styles(card(Method.UNIT), StyleChoice.MEAN, 1, 0) == (Params(),)
    # beyond the limit of styles a mean is held back
    assert drawn_styles(toy, StyleChoice.MEAN, 1, 0) == (Params(style_0=0.5, style_1=-0.5, style_2=4.0),)
    real = drawn_styles(toy, StyleChoice.REAL, 400, 0)
    numbers = np.array([[style.real(f"style_{place}") for place in range(3)] for style in real])
    np.testing.assert_allclose(numbers.mean(axis=0), (0.5, -0.5, 4.0), atol=0.05)
    np.testing.assert_allclose(numbers.std(axis=0), (0.1, 0.2, 0.0), atol=0.02)
    random = drawn_styles(toy, StyleChoice.RANDOM, 5, 0)
    assert random == drawn_styles(toy, StyleChoice.RANDOM, 5, 0) != drawn_styles(toy, StyleChoice.RANDOM, 5, 1)
    assert random[:2] == drawn_styles(toy, StyleChoice.RANDOM, 2, 0)
    with pytest.raises(BadWeatherError, match="use --style random"):
        drawn_styles(card(styles=None), StyleChoice.MEAN, 1, 0)


def test_weathers_are_named_by_their_files(tmp_path: Path) -> None:
    files = [
        write_weather(tmp_path / "a" / "snow"),
        write_weather(tmp_path / "b" / "snow", Method.UNIT),
        write_weather(tmp_path / "rain") + ".toml",
    ]
    opened = open_weathers(files, "cpu", StyleChoice.MEAN, 1, 0)
    assert list(opened) == ["snow-munit", "snow-unit", "rain"]
    with pytest.raises(SkidpadError, match="two weathers are called 'rain';"):
        open_weathers([files[2], files[2]], "cpu", StyleChoice.MEAN, 1, 0)
    with pytest.raises(BadSubjectError, match="no device named 'gpu'"):
        open_weathers(files, "gpu", StyleChoice.MEAN, 1, 0)
    with pytest.raises(BadWeatherError, match="there is no weather"):
        open_weathers([str(tmp_path / "fog")], "cpu", StyleChoice.MEAN, 1, 0)
    assert list(open_weathers(["night"], "cpu", StyleChoice.MEAN, 1, 0)) == ["night"]
    with pytest.raises(UnknownNameError, match="no weather named 'nigth'; did you mean 'night'"):
        open_weathers(["nigth"], "cpu", StyleChoice.MEAN, 1, 0)


@pytest.mark.parametrize("method", Method)
@pytest.mark.parametrize("size_px", [24, 132])
def test_a_frame_comes_out_the_same_alone_and_in_company(tmp_path: Path, method: Method, size_px: int) -> None:
    file = write_weather(tmp_path / "w", method, size_px=size_px)
    looks = open_weathers([file], "cpu", StyleChoice.MEAN, 1, 0)["w"]
    frames = np.random.default_rng(0).integers(0, 256, (6, HEIGHT_PX, WIDTH_PX, 3), dtype=np.uint8)
    params = looks.space.grid[0]
    together = looks.apply(frames, params)
    assert together.shape == frames.shape
    alone = np.concatenate([looks.apply(frames[place : place + 1], params) for place in range(len(frames))])
    assert [pixel_hash(frame) for frame in alone] == [pixel_hash(frame) for frame in together]
    as_torch = looks.apply(torch.from_numpy(frames), params)
    assert np.array_equal(as_torch.numpy(), together)
    assert len(looks.apply(frames[:0], params)) == 0
    looks.weather.batch_size = 0 if looks.group_frames == 1 else 2
    assert looks.is_halved


def test_on_a_gpu_another_picture_is_the_same_finding_within_the_bound(tmp_path: Path) -> None:
    campaign = road(FAULTY, 30.0)
    run = run_of(campaign, tmp_path / "run")
    result = replay_case(campaign, run, run.findings().to_pylist()[0]["case_id"])
    assert campaign.rounding == (DEFAULT_TOLERANCE, "")
    redrawn = replace(result, picture=PictureMatch.DIFFERENT, mutant=result.mutant + 0.03)
    assert redrawn.reproduction(*campaign.rounding).outcome is ReplayOutcome.DIFFERENT
    there = (TOLERANCE_RAD["cuda"], REDRAWN["cuda"])
    assert redrawn.reproduction(*there).said == f"reproduced within 0.05 of each answer, {REDRAWN['cuda']}"
    assert not replace(redrawn, mutant=result.mutant + 0.06).reproduction(*there).is_reproduced
    assert not replace(redrawn, violated=not result.violated).reproduction(*there).is_reproduced


class PlainWeather(Weather):
    """Translates by the networks as they were learned, nothing rewritten."""

    def __init__(self, card: WeatherCard, weights: dict[str, torch.Tensor]) -> None:
        super().__init__(card, weights)
        self.model = model_of(card, weights)

    def prepare(self, frames):
        with torch.inference_mode():
            return self.model.source.content(self._signed(frames))

    def decode(self, content, style=None, size=None):
        with torch.inference_mode():
            made = functional.interpolate(self.model.target.decoder(content, style[None]), size, mode="bilinear", antialias=True)
        return as_frames(made)


def test_findings_are_those_of_the_plain_networks_within_the_bound(tmp_path: Path) -> None:
    known, weights = load_weather(Path(write_weather(tmp_path / "w")))
    settings = DeepRoadSettings(
        subject="toy", drive="toy", weathers=("w",), thresholds_deg=(2.0, 20.0), style="random", styles=3, subject_device="cpu"
    )
    records = []
    for kind in (Weather, PlainWeather):
        looks = WeatherLooks(kind(known, weights), drawn_styles(known, StyleChoice.RANDOM, 3, 0))
        campaign = DeepRoad.of(settings, toy_subject(), toy_drive(12), {"w": looks})
        records.append(run_of(campaign, tmp_path / kind.__name__).records("grid"))
    ours, plain = (table["mutant"].to_numpy() for table in records)
    moved = np.abs(plain - records[1]["original"].to_numpy())
    assert len(ours) == 36
    assert moved.max() > 0.05  # the weather does something to the answers
    assert np.abs(ours - plain).max() <= TOLERANCE_RAD["cpu"]
    sure = np.abs(moved - np.radians(2.0)) > TOLERANCE_RAD["cpu"]
    found = [np.array(table["violated"].to_pylist()) for table in records]
    np.testing.assert_array_equal(found[0][sure], found[1][sure])


def loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, subject: BarSubject, **changes: object) -> DeepRoad:
    def load(_path: str, device: str) -> BarSubject:
        if device != "cpu":
            raise BadSubjectError(f"not on {device}")
        return subject

    monkeypatch.setattr("skidpad.subjects.loading.load_subject", load)
    monkeypatch.setattr("skidpad.drives.opening.open_drive", lambda _text: bar_drive(5))
    settings = DeepRoadSettings(subject="toy", drive="toy", weathers=(write_weather(tmp_path / "w"),), **changes)
    return load_campaign(settings.to_config(), "test")


def test_a_run_from_files_is_replayed_by_hash(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    campaign = loaded(monkeypatch, tmp_path, BarSubject(), thresholds_deg=(0.5,))
    run = run_of(campaign, tmp_path / "run")
    assert run.config["shard_frames"] == 64
    assert run.config["subject_device"] == "cpu"
    assert run.manifest.hashes["weather w"] == Weather.load(tmp_path / "w").card.weights_sha256
    worst = run.findings(limit=1)["case_id"][0].as_py()
    assert replay_case(campaign, run, worst).is_reproduced()
    assert isinstance(campaign.weathers["w"], WeatherLooks)


def test_a_subject_that_cannot_run_on_the_gpu_runs_on_the_cpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    campaign = loaded(monkeypatch, tmp_path, BarSubject())
    monkeypatch.setattr(deeproad, "open_weathers", lambda *_: campaign.weathers)
    moved = DeepRoad.load_road(replace(campaign.road, device="cuda", subject_device="", shard_frames=0))
    assert (moved.road.subject_device, moved.road.shard_frames) == ("cpu", 256)


def test_an_output_that_is_no_angle_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    subject = BarSubject(description=described(Output("steering", AngleUnit.RAD), Output("brightness", PlainUnit.FRACTION)))
    with pytest.raises(SkidpadError, match=r"the output 'brightness' is no angle; choose --output among: steering$"):
        loaded(monkeypatch, tmp_path, subject, output="brightness")
