"""How a run is made again: commands that can be pasted as they are."""

import shlex

from skidpad.report.wording import plain
from skidpad.runs.folder import Run


def commands_of(run: Run) -> tuple[str, ...]:
    """Returns what makes the run once more, in a folder beside it, what finishes it, and what writes its report."""
    path = shlex.quote(run.place)
    return (shlex.join(_elsewhere(run.manifest.command)), f"skidpad resume {path}", f"skidpad report {path}")


def damage_of(run: Run) -> tuple[str, ...]:
    """Returns the warning of a run that lacks files of findings because they were damaged; nothing where all are whole."""
    damage = run.damage()
    return (plain(f"{damage}.", 1000),) if damage else ()


def _elsewhere(command: tuple[str, ...] | list[str]) -> list[str]:
    """Returns the command with another --out: the folder that it named holds the run, and is refused."""
    words = list(command)
    for place, word in enumerate(words):
        if word == "--out" and place + 1 < len(words):
            words[place + 1] = f"{words[place + 1].rstrip('/')}-again"
        elif word.startswith("--out="):
            words[place] = f"{word.rstrip('/')}-again"
    return words
