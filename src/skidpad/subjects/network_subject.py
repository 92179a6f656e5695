"""A network as its file gives it, and as a subject: batched answers in the described units, with the activations of the same pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

import numpy as np
import torch
from torch import nn

from skidpad.core.errors import BadSubjectError
from skidpad.core.images import FloatArray, Frames
from skidpad.subjects.base import DeviceObservation, Observation
from skidpad.subjects.description import Decode, Description, Output, description_hash
from skidpad.subjects.inputs import HistoryKind
from skidpad.subjects.probe import Activations, NeuronUnit, record
from skidpad.subjects.windows import Assembler, StagedClip, TwoStage, compact

if TYPE_CHECKING:
    from skidpad.subjects.base import Layer

T = TypeVar("T")
_DEFAULT_BATCH = {"cpu": 32, "cuda": 256}
"""On a CPU, the maps of 64 images are more than the allocator keeps, and new pages for every batch cost a tenth of the time."""
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


class _CannotRunError(BadSubjectError):
    """The network failed on an input of the described shape; another batch or memory order may work."""


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The inputs of `count` frames, made batch by batch for a network that takes them whole."""

    count: int
    of: Callable[[slice], torch.Tensor]

    def __len__(self) -> int:
        return self.count


_Seen = _Inputs | StagedClip
"""What a network is shown of a clip, batch by batch."""


class NetworkSubject:
    """A network under test, whatever its format.

    Frames are taken in batches of `batch_size` windows; when a GPU runs out of memory the batch is halved and stays so. What
    can be done once a frame of a clip is done once: shrinking, flow, and the first stage of a `TwoStage` module.
    """

    def __init__(
        self, network: Network, description: Description, *, weights_sha256: str | None = None, batch_size: int | None = None
    ) -> None:
        self.network = network
        self.description = description
        self.lead = description.input.history.frames - 1
        hashed = weights_sha256 or (state_hash(network.module) if isinstance(network, TorchNetwork) else "")
        self.sha256 = sha256(f"{hashed} {description_hash(description)}".encode()).hexdigest()
        self.assembler = Assembler(description.input, network.device)
        self._staged = _two_stages(network, description)
        self._scale = np.array([output.per_answer for output in description.outputs])
        self._device_scale = torch.tensor(self._scale, dtype=torch.float64, device=network.device)
        self._fixed_batch = network.fixed_batch
        self._fixed_batch, self.layers = self._try_out(network.fixed_batch)
        self.batch_size = self._fixed_batch or batch_size or self._default_batch()

    @classmethod
    def of_module(
        cls,
        module: nn.Module,
        description: Description,
        *,
        device: str = "cpu",
        batch_size: int | None = None,
        unit: NeuronUnit = NeuronUnit.FILTER,
    ) -> Self:
        """Makes a subject of a torch module in memory, as the description tells; `file` and `format` do not matter."""
        return cls(TorchNetwork(module, device, unit), description, batch_size=batch_size)

    def __repr__(self) -> str:
        spec = self.description.input
        return f"<network {self.description.name!r}, {spec.width_px} x {spec.height_px} px>"

    @property
    def module(self) -> nn.Module:
        """The torch network itself, in evaluation mode."""
        if not isinstance(self.network, TorchNetwork):
            raise BadSubjectError(
                f"{self.description.name!r} of format {self.description.format.value!r} is no torch network, so it cannot be trained here"
            )
        return self.network.module

    def predict(self, clip: Frames, now: Frames | None = None) -> FloatArray:
        """Returns all outputs, (N, outputs) float64, angles in radians."""
        return self._answers(self._seen(clip, now))

    def observe(self, clip: Frames, now: Frames | None = None) -> Observation:
        """Returns answers and neuron values of one pass.

        Neurons that a network repeats over the frames of its window are counted once a frame, each step a layer of its own; the
        first stage of a `TwoStage` module counts on the answered frame alone.

        Reference: DeepTest, section 3.1.
        """
        seen = self.observe_on_device(clip, now)
        return Observation(np.asarray(seen.answers.cpu().numpy(), np.float64), seen.values)

    def observe_on_device(self, clip: Frames, now: Frames | None = None) -> DeviceObservation:
        """Returns what `observe` does without waiting for the device: for loops that ask about many batches and look at sums."""
        seen = self._seen(clip, now)
        parts = self._batched(len(seen), lambda part: self._answer_and_record(seen, part))
        values = [activations.values for _, activations in parts]
        none = torch.zeros((0, self.layers[-1].stop), device=self.network.device)
        together = values[0] if len(values) == 1 else torch.cat(values) if values else none
        answers = [answer for answer, _ in parts]
        if not answers:
            return DeviceObservation(torch.zeros((0, len(self._scale)), dtype=torch.float64, device=none.device), together)
        scale = self._device_scale.to(answers[0].device)
        return DeviceObservation(torch.cat(answers).to(torch.float64) * scale, together)

    def codes(self, small: torch.Tensor, windows: torch.Tensor) -> torch.Tensor:
        """Returns what can be done once a frame, for each frame that ends one of the (N, T) windows: bytes, flow or features.

        small: frames at the network's size, as `assembler.shrink` gives them.
        """
        rows = windows[:, -1]
        if self._staged is None:
            return self.assembler.codes(small, windows)[rows]
        staged = self._staged

        def features(part: slice) -> torch.Tensor:
            with torch.inference_mode():
                return staged.features(self._frame_inputs(small[rows[part]]))

        return torch.cat(self._batched(len(rows), features))

    def answers(self, codes: torch.Tensor, windows: torch.Tensor) -> FloatArray:
        """Returns all outputs for (N, T) windows over rows of `codes`, as `predict` does for a clip."""
        if self._staged is None:
            return self._answers(self._inputs(codes, windows))
        staged = self._staged

        def answer(part: slice) -> torch.Tensor:
            with torch.inference_mode():
                found = staged.forward_windows(*compact(codes, windows[part]))
            return answer_columns(self.description, found, part.stop - part.start)

        return self._scaled(self._batched(len(windows), answer))

    def _seen(self, clip: Frames, now: Frames | None) -> _Seen:
        if self.description.input.history.kind is HistoryKind.SINGLE:
            frames, assembler = clip if now is None else now, self.assembler
            ordered = assembler.normalise if self._channels_last else assembler.maps
            return _Inputs(len(frames), lambda part: ordered(assembler.shrink(frames[part])))  # shrunk by the batch, since frames are large
        return self._seen_of(*self.assembler.windows(clip, now))

    def _seen_of(self, small: torch.Tensor, windows: torch.Tensor) -> _Seen:
        if self._staged is not None:
            return StagedClip(self._staged, self._frame_inputs, small, windows)
        return self._inputs(self.assembler.codes(small, windows), windows)

    def _inputs(self, codes: torch.Tensor, windows: torch.Tensor) -> _Inputs:
        return _Inputs(len(windows), lambda part: self.assembler.inputs(codes, windows[part]))

    def _frame_inputs(self, small: torch.Tensor) -> torch.Tensor:
        return self._ordered(self.assembler.normalise(small))

    def _answers(self, seen: _Seen) -> FloatArray:
        return self._scaled(self._batched(len(seen), lambda part: self._answer(seen, part)))

    def _answer(self, seen: _Seen, part: slice) -> torch.Tensor:
        count = part.stop - part.start
        if isinstance(seen, StagedClip):
            return answer_columns(self.description, seen.answer(part), count)
        inputs = self._padded(self._ordered(seen.of(part)))
        return answer_columns(self.description, self.network.answer(inputs), len(inputs))[:count]

    def _answer_and_record(self, seen: _Seen, part: slice) -> tuple[torch.Tensor, Activations]:
        answer, activations = self._recorded(seen, part)
        if activations.layers != self.layers:
            raise BadSubjectError(f"{self.description.name!r} ran other layers than on the first frame; its neurons cannot be told apart")
        return answer, activations

    def _recorded(self, seen: _Seen, part: slice) -> tuple[torch.Tensor, Activations]:
        count = part.stop - part.start
        if isinstance(seen, StagedClip):
            unit = self.network.unit if isinstance(self.network, TorchNetwork) else NeuronUnit.FILTER
            found, activations = seen.record(part, unit)
            return answer_columns(self.description, found, count), activations
        inputs = self._padded(self._ordered(seen.of(part)))
        found, activations = self.network.record(inputs)
        if len(inputs) != count:
            activations = Activations(activations.values[:count], activations.layers)
        return answer_columns(self.description, found, len(inputs))[:count], activations

    def _batched(self, count: int, run: Callable[[slice], T]) -> list[T]:
        done: list[T] = []
        start = 0
        while start < count:
            part = slice(start, min(start + self.batch_size, count))
            try:
                done.append(run(part))
            except torch.cuda.OutOfMemoryError as error:
                size = part.stop - part.start
                if size == 1 or self._fixed_batch:
                    raise BadSubjectError(
                        f"{self.description.name!r} does not fit into the memory of {self.network.device}; use the CPU"
                    ) from error
                self.batch_size = size // 2
                torch.cuda.empty_cache()
                continue
            start = part.stop
        return done

    def _default_batch(self) -> int:
        """A window of T frames that is taken whole costs about as much as T images."""
        images = _DEFAULT_BATCH.get(self.network.device.type, 32)
        history = self.description.input.history
        whole = history.kind is HistoryKind.RECURRENT and self._staged is None
        return max(1, images // history.frames) if whole else images

    def _ordered(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs if self._channels_last else inputs.contiguous()

    def _padded(self, inputs: torch.Tensor) -> torch.Tensor:
        """Repeats the last image where the network takes one batch size only."""
        missing = (self._fixed_batch or 0) - len(inputs)
        return inputs if missing <= 0 else torch.cat([inputs, inputs[-1:].expand(missing, *inputs.shape[1:])])

    def _scaled(self, answers: list[torch.Tensor]) -> FloatArray:
        if not answers:
            return np.zeros((0, len(self._scale)))
        together = torch.cat(answers).to(torch.float64).cpu().numpy()
        return np.asarray(together * self._scale, np.float64)

    def _try_out(self, fixed: int | None) -> tuple[int | None, tuple[Layer, ...]]:
        """Runs the network on noise; learns its layers and what batches it takes, refuses what cannot be tested.

        Pixel by pixel memory is 1.5 to 2 times faster on CPUs but breaks networks that flatten by `view`; two images at once
        break those traced or exported with a batch of one. The first combination that runs is kept.
        """
        first: BadSubjectError | None = None
        for count in (fixed,) if fixed else (2, 1):
            for channels_last in (False,) if self.network.by_maps else (True, False):
                self._channels_last = channels_last
                try:
                    return (None if count == 2 and not fixed else count), self._trial(count)
                except _CannotRunError as error:
                    first = error if first is None or (count == 2 and not channels_last) else first
        raise first or BadSubjectError(f"{self.description.name!r} could not be tried out")

    def _trial(self, count: int) -> tuple[Layer, ...]:
        spec = self.description.input
        generator = torch.Generator().manual_seed(0)
        noise = torch.randint(0, 256, (count, spec.height_px, spec.width_px * spec.views, 3), generator=generator).to(torch.uint8)
        small = self.assembler.shrink(noise)
        windows = torch.arange(count)[:, None].expand(-1, spec.history.frames).contiguous()
        seen = self._seen_of(small, windows)
        try:
            first, activations = self._recorded(seen, slice(0, count))
            # The first image again: alone, or where the batch is fixed, in other company.
            fixed = self.network.fixed_batch
            beside = self._seen_of(torch.cat([small[:1], 255 - small[1:]]), windows) if fixed else seen
            again = self._answer(beside, slice(0, count if fixed else 1))
        except CANNOT_RUN as error:
            reason = next((line for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)
            shape = (count, *(self.assembler.inputs(small, windows).shape[1:] if self._staged is None else spec.shape))
            raise _CannotRunError(
                f"{self.description.name!r} cannot take an input of shape {shape}, as [input] describes it "
                f"({reason.strip()}); correct width_px, height_px, colour, layout, history or cameras"
            ) from error
        if not torch.allclose(first[:1], again[:1], rtol=1e-2, atol=1e-3, equal_nan=True):
            raise BadSubjectError(
                f"{self.description.name!r} answers {float(first[0, 0]):.4g} and then {float(again[0, 0]):.4g} for the same image; "
                "it was saved in training mode: call .eval() before tracing or exporting it"
            )
        return activations.layers


def _two_stages(network: Network, description: Description) -> TwoStage | None:
    """The module, where the network can compute the features of each frame once."""
    recurrent = description.input.history.kind is HistoryKind.RECURRENT
    module = network.module if isinstance(network, TorchNetwork) else None
    return module if recurrent and isinstance(module, TwoStage) else None
