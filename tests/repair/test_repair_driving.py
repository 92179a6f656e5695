"""Repairs from closed-loop drives: what they learn from, what they choose, and that a planted fault is mended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from driving_toys import BARS, BarWorld, Course, course, needed_rad, quick, run_over
from repair_toys import SPEC, TOY, Garage
from torch import nn
from typer.testing import CliRunner

import skidpad as sp
from skidpad.cli.main import app
from skidpad.core.errors import BadDriveError, BadParametersError, BadRunError, BadSubjectError, SkidpadError, UnknownNameError
from skidpad.core.images import encode
from skidpad.kinds.drives.campaign import domain_lasting
from skidpad.kinds.drives.loop import Moment, Wheel
from skidpad.kinds.drives.records import scenario_json
from skidpad.oracles.lane_departure import departure_step
from skidpad.page.model import Tone
from skidpad.repairs.driving.outcome import DrivingOutcome, chosen, drive_and_repair
from skidpad.repairs.driving.page import driving_page, round_table
from skidpad.repairs.driving.plan import DRAWN, NEAR, DrivingSettings, clean_drive, neighbour, task_of
from skidpad.repairs.driving.rounds import DrivingRepair, Keeper, Taught
from skidpad.repairs.outcome import written
from skidpad.subjects.inputs import History, HistoryKind
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.subjects.zoo import ARCHITECTURES
from skidpad.worlds.scenario.domain import sample
from skidpad.worlds.scenario.files import write_scenario
from skidpad.worlds.world import WORLDS


@pytest.fixture(scope="session")
def bends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Course]:
    with pytest.MonkeyPatch.context() as patch:
        ARCHITECTURES.names()
        WORLDS.names()
        patch.setitem(ARCHITECTURES._rows, TOY.name, TOY)
        patch.setitem(WORLDS._rows, BARS, BarWorld)
        yield course(tmp_path_factory.mktemp("bends"))


@pytest.fixture(scope="session")
def mended(bends: Course) -> DrivingOutcome:
    outcome = drive_and_repair(task_of(bends.run, bends.subject), bends.folder / "mended", quick(bends))
    written(outcome, bends.folder / "mended")
    return outcome


def test_a_network_that_knows_left_bends_alone_learns_right_ones(bends: Course, mended: DrivingOutcome) -> None:
    failing = [case for case in task_of(bends.run, bends.subject).worst if needed_rad(case.scenario) < 0.0]
    assert mended.failures > 0
    assert len(failing) >= mended.failures
    assert mended.recommended.startswith("round-")
    before, control, repaired = (sum(half.failures[place] for half in mended.halves) for place in range(3))
    assert before > 2
    assert control > repaired
    assert 2 * repaired <= before
    assert [half.half for half in mended.halves] == [DRAWN, NEAR]
    assert sum(half.mended - half.newly_failing for half in mended.halves) == before - repaired
    assert all(half.mdcl_change.estimate < 0.0 for half in mended.halves)
    assert not mended.doubts
    again = sp.load(bends.folder / "mended" / "recommended.toml")
    frames = BarWorld(1, 1)
    frames.reset([failing[0].scenario])
    assert again.predict(frames.frames())[0, 0] == pytest.approx(needed_rad(failing[0].scenario), abs=0.15)


def test_the_page_shows_the_halves_apart_and_the_drive_that_changed_most(bends: Course, mended: DrivingOutcome) -> None:
    page = driving_page(mended)
    assert page.tone in {Tone.CALM, Tone.UNKNOWN}
    assert [row[0] for row in page.lead_tables[0].rows] == ["drawn from the domain", "near the worst"]
    assert [film.badge.partition(",")[0] for film in page.films][:2] == ["before", "repaired"]
    text = (bends.folder / "mended" / "report.html").read_text()
    assert "Before and after, where nobody trained or chose" in text
    assert mended.verdict[:40] in text
    figures = json.loads((bends.folder / "mended" / "repair.json").read_text())
    assert figures["recommended"] == mended.recommended
    assert "films" not in figures
    assert len(figures["cases"]) == sum(half.drives for half in mended.halves)


def test_no_scenario_is_in_two_sets_and_none_is_the_runs(bends: Course) -> None:
    task, settings = task_of(bends.run, bends.subject), quick(bends)
    names = {"round-1": 12, "round-2": 12, "validation": 12, "judged": 16}
    sets = [[scenario_json(case.scenario) for case in task.cases(name, count, settings.seed)] for name, count in names.items()]
    sets.append(bends.run.records(columns=("scenario",))["scenario"].to_pylist())
    assert len({text for one in sets for text in one}) == sum(map(len, sets))
    assert task.cases("judged", 16, 0) == task.cases("judged", 16, 0)


def test_frames_up_to_the_departure_have_the_worlds_truth_for_labels(bends: Course) -> None:
    task, settings = task_of(bends.run, bends.subject), quick(bends)
    repair = DrivingRepair(task, bends.folder / "frames", settings)
    cases = repair.cases("some", 8)
    data = repair.frames("some", bends.subject.module, cases)
    courses = task.runner(bends.subject, "cpu").courses(cases, Wheel.SUBJECT)
    ends = [departure_step(each.lateral_m) for each in courses]
    assert any(end is not None for end in ends)
    right = np.concatenate([each.truth_rad[: end : settings.every_steps] for each, end in zip(courses, ends, strict=True)])
    assert np.array_equal(data.labels_rad, right)


def test_an_observer_changes_nothing_about_the_drives(bends: Course) -> None:
    task = task_of(bends.run, bends.subject)
    cases, runner = task.cases("some", 6, 1), task.runner(bends.subject, "cpu")
    seen: list[Moment] = []
    watched = runner.courses(cases, Wheel.SUBJECT, observer=seen.append)
    for one, other in zip(watched, runner.courses(cases, Wheel.SUBJECT), strict=True):
        assert np.array_equal(one.lateral_m, other.lateral_m)
        assert np.array_equal(one.answers_rad, other.answers_rad)
    assert [moment.step for moment in seen] == list(range(len(seen)))
    inside = np.stack([moment.inside for moment in seen])
    assert not (inside[1:] & ~inside[:-1]).any()  # who has left its lane does not come back
    assert not inside.all()


def test_a_network_that_looks_back_is_shown_the_frames_before(bends: Course) -> None:
    spec = replace(SPEC, history=History(3, HistoryKind.STACK))
    keeper = Keeper(spec, 4)
    for step in range(9):
        shown = np.full((2, 24, 32, 3), 10 * step, np.uint8)
        keeper(Moment(step, (7, 3), shown, np.array([step, -step]) / 10.0, np.array([True, step < 6])))
    data = keeper.data()
    assert data is not None
    assert data.labels_rad.tolist() == [0.0, -0.4, 0.0, 0.4, 0.8]  # the car in slot 3 first
    bright = data.pictures[:, 0, 0, 0].numpy()[data.rows()]
    assert bright.tolist() == [[0, 0, 0], [20, 30, 40], [0, 0, 0], [20, 30, 40], [60, 70, 80]]


def test_killed_anywhere_it_ends_with_the_same_bytes(bends: Course, mended: DrivingOutcome, tmp_path: Path) -> None:
    task, settings = task_of(bends.run, bends.subject), quick(bends)
    notes: list[str] = []
    for stop in ("validation-before", "round-1, epoch 9", "driving, round-2", "control, epoch 2", "judged-control"):

        def told(done: int, total: int, note: str = "", stop: str = stop) -> None:
            notes.append(note)
            if stop in note:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            drive_and_repair(task, tmp_path / "out", settings, told)
    with pytest.raises(BadSubjectError, match=r"begun otherwise \(seed was 0 and is 1\)"):
        drive_and_repair(task, tmp_path / "out", replace(settings, seed=1))
    outcome = drive_and_repair(task, tmp_path / "out", settings)
    assert outcome.to_json() == mended.to_json()
    for file in ("recommended.safetensors", "recommended.toml", "candidates/control.safetensors"):
        assert (tmp_path / "out" / file).read_bytes() == (bends.folder / "mended" / file).read_bytes()


def test_a_folder_that_was_begun_otherwise_or_is_finished_is_refused(bends: Course, mended: DrivingOutcome, tmp_path: Path) -> None:
    task = task_of(bends.run, bends.subject)
    with pytest.raises(BadSubjectError, match="finished repair"):
        drive_and_repair(task, bends.folder / "mended", quick(bends))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "note.txt").write_text("mine")
    with pytest.raises(BadSubjectError, match="other files"):
        drive_and_repair(task, tmp_path / "out", quick(bends))


def test_what_cannot_be_repaired_from_drives_is_a_sentence(bends: Course, garage: Garage, tmp_path: Path) -> None:
    task = task_of(bends.run, bends.subject)
    with pytest.raises(BadRunError, match=r"'bars', of which skidpad renders no drives.*--train-drive"):
        clean_drive(replace(quick(bends), train_drive=""), task)
    with pytest.raises(BadRunError, match="no run of `skidpad drive`"):
        task_of(garage.run, bends.subject)
    write_scenario(tmp_path / "one.toml", task.worst[0].scenario)
    files = run_over(bends.toml, tmp_path / "files", files=(str(tmp_path / "one.toml"),))
    with pytest.raises(BadRunError, match=r"scenario files.*--domain extended"):
        task_of(files, bends.subject)
    chauffeur = ARCHITECTURES.get("chauffeur")
    staged = NetworkSubject.of_module(chauffeur.build(), chauffeur.describe("chauffeur", "chauffeur.safetensors"))
    with pytest.raises(BadSubjectError, match=r"two stages.*run of `skidpad test`"):
        task_of(bends.run, staged)
    picture = tmp_path / "bare" / "f0.png"
    picture.parent.mkdir()
    picture.write_bytes(encode(np.zeros((24, 32, 3), np.uint8)))
    with pytest.raises(BadDriveError, match="label"):
        clean_drive(replace(quick(bends), train_drive=f"folder:{picture.parent}"), task)
    with pytest.raises(BadParametersError, match="scenarios must be at least 2"):
        DrivingSettings(scenarios=1)


def test_a_run_without_a_failure_or_of_another_network_is_used_with_a_note(bends: Course, tmp_path: Path) -> None:
    run = run_over(bends.folder / "mended" / "recommended.toml", tmp_path / "run", scenarios=4)
    task = task_of(run, bends.subject)
    assert len(task.worst) == 4
    strays = [row["mdcl"] for row in run.records(columns=("mdcl",)).to_pylist()]
    worst = next(row for row in run.records().to_pylist() if row["mdcl"] == max(strays))
    assert scenario_json(task.worst[0].scenario) == worst["scenario"]
    assert any("none of the 4 drives" in note for note in task.notes) == (task.failures == 0)
    assert any("another network" in note for note in task.notes)


def test_drives_of_searches_count_among_the_worst(bends: Course, tmp_path: Path) -> None:
    run = run_over(bends.toml, tmp_path / "run", searches=("random",), scenarios=8)
    task = task_of(run, bends.subject)
    assert task.worst
    assert {case.condition for case in task.worst} == {"original"}


def test_stimuli_of_the_run_sit_in_front_of_the_camera(bends: Course, tmp_path: Path) -> None:
    run = run_over(bends.toml, tmp_path / "run", stimuli=("original", "exposure(ev=-1)"), scenarios=4, referee="off")
    task = task_of(run, bends.subject)
    cases = task.cases("some", 12, 0)
    drawn, near = cases[:6], cases[6:]
    assert [case.condition.partition("(")[0] for case in drawn] == ["original", "exposure"] * 3
    assert all(bool(case.recipe.steps) == (case.condition != "original") for case in cases)
    assert {case.condition for case in near} <= {case.condition for case in task.worst}


@pytest.mark.parametrize("domain", ["restricted", "extended"])
def test_neighbours_obey_the_domain_and_lie_near(domain: str) -> None:
    model, rng = domain_lasting(domain, 20.0), np.random.default_rng(0)
    for number, scenario in enumerate(sample(model, 3, 20).scenarios):
        made = neighbour(model, scenario, rng, number)
        assert not model.problems(made)
        assert made.seed == number
        assert made != replace(scenario, seed=number)
        assert np.median(np.abs(model.encode(made) - model.encode(scenario))) < 0.15


def test_the_clean_drive_is_rendered_from_the_domain_with_other_seeds(bends: Course) -> None:
    task = replace(task_of(bends.run, bends.subject), world="built-in")
    drive = clean_drive(DrivingSettings(clean_frames=60), task)
    assert len(drive) == 100
    assert drive.has_labels
    assert drive.sha256 != clean_drive(DrivingSettings(clean_frames=60, seed=1), task).sha256


def taught(name: str, failures: int, mdcl: float, clean: float = 0.1) -> Taught:
    return Taught(name, 10, clean, 20, failures, mdcl)


def test_the_fewest_failures_and_then_the_least_stray_within_the_cost_are_chosen() -> None:
    before, control = taught("before", 3, 0.3), taught("control", 3, 0.2)
    rounds = [taught("round-1", 2, 0.3), taught("round-2", 2, 0.25), taught("round-3", 0, 0.1, clean=0.2)]
    best = chosen(before, control, rounds, 0.02)
    assert best is not None
    assert best.name == "round-2"
    assert chosen(before, control, [taught("round-1", 3, 0.25)], 0.02) is None
    assert chosen(before, taught("control", 0, 0.1), rounds[:2], 0.02) is None
    assert chosen(before, control, [taught("round-1", 3, float("nan"))], 0.02) is None


def test_the_verdict_names_the_limit_that_refused_each_round(mended: DrivingOutcome) -> None:
    before, control = taught("before", 5, 0.3), taught("control", 4, 0.2)
    rounds = (replace(taught("round-1", 2, 0.1, clean=0.109), blend=0.1), taught("round-2", 4, 0.2))
    none = replace(mended, before=before, control=control, rounds=rounds, recommended="", settings=replace(mended.settings, most_cost=0.02))
    said = none.verdict.replace("\N{NO-BREAK SPACE}", " ")
    assert "round-1 fails in 2 of 20 drives instead of 5, at a mean MDCL of 0.100 instead of 0.300; its clean error is 9.0 % above" in said
    assert "above the network's even at 10.0 % of the way from the first weights, and 2.0 % is allowed." in said
    assert (
        "round-2 fails in 4 of 20 drives instead of 5, at a mean MDCL of 0.200 instead of 0.300; it does no better than the control."
        in said
    )
    assert json.loads(none.to_json())["refusals"] == list(none.refusals)
    assert "Not recommended: round-1 fails" in round_table(none).note
    assert replace(none, recommended="round-1").refusals == none.refusals[1:]


def test_a_round_that_does_no_better_where_it_is_judged_is_not_confirmed(mended: DrivingOutcome) -> None:
    def judged(*failed: bool) -> DrivingOutcome:
        case = replace(mended.cases[0], failed=failed, mdcl=tuple(map(float, failed)))
        return replace(mended, cases=(case,), halves=(), clean_rmse_rad=(0.1, 0.1, 0.1))

    assert judged(True, True, False).doubts == ()
    assert judged(True, False, False).doubts == ("it fails and strays no less than the control",)
    worse = judged(False, True, True)
    assert worse.doubts == ("it fails and strays no less than the network did before and than the control",)
    assert worse.verdict.startswith(f"Not confirmed: {mended.recommended} is the best on the scenarios that choose, but where it is judged")
    assert driving_page(worse).tone is Tone.UNKNOWN
    dear = replace(judged(True, True, False), clean_rmse_rad=(0.1, 0.1, 0.9))
    assert dear.verdict.startswith("Not confirmed: ")
    assert dear.doubts == ("it costs more clean accuracy than it may",)


def test_the_control_is_said_to_be_trained_on_the_clean_drive_alone(bends: Course, mended: DrivingOutcome) -> None:
    assert mended.control.frames == len(DrivingRepair(task_of(bends.run, bends.subject), bends.folder / "frames", quick(bends)).clean)
    assert mended.control.frames < mended.rounds[0].frames


def test_a_repair_that_is_refused_leaves_no_folder(bends: Course, tmp_path: Path) -> None:
    task = replace(task_of(bends.run, bends.subject), worst=())

    with pytest.raises(BadDriveError, match="nowhere"):
        drive_and_repair(task, tmp_path / "out", replace(quick(bends), train_drive="nowhere"))
    assert not (tmp_path / "out").exists()


def test_no_repair_that_helps_leaves_the_network_as_it_is(bends: Course, tmp_path: Path) -> None:
    settings = quick(bends, rounds=1, epochs=1, learning_rate=1e-12, scenarios=2, validation_scenarios=4, judged_scenarios=2)
    result = sp.repair(bends.subject, bends.run, out=tmp_path / "out", **{name: getattr(settings, name) for name in CHANGED})
    assert result.outcome.recommended == ""
    assert "No repair helped" in repr(result)
    assert not (tmp_path / "out" / "recommended.toml").exists()
    assert driving_page(result.outcome).tone is Tone.ALARM
    for one, other in zip(result.module.parameters(), bends.subject.module.parameters(), strict=True):
        assert torch.equal(one, other)


CHANGED = (
    "rounds",
    "scenarios",
    "validation_scenarios",
    "judged_scenarios",
    "train_drive",
    "epochs",
    "learning_rate",
    "mirror",
    "most_cost",
)


def test_what_a_run_of_drives_does_not_read_is_refused_by_name(bends: Course, garage: Garage, tmp_path: Path) -> None:
    words = ["repair", str(bends.toml), str(bends.run.path), "--out", str(tmp_path / "out")]
    for option, value in (("--ways", "answers"), ("--closed-loop", "4"), ("--referee", "off"), ("--seeds", "2")):
        answer = CliRunner().invoke(app, [*words, option, value])
        assert isinstance(answer.exception, SkidpadError)
        assert f"{option} belongs to runs of `skidpad test` and `skidpad limits`" in str(answer.exception)
    other = ["repair", str(garage.toml), str(garage.run.path), "--out", str(tmp_path / "out")]
    answer = CliRunner().invoke(app, [*other, "--rounds", "2"])
    assert "--rounds belongs to runs of `skidpad drive`" in str(answer.exception)
    answer = CliRunner().invoke(app, [*other, "--train-drive", bends.drive])
    assert "--train-drive belongs to --preset deeptest and to runs of `skidpad drive`" in str(answer.exception)
    with pytest.raises(BadParametersError, match="leave out loss, closed_loop"):
        sp.repair(bends.subject, bends.run, out=tmp_path / "out", loss=nn.functional.mse_loss, closed_loop=3)
    with pytest.raises(UnknownNameError, match="did you mean 'rounds'"):
        sp.repair(bends.subject, bends.run, out=tmp_path / "out", round=3)


def test_the_command_repairs_from_drives(bends: Course, mended: DrivingOutcome, tmp_path: Path) -> None:
    settings = {"rounds": 1, "scenarios": 4, "validation": 4, "judged": 4, "epochs": 4, "train-drive": bends.drive}
    words = ["repair", str(bends.toml), str(bends.run.path), "--out", str(tmp_path / "out"), "--no-mirror", "--most-cost", "5"]
    answer = CliRunner().invoke(app, [*words, *(part for name, value in settings.items() for part in (f"--{name}", str(value)))])
    assert answer.exit_code == 0, answer.output
    assert "On the scenarios that choose" in answer.output
    assert f"report: {tmp_path / 'out' / 'report.html'}" in answer.output.replace("\n", "")
    assert (tmp_path / "out" / "repair.json").is_file()
    assert (tmp_path / "out" / "report.md").is_file()
