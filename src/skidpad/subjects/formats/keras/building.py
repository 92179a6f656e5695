"""From a config to a graph of calls: Sequential and functional models of Keras 1, 2 and 3, models within models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import torch
from torch import nn

from skidpad.core.errors import BadSubjectError
from skidpad.core.registry import Registry
from skidpad.subjects.formats.keras.plan import Plan, Value
from skidpad.subjects.formats.keras.stored import KerasSettings, LayerWeights, layer_settings

MODELS = frozenset(("Sequential", "Model", "Functional"))
_MAX_CALLS = 5_000
_HARMLESS = frozenset(("training", "mask"))


@dataclass(frozen=True, slots=True)
class Ref:
    """The answer of one call of a layer."""

    layer: str
    call: int
    answer: int


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """A layer and what each of its calls takes."""

    settings: KerasSettings
    calls: tuple[tuple[Ref, ...], ...]


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """The layers of a model in the order of the file, and which values are its inputs and answers."""

    layers: tuple[LayerSpec, ...]
    inputs: tuple[Ref, ...]
    answers: tuple[Ref, ...]

    @property
    def settings(self) -> tuple[KerasSettings, ...]:
        """The settings of all layers."""
        return tuple(layer.settings for layer in self.layers)


def read_model(settings: KerasSettings) -> ModelSpec:
    """Reads the config of a model."""
    entries = settings.find("layers")
    if not isinstance(entries, list) or not entries:
        raise BadSubjectError(f"the model {settings.name!r} has no layers in its config")
    if len(entries) > _MAX_CALLS:
        raise BadSubjectError(f"the model {settings.name!r} has {len(entries)} layers; at most {_MAX_CALLS} are rebuilt")
    layers = [layer_settings(entry, f"layer {number}") for number, entry in enumerate(entries, 1)]
    if settings.class_name == "Sequential":
        return _chain(layers)
    names = {layer.name for layer in layers}
    if len(names) != len(layers):
        raise BadSubjectError(f"the model {settings.name!r} has two layers of one name")
    specs = [LayerSpec(layer, tuple(_calls(layer, entry))) for layer, entry in zip(layers, entries, strict=True)]
    answers = _ends(settings, "output_layers")
    return _renumbered(ModelSpec(tuple(specs), _ends(settings, "input_layers"), answers))


def _chain(layers: Sequence[KerasSettings]) -> ModelSpec:
    """Makes a graph of a Sequential; where its first layer is no input, one is put before it."""
    if layers[0].class_name != "InputLayer":
        config = {key: layers[0].config[key] for key in ("batch_input_shape",) if key in layers[0].config}
        layers = [KerasSettings("input", "InputLayer", config), *layers]
    unique: dict[str, LayerSpec] = {}
    before: tuple[Ref, ...] = ()
    for layer in layers:
        if layer.name in unique:
            raise BadSubjectError(f"a Sequential has two layers named {layer.name!r}")
        unique[layer.name] = LayerSpec(layer, (before,) if before else ())
        before = (Ref(layer.name, 0, 0),)
    return ModelSpec(tuple(unique.values()), (Ref(layers[0].name, 0, 0),), before)


def _ends(settings: KerasSettings, key: str) -> tuple[Ref, ...]:
    found = settings.find(key)
    if isinstance(found, list) and found and isinstance(found[0], str):
        found = [found]
    if isinstance(found, Mapping):
        found = list(found.values())
    if not isinstance(found, list) or not found:
        raise BadSubjectError(f"the model {settings.name!r} does not tell its {key}")
    return tuple(_ref(item, settings.name) for item in found)


def _ref(item: object, where: str) -> Ref:
    if isinstance(item, list | tuple) and len(item) >= 3 and isinstance(item[0], str) and type(item[1]) is int and type(item[2]) is int:
        return Ref(item[0], item[1], item[2])
    raise BadSubjectError(f"the graph has {str(item)[:60]!r} where {where!r} names its input")


def _calls(layer: KerasSettings, entry: object) -> Iterator[tuple[Ref, ...]]:
    nodes = entry.get("inbound_nodes") if isinstance(entry, Mapping) else None
    if nodes is not None and not isinstance(nodes, list):
        raise BadSubjectError(f"the layer {layer.name!r} does not tell its inputs as a list")
    for node in nodes or []:
        if isinstance(node, Mapping):  # Keras 3
            refs = list(_tensors(node.get("args"), layer.name))
            more = node.get("kwargs") or {}
            if not isinstance(more, Mapping):
                raise BadSubjectError(f"the layer {layer.name!r} does not tell its options as a table")
            refs += [ref for key, value in more.items() if key not in _HARMLESS for ref in _tensors(value, layer.name)]
            yield tuple(refs)
        elif isinstance(node, list):
            single = bool(node) and isinstance(node[0], str)
            items = [node] if single else node
            for item in items:
                options = item[3] if isinstance(item, list) and len(item) > 3 else {}
                if isinstance(options, Mapping) and any(isinstance(value, list) for key, value in options.items() if key not in _HARMLESS):
                    raise BadSubjectError(f"the layer {layer.name!r} takes further tensors as options, which is not rebuilt")
            yield tuple(_ref(item, layer.name) for item in items)
        else:
            raise BadSubjectError(f"the layer {layer.name!r} does not tell its inputs as a list")


def _tensors(value: object, layer: str) -> Iterator[Ref]:
    """Finds the tensors among the arguments of a Keras 3 call."""
    if isinstance(value, Mapping):
        config = value.get("config")
        if value.get("class_name") == "__keras_tensor__" and isinstance(config, Mapping):
            yield _ref(config.get("keras_history"), layer)
    elif isinstance(value, list):
        for item in value:
            yield from _tensors(item, layer)


def _renumbered(model: ModelSpec) -> ModelSpec:
    """Counts the calls of every layer from 0: tf.keras counts those of a model within a model from 1."""
    highest: dict[str, int] = {}
    for ref in (*model.answers, *(ref for layer in model.layers for call in layer.calls for ref in call)):
        highest[ref.layer] = max(highest.get(ref.layer, 0), ref.call)
    late = {
        layer.settings.name
        for layer in model.layers
        if layer.settings.class_name in MODELS and highest.get(layer.settings.name, 0) == len(layer.calls)
    }
    if not late:
        return model

    def earlier(refs: tuple[Ref, ...]) -> tuple[Ref, ...]:
        return tuple(Ref(ref.layer, ref.call - 1, ref.answer) if ref.layer in late else ref for ref in refs)

    layers = tuple(LayerSpec(layer.settings, tuple(earlier(call) for call in layer.calls)) for layer in model.layers)
    return ModelSpec(layers, model.inputs, earlier(model.answers))


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a network comes from: Keras's main version, and whether Theano ran it, which turns kernels round.

    Files of Keras 1 do not say what ran them; TensorFlow is assumed, as Keras 2 does when it reads them.
    """

    version: int = 2
    theano: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """One call of one layer: its settings, its weights, what it takes, and the plan that it adds its steps to.

    path: the layer's name with those of the models that it is in; calls of one layer have the same.
    """

    settings: KerasSettings
    inputs: tuple[Value, ...]
    weights: LayerWeights
    plan: Plan
    origin: Origin
    path: str

    @property
    def name(self) -> str:
        """The layer's own name."""
        return self.settings.name

    @property
    def value(self) -> Value:
        """The one input."""
        if len(self.inputs) != 1:
            raise BadSubjectError(f"layer {self.name!r} ({self.settings.class_name}) takes one input; got {len(self.inputs)}")
        return self.inputs[0]

    def ranked(self, rank: int, *, moved: bool = False) -> Value:
        """The one input, which must have so many axes, in an order of axes."""
        if len(self.value.shape) != rank:
            raise BadSubjectError(f"layer {self.name!r} ({self.settings.class_name}) takes {rank} axes; got the shape {self.value.shape}")
        return self.plan.arranged(self.value, moved=moved)

    def add(self, module: nn.Module, *inputs: Value, shape: Sequence[int] | None = None) -> Value:
        """Adds a step on `inputs` whose value lies like the first of them, with another shape where given."""
        like = inputs[0] if shape is None else replace(inputs[0], shape=tuple(shape))
        return self.plan.add(self.path, module, inputs, like)

    def tensors(self, *shapes: tuple[int, ...]) -> list[torch.Tensor]:
        """Reads the layer's weights, which must have these shapes, as float32; shapes are checked before anything is read."""
        nodes, found = self.weights.nodes(), self.stored_shapes()
        if found != list(shapes) or len(found) != len(nodes):
            if not nodes:
                raise BadSubjectError(f"layer {self.name!r} has no weights in the file; save the weights of the whole network")
            raise BadSubjectError(f"layer {self.name!r} needs weights of shapes {list(shapes)}; the file has {found}")
        return [torch.from_numpy(np.array(node.array(), np.float32, order="C")) for node in nodes]

    def stored_shapes(self) -> list[tuple[int, ...]]:
        """Tells the shapes of the layer's weights without reading them."""
        return [stored.shape for node in self.weights.nodes() if (stored := node.stored()) is not None]


def parameter(tensor: torch.Tensor) -> nn.Parameter:
    """Makes a weight that nobody trains yet."""
    return nn.Parameter(tensor.contiguous(), requires_grad=False)


Builder: TypeAlias = Callable[[Call], Value]

LAYERS: Registry[Builder] = Registry(
    "Keras layer",
    "keras_layers",
    tuple(f"skidpad.subjects.formats.keras.layers.{module}" for module in ("activations", "convolutions", "dense", "recurrent")),
)


def layer(*names: str) -> Callable[[Builder], Builder]:
    """Decorates the builder of a layer under all the names that Keras has given it."""

    def add(builder: Builder) -> Builder:
        for name in names:
            LAYERS.register(name)(builder)
        return builder

    return add


KEEPS_TIME: set[str] = set()
"""Layers that do the same to every number, so that moments may stay side by side in the batch."""


def pointwise(*names: str) -> Callable[[Builder], Builder]:
    """Decorates the builder of a layer that treats every number alike, wherever it lies."""
    KEEPS_TIME.update(names)
    return layer(*names)
