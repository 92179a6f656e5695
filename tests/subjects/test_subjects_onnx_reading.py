"""What of a file is read, and what is refused before onnxruntime sees it."""

import random
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx_toys import NODES, SHAPE, description, model, opened, weights, write

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.formats.onnx.network import open_onnx
from skidpad.subjects.formats.onnx.reading import read_model, weight_files
from skidpad.subjects.formats.onnx.wire import CHUNK, MalformedError, chunk_field, fields, number_field, text_field, varint
from skidpad.subjects.probe import NeuronUnit

TWO = description("steering", "brake")


def open_bytes(data: bytes, folder: Path) -> None:
    (folder / "toy.onnx").write_bytes(data)
    open_onnx(folder / "toy.onnx", TWO, "cpu", NeuronUnit.FILTER)


@given(st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.text(), st.binary()), max_size=20), st.integers(1, 2**20))
def test_what_is_written_is_read_again(values: list[int | str | bytes], number: int) -> None:
    parts = []
    for value in values:
        if isinstance(value, int):
            parts.append(number_field(number, value))
        else:
            parts.append(text_field(number, value) if isinstance(value, str) else chunk_field(number, value))
    seen = list(fields(memoryview(b"".join(parts))))
    assert [bytes(field.whole) for field in seen] == parts
    for value, field in zip(values, seen, strict=True):
        assert field.number == number
        assert value == (field.integer() if isinstance(value, int) else field.text() if isinstance(value, str) else bytes(field.chunk()))


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_packed_numbers_equal_numbers_alone(values: list[int]) -> None:
    (packed,) = fields(memoryview(chunk_field(3, *map(varint, values))))
    alone = fields(memoryview(b"".join(number_field(3, value) for value in values)))
    assert packed.integers() == values == [number for field in alone for number in field.integers()]


@given(st.binary(max_size=200))
def test_any_bytes_are_fields_or_malformed(data: bytes) -> None:
    try:
        seen = list(fields(memoryview(data)))
    except MalformedError:
        return
    assert b"".join(bytes(field.whole) for field in seen) == data


def test_a_number_is_no_chunk_and_a_chunk_no_number() -> None:
    (number,) = fields(memoryview(number_field(1, 5)))
    (chunk,) = fields(memoryview(chunk_field(1, b"\xff")))
    assert chunk.kind == CHUNK
    for ask in (number.chunk, number.text, chunk.integer, chunk.text):
        with pytest.raises(MalformedError):
            ask()


def test_the_reference_package_reads_the_same(tmp_path: Path) -> None:
    made = model(opset=13, ir_version=7)
    read = read_model(write(made, tmp_path))
    assert (read.ir_version, read.opset) == (7, 13)
    assert [(node.operation, list(node.inputs), list(node.outputs)) for node in read.nodes] == [
        (node.op_type, list(node.input), list(node.output)) for node in made.graph.node
    ]
    assert {tensor.name: tensor.dims for tensor in read.weights} == {tensor.name: tuple(tensor.dims) for tensor in made.graph.initializer}
    assert (read.input.name, read.input.shape) == ("input", (None, *SHAPE))
    assert read.outputs == ("both",)
    assert read.parameters == sum(tensor.size for tensor in weights().values())


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("raw", [True, False])
def test_numbers_are_read_in_either_spelling(dtype: type[np.floating], raw: bool, tmp_path: Path) -> None:
    values = np.array([[0.5, -2.0], [3.25, 1e-3]], dtype)
    made = model()
    tensor = (
        numpy_helper.from_array(values, "extra")
        if raw
        else helper.make_tensor("extra", helper.np_dtype_to_tensor_dtype(values.dtype), (2, 2), values)
    )
    made.graph.initializer.append(tensor)
    found = {tensor.name: tensor for tensor in read_model(write(made, tmp_path)).weights}["extra"]
    np.testing.assert_array_equal(found.floats(), values.ravel())


def test_bfloat16_is_read_as_what_it_is(tmp_path: Path) -> None:
    made = model()
    made.graph.initializer.append(
        TensorProto(name="extra", dims=[2], data_type=TensorProto.BFLOAT16, raw_data=struct.pack("<HH", 0x3F80, 0xC000))
    )
    found = {tensor.name: tensor for tensor in read_model(write(made, tmp_path)).weights}["extra"]
    np.testing.assert_array_equal(found.floats(), [1.0, -2.0])


def with_node(operation: str, domain: str = "") -> onnx.ModelProto:
    return model((*NODES[:3], helper.make_node(operation, ["flat"], ["odd"], domain=domain), NODES[3]))


def with_branch() -> onnx.ModelProto:
    body = helper.make_graph([], "body", [], [])
    return model((*NODES, helper.make_node("Relu", ["both"], ["more"], body=body)))


def with_value(name: str, value: float) -> onnx.ModelProto:
    spoiled = weights()[name].copy()
    spoiled.flat[3 % spoiled.size] = value
    return model(tensors={name: spoiled})


def with_tensor(**changes: object) -> onnx.ModelProto:
    made = model()
    for name, value in changes.items():
        if name == "dims":
            made.graph.initializer[0].ClearField("dims")
            made.graph.initializer[0].dims.extend(value)
        else:
            setattr(made.graph.initializer[0], name, value)
    return made


def with_second_input() -> onnx.ModelProto:
    made = model()
    made.graph.input.append(helper.make_tensor_value_info("speed", TensorProto.FLOAT, ["n", 1]))
    return made


def with_element_type(kind: int) -> onnx.ModelProto:
    made = model()
    made.graph.input[0].type.tensor_type.elem_type = kind
    return made


def with_constant(value: float) -> onnx.ModelProto:
    constant = helper.make_node("Constant", [], ["factor"], value=numpy_helper.from_array(np.array([value, 1.0], np.float32)))
    return model((constant, *NODES, helper.make_node("Mul", ["both", "factor"], ["out"])), ["out"])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: with_node("Loop"), "'Loop'"),
        (lambda: with_node("RandomNormalLike"), "'RandomNormalLike'"),
        (lambda: with_node("Steer"), "'Steer'"),
        (lambda: with_node("Gelu", "com.microsoft"), "'Gelu' of 'com.microsoft'"),
        (with_branch, "branches and loops"),
        (lambda: with_value("kernel", np.nan), "'kernel' hold NaN"),
        (lambda: with_value("dense", -np.inf), "'dense' hold NaN or infinity"),
        (lambda: with_constant(np.nan), "'factor' hold NaN"),
        (lambda: with_tensor(dims=[4, 3, 3, 4]), "no whole ONNX file"),
        (lambda: with_tensor(dims=[-4, 3, -3, 3]), "no whole ONNX file"),
        (lambda: with_tensor(data_type=TensorProto.STRING), "texts in 'kernel'"),
        (lambda: with_tensor(raw_data=b""), "no whole ONNX file"),
        (with_second_input, r"takes 2 inputs \(input, speed\)"),
        (lambda: with_element_type(TensorProto.INT64), "type 7"),
        (lambda: model(opset=99), "onnxruntime can run"),
        (lambda: model(ir_version=99), "onnxruntime can run"),
        (lambda: model(outputs=["nowhere"]), "onnxruntime can run"),
        (lambda: model(NODES[1:]), "onnxruntime can run"),
    ],
)
def test_what_cannot_or_must_not_be_run_is_refused_in_one_sentence(make: Callable[[], onnx.ModelProto], said: str, tmp_path: Path) -> None:
    with pytest.raises(BadSubjectError, match=said) as caught:
        opened(make(), tmp_path)
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "toy.onnx") in str(caught.value)


def test_a_single_infinite_bound_may_stay(tmp_path: Path) -> None:
    clip = helper.make_node("Clip", ["both", "low", "high"], ["out"])
    bounds = {"low": np.array(0.0, np.float32), "high": np.array(np.inf, np.float32)}
    (answer,) = opened(model((*NODES, clip), ["out"], tensors=bounds), tmp_path).answer(torch.randn(3, *SHAPE))
    assert float(answer.min()) >= 0.0


@pytest.mark.parametrize(
    "data",
    [b"", b"steering: left\n", b"\x00" * 64, b"PK\x03\x04" + b"x" * 200, b"\x08" * 40],
    ids=["empty", "text", "zeros", "zip", "tags"],
)
def test_something_else_renamed_onnx_is_refused(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(BadSubjectError, match="no whole ONNX file"):
        open_bytes(data, tmp_path)


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    data = model().SerializeToString()
    for end in [*range(0, len(data), 97), len(data) - 1]:
        with pytest.raises(BadSubjectError, match="no whole ONNX file"):
            open_bytes(data[:end], tmp_path)


@pytest.mark.parametrize("pieces", [1, 2])
def test_a_graph_of_endless_empty_nodes_is_refused_before_it_fills_the_memory(pieces: int, tmp_path: Path) -> None:
    nodes = chunk_field(7, chunk_field(1, b"") * (300_000 // pieces)) * pieces
    with pytest.raises(BadSubjectError, match="more than 250,000 fields"):
        open_bytes(number_field(1, 8) + nodes + chunk_field(8, number_field(2, 17)), tmp_path)


def external(location: str, folder: Path, *, size: int | None = None, offset: int = 0) -> onnx.ModelProto:
    """The toy with its kernel in another file."""
    made = model()
    tensor = made.graph.initializer[0]
    (folder / "weights").mkdir(exist_ok=True)
    (folder / "weights" / "kernel.bin").write_bytes(b"\x00" * offset + (tensor.raw_data if size is None else tensor.raw_data[:size]))
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", str(offset))):
        tensor.external_data.add(key=key, value=value)
    return made


def test_weights_in_a_file_beside_the_model_are_read(tmp_path: Path) -> None:
    inputs = torch.randn(3, *SHAPE)
    expected = opened(model(), tmp_path).answer(inputs)
    for offset in (0, 64):
        network = opened(external("weights/kernel.bin", tmp_path, offset=offset), tmp_path)
        torch.testing.assert_close(network.answer(inputs), expected)
        assert weight_files(tmp_path / "toy.onnx") == (tmp_path / "weights" / "kernel.bin",)
    assert weight_files(write(model(), tmp_path)) == ()


@pytest.mark.parametrize(
    ("location", "size", "said"),
    [
        ("../secret.bin", None, "outside its own folder"),
        ("/etc/hostname", None, "outside its own folder"),
        ("weights/link.bin", None, "outside its own folder"),
        ("", None, "outside its own folder"),
        ("weights/missing.bin", None, "cannot be read"),
        ("weights", None, "cannot be read"),
        ("weights/kernel.bin", 100, "cannot be read"),
    ],
)
def test_other_files_are_not_read(location: str, size: int | None, said: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "weights").mkdir(parents=True)
    (tmp_path / "secret.bin").write_bytes(b"\x00" * 4096)
    (home / "weights" / "link.bin").symlink_to(tmp_path / "secret.bin")
    with pytest.raises(BadSubjectError, match=said):
        opened(external(location, home, size=size), home)


def test_numbers_too_small_to_matter_become_zero_and_change_no_answer(tmp_path: Path) -> None:
    tiny = weights()["kernel"].copy()
    tiny[0] = 1e-40
    made = model(tensors={"kernel": tiny})
    read = {tensor.name: tensor.floats() for tensor in read_model(write(made, tmp_path)).weights}
    np.testing.assert_array_equal(read["kernel"], np.where(np.abs(tiny) < 1e-38, 0, tiny).ravel())
    assert np.count_nonzero(read["kernel"]) == tiny.size - tiny[0].size
    np.testing.assert_array_equal(read["dense"], weights()["dense"].ravel())


def mutated(data: bytes, places: list[int], seed: int) -> bytes:
    """A few bytes changed, a piece cut out or doubled."""
    draw = random.Random(seed)
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 4, 8))):
        changed[draw.choice(places)] = draw.choice((draw.randrange(256), 0, 0x7F, 0x80, 0xFF))
    if seed % 10 == 0:
        start = draw.choice(places)
        stop = min(len(changed), start + draw.randrange(1, 40))
        changed[start:stop] = changed[start:stop] * 2 if seed % 20 else b""
    return bytes(changed)


def header(made: onnx.ModelProto, data: bytes) -> list[int]:
    """The places outside the weights, where a byte means something."""
    inside: set[int] = set()
    for tensor in made.graph.initializer:
        start = data.find(tensor.raw_data)
        inside.update(range(start, start + len(tensor.raw_data)))
    return [place for place in range(len(data)) if place not in inside]


def refusal(data: bytes, folder: Path) -> str | None:
    """Opens and runs a file and returns what was said against it; any other error is one of the test."""
    file = folder / "toy.onnx"
    file.write_bytes(data)
    try:
        open_onnx(file, TWO, "cpu", NeuronUnit.FILTER).record(torch.zeros(2, *SHAPE))
    except (BadSubjectError, RuntimeError, ValueError) as error:
        return str(error)
    return None


def test_a_thousand_spoiled_headers_neither_crash_nor_hang(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    made = model()
    data = made.SerializeToString()
    places = header(made, data)
    said = [refusal(mutated(data, places, seed), tmp_path) for seed in range(1000)]
    assert 0 < said.count(None) < 500, "some changes do not matter, most do"
    assert all(len(sentence.splitlines()) == 1 for sentence in said if sentence is not None)
    assert capfd.readouterr() == ("", "")
