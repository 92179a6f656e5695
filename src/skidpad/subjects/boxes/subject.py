"""A black box as a subject: everything works with it but coverage."""

from __future__ import annotations

import shlex
from dataclasses import replace
from hashlib import file_digest, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Self
from weakref import finalize

import numpy as np
import torch

from skidpad.core import trust
from skidpad.core.errors import BadSubjectError
from skidpad.core.images import FloatArray, Frames
from skidpad.subjects.base import Observation
from skidpad.subjects.boxes.callers import EndpointChannel, FunctionChannel
from skidpad.subjects.boxes.program import ProgramChannel
from skidpad.subjects.boxes.protocol import Channel, Failures, PatientBox
from skidpad.subjects.description import Box, Description, History, HistoryKind
from skidpad.subjects.description_toml import description_hash
from skidpad.subjects.own_code import named_code, python_beside, trusted_code
from skidpad.subjects.windows import Assembler, sliding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from skidpad.subjects.base import Layer
    from skidpad.subjects.boxes.protocol import Inputs

_DEFAULT_BATCH = 32


class BoxSubject:
    """A subject without layers, asked in batches of at most `batch_size` pictures, one batch at a time.

    It is sent what [input] describes, float32 in the described layout: what a network in a file would be given. A box that
    fails is started again; what it does not answer is NaN and counted in `failures`. It ends with `close`, with the subject,
    or with Python.
    """

    def __init__(self, description: Description, folder: Path, *, batch_size: int | None = None) -> None:
        box = description.box
        if box is None:
            raise BadSubjectError(f"{description.name!r} is no black box; its format is {description.format.value!r}")
        names = tuple(output.name for output in description.outputs)
        self.description = description
        self.layers: tuple[Layer, ...] = ()  # a box is not opened
        trust.require(box_code(box, folder))
        self.sha256 = box_hash(description, box, folder)
        self._assembler = Assembler(description.input, torch.device("cpu"))
        self.lead = self._assembler.lead
        self._scale = np.array([output.per_answer for output in description.outputs])
        self.batch_size = batch_size or _default_batch(description.input.history)
        self._box = PatientBox(_channel(box, folder, names), description.name, len(names), box.restarts)
        self._finalizer = finalize(self, self._box.close)
        try:
            self._try_out()
        except BaseException:
            self.close()
            raise

    @property
    def failures(self) -> Failures:
        """What the box has not answered so far."""
        return self._box.failures

    def predict(self, clip: Frames, now: Frames | None = None) -> FloatArray:
        """Returns all outputs, (N, outputs) float64, angles in radians; NaN where the box gave no usable answer."""
        answers = [self._box.ask(inputs) for inputs in self._inputs(clip, now)]
        return np.concatenate(answers) * self._scale if answers else np.zeros((0, len(self._scale)))

    def observe(self, clip: Frames, now: Frames | None = None) -> Observation:
        """Returns the answers, and values without a column."""
        answers = self.predict(clip, now)
        return Observation(answers, torch.zeros((len(answers), 0)))

    def close(self) -> None:
        """Ends the box where it is ours; a question after that starts it again."""
        self._box.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _inputs(self, clip: Frames, now: Frames | None) -> Iterator[Inputs]:
        """Yields a batch of inputs at a time; the frames of a clip are shrunk once, however many windows hold them."""
        size = self.batch_size
        if self.lead == 0:
            frames = clip if now is None else now
            for start in range(0, len(frames), size):
                small = self._assembler.shrink(frames[start : start + size])
                yield self._sent(small, sliding(len(small), 0))
            return
        small, windows = self._assembler.windows(clip, now)
        codes = self._assembler.codes(small, windows)
        for start in range(0, len(windows), size):
            yield self._sent(codes, windows[start : start + size])

    def _sent(self, codes: torch.Tensor, windows: torch.Tensor) -> Inputs:
        return np.ascontiguousarray(self._assembler.inputs(codes, windows).numpy())

    def _try_out(self) -> None:
        """Asks about noise, so that a box that cannot be tested is refused before any work."""
        spec = self.description.input
        noise = np.random.default_rng(0).integers(0, 256, (self.lead + 2, spec.height_px, spec.width_px * spec.views, 3), np.uint8)
        windows = sliding(2, self.lead)
        inputs = self._sent(self._assembler.codes(self._assembler.shrink(noise), windows), windows)
        both, first = self._box.try_out(inputs), self._box.try_out(inputs[:1])
        if not np.allclose(both[:1], first, rtol=1e-2, atol=1e-3, equal_nan=True):
            raise BadSubjectError(
                f"{self.description.name!r} answers {both[0, 0]:.4g} and then {first[0, 0]:.4g} for the same picture; a box must not "
                "remember earlier pictures, and its network must be in evaluation mode"
            )


def box_hash(description: Description, box: Box, folder: Path) -> str:
    """Hashes what can change the answers of a box: its description but for its time limit, and the files that it names."""
    defaults = Box(url="http://")
    patient = replace(box, timeout_s=defaults.timeout_s, restarts=defaults.restarts)
    hashes = [description_hash(replace(description, box=patient))]
    files = [folder / word for word in box.command]
    if box.function is not None:
        source = named_code(box.function, folder, "the function of the box").source
        files = [source] if source is not None else []
    for file in files:
        if file.is_file():
            with file.open("rb") as stream:
                hashes.append(file_digest(stream, "sha256").hexdigest())
    return sha256(" ".join(hashes).encode()).hexdigest()


def box_code(box: Box, folder: Path) -> trust.Code:
    """Returns what asking a box would run, or whom it would send pictures to."""
    if box.function is not None:
        return trusted_code(box.function, folder)
    if box.url is not None:
        return trust.Code(f"send pictures to {box.url}, which a description names", folder)
    named = [file for word in box.command if (file := folder / word).is_file()]
    words = " ".join(box.command)
    return trust.Code(f"run the program {shlex.join(box.command)!r}", folder, (*named, *python_beside(folder, words)))


def _default_batch(history: History) -> int:
    """A window of T frames that is sent whole is as much to send as T pictures."""
    return max(1, _DEFAULT_BATCH // history.frames) if history.kind is HistoryKind.RECURRENT else _DEFAULT_BATCH


def _channel(box: Box, folder: Path, outputs: tuple[str, ...]) -> Channel:
    if box.function is not None:
        return FunctionChannel.of(box.function, folder, outputs)
    if box.url is not None:
        return EndpointChannel(box.url, box.timeout_s, outputs)
    return ProgramChannel(box.command, folder, box.timeout_s, outputs)
