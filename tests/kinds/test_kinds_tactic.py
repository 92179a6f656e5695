"""The campaign: conditions one after the other, coverage carried along, stopped and resumed, counted, compared, replayed."""

from __future__ import annotations

from dataclasses import replace
from math import isnan, radians
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from tactic_toys import CARD, run_of, toy_campaign, toy_drive, toy_subject

from skidpad.core.errors import BadRunError, InterruptedRunError, SkidpadError, UnknownNameError
from skidpad.kinds.gating import check_gate
from skidpad.kinds.kind import load_campaign
from skidpad.kinds.pictures.styles.applying import recipe_of, replay_scene, reproduction, style_of
from skidpad.kinds.pictures.styles.campaign import Tactic, TacticSettings, covered_by, phase_name
from skidpad.kinds.pictures.styles.fitness import file_and_class, filter_of
from skidpad.kinds.pictures.styles.summary import compared, conditions_of, errors_at, load_condition, summarise
from skidpad.runs.folder import Run
from skidpad.runs.gate import ALL, Limits
from skidpad.runs.manifest import VersionChange
from skidpad.runs.replay import PictureMatch, ReplayOutcome
from skidpad.stimuli.weather.files import BadWeatherError, WeatherCard, save_weather
from skidpad.stimuli.weather.pretrained import CLASSIFIER, classifier_path
from skidpad.stimuli.weather.settings import Method
from skidpad.stimuli.weather.unit import Unit
from skidpad.stimuli.weather.validity import StructureAndClass, StructureKept

LOUD = {"bounds_deg": (0.5, 1.0, 2.0, 90.0)}
"""Bounds that the toy breaks on some scenes, and one that it never breaks."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tactic, Run]:
    campaign = toy_campaign(toy_drive(20), searches=("es", "random-styles"), repeats=2, **LOUD)
    return campaign, run_of(campaign, tmp_path_factory.mktemp("tactic") / "run")


def test_every_condition_of_every_repeat_is_there(finished: tuple[Tactic, Run]) -> None:
    campaign, run = finished
    assert run.is_finished
    assert run.phases() == ("es-r00", "es-r01", "random-styles-r00", "random-styles-r01")
    assert run.records("es-r00").num_rows == 2 * 20
    for phase in run.phases():
        for number in (0, 1):
            condition = load_condition(run, phase, number)
            assert (phase_name(condition.search, condition.repeat), condition.number) == (phase, number)
            assert len(condition.tries) == 1 if condition.search == "random-styles" else len(condition.tries) >= 5
    assert len({condition.style for repeat in (0, 1) for condition in conditions_of(run, "es", repeat, 2)}) == 4
    assert campaign.phases()[:2] == (("es-r00", "es", 0), ("random-styles-r00", "random-styles", 0))


def test_searches_of_one_repeat_begin_alike_and_the_guided_one_ends_at_least_as_fit(finished: tuple[Tactic, Run]) -> None:
    _, run = finished
    for repeat in (0, 1):
        guided, chance = (load_condition(run, phase_name(search, repeat), 0) for search in ("es", "random-styles"))
        assert guided.fitness >= guided.tries[0].fitness
        assert guided.uncovered == chance.uncovered


def test_coverage_is_carried_along(finished: tuple[Tactic, Run]) -> None:
    campaign, run = finished
    blank = campaign.tracker(campaign.profile(run))
    first, second = conditions_of(run, "es", 0, 2)
    alone = covered_by(run, "es-r00", blank, 1).state("nbc")
    assert second.uncovered == first.uncovered - alone.covered
    assert first.newly == alone.covered
    together = covered_by(run, "es-r00", blank).state("nbc")
    assert together.covered == first.newly + second.newly


def test_records_hold_what_the_subject_says_to_each_scene(finished: tuple[Tactic, Run]) -> None:
    campaign, run = finished
    condition = load_condition(run, "es-r00", 1)
    table = next(table for place, table in enumerate(run.iter_records("es-r00")) if place == 1)
    for row in table.to_pylist()[:6]:
        frame = campaign.drive.read([row["frame_index"]]).frames
        made = campaign.weather.translate(frame, torch.tensor(condition.style))
        assert row["original"] == pytest.approx(float(campaign.subject.predict(frame)[0, 0]), abs=1e-5)
        assert row["mutant"] == pytest.approx(float(campaign.subject.predict(made)[0, 0]), abs=2e-3)
        assert row["violated"] == (abs(row["mutant"] - row["original"]) >= radians(0.5))
    assert condition.divergence_rad == pytest.approx(np.abs(table["mutant"].to_numpy() - table["original"].to_numpy()).mean(), abs=1e-4)


def test_errors_are_counted_at_every_bound(finished: tuple[Tactic, Run]) -> None:
    campaign, run = finished
    summary = summarise(campaign, run)
    repeat = summary.of("es")[0]
    table = run.records("es-r00")
    moved = np.degrees(np.abs(table["mutant"].to_numpy() - table["original"].to_numpy()))
    assert repeat.errors == tuple(int((moved >= bound).sum()) for bound in LOUD["bounds_deg"])
    assert repeat.errors[0] > repeat.errors[-1] == 0
    assert run.findings().num_rows == sum(each.errors[0] for each in summary.repeats)
    assert summary.metrics == ("KMNC", "NBC", "0.5°", "1°", "2°", "90°")
    assert all(0.0 <= ratio <= 1.0 for each in summary.repeats for ratio in each.coverage)
    assert summary.means("es")[2] == pytest.approx(np.mean([each.errors[0] for each in summary.of("es")]))
    assert summary.means_of_one("es")[2] == pytest.approx(summary.means("es")[2] / 2)


def test_a_divergence_of_exactly_the_bound_is_an_error() -> None:
    divergence = np.array([radians(10.0), np.nextafter(radians(10.0), 0.0), np.nan, np.inf, 0.0])
    assert errors_at(divergence, (10.0, 20.0)) == (3, 2)


@pytest.mark.parametrize("seed", range(4))
def test_tests_are_those_of_the_paper(seed: int) -> None:
    """The smaller tail of U as scipy gives it, and A12 counted pair by pair."""
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, 9, 8).astype(float), rng.integers(seed, 9 + seed, 7).astype(float)
    found = compared("10°", first, second)
    greater, less = (stats.mannwhitneyu(first, second, alternative=side, method="asymptotic").pvalue for side in ("greater", "less"))
    pairs = [1.0 if a > b else 0.5 if a == b else 0.0 for a in first for b in second]
    assert found.a12 == pytest.approx(np.mean(pairs))
    assert found.p_value == pytest.approx(min(greater, less), abs=0.05)  # ours is exact
    assert (found.mean, found.other_mean) == (first.mean(), second.mean())


def test_ten_against_ten_without_overlap_is_what_the_paper_prints_as_nearly_nothing() -> None:
    found = compared("10°", np.arange(10.0) + 20.0, np.arange(10.0))
    assert found.better
    assert found.p_value == pytest.approx(1 / 184_756)
    assert found.a12 == 1.0
    assert stats.mannwhitneyu(np.arange(10.0) + 20.0, np.arange(10.0), alternative="greater", method="asymptotic").pvalue == pytest.approx(
        0.00009, abs=5e-6
    )


def test_a_test_without_anything_to_tell_apart_failed() -> None:
    same = compared("40°", np.zeros(10), np.zeros(10))
    assert same.failed
    assert isnan(same.p_value)
    few = compared("40°", np.array([1.0]), np.array([0.0]))
    assert (few.failed, few.tested, few.better) == (False, False, False)


def test_a_run_that_was_stopped_ends_with_the_same_records(tmp_path: Path, finished: tuple[Tactic, Run]) -> None:
    campaign, whole = finished
    run = campaign.start(tmp_path / "run")

    def stop(_done: int, _total: int, note: str = "") -> None:
        if "repeat 1, condition 2: try 3" in note:
            raise InterruptedRunError("stopped")

    with pytest.raises(InterruptedRunError):
        campaign.execute(run, stop)
    assert run.completed("es-r00") == {0}
    campaign.execute(Run.open(run.path))
    again = Run.open(run.path)
    assert again.is_finished
    assert sorted(path.name for path in (again.path / "segments").iterdir()) == sorted(
        path.name for path in (whole.path / "segments").iterdir()
    )


def test_findings_are_made_again_by_hash(finished: tuple[Tactic, Run]) -> None:
    campaign, run = finished
    rows = run.findings().to_pylist()
    hashed = [row for row in rows if row["picture"]]
    assert hashed
    for row in (hashed[0], hashed[-1], rows[-1]):
        result = replay_scene(campaign, run, row["case_id"])
        assert reproduction(campaign, result).is_reproduced
        assert result.violated == (abs(result.mutant - result.original) >= radians(0.5))
    result = replay_scene(campaign, run, hashed[0]["case_id"])
    elsewhere = (VersionChange("processor", "a", "b"),)
    redrawn = replace(result, picture=PictureMatch.DIFFERENT, version_changes=elsewhere, mutant=result.mutant + 1e-3)
    assert reproduction(campaign, redrawn).outcome is ReplayOutcome.WITHIN_BOUND
    assert not reproduction(campaign, replace(result, picture=PictureMatch.DIFFERENT)).is_reproduced
    assert not reproduction(campaign, replace(result, mutant=result.mutant + 0.1)).is_reproduced


def test_a_filter_takes_scenes_out_of_the_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Half:
        def accepts(self, sources, translated) -> np.ndarray:  # type: ignore[no-untyped-def]
            del translated
            return sources.reshape(len(sources), -1).mean(1) >= 127.5

    monkeypatch.setattr("skidpad.kinds.pictures.styles.campaign.filter_of", lambda *_: Half())
    campaign = toy_campaign(toy_drive(20), conditions=1, validity="structure", **LOUD)
    run = run_of(campaign, tmp_path / "run")
    summary = summarise(campaign, run).repeats[0].conditions[0]
    table = run.records("es-r00")
    refused = np.isnan(table["excess"].to_numpy())
    assert summary.condition.rejected == refused.sum() > 0
    assert summary.judged == 20 - refused.sum()
    assert summary.rejection_rate.estimate == pytest.approx(refused.mean())
    assert not table["violated"].to_numpy(zero_copy_only=False)[refused].any()


def test_a_subject_that_looks_back_is_searched_too(tmp_path: Path) -> None:
    campaign = toy_campaign(toy_drive(24), toy_subject(3), conditions=1, searches=("random-styles",), **LOUD)
    run = run_of(campaign, tmp_path / "run")
    rows = run.records().to_pylist()
    assert len(rows) == 24
    result = replay_scene(campaign, run, rows[0]["case_id"])
    assert reproduction(campaign, result).is_reproduced


def test_another_subject_cannot_go_on_with_a_run(tmp_path: Path) -> None:
    campaign = toy_campaign(toy_drive(6), conditions=1, searches=("random-styles",))
    run = run_of(campaign, tmp_path / "run")
    with pytest.raises(BadRunError):
        replace(campaign, subject=toy_subject(seed=9)).execute(run)
    (run.path / "state" / "condition-random-styles-r00-00.json").unlink()
    with pytest.raises(BadRunError, match="lacks its file"):
        load_condition(run, "random-styles-r00", 0)


def test_settings_survive_being_written_and_unknown_ones_are_refused() -> None:
    settings = TacticSettings(subject="a", drive="b", weather="c", searches=("es", "cma-es"), bounds_deg=(5.0,), racing=False)
    assert TacticSettings.from_config(settings.to_config()) == settings
    with pytest.raises(UnknownNameError, match="did you mean 'patience'"):
        TacticSettings.from_config({**settings.to_config(), "patienc": 1})
    with pytest.raises(SkidpadError, match="lacks the setting 'weather'"):
        TacticSettings.from_config({"campaign": "tactic", "subject": "a", "drive": "b"})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"conditions": 0}, "conditions must be at least 1; got 0"),
        ({"frames": -1}, "frames must be at least 0"),
        ({"criterion": "nc"}, "no criterion that can guide"),
        ({"searches": ()}, "at least one search"),
        ({"searches": ("es", "es")}, "each once"),
        ({"searches": ("ess",)}, "did you mean 'es'"),
        ({"risk": 0.5}, "risk must be at least 0 and below 0.5"),
        ({"bounds_deg": (20.0, 10.0)}, "the smallest first"),
        ({"bounds_deg": (0.0,)}, "above 0"),
        ({"style_limit": -1.0}, "style_limit must be at least 0"),
        ({"coverage_weight": 0.0, "divergence_weight": 0.0}, "not both 0"),
    ],
)
def test_bad_settings_end_in_clear_words(changes: dict[str, object], words: str) -> None:
    with pytest.raises(SkidpadError, match=words):
        TacticSettings(**{"subject": "a", "drive": "b", "weather": "c", **changes})  # type: ignore[arg-type]


def test_a_missing_weather_ends_at_once(tmp_path: Path) -> None:
    with pytest.raises(BadWeatherError, match="there is no weather"):
        load_campaign({"campaign": "tactic", "subject": "a.toml", "drive": "rendered", "weather": str(tmp_path / "none")}, "here")
    save_weather(tmp_path / "unit", replace(CARD, method=Method.UNIT), Unit(CARD.sizes).state_dict())
    with pytest.raises(BadWeatherError, match="knows no styles"):
        load_campaign({"campaign": "tactic", "subject": "a.toml", "drive": "rendered", "weather": str(tmp_path / "unit")}, "here")


def test_filters_are_named_by_a_word_or_a_file(tmp_path: Path) -> None:
    assert filter_of("", CARD) is None
    assert filter_of("off", CARD) is None
    assert isinstance(filter_of("structure", CARD), StructureKept)
    with pytest.raises(SkidpadError):
        filter_of(str(tmp_path / "none"), CARD)


def test_the_class_of_a_filter_is_named_or_that_of_the_weathers_folder_or_of_its_name() -> None:
    file = str(classifier_path(CLASSIFIER))
    snow = replace(CARD, name="my-weather", target="/pictures/snow")

    def target(text: str, card: WeatherCard) -> str:
        found = filter_of(text, card)
        assert isinstance(found, StructureAndClass)
        return found.target

    assert target(file, snow) == "snow"
    assert target(file, replace(CARD, target="elsewhere")) == "rain"  # toy-rain
    assert target(f"{file}=clear", snow) == "clear"
    with pytest.raises(UnknownNameError, match=r"named 'hail'.*to say which class the weather 'hail' is: FILE=CLASS"):
        filter_of(file, replace(CARD, name="hail", target="elsewhere"))
    with pytest.raises(UnknownNameError, match="no class of the weather classifier named 'hail'"):
        filter_of(f"{file}=hail", snow)
    assert file_and_class("/sets/run=3/clf") == ("/sets/run=3/clf", "")
    assert file_and_class("/sets/run=3/clf=snow_day") == ("/sets/run=3/clf", "snow_day")


def test_an_interrupt_says_how_many_conditions_are_kept(tmp_path: Path) -> None:
    campaign = toy_campaign(toy_drive(6))
    run = campaign.start(tmp_path / "run")

    def stop(_done: int, _total: int, note: str = "") -> None:
        if "condition 2: try" in note:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError, match=r"^stopped: 1 of 2 conditions of es, repeat 1, are kept; go on with: skidpad resume "):
        campaign.execute(run, stop)


def test_the_gate_counts_what_the_first_search_found_as_the_page_does(finished: tuple[Tactic, Run]) -> None:
    campaign, run = finished
    summary = summarise(campaign, run)
    both = summary.of("es")
    verdict = check_gate(run, Limits({ALL: 1.0}))
    (whole, *_) = verdict.rates
    assert (whole.findings, whole.rate.n) == (sum(each.errors[0] for each in both), sum(each.judged for each in both))
    assert "what es found counts; random-styles is what it is compared with" in verdict.notes


def test_a_style_survives_its_recipe() -> None:
    style = (0.1, -2.5, 1e-9)
    recipe = recipe_of("night", style)
    assert recipe.name == "night"
    np.testing.assert_allclose(style_of(recipe), np.float32(style))
