"""From a graph of calls to a torch network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from skidpad.core.errors import BadSubjectError, UnknownNameError
from skidpad.subjects.formats.keras.building import KEEPS_TIME, LAYERS, MODELS, Call, LayerSpec, ModelSpec, Origin, Ref, read_model
from skidpad.subjects.formats.keras.expression import Expression
from skidpad.subjects.formats.keras.plan import KerasNetwork, Plan, Value
from skidpad.subjects.formats.keras.settings import Settings, layer_settings
from skidpad.subjects.formats.keras.stored import LayerWeights

_MAX_DEPTH = 12
_MAX_CALLS = 20_000


@dataclass
class Rebuilder:
    """Builds the layers of one file, one after another; `lambdas` are the expressions that stand for layers."""

    origin: Origin
    lambdas: Mapping[str, str]
    plan: Plan = field(default_factory=Plan)
    used: set[str] = field(default_factory=set)
    calls: int = 0

    def network(self, settings: Settings, weights: LayerWeights, described: tuple[int, ...]) -> KerasNetwork:
        """Builds the whole network; `described` is the shape of one input, where the file leaves it open."""
        model = read_model(settings)
        if len(model.inputs) != 1:
            names = ", ".join(ref.layer for ref in model.inputs)
            raise BadSubjectError(f"the network takes {len(model.inputs)} inputs ({names}); only networks with one are tested")
        source = self.plan.source(_input_shape(stated_shape(settings), described))
        answers = self._model(model, (source,), weights, "", 0)
        unused = sorted(self.lambdas.keys() - self.used)
        if unused:
            raise BadSubjectError(f"lambdas names the layer {unused[0]!r}, but the file has no such Lambda layer")
        return self.plan.network(source, answers)

    def _model(self, model: ModelSpec, inputs: Sequence[Value], weights: LayerWeights, path: str, depth: int) -> list[Value]:
        if depth > _MAX_DEPTH:
            raise BadSubjectError(f"models lie within models more than {_MAX_DEPTH} deep")
        if len(inputs) != len(model.inputs):
            raise BadSubjectError(f"the model {path!r} takes {len(model.inputs)} inputs; got {len(inputs)}")
        values = dict(zip(model.inputs, inputs, strict=True))
        layers = {layer.settings.name: layer for layer in model.layers}
        stored = weights.of_layers(model.settings)
        waiting = [(layer, number) for layer in model.layers for number in range(len(layer.calls))]
        while waiting:
            later = list[tuple[LayerSpec, int]]()
            for layer, number in waiting:
                refs, name = layer.calls[number], layer.settings.name
                missing = next((ref.layer for ref in refs if ref.layer not in layers), None)
                if missing is not None or not refs:
                    raise BadSubjectError(f"the layer {name!r} takes the answer of {missing!r}, which is not in the graph")
                if any(ref not in values for ref in refs):
                    later.append((layer, number))
                    continue
                taken = tuple(values[ref] for ref in refs)
                answers = self._layer(layer.settings, taken, stored.get(name, weights), f"{path}{name}", depth)
                values.update({Ref(name, number, place): value for place, value in enumerate(answers)})
            if len(later) == len(waiting):
                names = ", ".join(sorted({layer.settings.name for layer, _ in later})[:3])
                raise BadSubjectError(f"the graph goes round in a circle, or takes answers that no layer gives, at {names}")
            waiting = later
        for ref in model.answers:
            if ref not in values:
                raise BadSubjectError(f"the graph ends at answer {ref.answer} of {ref.layer!r}, which no layer gives")
        return [values[ref] for ref in model.answers]

    def _layer(self, settings: Settings, inputs: tuple[Value, ...], weights: LayerWeights, path: str, depth: int) -> list[Value]:
        self.calls += 1
        if self.calls > _MAX_CALLS:
            raise BadSubjectError(f"the network calls its layers more than {_MAX_CALLS} times")
        kind = settings.class_name
        if kind == "TimeDistributed":
            return self._each_moment(settings, inputs, weights, path, depth)
        if kind not in KEEPS_TIME:
            inputs = tuple(self.plan.unfolded(value) for value in inputs)
        if settings.name in self.lambdas:
            return [self._expression(settings, inputs, path)]
        if kind in MODELS:
            return self._model(read_model(settings), inputs, weights, f"{path}/", depth + 1)
        if kind == "InputLayer":
            return list(inputs)
        try:
            builder = LAYERS.get(kind)
        except UnknownNameError as error:
            raise _unknown(settings) from error
        return [builder(Call(settings, inputs, weights, self.plan, self.origin, path))]

    def _each_moment(self, settings: Settings, inputs: tuple[Value, ...], weights: LayerWeights, path: str, depth: int) -> list[Value]:
        """Builds the wrapped layer as if every moment were an example of its own."""
        if depth > _MAX_DEPTH:
            raise BadSubjectError(f"layers lie within layers more than {_MAX_DEPTH} deep")
        folded = [self.plan.folded(value, settings.name) for value in inputs]
        times = {value.times for value in folded}
        if len(times) != 1:
            raise BadSubjectError(f"layer {settings.name!r} is applied to each moment, but its inputs differ in length")
        examples = tuple(replace(value, times=None) for value in folded)
        answers = self._layer(settings.inner("layer"), examples, weights.inner(), f"{path}/layer", depth + 1)
        return [replace(self.plan.unfolded(value), times=folded[0].times) for value in answers]

    def _expression(self, settings: Settings, inputs: tuple[Value, ...], path: str) -> Value:
        self.used.add(settings.name)
        if settings.class_name in {*LAYERS.names(), *MODELS, "InputLayer"}:
            raise BadSubjectError(f"lambdas names the layer {settings.name!r}, which is a {settings.class_name} and is rebuilt as it is")
        if len(inputs) != 1:
            raise BadSubjectError(f"layer {settings.name!r} takes {len(inputs)} inputs; an expression in x can stand for one")
        return self.plan.add(path, Expression(self.lambdas[settings.name], settings.name), inputs, inputs[0])


def _unknown(settings: Settings) -> BadSubjectError:
    name = settings.name if settings.name.isidentifier() else f'"{settings.name}"'
    declared = f'lambdas = {{ {name} = "x / 127.5 - 1" }}'
    if settings.class_name == "Lambda":
        return BadSubjectError(
            f"layer {settings.name!r} is a Lambda, Python code within a file, and that is never run; "
            f"say in the description what it does to x, as {declared}"
        )
    return BadSubjectError(
        f"layer {settings.name!r} is of class {settings.class_name!r}, which skidpad does not rebuild; export the network to ONNX, "
        f"or, where the layer treats every number alike, say in the description what it does to x, as {declared}"
    )


def _input_shape(stated: tuple[int | None, ...] | None, described: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of one input: what the file says, and what it leaves open from the description."""
    if stated is None or len(stated) == len(described):
        return tuple(size or other for size, other in zip(stated or described, described, strict=True))
    known = tuple(size for size in stated if size is not None)
    if len(known) != len(stated):
        raise BadSubjectError(f"the network takes an input of {len(stated)} axes, {stated}; [input] describes {described}")
    return known


def stated_shape(settings: Settings, depth: int = 0) -> tuple[int | None, ...] | None:
    """Returns the shape of one input that a model states, None for sizes that it leaves open; None where it states nothing."""
    found = settings.find("batch_shape", "batch_input_shape", "build_input_shape")
    if found is None:
        entries = settings.find("layers")
        if depth > _MAX_DEPTH or not isinstance(entries, list) or not entries:
            return None
        layers = [layer_settings(entry, "input") for entry in entries]
        if settings.class_name != "Sequential":
            start = read_model(settings).inputs[0].layer
            layers = [layer for layer in layers if layer.name == start]
        return stated_shape(layers[0], depth + 1) if layers else None
    sizes = found[1:] if isinstance(found, list) else None
    if not sizes or not all(size is None or (type(size) is int and size > 0) for size in sizes):
        raise BadSubjectError(f"the network states {str(found)[:60]} as the shape of its input")
    return tuple(sizes)
