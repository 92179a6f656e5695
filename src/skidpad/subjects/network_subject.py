"""A torch network as a subject: batched answers in radians, and the activations of the same pass."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from torch import nn

from skidpad.core.errors import BadSubjectError
from skidpad.core.images import FloatArray, Frames
from skidpad.subjects.answers import steering_answer
from skidpad.subjects.base import Observation
from skidpad.subjects.description import Description, HistoryKind
from skidpad.subjects.description_toml import description_hash
from skidpad.subjects.preprocess import Preprocessor
from skidpad.subjects.probe import Activations, NeuronUnit, record

if TYPE_CHECKING:
    from skidpad.core.layers import Layer

T = TypeVar("T")
_SUPPORTED_HISTORY = (HistoryKind.SINGLE,)
_DEFAULT_BATCH = {"cpu": 32, "cuda": 256}
"""On a CPU, the maps of 64 images are more than the allocator keeps, and new pages for every batch cost a tenth of the time."""


class _CannotRunError(BadSubjectError):
    """The network failed on an input of the described shape; another batch or memory order may work."""


class TorchSubject:
    """A network under test; `module` is moved to the device and put into evaluation mode, not copied.

    Frames are taken in batches of `batch_size` images; when a GPU runs out of memory the batch is halved and stays so.
    """

    def __init__(
        self,
        module: nn.Module,
        description: Description,
        *,
        device: str = "cpu",
        weights_sha256: str | None = None,
        batch_size: int | None = None,
        unit: NeuronUnit = NeuronUnit.FILTER,
    ) -> None:
        _check_history(description)
        self._device = usable_device(device)
        self._description = description
        self._module = module.to(self._device).eval()
        self._unit = unit
        self._sha256 = sha256(f"{weights_sha256 or state_hash(module)} {description_hash(description)}".encode()).hexdigest()
        self._preprocess = Preprocessor(description.input, self._device)
        fixed: int | None = getattr(module, "fixed_batch", None)
        self._fixed_batch, self._layers = self._try_out(fixed)
        self.batch_size = self._fixed_batch or batch_size or _DEFAULT_BATCH.get(self._device.type, 32)

    @property
    def description(self) -> Description:
        """What skidpad was told about the subject."""
        return self._description

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers whose neurons `observe` gives."""
        return self._layers

    @property
    def sha256(self) -> str:
        """The hash of the weights and of what the description says about answers."""
        return self._sha256

    @property
    def module(self) -> nn.Module:
        """The network itself, in evaluation mode."""
        return self._module

    @property
    def device(self) -> torch.device:
        """Where the network runs."""
        return self._device

    def predict(self, frames: Frames) -> FloatArray:
        """Returns the steering in radians, (N,) float64."""
        return self._radians(self._batched(frames, self._answer))

    def observe(self, frames: Frames) -> Observation:
        """Returns answers and neuron values of one pass."""
        parts = self._batched(frames, self._answer_and_record)
        values = [activations.values for _, activations in parts]
        none = torch.zeros((0, self._layers[-1].stop), device=self._device)
        together = values[0] if len(values) == 1 else torch.cat(values) if values else none
        return Observation(self._radians([answer for answer, _ in parts]), together)

    def _answer(self, inputs: torch.Tensor, count: int) -> torch.Tensor:
        with torch.inference_mode():
            return steering_answer(self._description, self._module(inputs), len(inputs))[:count]

    def _answer_and_record(self, inputs: torch.Tensor, count: int) -> tuple[torch.Tensor, Activations]:
        answer, activations = record(self._module, inputs, self._unit)
        if activations.layers != self._layers:
            raise BadSubjectError(f"{self._description.name!r} ran other layers than on the first frame; its neurons cannot be told apart")
        if len(inputs) != count:
            activations = Activations(activations.values[:count], activations.layers)
        return steering_answer(self._description, answer, len(inputs))[:count], activations

    def _batched(self, frames: Frames, run: Callable[[torch.Tensor, int], T]) -> list[T]:
        done: list[T] = []
        start = 0
        while start < len(frames):
            part = frames[start : start + self.batch_size]
            try:
                done.append(run(self._ordered(self._padded(self._preprocess(part))), len(part)))
            except torch.cuda.OutOfMemoryError as error:
                if len(part) == 1 or self._fixed_batch:
                    raise BadSubjectError(
                        f"{self._description.name!r} does not fit into the memory of {self._device}; use the CPU"
                    ) from error
                self.batch_size = len(part) // 2
                torch.cuda.empty_cache()
                continue
            start += len(part)
        return done

    def _ordered(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs if self._channels_last else inputs.contiguous()

    def _padded(self, inputs: torch.Tensor) -> torch.Tensor:
        """Repeats the last image where the network takes one batch size only."""
        missing = (self._fixed_batch or 0) - len(inputs)
        return inputs if missing <= 0 else torch.cat([inputs, inputs[-1:].expand(missing, -1, -1, -1)])

    def _radians(self, answers: list[torch.Tensor]) -> FloatArray:
        if not answers:
            return np.zeros(0)
        together = torch.cat(answers).to(torch.float64).cpu().numpy()
        return np.asarray(together * self._description.steering.rad_per_answer, np.float64)

    def _try_out(self, fixed: int | None) -> tuple[int | None, tuple[Layer, ...]]:
        """Runs the network on noise; learns its layers and what batches it takes, refuses what cannot be tested.

        Pixel by pixel memory is 1.5 to 2 times faster on CPUs but breaks networks that flatten by `view`; two images at once
        break those traced or exported with a batch of one. The first combination that runs is kept.
        """
        first: BadSubjectError | None = None
        for count in (fixed,) if fixed else (2, 1):
            for channels_last in (True, False):
                self._channels_last = channels_last
                try:
                    return (None if count == 2 and not fixed else count), self._trial(count)
                except _CannotRunError as error:
                    first = error if first is None or (count == 2 and not channels_last) else first
        raise first or BadSubjectError(f"{self._description.name!r} could not be tried out")

    def _trial(self, count: int) -> tuple[Layer, ...]:
        spec = self._description.input
        noise = torch.randint(
            0, 256, (count, spec.height_px, spec.width_px, spec.colour.channels), generator=torch.Generator().manual_seed(0)
        )
        inputs = self._ordered(self._preprocess.normalise(noise.to(torch.uint8)))
        try:
            answer, activations = record(self._module, inputs, self._unit)
            first = steering_answer(self._description, answer, count)
            alone = count if getattr(self._module, "fixed_batch", None) else 1
            again = self._answer(inputs[:alone], alone)
        except (RuntimeError, ValueError, TypeError, IndexError, KeyError, NotImplementedError) as error:
            reason = next((line for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)
            raise _CannotRunError(
                f"{self._description.name!r} cannot take an input of shape {tuple(inputs.shape)}, as [input] describes it "
                f"({reason.strip()}); correct width_px, height_px, colour or layout"
            ) from error
        if not torch.allclose(first[:1], again[:1], rtol=1e-2, atol=1e-3, equal_nan=True):
            raise BadSubjectError(
                f"{self._description.name!r} answers {float(first[0]):.4g} and then {float(again[0]):.4g} for the same image; "
                "it was saved in training mode: call .eval() before tracing or exporting it"
            )
        return activations.layers


def usable_device(name: str) -> torch.device:
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


def _check_history(description: Description) -> None:
    kind = description.input.history.kind
    if kind not in _SUPPORTED_HISTORY:
        names = ", ".join(repr(supported.value) for supported in _SUPPORTED_HISTORY)
        raise BadSubjectError(f"{description.name!r} wants a history of kind {kind.value!r}; this version runs {names}")
