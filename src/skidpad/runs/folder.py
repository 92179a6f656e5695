"""The run folder: crash-safe, append-only, one writer and any number of readers.

config.toml     the resolved settings
schema.json     the columns of the records, which each kind of campaign chooses
manifest.json   versions, machine, seed, hashes (of the two files above as well), command line; written last, so a folder with it is
                a whole run
segments/       one file a shard (see `records`); the name carries the hash of the content
state/          small files, summaries and the mark of a finished run
"""

import errno
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from skidpad.core.errors import BadRunError, UnknownNameError
from skidpad.core.files import exclusive, in_use, is_held, read_plain, remove_temporary, sync_folder, write_atomically
from skidpad.drives.drive import Problem
from skidpad.runs.manifest import (
    CONFIG,
    MANIFEST,
    SCHEMA_FILE,
    Config,
    Integrity,
    Manifest,
    hashes_of,
    read_config,
    read_run,
    refuse_used,
    write_config,
)
from skidpad.runs.records import (
    CASE_ID_DIGITS,
    SCHEMA,
    Record,
    Segment,
    ShardResult,
    check_columns,
    check_schema,
    encode_segment,
    findings_of,
    holds_pictures,
    no_rows,
    schema_to_json,
    with_referee,
    worst_first,
)
from skidpad.runs.remote import MARK, Mirror

State = TypeVar("State")

_SEGMENTS, _STATE = "segments", "state"
_FINISHED = "finished.json"
_DAMAGED_SUFFIX = ".damaged"
_MAX_STATE_BYTES = 1 << 30
_STATE_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*", re.ASCII)

DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What the system calls a full disk, or a user's full share of it."""


class Run:
    """A campaign's folder; make one with `create`, look at one with `open`.

    Reading needs no lock. Every write takes it; hold `lock` around a campaign so that no second writer slips in
    between. One object belongs to one thread. A path may be a URL (see `remote`); `path` is then the working folder.
    """

    def __init__(self, path: Path, config: Config, manifest: Manifest, schema: pa.Schema = SCHEMA, mirror: Mirror | None = None) -> None:
        self.path = path
        self.config = config
        self.manifest = manifest
        self.schema = schema
        self.integrity = Integrity()
        self._segments: dict[tuple[str, int], Segment] = {}
        self._bad: list[Path] = []
        self._lock_depth = 0
        self._mirror = mirror

    @classmethod
    def create(cls, path: Path, config: Config, manifest: Manifest, schema: pa.Schema = SCHEMA) -> Self:
        """Makes the folder; refuses one with anything in it, except what an interrupted `create` left.

        schema: the columns of every record of the run; among them those of `records.REQUIRED`.
        """
        check_schema(schema)
        settings = write_config(config)
        mirror = _mirror_of(path)
        folder = path if mirror is None else mirror.folder
        if is_held(folder):
            raise in_use(folder, " or choose another --out")
        if mirror is not None:
            mirror.begin()
        path = folder
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadRunError(f"cannot make the run folder {path}: {error.strerror}; choose another --out") from error
        refuse_used(path)
        columns = schema_to_json(schema).encode()
        manifest = replace(manifest, files=hashes_of({CONFIG: settings, SCHEMA_FILE: columns}))
        run = cls(path, read_config(settings, str(path)), manifest, schema, mirror)
        with exclusive(path):
            refuse_used(path)  # another writer may have been faster
            run._write(path / CONFIG, settings)
            run._write(path / SCHEMA_FILE, columns)
            (path / _SEGMENTS).mkdir(exist_ok=True)
            (path / _STATE).mkdir(exist_ok=True)
            run._write(path / MANIFEST, manifest.to_json().encode())
        sync_folder(path.parent)
        return run

    @classmethod
    def open(cls, path: Path, *, set_aside: bool = True) -> Self:
        """Opens a run and checks every segment; damaged ones are set aside, so their shards count as not computed.

        set_aside: False for one who only looks; damaged segments then stay where they are, and are not read.
        """
        mirror = _mirror_of(path)
        if mirror is not None:
            mirror.pull()
            path = mirror.folder
        if not path.is_dir():
            raise BadRunError(f"no run folder at {path}; `skidpad test SUBJECT DRIVE --out {shlex.quote(str(path))}` makes one")
        config, manifest, schema, integrity = read_run(path)
        run = cls(path, config, manifest, schema, mirror)
        run.integrity = integrity
        run.refresh()
        if run._bad and set_aside:
            # a writer may be at work, or the folder be read-only: the segments then stay where they are and are not read
            with suppress(BadRunError), run.lock():
                pass
        return run

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Makes this object the only writer, and clears away what a killed writer left; may be nested."""
        with ExitStack() as held:
            if not self._lock_depth:
                self.refuse_altered()
                held.enter_context(exclusive(self.path))
                self._clear_away()
            self._lock_depth += 1
            try:
                yield
            finally:
                self._lock_depth -= 1

    def refuse_altered(self) -> None:
        """Refuses to add to a run whose settings are no longer those of its findings: both would be mixed in one rate."""
        if self.integrity.altered:
            raise BadRunError(f"cannot go on with the run {self.path}: {self.integrity.doubt}")

    def refresh(self) -> None:
        """Looks at the folder again, for a reader beside a writer; each segment is hashed once.

        Other threads see the shards as they were until the look is over, and never some of them.
        """
        known = {segment.path.name: segment for segment in self._segments.values()}
        kept: dict[tuple[str, int], Segment] = {}
        bad: list[Path] = []
        for path in sorted((self.path / _SEGMENTS).glob("*.parquet")):
            segment = Segment.from_path(path)
            if segment is None:
                continue
            key = (segment.phase, segment.index)
            if key not in kept and (path.name in known or segment.is_whole()):
                kept[key] = segment
            else:
                bad.append(path)
        self._segments, self._bad = kept, bad

    @property
    def damaged(self) -> tuple[str, ...]:
        """The names of the segments that were found damaged, set aside or not, and whose shards were not computed again since."""
        found = [*self._bad, *(self.path / _SEGMENTS).glob(f"*{_DAMAGED_SUFFIX}")]
        segments = {path.name: Segment.from_path(path.with_name(path.name.removesuffix(_DAMAGED_SUFFIX))) for path in found}
        return tuple(sorted(name for name, segment in segments.items() if segment and (segment.phase, segment.index) not in self._segments))

    def damage(self, then: str = "") -> str:
        """Says how many files of findings were damaged and what mends it, or what happens `then`; empty where all are whole."""
        if not self.damaged:
            mends = then or f"`skidpad resume {shlex.quote(self.place)}` writes it again"
            return f"the mark of a finished run, {_STATE}/{_FINISHED}, is damaged; {mends}" if self._has_bad_mark else ""
        count = len(self.damaged)
        files, them = ("1 file of findings was", "it") if count == 1 else (f"{count} files of findings were", "them")
        return f"{files} damaged; {then or f'`skidpad resume {shlex.quote(self.place)}` computes {them} again'}"

    def phases(self) -> tuple[str, ...]:
        """Returns the phases that have a shard, by name."""
        return tuple(sorted({phase for phase, _ in self._segments}))

    def completed(self, phase: str) -> set[int]:
        """Returns the shards of a phase that are kept."""
        return {index for name, index in self._segments if name == phase}

    def segments(self) -> tuple[Segment, ...]:
        """Returns the files of the kept shards, ordered by phase and shard."""
        return tuple(self._ordered(None))

    def commit(self, result: ShardResult) -> None:
        """Keeps a shard, all of it or nothing; a shard that is kept already must be the same one."""
        if not result.records.schema.equals(self.schema):
            raise ValueError(f"the records of {self.path} need the columns {self.schema}; got {result.records.schema}")
        data = encode_segment(result)
        segment = Segment.of(result, data, self.path / _SEGMENTS)
        with self.lock():
            kept = self._segments.get((result.phase, result.index))
            if kept is not None:
                if kept.digest != segment.digest:
                    raise BadRunError(
                        f"shard {result.index} of phase {result.phase!r} is kept in {self.path} with another content; "
                        "something in it is not deterministic, or the settings changed: choose another --out"
                    )
                return
            self._write(segment.path, data)
            self._segments[segment.phase, segment.index] = segment

    def iter_records(self, phase: str | None = None, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Streams the records, one table a shard, ordered by phase and shard."""
        check_columns(self.schema, columns)
        present = None if columns is None else [name for name in columns if name in self.schema.names]
        for segment in self._ordered(phase):
            table = segment.records(present, self.schema)
            yield table if columns is None or len(columns) == len(table.column_names) else with_referee(table).select(list(columns))

    def records(self, phase: str | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """Reads all records of a phase, or of all phases; in memory, so name the columns where the run is large."""
        check_columns(self.schema, columns)
        return pa.concat_tables([no_rows(self.schema, columns), *self.iter_records(phase, columns)]).combine_chunks()

    def findings(self, limit: int | None = None, phase: str | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """Returns the findings, worst first, at most `limit`; memory grows with the limit, not with the run."""
        check_columns(self.schema, columns)
        wanted = self.schema.names if columns is None else list(columns)
        needed = [name for name in self.schema.names if name in {*wanted, "excess", "violated"}]
        found = no_rows(self.schema, needed)
        for table in self.iter_records(phase, needed):
            found = pa.concat_tables([found, findings_of(table)])
            if limit is not None and found.num_rows > 4 * limit + 1000:
                found = worst_first(found, limit)
        return worst_first(found.combine_chunks(), limit).select(wanted)

    def find(self, prefix: str) -> Record:
        """Returns the one record whose case id begins with the prefix, of a run over pictures."""
        if not holds_pictures(self.schema):
            raise BadRunError(f"the run {self.path} holds no cases of pictures; its rows are read with find_row")
        return Record.from_row(self.find_row(prefix))

    def find_row(self, prefix: str) -> Mapping[str, Any]:
        """Returns the one row, by column, whose case id begins with the prefix; a case met twice is one."""
        if not re.fullmatch(rf"[0-9a-f]{{1,{CASE_ID_DIGITS}}}", prefix):
            raise UnknownNameError(f"a case id is up to {CASE_ID_DIGITS} digits of 0-9a-f; got {prefix!r}")
        found: dict[str, Mapping[str, Any]] = {}
        for segment in self._ordered(None):
            if pc.any(pc.starts_with(segment.records(["case_id"], self.schema)["case_id"], prefix)).as_py():
                table = segment.records()
                for row in table.filter(pc.starts_with(table["case_id"], prefix)).to_pylist():
                    found.setdefault(row["case_id"], row)
        if not found:
            raise UnknownNameError(
                f"no case in {self.path} begins with {prefix!r}; `skidpad report {shlex.quote(str(self.path))}` lists them"
            )
        if len(found) > 1:
            some = ", ".join(sorted(found)[:5])
            raise UnknownNameError(f"{len(found)} cases in {self.path} begin with {prefix!r} ({some}, ...); give more digits")
        return next(iter(found.values()))

    def coverage(
        self, phase: str, unpack: Callable[[bytes], State], merge: Callable[[State, State], State], before: int | None = None
    ) -> Mapping[str, State]:
        """Merges the coverage states of a phase by name, in the order of shards.

        before: only shards below this index, which is what a shard that builds on the earlier ones starts from.
        """
        merged: dict[str, State] = {}
        for segment in self._ordered(phase):
            if before is not None and segment.index >= before:
                break
            for name, data in segment.coverage().items():
                state = unpack(data)
                merged[name] = merge(merged[name], state) if name in merged else state
        return merged

    def problems(self) -> tuple[Problem, ...]:
        """Returns the broken frames, each once, in the order of shards."""
        return tuple(dict.fromkeys(problem for segment in self._ordered(None) for problem in segment.problems()))

    def write_state(self, name: str, data: bytes) -> None:
        """Writes a small file at once: the old content or the new is there, never a part."""
        path = self._state_path(name)
        with self.lock():
            self._write(path, data)

    def read_state(self, name: str) -> bytes | None:
        """Reads a small file; None where it was never written."""
        path = self._state_path(name)
        try:
            return read_plain(path, _MAX_STATE_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BadRunError(f"cannot read {path}: {error.strerror}; check its permissions") from error

    @property
    def place(self) -> str:
        """Where the run is kept: its URL or its folder."""
        return str(self.path) if self._mirror is None else self._mirror.remote.url

    def publish(self, path: Path) -> None:
        """Puts a file that stands in the folder, a report say, beside the run at its URL; nothing where the run has none."""
        if self._mirror is not None and path.is_relative_to(self.path):
            self._mirror.push(path, path.read_bytes())

    def finish(self, shards: Mapping[str, int]) -> None:
        """Marks the run as finished, given the number of shards of each phase."""
        missing = _missing(self, shards)
        if missing:
            raise BadRunError(f"the run {self.path} is not finished: it lacks shards of {', '.join(missing)}; {self._resume()}")
        self.write_state(_FINISHED, json.dumps(dict(shards), sort_keys=True).encode())

    @property
    def is_finished(self) -> bool:
        """Whether the run was marked as finished and has the shards that the mark names: all of them and no others."""
        mark = self._mark()
        kept = {phase: len(self.completed(phase)) for phase in self.phases()}
        return mark is not None and {name: count for name, count in mark.items() if count} == kept and not _missing(self, mark)

    @property
    def _has_bad_mark(self) -> bool:
        return self._mark() is None and self.read_state(_FINISHED) is not None

    def _mark(self) -> Mapping[str, int] | None:
        """Returns how many shards of each phase the mark of a finished run names; None where there is no mark, or none to be read."""
        try:
            mark = json.loads(self.read_state(_FINISHED) or b"")
        except (ValueError, RecursionError):
            return None
        counts = mark.values() if isinstance(mark, dict) else (None,)
        return mark if all(type(count) is int and count >= 0 for count in counts) else None

    def _ordered(self, phase: str | None) -> list[Segment]:
        return [segment for (name, _), segment in sorted(self._segments.items()) if phase in {None, name}]

    def _state_path(self, name: str) -> Path:
        if not _STATE_NAME.fullmatch(name):
            raise ValueError(f"a state's name is letters, digits, '.', '_', '+' and '-'; got {name!r}")
        return self.path / _STATE / name

    def _write(self, path: Path, data: bytes) -> None:
        try:
            write_atomically(path, data)
        except OSError as error:
            if not self.path.is_dir():
                raise BadRunError(
                    f"the run folder {self.path} was removed while the run was under way, and its findings with it; start the command again"
                ) from error
            self.refresh()  # what was kept may be gone as well
            trouble = "the disk is full" if error.errno in DISK_FULL else f"it failed: {error.strerror}"
            raise BadRunError(
                f"writing {len(data)} bytes to {path.name} in {self.path}: {trouble}; {len(self._segments)} shards are kept; "
                f"free some space or mend the disk, then {self._resume()}"
            ) from error
        if self._mirror is not None:
            self._mirror.push(path, data)

    def _resume(self) -> str:
        return f"go on with: skidpad resume {shlex.quote(self.place)}"

    def _clear_away(self) -> None:
        for folder in (self.path / _SEGMENTS, self.path / _STATE):
            folder.mkdir(exist_ok=True)
        for folder in (self.path, self.path / _SEGMENTS, self.path / _STATE):
            remove_temporary(folder)
        self.refresh()
        for path in self._bad:
            path.replace(path.with_name(path.name + _DAMAGED_SUFFIX))
        if self._bad:
            sync_folder(self.path / _SEGMENTS)
        self._bad = []


def _mirror_of(path: Path) -> Mirror | None:
    """Returns the mirror of a run at a URL; a folder of this machine has none, and needs nothing of what speaks to servers."""
    return Mirror.of(path) if ":" in str(path) or (path / MARK).exists() else None


def _missing(run: Run, shards: Mapping[str, int]) -> list[str]:
    # counted, not listed: a damaged mark may name more shards than there is memory
    return [phase for phase, count in shards.items() if sum(index < count for index in run.completed(phase)) < count]
