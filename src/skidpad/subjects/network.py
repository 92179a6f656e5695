"""A network as its file gives it: tensors in, numbers out; subjects are built on it and know nothing of formats."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.description import Decode, Description, Output
from skidpad.subjects.probe import Activations, NeuronUnit, record

CANNOT_RUN = (RuntimeError, ValueError, TypeError, IndexError, KeyError, NotImplementedError)
"""What a network may raise on an input that it cannot take."""


class Network(Protocol):
    """Runs one batch of inputs, float32 in the described layout, on its device; asked from several threads at a time."""

    @property
    def device(self) -> torch.device:
        """Where inputs have to be."""

    @property
    def fixed_batch(self) -> int | None:
        """The only batch size that it takes, where the file says so."""

    @property
    def by_maps(self) -> bool:
        """Whether it wants NCHW inputs map by map in memory, and would copy others."""

    @property
    def parameters(self) -> int:
        """How many weights it has."""

    def answer(self, inputs: torch.Tensor) -> object:
        """Returns one tensor (N, numbers) or a tuple of them; raises one of CANNOT_RUN on an input that it cannot take."""

    def record(self, inputs: torch.Tensor) -> tuple[object, Activations]:
        """Returns the answer and the value of every neuron, of one pass."""


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
    wanted = [output.numbers for output in description.outputs]
    if columns.shape[1] != sum(wanted):
        names = ", ".join(output.name for output in description.outputs)
        raise BadSubjectError(
            f"{description.name!r} answers {columns.shape[1]} numbers for each image, its description names "
            f"{sum(wanted)} ({names}); write one [[outputs]] for each number, in order, or for each group of bins one with "
            'decode = "bins"'
        )
    if sum(wanted) == len(wanted):
        return columns
    return torch.stack(
        [_decoded(output, part) for output, part in zip(description.outputs, torch.split(columns, wanted, 1), strict=True)], 1
    )


def _decoded(output: Output, numbers: torch.Tensor) -> torch.Tensor:
    """Reads one output from its numbers, (count, numbers) to (count,); bins that hold a NaN answer NaN."""
    if output.decode is Decode.NUMBER:
        return numbers[:, 0]
    value = numbers.argmax(1).to(numbers.dtype) * output.bins.step + output.bins.low
    return torch.where(numbers.isnan().any(1), numbers.new_tensor(float("nan")), value)


def steering_answer(description: Description, answer: object, count: int) -> torch.Tensor:
    """Picks the steering, (count,) in the network's own unit, out of what the network returned."""
    if description.steering.decode is Decode.BINS:
        raise BadSubjectError(f"{description.name!r} answers in bins, which cannot be trained here; it can be tested")
    return answer_columns(description, answer, count)[:, description.steering_column]


@runtime_checkable
class TwoStage(Protocol):
    """A torch module that answers for windows in two steps; as a whole it takes (N, T, channels, height, width) like others."""

    def features(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns the features of single frames, (N, channels, height, width) to (N, features)."""

    def alone(self, codes: torch.Tensor) -> torch.Tensor:
        """Answers for single frames from their features, (N, outputs); what the features are trained with."""

    def forward_windows(self, codes: torch.Tensor, windows: torch.Tensor) -> torch.Tensor:
        """Answers for windows, (N, outputs); windows: (N, T) rows of the features in `codes`, oldest first."""


def compact(codes: torch.Tensor, windows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Leaves out the rows that no window holds; returns the codes and the windows over them, on the codes' device."""
    rows, places = torch.unique(windows, return_inverse=True)
    return codes[rows], places.to(codes.device)


class StagedClip:
    """One clip on its way through a network in two stages.

    small: (rows, ...) the frames at the network's size. windows: (N, T) rows, in order of time, as `windows.sliding` gives them.
    The answered frame's own features are computed together with its answer, so that a probe sees both as one pass, and sees
    the first stage on the answered frame alone.
    """

    def __init__(
        self, module: TwoStage, inputs: Callable[[torch.Tensor], torch.Tensor], small: torch.Tensor, windows: torch.Tensor
    ) -> None:
        self._module = module
        self._inputs = inputs
        self._small = small
        self._windows = windows
        self._codes: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self._windows)

    def answer(self, part: slice) -> object:
        """Returns the network's answer for some of the windows."""
        with torch.inference_mode():
            self._look_back(part)
            return self._answered(part)

    def record(self, part: slice, unit: NeuronUnit) -> tuple[object, Activations]:
        """Returns the answer and the value of every neuron, of one pass."""
        with torch.inference_mode():
            self._look_back(part)
        return record(lambda _: self._answered(part), self._windows[part].to(self._small.device), unit)

    def _look_back(self, part: slice) -> None:
        """Computes the features of frames that are never answered for, in batches as large as the caller's own."""
        if self._codes is None:
            past = torch.ones(len(self._small), dtype=torch.bool)
            past[self._windows[:, -1]] = False
            for rows in torch.split(torch.nonzero(past)[:, 0], part.stop - part.start):
                self._keep(rows)

    def _keep(self, rows: torch.Tensor) -> torch.Tensor:
        values = self._module.features(self._inputs(self._small[rows]))
        if self._codes is None:
            self._codes = values.new_zeros((len(self._small), *values.shape[1:]))
        self._codes[rows] = values
        return self._codes

    def _answered(self, part: slice) -> torch.Tensor:
        windows = self._windows[part]
        return self._module.forward_windows(*compact(self._keep(windows[:, -1]), windows))
