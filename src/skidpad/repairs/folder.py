"""The folder of a repair: what it was begun with, so that it is continued with the same and never written over."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.description import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

BEGUN, FINISHED = "begun.json", "repair.json"

_CALLED = {
    "rules": "the version of skidpad, which trains and measures in another way",
    "subject": "the network",
    "run": "the run",
    "drive": "the drive",
    "aim": "the limit to reach",
    "relation": "the relation",
    "findings": "the run or the referee",
    "own": "the loss or the training step",
}
"""What differs, in words, where a hash or a name tells it."""


def begin(out: Path, begun: Mapping[str, object], usual: Mapping[str, object]) -> None:
    """Notes in a folder what a repair was begun with; refuses one that holds a finished repair, or one that was begun otherwise.

    usual: the settings by default; a repair that was begun before skidpad had one of them goes on with its default.
    """
    path = out / BEGUN
    if out.exists() and not out.is_dir():
        raise BadSubjectError(f"{out} is a file, and a repair writes a folder; choose another --out")
    text = json.dumps(begun, indent=2)
    differs = _differing(path.read_text(), json.loads(text), usual) if path.exists() else ""
    if (out / FINISHED).exists():
        other = f" of something else ({differs})" if differs else ""
        raise BadSubjectError(f"{out} holds a finished repair{other}: its report is {out / 'report.html'}; choose another --out")
    others = [each for each in out.iterdir() if each != path] if out.exists() else []
    # a command that was stopped before any work leaves nothing that a better one would spoil
    if others and differs:
        raise BadSubjectError(f"{out} holds a repair that was begun otherwise ({differs}); choose another --out, or repair as then")
    if others and not path.exists():
        raise BadSubjectError(f"{out} is a folder with other files in it; choose another --out")
    write_atomically(path, text.encode())


@contextmanager
def leaving_nothing(out: Path) -> Iterator[None]:
    """Removes the note of a repair that ends before it has done any work, and its folder if it was made for it."""
    was_there, was_begun = out.exists(), (out / BEGUN).exists()
    try:
        yield
    except BaseException:
        if not was_begun and out.is_dir() and {each.name for each in out.iterdir()} <= {BEGUN}:
            (out / BEGUN).unlink(missing_ok=True)
            if not was_there:
                out.rmdir()
        raise


def _differing(stored: str, begun: Mapping[str, object], usual: Mapping[str, object]) -> str:
    """Says what a repair was begun with otherwise; nothing where it is the same."""
    try:
        then = json.loads(stored)
        before = json.loads(json.dumps(usual)) | then["settings"]
        others = [_CALLED.get(name, name) for name, value in begun.items() if name != "settings" and then.get(name) != value]
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{BEGUN} cannot be read"
    now = begun["settings"]
    settings = now if isinstance(now, dict) else {}
    changed = [
        f"{name} was {shown(before.get(name))} and is {shown(value)}" for name, value in settings.items() if before.get(name) != value
    ]
    gone = [f"{name} is no setting any more" for name in before if name not in settings]
    return "; ".join([*(f"{name} differs" for name in others), *changed, *gone])


def shown(value: object) -> str:
    """Words a setting as a user types it: lists with commas, numbers without a point that says nothing."""
    if isinstance(value, list | tuple):
        return ",".join(map(shown, value)) or "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    return "none" if value is None or value == "" else str(value)
