"""Served drives as runs: judged, replayed from what was answered, resumed; clients that fail are said and cost one drive."""

import json
from base64 import b64decode
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from fake_clients import HANG_UP, fake_drive_py, steer, straight_on
from online_toys import demo

from skidpad.core.errors import SkidpadError
from skidpad.core.units import STEERING_RATIO
from skidpad.kinds.drives.records import unpack
from skidpad.kinds.drives.served.campaign import SERVED_SCHEMA, Served, ServedSettings, replay_served, serve_drive
from skidpad.kinds.exhibits import Motion, exhibit_of
from skidpad.kinds.kind import KINDS, load_campaign
from skidpad.page.writing import render_page
from skidpad.runs.findings import run_doubts
from skidpad.runs.folder import Run
from skidpad.worlds.scenario.files import write_scenario
from skidpad.worlds.scenario.scenario import Ego, OtherVehicle, RoadKind, RoadPlan, Scenario, Side
from skidpad.worlds.serve.simulators import UDACITY, Answer, GoneError
from skidpad.worlds.vehicle import WHEELBASE_M

SECONDS = 4.0
STEPS = 80
STRAIGHT = Scenario(duration_s=SECONDS, seed=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two straight roads."""
    (tmp_path / "scenarios").mkdir()
    for name in ("a", "b"):
        write_scenario(tmp_path / "scenarios" / f"{name}.toml", STRAIGHT)
    return tmp_path / "scenarios"


def served(folder: Path, port: int, **changes: object) -> Served:
    values = {"simulator": "udacity", "files": (str(folder),), "seconds": 0.0, "port": port, "wait_s": 20.0, **changes}
    return Served.load(ServedSettings(**values))


def rows_of(campaign: Served, out: Path) -> tuple[Run, list[dict]]:
    run = campaign.start(out)
    campaign.execute(run)
    return run, run.records().to_pylist()


def swerving(frame: int, _telemetry: dict[str, str]) -> list:
    """Straight on through the first scenario, hard to the right in the second."""
    return [steer(1.0 if frame >= STEPS + 20 else 0.0, 1.0)]


def test_a_client_that_swerves_is_found_and_one_that_does_not_passes(folder: Path, tmp_path: Path) -> None:
    with fake_drive_py(swerving, "3") as client:
        campaign = served(folder, client.port)
        run, (kept, left) = rows_of(campaign, tmp_path / "run")
    assert run.schema.equals(SERVED_SCHEMA)
    assert (kept["violated"], kept["problem"], kept["steps"]) == (False, "", STEPS)
    assert kept["max_lateral_m"] < 1e-6
    speed = unpack(kept["speed_m_s"])
    assert speed[0] == 0.0, "the simulator's cars begin at rest"
    assert 8.0 < speed[-1] < 13.4
    assert left["violated"]
    assert left["departed_at_s"] > 1.0
    assert unpack(left["lateral_m"])[-1] < -1.5, "positive steering turns right"
    page = KINDS.get("served").page(campaign, run)
    assert "drive.py failed in 1 of 2 cases" in page.verdict
    assert "<svg" in render_page(page)
    assert "begins at rest" in page.notes[-1]
    ways_m = sorted(unpack(row["speed_m_s"]).sum() * 0.05 for row in (kept, left))
    assert page.remarks[-1].startswith(f"The car came {sum(ways_m) / 2:.0f} m in the median drive, {ways_m[0]:.0f} m in the shortest")
    assert KINDS.get("served").figures(campaign, run)["failure_rate"] == 0.5


def test_distances_at_their_cap_are_said_to_be_and_doubts_ask_about_the_program(folder: Path, tmp_path: Path) -> None:
    with fake_drive_py(lambda *_: [steer(1.0, 1.0)], "3") as client:
        campaign = served(folder, client.port)
        run, _ = rows_of(campaign, tmp_path / "run")
    page = KINDS.get("served").page(campaign, run)
    assert page.headlines[-1].value == "1.5 m or more"
    (doubt,) = run_doubts(run)
    assert "does the program prepare its input" in doubt.said


def test_a_recorded_drive_is_the_same_drive_again(folder: Path, tmp_path: Path) -> None:
    with fake_drive_py(swerving, "3") as client:
        campaign = served(folder, client.port, stimuli=("blur",))
        run, rows = rows_of(campaign, tmp_path / "run")
    loaded = load_campaign(run.config, "run")
    result = replay_served(loaded, run, rows[1]["case_id"], tmp_path / "film.svg")
    assert result.reproduction.is_reproduced
    assert result.reproduction.differences == ()
    assert "was not asked" in result.remarks[-1]
    assert (tmp_path / "film.svg").read_text().startswith("<svg")
    film = exhibit_of(run.config).film(rows[1], Motion.STRIP)
    assert film.startswith("<svg")
    moved = {**rows[1], "pedal": np.zeros(len(unpack(rows[1]["pedal"]))).tobytes()}
    assert exhibit_of(run.config).film(moved, Motion.STRIP) != film, "the film shows the drive that the pedals made"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ([steer("nan")], "steering_angle = nan at frame 5"),
        ([], "did not answer frame 5 within 0.3 s"),
        ([HANG_UP], "closed the connection"),
    ],
)
def test_a_faulty_answer_costs_one_drive_and_the_next_goes_on(folder: Path, tmp_path: Path, said: list, words: str) -> None:
    with fake_drive_py(lambda frame, _: said if frame == 5 else [steer(0.0, 3.0)], "3") as client:
        campaign = served(folder, client.port, timeout_s=0.3)
        run, (broken, whole) = rows_of(campaign, tmp_path / "run")
    assert words in broken["problem"]
    assert (broken["steps"], broken["violated"], np.isnan(broken["mdcl"])) == (6, False, True)
    assert (whole["problem"], whole["steps"], whole["violated"]) == ("", STEPS, False)
    assert whole["clamped"] == STEPS
    page = KINDS.get("served").page(campaign, run)
    assert any(words in remark for remark in page.remarks)
    assert any("85 answers lay outside -1 to 1 and were clipped." in remark for remark in page.remarks)
    assert replay_served(campaign, run, broken["case_id"]).reproduction.is_reproduced


def test_a_client_that_goes_away_leaves_a_run_that_can_be_resumed(folder: Path, tmp_path: Path) -> None:
    whole = []

    def once(frame: int, _telemetry: dict[str, str]) -> list:
        if frame == STEPS - 1:
            client.close()
            return [steer(), HANG_UP]
        return [steer()]

    with fake_drive_py(once, "3") as client:
        campaign = served(folder, client.port, wait_s=0.3)
        run = campaign.start(tmp_path / "run")
        with pytest.raises(GoneError, match=r"no drive.py was reached .* 1 of 2 drives are kept; go on with: skidpad resume"):
            campaign.execute(run)
    with fake_drive_py(straight_on, "3") as client:
        again = replace(campaign, settings=replace(campaign.settings, port=client.port, wait_s=20.0))
        again.execute(run)
        whole = client.telemetry
    assert len(whole) == STEPS, "the first scenario is not driven again"
    assert run.is_finished
    assert [row["steps"] for row in run.records().to_pylist()] == [STEPS, STEPS]


class Parked:
    """A client that gives no throttle."""

    def begin(self) -> None: ...

    def ask(self, moment) -> Answer:
        return Answer(0.0, 0.0)

    def end(self, moment) -> None: ...

    def close(self) -> None: ...


def test_a_car_that_stands_has_not_kept_its_lane(folder: Path) -> None:
    campaign = served(folder, 0)
    course = serve_drive(campaign.simulator.world(), campaign.cases[0], campaign.stimuli, Parked())
    assert "came 0.0 m in 4 s, too little to judge" in course.problem
    row = campaign.records(campaign.cases[0], course).to_pylist()[0]
    assert not row["violated"]
    assert np.isnan(row["mdcl"])


def test_nobody_runs_into_a_car_that_starts_slowly(tmp_path: Path) -> None:
    others = (OtherVehicle(1, -30.0, 12.0), OtherVehicle(1, 90.0, 14.0), OtherVehicle(0, 90.0, 12.0))
    write_scenario(tmp_path / "traffic.toml", replace(STRAIGHT, vehicles=others))
    campaign = served(tmp_path / "traffic.toml", 0)
    assert campaign.cases[0].scenario.vehicles == others[1:]


def test_the_scenarios_road_is_bent_for_a_served_car_too(tmp_path: Path) -> None:
    write_scenario(
        tmp_path / "bend.toml",
        Scenario(RoadPlan(RoadKind.CURVED, 60.0, Side.LEFT, turn_deg=60.0), ego=Ego(speed_m_s=8.0), duration_s=10.0, seed=2),
    )
    with fake_drive_py(lambda *_: [steer(0.0, 1.0)], "3") as client:
        _, (row,) = rows_of(served(tmp_path / "bend.toml", client.port), tmp_path / "run")
    assert row["violated"]
    assert row["max_lateral_m"] > 1.5


@pytest.mark.parametrize("side", [Side.LEFT, Side.RIGHT])
def test_a_network_that_keeps_its_lane_keeps_it_through_the_wire(tmp_path: Path, side: Side) -> None:
    """The bundled network steers another car: the same arc takes a smaller angle where the axles are nearer to each other."""
    road = RoadPlan(RoadKind.CURVED, 120.0, side, turn_deg=40.0)
    write_scenario(tmp_path / "bend.toml", Scenario(road, ego=Ego(speed_m_s=10.0), duration_s=9.0, seed=6))
    network = demo()

    def answer(_frame: int, telemetry: dict[str, str]) -> list:
        picture = cv2.imdecode(np.frombuffer(b64decode(telemetry["image"]), np.uint8), cv2.IMREAD_COLOR)
        wheel_rad = network.predict(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB)[None])[0, network.description.steering_column]
        road_wheel_deg = np.degrees(wheel_rad / STEERING_RATIO) * UDACITY.bicycle.wheelbase_m / WHEELBASE_M
        return [steer(-road_wheel_deg / 25.0, 0.12 * (25.0 - float(telemetry["speed"])))]

    with fake_drive_py(answer, "3") as client:
        _, (row,) = rows_of(served(tmp_path / "bend.toml", client.port), tmp_path / "run")
    assert row["problem"] == ""
    assert unpack(row["speed_m_s"]).sum() * 0.05 > 50.0, "it came well into the bend"
    assert row["max_lateral_m"] < 0.9


def test_a_scenario_that_the_world_refuses_costs_itself_alone(folder: Path, tmp_path: Path) -> None:
    with fake_drive_py(straight_on, "3") as client:
        whole = served(folder, client.port)
        tight = replace(whole.scenarios[0], scenario=replace(STRAIGHT, road=RoadPlan(RoadKind.CURVED, radius_m=1.0)))
        _, (refused, driven) = rows_of(replace(whole, scenarios=(tight, whole.scenarios[1])), tmp_path / "run")
    assert "radius" in refused["problem"]
    assert refused["steps"] == 0
    assert driven["steps"] == STEPS


def test_what_cannot_be_done_without_the_client_is_refused(folder: Path) -> None:
    kind = KINDS.get("served")
    with pytest.raises(SkidpadError, match="cannot be made smaller"):
        kind.part("shrink", "shrunk")(None, None, {}, None)
    with pytest.raises(SkidpadError, match="cannot be exported"):
        kind.part("exporter", "exported")(None, None)
    with pytest.raises(SkidpadError, match="one process"):
        served(folder, 0).step("drives", None)


def test_settings_are_read_back_and_checked() -> None:
    settings = ServedSettings(simulator="donkey", connects=True, port=9000)
    assert ServedSettings.from_config(json.loads(json.dumps(settings.to_config()))) == settings
    with pytest.raises(SkidpadError, match="simulator"):
        ServedSettings(simulator="gta")
    with pytest.raises(SkidpadError, match="port"):
        ServedSettings(simulator="udacity", port=70_000)
