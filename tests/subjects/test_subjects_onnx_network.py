"""ONNX models run: batches, layouts, outputs, threads, and the same neurons as in torch."""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from format_family import write_onnx
from onnx import helper
from onnx_toys import NODES, SHAPE, description, model, opened, write
from torch import nn
from torch.nn import functional

from skidpad.cli.main import main
from skidpad.core.errors import BadSubjectError, MissingExtraError
from skidpad.subjects.description import Description, Format, write_description
from skidpad.subjects.formats.onnx import network as sessions
from skidpad.subjects.formats.onnx.network import open_onnx
from skidpad.subjects.inputs import History, HistoryKind, InputSpec, Layout
from skidpad.subjects.loading import load_subject
from skidpad.subjects.probe import NeuronUnit, record

TORCH_SHAPE = (3, 16, 24)
TORCH_INPUT = Description("net", "net.onnx", Format.ONNX, InputSpec(24, 16))


@pytest.fixture
def threads() -> Callable[[int], None]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def inputs(count: int, shape: tuple[int, ...] = TORCH_SHAPE) -> torch.Tensor:
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(count))


@pytest.mark.parametrize("unit", NeuronUnit)
@pytest.mark.parametrize("batch", [None, 1, 3])
def test_layers_values_and_answers_are_those_of_torch(small_net: nn.Module, unit: NeuronUnit, batch: int | None, tmp_path: Path) -> None:
    network = open_onnx(write_onnx(small_net, TORCH_SHAPE, tmp_path, batch=batch), TORCH_INPUT, "cpu", unit)
    for count in (1, 4, 37):
        answer, expected = record(small_net, inputs(count), unit)
        (seen_answer,), seen = network.record(inputs(count))
        assert seen.layers == expected.layers
        assert seen.values.dtype == torch.float32
        torch.testing.assert_close(seen.values, expected.values, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(seen_answer, answer, rtol=0, atol=1e-5)
        torch.testing.assert_close(network.answer(inputs(count))[0], answer, rtol=0, atol=1e-5)


ACTIVATIONS = [
    nn.ReLU(),
    nn.ReLU6(),
    nn.LeakyReLU(0.3),
    nn.PReLU(init=0.3),
    nn.ELU(),
    nn.Tanh(),
    nn.Sigmoid(),
    nn.Hardtanh(),
    nn.GELU(),
    nn.GELU("tanh"),
    nn.SiLU(),
    nn.Mish(),
    nn.SELU(),
    nn.Softplus(),
    nn.Hardswish(),
    nn.Hardsigmoid(),
    nn.Identity(),
]


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=repr)
def test_each_activation_belongs_to_its_layer_as_in_torch(activation: nn.Module, opset: int, tmp_path: Path) -> None:
    torch.manual_seed(3)
    conv, norm, dense = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4 * 14 * 22, 3, bias=opset == 11)
    norm.running_mean.uniform_(-0.5, 0.5)
    norm.running_var.uniform_(0.5, 2.0)
    net = nn.Sequential(conv, norm, activation, nn.Dropout(), nn.Flatten(), dense, activation, nn.Linear(3, 1)).eval()
    network = open_onnx(write_onnx(net, TORCH_SHAPE, tmp_path, opset=opset), TORCH_INPUT, "cpu", NeuronUnit.FILTER)
    _, expected = record(net, inputs(4))
    _, seen = network.record(inputs(4))
    assert seen.layers == expected.layers
    torch.testing.assert_close(seen.values, expected.values, rtol=1e-4, atol=1e-5)


class Twice(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2.0 * x


@pytest.mark.parametrize("activation", [nn.SiLU(), nn.Mish(), nn.Hardswish(), nn.GELU(), nn.Tanh()], ids=repr)
def test_what_is_done_to_an_activation_is_no_part_of_it(activation: nn.Module, tmp_path: Path) -> None:
    torch.manual_seed(3)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), activation, Twice(), nn.Flatten(), nn.Linear(4 * 14 * 22, 1)).eval()
    network = open_onnx(write_onnx(net, TORCH_SHAPE, tmp_path, opset=13), TORCH_INPUT, "cpu", NeuronUnit.FILTER)
    torch.testing.assert_close(network.record(inputs(4))[1].values, record(net, inputs(4))[1].values, rtol=1e-4, atol=1e-5)


class Block(nn.Module):
    """A residual block and a step over time: a layer used by two, products of three axes, an attention that is no layer."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.side = nn.Conv2d(3, 6, 3, 2, 1), nn.Conv2d(6, 6, 3, 1, 1), nn.Conv2d(3, 6, 1, 2)
        self.norm = nn.BatchNorm2d(6)
        self.steps, self.out = nn.Linear(12, 5), nn.Linear(40, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.norm(self.two(functional.relu(self.one(x)))) + self.side(x))
        rows = self.steps(x.mean(1))  # (N, 8, 12) -> (N, 8, 5)
        mixed = torch.matmul(torch.softmax(torch.matmul(rows, rows.transpose(1, 2)), -1), rows)
        return self.out(mixed.flatten(1))


def test_residuals_and_steps_over_time_are_those_of_torch(tmp_path: Path) -> None:
    torch.manual_seed(8)
    net = Block().eval()
    network = open_onnx(write_onnx(net, TORCH_SHAPE, tmp_path), TORCH_INPUT, "cpu", NeuronUnit.FILTER)
    answer, expected = record(net, inputs(5))
    (seen_answer,), seen = network.record(inputs(5))
    assert seen.layers == expected.layers
    torch.testing.assert_close(seen.values, expected.values, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(seen_answer, answer, rtol=1e-4, atol=1e-5)


class Recurrent(nn.Module):
    """Features of each frame of a window, then two recurrences over them."""

    def __init__(self, kind: type[nn.RNNBase], *, both_ways: bool) -> None:
        super().__init__()
        self.conv, self.features = nn.Conv2d(3, 4, 3, 2), nn.Linear(4 * 7 * 11, 6)
        self.first, self.second = kind(6, 5, batch_first=True, bidirectional=both_ways), kind(5 * (1 + both_ways), 3, batch_first=True)
        self.out = nn.Linear(3, 1)

    def forward(self, windows: torch.Tensor) -> torch.Tensor:
        maps = functional.relu(self.conv(windows.flatten(0, 1)))
        steps = torch.tanh(self.features(maps.flatten(1))).reshape(windows.shape[0], windows.shape[1], 6)
        return self.out(self.second(self.first(steps)[0])[0][:, -1])


@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_the_steps_of_a_window_are_those_of_torch(kind: type[nn.RNNBase], both_ways: bool, tmp_path: Path) -> None:
    torch.manual_seed(2)
    net = Recurrent(kind, both_ways=both_ways).eval()
    windows = replace(TORCH_INPUT, input=InputSpec(24, 16, history=History(4, HistoryKind.RECURRENT)))
    network = open_onnx(write_onnx(net, (4, *TORCH_SHAPE), tmp_path), windows, "cpu", NeuronUnit.FILTER)
    given = inputs(3, (4, *TORCH_SHAPE))
    answer, expected = record(net, given)
    (seen_answer,), seen = network.record(given)
    assert seen.layers == expected.layers
    assert f"{kind.__name__.lower()}2.t003" in {layer.name for layer in seen.layers}
    torch.testing.assert_close(seen.values, expected.values, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(seen_answer, answer, rtol=1e-4, atol=1e-5)


def test_answers_do_not_hang_on_the_number_of_threads(small_net: nn.Module, threads: Callable[[int], None], tmp_path: Path) -> None:
    file = write_onnx(small_net, TORCH_SHAPE, tmp_path)
    threads(3)
    network = open_onnx(file, TORCH_INPUT, "cpu", NeuronUnit.FILTER)
    batches = [inputs(count) for count in (50, 32, 17, 3)]
    spread = [network.record(batch) for batch in batches]
    threads(1)
    with ThreadPoolExecutor(4) as pool:
        alone = list(pool.map(network.record, batches))
    for ((one,), first), ((other,), second) in zip(spread, alone, strict=True):
        assert torch.equal(one, other)
        assert torch.equal(first.values, second.values)


def fixed_by_reshape(batch: int) -> onnx.ModelProto:
    """A model that cannot take another batch: it reshapes to the one of its export."""
    reshape = helper.make_node("Reshape", ["active", "target"], ["flat"])
    return model((*NODES[:2], reshape, NODES[3]), batch=batch, tensors={"target": np.array([batch, -1], np.int64)})


@pytest.mark.parametrize("batch", [1, 3])
def test_a_batch_that_cannot_be_changed_is_filled_up(batch: int, tmp_path: Path) -> None:
    free = opened(model(), tmp_path)
    fixed = opened(fixed_by_reshape(batch), tmp_path)
    for count in (1, 3, 7):
        one, other = free.record(inputs(count, SHAPE)), fixed.record(inputs(count, SHAPE))
        torch.testing.assert_close(one[0], other[0], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(one[1].values, other[1].values, rtol=1e-5, atol=1e-6)
        assert one[1].layers == other[1].layers


def test_a_batch_that_changes_the_answer_is_kept(tmp_path: Path) -> None:
    """The mean over the batch is part of the answer: together, images would answer otherwise than alone."""
    mean = helper.make_node("ReduceMean", ["both"], ["centre"], axes=[0], keepdims=1)
    minus = helper.make_node("Add", ["both", "centre"], ["out"])
    network = opened(model((*NODES, mean, minus), ["out"], batch=1), tmp_path)
    (plain,) = opened(model(), tmp_path).answer(inputs(5, SHAPE))
    torch.testing.assert_close(network.answer(inputs(5, SHAPE))[0], 2 * plain, rtol=1e-5, atol=1e-6)


def test_several_outputs_come_in_the_order_of_the_graph(tmp_path: Path) -> None:
    split = helper.make_node("Split", ["both"], ["left", "right"], axis=1)
    squeeze = helper.make_node("Squeeze", ["left", "axes"], ["alone"])
    made = model((*NODES, split, squeeze), ["right", "alone"], opset=17, tensors={"axes": np.array([1], np.int64)})
    right, alone = opened(made, tmp_path).answer(inputs(3, SHAPE))
    (both,) = opened(model(), tmp_path).answer(inputs(3, SHAPE))
    torch.testing.assert_close(torch.stack([alone, right[:, 0]], 1), both)


def test_pixels_may_come_with_their_channels_last(tmp_path: Path) -> None:
    turn = helper.make_node(
        "Transpose",
        [
            "input",
        ],
        ["planes"],
        perm=[0, 3, 1, 2],
    )
    conv = helper.make_node("Conv", ["planes", "kernel", "bias"], ["maps"], kernel_shape=[3, 3])
    made = model((turn, conv, *NODES[1:]), shape=(8, 10, 3))
    network = open_onnx(write(made, tmp_path), description("steering", "brake", layout=Layout.NHWC), "cpu", NeuronUnit.FILTER)
    batch = inputs(4, SHAPE)
    expected = opened(model(), tmp_path).answer(batch)
    torch.testing.assert_close(network.answer(batch.permute(0, 2, 3, 1)), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_other_floats_are_run_too(dtype: type[np.floating], tmp_path: Path) -> None:
    cast = helper.make_node("Cast", ["given"], ["input"], to=1)
    made = model((cast, *NODES))
    made.graph.input[0].name = "given"
    made.graph.input[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    expected = opened(model(), tmp_path).answer(inputs(3, SHAPE))
    torch.testing.assert_close(opened(made, tmp_path).answer(inputs(3, SHAPE)), expected, rtol=1e-2, atol=1e-2)


def test_the_weights_of_the_first_versions_are_inputs_too(tmp_path: Path) -> None:
    made = model(ir_version=3, opset=9)
    for tensor in made.graph.initializer:
        made.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    expected = opened(model(), tmp_path).answer(inputs(3, SHAPE))
    torch.testing.assert_close(opened(made, tmp_path).answer(inputs(3, SHAPE)), expected)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"width_px": 11}, "takes an input of 3 x 8 x 10, .* one of 3 x 8 x 11"),
        ({"layout": Layout.NHWC}, "takes an input of 3 x 8 x 10, .* one of 8 x 10 x 3"),
    ],
)
def test_another_size_than_the_files_names_both(change: dict[str, object], said: str, tmp_path: Path) -> None:
    described = description("steering", "brake")
    with pytest.raises(BadSubjectError, match=said):
        open_onnx(write(model(), tmp_path), replace(described, input=replace(described.input, **change)), "cpu", NeuronUnit.FILTER)


def test_an_input_that_the_network_cannot_take_is_an_error_of_running(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="dimension"):
        opened(model(), tmp_path).answer(torch.zeros(2, 3, 9, 10))


def test_a_batch_of_thousands_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSubjectError, match="takes 5000 images at once"):
        opened(model(batch=5000), tmp_path)


def test_a_network_that_asks_for_all_memory_gets_an_error(tmp_path: Path) -> None:
    padded = helper.make_node("Conv", ["input", "kernel", "bias"], ["maps"], kernel_shape=[3, 3], pads=[60000] * 4)
    pool = helper.make_node("GlobalMaxPool", ["maps"], ["flat4"])
    flat = helper.make_node("Flatten", ["flat4"], ["out"])
    network = opened(model((padded, pool, flat), ["out"]), tmp_path)
    with pytest.raises(RuntimeError, match="memory"):
        network.answer(torch.zeros(1, *SHAPE))


def test_nothing_to_observe_is_said(tmp_path: Path) -> None:
    pool = [helper.make_node("GlobalMaxPool", ["input"], ["top"]), helper.make_node("Flatten", ["top"], ["out"])]
    network = opened(model(pool, ["out"]), tmp_path)
    assert network.answer(inputs(2, SHAPE))[0].shape == (2, 3)
    with pytest.raises(BadSubjectError, match="no convolution and no dense layer"):
        network.record(inputs(2, SHAPE))


def test_a_gpu_that_onnxruntime_cannot_use_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions._runtime(), "get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(BadSubjectError, match="onnxruntime-gpu"):
        sessions.check_device(torch.device("cuda"))


def test_without_onnxruntime_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    sessions._runtime.cache_clear()
    with pytest.raises(MissingExtraError, match=r"skidpad\[onnx\]"):
        opened(model(), tmp_path)


def test_a_subject_counts_its_weights_and_answers_in_radians(tmp_path: Path) -> None:
    write_description(tmp_path / "toy.toml", description("steering", "brake"))
    write(model(batch=1), tmp_path)
    subject = load_subject(tmp_path / "toy.toml")
    frames = np.random.default_rng(0).integers(0, 256, (70, 20, 30, 3), dtype=np.uint8)
    observation = subject.observe(frames)
    np.testing.assert_allclose(subject.predict(frames), observation.answers, atol=1e-6)
    assert observation.answers.shape == (70, 2)
    assert [(layer.name, layer.neurons) for layer in subject.layers] == [("conv1", 4), ("dense1", 2)]


def test_a_text_renamed_onnx_ends_the_command_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_description(tmp_path / "toy.toml", description("steering", "brake"))
    (tmp_path / "toy.onnx").write_text("turn left at the lights\n")
    monkeypatch.setattr(sys, "argv", ["skidpad", "inspect", str(tmp_path / "toy.toml")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "no whole ONNX file" in " ".join(capsys.readouterr().err.split())
