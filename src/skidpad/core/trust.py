"""Who says that code may run: a person, by `--trust`, by `skidpad trust`, or by an argument in Python; never the file that names it.

Whatever would run code that is not skidpad's own asks here first, before anything is imported or started.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path

from skidpad.core.errors import SkidpadError, UntrustedError
from skidpad.core.files import write_atomically


@dataclass(frozen=True, slots=True)
class Code:
    """Something that would run.

    what: a verb and everything that decides what runs, as the whole command. place: the folder that it comes from. files: those
    whose contents decide what it does, as far as that can be known without running it. remedy: how to allow it for good; empty
    where that is not possible.
    """

    what: str
    place: Path
    files: tuple[Path, ...] = ()
    remedy: str = "skidpad trust SUBJECT"

    def __str__(self) -> str:
        return f"{self.what} in {self.place.absolute()}"

    @property
    def sha256(self) -> str:
        """Changes with what runs, where it lies, and what the files hold."""
        parts = [str(self)]
        for file in sorted({file.absolute() for file in self.files}):
            with file.open("rb") as stream:
                parts += [str(file), file_digest(stream, "sha256").hexdigest()]
        return sha256(json.dumps(parts).encode()).hexdigest()


_trusting: ContextVar[bool] = ContextVar("skidpad_trusting", default=False)
_granted: set[str] = set()
_named: set[str] = set()
"""What a person has named in this process: on the command line, or in a test of their own."""
_handed_over: frozenset[str] | None = None
"""What a worker's driver has allowed; None where this process is no worker."""


@contextmanager
def trusting(*, word: bool = True) -> Iterator[None]:
    """Runs whatever code is named while the context lasts; with word=False, asks again."""
    token = _trusting.set(word)
    try:
        yield
    finally:
        _trusting.reset(token)


def require(code: Code) -> None:
    """Refuses code that no person has allowed."""
    found = code.sha256
    if not _trusting.get() and found not in _named and found not in (_read() if _handed_over is None else _handed_over):
        lasting = f", or for good with `{code.remedy}`" if code.remedy else ""
        raise UntrustedError(f"this would {code}; look at it first, and if you trust it, allow it once with --trust{lasting}")
    _granted.add(found)


def allow(code: Code) -> None:
    """Takes the word of a person who named the code themselves, for as long as this process lives and the code stays as it is."""
    _named.add(code.sha256)


def granted() -> frozenset[str]:
    """Returns the hashes of the code that this process was allowed to run, for a driver to hand to its workers."""
    return frozenset(_granted)


def hand_over(hashes: Iterable[str]) -> None:
    """Makes this process a worker that runs what its driver has allowed, and nothing else, whatever files say."""
    global _handed_over  # noqa: PLW0603 - a process is a worker or not
    _handed_over = frozenset(hashes)


def remember(codes: Iterable[Code]) -> None:
    """Keeps a person's word for as long as nothing changes."""
    _write({**_read(), **{code.sha256: str(code) for code in codes}})


def forget(codes: Iterable[Code]) -> None:
    """Takes the word back, also for what the files held before."""
    unwanted = {str(code) for code in codes}
    _write({found: words for found, words in _read().items() if words not in unwanted})


def is_remembered(code: Code) -> bool:
    """Tells whether a person's word is kept for this very code."""
    return code.sha256 in _read()


def store() -> Path:
    """Returns the file that keeps a person's word."""
    own = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    # a relative one is to be ignored, and would be in whichever folder we look at
    return (own if own.is_absolute() else Path.home() / ".config") / "skidpad" / "trusted.json"


def _read() -> dict[str, str]:
    try:
        with store().open("rb") as file:
            _check_own(os.fstat(file.fileno()))
            found = json.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise SkidpadError(f"cannot read {store()}, which keeps what you trust: {error}; remove it and trust anew") from error
    return {str(key): str(words) for key, words in found.items()} if isinstance(found, dict) else {}


def _check_own(status: os.stat_result) -> None:
    if hasattr(os, "getuid") and (status.st_mode & 0o022 or status.st_uid not in {0, os.getuid()}):
        raise PermissionError("others can write to it, so it may not be your word")


def _write(words: dict[str, str]) -> None:
    file = store()
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(file, (json.dumps(words, indent=2, sort_keys=True) + "\n").encode(), mode=0o600)
    except OSError as error:
        raise SkidpadError(f"cannot write {file}, which keeps what you trust: {error}; use --trust") from error
