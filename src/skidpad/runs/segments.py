"""One file a shard: records, coverage and problems together, named by the hash of its content.

The file is Parquet. Coverage and problems live in its key-value metadata, as text, so that any Parquet reader opens it
and one rename commits all three.
"""

import binascii
import json
import os
import re
import shlex
import stat
import sys
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from skidpad.core.errors import BadRunError
from skidpad.core.files import LOCK_FILE, MAX_SMALL_BYTES, check_plain, open_plain
from skidpad.drives.drive import Problem, ProblemKind
from skidpad.runs.records import storable
from skidpad.runs.remote import MARK

_NAME = re.compile(
    r"(?P<phase>[a-z][a-z0-9-]*|[A-Za-z_][\w.]*\+\w[\w-]*)-(?P<index>\d{6}|[1-9]\d{6,})-(?P<digest>[0-9a-f]{16})\.parquet", re.ASCII
)
_PHASE = re.compile(r"[a-z][a-z0-9-]*|[A-Za-z_][\w.]*:\w[\w-]*", re.ASCII)
"""A word, or `module:Name` of code that is not ours, whose colon is a plus in names of files."""
_DIGEST_DIGITS = 16
_ALL_DIFFERENT = frozenset({"case_id", "picture"})
"""Texts that hardly ever repeat, so that a dictionary of them would only cost."""
_FEW_ROWS = 1 << 20
_MAX_UNPACKED_BYTES = 4 << 30
"""A few bytes of Parquet may say that they unfold to any number of rows and bytes. Beyond a million rows, each takes a byte of the
file at least, as its case id does; and what one shard unfolds to fits into memory."""

MAX_SEGMENT_BYTES = 1 << 30
MAX_SEGMENTS = 50_000
"""For the page, which looks at them before every answer."""
_SMALL = ("manifest.json", "config.toml", "schema.json")
_FOLDERS = ("segments", "state")


def is_run(folder: Path) -> bool:
    """Tells whether a folder has a manifest, be it one that is refused later."""
    return os.path.lexists(folder / "manifest.json")


def check_run(folder: Path, max_segments: int | None = None) -> None:
    """Refuses a run folder with links, devices, pipes or huge files in the places that are read; nothing is opened."""
    for name in _SMALL:
        check_plain(folder / name, MAX_SMALL_BYTES)
    for name in _FOLDERS:
        path = folder / name
        if os.path.lexists(path) and not stat.S_ISDIR(path.lstat().st_mode):
            raise BadRunError(f"{path} is not a folder, or a link to one; a run that was made by skidpad has neither")
    for number, path in enumerate(sorted((folder / "segments").glob("*.parquet"))):
        if max_segments is not None and number >= max_segments:
            raise BadRunError(f"it has more than {max_segments} segments, too many for the page; `skidpad report` reads it")
        check_plain(path, MAX_SEGMENT_BYTES)


@dataclass(frozen=True, slots=True)
class ShardResult:
    """What one shard of a phase brought; the same shard gives the same result whenever and wherever it is computed.

    records: a table with the columns of the run. coverage: packed coverage states by name.
    """

    phase: str
    index: int
    records: pa.Table
    coverage: Mapping[str, bytes] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    def __post_init__(self) -> None:
        check_phase(self.phase)
        if self.index < 0:
            raise ValueError(f"a shard's index must be 0 or more; got {self.index}")


def check_phase(phase: str) -> None:
    """Refuses a phase that cannot be part of a file's name."""
    if not _PHASE.fullmatch(phase):
        raise ValueError(f"a phase is lower-case letters, digits and hyphens, a letter first, or module:Name; got {phase!r}")


def encode_segment(result: ShardResult) -> bytes:
    """Writes a shard as the bytes of a Parquet file: equal results give equal bytes."""
    sink = pa.BufferOutputStream()
    schema = result.records.schema
    texts = [column.name for column in schema if pa.types.is_string(column.type) and column.name not in _ALL_DIFFERENT]
    # Parquet's own copy of the Arrow schema would say nothing that the columns do not.
    with pq.ParquetWriter(sink, schema, compression="zstd", use_dictionary=texts, store_schema=False) as writer:
        writer.write_table(result.records.combine_chunks())
        writer.add_key_value_metadata(
            {
                "skidpad.shard": f"{result.phase} {result.index}",
                "skidpad.coverage": json.dumps({name: _pack(data) for name, data in sorted(result.coverage.items())}),
                "skidpad.problems": json.dumps(
                    [[problem.kind.name, storable(problem.frame_id), storable(problem.detail)] for problem in result.problems]
                ),
            }
        )
    return bytes(sink.getvalue())


@dataclass(frozen=True, slots=True)
class Segment:
    """A shard's file; a long run has tens of thousands, so the folder that they share is kept, not the path of each."""

    phase: str
    index: int
    digest: str
    folder: str

    @classmethod
    def of(cls, result: ShardResult, data: bytes, folder: Path) -> Self:
        """Names the file of a shard, given its bytes."""
        return cls(sys.intern(result.phase), result.index, sha256(data).hexdigest()[:_DIGEST_DIGITS], sys.intern(str(folder)))

    @classmethod
    def from_path(cls, path: Path) -> Self | None:
        """Reads the name; None where it is not one of ours."""
        match = _NAME.fullmatch(path.name)
        return (
            cls(sys.intern(match["phase"].replace("+", ":")), int(match["index"]), match["digest"], sys.intern(str(path.parent)))
            if match
            else None
        )

    @property
    def path(self) -> Path:
        """Where the file lies."""
        return Path(self.folder, f"{self.phase.replace(':', '+')}-{self.index:06d}-{self.digest}.parquet")

    def is_whole(self) -> bool:
        """Tells whether the content still has the hash that the name carries."""
        try:
            with os.fdopen(open_plain(self.path), "rb") as file:
                return file_digest(file, "sha256").hexdigest()[:_DIGEST_DIGITS] == self.digest
        except (OSError, BadRunError):
            return False

    def records(self, columns: Sequence[str] | None = None, schema: pa.Schema | None = None) -> pa.Table:
        """Reads the records, or some columns of them; schema: what the columns of the whole file must be."""
        # No threads: Arrow's reader threads sometimes abort the process at its very end, and exit codes are read.
        with self._open() as file:
            found = file.schema_arrow.remove_metadata()
            if schema is not None and not found.equals(schema):
                raise self._foreign(f"its columns are {', '.join(found.names)}, and those of the run {', '.join(schema.names)}")
            try:
                table = file.read(columns=None if columns is None else list(columns), use_threads=False)
            except (pa.ArrowException, OSError) as error:
                raise self._damaged(error) from error
        table = table.replace_schema_metadata(None)
        return table if columns is None else table.select(list(columns))

    def coverage(self) -> dict[str, bytes]:
        """Reads the packed coverage states by name."""
        try:
            return {name: _unpack(packed) for name, packed in self._metadata("skidpad.coverage").items()}
        except _UNREADABLE as error:
            raise self._foreign(f"its coverage cannot be read ({error!r})") from error

    def problems(self) -> tuple[Problem, ...]:
        """Reads the broken frames of the shard."""
        try:
            return tuple(Problem(ProblemKind[kind], str(frame), str(detail)) for kind, frame, detail in self._metadata("skidpad.problems"))
        except _UNREADABLE as error:
            raise self._foreign(f"its list of broken frames cannot be read ({error!r})") from error

    def _metadata(self, key: str) -> Any:
        with self._open() as file:
            return json.loads(file.metadata.metadata[key.encode()])

    def _open(self) -> pq.ParquetFile:
        try:
            file = pq.ParquetFile(self.path, pre_buffer=False)
            size = self.path.stat().st_size
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(error) from error
        metadata = file.metadata
        unpacked = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
        if metadata.num_rows > max(size, _FEW_ROWS) or unpacked > _MAX_UNPACKED_BYTES:
            raise self._foreign(f"its {size} bytes say that they hold {metadata.num_rows} records of {unpacked} bytes")
        shard = (metadata.metadata or {}).get(b"skidpad.shard", b"").decode(errors="replace")
        if shard != f"{self.phase} {self.index}":
            raise self._foreign(f"it holds {f'shard {shard!r}' if shard else 'no shard'}")
        return file

    def _foreign(self, why: str) -> BadRunError:
        """Returns the error of a file whose hash is right and whose content is not one that skidpad has put there."""
        return BadRunError(f"the segment {self.path} was not written for this run: {why}; remove it and `skidpad resume` its run")

    def _damaged(self, error: Exception) -> BadRunError:
        return BadRunError(f"the segment {self.path} was damaged after it was checked ({error}); open the run again to set it aside")


_MANIFEST = "manifest.json"
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError, binascii.Error, pa.ArrowException, OSError)
"""What a segment raises whose metadata is not ours."""


def _pack(data: bytes) -> list[int | str]:
    return [len(data), b64encode(pa.compress(data, codec="zstd", asbytes=True)).decode("ascii")]


def _unpack(packed: list[Any]) -> bytes:
    size, text = packed
    if not 0 <= size <= _MAX_UNPACKED_BYTES:
        raise ValueError(f"{size} bytes of coverage")
    return bytes(pa.decompress(b64decode(text), decompressed_size=size, codec="zstd", asbytes=True))


def refuse_used(path: Path) -> None:
    """Refuses a folder for a new run with anything in it, except what an interrupted start of one left."""
    names = {entry.name for entry in path.iterdir()}
    if LOCK_FILE in names and _MANIFEST not in names and not _shards_in(path):
        return  # a `create` that was stopped before its last step; nothing was computed yet
    if _MANIFEST not in names and _shards_in(path):
        raise incomplete(path, _MANIFEST)
    if names - {LOCK_FILE, MARK}:
        raise BadRunError(
            f"the folder {path} is not empty; go on with that run (skidpad resume {shlex.quote(str(path))}) or choose another --out"
        )


def _shards_in(path: Path) -> int:
    return sum(Segment.from_path(each) is not None for each in (path / "segments").glob("*.parquet"))


def incomplete(path: Path, lacking: str) -> BadRunError:
    """Returns the error of a folder that lacks a file which every run has."""
    kept = _shards_in(path)
    if kept:
        shards = "1 shard" if kept == 1 else f"{kept} shards"
        return BadRunError(
            f"the run {path} has lost its {lacking}, but holds {shards} of findings; restore {lacking} from a copy, "
            "or run the campaign again into another folder"
        )
    half_made = (path / LOCK_FILE).exists() and not (path / _MANIFEST).exists()
    way_out = "it was stopped while it was made; start the command again" if half_made else "point at a folder made with --out"
    return BadRunError(f"{path} is not a skidpad run: it has no {lacking}; {way_out}")
