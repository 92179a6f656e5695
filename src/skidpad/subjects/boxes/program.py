"""A program that reads pictures from its standard input and writes answers to its standard output.

No read or write waits beyond the time limit, whatever the program does: pipes are only touched when they are ready.
"""

from __future__ import annotations

import os
import selectors
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic
from uuid import uuid4

from skidpad.core.errors import BadSubjectError
from skidpad.core.images import FloatArray
from skidpad.subjects.boxes.protocol import AnswerScanner, BoxFailureError, Inputs, Tail, longest_answer, question, read_answers

_CHUNK_BYTES = 1 << 20
_TICK_S = 0.2
"""How soon the death of a program is seen whose children keep its pipes open."""

_GRACE_S = 1.0
"""How long a program may take to end when it is told to, before it is killed."""

_MARK = "SKIDPAD_BOX"
"""The environment variable by which what a program started is known again, also in a session of its own. Linux alone shows it."""

_ROUNDS = 20
"""How often the marked processes are looked for, since one may start another before it is killed."""


class ProgramChannel:
    """One conversation with one program, which is started at the first question and again after every failure."""

    def __init__(self, command: tuple[str, ...], folder: Path, timeout_s: float, outputs: tuple[str, ...]) -> None:
        if sys.platform == "win32":
            raise BadSubjectError('a box with a command needs Linux or macOS; put the network behind HTTP and write url = "http://..."')
        self.what = f"the program {shlex.join(command)!r}"
        self.remedy = f"run it by hand in the folder {str(folder)!r}, or give it more time with timeout_s in [box]"
        self._command = command
        self._folder = folder
        self._timeout_s = timeout_s
        self._outputs = outputs
        self._running: _Running | None = None
        self._asked = 0

    def ask(self, inputs: Inputs) -> FloatArray:
        """Sends the inputs and waits for the answer, both within the time limit; starting counts."""
        running = self._running = self._running or _Running(self._command, self._folder)
        self._asked += 1
        header, numbers = question(self._asked, inputs, self._outputs)
        done = False
        try:
            answer = running.converse((memoryview(header), numbers), self._timeout_s, longest_answer(len(inputs), len(self._outputs)))
            answers = read_answers(answer, len(inputs), len(self._outputs), self._asked)
            done = True
        except BoxFailureError as error:
            words = running.last_words()
            raise BoxFailureError(f"{error}{f' (its last words: {words})' if words else ''}") from error
        finally:
            if not done:  # whatever it was, a conversation broken off cannot go on
                self._running = None
                running.stop(patient=False)
        return answers

    def close(self) -> None:
        """Closes the program's input, which tells it to end, and sees to it that it does."""
        if self._running is not None:
            self._running.stop(patient=True)
            self._running = None


class _Running:
    """A running program in a process group of its own, and our ends of its pipes."""

    def __init__(self, command: tuple[str, ...], folder: Path) -> None:
        self._mark = uuid4().hex
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the user names the program to be run
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd=folder,
                start_new_session=True,
                # The commonest mistake is an answer that stays in Python's buffer.
                env={**os.environ, "PYTHONUNBUFFERED": "1", _MARK: self._mark},
            )
        except (OSError, ValueError) as error:
            raise BadSubjectError(
                f"cannot start the program {command[0]!r} of the box in the folder {str(folder)!r}: {error}; "
                "write its full path as the first word of command"
            ) from error
        self._pipes = [pipe for pipe in (self._process.stdin, self._process.stdout, self._process.stderr) if pipe is not None]
        self._in, self._out, self._err = (pipe.fileno() for pipe in self._pipes)
        for pipe in (self._in, self._out, self._err):
            os.set_blocking(pipe, False)
        self._readable = {self._out, self._err}
        self._scanner = AnswerScanner()
        self._complaints = Tail()

    def converse(self, parts: tuple[memoryview, ...], timeout_s: float, limit: int) -> bytes:
        """Sends the parts and returns the answer of at most `limit` bytes."""
        waiting = [part for part in parts if len(part)]
        total = left = sum(map(len, waiting))
        deadline = monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._in, selectors.EVENT_WRITE)
            for pipe in self._readable:
                selector.register(pipe, selectors.EVENT_READ)
            while True:
                left_s = deadline - monotonic()
                if left_s <= 0.0:
                    raise BoxFailureError(self._too_slow(timeout_s, total - left, total))
                ready = [key.fd for key, _ in selector.select(min(left_s, _TICK_S))]
                if not ready and self._process.poll() is not None:
                    raise self._ended()
                if self._in in ready:
                    left -= self._send(waiting)
                    if not waiting:
                        selector.unregister(self._in)
                if self._err in ready and not self._read_complaints():
                    selector.unregister(self._err)
                answers = self._read_answers(limit) if self._out in ready else []
                if answers and waiting:
                    raise BoxFailureError(f"answered when it had been sent {total - left} of {total} bytes; read the whole question first")
                if answers:
                    return answers[0]

    def last_words(self) -> str:
        """Returns what the program last said besides answers."""
        with suppress(OSError):
            while self._err in self._readable and self._read_complaints():
                pass
        return self._complaints.words() or self._scanner.noise.words()

    def stop(self, *, patient: bool) -> None:
        """Ends the program and everything it started; a patient end lets it go by itself when its input closes."""
        with suppress(OSError):
            self._pipes[0].close()
        for sign in (None, signal.SIGTERM) if patient else (signal.SIGTERM,):
            if sign is not None:
                self._signal(sign)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_S)
                break
        self._signal(signal.SIGKILL)  # also its children, which may have outlived it
        self._process.wait()
        self._kill_marked()
        for pipe in self._pipes:
            pipe.close()

    def _signal(self, sign: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):  # the group is gone already
            os.killpg(self._process.pid, sign)

    def _kill_marked(self) -> None:
        """Kills what the program started in sessions of their own; only one that was given a clean environment is missed."""
        for _ in range(_ROUNDS):
            found = _marked(f"{_MARK}={self._mark}".encode())
            if not found:
                return
            for pid in found:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    def _send(self, waiting: list[memoryview]) -> int:
        try:
            sent = os.write(self._in, waiting[0][:_CHUNK_BYTES])
        except BlockingIOError:
            return 0
        except BrokenPipeError as error:
            raise self._ended() from error
        waiting[0] = waiting[0][sent:]
        if not len(waiting[0]):
            del waiting[0]
        return sent

    def _read_answers(self, limit: int) -> list[bytes]:
        data = self._read(self._out)
        if data == b"":
            raise self._ended()
        return self._scanner.feed(data or b"", limit)

    def _read_complaints(self) -> bool:
        data = self._read(self._err)
        self._complaints.add(data or b"")
        if data == b"":
            self._readable.discard(self._err)
        return bool(data)

    @staticmethod
    def _read(pipe: int) -> bytes | None:
        """Returns what is there, None where nothing is, nothing at the end."""
        try:
            return os.read(pipe, _CHUNK_BYTES)
        except BlockingIOError:
            return None

    def _ended(self) -> BoxFailureError:
        try:
            code = self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            return BoxFailureError("closed its input or output but did not end")
        how = f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"
        return BoxFailureError(f"{how} instead of answering")

    @staticmethod
    def _too_slow(timeout_s: float, sent: int, total: int) -> str:
        if sent < total:
            return f"had taken only {sent} of the {total} bytes of a question after {timeout_s:g} s; does it read its standard input?"
        return f"had not answered after {timeout_s:g} s"


def _marked(mark: bytes) -> list[int]:
    """Returns the processes whose environment bears a mark; none where the system does not show environments."""
    found: list[int] = []
    for place in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it is another user's, or has ended
            if mark in place.read_bytes().split(b"\0"):
                found.append(int(place.parent.name))
    return found
