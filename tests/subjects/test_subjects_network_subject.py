from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from skidpad.core.errors import BadSubjectError
from skidpad.core.units import AngleUnit
from skidpad.subjects import network_subject
from skidpad.subjects.description import Description, Output
from skidpad.subjects.inputs import History, HistoryKind, Layout
from skidpad.subjects.network_subject import NetworkSubject, state_hash
from skidpad.subjects.probe import NeuronUnit


def with_outputs(description: Description, *outputs: Output) -> Description:
    return replace(description, outputs=outputs)


class Means(nn.Module):
    """Answers plain functions of the input, so that the right answer can be computed by hand."""

    def __init__(self, form: str = "columns") -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 2, 1)
        self.form = form

    def forward(self, x: torch.Tensor) -> object:
        y = self.conv(x).mean((2, 3))
        forms = {
            "columns": y,
            "tuple": (y[:, :1], y[:, 1]),
            "flat": y[:, 0],
            "summed": y.sum(),
            "words": {"steering": y},
            "deep": y[:, :1, None, None],
            "nothing": (),
            "wrong batch": y[:1],
        }
        return forms[self.form]


@pytest.mark.parametrize("batch_size", [1, 2, 5, 64])
def test_the_batch_size_changes_nothing(batch_size: int, small_net: nn.Module, small_description: Description, frames: np.ndarray) -> None:
    subject = NetworkSubject.of_module(small_net, small_description, batch_size=batch_size)
    whole = NetworkSubject.of_module(small_net, small_description)
    np.testing.assert_allclose(subject.predict(frames), whole.predict(frames), atol=1e-6)
    seen = subject.observe(frames)
    np.testing.assert_allclose(seen.values.numpy(), whole.observe(frames).values.numpy(), atol=1e-5)
    np.testing.assert_allclose(seen.answers, whole.predict(frames), atol=1e-6)
    assert seen.answers.dtype == np.float64
    assert seen.values.shape == (5, subject.layers[-1].stop)


def test_torch_frames_and_numpy_frames_answer_alike(small_net: nn.Module, small_description: Description, frames: np.ndarray) -> None:
    subject = NetworkSubject.of_module(small_net, small_description)
    assert np.array_equal(subject.predict(torch.from_numpy(frames)), subject.predict(frames))


def test_no_frames_have_no_answers(small_net: nn.Module, small_description: Description, frames: np.ndarray) -> None:
    subject = NetworkSubject.of_module(small_net, small_description)
    assert subject.predict(frames[:0]).shape == (0, len(small_description.outputs))
    assert subject.observe(frames[:0]).values.shape == (0, subject.layers[-1].stop)


def test_the_network_runs_in_evaluation_mode(small_net: nn.Module, small_description: Description, frames: np.ndarray) -> None:
    subject = NetworkSubject.of_module(small_net.train(), small_description)
    assert np.array_equal(subject.predict(frames), subject.predict(frames))
    assert not subject.module.training


@pytest.mark.parametrize(
    ("unit", "scale"), [(AngleUnit.RAD, 1.0), (AngleUnit.DEG, 1.0), (AngleUnit.SCALED_25, -1.0), (AngleUnit.DEG, 10.0)]
)
def test_answers_are_radians_whatever_the_unit(unit: AngleUnit, scale: float, small_description: Description, frames: np.ndarray) -> None:
    plain = with_outputs(small_description, Output("steering", AngleUnit.RAD), Output("speed"))
    declared = with_outputs(small_description, Output("steering", unit, scale), Output("speed"))
    net = Means()
    expected = NetworkSubject.of_module(net, plain).predict(frames)
    expected[:, 0] *= scale * np.radians({"rad": np.degrees(1.0), "deg": 1.0, "scaled25": 25.0}[unit.value])
    np.testing.assert_allclose(NetworkSubject.of_module(net, declared).predict(frames), expected, rtol=1e-12)


def test_every_output_has_its_own_column_and_unit(small_description: Description, frames: np.ndarray) -> None:
    steering, speed = Output("steering", AngleUnit.DEG), Output("speed", scale=2.0)
    net = Means()
    first = NetworkSubject.of_module(net, with_outputs(small_description, steering, speed)).predict(frames)
    second = NetworkSubject.of_module(net, with_outputs(small_description, speed, steering)).predict(frames)
    np.testing.assert_allclose(first[:, 0] / np.radians(1.0), second[:, 0] / 2.0)
    np.testing.assert_allclose(first[:, 1] / 2.0, second[:, 1] / np.radians(1.0))
    net.form = "tuple"
    assert np.array_equal(NetworkSubject.of_module(net, with_outputs(small_description, speed, steering)).predict(frames), second)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("columns", r"answers 2 numbers.*names 1 \(steering\)"),
        ("summed", r"got \(\)"),
        ("words", "got dict"),
        ("nothing", "got nothing"),
        ("wrong batch", r"for 2 images; got \(1, 2\)"),
    ],
)
def test_an_answer_of_another_shape_is_one_sentence(form: str, message: str, small_description: Description) -> None:
    with pytest.raises(BadSubjectError, match=message):
        NetworkSubject.of_module(Means(form), small_description)


@pytest.mark.parametrize("form", ["flat", "deep"])
def test_one_number_may_come_in_any_shape(form: str, small_description: Description, frames: np.ndarray) -> None:
    assert NetworkSubject.of_module(Means(form), small_description).predict(frames).shape == (5, 1)


def test_answers_that_are_not_finite_are_passed_on(small_description: Description, frames: np.ndarray) -> None:
    net = Means("flat")
    net.conv.weight.data.fill_(1e38)
    assert not np.isfinite(NetworkSubject.of_module(net, small_description).predict(frames)).any()


def test_a_network_saved_in_training_mode_is_refused(small_description: Description) -> None:
    class Baked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Linear(3, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.dense(nn.functional.dropout(x, 0.5, training=True).mean((2, 3))) * 100.0

    with pytest.raises(BadSubjectError, match=r"for the same image; it was saved in training mode: call \.eval\(\)"):
        NetworkSubject.of_module(Baked(), small_description)


def test_a_network_that_mixes_its_batch_is_refused(small_description: Description) -> None:
    class Mixing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Linear(3, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x.mean((2, 3))
            return self.dense((y - y.mean(0)) * 1000.0)

    with pytest.raises(BadSubjectError, match="for the same image"):
        NetworkSubject.of_module(Mixing(), small_description)


class Viewing(nn.Module):
    """Flattens by `view`, which wants memory plane by plane; `rows` fixes the batch it was written for."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.conv, self.dense, self.rows = nn.Conv2d(3, 2, 3), nn.Linear(2 * 14 * 22, 1), rows

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dense(self.conv(x).view(self.rows, 2 * 14 * 22))


@pytest.mark.parametrize("rows", [-1, 1])
def test_views_and_a_batch_of_one_are_handled(rows: int, small_description: Description, frames: np.ndarray) -> None:
    torch.manual_seed(0)
    net = Viewing(rows)
    subject = NetworkSubject.of_module(net, small_description, batch_size=2)
    assert subject.batch_size == (1 if rows == 1 else 2)
    net.rows = -1
    np.testing.assert_allclose(subject.observe(frames).answers, NetworkSubject.of_module(net, small_description).predict(frames), atol=1e-6)


def test_a_fixed_batch_is_filled_up(small_description: Description, frames: np.ndarray) -> None:
    class Fixed(Viewing):
        fixed_batch = 3

    torch.manual_seed(0)
    net = Fixed(3)
    subject = NetworkSubject.of_module(net, small_description, batch_size=64)
    seen = subject.observe(frames)
    net.rows, net.fixed_batch = -1, None
    free = NetworkSubject.of_module(net, small_description).observe(frames)
    np.testing.assert_allclose(seen.answers, free.answers, atol=1e-6)
    np.testing.assert_allclose(seen.values.numpy(), free.values.numpy(), atol=1e-5)


def test_another_layout_is_fed_as_described(small_net: nn.Module, small_description: Description, frames: np.ndarray) -> None:
    class Pixels(nn.Module):
        def __init__(self, net: nn.Module) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.net(x.permute(0, 3, 1, 2))

    described = replace(small_description, input=replace(small_description.input, layout=Layout.NHWC))
    subject = NetworkSubject.of_module(Pixels(small_net), described)
    np.testing.assert_allclose(subject.predict(frames), NetworkSubject.of_module(small_net, small_description).predict(frames), atol=1e-6)


def test_every_element_of_a_map_can_be_a_neuron(small_net: nn.Module, small_description: Description, frames: np.ndarray) -> None:
    filters = NetworkSubject.of_module(small_net, small_description)
    elements = NetworkSubject.of_module(small_net, small_description, unit=NeuronUnit.ELEMENT)
    first = elements.layers[0]
    assert first.neurons == 4 * 7 * 11
    maps = elements.observe(frames).values[:, first.start : first.stop].reshape(5, 4, -1)
    np.testing.assert_allclose(maps.mean(2).numpy(), filters.observe(frames).values[:, :4].numpy(), atol=1e-5)


@pytest.mark.parametrize("kind", [HistoryKind.DIFFERENCES, HistoryKind.OPTICAL_FLOW])
def test_a_history_that_compares_frames_needs_two(kind: HistoryKind, small_net: nn.Module, small_description: Description) -> None:
    described = replace(small_description, input=replace(small_description.input, history=History(1, kind)))
    with pytest.raises(BadSubjectError, match=f"history of kind '{kind.value}' compares frames"):
        NetworkSubject.of_module(small_net, described)


def test_a_history_that_the_network_does_not_take_is_one_sentence(small_net: nn.Module, small_description: Description) -> None:
    described = replace(small_description, input=replace(small_description.input, history=History(3, HistoryKind.RECURRENT)))
    with pytest.raises(BadSubjectError, match=r"cannot take an input of shape \(2, 3, 3, 16, 24\).*correct .* history or cameras"):
        NetworkSubject.of_module(small_net, described)


def test_a_gpu_out_of_memory_halves_the_batch(
    small_net: nn.Module, small_description: Description, frames: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = NetworkSubject.of_module(small_net, small_description, batch_size=8)
    expected = subject.predict(frames)
    forward = small_net.forward

    def cramped(x: torch.Tensor) -> torch.Tensor:
        if len(x) > 2:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return forward(x)

    monkeypatch.setattr(small_net, "forward", cramped)
    monkeypatch.setattr(network_subject.torch.cuda, "empty_cache", lambda: None)
    np.testing.assert_allclose(subject.predict(frames), expected, atol=1e-6)
    assert subject.batch_size == 2
    monkeypatch.setattr(small_net, "forward", lambda x: cramped(x.repeat(3, 1, 1, 1)))
    with pytest.raises(BadSubjectError, match="does not fit into the memory"):
        subject.predict(frames)


def test_a_device_that_is_not_there_says_so(small_net: nn.Module, small_description: Description) -> None:
    with pytest.raises(BadSubjectError, match="no device named 'gpu'"):
        NetworkSubject.of_module(small_net, small_description, device="gpu")
    if not torch.cuda.is_available():
        with pytest.raises(BadSubjectError, match="finds no CUDA GPU; use cpu"):
            NetworkSubject.of_module(small_net, small_description, device="cuda")


def test_the_hash_of_a_module_follows_its_weights(small_net: nn.Module, small_description: Description) -> None:
    before, subject = state_hash(small_net), NetworkSubject.of_module(small_net, small_description)
    assert state_hash(small_net.to(memory_format=torch.channels_last)) == before
    small_net.norm.running_mean[0] += 1.0
    assert state_hash(small_net) != before
    assert NetworkSubject.of_module(small_net, small_description).sha256 != subject.sha256


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_gpu_answers_as_the_cpu(small_net: nn.Module, small_description: Description, frames: np.ndarray) -> None:
    expected = NetworkSubject.of_module(small_net, small_description).observe(frames)
    there = NetworkSubject.of_module(small_net, small_description, device="cuda")
    seen = there.observe(torch.from_numpy(frames).cuda())
    assert seen.values.device.type == "cuda"
    np.testing.assert_allclose(seen.answers, expected.answers, atol=0.02)
    np.testing.assert_allclose(seen.values.cpu().numpy(), expected.values.numpy(), atol=0.05)
    assert np.array_equal(there.predict(frames), there.predict(torch.from_numpy(frames).cuda()))


def test_a_fixed_batch_whose_images_change_each_other_is_refused(small_description: Description) -> None:
    class Company(nn.Module):
        """As batch norm in training mode: every answer leans on the whole batch."""

        fixed_batch = 4

        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 1, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.conv(x - x.mean(0)).mean((1, 2, 3))[:, None] * 50.0

    torch.manual_seed(0)
    with pytest.raises(BadSubjectError, match="saved in training mode"):
        NetworkSubject.of_module(Company(), small_description)
