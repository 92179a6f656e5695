"""The closed loop as a job: good subjects pass, planted faults fail, and the same bytes come out however it is run."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch
from online_toys import LONGER, ROADS, Moody, demo, online, series, tampered

from skidpad.core.errors import BadParametersError, BadRunError, SkidpadError, UnknownNameError
from skidpad.core.stimuli import Recipe
from skidpad.core.units import AngleUnit
from skidpad.kinds.drives.campaign import OnlineSettings
from skidpad.kinds.drives.loop import AFTER_S, BATCH, Eyes, Wheel, ride
from skidpad.kinds.drives.records import SCHEMA, Case, unpack
from skidpad.kinds.drives.replaying import OnlineReplay, frames_at, replay_drive
from skidpad.kinds.drives.summary import DriveVerdict, _case, summarise
from skidpad.runs.folder import Run
from skidpad.runs.manifest import VersionChange
from skidpad.runs.replay import ReplayOutcome
from skidpad.runs.workers.here import pinned
from skidpad.stimuli.registry import conditions_of
from skidpad.subjects.description import Description, Format, Output
from skidpad.subjects.inputs import History, HistoryKind, InputSpec
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.worlds.builtin import BuiltInWorld, sim
from skidpad.worlds.scenario.files import NamedScenario
from skidpad.worlds.scenario.scenario import Conditions, Ego, Scenario
from skidpad.worlds.world import STEP_S


def executed(campaign, path) -> Run:
    run = campaign.start(path)
    campaign.execute(run)
    return run


def rows(run: Run) -> list[dict]:
    return run.records().to_pylist()


def told(table) -> list[str]:
    """Rows so that NaN equals itself, in no matter which order of shards."""
    return sorted(repr(row) for row in table.to_pylist())


@pytest.fixture(autouse=True)
def one_thread():
    """As in a run: a network's last bits hang on torch's threads."""
    with pinned():
        yield


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Run:
    return executed(online(), tmp_path_factory.mktemp("good") / "run")


def test_a_good_subject_keeps_its_lane_in_clear_day(good) -> None:
    summary = summarise(good)
    assert [case.verdict for case in summary.cases] == [DriveVerdict.PASS] * 3
    assert all(0.0 < case.mdcl < 0.5 for case in summary.cases)
    assert summary.rate.estimate == 0.0
    assert summary.rate.high > 0.4
    assert [row["steps"] for row in rows(good)] == [16, 16, 12]


def test_a_planted_bias_is_caught_online(tmp_path) -> None:
    campaign = online(tampered(bias_rad=1.2), LONGER)
    run = executed(campaign, tmp_path / "run")
    summary = summarise(run)
    assert {case.verdict for case in summary.cases} == {DriveVerdict.FAIL}
    for row in rows(run):
        assert row["violated"]
        assert row["mdcl"] == 1.0
        assert row["departed_at_s"] < 4.0
        assert series(row)[-1] > 0.0  # positive steering leads to the left
        assert row["excess"] >= 1.0


def test_a_car_that_has_left_is_watched_for_a_while_and_no_longer(tmp_path) -> None:
    long = [NamedScenario("long", replace(ROADS[0].scenario, duration_s=7.0))]
    row = rows(executed(online(tampered(bias_rad=1.2), long), tmp_path / "run"))[0]
    assert row["steps"] == round(row["departed_at_s"] / STEP_S) + 1 + round(AFTER_S / STEP_S)


@pytest.mark.parametrize("changes", [{"width": 1}, {"width": 2}, {"width": 3, "seed": 9}])
def test_width_changes_nothing_to_the_last_bit(good, tmp_path, changes) -> None:
    run = executed(online(**changes), tmp_path / "run")
    assert told(run.records()) == told(good.records())


def test_threads_change_nothing_to_the_last_bit(good) -> None:
    campaign = online()
    again = campaign.runner.records(campaign.cases, Wheel.SUBJECT, threads=3)
    assert told(again) == told(good.records())


def test_more_cars_than_a_batch_are_answered_as_alone() -> None:
    frames = np.random.default_rng(0).integers(0, 256, (BATCH + 3, 40, 80, 3), np.uint8)
    slots = [3 * car for car in range(len(frames))]  # some meet in one slot
    eyes = Eyes(demo(), slots)
    together = eyes.answer(frames)
    alone = [Eyes(demo(), [slot]).answer(frames[k : k + 1])[0] for k, slot in enumerate(slots)]
    assert together.tolist() == alone
    few = np.arange(len(frames)) % 3 == 0
    assert eyes.answer(frames, few).tolist() == np.where(few, together, 0.0).tolist()


def looking_back() -> NetworkSubject:
    """A small network that sees three frames at once."""
    with torch.random.fork_rng([]):
        torch.manual_seed(3)
        module = torch.nn.Sequential(torch.nn.Conv2d(9, 4, 5, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(1))
        module(torch.zeros(1, 9, 20, 40))
    spec = InputSpec(40, 20, history=History(3, HistoryKind.STACK))
    return NetworkSubject.of_module(module, Description("back", "back.pt", Format.EXPORT, spec, (Output("steering", AngleUnit.RAD),)))


def test_cars_with_a_memory_are_answered_as_alone() -> None:
    subject, slots = looking_back(), [0, 5, 2, 8, 3]  # the first and the fourth meet in slot 0
    count = len(slots)
    shown = np.random.default_rng(1).integers(0, 256, (4, count, 40, 80, 3), np.uint8)
    together = Eyes(subject, slots)
    answers = [together.answer(frames).tolist() for frames in shown]
    for car in range(count):
        alone = Eyes(subject, slots[car : car + 1])
        assert [float(alone.answer(frames[car : car + 1])[0]) for frames in shown] == [step[car] for step in answers]
    assert answers[0] != [float(Eyes(subject, slots[car : car + 1]).answer(shown[3][car : car + 1])[0]) for car in range(count)]


def row(**changes) -> dict:
    plain = {
        "case_id": "a",
        "scenario_name": "s",
        "scenario": "{}",
        "condition": "original",
        "recipe": "[]",
        "mdcl": 0.3,
        "max_lateral_m": 0.45,
    }
    return plain | {"departed_at_s": np.nan, "collided_at_s": np.nan, "mae_rad": 0.1, "problem": "", "violated": False} | changes


GONE = {"violated": True, "mdcl": 1.0, "departed_at_s": 3.0}


@pytest.mark.parametrize(
    ("repeats", "verdict"),
    [
        ([row(), row()], DriveVerdict.PASS),
        ([row(**GONE), row(**GONE)], DriveVerdict.FAIL),
        ([row(), row(**GONE)], DriveVerdict.FLAKY),
        ([row(), row(problem="nan")], DriveVerdict.FLAKY),
        ([row(problem="nan"), row(problem="nan")], DriveVerdict.ERROR),
        ([row(**GONE, problem="nan afterwards")], DriveVerdict.FAIL),
    ],
)
def test_the_verdict_of_a_case_over_its_repeats(repeats, verdict) -> None:
    case = _case(repeats)
    assert case.verdict is verdict
    assert case.judged + case.errors == len(repeats)
    assert case.failures.low <= case.failures.high


def test_repeats_are_identical_and_a_case_has_one_name(tmp_path) -> None:
    run = executed(online(repeats=20, scenarios=ROADS[:2]), tmp_path / "run")
    found = rows(run)
    assert len(found) == 40
    assert len({row["case_id"] for row in found}) == 2
    for name in ("straight", "left"):
        assert len({repr({**row, "repeat": 0}) for row in found if row["scenario_name"] == name}) == 1
    case = summarise(run).cases[0]
    assert (case.judged, case.failed, case.verdict) == (20, 0, DriveVerdict.PASS)
    assert case.failures.high == pytest.approx(0.139, abs=0.001)  # the exact bound of 0 in 20


def test_a_subject_that_is_really_random_is_flaky_and_its_rate_has_an_interval(tmp_path) -> None:
    road = [NamedScenario("straight", replace(ROADS[0].scenario, duration_s=3.6))]
    run = executed(online(Moody(3), road, repeats=10, width=1), tmp_path / "run")
    case = summarise(run).cases[0]
    assert case.verdict is DriveVerdict.FLAKY
    assert 0 < case.failed < case.judged == 10
    assert case.failures.low < case.failed / 10 < case.failures.high
    assert len({row["answers_rad"] for row in rows(run)}) > 2
    assert summarise(run).rate.estimate == 1.0  # a flaky case has failed


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_twenty_repeats_of_the_whole_set_are_identical(tmp_path) -> None:
    from skidpad.kinds.drives.campaign import Online

    settings = OnlineSettings(subject=online().settings.subject, domain="extended", scenarios=50, repeats=20)
    run = executed(Online.load(settings), tmp_path / "run")
    found = rows(run)
    assert len(found) == 1000
    assert len({repr({**row, "repeat": 0}) for row in found}) == 50


def test_an_answer_that_is_not_a_number_ends_that_drive_alone(tmp_path) -> None:
    night = Scenario(conditions=Conditions(night=True), ego=Ego(headlights=True), duration_s=1.0, seed=4)
    run = executed(online(tampered(blind=True), [*ROADS[:1], NamedScenario("dark", night)]), tmp_path / "run")
    calm, lost = rows(run)
    assert not calm["problem"]
    assert calm["steps"] == 16
    assert "answered nan at frame 0" in lost["problem"]
    assert not lost["violated"]
    assert np.isnan(lost["excess"])
    summary = summarise(run)
    assert [case.verdict for case in summary.cases] == [DriveVerdict.PASS, DriveVerdict.ERROR]
    assert summary.rate.n == 1


def test_a_scenario_that_cannot_begin_is_told_and_the_others_go_on(tmp_path) -> None:
    broken = replace(ROADS[0].scenario, ego=replace(ROADS[0].scenario.ego, lane=3))
    run = executed(online(scenarios=[NamedScenario("broken", broken), *ROADS[:2]]), tmp_path / "run")
    found = rows(run)
    assert "lane" in found[0]["problem"]
    assert found[0]["steps"] == 0
    assert [row["steps"] for row in found[1:]] == [16, 16]
    beside = rows(executed(online(scenarios=[ROADS[2], *ROADS[:2]]), tmp_path / "beside"))  # a case's number decides its slot
    assert repr(found[1:]) == repr(beside[1:])


def test_what_sits_in_front_of_the_camera_is_drawn_for_each_scenario_and_kept(tmp_path) -> None:
    campaign = online(stimuli=("original", "fog", "brightness(shift=30)"), scenarios=ROADS[:2])
    run = executed(campaign, tmp_path / "run")
    found = rows(run)
    assert [row["condition"] for row in found] == ["original"] * 2 + ["fog"] * 2 + ["brightness(shift=30)"] * 2
    fogs = [Recipe.from_json(row["recipe"]) for row in found if row["condition"] == "fog"]
    assert all(recipe.name == "fog" for recipe in fogs)
    assert len({row["answers_rad"] for row in found if row["scenario_name"] == "straight"}) == 3
    assert [row.condition for row in summarise(run).conditions] == ["original", "fog", "brightness(shift=30)"]


@pytest.mark.parametrize("text", ["fog(", "fog(density)", "brightness(shift=1e9)", "(a=1)", "fog(density=0.5,seed=0"])
def test_a_stimulus_that_makes_no_sense_is_refused(text) -> None:
    with pytest.raises(SkidpadError):
        conditions_of([text])


def test_an_unknown_stimulus_and_one_named_twice_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'fog'"):
        conditions_of(["fogg"])
    with pytest.raises(BadParametersError, match="named once"):
        conditions_of(["fog", "fog"])


def test_a_run_that_was_stopped_ends_with_the_same_records(good, tmp_path) -> None:
    campaign = online(width=1)
    run = campaign.start(tmp_path / "run")

    class StopError(Exception):
        pass

    def stop(done: int, total: int, note: str = "") -> None:
        if run.completed("online"):
            raise StopError

    with pytest.raises(StopError):
        campaign.execute(run, stop)
    assert 0 < len(run.completed("online")) < 3
    again = Run.open(tmp_path / "run")
    online(width=1).execute(again)
    assert again.is_finished
    assert told(again.records()) == told(good.records())


def test_another_subject_cannot_go_on_with_a_run(tmp_path) -> None:
    run = online(scenarios=ROADS[:1]).start(tmp_path / "run")
    with pytest.raises(BadRunError, match="subject has changed"):
        online(tampered(bias_rad=0.1), scenarios=ROADS[:1]).execute(run)


def test_a_drive_is_made_again_alone_to_the_last_bit(good) -> None:
    row = rows(good)[1]
    replayed = replay_drive(online().runner, good, row["case_id"][:8])
    assert replayed.is_reproduced, replayed.differences
    other = replay_drive(online(tampered(bias_rad=0.05)).runner, good, row["case_id"])
    assert "answers_rad" in other.differences


def moved(series: bytes, by: float) -> bytes:
    return (unpack(series) + by).astype("<f8").tobytes()


@pytest.mark.parametrize(
    ("changes", "here", "there"),
    [
        ({}, ReplayOutcome.IDENTICAL, ReplayOutcome.IDENTICAL),
        ({"lateral_m": 0.01, "answers_rad": -0.01}, ReplayOutcome.DIFFERENT, ReplayOutcome.WITHIN_BOUND),
        ({"lateral_m": 0.03}, ReplayOutcome.DIFFERENT, ReplayOutcome.DIFFERENT),
        ({"departed_at_s": 0.5}, ReplayOutcome.DIFFERENT, ReplayOutcome.DIFFERENT),
        ({"violated": True}, ReplayOutcome.DIFFERENT, ReplayOutcome.DIFFERENT),
    ],
)
def test_a_drive_may_lie_within_a_bound_on_another_processor_only(good, changes, here, there) -> None:
    row = rows(good)[0]
    again = row | {name: moved(row[name], by) if isinstance(row[name], bytes) else by for name, by in changes.items()}
    elsewhere = (VersionChange("processor", "old CPU", "new CPU"),)
    assert OnlineReplay(row, again, ()).reproduction.outcome is here
    assert OnlineReplay(row, again, (VersionChange("skidpad", "1", "2"),)).reproduction.outcome is here
    found = OnlineReplay(row, again, elsewhere).reproduction
    assert found.outcome is there
    if there is ReplayOutcome.WITHIN_BOUND:
        assert found.said == "reproduced within 0.02 m, 0.02 rad and a frame, on another processor: old CPU in the run, new CPU now"


def test_a_run_of_an_older_version_is_replayed_but_not_resumed(good, tmp_path) -> None:
    older = {name: value for name, value in rows(good)[0].items() if name != "slot"}
    assert Case.from_row(older).slot == 0
    campaign = online()
    kept = pa.schema([field for field in SCHEMA if field.name != "slot"])
    run = Run.create(tmp_path / "run", campaign.settings.to_config(), good.manifest, kept)
    with pytest.raises(BadRunError, match="older skidpad"):
        campaign.execute(run)


def test_recorded_steering_shows_what_was_seen(good) -> None:
    row = rows(good)[0]
    campaign = online()
    pictures = frames_at(campaign.runner, row, [0, 8, 15])
    asked = Eyes(campaign.subject, [row["slot"]])
    assert [float(asked.answer(picture[None])[0]) for picture in pictures] == [unpack(row["answers_rad"])[step] for step in (0, 8, 15)]


def test_offline_is_the_same_loop_with_the_truth_at_the_wheel() -> None:
    subject, scenario = demo(), ROADS[1].scenario
    course = ride(BuiltInWorld(1), [scenario], [Recipe()], {}, subject, Wheel.TRUTH)[0]
    drive = sim(scenario)
    assert len(drive) == 16
    assert course.truth_rad.tolist() == drive.steering_rad.tolist()
    batch = drive.read(range(0, 16, 5))
    answers = [float(Eyes(subject, [0]).answer(frame[None])[0]) for frame in batch.frames]
    assert answers == course.answers_rad[::5].tolist()
    assert np.abs(course.answers_rad - course.truth_rad).mean() < 0.1


def test_settings_survive_their_config_and_nonsense_is_refused() -> None:
    settings = OnlineSettings(subject="a.toml", stimuli=("fog",), repeats=3, files=("x.toml",))
    assert OnlineSettings.from_config(settings.to_config()) == settings
    with pytest.raises(UnknownNameError, match="did you mean 'repeats'"):
        OnlineSettings.from_config({"subject": "a.toml", "repeat": 1})
    with pytest.raises(SkidpadError, match="subject"):
        OnlineSettings.from_config({"campaign": "online"})
    for wrong in ({"repeats": 0}, {"scenarios": 0}, {"seconds": -1.0}, {"seconds": float("nan")}, {"width": -1}):
        with pytest.raises(SkidpadError):
            OnlineSettings(subject="a.toml", **wrong)


def test_a_case_survives_its_record(good) -> None:
    case = Case.from_row(rows(good)[2])
    assert case.scenario == ROADS[2].scenario
    assert json.loads(rows(good)[2]["scenario"])["road"]["radius_m"] == 90.0
