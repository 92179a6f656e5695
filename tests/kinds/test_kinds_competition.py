"""The interface of the test prioritisation competition, spoken by a client that protobuf itself wrote."""

import numpy as np
import pytest

from skidpad.core.errors import SkidpadError
from skidpad.kinds.competition import SERVICE, DamagedMessageError, fields_of, read_oracle, read_test, serving, write_text
from skidpad.statistics.orders import apfd, rank_roads, road_features

grpc = pytest.importorskip("grpc")
descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")


def messages():
    """The interface's messages, as protobuf makes them from their description."""
    from google.protobuf import descriptor_pool, message_factory

    kinds = {"string": 9, "bool": 8, "int64": 3, "float": 2, "message": 11}
    described = {
        "RoadPoint": [("sequenceNumber", "int64", "", 1), ("x", "float", "", 1), ("y", "float", "", 1)],
        "SDCTestCase": [("testId", "string", "", 1), ("roadPoints", "message", ".RoadPoint", 3)],
        "Oracle": [("testCase", "message", ".SDCTestCase", 1), ("hasFailed", "bool", "", 1)],
        "PrioritizationReply": [("testId", "string", "", 1)],
        "InitializationReply": [("ok", "bool", "", 1)],
    }
    file = descriptor_pb2.FileDescriptorProto(name="competition.proto", syntax="proto3")
    for name, columns in described.items():
        made = file.message_type.add(name=name)
        for number, (field, kind, of, label) in enumerate(columns, 1):
            made.field.add(name=field, number=number, type=kinds[kind], label=label, **({"type_name": of} if of else {}))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in described}


KIND = messages()


def arc(radius_m: float, length_m: float = 120.0) -> np.ndarray:
    angle = np.linspace(0.0, length_m / radius_m, 60)
    return np.stack((radius_m * np.sin(angle), radius_m * (1 - np.cos(angle))), axis=1)


def test_of(name: str, road: np.ndarray):
    made = KIND["SDCTestCase"](testId=name)
    for number, (x, y) in enumerate(road.tolist()):
        made.roadPoints.add(sequenceNumber=number, x=x, y=y)
    return made


test_of.__test__ = False


def test_messages_of_protobuf_are_read_and_ours_are_read_by_it():
    road = arc(40.0)
    read = read_test(test_of("größer", road).SerializeToString())
    assert read.test_id == "größer"
    np.testing.assert_allclose(read.road_m, road, atol=1e-4)
    oracle = KIND["Oracle"](testCase=test_of("a", road), hasFailed=True)
    assert read_oracle(oracle.SerializeToString())[1]
    assert not read_oracle(KIND["Oracle"](testCase=test_of("a", road)).SerializeToString())[1]
    assert KIND["PrioritizationReply"].FromString(write_text("x" * 300)).testId == "x" * 300
    assert write_text("") == b""


@pytest.mark.parametrize("data", [b"\x0a\x05ab", b"\x0b", b"\x08" + b"\xff" * 11, b"\x08"])
def test_what_is_no_message_is_refused(data):
    with pytest.raises(DamagedMessageError):
        list(fields_of(data))


def test_the_sharpest_bend_is_measured_and_comes_first():
    assert road_features(arc(40.0))[2] == pytest.approx(1 / 40, rel=0.05)
    assert not road_features(np.zeros((2, 2))).any()
    assert rank_roads([arc(200.0), arc(30.0), arc(80.0)]).tolist() == [1, 2, 0]


def test_verdicts_of_other_roads_are_learned_from():
    """Long roads fail here, whatever their bends: what is learned must beat the sharpest bend first."""
    rng = np.random.default_rng(0)
    roads = [arc(rng.uniform(40, 200), rng.uniform(60, 250)) for _ in range(200)]
    failed = np.array([road_features(road)[0] > 180 for road in roads])
    learned = apfd(failed[100:], rank_roads(roads[100:], roads[:100], failed[:100]))
    assert learned > 0.75
    assert learned > apfd(failed[100:], rank_roads(roads[100:])) + 0.1


def test_a_client_gets_its_tests_in_order():
    with serving("127.0.0.1", 0) as port, grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        assert channel.unary_unary(f"/{SERVICE}/Name")(b"") == write_text("skidpad")
        initialize = channel.stream_unary(f"/{SERVICE}/Initialize", request_serializer=lambda each: each.SerializeToString())
        known = [KIND["Oracle"](testCase=test_of(f"{radius}", arc(radius)), hasFailed=radius < 60) for radius in (20, 30, 50, 90, 150, 300)]
        assert KIND["InitializationReply"].FromString(initialize(iter(known))).ok
        prioritize = channel.stream_stream(f"/{SERVICE}/Prioritize", request_serializer=lambda each: each.SerializeToString())
        asked = [test_of(name, arc(radius)) for name, radius in (("mild", 250.0), ("sharp", 25.0), ("middling", 70.0))]
        order = [KIND["PrioritizationReply"].FromString(reply).testId for reply in prioritize(iter(asked))]
        assert order == ["sharp", "middling", "mild"]
        with pytest.raises(SkidpadError, match="another --port"), serving("127.0.0.1", port):
            pass
