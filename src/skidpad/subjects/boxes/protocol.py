"""What a box is sent and what it answers, the same over a pipe and over HTTP.

A question is one line of JSON, `{"version": 1, "id": 7, "shape": [32, 3, 66, 200], "dtype": "float32", "outputs": ["steering"]}`,
and after it the numbers: little-endian float32, the last axis fastest. An answer is `{"id": 7, "answers": [[0.1], ...]}`, a row
for each picture; `null` and `NaN` stand for a picture without an answer. Over a pipe an answer is one line that begins with
`skidpad-answer:`, so that whatever else a program prints is told apart from it.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from threading import Lock
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skidpad.core.errors import BadSubjectError
from skidpad.core.images import FloatArray

Inputs: TypeAlias = NDArray[np.float32]

VERSION = 1
ANSWER_MARK = b"skidpad-answer:"

_ROOM_BYTES = 4096
_NUMBER_BYTES = 64
"""A float64 written out in full takes 25 characters; more than twice that is no number."""

_KEPT_BYTES = 4096
_SHOWN_LINES = 5
_SHOWN_CHARACTERS = 160


class BoxFailureError(BadSubjectError):
    """One question that got no usable answer; the message goes on after "the box "."""


def question(ticket: int, inputs: Inputs, outputs: tuple[str, ...]) -> tuple[bytes, memoryview]:
    """Returns the line of JSON and the numbers of a question about inputs (N, ...), N at least 1."""
    header = {"version": VERSION, "id": ticket, "shape": list(inputs.shape), "dtype": "float32", "outputs": list(outputs)}
    return json.dumps(header).encode() + b"\n", np.ascontiguousarray(inputs, "<f4").data.cast("B")


def longest_answer(count: int, outputs: int) -> int:
    """Returns how many bytes an answer about `count` pictures may have."""
    return _ROOM_BYTES + _NUMBER_BYTES * count * outputs


def read_answers(text: bytes, count: int, outputs: int, ticket: int | None = None) -> FloatArray:
    """Reads an answer to a question about `count` pictures, (count, outputs); with a ticket, the answer must bear it."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BoxFailureError(f"answered what is not JSON: {shown(text)}") from error
    if not isinstance(answer, dict) or "answers" not in answer:
        raise BoxFailureError(f'must answer an object {{"answers": [...]}}; got {shown(text)}')
    if ticket is not None and answer.get("id") != ticket:
        raise BoxFailureError(f"was asked question {ticket} and answered question {shown(answer.get('id'))}; repeat the id of the question")
    rows = answer["answers"]
    if not isinstance(rows, list) or len(rows) != count:
        got = f"{len(rows)} rows" if isinstance(rows, list) else shown(rows)
        raise BoxFailureError(f"must answer {count} rows for {count} pictures; got {got}")
    return np.array([_row(row, outputs) for row in rows], np.float64)


def _row(row: object, outputs: int) -> list[float]:
    numbers = row if isinstance(row, list) else [row]
    if len(numbers) != outputs:
        raise BoxFailureError(f"must answer {outputs} numbers for each picture, one for each [[outputs]]; got {shown(row)}")
    return [_number(number) for number in numbers]


def _number(value: object) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BoxFailureError(f"must answer numbers; got {shown(value)}")
    try:
        return float(value)
    except OverflowError:  # a whole number beyond all floats
        return math.inf


class AnswerScanner:
    """Finds the answers in what a program prints; everything else is noise, of which the end is kept.

    An answer may follow noise on the same line, as where a progress bar ends without a newline. Memory is bounded whatever
    the program prints.
    """

    def __init__(self) -> None:
        self._pending = b""
        self.noise = Tail()

    def feed(self, data: bytes, limit: int) -> list[bytes]:
        """Takes what was read and returns the answers that are now whole, at most `limit` bytes each, without the mark."""
        lines = (self._pending + data).split(b"\n")
        self._pending = lines.pop()
        found: list[bytes] = []
        for line in lines:
            noise, mark, answer = line.partition(ANSWER_MARK)
            self.noise.add(noise if mark else noise + b"\n")
            if mark:
                found.append(answer)
        noise, _, unfinished = self._pending.partition(ANSWER_MARK)
        if len(noise) > _KEPT_BYTES and noise == self._pending:
            self.noise.add(noise[: -len(ANSWER_MARK)])
            self._pending = noise[-len(ANSWER_MARK) :]  # the mark itself may be cut in two
        if any(len(answer) > limit for answer in (*found, unfinished)):
            raise BoxFailureError(f"answered more than the {limit} bytes that the numbers can need")
        return found


class Tail:
    """The last bytes of a stream, for people to read."""

    def __init__(self) -> None:
        self._kept = b""

    def add(self, data: bytes) -> None:
        """Adds what was read."""
        self._kept = (self._kept + data)[-_KEPT_BYTES:]

    def words(self) -> str:
        """Returns the last few lines as one; empty where nothing was said."""
        lines = [line.strip()[:_SHOWN_CHARACTERS] for line in self._kept.decode(errors="replace").splitlines() if line.strip()]
        return " | ".join(lines[-_SHOWN_LINES:])


def shown(value: object) -> str:
    """Returns the beginning of whatever was got, on one line."""
    return one_line(value.decode(errors="replace") if isinstance(value, bytes) else repr(value))


def one_line(text: str) -> str:
    """Returns the beginning of a text without its line ends."""
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."


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

    def close(self) -> None:
        """Ends the box where it is ours; it may be asked again and is then started again."""


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
