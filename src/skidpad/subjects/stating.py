"""What a model file says of itself: the shape of its input, the names of its outputs, the network that its weights fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.description import Description, Format, InputSpec
from skidpad.subjects.exported import read_exported
from skidpad.subjects.foreign import refuse_foreign
from skidpad.subjects.keras.containers import read_contents
from skidpad.subjects.keras.graph import read_model
from skidpad.subjects.keras.opening import readable
from skidpad.subjects.keras.rebuilding import stated_shape
from skidpad.subjects.loading import open_network, read_safetensors, read_state_dict
from skidpad.subjects.network import TorchNetwork
from skidpad.subjects.onnx.reading import read_model as read_onnx
from skidpad.subjects.zoo import ARCHITECTURES, Architecture

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Stated:
    """What is in the file; None or empty where it does not say.

    shape: of one input without the batch, None for a size that may be any. channels: of the first convolution, where that is all
    there is. outputs: a name for each tensor that it answers with. weights: the second file of a pair. lambdas: layers that must
    be declared. notes: what a person should know.
    """

    shape: tuple[int | None, ...] | None = None
    channels: int | None = None
    outputs: tuple[str, ...] = ()
    architecture: Architecture | None = None
    weights: str | None = None
    lambdas: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def stated(file: Path, format_: Format) -> Stated:
    """Reads what a file says of itself; a file that is not whole is an error."""
    return _READERS[format_](file)


def _of_onnx(file: Path) -> Stated:
    model = read_onnx(file)
    shape = model.input.shape
    return Stated(shape=None if shape is None else shape[1:], outputs=model.outputs)


def _of_export(file: Path) -> Stated:
    return Stated(shape=read_exported(file).input_shape[1:])


def _of_keras(file: Path) -> Stated:
    weights, notes = _weights_beside(file)
    if weights is not None:
        refuse_foreign(weights, Format.KERAS)
    with readable(file, weights.name if weights is not None else None):
        contents = read_contents(file, weights)
        model = read_model(contents.model)
        shape = stated_shape(contents.model)
    return Stated(
        shape=shape,
        outputs=tuple(answer.layer for answer in model.answers),
        weights=weights.name if weights is not None else None,
        lambdas=tuple(layer.name for layer in model.settings if layer.class_name == "Lambda"),
        notes=notes,
    )


def _weights_beside(file: Path) -> tuple[Path | None, tuple[str, ...]]:
    """Returns the weights that belong to a config in a file of its own: those of its name, or the only ones beside it; and notes."""
    if file.suffix.lower() != ".json":
        return None, ()
    found = sorted(path for suffix in ("*.h5", "*.hdf5") for path in file.parent.glob(suffix))
    near = [path for path in found if path.stem == file.stem] or [path for path in found if path.stem.startswith(file.stem)] or found
    if len(near) > 1:
        names = ", ".join(path.name for path in near[:5]) + (", ..." if len(near) > 5 else "")
        return near[0], (f"{len(near)} files could hold the weights ({names}); the first is taken, look which one belongs to {file.name}.",)
    return next(iter(near), None), ()


def _of_torchscript(file: Path) -> Stated:
    description = Description(file.stem, file.name, Format.TORCHSCRIPT, InputSpec(1, 1))
    network = open_network(file, description)
    state = network.module.state_dict() if isinstance(network, TorchNetwork) else {}
    return Stated(channels=_first_channels(state), notes=("TorchScript does not say the size of its input.",))


def _of_safetensors(file: Path) -> Stated:
    return _of_weights(file, read_safetensors(file))


def _of_state_dict(file: Path) -> Stated:
    return _of_weights(file, read_state_dict(file))


def _of_weights(file: Path, state: Mapping[str, torch.Tensor]) -> Stated:
    """Looks for the network of the zoo whose tensors have these names, and best also these shapes."""
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    same: list[Architecture] = []
    alike: Architecture | None = None
    for name in ARCHITECTURES.names():
        row = ARCHITECTURES.get(name)
        with torch.device("meta"):  # shapes alone: drawing millions of weights would take seconds
            wanted = {key: tuple(tensor.shape) for key, tensor in row.build().state_dict().items()}
        if wanted == shapes:
            same.append(row)
        elif wanted.keys() == shapes.keys():
            alike = row
    if same:
        others = f"The weights also fit {', '.join(row.name for row in same[1:])}."
        return Stated(architecture=same[0], notes=(others,) if same[1:] else ())
    if alike is None:
        raise BadSubjectError(
            f"{file} holds weights alone, and they fit no network of the zoo ({', '.join(ARCHITECTURES.names())}); name a class of your "
            'own in a description, as architecture = "my_module:MyNet", or export the network with torch.export'
        )
    note = f"The weights have the names of {alike.name!r} but not its shapes: width_px and height_px are not those of the zoo."
    return Stated(architecture=alike, notes=(note,))


def _first_channels(state: Mapping[str, torch.Tensor]) -> int | None:
    return next((int(tensor.shape[1]) for tensor in state.values() if tensor.ndim == 4), None)


_READERS: Mapping[Format, Callable[[Path], Stated]] = {
    Format.ONNX: _of_onnx,
    Format.EXPORT: _of_export,
    Format.KERAS: _of_keras,
    Format.TORCHSCRIPT: _of_torchscript,
    Format.SAFETENSORS: _of_safetensors,
    Format.STATE_DICT: _of_state_dict,
}
