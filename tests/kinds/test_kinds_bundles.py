"""Bundles: everything that a finding is, in a folder that judges subjects without its run."""

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from bar_world import BarSubject, bar_campaign, described
from duel_toys import made, only_tested
from online_toys import online, tampered

from skidpad.core.errors import SkidpadError
from skidpad.core.images import decode, pixel_hash
from skidpad.core.units import AngleUnit, PlainUnit
from skidpad.kinds.bundles import FINDING, Judgement, export_finding, judge_bundle, read_check
from skidpad.kinds.duels.campaign import Duel
from skidpad.kinds.kind import KINDS
from skidpad.kinds.pictures.evidence import _worded
from skidpad.kinds.shrinking import shrink_finding, write_shrunk
from skidpad.runs.folder import Run
from skidpad.subjects.description import Output
from skidpad.worlds.scenario.files import NamedScenario
from skidpad.worlds.scenario.scenario import Scenario

DAZZLED, MENDED = BarSubject(left_threshold=100), BarSubject()


def bar_finding(folder: Path, subject: BarSubject = DAZZLED, **changes):
    campaign = bar_campaign(subject, **{"transforms": ("brightness",), **changes})
    run = campaign.start(folder / "run")
    campaign.execute(run)
    return campaign, run, run.findings(limit=1).to_pylist()[0]


@pytest.fixture(scope="module")
def dazzled(tmp_path_factory: pytest.TempPathFactory):
    return bar_finding(tmp_path_factory.mktemp("bundle"))


def test_a_bundle_holds_frames_recipe_answers_hashes_versions_and_a_test(dazzled, tmp_path: Path) -> None:
    campaign, run, row = dazzled
    bundle = export_finding(campaign, run, row["case_id"], tmp_path / "bundle")
    about = json.loads((bundle.folder / FINDING).read_text())
    assert about["hashes"] == dict(run.manifest.hashes)
    assert about["versions"] == dict(run.manifest.versions)
    assert about["recipe"] == json.loads(row["recipe"]) == json.loads((bundle.folder / "recipe.json").read_text())
    assert about["answers"]["mutant"] == pytest.approx(np.degrees(row["mutant"]))
    mutant = decode((bundle.folder / "frames/mutant.png").read_bytes())
    assert pixel_hash(mutant) == row["picture"], "the picture of the bundle is the picture of the run"
    for line in (bundle.folder / "SHA256SUMS").read_text().splitlines():
        digest, _, name = line.partition("  ")
        assert sha256((bundle.folder / name).read_bytes()).hexdigest() == digest
    listed = {line.partition("  ")[2] for line in (bundle.folder / "SHA256SUMS").read_text().splitlines()}
    assert listed == {path.relative_to(bundle.folder).as_posix() for path in bundle.files} - {"SHA256SUMS"}
    compile(bundle.test.read_text(), bundle.test.name, "exec")


def test_the_bundle_fails_until_the_subject_is_mended(dazzled, tmp_path: Path) -> None:
    campaign, run, row = dazzled
    folder = export_finding(campaign, run, row["case_id"], tmp_path / "bundle").folder
    bad, good = judge_bundle(folder, DAZZLED), judge_bundle(folder, MENDED)
    assert not bad.holds
    assert "the human steers 22.0 deg right; steers-alike: 25.3× tolerance" in bad.said
    assert "without any change" not in bad.said
    assert good.holds


def drawn(judgement: Judgement, stem: Path) -> str:
    """Draws what was judged, and returns the drawing."""
    assert judgement.scene is not None
    path = stem.with_suffix(judgement.scene.suffix)
    judgement.scene.draw("title", path)
    return path.read_text() if path.suffix == ".svg" else ""


def test_the_picture_is_of_the_subject_that_was_asked(dazzled, tmp_path: Path) -> None:
    campaign, run, row = dazzled
    folder = export_finding(campaign, run, row["case_id"], tmp_path / "bundle").folder
    scenes = [judge_bundle(folder, subject).scene for subject in (DAZZLED, MENDED)]
    assert [scene.answers[0] for scene in scenes] == [scenes[0].answers[0]] * 2
    assert scenes[0].answers[1] == pytest.approx(np.degrees(row["mutant"]))
    assert abs(scenes[1].answers[1] - scenes[0].answers[1]) > 5.0
    assert pixel_hash(scenes[0].mutant) == row["picture"]
    drawn(judge_bundle(folder, MENDED), tmp_path / "pair")
    assert decode((tmp_path / "pair.png").read_bytes()).shape[1] > 900


def test_the_same_finding_gives_the_same_bytes(dazzled, tmp_path: Path) -> None:
    campaign, run, row = dazzled
    sums = [export_finding(campaign, run, row["case_id"], tmp_path / name).folder / "SHA256SUMS" for name in ("a", "b")]
    assert sums[0].read_bytes() == sums[1].read_bytes()


def test_a_window_is_exported_whole(tmp_path: Path) -> None:
    campaign, run, row = bar_finding(tmp_path, replace(DAZZLED, lead=2))
    bundle = export_finding(campaign, run, row["case_id"], tmp_path / "bundle")
    names = read_check(bundle.folder).mutants
    assert names == ("frames/mutant-02-before.png", "frames/mutant-01-before.png", "frames/mutant.png")
    assert not judge_bundle(bundle.folder, replace(DAZZLED, lead=2)).holds
    assert judge_bundle(bundle.folder, replace(MENDED, lead=1)).holds, "a subject that looks back less can be asked too"
    with pytest.raises(SkidpadError, match="looks back at 5 frames and the bundle holds 3"):
        judge_bundle(bundle.folder, replace(MENDED, lead=5))


def test_a_last_frame_alone_keeps_its_past(tmp_path: Path) -> None:
    campaign, run, row = bar_finding(tmp_path, replace(DAZZLED, lead=1, left_threshold=60), stimulus_on="last-frame")
    folder = export_finding(campaign, run, row["case_id"], tmp_path / "bundle").folder
    before = [(folder / f"frames/{what}-01-before.png").read_bytes() for what in ("original", "mutant")]
    assert before[0] == before[1]
    assert not judge_bundle(folder, replace(DAZZLED, lead=1, left_threshold=60)).holds


def test_labels_and_other_outputs_are_judged_by_their_own_relation(tmp_path: Path) -> None:
    campaign, run, row = bar_finding(tmp_path / "a", replace(DAZZLED, left_threshold=60), relation="label-mse", tolerance=None)
    folder = export_finding(campaign, run, row["case_id"], tmp_path / "labels").folder
    assert read_check(folder).relation == "label-mse"
    assert not judge_bundle(folder, replace(DAZZLED, left_threshold=60)).holds
    bright = BarSubject(description=described(Output("steering", AngleUnit.RAD), Output("brightness", PlainUnit.FRACTION)))
    campaign, run, row = bar_finding(tmp_path / "b", bright, output="brightness", relation="answers-alike", tolerance=0.05)
    folder = export_finding(campaign, run, row["case_id"], tmp_path / "outputs").folder
    assert not judge_bundle(folder, bright).holds


def test_a_shrunk_finding_is_exported_as_its_smallest_case(dazzled, tmp_path: Path) -> None:
    campaign, run, row = dazzled
    shrunk = shrink_finding(campaign, run, row["case_id"])
    bundle = export_finding(campaign, run, row["case_id"], tmp_path / "bundle", shrunk)
    about = json.loads((bundle.folder / FINDING).read_text())
    assert about["recipe"] == [["brightness", {"shift": 57}]]
    assert about["shrunk_from"] == row["case_id"]
    assert not judge_bundle(bundle.folder, DAZZLED).holds
    files = write_shrunk(campaign, run, shrunk, tmp_path / "shrunk")
    assert [path.name for path in files] == ["shrunk.json", "before.png", "after.png"]
    table = json.loads(files[0].read_text())
    assert (table["before"]["recipe"], table["after"]["recipe"]) == (json.loads(row["recipe"]), about["recipe"])
    assert write_shrunk(campaign, run, shrunk, tmp_path / "shrunk") == files, "again into the same folder"


def test_a_used_folder_and_damaged_bundles_are_refused(dazzled, tmp_path: Path) -> None:
    campaign, run, row = dazzled
    folder = export_finding(campaign, run, row["case_id"], tmp_path / "bundle").folder
    with pytest.raises(SkidpadError, match="is in use"):
        export_finding(campaign, run, row["case_id"], folder)
    with pytest.raises(SkidpadError, match="is no bundle"):
        judge_bundle(tmp_path, MENDED)
    about = json.loads((folder / FINDING).read_text())
    for change, words in (
        ({"skidpad_bundle": 9}, "has format 9"),
        ({"check": {**about["check"], "kind": "pitcures"}}, "did you mean 'pictures'"),
        ({"check": {**about["check"], "more": 1}}, "is damaged"),
        ({"check": {**about["check"], "mutants": ["../../secret.png"]}}, "outside of its folder"),
        ({"check": {**about["check"], "mutants": ["frames/none.png"]}}, "lacks the picture"),
        ({"check": {**about["check"], "mutants": ["recipe.json"]}}, "is damaged"),
    ):
        (folder / FINDING).write_text(json.dumps({**about, **change}))
        with pytest.raises(SkidpadError, match=words):
            judge_bundle(folder, MENDED)


def test_foreign_names_cannot_break_out_of_the_test_file(dazzled, tmp_path: Path) -> None:
    campaign, run, row = dazzled
    drive = replace(campaign.drive, frame_ids=('"""\nimport os\\', *campaign.drive.frame_ids[1:]))
    hostile = replace(campaign, drive=drive)
    shrunk = shrink_finding(hostile, run, row["case_id"])
    shrunk = replace(shrunk, smallest={**shrunk.smallest, "frame_id": drive.frame_ids[0]})
    source = export_finding(hostile, run, row["case_id"], tmp_path / "bundle", shrunk).test.read_text()
    assert "\nimport os" not in source
    names = compile(source, "test", "exec").co_names
    assert "os" not in names


def test_a_drive_is_bundled_with_its_road_and_judges_by_driving(tmp_path: Path) -> None:
    campaign = online(tampered(bias_rad=6.0), (NamedScenario("straight", Scenario(duration_s=1.2, seed=1)),))
    run = campaign.start(tmp_path / "run")
    campaign.execute(run)
    row = run.findings(limit=1).to_pylist()[0]
    bundle = export_finding(campaign, run, row["case_id"], tmp_path / "bundle")
    names = {path.name for path in bundle.files}
    assert {"scenario.toml", "scenario.xodr", "scenario.xosc", "strip.svg", "strip.moving.svg", "course.csv"} <= names
    assert len((bundle.folder / "course.csv").read_text().splitlines()) == row["steps"] + 1
    assert len(list((bundle.folder / "frames").glob("*.png"))) >= 2
    bad = judge_bundle(bundle.folder, tampered(bias_rad=6.0))
    assert not bad.holds
    assert bad.said.startswith("leaves its lane after")
    good = judge_bundle(bundle.folder, tampered())
    assert good.holds
    films = [drawn(judgement, tmp_path / name) for judgement, name in ((bad, "bad"), (good, "good"))]
    assert all(film.startswith("<svg") for film in films)
    assert "it leaves its lane after" in films[0], "each film is of the drive that was judged"
    assert "it leaves its lane after" not in films[1]


def test_a_crash_is_bundled_with_the_front_vehicles_actions(tmp_path: Path) -> None:
    work = made(only_tested(test_episodes=20, search_episodes=0), tmp_path / "run")
    campaign = Duel.load(work.settings)
    rows = work.run.findings(phase="test-random").to_pylist()
    bundle = export_finding(campaign, work.run, rows[0]["case_id"], tmp_path / "bundle")
    assert {"scenario.json", "strip.svg", "strip.moving.svg", "course.csv"} <= {path.name for path in bundle.files}
    assert bundle.evidence.subject == "duel_toys:reckless"
    crash = judge_bundle(bundle.folder, "duel_toys:reckless")
    assert not crash.holds
    assert drawn(crash, tmp_path / "crash").startswith("<svg")
    failed = judge_bundle(bundle.folder, "duel_toys:raising")
    assert (failed.holds, failed.scene) == (False, None)
    with pytest.raises(SkidpadError, match="driven by a policy"):
        judge_bundle(bundle.folder, MENDED)
    idm = work.run.findings(phase="test-ego", limit=1).to_pylist()[0]
    assert export_finding(campaign, work.run, idm["case_id"], tmp_path / "idm").test is None, "IDM's choices hang on the ego's"
    shrunk = shrink_finding(campaign, work.run, rows[0]["case_id"])
    files = write_shrunk(campaign, work.run, shrunk, tmp_path / "shrunk")
    assert [path.name for path in files] == ["shrunk.json", "before.svg", "before.moving.svg", "after.svg", "after.moving.svg"]


def test_a_kind_without_an_exporter_says_so(dazzled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign, run, row = dazzled
    foreign = Run(run.path, {**run.config, "campaign": "somebody-elses"}, run.manifest, run.schema)
    foreign.refresh()
    with pytest.raises(SkidpadError, match="no campaign named 'somebody-elses'"):
        export_finding(campaign, foreign, row["case_id"], tmp_path / "bundle")
    known = KINDS.get("deeptest")
    monkeypatch.setitem(KINDS._rows, "somebody-elses", replace(known, exporter=None))
    with pytest.raises(SkidpadError, match="cannot be exported"):
        export_finding(campaign, foreign, row["case_id"], tmp_path / "bundle")
    monkeypatch.setitem(KINDS._rows, "somebody-elses", known)
    assert export_finding(campaign, foreign, row["case_id"], tmp_path / "bundle").test is not None


def test_an_answer_of_zero_has_no_side() -> None:
    judged = bar_campaign(BarSubject()).judged
    assert [_worded(value, judged) for value in (0.0, -0.0005, 0.1, -0.1)] == [
        "0.0 deg straight",
        "0.0 deg straight",
        "5.7 deg left",
        "5.7 deg right",
    ]
