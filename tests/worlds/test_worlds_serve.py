"""Both wire formats, against clients that behave, and clients that lie, stall, hang up, or talk out of turn."""

import json
import re
import socket
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import cv2
import numpy as np
import pytest
from fake_clients import HANG_UP, FakeDonkey, FakeDrivePy, fake_drive_py, framed, steer

from skidpad.core.errors import SkidpadError
from skidpad.core.images import Camera
from skidpad.worlds.conformance import check_world
from skidpad.worlds.serve import donkey, udacity
from skidpad.worlds.serve.donkey import ENDED, DonkeyPilot
from skidpad.worlds.serve.simulators import DONKEY, MPH_M_S, SIMULATORS, UDACITY, FaultError, GoneError, Moment
from skidpad.worlds.serve.udacity import UdacityPilot
from skidpad.worlds.world import WORLDS

QUICK_S = 0.3
FRAME = np.zeros((160, 320, 3), np.uint8)
FRAME[:80] = (200, 40, 10)


def moment(step: int = 0, **changes: object) -> Moment:
    values = {
        "step": step,
        "time_s": step * 0.05,
        "frame": FRAME,
        "pose": np.array([8.0, 16.0, 0.0]),
        "speed_m_s": 4.0,
        "acceleration_m_s2": 0.0,
        "yaw_rate_rad_s": 0.0,
        "steering_rad": 0.0,
        "pedal": 0.2,
        "lateral_m": 0.5,
        "collided": False,
    }
    return Moment(**{**values, **changes})


@pytest.fixture
def meet() -> Iterator[Callable[..., tuple[UdacityPilot, FakeDrivePy]]]:
    with ExitStack() as stack:

        def start(*given: object, timeout_s: float = 20.0, **named: object) -> tuple[UdacityPilot, FakeDrivePy]:
            server = stack.enter_context(fake_drive_py(*given, **named))
            pilot = stack.enter_context(closing(UdacityPilot("127.0.0.1", server.port, timeout_s, 20.0)))
            pilot.begin()
            return pilot, server

        yield start


@pytest.mark.parametrize("greeting", [{"late_greeting": True}, {"late_greeting": False}, {"greets": False}])
@pytest.mark.parametrize("protocol", ["3", "3-strict", "4"])
def test_every_answer_belongs_to_its_own_frame(meet, protocol: str, greeting: dict[str, bool]) -> None:
    pilot, server = meet(lambda frame, _: [steer(0.1 * frame, -0.1 * frame)], protocol, **greeting)
    answers = [pilot.ask(moment(step)) for step in range(4)]
    assert [answer.pedal for answer in answers] == pytest.approx([0.0, -0.1, -0.2, -0.3])
    most = UDACITY.bicycle.max_steering_rad
    assert [answer.steering_rad for answer in answers] == pytest.approx([0.0, -0.1 * most, -0.2 * most, -0.3 * most])
    assert server.connections == 1
    assert [answer.unasked for answer in answers] == [0] * 4


def test_telemetry_is_what_the_simulator_sends(meet) -> None:
    pilot, server = meet()
    pilot.ask(moment(steering_rad=-0.5 * UDACITY.bicycle.max_steering_rad, speed_m_s=10.0 * MPH_M_S, pedal=0.25))
    told = server.telemetry[0]
    assert set(told) == {"steering_angle", "throttle", "speed", "image"}
    assert (told["steering_angle"], told["throttle"], told["speed"]) == ("12.5000", "0.2500", "10.0000")
    picture = cv2.imdecode(np.frombuffer(b64decode(told["image"]), np.uint8), cv2.IMREAD_COLOR)
    assert picture.shape == (160, 320, 3)
    # JPEG keeps flat colours: red above, in RGB.
    assert np.abs(picture[40, 100][::-1].astype(int) - FRAME[40, 100]).max() < 12


def test_a_right_turn_is_positive_and_25_degrees_at_most(meet) -> None:
    pilot, _ = meet(lambda *_: [steer(3.0, 2.0)])
    answer = pilot.ask(moment())
    assert np.degrees(answer.steering_rad / UDACITY.bicycle.steering_ratio) == pytest.approx(-25.0)
    assert answer.pedal == 1.0
    assert answer.clamped


def test_answers_that_nobody_asked_for_are_counted_and_thrown_away(meet) -> None:
    surplus = b"".join(framed("42" + json.dumps(["steer", steer(angle)])) for angle in (0.1, 0.9, 0.8))
    pilot, _ = meet(lambda frame, _: [steer(0.2)] if frame else [surplus])
    answers = [pilot.ask(moment(step)) for step in range(2)]
    assert [answer.steering_rad for answer in answers] == [UDACITY.steering_rad(0.1), UDACITY.steering_rad(0.2)]
    assert [answer.unasked for answer in answers] == [0, 2]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ([steer("nan")], "steering_angle = nan at frame 1"),
        ([steer(0.0, "inf")], "throttle = inf at frame 1"),
        ([steer("left")], "'left' at frame 1, which is no number"),
        ([{"throttle": "0.1"}], "no number"),
        ([["no", "object"]], "a steer holds steering_angle and throttle"),
        (['42["steer",{'], "no JSON"),
        (["42" + "[" * 100_000], "no JSON"),
        ([], r"did not answer frame 1 within 0.3 s; .* read what drive.py itself has printed"),
        ([HANG_UP], "closed the connection"),
        (["41"], "ended the connection"),
        ([bytes([0x81, 127]) + (1 << 40).to_bytes(8, "big")], "beyond all measure"),
        ([b"HTTP/1.1 500 Internal Server Error"], "WebSocket frame"),
    ],
)
def test_a_faulty_client_is_told_what_was_wrong_and_met_anew(meet, said, words: str) -> None:
    pilot, server = meet(lambda frame, _: said if frame == 1 else [steer(0.5)], "3", timeout_s=QUICK_S)
    pilot.ask(moment())
    with pytest.raises(FaultError, match=words):
        pilot.ask(moment(1))
    pilot.begin()
    assert pilot.ask(moment()).steering_rad == UDACITY.steering_rad(0.5)
    assert server.connections == 2


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (framed("42" + json.dumps(["steer", steer(0.9)])), "without being asked and does not stop: [0-9]+ answers in 0.3 s"),
        (framed("2"), "pings without end"),
        (b"\x89\x00", "pings without end|did not answer"),
    ],
)
def test_a_client_that_never_stops_sending_costs_its_drive_and_not_the_run(meet, monkeypatch, said: bytes, words: str) -> None:
    monkeypatch.setattr(udacity, "FLOOD_S", QUICK_S)

    def flood(frame: int, _telemetry: dict[str, str]) -> list:
        if server.connections > 1:
            return [steer(0.5)]
        return [steer(0.1)] if frame == 0 else [said * 50_000]

    pilot, server = meet(flood, "3", timeout_s=QUICK_S)
    pilot.ask(moment())

    def drive_on() -> None:
        for step in range(1, 4):  # the flood's first message answers a frame, the others lie before the next
            pilot.ask(moment(step))

    with pytest.raises(FaultError, match=words):
        drive_on()
    pilot.begin()
    assert pilot.ask(moment()).steering_rad == UDACITY.steering_rad(0.5)


def test_nobody_there_is_said_with_what_to_start() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(GoneError, match=rf"no drive.py was reached at 127.0.0.1:{port} .* python drive.py"):
        UdacityPilot("127.0.0.1", port, QUICK_S, QUICK_S).begin()


def test_a_server_of_another_kind_is_no_drive_py() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as other:
        Thread(target=other.serve_forever, daemon=True).start()
        with pytest.raises(GoneError, match="instead of opening a WebSocket"):
            UdacityPilot("127.0.0.1", other.server_port, 5.0, QUICK_S).begin()
        other.shutdown()


@pytest.mark.parametrize("name", SIMULATORS)
def test_the_simulators_worlds_conform(name: str) -> None:
    small = replace(SIMULATORS[name], camera=Camera(64, 32))
    assert check_world(lambda: small.world(2)) == ()
    world = WORLDS.get(name)(1, 1)
    assert world.frame_shape == {"udacity": (160, 320), "donkey": (120, 160)}[name]


def asked(
    program: Callable[[FakeDonkey], None], moments: list[Moment], *, listens: bool, timeout_s: float = 20.0, ends: bool = False
) -> list:
    """Meets a Donkey client and shows it some moments; returns its answers, or what was wrong with them."""
    pilot = None if listens else DonkeyPilot("127.0.0.1", 0, timeout_s, 20.0)
    client = FakeDonkey(program, listens=listens, port=pilot.port if pilot is not None else 0)
    pilot = pilot or DonkeyPilot("127.0.0.1", client.port, timeout_s, 20.0, connects=True)
    pilot.begin()
    answers = []
    for each in moments:
        try:
            answers.append(pilot.ask(each))
        except FaultError as error:
            answers.append(error)
    if ends:
        pilot.end(moments[-1])
    pilot.close()
    client.thread.join(20.0)
    assert client.error is None
    return answers


@pytest.mark.parametrize("listens", [False, True])
def test_a_donkey_client_of_either_role_drives(listens: bool) -> None:
    told = []

    def program(client: FakeDonkey) -> None:
        client.load()
        client.say(msg_type="cam_config", img_w="80", img_h="60", fov="0")
        client.hear("telemetry")  # of the loaded scene
        client.hear("telemetry")  # the brake was on: the same moment again
        for number in range(3):
            client.control(0.25 * number, 0.5)
            told.append(client.hear("telemetry"))

    answers = asked(program, [moment(step) for step in range(4)][:3], listens=listens)
    most = DONKEY.bicycle.max_steering_rad
    assert [answer.steering_rad for answer in answers] == pytest.approx([0.0, -0.25 * most, -0.5 * most])
    assert [answer.pedal for answer in answers] == [0.5] * 3
    assert len(told) == 2, "the third answer ends the test"
    first = told[0]
    picture = cv2.imdecode(np.frombuffer(b64decode(first["image"]), np.uint8), cv2.IMREAD_COLOR)
    assert picture.shape == (60, 80, 3)
    # 8 m ahead and 16 m to the left of the origin, half a metre left of the lane's middle; lengths are divided by eight, cte is not.
    assert (first["pos_z"], first["pos_x"], first["cte"], first["vel_z"], first["hit"]) == (1.0, -2.0, -0.5, 0.5, "none")


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (lambda client: client.control("nan"), "steering = nan at frame 1"),
        (lambda client: client.socket.sendall(b"hello"), "no JSON"),
        (lambda client: client.socket.sendall(b"[1]"), "a message is an object"),
        (lambda client: client.say(msg_type="reset_car"), "reset its car at frame 1"),
        (lambda client: client.say(msg_type="exit_scene"), "left the scene at frame 1"),
        (lambda client: client.socket.shutdown(socket.SHUT_RDWR), "closed the connection"),
        (lambda client: client.say(msg_type="who_knows"), "did not answer frame 1 within 0.3 s"),
    ],
)
def test_a_faulty_donkey_client_ends_its_drive_with_the_reason(last, words: str) -> None:
    def program(client: FakeDonkey) -> None:
        client.load()
        client.hear("telemetry")
        client.hear("telemetry")
        client.control()
        client.hear("telemetry")
        last(client)
        client.hear("never")

    first, second = asked(program, [moment(0), moment(1)], listens=False, timeout_s=QUICK_S)
    assert first.pedal == 0.5
    assert isinstance(second, FaultError)
    assert re.search(words, str(second))


def test_a_donkey_client_that_asks_for_more_and_too_often_is_held_and_counted() -> None:
    def program(client: FakeDonkey) -> None:
        client.load()
        client.hear("telemetry")
        client.hear("telemetry")
        wish = {"msg_type": "control", "steering": "-7", "throttle": "9", "brake": "0"}
        client.socket.sendall(json.dumps(wish).encode() * 3)
        client.hear("telemetry")
        client.control(0.5, 0.0, 2.0)

    first, second = asked(program, [moment(0), moment(1)], listens=False)
    assert (first.steering_rad, first.pedal, first.clamped) == (DONKEY.bicycle.max_steering_rad, 1.0, True)
    assert (second.pedal, second.clamped, second.unasked) == (-1.0, True, 2)


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (
            lambda client: client.socket.sendall(b'{"msg_type":"control","steering":"0"}' * 500_000),
            "does not stop: [0-9]+ answers in 0.3 s",
        ),
        # a client that asks and never reads may also leave no room for what it is told
        (
            lambda client: client.socket.sendall(b'{"msg_type":"get_protocol_version"}' * 500_000),
            r"without being asked|did not answer|connection to the client broke \(timed out\)",
        ),
        (lambda client: client.socket.sendall(b"{" + b" " * (1 << 21)), "no JSON"),
    ],
)
def test_a_donkey_client_that_never_stops_sending_costs_its_drive(monkeypatch, last, words: str) -> None:
    monkeypatch.setattr(donkey, "FLOOD_S", QUICK_S)

    def program(client: FakeDonkey) -> None:
        client.load()
        client.hear("telemetry")
        client.hear("telemetry")
        client.control()
        client.hear("telemetry")
        client.control()
        last(client)
        client.hear("never")

    answers = asked(program, [moment(step) for step in range(4)], listens=False, timeout_s=QUICK_S)
    assert any(isinstance(answer, FaultError) and re.search(words, str(answer)) for answer in answers), answers


def test_a_donkey_client_that_never_drives_off_is_not_waited_for_for_ever() -> None:
    def program(client: FakeDonkey) -> None:
        client.load()
        while True:
            client.hear("telemetry")
            client.control(0.0, 0.0, 1.0)

    pilot = DonkeyPilot("127.0.0.1", 0, 20.0, QUICK_S)
    FakeDonkey(program, port=pilot.port)
    with closing(pilot):
        pilot.begin()
        with pytest.raises(FaultError, match=r"held its brake for 0\.3 s and did not drive off"):
            pilot.ask(moment())


def test_a_client_is_told_that_the_scenario_is_over_and_may_begin_the_next() -> None:
    hits = []

    def program(client: FakeDonkey) -> None:
        client.load()
        client.hear("telemetry")
        client.hear("telemetry")
        client.control()
        hits.append(client.hear("telemetry")["hit"])
        client.say(msg_type="reset_car")

    asked(program, [moment(0)], listens=False, ends=True)
    assert hits == [ENDED]


def test_no_donkey_client_is_said_with_what_to_do() -> None:
    pilot = DonkeyPilot("127.0.0.1", 0, QUICK_S, QUICK_S)
    with pytest.raises(GoneError, match="--connect"):
        pilot.begin()
    with pytest.raises(SkidpadError, match=f"cannot listen at 127.0.0.1:{pilot.port}"):
        DonkeyPilot("127.0.0.1", pilot.port, QUICK_S, QUICK_S)
    pilot.close()
