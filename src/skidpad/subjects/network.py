"""A network as its file gives it: tensors in, numbers out; subjects are built on it and know nothing of formats."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

import torch
from torch import nn

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.description import Description
from skidpad.subjects.probe import NeuronUnit, record

if TYPE_CHECKING:
    from skidpad.subjects.probe import Activations


CANNOT_RUN = (RuntimeError, ValueError, TypeError, IndexError, KeyError, NotImplementedError)
"""What a network may raise on an input that it cannot take."""


class Network(Protocol):
    """Runs one batch of inputs, float32 in the described layout, on its device; asked from several threads at a time."""

    @property
    def device(self) -> torch.device:
        """Where inputs have to be."""
        ...

    @property
    def fixed_batch(self) -> int | None:
        """The only batch size that it takes, where the file says so."""
        ...

    @property
    def by_maps(self) -> bool:
        """Whether it wants NCHW inputs map by map in memory, and would copy others."""
        ...

    @property
    def parameters(self) -> int:
        """How many weights it has."""
        ...

    def answer(self, inputs: torch.Tensor) -> object:
        """Returns one tensor (N, numbers) or a tuple of them; raises one of CANNOT_RUN on an input that it cannot take."""
        ...

    def record(self, inputs: torch.Tensor) -> tuple[object, Activations]:
        """Returns the answer and the value of every neuron, of one pass."""
        ...


class TorchNetwork:
    """A torch module; it is moved to the device and put into evaluation mode, not copied."""

    def __init__(self, module: nn.Module, device: str | torch.device = "cpu", unit: NeuronUnit = NeuronUnit.FILTER) -> None:
        self.device = usable_device(device)
        self.module = module.to(self.device).eval()
        self.fixed_batch: int | None = getattr(module, "fixed_batch", None)
        self.by_maps = False
        self.unit = unit

    @property
    def parameters(self) -> int:
        """How many weights it has."""
        return sum(tensor.numel() for tensor in self.module.parameters())

    def answer(self, inputs: torch.Tensor) -> object:
        """Returns what the module returns."""
        with torch.inference_mode():
            return self.module(inputs)

    def record(self, inputs: torch.Tensor) -> tuple[object, Activations]:
        """Returns the answer and the value of every neuron, of one pass."""
        return record(self.module, inputs, self.unit)


def usable_device(name: str | torch.device) -> torch.device:
    """Returns the device called `cpu`, `cuda` or `cuda:1`, or says that there is none."""
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise BadSubjectError(f"no device named {name!r}; use cpu or cuda") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise BadSubjectError(f"the device {name!r} is not there: torch {torch.__version__} finds no CUDA GPU; use cpu")
    return device


def state_hash(module: nn.Module) -> str:
    """Hashes the names, shapes, types and bytes of a module's weights."""
    digest = sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def answer_columns(description: Description, answer: object, count: int) -> torch.Tensor:
    """Joins one tensor or a tuple of tensors of all outputs, (count, outputs) in the network's own units."""
    parts: list[object] = list(answer) if isinstance(answer, tuple | list) else [answer]
    tensors = [part for part in parts if isinstance(part, torch.Tensor) and part.ndim >= 1 and part.shape[0] == count]
    if not tensors or len(tensors) < len(parts):
        got = ", ".join(str(tuple(part.shape)) if isinstance(part, torch.Tensor) else type(part).__name__ for part in parts)
        raise BadSubjectError(f"{description.name!r} must answer ({count}, outputs) for {count} images; got {got or 'nothing'}")
    columns = torch.cat([tensor.reshape(count, -1) for tensor in tensors], 1)
    if columns.shape[1] != len(description.outputs):
        names = ", ".join(output.name for output in description.outputs)
        raise BadSubjectError(
            f"{description.name!r} answers {columns.shape[1]} numbers for each image, its description names "
            f"{len(description.outputs)} ({names}); write one [[outputs]] for each number, in order"
        )
    return columns


def steering_answer(description: Description, answer: object, count: int) -> torch.Tensor:
    """Picks the steering, (count,) in the network's own unit, out of what the network returned."""
    return answer_columns(description, answer, count)[:, description.steering_column]
