"""What makes a folder a run: the settings of its campaign, the manifest of what made it, and nothing else in the places that are read."""

import json
import os
import platform
import shlex
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self, TypeAlias

import cv2
import pyarrow as pa

from skidpad import __version__
from skidpad.core.errors import BadRunError
from skidpad.core.files import LOCK_FILE, MAX_SMALL_BYTES, check_plain, read_plain
from skidpad.core.settings import plain, read_toml, write_toml
from skidpad.runs.records import Segment, schema_from_json
from skidpad.runs.remote import MARK

Plain: TypeAlias = "str | int | float | bool | Sequence[Plain] | Mapping[str, Plain] | None"
Config: TypeAlias = Mapping[str, Plain]


def write_config(config: Config) -> bytes:
    """Writes plain values as TOML; what is None is left out, as TOML has no word for it."""
    try:
        return write_toml(plain(config)).encode("utf-8")
    except UnicodeEncodeError as error:
        raise BadRunError(f"the settings hold text that is not Unicode ({error.object!r}); rename that file or folder") from error


def read_config(data: bytes, where: str) -> Config:
    """Reads what `write_config` wrote; `where` names the folder in errors."""
    try:
        return read_toml(data.decode("utf-8"))
    except ValueError as error:
        raise BadRunError(f"the settings of {where} are damaged ({error}); restore config.toml from a copy") from error


CONFIG, SCHEMA_FILE, MANIFEST = "config.toml", "schema.json", "manifest.json"
CHECK, FILES = "check", "files"


def digest_of(content: Mapping[str, Any]) -> str:
    """Returns the hash of what a manifest holds, its own hash aside."""
    rest = {name: value for name, value in content.items() if name != CHECK}
    return sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def hashes_of(files: Mapping[str, bytes]) -> dict[str, str]:
    """Returns the hash of each file by its name."""
    return {name: sha256(data).hexdigest() for name, data in files.items()}


@dataclass(frozen=True, slots=True)
class Integrity:
    """altered: the names of the files that changed after the run was made. is_known: False for runs from before there were hashes."""

    altered: tuple[str, ...] = ()
    is_known: bool = True

    @classmethod
    def of(cls, manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> Self:
        """Compares a manifest, as its JSON says it, with itself and with the files beside it."""
        if CHECK not in manifest and FILES not in manifest:
            return cls(is_known=False)
        then = manifest.get(FILES)
        noted = then if isinstance(then, Mapping) else {}
        altered = [name for name, digest in hashes_of(files).items() if noted.get(name) != digest]
        return cls((*(() if manifest.get(CHECK) == digest_of(manifest) else (MANIFEST,)), *altered))

    @property
    def state(self) -> str:
        """The answer in a few words, for a program."""
        if not self.is_known:
            return "cannot be checked"
        return f"changed: {', '.join(self.altered)}" if self.altered else "unchanged"

    @property
    def doubt(self) -> str:
        """What a reader must know before believing the figures; empty where nothing was changed."""
        if not self.is_known:
            return "whether the settings of this run were changed cannot be checked: it was made by a skidpad that kept no hash of them"
        if not self.altered:
            return ""
        names, were = " and ".join(self.altered), "was" if len(self.altered) == 1 else "were"
        return (
            f"{names} {were} changed after the run was made, so its findings may not be those of its settings; "
            f"restore {'it' if len(self.altered) == 1 else 'them'} from a copy, or run the campaign again into another folder"
        )


FORMAT = 2
"""The version of the run folder's layout; another one is refused, not guessed at. Since 2 a run says what its columns are."""

RUNTIMES = ("onnxruntime", "numba")
"""What only some runs need: what runs some subjects instead of torch, and what compiles the renderer of the built-in world."""

PROCESSOR = "processor"

ROUNDING = frozenset({PROCESSOR, "torch", "numpy", "opencv", *RUNTIMES})
"""The parts whose change rounds the last bits of an answer or a pixel otherwise."""

_WIDEST = {"avx512f": "AVX512", "avx2": "AVX2", "avx": "AVX", "sve": "SVE", "asimd": "NEON"}
"""Instruction sets by their flag, the widest first."""

_SETTINGS = ("ATEN_CPU_CAPABILITY", "MKL_CBWR", "ONEDNN_MAX_CPU_ISA")
"""What tells torch, MKL and oneDNN to use other instructions than the widest."""


@dataclass(frozen=True, slots=True)
class Processor:
    """What computed a run; all empty where the run is older than this note.

    instructions: the widest set of the processor, and the settings that tell libraries to use another. gpu: "" where none computed.
    """

    model: str = ""
    vendor: str = ""
    instructions: str = ""
    gpu: str = ""

    def __str__(self) -> str:
        if not self.model:
            return "unknown"
        details = ", ".join(each for each in (self.vendor, self.instructions, self.gpu) if each)
        return f"{self.model} ({details})" if details else self.model

    @classmethod
    def current(cls, device: str) -> Self:
        """Describes this machine's processor, and its GPU where the device is one; torch is asked only where it is loaded."""
        about = _cpuinfo()
        flags = about.get("flags", about.get("Features", "")).split()
        widest = next((name for flag, name in _WIDEST.items() if flag in flags), platform.machine())
        settings = [f"{name}={os.environ[name]}" for name in _SETTINGS if os.environ.get(name)]
        torch = sys.modules.get("torch") if device.startswith("cuda") else None
        gpu = torch.cuda.get_device_name(device) if torch is not None and torch.cuda.is_available() else ""
        model = about.get("model name") or platform.processor() or platform.machine() or "unnamed"
        return cls(model, about.get("vendor_id", ""), " ".join([widest, *settings]), gpu)


@cache
def _cpuinfo() -> Mapping[str, str]:
    """Returns what Linux says about the first core; nothing elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").partition("\n\n")[0].splitlines()
    except OSError:
        return {}
    pairs = [line.partition(":") for line in lines]
    return {name.strip(): value.strip() for name, _, value in pairs}


@dataclass(frozen=True, slots=True)
class VersionChange:
    """A part whose version now is not the one that made the run; an empty text: not there. The processor is a part, too."""

    part: str
    then: str
    now: str

    def __str__(self) -> str:
        return f"{self.part} {self.then or 'absent'} -> {self.now or 'absent'}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything about a run that is not its settings; the only place with a time of day.

    hashes: of the subject, the drive and later of stimulus models, by name. created: UTC, ISO 8601. subject: what the subject was,
    so that the run can be looked at without it (`subjects.base`); empty for runs without one, and for those of older versions.
    files: the hashes of the settings and the columns as they were written; none in runs from before they were kept.
    """

    versions: Mapping[str, str]
    platform: str
    device: str
    seed: int
    hashes: Mapping[str, str]
    command: tuple[str, ...]
    created: str
    processor: Processor = Processor()
    subject: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def collect(
        cls, *, device: str, seed: int, hashes: Mapping[str, str], command: tuple[str, ...], subject: Mapping[str, Any] | None = None
    ) -> Self:
        """Describes this machine and moment."""
        return cls(
            versions=current_versions(),
            platform=platform.platform(),
            device=device,
            seed=seed,
            hashes=dict(hashes),
            command=command,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            processor=Processor.current(device),
            subject=dict(subject or {}),
        )

    def to_json(self) -> str:
        """Writes the manifest with the version of the folder's layout, and with the hash of all that; what is empty is left out."""
        content = {"skidpad_run": FORMAT, **asdict(self)}
        if not self.subject:
            del content["subject"]
        if self.files:
            content[CHECK] = digest_of(content)
        else:
            del content[FILES]  # what says nothing about its files is written as it was
        return json.dumps(content, indent=2, sort_keys=True) + "\n"

    def facts(self) -> dict[str, Any]:
        """Returns what a page shows: everything but the description of the subject, which is long."""
        return {name: value for name, value in json.loads(self.to_json()).items() if name != "subject"}

    @classmethod
    def from_content(cls, content: Mapping[str, Any], where: str) -> Self:
        """Reads what `manifest_content` found."""
        if content["skidpad_run"] != FORMAT:
            made_by = content["versions"].get("skidpad", "?") if isinstance(content.get("versions"), dict) else "?"
            older = content["skidpad_run"] < FORMAT
            age = "an older" if older else "a newer"
            way_out = "run the campaign again, as with `skidpad run` on its config.toml" if older else "upgrade skidpad to read it"
            raise BadRunError(
                f"{where} was made by {age} skidpad ({made_by}, run format {content['skidpad_run']}; this one reads {FORMAT}); {way_out}"
            )
        try:
            return cls(
                versions={str(name): str(value) for name, value in content["versions"].items()},
                platform=str(content["platform"]),
                device=str(content["device"]),
                seed=int(content["seed"]),
                hashes={str(name): str(value) for name, value in content["hashes"].items()},
                command=tuple(str(word) for word in content["command"]),
                created=str(content["created"]),
                processor=Processor(**content.get("processor", {})),
                files={str(name): str(value) for name, value in content.get(FILES, {}).items()},
                subject=dict(content.get("subject", {})),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise BadRunError(f"the manifest of {where} is damaged ({error!r}); restore manifest.json from a copy") from error

    def changes(self) -> tuple[VersionChange, ...]:
        """Returns the parts that are not those that made the run, by name: versions, and the processor."""
        return self._changes_to(
            {**current_versions(), **{name: _installed(name) for name in RUNTIMES if name in self.versions}}, Processor.current(self.device)
        )

    def changes_to(self, other: Self) -> tuple[VersionChange, ...]:
        """Returns the parts that are others in another run, by name; `now` are the other's."""
        return self._changes_to(other.versions, other.processor)

    def _changes_to(self, now: Mapping[str, str], processor: Processor) -> tuple[VersionChange, ...]:
        # what happens to be loaded in one of them, by another subject, did not make the run
        parts = sorted(name for name in {*self.versions, *now} if name not in RUNTIMES or (name in self.versions and name in now))
        pairs = [VersionChange(part, self.versions.get(part, ""), now.get(part, "")) for part in parts]
        pairs.append(VersionChange(PROCESSOR, str(self.processor), str(processor)))
        return tuple(change for change in pairs if change.then != change.now)


def manifest_content(text: str, where: str) -> Mapping[str, Any]:
    """Reads the JSON of a manifest; `where` names the folder in errors."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadRunError(f"the manifest of {where} is damaged ({error}); restore manifest.json from a copy") from error
    if not isinstance(content, dict) or not isinstance(content.get("skidpad_run"), int):
        raise BadRunError(f"{where} is not a skidpad run: its manifest.json was written by something else")
    return content


def current_versions() -> dict[str, str]:
    """Returns the versions that can change a result; torch is asked for its version without importing it.

    A runtime that only some subjects need is among them where it has been loaded, as it is once such a subject is.
    """
    return {
        "skidpad": __version__,
        "python": platform.python_version(),
        "numpy": _installed("numpy"),
        "opencv": cv2.__version__,
        "pyarrow": _installed("pyarrow"),
        "torch": _installed("torch"),
        **{name: _installed(name) for name in RUNTIMES if name in sys.modules},
    }


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        # a package may be installed under another name, as onnxruntime-gpu is
        return str(getattr(sys.modules.get(package), "__version__", ""))


MAX_SEGMENT_BYTES = 1 << 30
MAX_SEGMENTS = 50_000
"""For the page, which looks at them before every answer."""
_FOLDERS = ("segments", "state")


def is_run(folder: Path) -> bool:
    """Tells whether a folder has a manifest, be it one that is refused later."""
    return os.path.lexists(folder / MANIFEST)


def check_run(folder: Path, max_segments: int | None = None) -> None:
    """Refuses a run folder with links, devices, pipes or huge files in the places that are read; nothing is opened."""
    for name in (MANIFEST, CONFIG, SCHEMA_FILE):
        check_plain(folder / name, MAX_SMALL_BYTES)
    for name in _FOLDERS:
        path = folder / name
        if os.path.lexists(path) and not stat.S_ISDIR(path.lstat().st_mode):
            raise BadRunError(f"{path} is not a folder, or a link to one; a run that was made by skidpad has neither")
    for number, path in enumerate(sorted((folder / "segments").glob("*.parquet"))):
        if max_segments is not None and number >= max_segments:
            raise BadRunError(f"it has more than {max_segments} segments, too many for the page; `skidpad report` reads it")
        check_plain(path, MAX_SEGMENT_BYTES)


def read_run(folder: Path) -> tuple[Config, Manifest, pa.Schema, Integrity]:
    """Reads what a run folder says of itself: the settings, the manifest, the columns of the records, and whether they were changed."""
    try:
        check_run(folder)
        content = manifest_content(read_plain(folder / MANIFEST).decode("utf-8", "replace"), str(folder))
        manifest = Manifest.from_content(content, str(folder))
        files = {name: read_plain(folder / name) for name in (CONFIG, SCHEMA_FILE)}
        config = read_config(files[CONFIG], str(folder))
        schema = schema_from_json(files[SCHEMA_FILE].decode("utf-8", "replace"), str(folder))
    except FileNotFoundError as error:
        raise incomplete(folder, Path(error.filename).name) from error
    except OSError as error:
        raise BadRunError(f"cannot read the run {folder}: {error.strerror}; check its permissions") from error
    return config, manifest, schema, Integrity.of(content, files)


def refuse_used(path: Path) -> None:
    """Refuses a folder for a new run with anything in it, except what an interrupted start of one left."""
    names = {entry.name for entry in path.iterdir()}
    if LOCK_FILE in names and MANIFEST not in names and not _shards_in(path):
        return  # a `create` that was stopped before its last step; nothing was computed yet
    if MANIFEST not in names and _shards_in(path):
        raise incomplete(path, MANIFEST)
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
    half_made = (path / LOCK_FILE).exists() and not (path / MANIFEST).exists()
    way_out = (
        "it was stopped while it was made; start the command again"
        if half_made
        else "point at the folder of a run, as `skidpad test --out` writes it"
    )
    return BadRunError(f"{path} is not a skidpad run: it has no {lacking}; {way_out}")
