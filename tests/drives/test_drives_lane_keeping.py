"""What is learned from a log of the simulator, in its own numbers, keeps its lane in the built-in world as its description says."""

import csv
from base64 import b64decode
from dataclasses import replace
from pathlib import Path
from runpy import run_path

import cv2
import numpy as np
import pytest
import torch
from fake_clients import fake_drive_py, steer
from torch import nn

from skidpad.core.units import AngleUnit, Axle
from skidpad.drives.opening import open_drive
from skidpad.kinds.drives.served.campaign import Served, ServedSettings
from skidpad.subjects.description import Description, Format, Output
from skidpad.subjects.inputs import Colour, Crop, InputSpec, Range
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.subjects.preprocess import Preprocessor
from skidpad.worlds.scenario.domain import DOMAINS, sample
from skidpad.worlds.world import WORLDS

SPEC = InputSpec(32, 12, Colour.GREY, Range((-1.0,), (1.0,)), Crop(top=0.5))
SIMULATOR = Output("steering", AngleUnit.SCALED_25, -1.0, Axle.ROAD_WHEEL)
SECONDS = 8.0


def write_log(folder: Path, made: str) -> np.ndarray:
    """Writes a drive through the built-in world as the simulator's log: a share of 25 degrees of the road wheels, right positive."""
    (folder / "IMG").mkdir(parents=True)
    drive = open_drive(made)
    degrees_of_the_road_wheels = np.degrees(drive.steering_rad) / 14.8
    shares = -degrees_of_the_road_wheels / 25.0
    lines = []
    for position, share in enumerate(shares):
        cv2.imwrite(str(folder / "IMG" / f"center_{position:05d}.jpg"), np.asarray(drive.frame(position))[..., ::-1])
        lines.append(f"C:\\sim\\IMG\\center_{position:05d}.jpg, left.jpg, right.jpg, {share:.7g}, 0.5, 0, 30.1\n")
    (folder / "driving_log.csv").write_text("".join(lines))
    return shares


def learned(frames: np.ndarray, shares: np.ndarray) -> nn.Module:
    """The straight line nearest to the log's own column: least squares with a small penalty, in plain NumPy."""
    seen = Preprocessor(SPEC, torch.device("cpu"))(frames).flatten(1).double().numpy()
    seen = np.concatenate([seen, np.ones((len(seen), 1))], 1)
    weights = torch.from_numpy(np.linalg.solve(seen.T @ seen + 20.0 * np.eye(seen.shape[1]), seen.T @ shares)).float()
    net = nn.Sequential(nn.Flatten(), nn.Linear(seen.shape[1] - 1, 1))
    with torch.no_grad():
        net[1].weight.copy_(weights[None, :-1])
        net[1].bias.copy_(weights[-1:])
    return net


def furthest_m(net: nn.Module, output: Output, name: str = "built-in") -> float:
    """Drives four cars and returns how far the worst of them came from the middle of its lane."""
    subject = NetworkSubject.of_module(net, Description("line", "line.pt2", Format.EXPORT, SPEC, (output,)))
    world = WORLDS.get(name)(4, 1)
    world.reset(sample(DOMAINS.get("restricted"), 5, 4).scenarios)
    strayed = []
    for _ in range(int(SECONDS * 20)):
        world.step(subject.predict(world.frames())[:, 0])
        strayed.append(np.abs(world.lateral_m()))
    return float(np.max(strayed))


@pytest.mark.slow
def test_a_network_in_the_simulators_numbers_keeps_its_lane(tmp_path: Path) -> None:
    shares = write_log(tmp_path / "track", "rendered?frames=1600&seed=3&width=160&height=80&wander_m=1")
    drive = open_drive(str(tmp_path / "track"))
    net = learned(drive.read(np.arange(len(drive))).frames, shares)
    assert furthest_m(net, SIMULATOR) < 1.2
    # the same numbers taken for angles of the steering wheel, or of the other side, leave the lane
    assert furthest_m(net, replace(SIMULATOR, axle=Axle.STEERING_WHEEL)) > 1.8
    assert furthest_m(net, replace(SIMULATOR, scale=1.0)) > 1.8


@pytest.mark.slow
def test_a_drive_of_the_served_car_teaches_a_plain_drive_py_to_keep_its_lane(tmp_path: Path) -> None:
    """From the log of the simulator's car to its steering with no number in between but the network's own."""
    record = run_path(str(Path(__file__).parents[2] / "examples" / "simulator_track.py"))["record"]
    assert record(tmp_path / "track", roads=60, seconds=3.0, seed=0) == 3600
    drive = open_drive(str(tmp_path / "track"))
    with (tmp_path / "track" / "driving_log.csv").open() as file:
        column = np.array([float(row[3]) for row in csv.reader(file)])
    np.testing.assert_allclose(-np.degrees(drive.steering_rad) / 14.8 / 25.0, column, atol=1e-6)
    net = learned(drive.read(np.arange(len(drive))).frames, column)
    assert furthest_m(net, SIMULATOR, "udacity") < 1.4
    prepare = Preprocessor(SPEC, torch.device("cpu"))

    def plain(_frame: int, telemetry: dict[str, str]) -> list:
        picture = cv2.imdecode(np.frombuffer(b64decode(telemetry["image"]), np.uint8), cv2.IMREAD_COLOR)
        with torch.no_grad():
            answer = float(net(prepare(picture[None, ..., ::-1].copy()))[0, 0])
        return [steer(answer, 0.2 * (20.0 - float(telemetry["speed"])))]

    with fake_drive_py(plain, "3") as client:
        campaign = Served.load(ServedSettings(simulator="udacity", scenarios=4, seconds=8.0, seed=5, port=client.port, wait_s=20.0))
        run = campaign.start(tmp_path / "run")
        campaign.execute(run)
    rows = run.records().to_pylist()
    assert [row["problem"] for row in rows] == [""] * 4
    assert max(row["max_lateral_m"] for row in rows) < 1.4
