"""Layers of Keras against plain NumPy, written out here from Keras's documentation."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import h5py
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keras_toys import Config, Toy, sequential, write_h5, write_layers

from skidpad.subjects.formats.keras.opening import Rebuilder, read_contents
from skidpad.subjects.formats.keras.plan import KerasNetwork

FILE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
RNG = np.random.default_rng(2)


def rebuilt(file: Path, lambdas: dict[str, str] | None = None) -> KerasNetwork:
    contents = read_contents(file, None)
    return Rebuilder(contents.origin, lambdas or {}).network(contents.model, contents.weights, ()).eval()


def run(folder: Path, layers: Sequence[Toy], values: np.ndarray, version: str = "2.2.4") -> np.ndarray:
    net = rebuilt(write_h5(folder / "net.h5", layers, values.shape[1:], version))
    with torch.inference_mode():
        answer = net(torch.from_numpy(values.astype(np.float32)))
    assert isinstance(answer, torch.Tensor)
    return answer.numpy()


def drawn(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def windows(length: int, size: int, stride: int, dilation: int, same: bool) -> tuple[int, list[list[int]]]:
    """For each output the positions that its window covers; positions outside are the padding."""
    reach = (size - 1) * dilation + 1
    count = -(-length // stride) if same else (length - reach) // stride + 1
    before = max((count - 1) * stride + reach - length, 0) // 2 if same else 0
    return count, [[place * stride - before + tap * dilation for tap in range(size)] for place in range(count)]


def slow_convolution(picture: np.ndarray, kernel: np.ndarray, strides: tuple[int, int], dilation: int, same: bool) -> np.ndarray:
    """(H, W, C) and (h, w, C, F) to (H', W', F), one product after another."""
    rows, columns = (
        windows(length, size, stride, dilation, same)[1] for length, size, stride in zip(picture.shape, kernel.shape, strides, strict=False)
    )
    out = np.zeros((len(rows), len(columns), kernel.shape[3]))
    for i, taps in enumerate(rows):
        for j, others in enumerate(columns):
            for a, y in enumerate(taps):
                for b, x in enumerate(others):
                    if 0 <= y < picture.shape[0] and 0 <= x < picture.shape[1]:
                        out[i, j] += picture[y, x] @ kernel[a, b]
    return out


@FILE
@given(
    size=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    strides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    dilation=st.sampled_from([1, 2]),
    same=st.booleans(),
    spelling=st.sampled_from(["2-last", "2-first", "1-tf", "1-th"]),
)
def test_convolutions(size: tuple[int, int], strides: tuple[int, int], dilation: int, same: bool, spelling: str, tmp_path: Path) -> None:
    dilation = 1 if max(strides) > 1 else dilation
    picture, kernel, bias = drawn(9, 8, 2), drawn(*size, 2, 3), drawn(3)
    expected = slow_convolution(picture, kernel, strides, dilation, same) + bias
    padding = "same" if same else "valid"
    first = spelling in {"2-first", "1-th"}
    if spelling[0] == "2":
        order = "channels_first" if first else "channels_last"
        config = {
            "filters": 3,
            "kernel_size": size,
            "strides": strides,
            "padding": padding,
            "dilation_rate": dilation,
            "data_format": order,
        }
        layer = Toy("Conv2D", config, (("kernel", kernel), ("bias", bias)))
    else:
        config = {"nb_filter": 3, "nb_row": size[0], "nb_col": size[1], "subsample": strides, "border_mode": padding}
        config |= {"dim_ordering": spelling[2:], "atrous_rate": dilation}
        kind = "Convolution2D" if dilation == 1 else "AtrousConvolution2D"
        layer = Toy(kind, config, (("W", kernel.transpose(3, 2, 0, 1) if first else kernel), ("b", bias)))
    values = picture.transpose(2, 0, 1) if first else picture
    found = run(tmp_path, [layer], values[None], spelling[0] + ".0.0")[0]
    np.testing.assert_allclose(found.transpose(1, 2, 0) if first else found, expected, atol=1e-4)


@FILE
@given(size=st.integers(1, 4), stride=st.integers(1, 4), same=st.booleans(), largest=st.booleans(), length=st.integers(4, 9))
def test_pools_ignore_their_padding(size: int, stride: int, same: bool, largest: bool, length: int, tmp_path: Path) -> None:
    values = drawn(length, 2) - 5.0  # all below zero: padding of zeros would win
    expected = []
    for taps in windows(length, size, stride, 1, same)[1]:
        inside = values[[place for place in taps if 0 <= place < length]]
        expected.append(inside.max(0) if largest else inside.mean(0))
    kind = "MaxPooling1D" if largest else "AveragePooling1D"
    layer = Toy(kind, {"pool_size": [size], "strides": [stride], "padding": "same" if same else "valid"})
    np.testing.assert_allclose(run(tmp_path, [layer], values[None])[0], expected, atol=1e-5)


@FILE
@given(size=st.integers(1, 5), stride=st.integers(1, 4), same=st.booleans())
def test_transposed_convolutions_spread_every_input(size: int, stride: int, same: bool, tmp_path: Path) -> None:
    values, kernel, bias = drawn(5, 2), drawn(size, 3, 2), drawn(3)
    whole = np.zeros((5 * stride + max(size - stride, 0), 3))
    for place in range(5):
        whole[place * stride : place * stride + size] += kernel @ values[place]
    cut = max(size - stride, 0) // 2
    expected = (whole[cut : cut + 5 * stride] if same else whole) + bias
    config = {"filters": 3, "kernel_size": [size], "strides": [stride], "padding": "same" if same else "valid"}
    layer = Toy("Conv1DTranspose", config, (("kernel", kernel), ("bias", bias)))
    np.testing.assert_allclose(run(tmp_path, [layer], values[None])[0], expected, atol=1e-4)


def test_convolutions_over_a_window_of_frames(tmp_path: Path) -> None:
    """As donkeycar's 3-D pilot has them: frames, rows and columns, the channels last."""
    clip, kernel, bias = drawn(4, 6, 8, 2), drawn(3, 3, 3, 2, 3), drawn(3)
    around = np.pad(clip, ((1, 1), (0, 1), (0, 1), (0, 0)))  # what "same" adds for strides of 1, 2 and 2
    convolved = np.zeros((4, 3, 4, 3))
    for frame, row, column in np.ndindex(4, 3, 4):
        seen = around[frame : frame + 3, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3]
        convolved[frame, row, column] = np.einsum("tyxc,tyxcf->f", seen, kernel) + bias
    order = {"padding": "same", "data_format": "channels_last"}
    layers = [
        Toy("Conv3D", {"filters": 3, "kernel_size": [3, 3, 3], "strides": [1, 2, 2], **order}, (("kernel", kernel), ("bias", bias))),
        Toy("MaxPooling3D", {"pool_size": [1, 2, 2], "strides": [1, 2, 2], "padding": "valid", "data_format": None}),
    ]
    expected = convolved[:, :2].reshape(4, 1, 2, 2, 2, 3).max(axis=(2, 4))
    np.testing.assert_allclose(run(tmp_path, layers, clip[None])[0], expected, atol=1e-4)


def test_causal_convolutions_do_not_see_the_future(tmp_path: Path) -> None:
    values, kernel = drawn(6, 2), drawn(3, 2, 4)
    expected = [sum(values[t - 2 * (2 - tap)] @ kernel[tap] for tap in range(3) if t - 2 * (2 - tap) >= 0) for t in range(6)]
    config = {"filters": 4, "kernel_size": [3], "padding": "causal", "dilation_rate": [2], "use_bias": False}
    np.testing.assert_allclose(run(tmp_path, [Toy("Conv1D", config, (("kernel", kernel),))], values[None])[0], expected, atol=1e-5)


def test_flatten_counts_in_keras_order(tmp_path: Path) -> None:
    values, weights = drawn(2, 4, 5, 3), drawn(60, 2)
    dense = Toy("Dense", {"units": 2, "use_bias": False}, (("kernel", weights),))
    identity = Toy("Conv2D", {"filters": 3, "kernel_size": 1, "use_bias": False}, (("kernel", np.eye(3)[None, None]),))
    found = run(tmp_path, [identity, Toy("Flatten", {}), dense], values)
    np.testing.assert_allclose(found, values.reshape(2, -1) @ weights, atol=1e-4)
    first = Toy("Flatten", {"data_format": "channels_first"})
    np.testing.assert_allclose(run(tmp_path, [first], values), values.transpose(0, 2, 3, 1).reshape(2, -1))


@pytest.mark.parametrize("axis", [-1, 1, 2, 3, [3]])
def test_batch_norm_along_every_axis(axis: Any, tmp_path: Path) -> None:
    values = drawn(2, 4, 5, 3)
    place = axis[0] if isinstance(axis, list) else axis
    size = values.shape[place]
    beta, mean, variance = drawn(size), drawn(size), np.abs(drawn(size)) + 0.5
    ones = [1] * 4
    ones[place] = size
    expected = (values - mean.reshape(ones)) / np.sqrt(variance.reshape(ones) + 1e-5) + beta.reshape(ones)
    arrays = (("beta", beta), ("moving_mean", mean), ("moving_variance", variance))
    layer = Toy("BatchNormalization", {"axis": axis, "epsilon": 1e-5, "scale": False}, arrays)
    np.testing.assert_allclose(run(tmp_path, [layer], values), expected, atol=1e-4)


@pytest.mark.parametrize("shared", [None, [1, 2], [1], [3], [1, 2, 3]])
def test_prelu_shares_its_slopes(shared: list[int] | None, tmp_path: Path) -> None:
    values = drawn(2, 4, 5, 3)
    slopes = drawn(*(1 if axis in (shared or []) else size for axis, size in enumerate((4, 5, 3), 1)))
    layer = Toy("PReLU", {"shared_axes": shared}, (("alpha", slopes),))
    np.testing.assert_allclose(run(tmp_path, [layer], values), np.where(values > 0, values, slopes * values), atol=1e-6)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def hard(x: np.ndarray) -> np.ndarray:
    return np.clip(0.2 * x + 0.5, 0, 1)


def slow_lstm(values: np.ndarray, kernel: np.ndarray, inner: np.ndarray, bias: np.ndarray, gate: Any) -> list[np.ndarray]:
    state = memory = np.zeros(inner.shape[0])
    states = []
    for moment in values:
        i, f, c, o = np.split(moment @ kernel + state @ inner + bias, 4)
        memory = gate(f) * memory + gate(i) * np.tanh(c)
        state = gate(o) * np.tanh(memory)
        states.append(state)
    return states


@pytest.mark.parametrize(("word", "gate"), [("hard_sigmoid", hard), ("sigmoid", sigmoid)])
@pytest.mark.parametrize("backwards", [False, True])
def test_lstm_of_every_generation(word: str, gate: Any, backwards: bool, tmp_path: Path) -> None:
    values, kernel, inner, bias = drawn(6, 3), drawn(3, 16), drawn(4, 16), drawn(16)
    expected = slow_lstm(values[::-1] if backwards else values, kernel, inner, bias, gate)
    config = {"recurrent_activation": word, "go_backwards": backwards, "return_sequences": True, "units": 4}
    new = Toy("LSTM", config, (("kernel", kernel), ("recurrent_kernel", inner), ("bias", bias)))
    np.testing.assert_allclose(run(tmp_path, [new], values[None])[0], expected, atol=1e-5)
    gates = [np.split(array, 4, -1) for array in (kernel, inner, bias)]
    arrays = tuple((f"{part}_{name}", gates[n][g]) for g, name in ((0, "i"), (2, "c"), (1, "f"), (3, "o")) for n, part in enumerate("WUb"))
    old = Toy("LSTM", {"inner_activation": word, "go_backwards": backwards, "output_dim": 4}, arrays)
    np.testing.assert_allclose(run(tmp_path, [old], values[None], "1.1.0")[0], expected[-1], atol=1e-5)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("word", "gate"), [("hard_sigmoid", hard), ("sigmoid", sigmoid)])
def test_gru_resets_before_or_after_the_product(after: bool, word: str, gate: Any, tmp_path: Path) -> None:
    values, kernel, inner = drawn(6, 3), drawn(3, 12), drawn(4, 12)
    bias = drawn(2, 12) if after else drawn(12)
    outer, within = bias if after else (bias, np.zeros(12))
    state = np.zeros(4)
    for moment in values:
        z, r, n = np.split(moment @ kernel + outer, 3)
        uz, ur, un = np.split(state @ inner + within, 3)
        z, r = gate(z + uz), gate(r + ur)
        n = np.tanh(n + (r * un if after else (r * state) @ inner[:, 8:]))
        state = z * state + (1 - z) * n
    config = {"units": 4, "reset_after": after, "recurrent_activation": word}
    layer = Toy("GRU", config, (("kernel", kernel), ("recurrent_kernel", inner), ("bias", bias)))
    np.testing.assert_allclose(run(tmp_path, [layer], values[None])[0], state, atol=1e-5)


def test_both_directions_are_put_back_in_order(tmp_path: Path) -> None:
    values = drawn(5, 3)
    sides = [(drawn(3, 8), drawn(2, 8), drawn(8)) for _ in range(2)]
    inner = {"class_name": "LSTM", "config": {"name": "l", "units": 2, "recurrent_activation": "sigmoid", "return_sequences": True}}
    arrays = tuple((f"{side}_{name}", array) for side, part in enumerate(sides) for name, array in zip("abc", part, strict=True))
    found = run(tmp_path, [Toy("Bidirectional", {"layer": inner, "merge_mode": "concat"}, arrays)], values[None])[0]
    forwards, backwards = slow_lstm(values, *sides[0], sigmoid), slow_lstm(values[::-1], *sides[1], sigmoid)[::-1]
    np.testing.assert_allclose(found, np.concatenate([forwards, backwards], 1), atol=1e-5)


def functional(layers: list[Config], outputs: list[str]) -> Config:
    """A functional model of Keras 1: a reference has three parts."""
    ends = {"input_layers": [["in", 0, 0]], "output_layers": [[name, 0, 0] for name in outputs]}
    first = {"class_name": "InputLayer", "name": "in", "config": {"batch_input_shape": [None, 4, 5, 3], "name": "in"}, "inbound_nodes": []}
    return {"class_name": "Model", "keras_version": "1.2.2", "config": {"name": "net", "layers": [first, *layers], **ends}}


def node(name: str, kind: str, inputs: Sequence[str], **config: Any) -> Config:
    return {"class_name": kind, "name": name, "config": {"name": name, **config}, "inbound_nodes": [[[one, 0, 0] for one in inputs]]}


def test_graphs_of_keras_1_merge_and_answer_in_order(tmp_path: Path) -> None:
    values = drawn(2, 4, 5, 3)
    layers = [
        node("late", "Merge", ["twice", "in"], mode="concat", concat_axis=-1),  # before what it takes: order is not told
        node("bent", "Activation", ["in"], activation="tanh"),
        node("twice", "Merge", ["bent", "in"], mode="sum"),
        node("mean", "Merge", ["bent", "in"], mode="ave"),
        node("flat", "Flatten", ["mean"]),
        node("dead", "Activation", ["in"], activation="relu"),
    ]
    net = rebuilt(write_h5(tmp_path / "net.h5", [], (), "1.2.2", functional(layers, ["flat", "late"])))
    flat, late = net(torch.from_numpy(values))
    np.testing.assert_allclose(flat, ((np.tanh(values) + values) / 2).reshape(2, -1), atol=1e-6)
    np.testing.assert_allclose(late, np.concatenate([np.tanh(values) + values, values], -1), atol=1e-6)
    assert "dead" not in net.layers


def test_a_layer_called_twice_has_its_weights_once(tmp_path: Path) -> None:
    kernel = drawn(3, 3)
    layers = [node("dense", "Dense", ["in"], units=3, use_bias=False), node("sum", "Merge", ["dense", "dense"], mode="sum")]
    layers[0]["inbound_nodes"].append([["dense", 0, 0]])
    layers[1]["inbound_nodes"] = [[["dense", 0, 0], ["dense", 1, 0]]]
    config = functional(layers, ["sum"])
    with h5py.File(tmp_path / "net.h5", "w") as target:
        target.attrs["model_config"] = json.dumps(config)
        group = target.create_group("model_weights")
        write_layers(group, [], "1.2.2")
        group.attrs["layer_names"] = [b"dense"]
        own = group.create_group("dense")
        own.attrs["weight_names"] = [b"dense_W"]
        own["dense_W"] = kernel
    net = rebuilt(tmp_path / "net.h5")
    values = drawn(2, 4, 5, 3)
    np.testing.assert_allclose(net(torch.from_numpy(values)), values @ kernel + values @ kernel @ kernel, atol=1e-4)
    assert sum(tensor.numel() for tensor in net.parameters()) == 9


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("elu", lambda x: np.where(x > 0, x, np.expm1(x))),
        ("softsign", lambda x: x / (1 + np.abs(x))),
        ("softmax", lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
        ("hard_sigmoid", hard),
        ("swish", lambda x: x * sigmoid(x)),
        ("exponential", np.exp),
        ("linear", lambda x: x),
    ],
)
def test_activations_by_name(word: str, expected: Any, tmp_path: Path) -> None:
    values = drawn(2, 4, 5, 3)
    identity = Toy("Conv2D", {"filters": 3, "kernel_size": 1, "use_bias": False, "activation": word}, (("kernel", np.eye(3)[None, None]),))
    np.testing.assert_allclose(run(tmp_path, [identity], values), expected(values), atol=1e-5)
    np.testing.assert_allclose(run(tmp_path, [Toy("Activation", {"activation": word})], values), expected(values), atol=1e-5)


def test_maps_keep_their_order_from_layer_to_layer(tmp_path: Path) -> None:
    """No step but layers between convolutions: permuting maps would cost as much as convolving them."""
    conv = Toy("Conv2D", {"filters": 3, "kernel_size": 3, "padding": "same"}, (("kernel", drawn(3, 3, 3, 3)), ("bias", drawn(3))))
    norm = Toy("BatchNormalization", {}, tuple((str(n), np.ones(3)) for n in range(4)))
    layers = [conv, norm, Toy("Activation", {"activation": "relu"}), conv, Toy("Dropout", {"rate": 0.1}), Toy("MaxPooling2D", {}), conv]
    net = rebuilt(write_h5(tmp_path / "net.h5", layers, (8, 8, 3)))
    assert list(net.layers) == ["arranged", *(f"layer_{number}" for number in range(1, 8)), "arranged_"]
    assert sequential(layers, (8, 8, 3))["class_name"] == "Sequential"


def tf1_resized(pictures: np.ndarray, height: int, width: int) -> np.ndarray:
    """tf.image.resize_images of TensorFlow 1: the source of a pixel is its number times the ratio of the sizes."""
    rows, columns = np.arange(height) * pictures.shape[1] / height, np.arange(width) * pictures.shape[2] / width
    top, left = rows.astype(int), columns.astype(int)
    bottom, right = np.minimum(top + 1, pictures.shape[1] - 1), np.minimum(left + 1, pictures.shape[2] - 1)
    down, across = (rows - top)[None, :, None, None], (columns - left)[None, None, :, None]
    upper = pictures[:, top][:, :, left] * (1 - across) + pictures[:, top][:, :, right] * across
    lower = pictures[:, bottom][:, :, left] * (1 - across) + pictures[:, bottom][:, :, right] * across
    return upper * (1 - down) + lower * down


@pytest.mark.parametrize("name", ["resize", "resize_tf1"])
def test_a_lambda_may_be_said_to_resize(name: str, tmp_path: Path) -> None:
    weights = np.random.default_rng(4).normal(size=(5 * 4 * 3, 1)).astype("f4")
    layers = [Toy("Lambda", {}), Toy("Flatten", {}), Toy("Dense", {"units": 1}, (("kernel", weights), ("bias", np.zeros(1, "f4"))))]
    file = write_h5(tmp_path / "net.h5", layers, (12, 9, 3))
    pictures = np.random.default_rng(3).random((2, 12, 9, 3)).astype("f4")
    found = rebuilt(file, {"layer_1": f"{name}(x, 5, 4) * 2 - 1"})(torch.from_numpy(pictures)).numpy()
    if name == "resize":
        small = np.stack([cv2.resize(picture, (4, 5), interpolation=cv2.INTER_LINEAR) for picture in pictures])  # half-pixel centres
    else:
        small = tf1_resized(pictures, 5, 4)
    np.testing.assert_allclose(found, (small * 2 - 1).reshape(2, -1) @ weights, atol=1e-4)


def test_a_lambda_may_be_said_to_standardise(tmp_path: Path) -> None:
    layers = [
        Toy("Lambda", {}),
        Toy("Flatten", {}),
        Toy("Dense", {"units": 1}, (("kernel", np.eye(24, 1, dtype="f4")), ("bias", np.zeros(1, "f4")))),
    ]
    file = write_h5(tmp_path / "net.h5", layers, (4, 2, 3))
    pictures = np.random.default_rng(3).random((2, 4, 2, 3)).astype("f4")
    expected = [(picture[0, 0, 0] - picture.mean()) / picture.std() for picture in pictures]
    found = rebuilt(file, {"layer_1": "standardise(x)"})(torch.from_numpy(pictures)).numpy()
    np.testing.assert_allclose(found[:, 0], expected, atol=1e-5)
