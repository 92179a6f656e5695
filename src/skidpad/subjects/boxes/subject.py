"""A black box as a subject, and how it is called: everything works with it but coverage."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from hashlib import file_digest, sha256
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from socket import SHUT_RDWR
from threading import Event, Timer
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit
from weakref import finalize

import numpy as np
import torch

from skidpad.core import trust
from skidpad.core.errors import BadSubjectError
from skidpad.core.images import FloatArray, Frames
from skidpad.subjects.base import Observation
from skidpad.subjects.boxes.program import ProgramChannel
from skidpad.subjects.boxes.protocol import (
    BoxFailureError,
    Channel,
    Failures,
    Inputs,
    PatientBox,
    longest_answer,
    one_line,
    question,
    read_answers,
    shown,
)
from skidpad.subjects.description import Box, Description, description_hash
from skidpad.subjects.inputs import History, HistoryKind
from skidpad.subjects.own_code import named_code, python_beside, trusted_code
from skidpad.subjects.windows import Assembler, sliding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from skidpad.subjects.base import Layer
    from skidpad.subjects.boxes.protocol import Inputs

_FIRST_PAUSE_S = 0.1
_PAUSE_GROWTH = 4.0


class EndpointChannel:
    """One address that is asked; a server that refuses connections is tried again after a pause that grows.

    Proxies are never used, redirections never followed: the address is the box.
    """

    def __init__(self, url: str, timeout_s: float, outputs: tuple[str, ...]) -> None:
        self.what = f"the address {url}"
        self.remedy = "start the server, correct url, or give it more time with timeout_s in [box]"
        self._timeout_s = timeout_s
        self._outputs = outputs
        self._asked = 0
        self._refused = 0
        try:
            parts = urlsplit(url)
            self._host, self._port = parts.hostname or "", parts.port
        except ValueError as error:
            raise BadSubjectError(f"invalid URL {url!r} of the box ({error}); use e.g. http://127.0.0.1:8000/steer") from error
        if parts.scheme not in {"http", "https"} or not self._host or parts.username is not None:
            raise BadSubjectError(f"the URL of a box must be http or https, a host and a path, as http://127.0.0.1:8000/steer; got {url!r}")
        self._kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    def ask(self, inputs: Inputs) -> FloatArray:
        """Posts the inputs and reads the answer, both within the time limit."""
        if self._refused:
            time.sleep(min(_FIRST_PAUSE_S * _PAUSE_GROWTH ** (self._refused - 1), self._timeout_s))
        connection = self._kind(self._host, self._port, timeout=self._timeout_s)
        try:
            connection.connect()
        except (OSError, ValueError) as error:  # a host name may be no name at all
            connection.close()
            self._refused += 1
            raise BoxFailureError(f"cannot be reached ({error})") from error
        self._refused = 0
        return self._exchange(connection, inputs)

    def close(self) -> None:
        """Does nothing: no connection outlives its question, and the server is not ours."""

    def _exchange(self, connection: HTTPConnection, inputs: Inputs) -> FloatArray:
        """Talks over an open connection; a clock cuts it, since a socket's own time limit starts anew with every byte."""
        socket, late = connection.sock, Event()

        def cut() -> None:
            late.set()
            with suppress(OSError):
                socket.shutdown(SHUT_RDWR)

        clock = Timer(self._timeout_s, cut)
        clock.daemon = True
        clock.start()
        try:
            text = self._posted(connection, inputs)
        except (OSError, HTTPException) as error:
            slow = late.is_set() or isinstance(error, TimeoutError)
            reason = f"had not answered after {self._timeout_s:g} s" if slow else f"broke off the connection ({one_line(str(error))})"
            raise BoxFailureError(reason) from error
        finally:
            clock.cancel()
            connection.close()
            clock.join()
        if late.is_set():
            raise BoxFailureError(f"had not answered after {self._timeout_s:g} s")
        return read_answers(text, len(inputs), len(self._outputs))

    def _posted(self, connection: HTTPConnection, inputs: Inputs) -> bytes:
        self._asked += 1
        limit = longest_answer(len(inputs), len(self._outputs))
        headers = {"Content-Type": "application/octet-stream", "Connection": "close"}
        with suppress(BrokenPipeError, ConnectionResetError):  # a server may refuse before it has read all; its answer says why
            connection.request("POST", self._path, b"".join(question(self._asked, inputs, self._outputs)), headers)
        response: HTTPResponse
        with connection.getresponse() as response:
            text = response.read(limit + 1)
        if response.status != 200:
            raise BoxFailureError(f"answered with status {response.status} {response.reason}: {shown(text) or 'nothing more'}")
        if len(text) <= limit and response.length:
            raise BoxFailureError(f"broke off its answer {response.length} bytes before the end")
        if len(text) > limit:
            raise BoxFailureError(f"answered more than the {limit} bytes that the numbers can need")
        return text


class FunctionChannel:
    """Calls `function(inputs)` with float32 (N, ...) in the described layout; what it raises is a failure, how long it takes is not.

    A callable cannot be stopped from outside, so the time limit does not hold for it: a network that may hang is better put
    into a program.
    """

    def __init__(self, function: Callable[[Inputs], object], name: str, outputs: tuple[str, ...]) -> None:
        self.what = f"the function {name!r}"
        self.remedy = "call it by hand and correct it"
        self._function = function
        self._outputs = outputs

    @classmethod
    def of(cls, name: str, folder: Path, outputs: tuple[str, ...]) -> FunctionChannel:
        """Imports `module:name` from the folder or from where Python finds it."""
        function = named_code(name, folder, "the function of the box").value
        if not callable(function):
            raise BadSubjectError(f"the function {name!r} of the box is a {type(function).__name__} and cannot be called; name a function")
        return cls(function, name, outputs)

    def ask(self, inputs: Inputs) -> FloatArray:
        """Calls the function on a copy of the inputs, which it may change."""
        try:
            result = self._function(inputs.copy())
        except (Exception, SystemExit) as error:  # the user's own code may raise anything
            raise BoxFailureError(f"raised {type(error).__name__}: {one_line(str(error))}") from error
        return answer_rows(result, len(inputs), len(self._outputs))

    def close(self) -> None:
        """Does nothing: a function has no end."""


def answer_rows(result: object, count: int, outputs: int) -> FloatArray:
    """Brings what a function returned to (count, outputs).

    It may be an array, a tensor or lists of (count, outputs) numbers, of (count,) for one output, or a tuple (from Keras, a
    list) of one array (count,) or (count, 1) for each output.
    """
    columns = result if isinstance(result, tuple) or _is_list_of_columns(result, count) else None
    parts = [_numbers(part) for part in columns] if isinstance(columns, tuple | list) else [_numbers(result)]
    if not parts or any(part.shape[:1] != (count,) for part in parts):
        got = ", ".join(str(part.shape) for part in parts)
        raise BoxFailureError(f"must answer {count} rows for {count} pictures; got {got or 'nothing'}")
    rows = np.concatenate([part.reshape(count, -1) for part in parts], 1)
    if rows.shape[1] != outputs:
        raise BoxFailureError(f"must answer {outputs} numbers for each picture, one for each [[outputs]]; got {rows.shape[1]}")
    return rows


def _is_list_of_columns(result: object, count: int) -> bool:
    return isinstance(result, list) and bool(result) and all(np.shape(part) == (count, 1) and hasattr(part, "dtype") for part in result)


def _numbers(value: object) -> FloatArray:
    try:
        array = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:
        raise BoxFailureError(f"must answer numbers, (N, outputs); got {shown(value)}") from error
    if array.dtype.kind not in "fiu":
        raise BoxFailureError(f"must answer numbers; got {shown(value)}")
    return np.asarray(array, np.float64)


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
