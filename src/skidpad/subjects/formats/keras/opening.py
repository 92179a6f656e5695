"""From a Keras file (a config as JSON, weights as HDF5, in one file or two) to a torch module, without any code from the file.

Not by Keras itself: its loader has run code from files in spite of its safe mode four times in 2025 alone (CVE-2025-1550,
CVE-2025-8747, CVE-2025-9905, CVE-2025-9906). What a file names is looked up in skidpad's own table of layers and nowhere else.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from mmap import ACCESS_READ, mmap
from pathlib import Path

from torch import nn

from skidpad.core.errors import BadSubjectError, UnknownNameError
from skidpad.subjects.description import Description
from skidpad.subjects.formats.keras.building import KEEPS_TIME, LAYERS, MODELS, Call, LayerSpec, ModelSpec, Origin, Ref, read_model
from skidpad.subjects.formats.keras.expression import Expression
from skidpad.subjects.formats.keras.hdf5 import Hdf5File, Node
from skidpad.subjects.formats.keras.layers.convolutions import maps_of
from skidpad.subjects.formats.keras.plan import KerasNetwork, Plan, Value
from skidpad.subjects.formats.keras.stored import KerasSettings, LayerWeights, NamedFile, TreeWeights, layer_settings
from skidpad.subjects.formats.recognition import BROKEN, check_archive, reason_of
from skidpad.subjects.inputs import check_shape, described_shape

_MAX_CONFIG_BYTES = 16 * 2**20
_MAX_WEIGHT_BYTES = 2**31
_ZIP = b"PK\x03\x04"
_HDF5 = b"\x89HDF"


@dataclass(frozen=True, slots=True)
class KerasContents:
    """A network as its file gives it."""

    model: KerasSettings
    weights: LayerWeights
    origin: Origin


def read_contents(file: Path, weights: Path | None) -> KerasContents:
    """Reads the config, and finds the weights; what kind of file it is, its first bytes tell."""
    with file.open("rb") as stream:
        head = stream.read(8)
    if head.startswith(_ZIP):
        return _from_archive(file)
    if head.startswith(_HDF5):
        return _from_hdf5(_mapped(file))
    if file.suffix.lower() in {".h5", ".hdf5", ".keras"}:
        raise BadSubjectError(f"it is no Keras file: it begins with {head!r}; save the network with model.save")
    if file.stat().st_size > _MAX_CONFIG_BYTES:
        raise BadSubjectError(f"its config is larger than {_MAX_CONFIG_BYTES} bytes")
    config = _json(file.read_bytes())
    if not isinstance(config, Mapping) or "class_name" not in config:
        raise BadSubjectError("it is JSON, but not the config of a Keras network, which model.to_json gives")
    if weights is None:
        raise BadSubjectError(
            "it is the config of a Keras network, which has the layers without their weights; put the file that model.save_weights "
            'wrote beside it, and name that in the description, as weights = "model_weights.h5"'
        )
    root = _mapped(weights).root
    root = root.child("model_weights") or root  # a whole network, of model.save, in place of its weights
    version, backend = _text(config, "keras_version"), _text(config, "backend")
    attributes = root.attributes()
    version, backend = version or str(attributes.get("keras_version") or ""), backend or str(attributes.get("backend") or "")
    return _contents(config, _stored(root), version, backend)


def _from_archive(file: Path) -> KerasContents:
    with zipfile.ZipFile(file) as archive:
        check_archive(archive)
        config = _json(_member(archive, "config.json", _MAX_CONFIG_BYTES))
        metadata = _json(_member(archive, "metadata.json", _MAX_CONFIG_BYTES)) if "metadata.json" in archive.namelist() else {}
        weights = _member(archive, "model.weights.h5", _MAX_WEIGHT_BYTES)
    return _contents(config, TreeWeights(Hdf5File(weights).root), _text(metadata, "keras_version") or "3", "")


def _member(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    try:
        info = archive.getinfo(name)
    except KeyError:
        raise BadSubjectError(f"its archive lacks {name!r}; save the network again with model.save") from None
    if info.file_size > limit:
        raise BadSubjectError(f"the part {name!r} of its archive grows to {info.file_size} bytes; at most {limit} are read")
    return archive.read(info)


def _from_hdf5(file: Hdf5File) -> KerasContents:
    attributes = file.root.attributes()
    stated = attributes.get("model_config")
    if not isinstance(stated, str):
        raise BadSubjectError(
            "it holds weights without a config; give the config as file and these as weights, or save the network with model.save"
        )
    config = _json(stated.encode())
    weights = file.root.child("model_weights")
    if weights is None:
        raise BadSubjectError("it lacks the group 'model_weights'; save the network again with model.save")
    inner = weights.attributes()
    version, backend = (str(attributes.get(key) or inner.get(key) or "") for key in ("keras_version", "backend"))
    return _contents(config, _stored(weights), version, backend)


def _stored(root: Node) -> LayerWeights:
    names = root.children()
    tree = "layers" in names or "_layer_checkpoint_dependencies" in names
    return TreeWeights(root) if tree and "layer_names" not in root.attributes() else NamedFile(root)


def _contents(config: object, weights: LayerWeights, version: str, backend: str) -> KerasContents:
    new = isinstance(config, Mapping) and "module" in config  # JSON of Keras 3 does not tell its version
    main = int(version[0]) if version[:1].isdecimal() else 3 if new else 1
    return KerasContents(layer_settings(config, "network"), weights, Origin(main, backend == "theano"))


def _mapped(file: Path) -> Hdf5File:
    if not file.is_file():
        raise BadSubjectError(f"there is no file {file}, where the description says the weights are")
    if file.stat().st_size < 96:
        raise BadSubjectError(f"{file.name} is no HDF5 file: it has {file.stat().st_size} bytes")
    with file.open("rb") as stream:
        return Hdf5File(mmap(stream.fileno(), 0, access=ACCESS_READ))


def _json(raw: bytes) -> object:
    try:
        found: object = json.loads(raw)
        if isinstance(found, str):  # json.dump(model.to_json()), as many driving networks of Keras 1 were saved
            found = json.loads(found)
    except ValueError as error:
        raise BadSubjectError(f"its config is no JSON ({error})") from error
    return found


def _text(config: object, key: str) -> str:
    found = config.get(key) if isinstance(config, Mapping) else None
    return found if isinstance(found, str) else ""


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

    def network(self, settings: KerasSettings, weights: LayerWeights, described: tuple[int, ...]) -> KerasNetwork:
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

    def _layer(self, settings: KerasSettings, inputs: tuple[Value, ...], weights: LayerWeights, path: str, depth: int) -> list[Value]:
        self.calls += 1
        if self.calls > _MAX_CALLS:
            raise BadSubjectError(f"the network calls its layers more than {_MAX_CALLS} times")
        kind = settings.class_name
        if kind == "TimeDistributed":
            return self._each_moment(settings, inputs, weights, path, depth)
        if kind not in KEEPS_TIME:
            inputs = tuple(self.plan.unfolded(value) for value in inputs)
        if settings.name in self.lambdas:
            return [self._expression(Call(settings, inputs, weights, self.plan, self.origin, path))]
        if kind in MODELS:
            return self._model(read_model(settings), inputs, weights, f"{path}/", depth + 1)
        if kind == "InputLayer":
            return list(inputs)
        try:
            builder = LAYERS.get(kind)
        except UnknownNameError as error:
            raise _unknown(settings) from error
        return [builder(Call(settings, inputs, weights, self.plan, self.origin, path))]

    def _each_moment(self, settings: KerasSettings, inputs: tuple[Value, ...], weights: LayerWeights, path: str, depth: int) -> list[Value]:
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

    def _expression(self, call: Call) -> Value:
        settings, inputs = call.settings, call.inputs
        self.used.add(settings.name)
        if settings.class_name in {*LAYERS.names(), *MODELS, "InputLayer"}:
            raise BadSubjectError(f"lambdas names the layer {settings.name!r}, which is a {settings.class_name} and is rebuilt as it is")
        if len(inputs) != 1:
            raise BadSubjectError(f"layer {settings.name!r} takes {len(inputs)} inputs; an expression in x can stand for one")
        expression = Expression(self.lambdas[settings.name], settings.name)
        if expression.size is None:
            return call.add(expression, call.value)
        maps = maps_of(call, 2)
        return call.add(expression, maps.value, shape=maps.shape(maps.channels, expression.size))


def _unknown(settings: KerasSettings) -> BadSubjectError:
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


def stated_shape(settings: KerasSettings, depth: int = 0) -> tuple[int | None, ...] | None:
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


def open_keras(file: Path, description: Description) -> nn.Module:
    """Rebuilds the network of a `.keras`, an `.h5`, or a JSON config with a file of weights.

    Inputs are (N, *shape) in the file's own order of axes, which must be what [input] describes; answers come in the order of
    the file's outputs, each (N, ...) in Keras's order.
    """
    with readable(file, description.weights):
        return _rebuilt(file, description)


@contextmanager
def readable(file: Path, weights: str | None) -> Iterator[None]:
    """Says of which file, or pair of files, what goes wrong while they are read."""
    where = f"{file} with the weights {weights}" if weights else str(file)
    try:
        yield
    except BadSubjectError as error:
        raise BadSubjectError(f"{where}: {error}") from error
    except BROKEN as error:
        raise BadSubjectError(f"{where} is no whole Keras file ({reason_of(error)}); copy or save it again") from error


def _rebuilt(file: Path, description: Description) -> nn.Module:
    weights = _folder(file, description) / description.weights if description.weights else None
    contents = read_contents(file, weights)
    if contents.model.class_name not in MODELS:
        raise BadSubjectError(
            f"its network is of class {contents.model.class_name!r}, whose code is not in the file; save a Sequential or functional model"
        )
    check_shape(Path("the network"), stated_shape(contents.model), description.input)
    rebuilder = Rebuilder(contents.origin, dict(description.lambdas))
    return rebuilder.network(contents.model, contents.weights, described_shape(description.input))


def _folder(file: Path, description: Description) -> Path:
    """The folder of the description, which its paths are relative to."""
    within = Path(description.file)
    parts = len(within.parts)
    if within.is_absolute() or file.parts[-parts:] != within.parts:
        return file.parent
    return file.parents[parts - 1]
