"""An ONNX model as a network."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from skidpad.core.errors import BadSubjectError
from skidpad.core.layers import Layer
from skidpad.subjects.onnx.operations import RECURRENT
from skidpad.subjects.onnx.sessions import Session
from skidpad.subjects.probe import Activations

if TYPE_CHECKING:
    from skidpad.subjects.onnx.observing import ObservedLayer
    from skidpad.subjects.operations import Kind

Arrays = list[NDArray[Any]]

_CPU_PIECE = 16
"""Images that one thread runs at once. Always the same, so that answers do not hang on the number of threads; with fewer, the
weights of a large dense layer are fetched too often."""


@dataclass(frozen=True, slots=True)
class Sessions:
    """The model twice: giving its answers alone, and giving the values of its layers as well."""

    plain: Session
    observed: Session
    answers: tuple[str, ...]
    values: tuple[str, ...]


class OnnxNetwork:
    """Runs an ONNX model, piece by piece; a batch of several pieces goes over as many threads as torch may use.

    piece: the only number of images that the model takes; what is missing of it is filled up and taken away again.
    """

    def __init__(
        self,
        sessions: Sessions,
        layers: Sequence[ObservedLayer],
        device: torch.device,
        *,
        parameters: int,
        element_type: type[np.generic],
        piece: int | None,
    ) -> None:
        self.device = device
        self.parameters = parameters
        self.fixed_batch: int | None = None
        self.by_maps = True
        self._sessions = sessions
        self._observed = tuple(layers)
        self._element_type = element_type
        self._fixed_piece = piece
        self._threads = ThreadPoolExecutor(max(1, torch.get_num_threads()), "skidpad-onnx")

    def answer(self, inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Returns the graph's outputs in order."""
        parts = self._run(self._sessions.plain, self._sessions.answers, inputs)
        return tuple(self._joined([part[place] for part in parts]) for place in range(len(self._sessions.answers)))

    def record(self, inputs: torch.Tensor) -> tuple[tuple[torch.Tensor, ...], Activations]:
        """Returns the outputs and the value of every neuron, of one pass."""
        if not self._observed:
            raise BadSubjectError("the network has no convolution and no dense layer that could be observed; test it without coverage")
        names = (*self._sessions.answers, *self._sessions.values)
        parts = self._run(self._sessions.observed, names, inputs)
        count = len(self._sessions.answers)
        answers = tuple(self._joined([part[place] for part in parts]) for place in range(count))
        layers: list[Layer] = []
        kept: list[NDArray[np.float32]] = []
        start = 0
        for place, observed in enumerate(self._observed, count):
            values = np.concatenate([part[place] for part in parts]).astype(np.float32, copy=False)
            steps = [f".t{step:03d}" for step in range(values.shape[1])] if values.ndim == 3 else [""]
            for step in steps:
                layers.append(Layer(f"{observed.name}{step}", start, start + values.shape[-1]))
                start += values.shape[-1]
            kept.append(values.reshape(len(inputs), -1))
        return answers, Activations(torch.from_numpy(np.concatenate(kept, 1)).to(self.device), tuple(layers))

    def _joined(self, arrays: Arrays) -> torch.Tensor:
        return torch.from_numpy(arrays[0] if len(arrays) == 1 else np.concatenate(arrays)).to(self.device)

    def _run(self, session: Session, names: Sequence[str], inputs: torch.Tensor) -> list[Arrays]:
        inputs = inputs.contiguous()
        size = self._fixed_piece or (_CPU_PIECE if self.device.type == "cpu" else len(inputs))
        pieces = [inputs[start : start + size] for start in range(0, len(inputs), size)]

        steps = inputs.shape[1] if inputs.ndim == 5 else 0
        count = len(self._sessions.answers)

        def run(piece: torch.Tensor) -> Arrays:
            missing = (self._fixed_piece or 0) - len(piece)
            whole = piece if missing <= 0 else torch.cat([piece, piece[-1:].expand(missing, *piece.shape[1:])])
            given = session.run(whole, names, self._element_type)
            answers = [np.atleast_1d(array) for array in given[:count]]
            values = [_neurons(array, len(whole), steps, layer.kind) for array, layer in zip(given[count:], self._observed, strict=False)]
            return [array[: len(piece)] for array in (*answers, *values)]

        if len(pieces) == 1 or torch.get_num_threads() == 1 or self.device.type != "cpu":
            return [run(piece) for piece in pieces]
        return list(self._threads.map(run, pieces))


def _neurons(array: NDArray[Any], images: int, steps: int, kind: Kind) -> NDArray[Any]:
    """Gives a layer's value a row for each image, (N, neurons) or, where it runs once a step, (N, steps, neurons)."""
    rows = len(array)
    if rows % images:
        raise ValueError(f"a layer's value of shape {array.shape} has no row for each of {images} images")
    if kind in RECURRENT:
        return array.reshape(images, array.shape[1], -1)
    repeated = steps > 1 and (rows == images * steps or array.shape[1:-1] == (steps,))
    return array.reshape(images, steps, -1) if repeated else array.reshape(images, -1)
