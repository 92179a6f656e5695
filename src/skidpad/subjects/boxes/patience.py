"""How often a box may fail: a failed question is asked again picture by picture, a dead box ends the work."""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import Lock
from typing import Protocol

import numpy as np

from skidpad.core.errors import BadSubjectError
from skidpad.core.images import FloatArray
from skidpad.subjects.boxes.protocol import BoxFailureError, Inputs

_TRIES_ALONE = 2
_CHECKS_A_BATCH = 2


class Channel(Protocol):
    """A way to one box; asked by one thread at a time."""

    what: str
    """What is asked, for errors, as `the program 'python2 serve.py'`."""

    remedy: str
    """What a user can do about a box that does not answer."""

    def ask(self, inputs: Inputs) -> FloatArray:
        """Returns (N, outputs) for inputs (N, ...) or raises a BoxFailureError; after one, the next question meets a fresh box."""
        ...

    def close(self) -> None:
        """Ends the box where it is ours; it may be asked again and is then started again."""
        ...


@dataclass(frozen=True, slots=True)
class Failures:
    """What a box did not answer.

    pictures: answered with NaN in its place. questions: those that got no usable answer, each followed by a fresh box.
    last: what the last one was, in words.
    """

    pictures: int = 0
    questions: int = 0
    last: str = ""


class PatientBox:
    """Asks a channel, one conversation at a time.

    A question that fails is asked again picture by picture, each twice at most, so that one picture that kills the box costs
    no other its answer. A box is dead when it was started `restarts` times in a row and gave no answer between. The last of
    these chances goes to a picture that it has answered before: where it answers that, it is the new pictures that it cannot
    take; they get NaN, and the second time in one batch the rest of the batch too, since every try may cost the whole time limit.
    """

    def __init__(self, channel: Channel, name: str, outputs: int, restarts: int) -> None:
        self._channel = channel
        self._name = name
        self._outputs = outputs
        self._restarts = restarts
        self._lock = Lock()
        self._in_a_row = 0
        self._known: Inputs | None = None
        self.failures = Failures()

    def try_out(self, sample: Inputs) -> FloatArray:
        """Asks about a first batch, which must be answered whole."""
        with self._lock:
            answers = self._try(sample)
            while answers is None:  # ends: the box answers, or is found dead
                answers = self._try(sample)
            self._known = sample[:1]
            self.failures = Failures()
            return answers

    def ask(self, inputs: Inputs) -> FloatArray:
        """Returns (N, outputs); NaN and a count in `failures` where the box has no usable answer."""
        if len(inputs) == 0:
            return np.zeros((0, self._outputs))
        with self._lock:
            self._checked()
            answers = self._try(inputs)
            if answers is None:
                answers = self._one_by_one(inputs)
            infinite = np.isinf(answers).any(1)
            if infinite.any():
                self._lose(int(infinite.sum()), "answered infinity")
                answers[infinite] = np.nan
            return answers

    def close(self) -> None:
        """Ends the box where it is ours."""
        with self._lock:
            self._channel.close()

    def _try(self, inputs: Inputs) -> FloatArray | None:
        try:
            answers = self._channel.ask(inputs)
        except BoxFailureError as error:
            self._in_a_row += 1
            self.failures = replace(self.failures, questions=self.failures.questions + 1, last=str(error))
            if self._in_a_row > self._restarts:
                times = "once" if self._in_a_row == 1 else f"{self._in_a_row} times in a row"
                raise BadSubjectError(
                    f"{self._name!r}: {self._channel.what} was asked {times} without an answer; at last it {error}; {self._channel.remedy}"
                ) from error
            return None
        self._in_a_row = 0
        return answers

    def _one_by_one(self, inputs: Inputs) -> FloatArray:
        answers = np.full((len(inputs), self._outputs), np.nan)
        lost, checks = 0, 0
        for place in range(len(inputs)):
            one = None
            for _ in range(_TRIES_ALONE):
                checks += self._checked()
                if one is None and checks < _CHECKS_A_BATCH:
                    one = self._try(inputs[place : place + 1])
            if one is None:
                lost += 1
            else:
                answers[place] = one[0]
        self._lose(lost, self.failures.last)
        return answers

    def _checked(self) -> bool:
        """Spends the last chance on the picture that was answered before; tells whether that was needed."""
        if self._known is None or self._in_a_row < max(self._restarts, 1):
            return False
        self._try(self._known)
        return True

    def _lose(self, pictures: int, reason: str) -> None:
        self.failures = replace(self.failures, pictures=self.failures.pictures + pictures, last=reason)
