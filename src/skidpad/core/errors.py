"""The one small tree of exceptions, each with the exit code of the command that it ends; and packages of an extra, missed by name."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Self


class SkidpadError(Exception):
    """Something a user can mend; the message says what was wrong, what was got and what to do."""

    exit_code = 2


class UnknownNameError(SkidpadError):
    """A name that no registry row, column or key answers to."""

    @classmethod
    def among(cls, noun: str, got: str, known: Iterable[str], others: Iterable[str] = ()) -> Self:
        """Builds the message `no NOUN named 'GOT'`, with the nearest known name or all of them; others: names that may be the nearest."""
        names = sorted(known)
        near = get_close_matches(got, [*names, *others], n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names) or 'none'}"
        return cls(f"no {noun} named {got!r}; {hint}")


class BadParametersError(SkidpadError):
    """Parameters outside a stimulus's space."""


class BadDriveError(SkidpadError):
    """A drive that cannot be read at all; single broken frames are problems, not errors."""


class LostDriveError(BadDriveError):
    """A drive that was there and is gone as a whole, as a network folder that is no longer mounted; it may come back."""


class BadSubjectError(SkidpadError):
    """A subject description or model file that cannot or must not be loaded."""


class UntrustedError(BadSubjectError):
    """Code that would run although no person has said that it may."""


class BadRunError(SkidpadError):
    """A run folder that is missing, foreign, damaged or in use."""


class WorkersError(SkidpadError):
    """Workers that cannot begin, or are all gone."""


class LostWorkError(SkidpadError):
    """Some items of a map killed every worker that took them; all others are done.

    lost: how the last worker ended, by the name of the item.
    """

    def __init__(self, lost: Mapping[str, str]) -> None:
        words = "; ".join(f"{name}: {reason}" for name, reason in lost.items())
        super().__init__(f"{len(lost)} pieces of work ended every worker that took them ({words}); give each worker more memory")
        self.lost = dict(lost)

    def __reduce__(self) -> tuple[type[Self], tuple[Mapping[str, str]]]:
        return type(self), (self.lost,)


class IncompleteRunError(SkidpadError):
    """A run that was carried on as far as it goes, but lacks shards that kill their workers."""

    exit_code = 3


class MissingExtraError(SkidpadError):
    """An optional package that a feature needs is not installed."""

    @classmethod
    def of(cls, package: str, extra: str, purpose: str) -> Self:
        """Names the extra that brings `package`."""
        return cls(f"{purpose} needs the package {package!r}; install it with: pip install 'skidpad[{extra}]'")


def optional(module: str, package: str, extra: str, purpose: str) -> Any:
    """Imports a module of an optional package, or names the extra that brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError.of(package, extra, purpose) from error


class InterruptedRunError(SkidpadError):
    """The user stopped a run; everything committed so far is kept."""

    exit_code = 130
