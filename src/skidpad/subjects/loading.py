"""Loading a subject from its description, without executing code from its file.

What is trusted: safetensors and weights-only archives hold tensors and nothing else. TorchScript holds a program in torch's
own small language, run by torch's interpreter: it can compute, not import; programs that use operations beyond plain tensor
work are refused, and torch's reader of the archive is trusted. Exported programs are read by `exported`, not by torch.
"""

import warnings
import zipfile
from collections.abc import Callable, Mapping
from hashlib import file_digest
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from skidpad.core.errors import BadSubjectError, UnknownNameError
from skidpad.subjects.description import Description, Format
from skidpad.subjects.description_toml import minimal_description, read_description
from skidpad.subjects.exported import read_exported
from skidpad.subjects.probe import NeuronUnit
from skidpad.subjects.scripted import ScriptedNetwork
from skidpad.subjects.torch_subject import TorchSubject
from skidpad.subjects.weights import WAY_OUT, read_weights
from skidpad.subjects.zoo import ARCHITECTURES

_PICKLES = frozenset((".pkl", ".pickle", ".joblib", ".dill"))
_SUFFIXES = {
    ".safetensors": Format.SAFETENSORS,
    ".pt": Format.STATE_DICT,
    ".pth": Format.STATE_DICT,
    ".bin": Format.STATE_DICT,
    ".ts": Format.TORCHSCRIPT,
    ".pt2": Format.EXPORT,
}
_REFUSED_OPERATIONS = frozenset(("aten::from_file", "aten::save", "aten::_save", "prim::PythonOp", "prim::Print"))
_BROKEN = (
    OSError,
    RuntimeError,
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    EOFError,
    AssertionError,
    OverflowError,
    MemoryError,
    zipfile.BadZipFile,
    SafetensorError,
)


def load_subject(
    path: str | Path, device: str = "cpu", *, batch_size: int | None = None, unit: NeuronUnit = NeuronUnit.FILTER
) -> TorchSubject:
    """Loads the subject that the TOML at `path` describes; a weights file stands for the TOML of its name beside it."""
    toml = _description_path(Path(path))
    description = read_description(toml)
    file = toml.parent / description.file
    module = open_network(file, description)
    with file.open("rb") as stream:
        weights_sha256 = file_digest(stream, "sha256").hexdigest()
    return TorchSubject(module, description, device=device, weights_sha256=weights_sha256, batch_size=batch_size, unit=unit)


def open_network(file: Path, description: Description) -> nn.Module:
    """Reads the network in `file` on the CPU; the format of the description says how."""
    if not file.is_file():
        raise BadSubjectError(f"the description of {description.name!r} names the file {file}, which is not there")
    if file.suffix.lower() in _PICKLES:
        raise BadSubjectError(f"{file} is a pickle, and loading a pickle runs whatever code it holds; {WAY_OUT}")
    module = _OPENERS[description.format](file, description)
    _check_finite(file, module)
    return module


def _description_path(path: Path) -> Path:
    if path.suffix == ".toml":
        if not path.is_file():
            raise BadSubjectError(f"there is no description {path}; a subject is a TOML beside the weights")
        return path
    beside = path.with_suffix(".toml")
    if beside.is_file():
        return beside
    if not path.is_file():
        raise BadSubjectError(f"there is no subject {path}; give the path of a description, as model.toml")
    if path.suffix.lower() in _PICKLES:
        raise BadSubjectError(f"{path} is a pickle, and loading a pickle runs whatever code it holds; {WAY_OUT}")
    text = minimal_description(path.name, _SUFFIXES.get(path.suffix.lower(), Format.SAFETENSORS))
    raise BadSubjectError(f"{path} has no description; write {beside} like this and correct it:\n\n{text}")


def _open_safetensors(file: Path, description: Description) -> nn.Module:
    try:
        state = load_file(file)
    except _BROKEN as error:
        raise BadSubjectError(f"{file} is no whole safetensors file ({_reason(error)}); copy or save it again") from error
    return _filled(file, description, state)


def _open_state_dict(file: Path, description: Description) -> nn.Module:
    try:
        state = read_weights(file, str(file))
    except _BROKEN as error:
        raise BadSubjectError(f"{file} is no whole file of weights ({_reason(error)}); copy it again, or: {WAY_OUT}") from error
    if not isinstance(state, Mapping) or not all(isinstance(tensor, torch.Tensor) for tensor in state.values()):
        raise BadSubjectError(f"{file} holds a {type(state).__name__} that is not names to tensors; save model.state_dict() alone")
    return _filled(file, description, state)


def _open_torchscript(file: Path, description: Description) -> nn.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # torch wants no new TorchScript; this one exists already
            module: torch.jit.ScriptModule = torch.jit.load(file, map_location="cpu")  # type: ignore[no-untyped-call] # torch leaves it untyped
            module.eval()
            kinds = set(_operations(module.inlined_graph))
    except _BROKEN as error:
        raise BadSubjectError(f"{file} is no whole TorchScript archive ({_reason(error)}); write it with torch.jit.save") from error
    odd = sorted(kind for kind in kinds if kind in _REFUSED_OPERATIONS or kind.partition("::")[0] not in {"aten", "prim"})
    if odd:
        raise BadSubjectError(
            f"{file} uses {', '.join(odd)}, which {description.name!r} does not need to steer; only tensor operations are run"
        )
    return ScriptedNetwork(module)


def _operations(graph: torch.Graph) -> list[str]:
    """The kinds of every operation of a graph and of the branches and loops within it."""
    kinds: list[str] = []
    waiting = list(graph.nodes())
    while waiting:
        node = waiting.pop()
        kinds.append(node.kind())
        for block in node.blocks():
            waiting += block.nodes()
    return kinds


def _open_export(file: Path, description: Description) -> nn.Module:
    if description.architecture is not None:
        raise BadSubjectError(f"an exported program is its own architecture; remove architecture = {description.architecture!r}")
    return read_exported(file)


_OPENERS: Mapping[Format, Callable[[Path, Description], nn.Module]] = {
    Format.SAFETENSORS: _open_safetensors,
    Format.STATE_DICT: _open_state_dict,
    Format.TORCHSCRIPT: _open_torchscript,
    Format.EXPORT: _open_export,
}


def _filled(file: Path, description: Description, state: Mapping[str, torch.Tensor]) -> nn.Module:
    """Builds the architecture and puts the weights in; every tensor must find its place, and every place its tensor."""
    try:
        architecture = ARCHITECTURES.get(description.architecture or "")
    except UnknownNameError as error:
        raise BadSubjectError(f"{description.name!r}: {error}") from error
    module = architecture.build(description.input)
    wanted = module.state_dict()
    for verb, names in (("lacks", wanted.keys() - state.keys()), ("has the unknown", state.keys() - wanted.keys())):
        if names:
            some = ", ".join(sorted(map(str, names))[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            raise BadSubjectError(f"{file} {verb} tensors {some}; it is not a {description.architecture!r} network")
    for name, tensor in wanted.items():
        if state[name].shape != tensor.shape:
            raise BadSubjectError(
                f"{file}: tensor {name!r} has shape {tuple(state[name].shape)}, {description.architecture!r} with an input of "
                f"{description.input.height_px} x {description.input.width_px} px needs {tuple(tensor.shape)}"
            )
    module.load_state_dict(dict(state))
    return module


def _check_finite(file: Path, module: nn.Module) -> None:
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise BadSubjectError(f"{file}: the weights {name!r} hold NaN or infinity; train or export the network again")


def _reason(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:160] if lines else type(error).__name__
