"""What every campaign is to those who start, resume and report it, whatever it tests."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol, Self

from skidpad.core.errors import BadRunError, SkidpadError, UnknownNameError
from skidpad.core.progress import Progress, silent
from skidpad.core.registry import Registry
from skidpad.core.settings import OneOf, check, plain, read
from skidpad.runs.workers.protocol import Performer

if TYPE_CHECKING:
    import pyarrow as pa

    from skidpad.drives.drive import Drive
    from skidpad.kinds.bundles import Check, Exporter
    from skidpad.kinds.exhibits import Exhibit
    from skidpad.kinds.shrinking import Shrunk
    from skidpad.page.model import Page, Table
    from skidpad.runs.folder import Run
    from skidpad.runs.gate import Outcome
    from skidpad.runs.manifest import Manifest
    from skidpad.runs.replay import Replayed
    from skidpad.runs.workers.protocol import Workers
    from skidpad.statistics.rules import Cases
    from skidpad.subjects.base import Subject


class Campaign(Performer, Protocol):
    """A job with everything loaded: it makes a run, and computes what a run lacks; what its hashes tell stands in the manifest."""

    def start(self, out: Path) -> Run:
        """Makes the run folder."""
        ...

    def execute(self, run: Run, progress: Progress = silent, workers: Workers | None = None) -> None:
        """Computes what the run lacks; killed at any moment and executed again, it ends with the same records.

        workers: who computes, which changes nothing about the records; this process where nobody is named.
        """
        ...


@dataclass(frozen=True, slots=True)
class CaseColumns:
    """Which columns of a kind of records say what. key: what names a case whoever is tested; by default its id.

    group: cases that belong together in a table; "" for the phase. cluster: cases that are not independent. only: rows that count.
    excused: columns, and what says of a row of them whether it is a failure that nobody could have avoided; such are left out, and said.
    led: whether the phases are searches, the first of the run's and others that it is compared with; the first alone counts.
    free, free_hashes: settings and hashes that may differ between runs that are compared, beside those that always may.
    """

    key: tuple[str, ...] = ("case_id",)
    group: str = ""
    cluster: str = "case_id"
    only: tuple[str, str] | None = None
    excused: tuple[tuple[str, ...], Callable[[Mapping[str, Any]], bool]] | None = None
    led: bool = False
    free: frozenset[str] = frozenset()
    free_hashes: frozenset[str] = frozenset()


def lazy(where: str) -> Callable[..., Any]:
    """Returns the function or class `module:name`, which is imported when it is first called: a command imports what it needs alone."""
    module, _, name = where.partition(":")

    def call(*given: Any, **named: Any) -> Any:
        return getattr(import_module(module), name)(*given, **named)

    call.__doc__ = where  # so that a test can tell whether it is there without calling it
    return call


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of campaign: everything that the commands, the gate and the pages ask about its runs.

    summary: one sentence for `skidpad list campaigns`. command: what makes its runs, after `skidpad`, as "drive". load: takes a config and
    the manifest of a run that is only looked at, else None: what the user brought to such a run may be gone, or not be trusted, so that
    what the manifest says of it must do (see `subject_of`). The others take the campaign and its run: page is what any reader sees, figures
    is for `--json`, replay (with a case and the picture to draw, or None) computes a case again, shrink (with a finding's row and a
    progress) finds the smallest case that fails, exporter writes cases as files. exhibit: what the page of `skidpad ui` shows, from the
    config alone. columns: how the gate reads the records. checks: what judges exported findings, by the name in their files. hold: judges a
    run by the limits that it must hold, as `fog.visibility_m=150`. side_by_side: compares several runs in a table. traits: what rules are
    learned from. worst: what the finding with the largest excess is called. A kind without a part says so when asked.
    """

    summary: str
    command: str = ""
    load: Callable[[Mapping[str, Any], Manifest | None], Campaign]
    page: Callable[[Any, Run], Page]
    figures: Callable[[Any, Run], Mapping[str, object]]
    replay: Callable[[Any, Run, str, Path | None], Replayed] | None = None
    shrink: Callable[[Any, Run, Mapping[str, Any], Progress], Shrunk] | None = None
    exporter: Callable[[Any, Run], Exporter] | None = None
    exhibit: Callable[[Mapping[str, Any]], Exhibit] | None = None
    columns: CaseColumns | None = None
    checks: Mapping[str, Callable[..., Check]] = field(default_factory=dict)
    hold: Callable[[Run, Sequence[str]], Sequence[Outcome]] | None = None
    side_by_side: Callable[[Sequence[Run]], Table] | None = None
    traits: Callable[[Any, Run], Cases] | None = None
    worst: str = "worst finding"

    def part(self, name: str, done: str) -> Callable[..., Any]:
        """Returns a part that a kind may lack, or says what then cannot be done, as "exported"."""
        found: Callable[..., Any] | None = getattr(self, name)
        if found is None:
            kinds = [KINDS.get(each) for each in KINDS.names()]
            able = sorted(f"`skidpad {each.command}`" for each in kinds if each.command and getattr(each, name) is not None)
            raise SkidpadError(
                f"findings of this kind of run cannot be {done}; those of {', '.join(able) or 'no command'} can "
                f"(for extenders: its Kind has no {name!r})"
            )
        return found


KINDS: Registry[Kind] = Registry(
    "campaign",
    "campaigns",
    (
        "skidpad.kinds.pictures",
        "skidpad.kinds.pictures.weather",
        "skidpad.kinds.pictures.styles",
        "skidpad.kinds.duels",
        "skidpad.kinds.drives",
        "skidpad.kinds.drives.compare",
        "skidpad.kinds.limits",
        "skidpad.kinds.drives.served",
    ),
)
"""The kinds of campaigns by the name that stands in a config; each is registered by one line in its folder's `__init__.py`, and
the folder is named here."""


MOST = 10_000_000
"""Of episodes, scenarios, frames or tries: the largest number that a setting may have."""


def campaign_name(config: Mapping[str, Any], where: str) -> str:
    """Returns the kind of campaign that a config names; `where` says whose config it is."""
    name = config.get("campaign")
    if not isinstance(name, str):
        known = ", ".join(f'"{kind}"' for kind in KINDS.names())
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


def kind_of(run: Run) -> Kind:
    """Returns the kind of campaign that a run is of."""
    return _kind(run.config, str(run.path))


def _kind(config: Mapping[str, Any], where: str) -> Kind:
    name = campaign_name(config, where)
    try:
        return KINDS.get(name)
    except UnknownNameError as error:
        raise SkidpadError(f"{where}: {error}") from error


def load_campaign(config: Mapping[str, Any], where: str, seen: Manifest | None = None) -> Campaign:
    """Loads the campaign that a config describes; seen: the manifest of a run that is only looked at, which needs no subject."""
    kind = _kind(config, where)
    _check_sizes(config, where)
    return kind.load(config, seen)


def start_run(
    campaign: Campaign, out: Path, config: Mapping[str, Any], schema: pa.Schema | None = None, *frame_shapes: Sequence[int]
) -> Run:
    """Makes the run folder of a campaign: its config, and a manifest of what it depends on.

    schema: the columns of its records. frame_shapes: of the frames that the subject is shown, where they are known.
    """
    from skidpad.runs.folder import Run  # noqa: PLC0415  what only looks up a kind needs no store
    from skidpad.runs.manifest import Manifest  # noqa: PLC0415  see above
    from skidpad.subjects.base import subject_record  # noqa: PLC0415  see above
    from skidpad.subjects.inputs import check_cameras  # noqa: PLC0415  see above

    subject, drive = getattr(campaign, "subject", None), getattr(campaign, "drive", None)
    if subject is not None:
        check_cameras(subject.description.input, () if drive is None else drive.cameras, "the world" if drive is None else "the drive")
    manifest = Manifest.collect(
        device=str(config.get("device", "cpu")),
        seed=int(config.get("seed", 0)),
        hashes=campaign.hashes,
        command=(Path(sys.argv[0]).name.replace("__main__.py", "skidpad"), *sys.argv[1:]),
        subject=None if subject is None else subject_record(subject, *frame_shapes),
    )
    return Run.create(out, config, manifest) if schema is None else Run.create(out, config, manifest, schema)


def check_unchanged(campaign: Campaign, run: Run, schema: pa.Schema | None = None) -> None:
    """Refuses to go on with a run whose subject, drive or scenarios are not those it began with, or that an older version began."""
    if schema is not None and not run.schema.equals(schema):
        raise BadRunError(
            f"the run {run.path} was begun by an older skidpad, whose records have other columns; start it anew with another --out"
        )
    for what, now in campaign.hashes.items():
        if run.manifest.hashes.get(what) != now:
            raise BadRunError(
                f"the {what} has changed since the run {run.path} began, so its findings would not belong together; "
                "put it back, or start a new run with another --out"
            )


def subject_of(seen: Manifest | None, path: str, device: str) -> Subject:
    """Loads the subject of a campaign; for a run that is only looked at, what the run remembers of it, where it does."""
    from skidpad.subjects.base import RecordedSubject  # noqa: PLC0415  see above
    from skidpad.subjects.loading import load_subject  # noqa: PLC0415  torch is for those who load a subject

    if seen is None or not seen.subject:
        return load_subject(path, device)
    return RecordedSubject(seen.subject, partial(load_subject, path, device))


def drive_of(seen: Manifest | None, text: str) -> Drive:
    """Opens the drive of a campaign; for a run that is only looked at, a stand-in where it is gone or lies on a server."""
    from skidpad.drives.opening import look_at_drive, open_drive  # noqa: PLC0415  see above

    return open_drive(text) if seen is None else look_at_drive(text, seen.hashes.get("drive", ""))


class RefereeUse(Enum):
    """Whether the referee is asked if a finding's picture still shows the same scene; without it every finding counts, as in the papers."""

    ON = "on"
    OFF = "off"


def asks_referee(setting: str) -> bool:
    """Tells whether a setting asks the referee."""
    return setting == RefereeUse.ON.value


RefereeName = Annotated[str, OneOf("use of the referee", RefereeUse)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignSettings:
    """Settings of one kind of campaign; a subclass is a frozen dataclass whose annotations say what its fields may be.

    campaign: the name of the kind. notes: what a stored config says beside the settings. former: what a run was made with whose config has
    such notes and lacks these settings, since an older version stored it.
    """

    campaign: ClassVar[str]
    notes: ClassVar[frozenset[str]] = frozenset()
    former: ClassVar[Mapping[str, Any]] = {}

    def __post_init__(self) -> None:
        check(self)
        self.check_together()

    def check_together(self) -> None:
        """Refuses settings that do not go together; the type and range of each have been checked."""

    def to_config(self) -> dict[str, Any]:
        """Writes the settings as plain values for `config.toml`; what is None is left out."""
        return {"campaign": self.campaign, **plain(self)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Reads what `to_config` wrote; keys left out keep their default, unknown ones and wrong values are errors."""
        former = cls.former if cls.notes & config.keys() else {}
        given = {name: value for name, value in config.items() if name not in {"campaign", *cls.notes}}
        return read(cls, {**former, **given}, "the campaign", noun="setting")
