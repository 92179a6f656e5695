"""MetaDrive as a world: the road it is told to lay, the pipe to it, and, where it is set up, MetaDrive itself."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from skidpad.core.errors import BadParametersError
from skidpad.worlds.conformance import BEND, CHECKS, STRAIGHT, Tolerance
from skidpad.worlds.metadrive import world as metadrive_world
from skidpad.worlds.metadrive.world import PYTHON, MetaDriveError, MetaDriveProcess, MetaDriveWorld, lay
from skidpad.worlds.scenario.scenario import (
    BadScenarioError,
    Conditions,
    OtherVehicle,
    Pedestrian,
    RoadKind,
    RoadPlan,
    Scenario,
    Side,
    Weather,
)
from skidpad.worlds.world import WORLDS

CURVED = Scenario(RoadPlan(RoadKind.CURVED, 80.0, Side.RIGHT, lanes=2, turn_deg=40.0))


def test_bends_have_the_radius_of_the_middle_line_and_lead_to_and_fro() -> None:
    laid = lay(CURVED)
    first, second = laid.bends[:2]
    # MetaDrive's radius is the rightmost lane's: inside of a bend to the right, outside of one to the left.
    assert first.radius_m == pytest.approx(80.0 - 1.5 * 3.5)
    assert second.radius_m == pytest.approx(80.0 + 1.5 * 3.5)
    assert (first.to_block()["dir"], second.to_block()["dir"]) == (1, 0)
    assert second.angle_rad == pytest.approx(2.0 * first.angle_rad)
    arc = laid.road.at(np.array([laid.first_m + 1.0]))
    assert arc.curvature_per_m[0] == pytest.approx(-1.0 / 80.0)
    assert laid.road.length_m >= 20.0 * CURVED.ego.speed_m_s
    assert lay(STRAIGHT).bends == ()


def test_the_lanes_of_a_block_end_where_the_measured_road_does() -> None:
    laid = lay(CURVED)
    bend, lane_m = laid.bends[0], laid.section.lane_centre_of(1)
    end = laid.road.at(np.array([laid.first_m + bend.angle_rad * 80.0])).beside(lane_m)[0]
    # Around the arc's middle, as MetaDrive lays a circular lane of its radius from the end of the straight one.
    wanted = [laid.first_m + bend.radius_m * np.sin(bend.angle_rad), lane_m - bend.radius_m * (1.0 - np.cos(bend.angle_rad))]
    assert end == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize(
    ("scenario", "word"),
    [
        (replace(STRAIGHT, conditions=Conditions(Weather.SNOW, 0.5)), "snow"),
        (replace(STRAIGHT, conditions=Conditions(night=True)), "night"),
        (replace(STRAIGHT, road=RoadPlan(RoadKind.EXIT)), "exit-lane"),
        (replace(STRAIGHT, pedestrians=(Pedestrian(Side.LEFT, 30.0),)), "pedestrians"),
        (replace(BEND, road=replace(BEND.road, radius_m=6.0)), "radius"),
        (replace(BEND, road=replace(BEND.road, turn_deg=700.0)), "turn_deg"),
        (replace(BEND, road=RoadPlan(RoadKind.CURVED, 30.0, turn_deg=300.0), duration_s=60.0), "crosses itself"),
        (replace(STRAIGHT, ego=replace(STRAIGHT.ego, speed_m_s=float("nan"))), "road"),
    ],
)
def test_what_it_cannot_show_is_refused_before_anything_is_started(scenario, word, monkeypatch) -> None:
    monkeypatch.setenv(PYTHON, "/no/such/python")
    with pytest.raises(BadScenarioError, match=word):
        MetaDriveWorld().reset([scenario])


def test_without_metadrive_the_set_up_is_told(monkeypatch) -> None:
    monkeypatch.setenv(PYTHON, "/no/such/python")
    with pytest.raises(MetaDriveError, match=r"metadrive-simulator==0\.3\.0\.1"):
        MetaDriveWorld().reset([STRAIGHT])
    with pytest.raises(BadParametersError, match="no scenario has begun"):
        MetaDriveWorld().lateral_m()
    with pytest.raises(BadParametersError, match="one scenario at a time"):
        MetaDriveWorld().reset([STRAIGHT, BEND])
    assert isinstance(WORLDS.get("metadrive")(8, 2), MetaDriveWorld)


FAKE = """
import json, sys
steps = 0
for line in sys.stdin:
    question = json.loads(line)
    picture = b""
    told = {}
    if question["do"] == "reset":
        steps, pose, others = 0, question["pose"], question["others"]
    if question["do"] == "step":
        steps += 1
        others = question["others"]
        if question["road_wheels_rad"] > 0.5:
            sys.stderr.write("out of fuel")
            sys.exit(3)
        if question["road_wheels_rad"] < -0.5:
            told["error"] = "ValueError: flat tyre"
    if question["do"] in ("reset", "step"):
        told |= {"pose": [pose[0] + 0.6 * steps, *pose[1:]], "speed_m_s": 12.0, "wheelbase_m": 2.5, "touched": steps > 2}
        sys.stderr.write(repr(others))
    if question["do"] == "frame":
        picture = bytes([steps]) * (32 * 64 * 3)
    sys.stdout.buffer.write(json.dumps({**told, "picture": len(picture)}).encode() + b"\\n" + picture)
    sys.stdout.buffer.flush()
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A server that drives straight on, in place of MetaDrive's."""
    (tmp_path / "server.py").write_text(FAKE)
    monkeypatch.setattr(metadrive_world, "__file__", str(tmp_path / "world.py"))
    monkeypatch.setenv(PYTHON, sys.executable)
    yield
    metadrive_world.close_idle()


def small_world() -> MetaDriveWorld:
    from skidpad.core.images import Camera

    return MetaDriveWorld(Camera(64, 32))


def test_the_pipe_carries_poses_pictures_and_collisions(fake) -> None:
    world = small_world()
    vehicles = (OtherVehicle(1, 40.0, 10.0), OtherVehicle(0, 60.0, 10.0))
    first = world.reset([replace(STRAIGHT, vehicles=vehicles)])
    assert world.lateral_m() == pytest.approx([0.0], abs=1e-9)
    assert world.truth_rad() == pytest.approx([0.0], abs=1e-6)
    state = world.step(np.array([0.1]))
    assert state.poses[0, 0] == pytest.approx(first.poses[0, 0] + 0.6)
    assert world.frames().shape == (1, 32, 64, 3)
    assert set(world.frames().ravel()) == {1}
    assert not world.frames(np.array([False])).any()
    assert not world.collided()[0]
    for _ in range(2):
        world.step(np.array([0.1]))
    assert world.collided()[0]
    ahead, towards = world._others()
    assert ahead[:2] == pytest.approx([12.0 + 40.0 + 3 * 0.5, -1.75])
    assert towards == pytest.approx([12.0 + 60.0 - 3 * 0.5, 1.75, np.pi, 10.0])


def test_the_wheel_turns_late_and_not_at_once(fake) -> None:
    world = small_world()
    world.reset([STRAIGHT])
    turned = [float(world.step(np.array([5.0])).steering_rad[0]) for _ in range(5)]
    assert turned[:2] == pytest.approx([0.0, 0.0], abs=1e-6)
    assert turned[2:] == pytest.approx([0.435, 0.87, 1.305])


def test_a_process_is_used_again_and_one_that_died_is_not(fake) -> None:
    world = small_world()
    world.reset([STRAIGHT])
    process = world._process
    del world
    other = small_world()
    other.reset([BEND])
    assert other._process is process
    process.close()
    with pytest.raises(MetaDriveError, match="stopped answering"):
        other.step(np.zeros(1))
    del other
    third = small_world()
    third.reset([STRAIGHT])
    assert third._process is not process


@pytest.mark.parametrize(("angle_rad", "words"), [(8.2, "out of fuel"), (-8.2, "flat tyre")])
def test_a_simulator_that_fails_is_quoted(fake, angle_rad, words) -> None:
    world = small_world()
    world.reset([STRAIGHT])

    def swerve() -> None:
        for _ in range(40):
            world.step(np.array([angle_rad]))

    with pytest.raises(MetaDriveError, match=words):
        swerve()


def test_one_that_does_not_answer_is_ended(fake, tmp_path, monkeypatch) -> None:
    (tmp_path / "server.py").write_text("import sys\nfor line in sys.stdin: pass\n")
    monkeypatch.setattr(metadrive_world, "_BEGIN_S", 0.2)
    with pytest.raises(MetaDriveError, match=r"no answer after 0\.2 s"):
        MetaDriveProcess({"width_px": 64})


needs_metadrive = pytest.mark.skipif(not Path(os.environ.get(PYTHON, "")).is_file(), reason=f"{PYTHON} names no interpreter with MetaDrive")


@pytest.mark.slow
@pytest.mark.timeout(1200)
@needs_metadrive
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_metadrive_conforms(check) -> None:
    # Its surfaces lie in one plane and are drawn in any order.
    check.run(MetaDriveWorld, Tolerance(pose_m=0.001, pixel=8.0, share=0.25))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@needs_metadrive
def test_a_vehicle_in_the_way_is_run_into() -> None:
    world = MetaDriveWorld()
    world.reset([replace(STRAIGHT, vehicles=(OtherVehicle(1, 15.0, 0.0),))])
    for _ in range(40):
        world.step(world.truth_rad())
    assert world.collided()[0]
    # The next scenario has neither that vehicle nor its collision, and its camera still works.
    alone = [world.reset([STRAIGHT]), world.frames()][1]
    world.reset([replace(STRAIGHT, vehicles=(OtherVehicle(1, 20.0, 12.0), OtherVehicle(0, 60.0, 8.0)))])
    beside = world.frames()
    assert not world.collided()[0]
    assert (np.abs(alone.astype(int) - beside).max(-1) > 60).sum() > 100  # a car ahead is seen
