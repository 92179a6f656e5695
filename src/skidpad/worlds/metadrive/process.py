"""The process that runs MetaDrive: started under its own interpreter, asked through a pipe, kept for the next world."""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from time import monotonic
from typing import Any

from skidpad.core.errors import SkidpadError

PYTHON = "SKIDPAD_METADRIVE_PYTHON"
"""The environment variable that names the interpreter which has MetaDrive."""

SET_UP = (
    "python3.11 -m venv metadrive && metadrive/bin/pip install metadrive-simulator==0.3.0.1 panda3d-simplepbr==0.10 panda3d-gltf==0.13 && "
    f'export {PYTHON}="$PWD/metadrive/bin/python"'
)
_BEGIN_S, _ANSWER_S = 600.0, 120.0
_CHUNK_BYTES = 1 << 20
_LAST_WORDS = 400


class MetaDriveError(SkidpadError):
    """MetaDrive cannot be started, or has stopped answering."""


@dataclass(frozen=True, slots=True)
class ProcessAnswer:
    """The server's answer, and the bytes of a picture."""

    values: Mapping[str, Any]
    picture: bytes


def interpreter() -> str:
    """Returns the interpreter that has MetaDrive, or says how to set one up."""
    named = os.environ.get(PYTHON, "")
    if named:
        if not Path(named).is_file():
            raise MetaDriveError(f"{PYTHON} names {named!r}, which is not a file; set it up with: {SET_UP}")
        return named
    if find_spec("metadrive") is not None:
        return sys.executable
    raise MetaDriveError(f"the world 'metadrive' needs MetaDrive under an interpreter of its own; set it up with: {SET_UP}")


class MetaDriveProcess:
    """One running MetaDrive. Asked by one thread at a time; an answer that does not come in time ends it."""

    def __init__(self, camera: Mapping[str, float]) -> None:
        self.camera = dict(camera)
        # Isolated, so that its own folder is not searched: a module there has the name of the package.
        command = [interpreter(), "-I", "-u", str(Path(__file__).with_name("server.py"))]
        self._errors = TemporaryFile()  # noqa: SIM115 - open as long as the process is, and closed with it
        self._last_words = "none"
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the user names the interpreter
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, bufsize=0
            )
        except OSError as error:
            self._errors.close()
            raise MetaDriveError(f"cannot start {command[0]!r}: {error}; set it up with: {SET_UP}") from error
        self._read = bytearray()
        self.ask({"do": "begin", "camera": self.camera}, _BEGIN_S)

    @property
    def is_running(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def ask(self, question: Mapping[str, object], limit_s: float = _ANSWER_S) -> ProcessAnswer:
        """Sends a question and waits for the answer."""
        deadline = monotonic() + limit_s
        try:
            self._write(json.dumps(question).encode() + b"\n")
            while b"\n" not in self._read:
                self._more(deadline, limit_s)
            line, _, rest = bytes(self._read).partition(b"\n")
            values = json.loads(line)
            self._read = bytearray(rest)
            while len(self._read) < values["picture"]:
                self._more(deadline, limit_s)
        except (OSError, ValueError, KeyError) as error:
            self.close()
            raise MetaDriveError(f"MetaDrive stopped answering ({error}); its last output: {self._last_words}") from error
        picture, self._read = bytes(self._read[: values["picture"]]), self._read[values["picture"] :]
        if "error" in values:
            self.close()
            raise MetaDriveError(f"MetaDrive failed: {values['error']}; its last output: {self._last_words}")
        return ProcessAnswer(values, picture)

    def close(self) -> None:
        """Ends the process."""
        with suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        if not self._errors.closed:
            self._errors.seek(0)
            self._last_words = " ".join(self._errors.read().decode(errors="replace").split())[-_LAST_WORDS:] or "none"
            self._errors.close()

    def _write(self, data: bytes) -> None:
        pipe = self._process.stdin
        if pipe is None or pipe.closed:
            raise OSError("it has ended")
        pipe.write(data)

    def _more(self, deadline: float, limit_s: float) -> None:
        pipe = self._process.stdout
        if pipe is None or pipe.closed:
            raise OSError("it has ended")
        ready, _, _ = select.select([pipe], [], [], max(deadline - monotonic(), 0.0))
        if not ready:
            raise OSError(f"no answer after {limit_s:g} s")
        data = os.read(pipe.fileno(), _CHUNK_BYTES)
        if not data:
            raise OSError("it has ended")
        self._read += data


_IDLE: list[MetaDriveProcess] = []
_LOCK = Lock()


def borrow(camera: Mapping[str, float]) -> MetaDriveProcess:
    """Returns a process that nobody uses, or starts one, which takes a quarter of a minute."""
    with _LOCK:
        for process in [each for each in _IDLE if each.camera == dict(camera)]:
            _IDLE.remove(process)
            if process.is_running:
                return process
            process.close()
    return MetaDriveProcess(camera)


def give_back(process: MetaDriveProcess) -> None:
    """Keeps a process for the next world."""
    with _LOCK:
        if process.is_running:
            _IDLE.append(process)
        else:
            process.close()


@atexit.register
def close_idle() -> None:
    """Ends the processes that nobody uses."""
    with _LOCK:
        while _IDLE:
            _IDLE.pop().close()
