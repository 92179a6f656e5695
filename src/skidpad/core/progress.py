"""How long work tells how far it is; only the command line prints."""

from typing import Protocol


class Progress(Protocol):
    """Called from time to time with the items done, the items in all and a short note."""

    def __call__(self, done: int, total: int, note: str = "") -> None:
        """Takes notice."""


def silent(done: int, total: int, note: str = "") -> None:
    """The progress of nobody watching."""
