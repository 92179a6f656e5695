"""How a run is made again: commands that can be pasted as they are."""

import shlex

from skidpad.campaigns.doubting import run_doubts
from skidpad.report.wording import plain
from skidpad.runs.folder import Run
from skidpad.runs.tags import Tags


def commands_of(run: Run) -> tuple[str, ...]:
    """Returns what makes the run once more, in a folder beside it, what finishes it, and what writes its report."""
    path = shlex.quote(run.place)
    return (shlex.join(_elsewhere(run.manifest.command)), f"skidpad resume {path}", f"skidpad report {path}")


def run_warnings(run: Run) -> tuple[str, ...]:
    """Returns what a reader of any run must know first: what is odd about its answers, and what is wrong with its evidence."""
    return (*(doubt.said for doubt in run_doubts(run)), *damage_of(run))


def damage_of(run: Run) -> tuple[str, ...]:
    """Returns what is wrong with the evidence: files that were changed, findings and tags that were damaged; nothing where all is whole."""
    told = (run.integrity.doubt, run.damage(), Tags.of(run.path).damage())
    return tuple(plain(f"{words}.", 1000) for words in told if words)


def doubt_words(run: Run) -> str:
    """Returns what stands before the verdict of a run whose answers make no sense before anything is changed; "" where they do."""
    in_doubt = any(doubt.refuses for doubt in run_doubts(run))
    return "In doubt: the answers on unchanged frames make no sense, as said below. " if in_doubt else ""


def _elsewhere(command: tuple[str, ...] | list[str]) -> list[str]:
    """Returns the command with another --out: the folder that it named holds the run, and is refused."""
    words = list(command)
    for place, word in enumerate(words):
        if word == "--out" and place + 1 < len(words):
            words[place + 1] = f"{words[place + 1].rstrip('/')}-again"
        elif word.startswith("--out="):
            words[place] = f"{word.rstrip('/')}-again"
    return words
