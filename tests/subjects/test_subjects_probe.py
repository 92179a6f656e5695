import warnings
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.base import Layer
from skidpad.subjects.formats.exported import read_exported
from skidpad.subjects.loading import ScriptedNetwork
from skidpad.subjects.probe import NeuronUnit, record, recurrence
from skidpad.subjects.zoo import ARCHITECTURES

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # torch.export warns about its own insides
]

SHAPE = (3, 16, 24)


def by_hooks(net: nn.Module, inputs: torch.Tensor, unit: NeuronUnit) -> torch.Tensor:
    """Forward hooks on the modules after which each layer's value is complete, written for the small network."""
    wanted = [net.relu, net.elu, net.bare, net.prelu]
    kept: dict[nn.Module, torch.Tensor] = {}
    handles = [module.register_forward_hook(lambda module, _, value: kept.update({module: value.clone()})) for module in wanted]
    linear: dict[str, torch.Tensor] = {}
    handles += [
        net.hidden.register_forward_hook(lambda _, __, value: linear.update(hidden=torch.sigmoid(value))),
        net.out.register_forward_hook(lambda _, __, value: linear.update(out=torch.atan(value))),
    ]
    with torch.no_grad():
        net(inputs)
    for handle in handles:
        handle.remove()
    values = [*kept.values(), linear["hidden"], linear["out"]]
    if unit is NeuronUnit.FILTER:
        values = [value.mean((2, 3)) if value.ndim == 4 else value for value in values]
    return torch.cat([value.flatten(1) for value in values], 1)


@pytest.fixture
def inputs() -> torch.Tensor:
    return torch.randn(4, *SHAPE, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("unit", NeuronUnit)
def test_values_equal_plain_forward_hooks(small_net: nn.Module, inputs: torch.Tensor, unit: NeuronUnit) -> None:
    answer, seen = record(small_net, inputs, unit)
    torch.testing.assert_close(seen.values, by_hooks(small_net, inputs, unit), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(answer, small_net(inputs).detach())
    assert seen.values.dtype == torch.float32


def test_layers_are_named_in_order_of_execution(small_net: nn.Module, inputs: torch.Tensor) -> None:
    _, seen = record(small_net, inputs)
    assert seen.layers == (
        Layer("conv1", 0, 4),
        Layer("conv2", 4, 9),
        Layer("conv3", 9, 14),
        Layer("dense1", 14, 20),
        Layer("dense2", 20, 24),
        Layer("dense3", 24, 25),
    )


def as_module(net: nn.Module, path: Path) -> Callable[[torch.Tensor], object]:
    return net


def as_traced(net: nn.Module, path: Path) -> Callable[[torch.Tensor], object]:
    torch.jit.save(torch.jit.trace(net, torch.randn(2, *SHAPE)), path)
    return ScriptedNetwork(torch.jit.load(path))


def as_scripted(net: nn.Module, path: Path) -> Callable[[torch.Tensor], object]:
    torch.jit.save(torch.jit.script(net), path)
    return ScriptedNetwork(torch.jit.load(path))


def as_exported(net: nn.Module, path: Path) -> Callable[[torch.Tensor], object]:
    shapes = ({0: torch.export.Dim("batch", min=1, max=512)},)
    torch.export.save(torch.export.export(net, (torch.randn(2, *SHAPE),), dynamic_shapes=shapes), path)
    return read_exported(path)


def as_decomposed(net: nn.Module, path: Path) -> Callable[[torch.Tensor], object]:
    shapes = ({0: torch.export.Dim("batch", min=1, max=512)},)
    program = torch.export.export(net, (torch.randn(2, *SHAPE),), dynamic_shapes=shapes).run_decompositions()
    torch.export.save(program, path)
    return read_exported(path)


@pytest.mark.parametrize("saved_as", [as_module, as_traced, as_scripted, as_exported, as_decomposed])
def test_every_format_gives_the_same_layers_and_values(
    saved_as: Callable[[nn.Module, Path], Callable[[torch.Tensor], object]], small_net: nn.Module, inputs: torch.Tensor, tmp_path: Path
) -> None:
    if saved_as is as_decomposed:
        small_net.prelu = nn.LeakyReLU(0.2)  # decomposed, PReLU is three operations that no longer say what they are
    network = saved_as(small_net, tmp_path / "net.pt2")
    expected_answer, expected = record(small_net, inputs)
    for _ in range(3):  # TorchScript rewrites itself after the first runs
        answer, seen = record(network, inputs)
        assert seen.layers == expected.layers
        torch.testing.assert_close(seen.values, expected.values, rtol=0, atol=1e-5)
        torch.testing.assert_close(answer[0] if isinstance(answer, tuple) else answer, expected_answer, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "activation",
    [
        nn.ReLU(inplace=True),
        nn.ReLU6(),
        nn.LeakyReLU(0.3, inplace=True),
        nn.ELU(inplace=True),
        nn.Tanh(),
        nn.Sigmoid(),
        nn.Hardtanh(),
        nn.GELU(),
        nn.SiLU(),
        nn.SiLU(inplace=True),
        nn.Mish(),
        nn.SELU(),
        nn.CELU(),
        nn.Softplus(),
        nn.Hardswish(),
        nn.Hardsigmoid(),
    ],
    ids=repr,
)
def test_each_activation_belongs_to_its_layer(activation: nn.Module, inputs: torch.Tensor) -> None:
    conv, dense = nn.Conv2d(3, 4, 3), nn.Linear(4 * 14 * 22, 3)
    network = nn.Sequential(conv, activation, nn.Dropout(), nn.Flatten(), dense, activation).eval()
    _, seen = record(network, inputs)
    with torch.no_grad():
        maps = activation(conv(inputs))
        expected = torch.cat([maps.mean((2, 3)), activation(dense(maps.flatten(1)))], 1)
    torch.testing.assert_close(seen.values, expected, rtol=1e-5, atol=1e-6)


def test_a_value_that_is_later_overwritten_in_place_is_the_layers_own(inputs: torch.Tensor) -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two, self.dense = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1), nn.Linear(3, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.two(torch.relu(self.one(x)))
            y += x
            out = self.dense(y.relu_().mean((2, 3)))
            return out.mul_(100.0)

    net = Residual()
    for unit in NeuronUnit:
        _, seen = record(net, inputs, unit)
        with torch.no_grad():
            one = torch.relu(net.one(inputs))
            two = net.two(one)
            dense = net.dense(torch.relu(two + inputs).mean((2, 3)))
        maps = [one.mean((2, 3)), two.mean((2, 3))] if unit is NeuronUnit.FILTER else [one.flatten(1), two.flatten(1)]
        torch.testing.assert_close(seen.values, torch.cat([*maps, dense], 1), rtol=1e-5, atol=1e-6)


def test_maps_do_not_outlive_their_use(inputs: torch.Tensor) -> None:
    maps: list[weakref.ref[torch.Tensor]] = []

    class Watched(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            alive = [ref for ref in maps if ref() is not None and ref() is not x]
            assert not alive, f"{len(alive)} maps of earlier layers are still alive"
            maps.append(weakref.ref(x))
            return x

    stages = [layer for _ in range(4) for layer in (nn.Conv2d(3, 3, 3, padding=1), nn.ReLU(), Watched())]
    record(nn.Sequential(*stages), inputs)
    assert len(maps) == 4


def test_unrolled_steps_are_neurons_of_their_own() -> None:
    dense = nn.Linear(5, 2)
    sequence = torch.randn(3, 7, 5)
    _, seen = record(lambda x: torch.relu(dense(x)), sequence)
    assert seen.layers == (Layer("dense1", 0, 14),)
    torch.testing.assert_close(seen.values, torch.relu(dense(sequence)).detach().reshape(3, 14))


def steps(name: str, count: int, width: int, start: int = 0) -> list[Layer]:
    return [Layer(f"{name}.t{step:03d}", start + step * width, start + (step + 1) * width) for step in range(count)]


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize(("kind", "make"), [("lstm", nn.LSTM), ("gru", nn.GRU), ("rnn", nn.RNN)])
def test_every_step_of_a_recurrence_is_a_layer(kind: str, make: type[nn.RNNBase], batch_first: bool) -> None:
    torch.manual_seed(0)
    net = make(5, 4, num_layers=2, bidirectional=True, batch_first=batch_first).eval()
    inner = make(5, 4, bidirectional=True, batch_first=True).eval()
    inner.load_state_dict({name: tensor for name, tensor in net.state_dict().items() if "l0" in name})
    x = torch.randn(3, 7, 5)
    given = x if batch_first else x.transpose(0, 1)
    with torch.no_grad():
        expected, below = net(given)[0], inner(x)[0]
    answer, seen = record(lambda _: net(given)[0], x)
    torch.testing.assert_close(answer, expected)
    assert list(seen.layers) == steps(f"{kind}1", 7, 8) + steps(f"{kind}2", 7, 8, 56)
    torch.testing.assert_close(seen.values[:, :56], below.flatten(1))
    torch.testing.assert_close(seen.values[:, 56:], (expected if batch_first else expected.transpose(0, 1)).flatten(1))


def test_the_last_states_of_a_stack_are_kept() -> None:
    net = nn.LSTM(5, 4, num_layers=3, batch_first=True).eval()
    x = torch.randn(2, 6, 5)
    with torch.no_grad():
        _, expected = net(x)
    (_, states), _ = record(net, x)
    assert all(torch.equal(got, wanted) or torch.allclose(got, wanted) for got, wanted in zip(states, expected, strict=True))


def test_a_traced_recurrence_shows_the_same_neurons() -> None:
    net = nn.LSTM(5, 4, batch_first=True).eval()
    x = torch.randn(3, 7, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(net, x)
    (_, plain), (_, seen) = record(net, x), record(traced, x)
    assert seen.layers == plain.layers
    torch.testing.assert_close(seen.values, plain.values)


@pytest.mark.parametrize(("kind", "make"), [("lstm", nn.LSTMCell), ("gru", nn.GRUCell), ("rnn", nn.RNNCell)])
def test_a_cell_is_a_layer_at_every_call(kind: str, make: type[nn.RNNCellBase]) -> None:
    cell = make(5, 4)
    x = torch.randn(3, 5)

    def twice(x: torch.Tensor) -> torch.Tensor:
        state = cell(x)
        again = cell(x, state)
        return again[0] if isinstance(again, tuple) else again

    answer, seen = record(twice, x)
    assert [layer.name for layer in seen.layers] == [f"{kind}1", f"{kind}2"]
    torch.testing.assert_close(seen.values[:, 4:], answer)


def test_a_recurrence_written_out_is_seen_as_its_states() -> None:
    back, out = nn.Linear(4, 4), nn.Linear(4, 1)

    def net(x: torch.Tensor) -> torch.Tensor:
        def run() -> torch.Tensor:
            state, states = torch.zeros(3, 4), []
            for step in x.unbind(1):
                state = torch.tanh(step + back(state))
                states.append(state)
            return torch.stack(states, 1)

        return out(recurrence(run)[:, -1])

    x = torch.randn(3, 5, 4)
    answer, seen = record(net, x)
    assert list(seen.layers) == [*steps("lstm1", 5, 4), Layer("dense1", 20, 21)]
    with torch.no_grad():
        torch.testing.assert_close(net(x), answer)
        torch.testing.assert_close(out(seen.values[:, 16:20]), answer)


def test_what_runs_on_every_frame_of_a_window_is_counted_frame_by_frame() -> None:
    conv, dense = nn.Conv2d(2, 3, 3), nn.Linear(3, 4)
    windows = torch.randn(2, 5, 2, 6, 6)

    def net(x: torch.Tensor) -> torch.Tensor:
        maps = torch.relu(conv(x.flatten(0, 1)))
        return torch.relu(dense(maps.mean((2, 3)).reshape(2, 5, 3)))

    answer, seen = record(net, windows)
    assert list(seen.layers) == steps("conv1", 5, 3) + steps("dense1", 5, 4, 15)
    with torch.no_grad():
        maps = torch.relu(conv(windows.flatten(0, 1))).mean((2, 3)).reshape(2, 15)
    torch.testing.assert_close(seen.values[:, :15], maps)
    torch.testing.assert_close(seen.values[:, 15:], answer.flatten(1))
    _, elements = record(net, windows, NeuronUnit.ELEMENT)
    assert list(elements.layers) == steps("conv1", 5, 48) + steps("dense1", 5, 4, 240)


def test_a_product_of_activations_is_no_layer() -> None:
    dense = nn.Linear(5, 5)
    _, seen = record(lambda x: torch.matmul(dense(x), x.transpose(1, 2)), torch.randn(3, 7, 5))
    assert [layer.name for layer in seen.layers] == ["dense1"]


def test_a_bias_added_by_hand_belongs_to_its_layer() -> None:
    weight, bias, x = torch.randn(4, 3), torch.randn(3), torch.randn(2, 4)
    _, seen = record(lambda x: torch.relu(x @ weight + bias), x)
    torch.testing.assert_close(seen.values, torch.relu(x @ weight + bias))


def test_a_network_without_layers_is_refused(inputs: torch.Tensor) -> None:
    with pytest.raises(BadSubjectError, match="no convolution and no dense layer"):
        record(lambda x: x.mean((1, 2, 3)), inputs)


def test_values_can_be_changed_by_whoever_gets_them(small_net: nn.Module, inputs: torch.Tensor) -> None:
    _, seen = record(small_net, inputs)
    assert not seen.values.is_inference()
    seen.values.add_(1.0)


@pytest.mark.parametrize("architecture", ["pilotnet", "dave-dropout"])
def test_the_answer_does_not_depend_on_the_batch(architecture: str) -> None:
    torch.manual_seed(0)
    row = ARCHITECTURES.get(architecture)
    net, x = row.build().eval(), torch.randn(3, *row.input.shape)
    together = record(net, x)[1].values
    alone = torch.cat([record(net, x[i : i + 1])[1].values for i in range(3)])
    np.testing.assert_allclose(together.numpy(), alone.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("saved_as", [as_module, as_traced, as_scripted, as_exported])
def test_every_format_gives_the_same_on_the_gpu_where_torchscript_would_fuse(
    saved_as: Callable[[nn.Module, Path], Callable[[torch.Tensor], object]], small_net: nn.Module, inputs: torch.Tensor, tmp_path: Path
) -> None:
    _, expected = record(small_net, inputs)
    network = saved_as(small_net, tmp_path / "net.pt2").to("cuda")
    for _ in range(5):
        _, seen = record(network, inputs.cuda())
        assert seen.layers == expected.layers
        torch.testing.assert_close(seen.values.cpu(), expected.values, rtol=0, atol=0.02)  # TF32 convolutions


def test_a_recurrence_fed_with_another_width_is_refused_before_torch_reads_past_its_weights() -> None:
    net = nn.LSTM(6, 4, batch_first=True).eval()
    state = torch.zeros(1, 1, 4)

    def unchecked(inputs: torch.Tensor) -> torch.Tensor:
        return torch.lstm(inputs, (state, state), list(net.parameters()), True, 1, 0.0, False, False, True)[0]

    assert record(unchecked, torch.zeros(1, 3, 6))[1].layers
    with pytest.raises(RuntimeError, match="takes 6 numbers a step; got 9"):
        record(unchecked, torch.zeros(1, 3, 9))
