"""One run as the page holds it: opened once, looked at again before every answer, asked by any thread."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from math import isfinite
from threading import Lock
from typing import TYPE_CHECKING

from skidpad.core.errors import BadRunError, SkidpadError, UnknownNameError
from skidpad.core.files import checked_file, is_held
from skidpad.core.images import encode
from skidpad.kinds.exhibits import Exhibit, Motion, PictureSide, Row, columns_of, exhibit_of
from skidpad.page.wording import plain
from skidpad.runs.folder import Run
from skidpad.runs.manifest import MAX_SEGMENTS, check_run
from skidpad.runs.tags import Tag, TaggedRates, Tags
from skidpad.ui.reading import Choices, ColumnsRate, Line, RecordReader
from skidpad.ui.rows import FAILURES, Database, Rows, count_directly, mean_square

if TYPE_CHECKING:
    from pathlib import Path

    from skidpad.kinds.exhibits import Rule
    from skidpad.runs.gate import Cases

JPEG_QUALITY = 92
MAX_REPORT_BYTES = 64 << 20
WORST = 16
FEW = 4
"""Where fewer groups than this have a finding, the next worst of all are shown as well."""
_BROKEN = (*FAILURES, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, MemoryError)
"""What a damaged or hostile run folder can raise, besides our own errors."""


@dataclass(frozen=True, slots=True)
class FoundRun:
    """One run folder. key: what addresses call it, a hash of its place; name: the place itself, to be shown."""

    key: str
    name: str
    path: Path


class State(Enum):
    """How far a run is."""

    FINISHED = "finished"
    RUNNING = "running"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Digest:
    """The figures of a run: overall, of each group, the worst finding of each, and the columns worth a choice.

    worst: where nothing failed, what came nearest to it. already_broken: findings whose original breaks the rule by itself.
    parts: the rates of those whose cases are never put into one, as of several egos.
    """

    rates: TaggedRates
    groups: tuple[ColumnsRate, ...]
    worst: tuple[Line, ...]
    choices: tuple[Choices, ...]
    rule: Rule
    already_broken: int
    parts: tuple[ColumnsRate, ...] = ()


class RunView:
    """One opened run. What is wrong with its folder is a BadRunError; nothing changes the run, except that tags are added to it."""

    def __init__(self, found: FoundRun, database: Database) -> None:
        self.found = found
        self.tags = Tags.of(found.path)
        self._database = database
        self._lock = Lock()
        self._drawing = Lock()
        with self._told():
            check_run(found.path, MAX_SEGMENTS)
            self.run = Run.open(found.path, set_aside=False)
            self.exhibit: Exhibit = exhibit_of(self.run.config)
            self.columns = columns_of(self.run.schema, self.exhibit.config)
            if not self.exhibit.fits(self.columns):
                self.exhibit = Exhibit(self.run.config)
        self._rows: Rows | None = None
        self._tagged: tuple[int, int] | None = None
        self._digest: Digest | None = None
        self._counted: tuple[object, TaggedRates] | None = None
        self._rule: Rule | None = None

    @property
    def kind(self) -> str:
        """The name of its campaign."""
        return plain(str(self.run.config.get("campaign", "unknown")), 40)

    def setting(self, name: str) -> str:
        """Returns a setting as words, "" where there is none."""
        value = self.run.config.get(name, "")
        return plain(value, 200) if isinstance(value, str) else plain(str(value), 200)

    @property
    def state(self) -> State:
        """Whether it is finished, or somebody works on it now."""
        with self._told():
            if self.run.is_finished:
                return State.FINISHED
            return State.RUNNING if is_held(self.found.path) else State.STOPPED

    def shards(self) -> Mapping[str, tuple[int, int]]:
        """Returns for each phase how many shards are kept and how many there will be, 0 where that is not known."""
        with self._told():
            kept = {phase: len(self.run.completed(phase)) for phase in self.run.phases()}
            # A finished run has them all; only for one under way is the drive opened to see how long it is.
            expected = dict.fromkeys(kept, 0) | dict(kept if self.run.is_finished else self.exhibit.shards())
        return {phase: (kept.get(phase, 0), total) for phase, total in expected.items()}

    def reader(self) -> RecordReader:
        """Looks at the folder, brings the table and its tags up to date, and returns what answers questions about it."""
        with self._told(), self._lock:
            check_run(self.found.path, MAX_SEGMENTS)
            self.run.refresh()
            segments = self.run.segments()
            names = {segment.path.name for segment in segments}
            if self._rows is not None and not self._rows.kept <= names:
                self._forget()
            if self._rows is None:
                self._rows, self._tagged = Rows(self._database, self.columns), None
            if not names <= self._rows.kept:
                self._rows.add(segments)
                self._digest = None
                if self.exhibit.numbered:
                    self.exhibit.numbers = self._reader(self._rows).numbered("recipe")
            signature = self.tags.journal.signature
            if signature != self._tagged:
                self._rows.tag({case_id: tag.value for case_id, tag in self.tags.current().items()})
                self._tagged = signature
                self._digest = None
            return self._reader(self._rows)

    def rates(self) -> TaggedRates:
        """Counts cases, findings and tags; for a run whose rows nobody asked for without copying them."""
        if self._rows is not None:
            return self.digest().rates
        with self._told():
            check_run(self.found.path, MAX_SEGMENTS)
            self.run.refresh()
            judged = [segment for segment in self.run.segments() if segment.phase not in self.exhibit.unjudged]
            key = (tuple(segment.path.name for segment in judged), self.tags.journal.signature)
            if self._counted is None or self._counted[0] != key:
                self._counted = (key, count_directly(self._database, judged, self.tags.current()))
            return self._counted[1]

    def digest(self) -> Digest:
        """Returns what the page of the run shows above its rows; found out once for each state of the folder."""
        reader = self.reader()
        kept = self._digest
        if kept is None:
            groups, rule = self.exhibit.groups, self.rule()
            with self._told():
                already = reader.already_broken(rule.bound_rad2) if isfinite(rule.bound_rad2) else 0
                worst = self._worst(reader)
                parts = reader.rates_by((self.exhibit.apart,)) if self.exhibit.apart else ()
                kept = Digest(reader.rates(), reader.rates_by(groups), worst, reader.choices(), rule, already, parts)
            self._digest = kept
        return kept

    def rule(self) -> Rule:
        """Returns by what cases are judged; where that hangs on the originals' error, it is measured once they are all there."""
        rule = self.exhibit.rule
        if not isfinite(rule.multiple):
            return rule
        if self._rule is None or not isfinite(self._rule.bound_rad2):
            with self._told():
                parts = [segment for segment in self.run.segments() if segment.phase in self.exhibit.unjudged]
                self._rule = rule.measured(mean_square(self._database, parts, "original", "label"))
        return self._rule

    def cases(self) -> Cases | None:
        """Returns the judged cases as the gate takes them, None where there are none."""
        from skidpad.kinds.gating import judged_cases  # noqa: PLC0415  nobody needs it before two runs are compared

        found = self.rates().cases  # which also checks the folder
        with self._told():
            return judged_cases(self.run) if found else None

    def row(self, case_id: str) -> Row:
        """Returns the whole record of a case, packed bytes included, with its phase."""
        reader = self.reader()
        with self._told():
            where = reader.whereabouts(case_id)
            if where is None:
                raise UnknownNameError(f"no case {plain(case_id, 20)} in the run {plain(self.found.name, 80)}")
            phase, shard, place = where
            segment = next(segment for segment in self.run.segments() if (segment.phase, segment.index) == (phase, shard))
            record: Row = {**segment.records().slice(place, 1).to_pylist()[0], "phase": phase}
        return record

    def words(self, row: Row) -> tuple[str, str]:
        """Returns what a row is and what the oracle said."""
        with self._told():
            return self.exhibit.title(row), self.exhibit.verdict(row)

    def said(self, row: Row) -> tuple[str, str]:
        """Returns what a finding is and how far it went."""
        with self._told():
            return self.exhibit.title(row), self.exhibit.how_far(row)

    def picture(self, case_id: str, side: PictureSide) -> bytes:
        """Renders one picture of a case as JPEG."""
        row = self.row(case_id)
        with self._told(), self._drawing:
            return encode(self.exhibit.picture(row, side), ".jpg", JPEG_QUALITY)

    def film(self, case_id: str, motion: Motion) -> bytes:
        """Draws the film of a case as SVG."""
        row = self.row(case_id)
        with self._told(), self._drawing:
            return self.exhibit.film(row, motion).encode()

    def report(self) -> bytes:
        """Returns the page of the run as HTML: the stored one where nothing was added since, else the same page made anew."""
        stored = self.found.path / "report.html"
        is_stored = checked_file(stored, MAX_REPORT_BYTES)
        newest = max(self.tags.journal.signature[1], (self.found.path / "segments").lstat().st_mtime_ns)
        if is_stored and stored.lstat().st_mtime_ns >= newest:
            return stored.read_bytes()
        try:
            with self._told(), self._drawing:
                return self._page().encode()
        except SkidpadError:
            if is_stored:
                return stored.read_bytes()
            raise

    def _page(self) -> str:
        """Makes the page from what the run remembers; a run may come from a stranger, so nothing is fetched and no subject is loaded."""
        from skidpad.kinds.kind import kind_of, load_campaign  # noqa: PLC0415  nobody needs it before a report is asked for
        from skidpad.page.writing import render_page  # noqa: PLC0415  see above

        config, manifest = self.run.config, self.run.manifest
        if "://" in json.dumps(config, default=str) or (config.get("subject") and not manifest.subject):
            raise BadRunError("its page needs the network under test or a server; `skidpad report RUN` makes it")
        return render_page(kind_of(self.run).page(load_campaign(config, self.found.name, manifest), self.run))

    def put_tag(self, case_id: str, tag: Tag | None) -> None:
        """Tags a case that the run has."""
        self.row(case_id)
        self.tags.put(case_id, tag)

    def tag_of(self, case_id: str) -> Tag | None:
        """Returns the tag of a case."""
        return self.tags.current().get(case_id)

    def close(self) -> None:
        """Lets go of the table."""
        with self._lock:
            self._forget()

    def _reader(self, rows: Rows) -> RecordReader:
        return RecordReader(self._database, rows.source, self.columns, tuple(sorted(self.exhibit.unjudged)))

    def _worst(self, reader: RecordReader) -> tuple[Line, ...]:
        """Returns what is to be looked at first: the worst of each group and, where these are few, the next worst of all."""
        chosen = reader.worst_of_each(self.exhibit.groups, WORST)
        if len(chosen) >= FEW:
            return chosen
        seen = {line.case_id for line in chosen}
        return (*chosen, *(line for line in reader.nearest(2 * FEW) if line.case_id not in seen and (line.values["violated"] or not seen)))[
            :FEW
        ]

    def _forget(self) -> None:
        if self._rows is not None:
            self._rows.drop()
        self._rows, self._digest = None, None

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turns whatever a broken folder raises into one kind of error."""
        try:
            yield
        except _BROKEN as error:
            raise BadRunError(f"the run {plain(self.found.name, 80)} cannot be read: {plain(str(error) or repr(error), 200)}") from error
