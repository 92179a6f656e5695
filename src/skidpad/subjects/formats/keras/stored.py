"""The weights of a file, found layer by layer; the versions of Keras have kept them in two ways."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.formats.keras.hdf5 import Node
from skidpad.subjects.formats.keras.settings import KerasSettings, layer_settings

Array = NDArray[np.float32]


class LayerWeights(Protocol):
    """The weights of one layer, or of the layers of one model."""

    def nodes(self) -> list[Node]:
        """Returns where a layer's arrays are, in Keras's order."""

    def inner(self) -> LayerWeights:
        """Returns the weights of the layer that a wrapper wraps."""

    def of_layers(self, layers: Sequence[KerasSettings]) -> Mapping[str, LayerWeights]:
        """Returns the weights of the layers of a model, by the layer's name."""


class TreeWeights:
    """Keras 3: a folder for each layer, named after its class (`layers/conv2d_1/vars/0`), the parts of a layer within it."""

    def __init__(self, group: Node | None) -> None:
        self._group = group

    def nodes(self) -> list[Node]:
        """Returns a layer's own arrays, then those of its parts."""
        if self._group is None:
            return []
        found: list[Node] = []
        own = self._group.child("vars")
        if own is not None:
            numbered = sorted(int(name) for name in own.children() if name.isdecimal())
            found += [node for number in numbered if (node := own.child(str(number))) is not None]
        for part in ("layer", "cell", "forward_layer", "backward_layer"):
            if part in self._group.children():
                found += TreeWeights(self._group.child(part)).nodes()
        return found

    def inner(self) -> LayerWeights:
        """Returns the weights of the wrapped layer."""
        return TreeWeights(self._group.child("layer") if self._group else None)

    def of_layers(self, layers: Sequence[KerasSettings]) -> Mapping[str, LayerWeights]:
        """Finds the folders by class and number within the class."""
        group = self._group
        folder = next((found for name in ("layers", "_layer_checkpoint_dependencies") if group and (found := group.child(name))), None)
        counts: dict[str, int] = {}
        weights: dict[str, LayerWeights] = {}
        for layer in layers:
            if "." in layer.class_name and layer.class_name.startswith("ops."):
                continue
            stem = _snake(layer.class_name.rpartition(".")[2])
            number = counts.get(stem, 0)
            counts[stem] = number + 1
            weights[layer.name] = TreeWeights(folder.child(f"{stem}_{number}" if number else stem) if folder else None)
        return weights


def _snake(name: str) -> str:
    """`MaxPooling2D` is `max_pooling2d`, and `PReLU` `p_re_lu`."""
    return re.sub(r"(?<=.)(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])", "_", name).lower()


class NamedWeights:
    """The arrays of one layer of a Keras 1 or 2 file, with names as `conv2d_1/kernel:0` or `convolution2d_1_W`."""

    def __init__(self, named: Sequence[tuple[str, Node]]) -> None:
        self._named = tuple(named)

    def nodes(self) -> list[Node]:
        """Returns the arrays as the file lists them."""
        return [node for _, node in self._named]

    def inner(self) -> LayerWeights:
        """Returns the same arrays: a wrapper has none of its own."""
        return self

    def of_layers(self, layers: Sequence[KerasSettings]) -> Mapping[str, LayerWeights]:
        """Finds the arrays of a model within the model by the layers' names in theirs."""
        owners = {inner: layer.name for layer in layers for inner in _names(layer)}
        names = sorted(owners, key=len, reverse=True)
        found: dict[str, list[tuple[str, Node]]] = {layer.name: [] for layer in layers}
        for path, node in self._named:
            parts = path.split("/")
            name = next((name for name in names if name in parts[:-1]), None)
            name = name or next((name for name in names if _numbered(name, parts[:-1]) or parts[-1].startswith(f"{name}_")), None)
            if name is None:
                raise BadSubjectError(f"the weights {path!r} belong to no layer of the model within the model")
            found[owners[name]].append((path, node))
        return {name: NamedWeights(arrays) for name, arrays in found.items()}


def _names(layer: KerasSettings) -> Iterator[str]:
    """Tells the names of a layer and of the layers within it."""
    yield layer.name
    within = layer.find("layers")
    entries = within if isinstance(within, list) else [entry for key in ("layer", "backward_layer") if (entry := layer.find(key))]
    for entry in entries:
        yield from _names(layer_settings(entry, layer.name))


def _numbered(name: str, parts: Iterable[str]) -> bool:
    """TensorFlow made names unique by a number: `conv2d_1_1/kernel:0` belongs to `conv2d_1`."""
    return any(re.fullmatch(rf"{re.escape(name)}_\d+", part) for part in parts)


class NamedFile:
    """The weights of a Keras 1 or 2 file: a group for each layer, which lists its arrays."""

    def __init__(self, root: Node) -> None:
        self._groups: dict[str, NamedWeights] = {}
        for layer in _texts(root, "layer_names"):
            group = root.child(layer)
            if group is None:
                raise BadSubjectError(f"its weights list the layer {layer!r}, which is not there; copy the file again")
            named: list[tuple[str, Node]] = []
            for path in _texts(group, "weight_names"):
                node = group.child(path)
                if node is None:
                    raise BadSubjectError(f"its layer {layer!r} lists the weights {path!r}, which are not there; copy the file again")
                named.append((path, node))
            self._groups[layer] = NamedWeights(named)

    def nodes(self) -> list[Node]:
        """A model has no arrays of its own."""
        return []

    def inner(self) -> LayerWeights:
        """A file wraps nothing."""
        return self

    def of_layers(self, layers: Sequence[KerasSettings]) -> Mapping[str, LayerWeights]:
        """Finds the groups by name; where config and weights were named in different sessions, in order, as Keras does."""
        filled = {name: group for name, group in self._groups.items() if group.nodes()}
        if filled.keys() <= {layer.name for layer in layers}:
            return {layer.name: self._groups.get(layer.name, NamedWeights(())) for layer in layers}
        owners = [layer.name for layer in layers if _has_weights(layer)]
        if len(owners) != len(filled):
            odd = sorted(filled.keys() - {layer.name for layer in layers})
            raise BadSubjectError(
                f"its weights are for {len(filled)} layers, among them {odd[0]!r}, its config has {len(owners)} with weights; "
                "take the weights that were saved with the config"
            )
        return {layer.name: NamedWeights(()) for layer in layers} | dict(zip(owners, filled.values(), strict=True))


_WEIGHTED = re.compile(r"(\w*Conv\w*|Dense|\w*Normalization|PReLU|\w*LSTM|\w*GRU|SimpleRNN)$")


def _has_weights(layer: KerasSettings) -> bool:
    inner = layer.find("layer")
    if inner is not None:
        return _has_weights(layer_settings(inner, layer.name))
    within = layer.find("layers")
    if isinstance(within, list):
        return any(_has_weights(layer_settings(entry, layer.name)) for entry in within)
    return _WEIGHTED.match(layer.class_name) is not None


def _texts(node: Node, name: str) -> tuple[str, ...]:
    """Reads a list of texts, which Keras cuts into `name0`, `name1`, ... where it is long."""
    attributes = node.attributes()
    whole = attributes.get(name)
    if isinstance(whole, tuple):
        return whole
    parts: list[tuple[str, ...]] = []
    while isinstance(piece := attributes.get(f"{name}{len(parts)}"), tuple):
        parts.append(piece)
    if not parts:
        raise BadSubjectError(f"it has no list {name!r}, so it holds no weights of Keras")
    return tuple(text for piece in parts for text in piece)
