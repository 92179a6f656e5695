"""How a run is made again: commands that can be pasted as they are."""

import shlex

from skidpad.report.wording import plain
from skidpad.runs.folder import Run
from skidpad.runs.tags import Tags


def commands_of(run: Run) -> tuple[str, ...]:
    """Returns what makes the run once more, in a folder beside it, what finishes it, and what writes its report."""
    path = shlex.quote(run.place)
    return (shlex.join(_elsewhere(run.manifest.command)), f"skidpad resume {path}", f"skidpad report {path}")


def damage_of(run: Run) -> tuple[str, ...]:
    """Returns what is wrong with the evidence: files that were changed, findings and tags that were damaged; nothing where all is whole."""
    told = (run.integrity.doubt, run.damage(), Tags.of(run.path).damage())
    return tuple(plain(f"{words}.", 1000) for words in told if words)


def _elsewhere(command: tuple[str, ...] | list[str]) -> list[str]:
    """Returns the command with another --out: the folder that it named holds the run, and is refused."""
    words = list(command)
    for place, word in enumerate(words):
        if word == "--out" and place + 1 < len(words):
            words[place + 1] = f"{words[place + 1].rstrip('/')}-again"
        elif word.startswith("--out="):
            words[place] = f"{word.rstrip('/')}-again"
    return words
