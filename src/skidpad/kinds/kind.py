"""What every campaign is to those who start, resume and report it, whatever it tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from skidpad.core.errors import SkidpadError, UnknownNameError
from skidpad.core.progress import Progress, silent
from skidpad.core.registry import Registry
from skidpad.drives.opening import look_at_drive, open_drive
from skidpad.runs.manifest import Manifest
from skidpad.subjects.loading import load_subject
from skidpad.subjects.recorded import RecordedSubject

if TYPE_CHECKING:
    from skidpad.drives.drive import Drive
    from skidpad.runs.folder import Run
    from skidpad.runs.workers.protocol import Work, Workers
    from skidpad.subjects.base import Subject


class Settings(Protocol):
    """The settings of one campaign; `from_config` of its kind reads back what `to_config` wrote."""

    def to_config(self) -> Mapping[str, Any]:
        """Writes plain values for `config.toml`, with `campaign`, the name of the kind, among them."""
        ...


class Campaign(Protocol):
    """A job with everything loaded: it makes a run, and computes what a run lacks."""

    @property
    def hashes(self) -> Mapping[str, str]:
        """The hash of each thing that the results hang on, by name; they stand in the manifest."""
        ...

    def start(self, out: Path) -> Run:
        """Makes the run folder."""
        ...

    def execute(self, run: Run, progress: Progress = silent, workers: Workers | None = None) -> None:
        """Computes what the run lacks; killed at any moment and executed again, it ends with the same records.

        workers: who computes, which changes nothing about the records; this process where nobody is named.
        """
        ...

    def step(self, name: str, given: Any, /) -> Work:
        """Returns the work of one step of `execute`, for a worker that has loaded the campaign (see `workers.protocol`)."""
        ...

    def item_name(self, step: str, item: Any, /) -> str:
        """Names an item of a step for people."""
        ...


CAMPAIGNS: Registry[Callable[[Mapping[str, Any], Manifest | None], Campaign]] = Registry(
    "campaign",
    "campaigns",
    (
        "skidpad.kinds.pictures.campaign",
        "skidpad.kinds.pictures.weather.campaign",
        "skidpad.kinds.pictures.styles.campaign",
        "skidpad.kinds.duels.campaign",
        "skidpad.kinds.drives.campaign",
        "skidpad.kinds.drives.compare.campaign",
    ),
)
"""The kinds of campaigns by the name that stands in a config; a row reads the config and loads what it names.

It is given the manifest of a run that is only looked at, else None: what the user brought to such a run may be gone, or not be
trusted, so the row takes what the manifest says of it (see `subject_of`).
"""


MOST = 10_000_000
"""Of episodes, scenarios, frames or tries: the largest number that a setting may have."""


def campaign_name(config: Mapping[str, Any], where: str) -> str:
    """Returns the kind of campaign that a config names; `where` says whose config it is."""
    name = config.get("campaign")
    if not isinstance(name, str):
        known = ", ".join(f'"{kind}"' for kind in CAMPAIGNS.names())
        raise SkidpadError(f"{where} does not say what campaign it is; write campaign = one of {known}")
    return name


def _check_sizes(config: Mapping[str, Any], where: str) -> None:
    """Refuses numbers that no campaign can live to see the end of, before somebody reserves memory for them."""
    for name, value in config.items():
        for number in value if isinstance(value, list | tuple) else (value,):
            if isinstance(number, Mapping):
                _check_sizes(number, where)
            elif isinstance(number, float) and not isfinite(number):
                raise SkidpadError(f"{where}: {name} is {number}; write a finite number")
            elif isinstance(number, int) and name != "seed" and abs(number) > MOST:
                raise SkidpadError(f"{where}: {name} is {_shortened(number)}; a setting is at most {MOST}")


def _shortened(number: int) -> str:
    # a whole number of thousands of digits cannot even be written
    return str(number) if number.bit_length() < 100 else f"a number of {number.bit_length()} bits"


def load_campaign(config: Mapping[str, Any], where: str, seen: Manifest | None = None) -> Campaign:
    """Loads the campaign that a config describes; seen: the manifest of a run that is only looked at, which needs no subject."""
    name = campaign_name(config, where)
    _check_sizes(config, where)
    try:
        kind = CAMPAIGNS.get(name)
    except UnknownNameError as error:
        raise SkidpadError(f"{where}: {error}") from error
    return kind(config, seen)


def subject_of(seen: Manifest | None, path: str, device: str) -> Subject:
    """Loads the subject of a campaign; for a run that is only looked at, what the run remembers of it, where it does."""
    if seen is None or not seen.subject:
        return load_subject(path, device)
    return RecordedSubject(seen.subject, partial(load_subject, path, device))


def drive_of(seen: Manifest | None, text: str) -> Drive:
    """Opens the drive of a campaign; for a run that is only looked at, a stand-in where it is gone or lies on a server."""
    return open_drive(text) if seen is None else look_at_drive(text, seen.hashes.get("drive", ""))
