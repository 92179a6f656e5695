"""Programs of torch.export, read without torch's own loader.

`torch.export.load` is not safe for a file from elsewhere: it unpickles example inputs, constants and some weights without
limits, evaluates the text of symbolic sizes, and resolves any dotted name under `torch` as an operation (read in torch
2.13). Here the archive's JSON graph is run by a small interpreter: tensors come from raw bytes or from
`torch.load(weights_only=True)`, operations are those that `exported_operations` lists, example inputs and symbolic texts are
never opened (`test_example_inputs_are_never_unpickled`, `test_symbolic_texts_are_never_evaluated`).
"""

import json
import math
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.formats.exported_operations import resolve
from skidpad.subjects.formats.recognition import BROKEN, check_archive, read_weights, reason_of

_SCALARS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64)
_SCALAR_TYPES = {**dict(enumerate(_SCALARS, 1)), 12: torch.bool, 13: torch.bfloat16}
_MEMORY_FORMATS = {1: torch.contiguous_format, 2: torch.channels_last, 3: torch.channels_last_3d, 4: torch.preserve_format}
_MOST_REPEATED = 2**24
"""How many numbers a weight may have whose buffer has fewer, since strides of 0 repeat them."""
_MOST_NUMBERS, _MOST_GROWTH = 2**28, 128
"""How many numbers a graph may hold at once besides its weights: so many, or so many for each number of its input."""
_PLAIN = frozenset(("as_int", "as_ints", "as_float", "as_floats", "as_bool", "as_bools", "as_string", "as_strings", "as_int_lists"))


@dataclass(frozen=True, slots=True)
class _Ref:
    """An argument that is the result of an earlier operation, a weight or the input; without a name, the input's device."""

    name: str | None


@dataclass(frozen=True, slots=True)
class _Step:
    """One operation: what to call, with which arguments, the names of its results, and what dies after it."""

    call: Callable[..., Any]
    positional: tuple[Any, ...]
    keywords: tuple[tuple[str, Any], ...]
    results: tuple[tuple[str, ...] | str, ...]
    last_uses: tuple[str, ...]


class ExportedNetwork(nn.Module):
    """Runs an exported graph; `fixed_batch` is the only batch size it takes, None where it takes any.

    input_shape: of the example that it was exported with, None for sizes that may be any.
    """

    input_shape: tuple[int | None, ...] = ()

    def __init__(
        self, steps: Sequence[_Step], weights: Mapping[str, torch.Tensor], user_input: str, answers: Sequence[str], fixed_batch: int | None
    ) -> None:
        super().__init__()
        self.fixed_batch = fixed_batch
        self._steps = tuple(steps)
        self._user_input = user_input
        self._answers = tuple(answers)
        self._weight_names = tuple(weights)
        self._measured: set[torch.Size] = set()
        for number, tensor in enumerate(weights.values()):
            if tensor.is_floating_point():
                self.register_parameter(f"weight_{number}", nn.Parameter(tensor, requires_grad=False))
            else:
                self.register_buffer(f"weight_{number}", tensor)

    def forward(self, inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Returns the graph's outputs in order."""
        weights = {name: getattr(self, f"weight_{number}") for number, name in enumerate(self._weight_names)}
        if inputs.shape not in self._measured:
            # unheard by a probe, to which these are no activations
            with _disable_current_modes(), suppress(NotImplementedError):  # sizes that hang on numbers are looked at when they are there
                self._run({name: weight.to("meta") for name, weight in weights.items()}, inputs.to("meta"))
            self._measured.add(inputs.shape)
        return self._run(weights, inputs)

    def _run(self, values: dict[str, Any], inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Computes; on the device `meta`, which has sizes and no numbers, only how much memory that takes."""
        most = max(_MOST_NUMBERS, _MOST_GROWTH * inputs.numel())
        sizes: dict[str, int] = {}
        values[self._user_input] = inputs
        for step in self._steps:
            keywords = {name: _value(argument, values, inputs.device) for name, argument in step.keywords}
            result = step.call(*(_value(argument, values, inputs.device) for argument in step.positional), **keywords)
            if len(step.results) == 1:
                _bind(step.results[0], result, values)
            elif step.results:
                for names, part in zip(step.results, result, strict=True):
                    _bind(names, part, values)
            for name in _flat(step.results):
                sizes[name] = values[name].numel() if isinstance(values[name], torch.Tensor) else 0
            if sum(sizes.values()) > most:
                raise BadSubjectError(
                    f"the exported graph keeps {sum(sizes.values())} numbers at once for an input of {inputs.numel()}; that is refused"
                )
            for name in step.last_uses:
                del values[name]
                sizes.pop(name, None)
        return tuple(values[name] for name in self._answers)


def read_exported(path: Path) -> ExportedNetwork:
    """Reads the archive that `torch.export.save` wrote."""
    try:
        with zipfile.ZipFile(path) as archive:
            check_archive(archive)
            members = {_inner(name): name for name in archive.namelist()}
            program, weights = _read_members(lambda inner: archive.read(members[inner]), frozenset(members))
        return _build(program, weights)
    except BadSubjectError as error:
        raise BadSubjectError(f"{path}: {error}") from error
    except BROKEN as error:
        raise BadSubjectError(f"{path} is no whole torch.export archive ({reason_of(error)}); write it with torch.export.save") from error


def _inner(name: str) -> str:
    """Drops the folder that newer torch versions put around everything, named after the file."""
    head, _, rest = name.partition("/")
    return name if not rest or head in {"models", "data"} else rest


def _read_members(read: Callable[[str], bytes], names: frozenset[str]) -> tuple[Mapping[str, Any], dict[str, torch.Tensor]]:
    if "serialized_exported_program.json" in names:  # torch before 2.8
        weights = _weights_only(read("serialized_state_dict.pt"))
        weights.update(_weights_only(read("serialized_constants.pt")))
        return json.loads(read("serialized_exported_program.json")), weights
    models = [name for name in names if name.startswith("models/") and name.endswith(".json")]
    if len(models) != 1:
        raise BadSubjectError(f"the archive holds {len(models)} models; save exactly one network with torch.export.save")
    stem = models[0].removeprefix("models/").removesuffix(".json")
    weights = {}
    for folder in ("data/weights", "data/constants"):
        config = f"{folder}/{stem}_{folder.removeprefix('data/')}_config.json"
        if config in names:
            weights.update(_raw_weights(json.loads(read(config))["config"], folder, read))
    return json.loads(read(models[0])), weights


def _weights_only(data: bytes) -> dict[str, torch.Tensor]:
    loaded = read_weights(BytesIO(data), "the exported archive") if data else {}
    if not isinstance(loaded, dict):
        raise BadSubjectError(f"the exported archive holds a {type(loaded).__name__} in place of its weights; export the network again")
    return {name: tensor.detach() for name, tensor in loaded.items() if isinstance(tensor, torch.Tensor)}


def _raw_weights(config: Mapping[str, Any], folder: str, read: Callable[[str], bytes]) -> dict[str, torch.Tensor]:
    weights: dict[str, torch.Tensor] = {}
    for name, entry in config.items():
        meta = entry.get("tensor_meta")
        if entry["use_pickle"]:
            if meta is None:
                continue  # an object that is no tensor; a graph that needs it is refused when the name is looked up
            loaded = read_weights(BytesIO(read(f"{folder}/{entry['path_name']}")), f"the exported weight {name!r}")
            if isinstance(loaded, torch.Tensor):
                weights[name] = loaded.detach()
            continue
        sizes, strides = ([int(size["as_int"]) for size in meta[key]] for key in ("sizes", "strides"))
        flat = torch.frombuffer(bytearray(read(f"{folder}/{entry['path_name']}")) or bytearray(8), dtype=_SCALAR_TYPES[meta["dtype"]])
        weights[name] = _strided(name, flat, sizes, strides, int(meta["storage_offset"]["as_int"]))
    return weights


def _strided(name: str, flat: torch.Tensor, sizes: list[int], strides: list[int], start: int) -> torch.Tensor:
    """Returns the numbers at these places; torch itself would look beyond the end of the buffer."""
    end = start + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)) if all(sizes) else start
    if min([start, *sizes, *strides]) < 0 or (all(sizes) and end >= len(flat)) or math.prod(sizes) > max(len(flat), _MOST_REPEATED):
        raise BadSubjectError(f"the exported weight {name!r} lies outside of its {len(flat)} numbers; export the network again")
    return flat.as_strided(sizes, strides, start).clone()


def _build(program: Mapping[str, Any], weights: Mapping[str, torch.Tensor]) -> ExportedNetwork:
    graph, signature = program["graph_module"]["graph"], program["graph_module"]["signature"]
    bound: dict[str, torch.Tensor] = {}
    user_inputs: list[str] = []
    for spec in signature["input_specs"]:
        ((kind, body),) = _filled(spec).items()
        if kind == "user_input":
            user_inputs.append(body["arg"]["as_tensor"]["name"])
        elif kind in {"parameter", "buffer", "tensor_constant"}:
            bound[body["arg"]["name"]] = weights[body[f"{kind}_name"]]
        else:
            raise BadSubjectError(f"the exported graph wants an input of kind {kind!r}; export a network that takes one tensor")
    if len(user_inputs) != 1:
        raise BadSubjectError(f"the exported graph takes {len(user_inputs)} inputs; export a network that takes one tensor")
    outputs = [
        body["arg"]["as_tensor"]["name"]
        for spec in signature["output_specs"]
        for kind, body in _filled(spec).items()
        if kind == "user_output"
    ]
    shape = tuple(size.get("as_int") for size in graph["tensor_values"][user_inputs[0]]["sizes"])
    network = ExportedNetwork(_steps(graph["nodes"], {*outputs, *bound}), bound, user_inputs[0], outputs, shape[0])
    network.input_shape = shape
    return network


def _filled(union: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the one member of a union that is set; older archives write the others as null."""
    filled = {key: value for key, value in union.items() if value is not None}
    return filled or {"as_none": True}


def _steps(nodes: Sequence[Mapping[str, Any]], kept: set[str]) -> list[_Step]:
    steps: list[_Step] = []
    seen = set(kept)
    for node in reversed(nodes):  # backwards, so that a name's first sight is its last use
        found = resolve(node["target"])
        if found is None:
            raise BadSubjectError(f"the exported graph uses {node['target']!r}; only operations that compute tensors from tensors are run")
        call, keyword_only = found
        positional: list[Any] = []
        keywords: list[tuple[str, Any]] = []
        for entry in node["inputs"]:
            argument = _compiled(_filled(entry["arg"]))
            if entry.get("kind") == 2 or entry["name"] in keyword_only:
                keywords.append((entry["name"], argument))
            else:
                positional.append(argument)
        results = tuple(_result_names(_filled(output)) for output in node["outputs"])
        names = _names([*positional, *(argument for _, argument in keywords)])
        names.update(_flat(results))
        steps.append(_Step(call, tuple(positional), tuple(keywords), results, tuple(sorted(names - seen))))
        seen |= names
    return steps[::-1]


def _result_names(output: Mapping[str, Any]) -> tuple[str, ...] | str:
    ((kind, value),) = output.items()
    if kind == "as_tensors":
        return tuple(item["name"] for item in value)
    if kind == "as_none":
        return ()
    return str(value["as_name"] if "as_name" in value else value["name"])


def _flat(results: Sequence[tuple[str, ...] | str]) -> list[str]:
    return [name for result in results for name in ((result,) if isinstance(result, str) else result)]


def _bind(names: tuple[str, ...] | str, value: Any, values: dict[str, Any]) -> None:
    if isinstance(names, str):
        values[names] = value
    elif names:
        values.update(zip(names, value, strict=True))


def _names(arguments: Sequence[Any]) -> set[str]:
    """The names that arguments refer to."""
    found: set[str] = set()
    for argument in arguments:
        if isinstance(argument, _Ref) and argument.name is not None:
            found.add(argument.name)
        elif isinstance(argument, list):
            found |= _names(argument)
    return found


def _value(argument: Any, values: Mapping[str, Any], device: torch.device) -> Any:
    if isinstance(argument, _Ref):
        return device if argument.name is None else values[argument.name]
    if isinstance(argument, list):
        return [_value(item, values, device) for item in argument]
    return argument


def _compiled(argument: Mapping[str, Any]) -> Any:
    ((kind, value),) = argument.items()
    if kind in _PLAIN:
        return value
    if kind in _READERS:
        return _READERS[kind](value)
    raise BadSubjectError(f"the exported graph passes an argument of kind {kind!r}; only plain tensor operations are run")


def _symbol(value: Mapping[str, Any]) -> Any:
    ((kind, inner),) = _filled(value).items()
    return _Ref(str(inner)) if kind == "as_name" else inner


def _optional(value: Mapping[str, Any]) -> _Ref | None:
    return _Ref(str(value["as_tensor"]["name"])) if value.get("as_tensor") else None


def _each(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: [read(item) for item in value]


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "as_none": lambda _: None,
    "as_tensor": lambda value: _Ref(str(value["name"])),
    "as_tensors": _each(lambda value: _Ref(str(value["name"]))),
    "as_optional_tensor": _optional,
    "as_optional_tensors": _each(_optional),
    **dict.fromkeys(("as_sym_int", "as_sym_float", "as_sym_bool"), _symbol),
    **dict.fromkeys(("as_sym_ints", "as_sym_floats", "as_sym_bools"), _each(_symbol)),
    "as_scalar_type": lambda value: _SCALAR_TYPES[value],
    "as_memory_format": lambda value: _MEMORY_FORMATS[value],
    "as_layout": lambda value: {7: torch.strided}[value],
    "as_device": lambda _: _Ref(None),  # the graph was exported elsewhere; it runs where its input is
}
