"""What a file holds of one layer: its settings, read with checks under the names of Keras 1, 2 and 3, and its weights.

The versions of Keras have kept weights in two ways.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Protocol

from skidpad.core.errors import BadSubjectError, UnknownNameError
from skidpad.subjects.formats.keras.hdf5 import Node

_MAX_WHOLE = 10**7


@dataclass(frozen=True, slots=True)
class KerasSettings:
    """A layer's own name, its class, and what its config says.

    Every reader takes the names that the versions of Keras gave a setting, newest first; without a default it must be there.
    """

    name: str
    class_name: str
    config: Mapping[str, object]

    def find(self, *keys: str) -> object:
        """Returns the first setting that is there and not null, or None."""
        return next((self.config[key] for key in keys if self.config.get(key) is not None), None)

    def whole(self, *keys: str, default: int | None = None) -> int:
        """Reads a whole number within +-10 million."""
        value = self.find(*keys)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _MAX_WHOLE:
            raise self.bad(keys[0], "a whole number", value)
        return value

    def positive(self, *keys: str, default: int | None = None) -> int:
        """Reads a whole number above 0."""
        value = self.whole(*keys, default=default)
        if value < 1:
            raise self.bad(keys[0], "a whole number above 0", value)
        return value

    def number(self, *keys: str, default: float) -> float:
        """Reads a finite number."""
        value = self.find(*keys)
        if isinstance(value, Mapping):  # tf.keras writes some numbers as {"class_name": "__numpy__", "config": {"value": 0.1}}
            inner = value.get("config")
            value = inner.get("value") if isinstance(inner, Mapping) else value.get("value")
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise self.bad(keys[0], "a finite number", value)
        return float(value)

    def flag(self, *keys: str, default: bool) -> bool:
        """Reads true or false."""
        value = self.find(*keys)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.bad(keys[0], "true or false", value)
        return value

    def choice(self, options: Sequence[str], *keys: str, default: str) -> str:
        """Reads one of a few words."""
        value = self.find(*keys)
        if value is None:
            return default
        if value not in options:
            raise BadSubjectError(f"layer {self.name!r}: {UnknownNameError.among(f'value for {keys[0]}', str(value), options)}")
        return str(value)

    def wholes(self, *keys: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """Reads a list of whole numbers; one number is a list of one."""
        value = self.find(*keys)
        if value is None and default is not None:
            return default
        items: list[object] = list(value) if isinstance(value, list | tuple) else [value]
        whole = [item for item in items if isinstance(item, int) and not isinstance(item, bool) and abs(item) <= _MAX_WHOLE]
        if len(whole) != len(items):
            raise self.bad(keys[0], "whole numbers", value)
        return tuple(whole)

    def sizes(self, dims: int, *keys: str, default: int | None = None) -> tuple[int, ...]:
        """Reads one whole number above 0 for each spatial axis; one number stands for all."""
        values = self.wholes(*keys, default=None if default is None else (default,) * dims)
        values = values * dims if len(values) == 1 else values
        if len(values) != dims or min(values) < 1:
            raise self.bad(keys[0], f"{dims} whole numbers above 0", values)
        return values

    def borders(self, dims: int, *keys: str) -> tuple[tuple[int, int], ...]:
        """Reads how much lies before and after each spatial axis: n, (a, b) or ((a, b), (c, d)), as Keras takes them."""
        value = self.find(*keys)
        if isinstance(value, Mapping):  # Keras 1.1: {"top_pad": 1, ...}
            value = [[value.get(f"{side}_pad", 0) for side in pair] for pair in (("top", "bottom"), ("left", "right"))]
        items = list(value) if isinstance(value, list | tuple) else [value] * dims
        if dims == 1 and len(items) == 2:
            items = [items]
        pairs = [tuple(item) if isinstance(item, list | tuple) else (item, item) for item in items]
        whole = all(len(pair) == 2 and all(type(part) is int and 0 <= part <= _MAX_WHOLE for part in pair) for pair in pairs)
        if len(pairs) != dims or not whole:
            raise self.bad(keys[0], f"how much for each side of {dims} axes", value)
        return tuple((before, after) for before, after in pairs)

    @property
    def channels_first(self) -> bool:
        """Whether the channels come before the spatial axes."""
        options = ("channels_last", "channels_first", "tf", "th", "default")
        return self.choice(options, "data_format", "dim_ordering", default="channels_last") in {"channels_first", "th"}

    def inner(self, key: str) -> KerasSettings:
        """Reads a layer within the layer."""
        return layer_settings(self.find(key), f"{self.name}/{key}")

    def bad(self, key: str, wanted: str, got: object) -> BadSubjectError:
        """Makes the error of a setting that is not what it must be."""
        return BadSubjectError(f"layer {self.name!r} ({self.class_name}) needs {key} to be {wanted}; got {str(got)[:60]!r}")


_OWN_MODULES = ("keras", "tf_keras", "tensorflow.keras", "tensorflow.python.keras")


def layer_settings(entry: object, default_name: str) -> KerasSettings:
    """Reads one layer of a config; classes of packages other than Keras are refused, whatever they are called."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("class_name"), str):
        raise BadSubjectError(f"the config has {str(entry)[:60]!r} where the layer {default_name!r} belongs")
    config = entry.get("config")
    if isinstance(config, list):  # Sequential of Keras 1 and early 2
        config = {"layers": config}
    if not isinstance(config, Mapping):
        raise BadSubjectError(f"the layer {default_name!r} has no config")
    name = entry.get("name") or config.get("name") or default_name
    settings = KerasSettings(str(name), entry["class_name"], config)
    module, registered = entry.get("module"), entry.get("registered_name")
    custom = isinstance(registered, str) and ">" in registered and not registered.startswith("Keras>")
    if custom or (isinstance(module, str) and not module.startswith(_OWN_MODULES)):
        return KerasSettings(settings.name, f"{module or ''}.{settings.class_name}".strip("."), config)
    if isinstance(module, str) and ".ops." in module:
        return KerasSettings(settings.name, f"ops.{settings.class_name}", config)
    return settings


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
