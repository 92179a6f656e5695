"""A Python callable in this process: the user's own code, named by the user."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from skidpad.core.errors import BadSubjectError
from skidpad.core.images import FloatArray
from skidpad.subjects.boxes.protocol import BoxFailureError, Inputs, one_line, shown
from skidpad.subjects.named_code import named_code


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
