"""From a config to a graph of calls: Sequential and functional models of Keras 1, 2 and 3, models within models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.keras.settings import Settings, layer_settings

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

    settings: Settings
    calls: tuple[tuple[Ref, ...], ...]


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """The layers of a model in the order of the file, and which values are its inputs and answers."""

    layers: tuple[LayerSpec, ...]
    inputs: tuple[Ref, ...]
    answers: tuple[Ref, ...]

    @property
    def settings(self) -> tuple[Settings, ...]:
        """The settings of all layers."""
        return tuple(layer.settings for layer in self.layers)


def read_model(settings: Settings) -> ModelSpec:
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


def _chain(layers: Sequence[Settings]) -> ModelSpec:
    """Makes a graph of a Sequential; where its first layer is no input, one is put before it."""
    if layers[0].class_name != "InputLayer":
        config = {key: layers[0].config[key] for key in ("batch_input_shape",) if key in layers[0].config}
        layers = [Settings("input", "InputLayer", config), *layers]
    unique: dict[str, LayerSpec] = {}
    before: tuple[Ref, ...] = ()
    for layer in layers:
        if layer.name in unique:
            raise BadSubjectError(f"a Sequential has two layers named {layer.name!r}")
        unique[layer.name] = LayerSpec(layer, (before,) if before else ())
        before = (Ref(layer.name, 0, 0),)
    return ModelSpec(tuple(unique.values()), (Ref(layers[0].name, 0, 0),), before)


def _ends(settings: Settings, key: str) -> tuple[Ref, ...]:
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


def _calls(layer: Settings, entry: object) -> Iterator[tuple[Ref, ...]]:
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
