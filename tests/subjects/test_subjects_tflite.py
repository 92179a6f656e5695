"""Donkey's pilots as TensorFlow Lite files and in bins; what TensorFlow answers is in the files beside `tflite_files/make.py`."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from skidpad.core.errors import BadSubjectError, MissingExtraError
from skidpad.core.units import AngleUnit, Axle, PlainUnit
from skidpad.subjects.description import (
    Bins,
    Box,
    Decode,
    Description,
    Format,
    Output,
    description_hash,
    format_description,
    parse_description,
    write_description,
)
from skidpad.subjects.formats import tflite
from skidpad.subjects.inputs import History, HistoryKind, InputSpec, Layout
from skidpad.subjects.introspection import propose
from skidpad.subjects.loading import load_subject, open_network
from skidpad.subjects.network_subject import NetworkSubject, answer_columns
from skidpad.subjects.probe import NeuronUnit
from skidpad.subjects.training.data import steering_answer

FILES = Path(__file__).with_name("tflite_files")
INPUT = InputSpec(24, 20, layout=Layout.NHWC)
STEERING = Output("steering", AngleUnit.SCALED_25, -1.0, Axle.ROAD_WHEEL, decode=Decode.BINS)
THROTTLE = Output("throttle", PlainUnit.FRACTION, decode=Decode.BINS, bins=Bins(20, 0.0, 0.475))
FORMATS = {"pilot.h5": Format.KERAS, "pilot.tflite": Format.TFLITE, "pilot_uint8.tflite": Format.TFLITE}


@pytest.fixture(scope="module")
def said() -> dict[str, np.ndarray]:
    with np.load(FILES / "pilot.npz") as arrays:
        return dict(arrays)


def described(name: str) -> Description:
    return Description("pilot", name, FORMATS[name], INPUT, (STEERING, THROTTLE))


def linear_unbin(numbers: np.ndarray, offset: float, span: float) -> np.ndarray:
    """donkeycar's own, utils.py."""
    return np.argmax(numbers, 1) * (span / (numbers.shape[1] + offset)) + offset


@pytest.mark.parametrize("name", ["pilot.h5", "pilot.tflite"])
def test_a_categorical_pilot_answers_as_donkeycar_decodes_it(name: str, said: dict[str, np.ndarray], tmp_path: Path) -> None:
    if name.endswith(".tflite"):
        pytest.importorskip("ai_edge_litert")
    (tmp_path / name).write_bytes((FILES / name).read_bytes())
    write_description(tmp_path / "pilot.toml", described(name))
    subject = load_subject(tmp_path / "pilot.toml")
    own = subject.predict(said["frames"]) / [STEERING.per_answer, THROTTLE.per_answer]
    expected = np.stack([linear_unbin(said["angle"], -1.0, 2.0), linear_unbin(said["throttle"], 0.0, 0.5)], 1)
    assert len(np.unique(expected[:, 0])) > 1
    np.testing.assert_allclose(own, expected, atol=1e-6)
    assert STEERING.per_answer < 0.0  # positive is to the right for Donkey, to the left here


@pytest.mark.parametrize("name", ["pilot.h5", "pilot.tflite"])
def test_layers_and_values_are_those_of_tensorflow(name: str, said: dict[str, np.ndarray]) -> None:
    if name.endswith(".tflite"):
        pytest.importorskip("ai_edge_litert")
    subject = NetworkSubject(open_network(FILES / name, described(name)), described(name))
    assert [(layer.name, layer.neurons) for layer in subject.layers[:3]] == [("conv1", 4), ("conv2", 3), ("dense1", 5)]
    assert [layer.neurons for layer in subject.layers[3:]] == [15, 20]
    seen = subject.observe(said["frames"])
    np.testing.assert_allclose(seen.values[:, :12].numpy(), said["values"], atol=1e-5)
    np.testing.assert_array_equal(seen.answers, subject.predict(said["frames"]))


def test_numbers_of_a_tflite_file_come_in_the_order_of_its_signature(said: dict[str, np.ndarray]) -> None:
    interpreter = pytest.importorskip("ai_edge_litert.interpreter").Interpreter(model_path=str(FILES / "pilot.tflite"))
    listed = [int(tensor["shape"][-1]) for tensor in interpreter.get_output_details()]
    assert listed == [20, 15]  # the file's own order is the other way round
    network = tflite.open_tflite(FILES / "pilot.tflite", described("pilot.tflite"), "cpu", NeuronUnit.FILTER)
    angle, throttle = network.answer(torch.from_numpy(said["frames"] / np.float32(255)))
    np.testing.assert_allclose(angle, said["angle"], atol=1e-5)
    np.testing.assert_allclose(throttle, said["throttle"], atol=1e-5)


def test_whole_number_inputs_and_answers_are_scaled(said: dict[str, np.ndarray]) -> None:
    pytest.importorskip("ai_edge_litert")
    name = "pilot_uint8.tflite"
    network = tflite.open_tflite(FILES / name, described(name), "cpu", NeuronUnit.FILTER)
    inputs = torch.from_numpy(said["frames"] / np.float32(255))
    angle, throttle = network.answer(inputs)
    np.testing.assert_allclose(angle, said["angle"], atol=0.02)
    np.testing.assert_allclose(throttle, said["throttle"], atol=0.02)
    answers, activations = network.record(inputs)
    np.testing.assert_allclose(activations.values[:, :12], said["values"], atol=0.1)
    np.testing.assert_allclose(answers[0], angle, atol=0.02)


def test_threads_and_batches_change_no_answer(said: dict[str, np.ndarray]) -> None:
    pytest.importorskip("ai_edge_litert")
    network = tflite.open_tflite(FILES / "pilot.tflite", described("pilot.tflite"), "cpu", NeuronUnit.FILTER)
    inputs = torch.from_numpy(said["frames"] / np.float32(255))
    whole, values = network.record(inputs)
    with ThreadPoolExecutor(3) as pool:
        parts = list(pool.map(lambda place: network.record(inputs[place : place + 1]), [0, 1, 2, 3] * 5))
    for place, (answers, activations) in zip([0, 1, 2, 3] * 5, parts, strict=True):
        torch.testing.assert_close(answers[0], whole[0][place : place + 1], rtol=0, atol=0)
        torch.testing.assert_close(activations.values, values.values[place : place + 1], rtol=0, atol=0)


def test_the_elements_of_maps_are_ordered_as_in_other_formats(said: dict[str, np.ndarray]) -> None:
    pytest.importorskip("ai_edge_litert")
    values = []
    for name in ("pilot.h5", "pilot.tflite"):
        network = open_network(FILES / name, described(name), unit=NeuronUnit.ELEMENT)
        values.append(network.record(torch.from_numpy(said["frames"] / np.float32(255)))[1])
    assert values[0].layers == values[1].layers
    # the last two layers are taken before the softmax in both
    np.testing.assert_allclose(values[0].values, values[1].values, atol=1e-5)


def test_a_3d_pilot_runs_from_keras_and_its_tflite_names_what_is_missing(said: dict[str, np.ndarray]) -> None:
    spec = InputSpec(8, 8, layout=Layout.NHWC, history=History(2, HistoryKind.RECURRENT))
    description = Description("deep", "pilot_3d.h5", Format.KERAS, spec)
    subject = NetworkSubject(open_network(FILES / "pilot_3d.h5", description), description)
    np.testing.assert_allclose(subject.predict(said["clip"]), said["deep"], atol=1e-5)
    pytest.importorskip("ai_edge_litert")
    with pytest.raises(BadSubjectError, match=r"operations that LiteRT does not have \(FlexMaxPool3D\).*give the \.h5 file"):
        tflite.read_tflite(FILES / "pilot_3d.tflite")


def test_what_is_no_tflite_file_or_of_another_size_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    broken = tmp_path / "broken.tflite"
    for data in (b"\x1c\x00\x00\x00TFL3", (FILES / "pilot.tflite").read_bytes()[:3000], b""):
        broken.write_bytes(data)
        with pytest.raises(BadSubjectError, match=r"broken\.tflite is no network that LiteRT can run"):
            tflite.read_tflite(broken)
    other = Description("pilot", "pilot.tflite", Format.TFLITE, InputSpec(200, 66, layout=Layout.NHWC), (STEERING, THROTTLE))
    with pytest.raises(BadSubjectError, match="takes an input of 20 x 24 x 3"):
        open_network(FILES / "pilot.tflite", other)
    with pytest.raises(BadSubjectError, match='TensorFlow Lite file; write format = "tflite"'):
        open_network(FILES / "pilot.tflite", Description("pilot", "pilot.tflite", Format.ONNX, INPUT))


def test_the_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    tflite._runtime.cache_clear()
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'skidpad\[tflite\]'"):
        tflite.read_tflite(FILES / "pilot.tflite")


@pytest.mark.parametrize("name", ["pilot.h5", "pilot.tflite"])
def test_bins_are_proposed_where_a_file_names_its_heads(name: str) -> None:
    if name.endswith(".tflite"):
        pytest.importorskip("ai_edge_litert")
    proposal = propose(FILES / name)
    again = parse_description(proposal.to_toml())
    assert again.input == proposal.description.input == INPUT
    assert [(output.name, output.decode, output.bins.count) for output in again.outputs] == [
        ("steering", Decode.BINS, 15),
        ("throttle", Decode.BINS, 20),
    ]
    assert not proposal.notes


def test_a_bin_that_is_no_number_is_no_answer() -> None:
    numbers = torch.tensor([[0.0, 9.0, 1.0, 0.5], [0.0, float("nan"), 1.0, 0.5]])
    description = Description(
        "few", "few.h5", Format.KERAS, INPUT, (Output("steering", AngleUnit.RAD, decode=Decode.BINS, bins=Bins(3, -1.0, 3.0)), Output("x"))
    )
    answers = answer_columns(description, numbers, 2)
    torch.testing.assert_close(answers, torch.tensor([[1.0, 0.5], [float("nan"), 0.5]]), equal_nan=True)
    with pytest.raises(BadSubjectError, match="answers 3 numbers for each image, its description names 4"):
        answer_columns(description, numbers[:, :3], 2)
    with pytest.raises(BadSubjectError, match="bins, which cannot be trained"):
        steering_answer(description, numbers, 2)


def test_bins_are_written_and_change_the_hash_and_nothing_else_does() -> None:
    plain = Output("steering", AngleUnit.SCALED_25, -1.0, Axle.ROAD_WHEEL)
    linear, binned = (Description("pilot", "pilot.h5", Format.KERAS, INPUT, (output,)) for output in (plain, STEERING))
    assert "decode" not in format_description(linear)
    assert "bins" not in format_description(linear)
    assert parse_description(format_description(binned)) == binned
    assert description_hash(linear) != description_hash(binned)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (lambda: Bins(1), "2 to 1000 bins"),
        (lambda: Bins(15, 1.0, -1.0), "from a low to a higher value"),
        (lambda: Output("x", bins=Bins(7)), 'write decode = "bins"'),
        (lambda: Description("box", "", Format.BOX, INPUT, (STEERING,), box=Box(url="http://127.0.0.1:1")), "decodes its own bins"),
    ],
)
def test_bins_that_cannot_be_meant_are_refused(wrong, match: str) -> None:
    with pytest.raises(BadSubjectError, match=match):
        wrong()
