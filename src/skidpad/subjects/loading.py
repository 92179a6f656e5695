"""Loading a subject from its description, without executing code that no person has trusted.

Safetensors and weights-only archives hold tensors and nothing else; exported programs are read by `exported`, not by torch.
TorchScript is a program that writes files as it likes, already while torch reads it, and no list of operations holds it: it is
opened only where a person trusts it (`core.trust`), as is what a description names as a box or as `module:name`.
"""

import warnings
import zipfile
from collections.abc import Callable, Mapping
from hashlib import file_digest, sha256
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn

from skidpad.core.errors import BadSubjectError, UnknownNameError
from skidpad.core.registry import given
from skidpad.core.trust import Code, require, trusting
from skidpad.subjects.base import Subject
from skidpad.subjects.boxes.subject import BoxSubject, box_code
from skidpad.subjects.description import Description, Format, minimal_description, read_description
from skidpad.subjects.formats.exported import read_exported
from skidpad.subjects.formats.keras.opening import open_keras
from skidpad.subjects.formats.onnx.network import open_onnx
from skidpad.subjects.formats.onnx.reading import weight_files
from skidpad.subjects.formats.recognition import BROKEN, WAY_OUT, check_archive, format_of, read_weights, reason_of, refuse_foreign
from skidpad.subjects.formats.tflite import open_tflite
from skidpad.subjects.inputs import check_shape
from skidpad.subjects.network_subject import Network, NetworkSubject, TorchNetwork
from skidpad.subjects.own_code import named_code, own_network, trusted_code
from skidpad.subjects.probe import NeuronUnit
from skidpad.subjects.zoo import ARCHITECTURES


class ScriptedNetwork(nn.Module):
    """Runs a TorchScript program operation by operation.

    Left to itself, TorchScript fuses operations on a GPU after a few runs, and the probe would miss the fused ones.
    """

    def __init__(self, program: torch.jit.ScriptModule) -> None:
        super().__init__()
        self.program = program

    def forward(self, inputs: torch.Tensor) -> object:
        """Returns the program's answer."""
        with torch.jit.optimized_execution(should_optimize=False):  # type: ignore[attr-defined] # public, but torch does not export it to checkers
            return self.program(inputs)


def load_subject(
    path: str | Path,
    device: str = "cpu",
    *,
    batch_size: int | None = None,
    unit: NeuronUnit = NeuronUnit.FILTER,
    trust: bool = False,
) -> Subject:
    """Loads the subject that the TOML at `path` describes; a weights file stands for the TOML of its name beside it.

    trust: run the code that it names, a black box, a class of its own or TorchScript; refused otherwise, see `core.trust`.
    """
    handed: Subject | None = given(str(path))
    if handed is not None:
        return handed
    if trust:
        with trusting():
            return load_subject(path, device, batch_size=batch_size, unit=unit)
    toml = description_path(Path(path))
    description = read_description(toml)
    if description.box is not None:
        return BoxSubject(description, toml.parent, batch_size=batch_size)
    file = toml.parent / description.file
    network = open_network(file, description, device, unit, toml.parent)
    weights_sha256 = _files_hash(file, *_further_files(description, toml.parent))
    return NetworkSubject(network, description, weights_sha256=weights_sha256, batch_size=batch_size)


def load_network(path: str | Path, device: str = "cpu") -> NetworkSubject:
    """Loads a subject that must be a network in a file, as training and repair need it."""
    subject = load_subject(path, device)
    if not isinstance(subject, NetworkSubject):
        raise BadSubjectError(f"{subject.description.name!r} is a black box: its weights are not here, so it cannot be trained")
    return subject


def open_network(
    file: Path, description: Description, device: str = "cpu", unit: NeuronUnit = NeuronUnit.FILTER, folder: Path | None = None
) -> Network:
    """Opens the network in `file`; the format of the description says how. folder: the description's, where it is not the file's."""
    refuse_foreign(file, description.format)
    if description.weights is not None:
        refuse_foreign((folder or file.parent) / description.weights, description.format)
    if not file.is_file():
        raise BadSubjectError(f"the description of {description.name!r} names the file {file}, which is not there")
    if description.format is Format.ONNX:
        return open_onnx(file, description, device, unit)
    if description.format is Format.TFLITE:
        return open_tflite(file, description, device, unit)
    if description.format.weights_only:
        module = _filled(file, description, _STATES[description.format](file), folder or file.parent)
    else:
        module = _OPENERS[description.format](file, description)
    _check_finite(file, module)
    return TorchNetwork(module, device, unit)


def _further_files(description: Description, folder: Path) -> list[Path]:
    """Returns the files besides the first that answers depend on."""
    files = [folder / description.weights] if description.weights else []
    if description.format is Format.ONNX:
        files += weight_files(folder / description.file)
    if _is_code_name(description.architecture or ""):
        source = named_code(description.architecture or "", folder, "the architecture").source
        files += [source] if source is not None else []
    return files


def _files_hash(*files: Path) -> str:
    hashes: list[str] = []
    for file in files:
        with file.open("rb") as stream:
            hashes.append(file_digest(stream, "sha256").hexdigest())
    return hashes[0] if len(hashes) == 1 else sha256(" ".join(hashes).encode()).hexdigest()


def description_path(path: Path) -> Path:
    """Returns the TOML that describes a subject; a model file stands for the one of its name beside it."""
    if path.suffix == ".toml":
        if not path.is_file():
            raise BadSubjectError(f"there is no description {path}; a subject is a TOML beside the weights")
        return path
    beside = path.with_suffix(".toml")
    if beside.is_file():
        description = read_description(beside)
        if path.is_file() and path.name not in {Path(description.file).name, Path(description.weights or "").name}:
            raise BadSubjectError(f"{beside} describes {description.file}, not {path.name}; give {path.name} a description of its own name")
        return beside
    if not path.exists():
        raise BadSubjectError(f"there is no subject {path}; give the path of a description, as model.toml")
    if not path.is_file():
        refuse_foreign(path)
        raise BadSubjectError(f"{path} is a folder and no subject; give the path of a description, as model.toml")
    text = minimal_description(path.name, format_of(path))
    raise BadSubjectError(
        f"{path} has no description; `skidpad inspect {path}` proposes one from what the file says, or write {beside} like this:\n\n{text}"
    )


def read_safetensors(file: Path) -> Mapping[str, torch.Tensor]:
    """Reads the tensors of a safetensors file by name."""
    try:
        return load_file(file)
    except BROKEN as error:
        raise BadSubjectError(f"{file} is no whole safetensors file ({reason_of(error)}); copy or save it again") from error


def read_state_dict(file: Path) -> Mapping[str, torch.Tensor]:
    """Reads the tensors of a weights-only archive by name, and nothing but tensors."""
    try:
        state = read_weights(file, str(file))
    except BROKEN as error:
        raise BadSubjectError(f"{file} is no whole file of weights ({reason_of(error)}); copy it again, or: {WAY_OUT}") from error
    if not isinstance(state, Mapping) or not all(isinstance(tensor, torch.Tensor) for tensor in state.values()):
        raise BadSubjectError(f"{file} holds a {type(state).__name__} that is not names to tensors; save model.state_dict() alone")
    return state


def subject_code(path: str | Path) -> tuple[Code, ...]:
    """Returns the code that loading a subject would run; nothing is opened but the description."""
    file = Path(path)
    if file.suffix != ".toml" and file.is_file() and not file.with_suffix(".toml").is_file():
        return (_torchscript_code(file),) if format_of(file) is Format.TORCHSCRIPT else ()
    toml = description_path(file)
    description, folder = read_description(toml), toml.parent
    if description.box is not None:
        return (box_code(description.box, folder),)
    if _is_code_name(description.architecture or ""):
        return (trusted_code(description.architecture or "", folder),)
    return (_torchscript_code(folder / description.file),) if description.format is Format.TORCHSCRIPT else ()


def _torchscript_code(file: Path) -> Code:
    return Code(f"run the TorchScript program {file.name!r}", file.parent, (file,))


def _open_torchscript(file: Path, description: Description) -> nn.Module:  # noqa: ARG001 - as all openers
    require(_torchscript_code(file))
    try:
        with zipfile.ZipFile(file) as archive:
            check_archive(archive)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # torch wants no new TorchScript; this one exists already
            module: torch.jit.ScriptModule = torch.jit.load(file, map_location="cpu")  # type: ignore[no-untyped-call] # torch leaves it untyped
            module.eval()
    except BROKEN as error:
        raise BadSubjectError(f"{file} is no whole TorchScript archive ({reason_of(error)}); write it with torch.jit.save") from error
    return ScriptedNetwork(module)


def _open_export(file: Path, description: Description) -> nn.Module:
    if description.architecture is not None:
        raise BadSubjectError(f"an exported program is its own architecture; remove architecture = {description.architecture!r}")
    network = read_exported(file)
    check_shape(file, network.input_shape[1:], description.input)
    return network


_OPENERS: Mapping[Format, Callable[[Path, Description], nn.Module]] = {
    Format.TORCHSCRIPT: _open_torchscript,
    Format.EXPORT: _open_export,
    Format.KERAS: open_keras,
}
_STATES: Mapping[Format, Callable[[Path], Mapping[str, torch.Tensor]]] = {
    Format.SAFETENSORS: read_safetensors,
    Format.STATE_DICT: read_state_dict,
}


def _is_code_name(text: str) -> bool:
    """Tells whether a text names code, `module:name`, and not a row of a registry."""
    return ":" in text


def _built(description: Description, folder: Path) -> nn.Module:
    """Builds the architecture that the description names: a row of the zoo, or code of the user's own."""
    name = description.architecture or ""
    if _is_code_name(name):
        return own_network(name, description.input, folder)
    try:
        architecture = ARCHITECTURES.get(name)
    except UnknownNameError as error:
        raise BadSubjectError(f"{description.name!r}: {error}; a network of your own is named as module:name") from error
    return architecture.build(description.input)


def _filled(file: Path, description: Description, state: Mapping[str, torch.Tensor], folder: Path) -> nn.Module:
    """Builds the architecture and puts the weights in; every tensor must find its place, and every place its tensor."""
    module = _built(description, folder)
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
