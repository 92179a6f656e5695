"""Plain torch networks written as Keras files of three generations, by hand: JSON, HDF5 and zip, without Keras."""

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from torch import nn

from skidpad.core.units import AngleUnit
from skidpad.subjects.description import Description, Format, Output
from skidpad.subjects.inputs import Colour, History, HistoryKind, InputSpec, Layout, Range

Config = dict[str, Any]


@dataclass(frozen=True)
class Toy:
    """One Keras layer: its class and config in the words of its generation, and its arrays with their names."""

    kind: str
    config: Config
    arrays: tuple[tuple[str, np.ndarray], ...] = ()


def described(shape: tuple[int, ...], outputs: int = 1, layout: Layout = Layout.NHWC, **further: Any) -> Description:
    """Describes a network that takes (height, width, channels), or windows of them."""
    *times, height, width, channels = shape if layout is Layout.NHWC else (*shape[:-3], shape[-2], shape[-1], shape[-3])
    colour = {1: Colour.GREY, 3: Colour.RGB}[channels]
    history = History(times[0], HistoryKind.RECURRENT) if times else History()
    spec = InputSpec(width, height, colour, Range((-1.0,), (1.0,)), layout=layout, history=history)
    named = (Output("steering", AngleUnit.RAD), *(Output(f"other_{number}") for number in range(1, outputs)))
    return Description("toy", "net.h5", Format.KERAS, spec, named, **further)


def sequential(layers: Sequence[Toy], shape: tuple[int, ...], version: str = "2.2.4") -> Config:
    """The config of a Sequential, as Keras 1 and 2 write it; layers are named layer_1, layer_2, ..."""
    entries = [{"class_name": toy.kind, "config": {"name": f"layer_{n}", **toy.config}} for n, toy in enumerate(layers, 1)]
    entries[0]["config"]["batch_input_shape"] = [None, *shape]
    return {"class_name": "Sequential", "config": entries, "keras_version": version, "backend": "tensorflow"}


def write_layers(group: h5py.Group, layers: Sequence[Toy], version: str) -> None:
    """Writes weights as Keras 1 and 2 do: a group for each layer with a list of its arrays."""
    group.attrs["layer_names"] = [f"layer_{n}".encode() for n in range(1, len(layers) + 1)]
    group.attrs["keras_version"] = version.encode()
    group.attrs["backend"] = b"tensorflow"
    for number, toy in enumerate(layers, 1):
        own = group.create_group(f"layer_{number}")
        paths = [f"layer_{number}_{name}" if version[0] == "1" else f"layer_{number}/{name}:0" for name, _ in toy.arrays]
        own.attrs["weight_names"] = [path.encode() for path in paths]
        for path, (_, array) in zip(paths, toy.arrays, strict=True):
            own.create_dataset(path, data=array)


def write_h5(file: Path, layers: Sequence[Toy], shape: tuple[int, ...], version: str = "2.2.4", config: Config | None = None) -> Path:
    """Writes config and weights into one file."""
    with h5py.File(file, "w") as target:
        target.attrs["keras_version"] = version.encode()
        target.attrs["backend"] = b"tensorflow"
        target.attrs["model_config"] = json.dumps(config or sequential(layers, shape, version)).encode()
        write_layers(target.create_group("model_weights"), layers, version)
    return file


def write_pair(folder: Path, layers: Sequence[Toy], shape: tuple[int, ...], version: str = "2.0.2") -> tuple[Path, Path]:
    """Writes config and weights into two files."""
    file, weights = folder / "net.json", folder / "net_weights.h5"
    file.write_text(json.dumps(sequential(layers, shape, version)))
    with h5py.File(weights, "w") as target:
        write_layers(target, layers, version)
    return file, weights


_SNAKE = {"Conv2D": "conv2d", "Dense": "dense", "Lambda": "lambda"}


def write_archive(file: Path, layers: Sequence[Toy], shape: tuple[int, ...], config: Config | None = None) -> Path:
    """Writes a .keras of Keras 3; only convolutions, dense and Lambda layers may have weights."""
    entries: list[Config] = [
        {"module": "keras.layers", "class_name": "InputLayer", "config": {"batch_shape": [None, *shape], "name": "in"}}
    ]
    entries += [
        {"module": "keras.layers", "class_name": toy.kind, "config": {"name": f"layer_{n}", **toy.config}, "registered_name": None}
        for n, toy in enumerate(layers, 1)
    ]
    whole = {"module": "keras", "class_name": "Sequential", "config": {"name": "net", "layers": entries}, "registered_name": None}
    buffer = BytesIO()
    counts: dict[str, int] = {}
    with h5py.File(buffer, "w") as target:
        for toy in layers:
            stem = _SNAKE.get(toy.kind, toy.kind.lower())
            number = counts.get(stem, 0)
            counts[stem] = number + 1
            own = target.create_group(f"layers/{stem}_{number}/vars" if number else f"layers/{stem}/vars")
            for place, (_, array) in enumerate(toy.arrays):
                own.create_dataset(str(place), data=array)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("metadata.json", json.dumps({"keras_version": "3.4.1"}))
        archive.writestr("config.json", json.dumps(config or whole))
        archive.writestr("model.weights.h5", buffer.getvalue())
    return file


def translated(net: nn.Sequential, shape: tuple[int, int, int], *, old: bool, last: bool) -> Iterator[Toy]:
    """Says a network of convolutions, pools and dense layers in Keras's words; shape: (channels, height, width).

    old: the words of Keras 1. last: channels last, so that the dense layer after Flatten sees another order.
    """
    value = torch.zeros(1, *shape)
    order = {"dim_ordering": "tf" if last else "th"} if old else {"data_format": "channels_last" if last else "channels_first"}
    maps: tuple[int, ...] = ()
    for layer in net.eval():
        before, value = value, layer(value)
        if isinstance(layer, nn.Conv2d):
            yield _convolution(layer, order, old=old, last=last)
        elif isinstance(layer, nn.Linear):
            yield _dense(layer, maps, old=old, last=last)
            maps = ()
        elif isinstance(layer, nn.MaxPool2d):
            size = [layer.kernel_size, layer.kernel_size]
            yield Toy("MaxPooling2D", {"pool_size": size, "strides": size, ("border_mode" if old else "padding"): "valid", **order})
        elif isinstance(layer, nn.Dropout):
            yield Toy("Dropout", {("p" if old else "rate"): layer.p})
        elif isinstance(layer, nn.Flatten):
            maps = tuple(before.shape[1:])
            yield Toy("Flatten", {})
        elif isinstance(layer, nn.ReLU):
            yield Toy("Activation", {"activation": "relu"})
        else:
            yield Toy("Lambda", {"function": ["4wEAAAA=", None, None], "function_type": "lambda"})


def _convolution(layer: nn.Conv2d, order: Mapping[str, str], *, old: bool, last: bool) -> Toy:
    kernel, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    padding = "same" if layer.padding != (0, 0) else "valid"
    if not old:
        config = {"filters": len(bias), "kernel_size": list(layer.kernel_size), "strides": list(layer.stride), "padding": padding}
        return Toy("Conv2D", {**config, **order}, (("kernel", kernel.transpose(2, 3, 1, 0)), ("bias", bias)))
    rows, columns = layer.kernel_size
    config = {
        "nb_filter": len(bias),
        "nb_row": rows,
        "nb_col": columns,
        "subsample": list(layer.stride),
        "border_mode": padding,
        "bias": True,
    }
    return Toy("Convolution2D", {**config, **order}, (("W", kernel.transpose(2, 3, 1, 0) if last else kernel), ("b", bias)))


def _dense(layer: nn.Linear, maps: tuple[int, ...], *, old: bool, last: bool) -> Toy:
    weight = layer.weight.detach().numpy()
    if maps and last:
        weight = weight.reshape(-1, *maps).transpose(0, 2, 3, 1).reshape(len(weight), -1)
    arrays = ((("W" if old else "kernel"), weight.T), (("b" if old else "bias"), layer.bias.detach().numpy()))
    return Toy("Dense", {("output_dim" if old else "units"): layer.out_features, "activation": "linear"}, arrays)


@dataclass(frozen=True)
class Written:
    """A network as files: what its description has to say."""

    file: str
    layout: Layout
    weights: str | None = None


def _keras1(net: nn.Sequential, shape: tuple[int, int, int], folder: Path) -> Written:
    write_h5(folder / "net.h5", list(translated(net, shape, old=True, last=False)), shape, "1.2.2")
    return Written("net.h5", Layout.NCHW)


def _keras1_tensorflow(net: nn.Sequential, shape: tuple[int, int, int], folder: Path) -> Written:
    write_h5(folder / "net.h5", list(translated(net, shape, old=True, last=True)), (*shape[1:], shape[0]), "1.2.2")
    return Written("net.h5", Layout.NHWC)


def _keras2(net: nn.Sequential, shape: tuple[int, int, int], folder: Path) -> Written:
    _, weights = write_pair(folder, list(translated(net, shape, old=False, last=True)), (*shape[1:], shape[0]))
    return Written("net.json", Layout.NHWC, weights.name)


def _keras3(net: nn.Sequential, shape: tuple[int, int, int], folder: Path) -> Written:
    write_archive(folder / "net.keras", list(translated(net, shape, old=False, last=True)), (*shape[1:], shape[0]))
    return Written("net.keras", Layout.NHWC)


GENERATIONS: Mapping[str, Callable[[nn.Sequential, tuple[int, int, int], Path], Written]] = {
    "keras1": _keras1,
    "keras1-tensorflow": _keras1_tensorflow,
    "keras2": _keras2,
    "keras3": _keras3,
}
