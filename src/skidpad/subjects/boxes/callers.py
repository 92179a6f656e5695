"""A network behind HTTP: each question is one POST, the answer its body."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from socket import SHUT_RDWR
from threading import Event, Timer
from urllib.parse import urlsplit

import numpy as np
import torch

from skidpad.core.errors import BadSubjectError
from skidpad.core.images import FloatArray
from skidpad.subjects.boxes.protocol import BoxFailureError, Inputs, longest_answer, one_line, question, read_answers, shown
from skidpad.subjects.own_code import named_code

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
