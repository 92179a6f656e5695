"""What people say of a run's findings, in a file of lines that only grows, while the run may still be computed.

Every line is one JSON object with a checksum. A writer that is killed leaves at most one line that the checksum gives away, and the
next writer begins a new one.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skidpad.core.errors import BadRunError, UnknownNameError
from skidpad.core.files import open_plain, read_plain, sync_folder
from skidpad.runs.records import CASE_ID_DIGITS
from skidpad.statistics.intervals import Interval, wilson

if TYPE_CHECKING:
    from skidpad.runs.folder import Run


MAX_BYTES = 64 << 20
"""A journal of answers given by hand is far smaller; what is larger is something else."""

_CHECK = "check"


@dataclass(frozen=True, slots=True)
class Entries:
    """What a journal holds, in the order of writing. damaged: lines that are no whole entry and were left out."""

    rows: tuple[Mapping[str, str], ...]
    damaged: int = 0


@dataclass(frozen=True, slots=True)
class Journal:
    """One append-only file; any number of processes may write to it."""

    path: Path

    def append(self, row: Mapping[str, str]) -> None:
        """Adds one entry, whole or not at all, and forces it to disk; a link is not followed."""
        if _CHECK in row:
            raise ValueError(f"{_CHECK!r} is the journal's own; got {row!r}")
        line = _line(row).encode()
        is_new = not self.path.exists()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = open_plain(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        except OSError as error:
            raise BadRunError(f"cannot write to {self.path}: {error.strerror}; make its folder writable") from error
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                _append(file.fileno(), line)
            except OSError as error:
                raise BadRunError(f"cannot write to {self.path}: {error.strerror}; free some space or mend the disk") from error
        if is_new:
            sync_folder(self.path.parent)

    def read(self) -> Entries:
        """Reads every whole entry; a file that is not there holds none."""
        try:
            lines = read_plain(self.path, MAX_BYTES).decode("utf-8", "replace").splitlines()
        except FileNotFoundError:
            return Entries(())
        except OSError as error:
            raise BadRunError(f"cannot read {self.path}: {error.strerror}; it must be a plain file") from error
        rows = [_row(line) for line in lines if line]
        whole = tuple(row for row in rows if row is not None)
        return Entries(whole, len(rows) - len(whole))

    @property
    def signature(self) -> tuple[int, int]:
        """Changes with every entry, so that a reader knows when to look again."""
        try:
            status = self.path.lstat()
        except OSError:
            return (0, 0)
        return (status.st_size, status.st_mtime_ns)


def _append(descriptor: int, line: bytes) -> None:
    size = os.fstat(descriptor).st_size
    # A writer that was killed may have left a line without its end.
    torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
    data = b"\n" + line if torn else line
    try:
        written = 0
        while written < len(data):
            written += os.write(descriptor, data[written:])
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def _line(row: Mapping[str, str]) -> str:
    return json.dumps({**row, _CHECK: _digest(row)}, sort_keys=True) + "\n"


def _row(line: str) -> Mapping[str, str] | None:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or not all(isinstance(value, str) for value in content.values()):
        return None
    check = content.pop(_CHECK, "")
    return content if check == _digest(content) else None


def _digest(row: Mapping[str, str]) -> str:
    return blake2b(json.dumps(dict(row), sort_keys=True).encode(), digest_size=4).hexdigest()


FILE = "tags.jsonl"
_CASE = re.compile(rf"[0-9a-f]{{1,{CASE_ID_DIGITS}}}", re.ASCII)


class Tag(Enum):
    """What a finding turned out to be."""

    REAL_FAULT = "real fault"
    FALSE_ALARM = "false alarm"
    UNCLEAR = "unclear"

    @classmethod
    def of(cls, text: str) -> Self:
        """Reads a tag by its words."""
        try:
            return cls(text)
        except ValueError:
            raise UnknownNameError.among("tag", text, [tag.value for tag in cls]) from None


@dataclass(frozen=True, slots=True)
class Tags:
    """The tags of one run, an append-only journal in its folder; the last word about a case counts.

    Tagging takes no lock of the run, so that the findings of a campaign can be tagged while it goes on.
    """

    journal: Journal

    @classmethod
    def of(cls, run_folder: Path) -> Self:
        """Returns the tags of the run in a folder; nothing is read yet."""
        return cls(Journal(run_folder / "state" / FILE))

    def put(self, case_id: str, tag: Tag | None) -> None:
        """Tags a case, or with None takes its tag away; kept when this returns."""
        if not _CASE.fullmatch(case_id):
            raise UnknownNameError(f"a case id is up to {CASE_ID_DIGITS} digits of 0-9a-f; got {case_id!r}")
        at = datetime.now(UTC).isoformat(timespec="seconds")
        self.journal.append({"case_id": case_id, "tag": tag.value if tag is not None else "", "at": at})

    @property
    def damaged(self) -> int:
        """How many lines of the file cannot be read, so that what they say is not known."""
        return self.journal.read().damaged

    def damage(self) -> str:
        """Says how many tags cannot be read and what to do; empty where all can."""
        count = self.damaged
        if not count:
            return ""
        lines, they, them = ("1 line is", "it", "it") if count == 1 else (f"{count} lines are", "they", "them")
        return f"{lines} damaged in the tags {self.journal.path}, and what {they} said is lost; remove {them} and tag those findings again"

    def current(self) -> Mapping[str, Tag]:
        """Returns the tag of every case that has one; what `damaged` counts is not among them."""
        known = {tag.value: tag for tag in Tag}
        latest = {row["case_id"]: row.get("tag", "") for row in self.journal.read().rows if "case_id" in row}
        return {case_id: known[text] for case_id, text in latest.items() if text in known}


@dataclass(frozen=True, slots=True)
class TaggedRates:
    """How often cases fail once people have looked: of `cases` judged, `findings` failed, and some of those are tagged."""

    cases: int
    findings: int
    real_faults: int = 0
    false_alarms: int = 0
    unclear: int = 0

    @property
    def untagged(self) -> int:
        """Findings that nobody has looked at."""
        return self.findings - self.real_faults - self.false_alarms - self.unclear

    @property
    def rate(self) -> Interval:
        """The share of findings, as the relation judges."""
        return wilson(self.findings, self.cases)

    @property
    def confirmed(self) -> Interval:
        """The confirmed rate: the share of cases that a person called a real fault; what is not yet tagged counts as none."""
        return wilson(self.real_faults, self.cases)

    @property
    def without_false_alarms(self) -> Interval:
        """The share of findings that nobody called a false alarm; the confirmed rate can only rise to this one."""
        return wilson(self.findings - self.false_alarms, self.cases)

    @property
    def precision(self) -> Interval:
        """Of the findings that were decided, the share of real faults; unclear ones decide nothing."""
        return wilson(self.real_faults, self.real_faults + self.false_alarms)


def tagged_rates(run: Run, without_phases: Collection[str] = ()) -> TaggedRates:
    """Counts the judged cases of a run, its findings and their tags, shard by shard; some phases judge nothing and are left out."""
    tags = Tags.of(run.path).current()
    ids = pa.array(list(tags), pa.string())
    cases = findings = 0
    said: Counter[Tag] = Counter()
    for phase in run.phases():
        if phase in without_phases:
            continue
        for table in run.iter_records(phase, ("case_id", "excess", "violated")):
            found = table.filter(table["violated"])["case_id"]
            cases += int(np.count_nonzero(table["violated"].to_numpy() | ~np.isnan(table["excess"].to_numpy())))
            findings += len(found)
            said.update(tags[case_id] for case_id in found.filter(pc.is_in(found, ids)).to_pylist())
    return TaggedRates(cases, findings, said[Tag.REAL_FAULT], said[Tag.FALSE_ALARM], said[Tag.UNCLEAR])
