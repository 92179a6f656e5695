from dataclasses import replace

import numpy as np
import pytest
import torch

from skidpad.core.errors import BadSubjectError, UnknownNameError
from skidpad.subjects.inputs import History, HistoryKind, InputSpec, Layout
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.subjects.zoo import ARCHITECTURES
from skidpad.subjects.zoo.architecture import SameConv2d

DAVE = [24, 36, 48, 64, 64, 1164, 100, 50, 10, 1]
LAYERS = {
    "pilotnet": [24, 36, 48, 64, 64, 100, 50, 10, 1],
    "dave-orig": DAVE,
    "dave-norminit": DAVE,
    "dave-dropout": [16, 32, 64, 500, 100, 20, 1],
    "epoch": [32, 64, 128, 1024, 1],
    "chauffeur-cnn": [16, 20, 40, 60, 80, 128, 1],
    "chauffeur": [16, 20, 40, 60, 80, 128, *[256] * 100, 256, 1],
    "rambo": [24, 36, 48, 64, 64, 64, 100, 50, 10, 1, 24, 36, 48, 64, 64, 100, 50, 10, 1, 16, 32, 64, 512, 1, 1],
    "autumn": DAVE,
    "dronet": [32, 32, 32, 32, 64, 64, 64, 128, 128, 128, 1, 1],
}


@pytest.mark.parametrize("name", ARCHITECTURES.names())
def test_every_network_has_the_layers_of_its_source(name: str, frames: np.ndarray) -> None:
    row = ARCHITECTURES.get(name)
    torch.manual_seed(0)
    subject = NetworkSubject.of_module(row.build(), row.describe(name, "net.safetensors"))
    assert [layer.neurons for layer in subject.layers] == LAYERS[name]
    assert len({layer.name for layer in subject.layers}) == len(subject.layers)
    clip = np.concatenate([frames[:1].repeat(subject.lead, 0), frames[:2]])
    answers = subject.predict(clip)
    assert answers.shape == (2, len(row.outputs))
    assert np.isfinite(answers).all()
    assert row.name == name
    assert name in str(row.describe("x", "y").architecture)
    table = f"{sum(LAYERS[name]):,} neurons"
    assert table in str(row.builder.__doc__) or name.startswith("dave")


def test_weights_are_as_many_as_published() -> None:
    counts = {name: sum(tensor.numel() for tensor in ARCHITECTURES.get(name).build().parameters()) for name in ("pilotnet", "dave-orig")}
    # Bojarski et al. round to "about 250 thousand parameters"; 252,219 is their figure 4 multiplied out.
    assert counts == {"pilotnet": 252_219, "dave-orig": 2_116_983}


def test_deeptests_count_of_epoch_is_ours_with_dropout_and_input() -> None:
    net = ARCHITECTURES.get("epoch").build()
    ours = sum(LAYERS["epoch"])
    dropped = 32 + 64 + 128 + 1024
    assert sum(isinstance(module, torch.nn.Dropout) for module in net.modules()) == 4
    assert ours + dropped + 3 == 2500


def test_deeptests_counts_of_rambo_are_ours_with_the_activations() -> None:
    net = ARCHITECTURES.get("rambo").build()
    for stream, deeptest in zip(net.streams, (1625, 3801, 13473), strict=True):
        sizes: list[int] = []
        picture = torch.zeros(1, 2, 192, 256)
        for layer in stream:
            before, picture = picture, layer(picture)
            if not isinstance(layer, torch.nn.Flatten):
                # Keras' last axis: the filters of a map, the numbers of a flat one; the last map is flattened before its activation.
                last = isinstance(layer, torch.nn.ReLU) and before.ndim == 4 and picture.numel() == _last_map(stream).numel()
                sizes.append(picture.numel() if last else picture.shape[1])
        assert sum(sizes) == deeptest


def _last_map(stream: torch.nn.Sequential) -> torch.Tensor:
    flat = next(place for place, layer in enumerate(stream) if isinstance(layer, torch.nn.Flatten))
    return stream[:flat](torch.zeros(1, 2, 192, 256))


def test_deeptests_count_of_chauffeurs_lstm_is_ours_without_unrolling() -> None:
    assert sum(LAYERS["chauffeur"][-2:]) + LAYERS["chauffeur"][6] == 513


def test_chauffeurs_lstm_is_torchs_lstm() -> None:
    torch.manual_seed(2)
    row = ARCHITECTURES.get("chauffeur")
    net = row.build(InputSpec(64, 32, history=History(7, HistoryKind.RECURRENT))).eval()
    reference = torch.nn.LSTM(net.cnn.count, 256, batch_first=True)
    reference.load_state_dict(
        {
            "weight_ih_l0": net.inward.weight,
            "weight_hh_l0": net.back.weight,
            "bias_ih_l0": net.inward.bias,
            "bias_hh_l0": torch.zeros(1024),
        }
    )
    windows = torch.rand(3, 7, 3, 32, 64)
    with torch.no_grad():
        seen = net.features(windows.flatten(0, 1)).reshape(3, 7, -1)
        torch.testing.assert_close(net(windows), net.head(reference(seen)[0].flatten(1)), atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(net.alone(seen[:, -1]), net.cnn(windows[:, -1]))


@pytest.mark.parametrize(("size", "kernel", "stride"), [(7, 5, 2), (8, 5, 2), (192, 8, 4), (10, 2, 1), (9, 1, 2), (9, 3, 2)])
def test_same_padding_is_that_of_keras(size: int, kernel: int, stride: int) -> None:
    conv = SameConv2d(1, 1, kernel, stride, bias=False)
    torch.nn.init.ones_(conv.weight)
    row = torch.arange(1.0, size + 1)
    got = conv(row.expand(1, 1, size, size))[0, 0]
    count = -(-size // stride)
    missing = max((count - 1) * stride + kernel - size, 0)
    padded = np.pad(row.numpy(), (missing // 2, missing - missing // 2))
    expected = np.array([padded[place * stride : place * stride + kernel].sum() for place in range(count)])
    rows = np.pad(np.ones(size), (missing // 2, missing - missing // 2))
    high = np.array([rows[place * stride : place * stride + kernel].sum() for place in range(count)])
    np.testing.assert_allclose(got.detach().numpy(), high[:, None] * expected, rtol=1e-5)


def test_norminit_starts_from_normal_numbers() -> None:
    torch.manual_seed(0)
    net = ARCHITECTURES.get("dave-norminit").build()
    weights = [layer.weight.detach() for layer in net.modules() if isinstance(layer, torch.nn.Linear)][:-1]
    assert all(0.08 < float(weight.std()) < 0.1 for weight in weights)  # cut off at two deviations: 0.088
    assert all(float(weight.abs().max()) <= 0.2 for weight in weights)


def test_every_stream_of_rambo_can_learn_whatever_the_seed() -> None:
    row = ARCHITECTURES.get("rambo")
    spec = replace(row.input, width_px=64, height_px=48)
    for seed in range(5):
        torch.manual_seed(seed)
        net = row.build(spec).eval()
        assert all((stream(torch.rand(4, 2, 48, 64) * 0.02) > 0.0).all() for stream in net.streams)


def test_the_kind_of_history_belongs_to_the_network() -> None:
    with pytest.raises(BadSubjectError, match="'rambo' takes a history of kind 'differences'; got 'single'"):
        ARCHITECTURES.get("rambo").build(InputSpec(256, 192))


def test_the_means_of_imagenet_are_subtracted_from_bgr() -> None:
    spec = ARCHITECTURES.get("dave-orig").input
    assert [low + high for low, high in zip(spec.range.low, spec.range.high, strict=True)] == pytest.approx([47.122, 21.442, 7.64])


@pytest.mark.parametrize("name", ["dave-orig", "dave-norminit", "dave-dropout", "autumn"])
def test_angles_stay_within_half_a_turn(name: str) -> None:
    row = ARCHITECTURES.get(name)
    net = row.build().eval()
    with torch.no_grad():
        answers = net(torch.randn(3, *row.input.shape) * 1e4)
    assert (answers.abs() <= torch.pi).all()


def test_any_large_enough_input_can_be_built_for() -> None:
    row = ARCHITECTURES.get("pilotnet")
    assert row.build(InputSpec(320, 160)).eval()(torch.zeros(1, 3, 160, 320)).shape == (1, 1)
    with pytest.raises(BadSubjectError, match="20 x 30 px is too small for 'pilotnet'"):
        row.build(InputSpec(30, 20))
    with pytest.raises(BadSubjectError, match="layout 'nchw'"):
        row.build(InputSpec(200, 66, layout=Layout.NHWC))


def test_an_unknown_network_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'dave-orig'"):
        ARCHITECTURES.get("dave-org")
