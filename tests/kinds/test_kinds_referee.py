"""What campaigns make of the referee's word: what it keeps counts, what it refuses or cannot tell is set apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from bar_world import BarSubject, bar_campaign
from online_toys import LONGER, online, tampered

from skidpad.core.stimuli import Params, Real, Recipe, Space
from skidpad.kinds import gating
from skidpad.kinds.gating import check_gate, columns_of, differences, gate_markdown, judged_cases
from skidpad.kinds.pictures import guided
from skidpad.kinds.pictures.campaign import DeepTest
from skidpad.kinds.pictures.evidence import replay_case
from skidpad.kinds.pictures.judging import Originals
from skidpad.kinds.pictures.page import deeptest_figures, deeptest_page
from skidpad.kinds.pictures.settings import DeepTestSettings
from skidpad.kinds.pictures.summary import summarise
from skidpad.referee.verdict import Reason, Verdicts, Word
from skidpad.runs.findings import Refereed, worst_finding
from skidpad.runs.folder import Run
from skidpad.runs.gate import ALL, Limits
from skidpad.runs.tags import Tag, Tags
from skidpad.stimuli.pictures import COMPOSITE, SIMPLE, TRANSFORMS, stimuli
from skidpad.stimuli.registry import Preset, preset_stimuli
from skidpad.subjects.base import Observation

KEPT, REFUSED = "brightness(shift=25)", "translation(dx_px=80,dy_px=0)"


class Light(BarSubject):
    """Steers by the mean light of a picture, so that every change of it is a finding."""

    def predict(self, clip, now=None) -> np.ndarray:
        pictures = np.asarray(clip if now is None else now, np.float64)
        return pictures.mean(axis=(1, 2, 3))[:, None] / 255.0

    def observe(self, clip, now=None) -> Observation:
        answers = self.predict(clip, now)
        return Observation(answers, torch.zeros((len(answers), 4)))


def light_run(path: Path, transforms: tuple[str, ...] = (KEPT, REFUSED), **changes) -> tuple[DeepTest, Run]:
    from skidpad.drives.opening import open_drive
    from skidpad.stimuli.registry import stimuli_of

    settings = DeepTestSettings(
        subject="light",
        drive="rendered?frames=3&seed=3",
        transforms=transforms,
        relation="steers-alike",
        tolerance=1.0,
        criteria=(),
        **changes,
    )
    campaign = DeepTest(replace(settings, shard_frames=4), Light(), open_drive(settings.drive), stimuli_of(settings.transforms))
    run = campaign.start(path)
    campaign.execute(run)
    return campaign, run


@pytest.mark.usefixtures("referee_on")
def test_what_the_referee_refuses_is_recorded_and_counts_for_nothing(tmp_path: Path) -> None:
    campaign, run = light_run(tmp_path / "run")
    rows = {name: [row for row in run.records("grid").to_pylist() if row["stimulus"] == name] for name in ("brightness", "translation")}
    assert {(row["referee"], row["reason"], row["violated"]) for row in rows["brightness"]} == {("kept", None, True)}
    assert {(row["referee"], row["violated"], isnan(row["excess"])) for row in rows["translation"]} == {("refused", False, True)}
    assert {row["reason"] for row in rows["translation"]} <= {"a border of one colour", "another scene"}
    cases = judged_cases(run)
    assert (len(cases), int(cases.failed.sum())) == (3, 3)
    summary = summarise(run, campaign.blank_tracker(None), campaign.judged)
    assert (summary.overall.cases, summary.overall.findings, summary.unjudged) == (3, 3, 0)
    assert worst_finding(run) in {row["case_id"] for row in rows["brightness"]}
    found = Refereed.of(run)
    assert found.words == {Word.KEPT: 3, Word.REFUSED: 3}
    assert "3 of the 6 failing pictures that it judged" in found.said
    (shown,) = deeptest_page(campaign, run).galleries
    assert sum(int(row.label.rpartition("(")[2].rstrip(")")) for row in shown.rows) == 3
    assert {len(row.pictures) for row in shown.rows} <= {2, 4}
    assert all("translation" in row.note for row in shown.rows)
    again = replay_case(campaign, run, rows["translation"][0]["case_id"])
    assert again.is_reproduced(0.0)


@pytest.mark.usefixtures("referee_on")
def test_frames_of_which_the_referee_refused_every_picture_are_counted_as_such(tmp_path: Path) -> None:
    campaign, run = light_run(tmp_path / "run", transforms=(REFUSED,))
    figures = deeptest_figures(campaign, run)
    assert figures["frames"] == {"judged": 0, "all": 3, "untested": {"with all pictures set apart by the referee": 3}}
    said = "0 of 3 frames were judged. The others went untested: 3 with all pictures set apart by the referee."
    assert said in deeptest_page(campaign, run).remarks
    both = deeptest_figures(*light_run(tmp_path / "both"))
    assert both["frames"] == {"judged": 3, "all": 3, "untested": {}}


@pytest.mark.usefixtures("referee_on")
def test_a_gate_says_of_what_nothing_was_judged(tmp_path: Path) -> None:
    verdict = check_gate(light_run(tmp_path / "both")[1], Limits({ALL: 1.0}))
    assert [rate.group for rate in verdict.rates if rate.group != ALL] == ["brightness"]
    said = "translation: none of its 3 records could be judged, so it is in no rate"
    assert said in verdict.notes
    assert said in gate_markdown(verdict, "both")
    assert not any(
        "could be judged" in note for note in check_gate(light_run(tmp_path / "off", referee="off")[1], Limits({ALL: 1.0})).notes
    )


@pytest.mark.usefixtures("referee_on")
def test_without_the_referee_all_counts_and_the_two_are_not_compared(tmp_path: Path) -> None:
    _, run = light_run(tmp_path / "off", referee="off")
    assert run.findings().num_rows == 6
    assert set(run.records("grid")["referee"].to_pylist()) == {None}
    assert Refereed.of(run).said == ""
    _, other = light_run(tmp_path / "on")
    assert any("referee is 'off' here and 'on' there" in reason for reason in differences(run, other))


@pytest.mark.usefixtures("referee_on")
def test_people_and_the_referee_are_compared(tmp_path: Path) -> None:
    _, run = light_run(tmp_path / "run")
    cases = {word: [row["case_id"] for row in run.records("grid").to_pylist() if row["referee"] == word] for word in ("kept", "refused")}
    said = [(cases["kept"][0], Tag.REAL_FAULT), (cases["kept"][1], Tag.FALSE_ALARM), (cases["refused"][0], Tag.REAL_FAULT)]
    for case_id, tag in (*said, (cases["refused"][1], Tag.FALSE_ALARM), (cases["kept"][2], Tag.UNCLEAR)):
        Tags.of(run.path).put(case_id, tag)
    found = Refereed.of(run)
    assert (found.precision.estimate, found.recall.estimate) == (0.5, 0.5)
    assert "50 % are real faults" in found.compared


def test_runs_of_former_versions_read_as_not_judged(tmp_path: Path) -> None:
    run = Run.open(Path(__file__).parents[1] / "runs" / "first_version" / "test", set_aside=False)
    assert "referee" not in run.schema.names
    assert set(run.records(columns=("case_id", "referee"))["referee"].to_pylist()) == {None}
    assert Refereed.of(run).words == {}
    assert DeepTestSettings.from_config(run.config).referee == "off"
    assert DeepTestSettings.from_config(run.config).preset == "deeptest"


@dataclass(frozen=True)
class Flicker:
    """A toy condition: brighter by as many levels as twentieths of a second have passed, times a strength."""

    severities = ()

    @property
    def space(self) -> Space:
        return Space((Real("strength", 0.0, 9.0, 0.0),), (Params(strength=1.0), Params(strength=9.0)))

    def apply(self, frames, params):
        return self.apply_at(frames, params, None)

    def apply_at(self, frames, params, capture):
        levels = np.rint(capture.times_s * 20.0 * params.real("strength")).astype(np.uint8)
        return np.minimum(frames, 200) + levels[:, None, None, None]


@dataclass(frozen=True)
class Nudge(Flicker):
    """A toy move of the camera: the picture is cut to its upper half, and the right answer moves by a tenth."""

    def reference(self, frames, params, capture):
        changed = frames.copy()
        changed[:, changed.shape[1] // 2 :] = 0
        return changed

    def apply_at(self, frames, params, capture):
        return self.reference(frames, params, capture)

    def pixel_map(self, params, camera):
        return np.eye(3)

    def moved_rad(self, steering_rad, params):
        return steering_rad + 0.1


def toy_run(path: Path, stimulus) -> tuple[DeepTest, Run]:
    campaign = bar_campaign(Light(), relation="steers-alike", tolerance=5.0, criteria=())
    campaign = replace(campaign, settings=replace(campaign.settings, transforms=()), stimuli={"toy": stimulus})
    run = campaign.start(path)
    campaign.execute(run)
    return campaign, run


def test_a_condition_knows_when_each_frame_was_taken(tmp_path: Path) -> None:
    campaign, run = toy_run(tmp_path / "run", Flicker())
    rows = run.records("grid").to_pylist()
    frames = {row["frame_index"]: campaign.drive.frame(row["frame_index"]) for row in rows}
    for row in rows:
        strength = 9.0 if "9.0" in row["recipe"] else 1.0
        expected = (np.minimum(frames[row["frame_index"]], 200) + np.uint8(row["frame_index"] * strength)).mean() / 255.0
        assert row["mutant"] == pytest.approx(expected)
    assert replay_case(campaign, run, rows[-1]["case_id"]).is_reproduced(0.0)


def test_a_moved_camera_is_held_against_the_moved_truth(tmp_path: Path) -> None:
    campaign, run = toy_run(tmp_path / "run", Nudge())
    originals = Originals.of(run, len(campaign.drive))
    for row in run.records("grid").to_pylist():
        assert row["original"] == pytest.approx(row["mutant"] + 0.1)  # the mutant is the reference itself here
        assert row["label"] == pytest.approx(originals.label[row["frame_index"]] + 0.1)
        assert row["violated"]  # 0.1 rad are more than 5 degrees
    assert replay_case(campaign, run, row["case_id"]).is_reproduced(0.0)


def test_presets_are_the_conditions_and_the_papers_nine(monkeypatch: pytest.MonkeyPatch) -> None:
    TRANSFORMS.names()
    monkeypatch.setattr(TRANSFORMS, "_rows", {**TRANSFORMS._rows, "flicker": Flicker}, raising=False)
    assert "flicker" in preset_stimuli(Preset.CONDITIONS)
    assert not {*SIMPLE, *COMPOSITE} & {*preset_stimuli(Preset.CONDITIONS)}
    assert tuple(preset_stimuli(Preset.DEEPTEST)) == (*SIMPLE, *COMPOSITE)


@pytest.mark.usefixtures("referee_on")
def test_a_drive_behind_a_ruined_camera_is_no_finding(tmp_path: Path) -> None:
    campaign = online(tampered(bias_rad=0.9), LONGER[:1], stimuli=("translation(dx_px=80,dy_px=0)", "brightness(shift=10)"))
    run = campaign.start(tmp_path / "run")
    campaign.execute(run)
    ruined, fine = sorted(run.records().to_pylist(), key=lambda row: row["condition"], reverse=True)
    assert (ruined["referee"], ruined["violated"]) == ("refused", False)
    assert "the referee says" in ruined["problem"]
    assert (fine["referee"], fine["violated"], fine["problem"]) == ("kept", True, "")


def test_a_guided_search_takes_no_try_that_shows_another_scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(name: str) -> list[str]:
        batches = iter(range(100))
        monkeypatch.setattr(guided, "_raises", lambda *given: [next(batches) < 6] * len(given[2].answers))
        campaign = bar_campaign(BarSubject(), searches=("greedy",), transforms=("brightness", "translation"), max_failed_tries=2)
        run = campaign.start(tmp_path / name)
        campaign.execute(run)
        return [str(each) for each in run.records("greedy")["stimulus"].to_pylist()]

    freely = taken("free")
    refused = freely[0].partition("+")[0]

    def words(_campaign: DeepTest, _frames: np.ndarray, recipe: Recipe, _times_s: np.ndarray, _seen: object):
        reason = Reason.OTHER_SCENE if refused in recipe.name else Reason.SAME_SCENE
        return lambda places, *_: Verdicts((reason,) * len(places), np.ones(len(places)), np.ones(len(places)))

    monkeypatch.setattr(DeepTest, "words", words)
    assert not any(refused in each for each in taken("refereed"))


def test_the_fog_of_former_runs_is_not_the_fog_of_today(tmp_path: Path) -> None:
    _, run = light_run(tmp_path / "run", referee="off")
    rows = run.records("grid").slice(0, 3)
    former = ('[["fog",{"density":0.3}]]', '[["fog",{"visibility_m":100.0,"seed":0}]]', '[["rain",{"intensity":0.5}]]')
    for name, values in (("stimulus", ("fog", "fog", "rain")), ("recipe", former)):
        rows = rows.set_column(rows.column_names.index(name), name, pa.array(values))
    found = gating._cases(rows, columns_of(run), "grid", {})
    assert found.group.tolist() == [b"deeptest-fog", b"fog", b"deeptest-rain"]


def test_a_moved_camera_is_told_in_the_browser(tmp_path: Path) -> None:
    from skidpad.kinds.pictures.exhibit import DeepTestExhibit

    recipe = Recipe.of("camera-yaw", Params(yaw_deg=3.0))
    made = stimuli(["camera-yaw"])
    right = float(recipe.moved_rad(np.array([0.1]), made)[0])
    row = {"case_id": "a", "recipe": recipe.to_json(), "original": right, "mutant": 0.1, "label": right, "frame_id": "f", "excess": 2.0}
    exhibit = DeepTestExhibit({"unit": "rad", "drive": str(tmp_path)})
    said = exhibit.answers(row)
    assert said.original - said.moved == pytest.approx(np.degrees(0.1), abs=1e-6)
    assert "the camera moved, and the right answer with it: from 5.7° left to" in exhibit.told(row)
    assert "moved" not in exhibit.told({**row, "recipe": Recipe.of("camera-pitch", Params(pitch_deg=2.0)).to_json()})
