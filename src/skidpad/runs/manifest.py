"""What made a run: versions, machine, seed, hashes and the command line."""

import json
import platform
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Self

import cv2

from skidpad import __version__
from skidpad.core.errors import BadRunError

FORMAT = 2
"""The version of the run folder's layout; another one is refused, not guessed at. Since 2 a run says what its columns are."""

RUNTIMES = ("onnxruntime",)
"""What runs some subjects instead of torch."""


@dataclass(frozen=True, slots=True)
class VersionChange:
    """A part whose version now is not the one that made the run; an empty text: not there."""

    part: str
    then: str
    now: str

    def __str__(self) -> str:
        return f"{self.part} {self.then or 'absent'} -> {self.now or 'absent'}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything about a run that is not its settings; the only place with a time of day.

    hashes: of the subject, the drive and later of stimulus models, by name. created: UTC, ISO 8601. subject: what the subject was,
    so that the run can be looked at without it (`subjects.recorded`); empty for runs without one, and for those of older versions.
    """

    versions: Mapping[str, str]
    platform: str
    device: str
    seed: int
    hashes: Mapping[str, str]
    command: tuple[str, ...]
    created: str
    subject: Mapping[str, Any] = field(default_factory=dict)

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
            subject=dict(subject or {}),
        )

    def to_json(self) -> str:
        """Writes the manifest with the version of the folder's layout; one from an older version as that version wrote it."""
        content = {"skidpad_run": FORMAT, **asdict(self)}
        if not self.subject:
            del content["subject"]
        return json.dumps(content, indent=2, sort_keys=True) + "\n"

    def facts(self) -> dict[str, Any]:
        """Returns what a page shows: everything but the description of the subject, which is long."""
        return {name: value for name, value in json.loads(self.to_json()).items() if name != "subject"}

    @classmethod
    def from_json(cls, text: str, where: str) -> Self:
        """Reads what `to_json` wrote; `where` names the folder in errors."""
        try:
            content = json.loads(text)
        except ValueError as error:
            raise BadRunError(f"the manifest of {where} is damaged ({error}); restore manifest.json from a copy") from error
        if not isinstance(content, dict) or not isinstance(content.get("skidpad_run"), int):
            raise BadRunError(f"{where} is not a skidpad run: its manifest.json was written by something else")
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
                subject=dict(content.get("subject", {})),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadRunError(f"the manifest of {where} is damaged ({error!r}); restore manifest.json from a copy") from error

    def changes(self, now: Mapping[str, str] | None = None) -> tuple[VersionChange, ...]:
        """Returns the parts whose versions differ from those that made the run, by name."""
        now = {**current_versions(), **{name: _installed(name) for name in RUNTIMES if name in self.versions}} if now is None else now
        # what happens to be loaded now, by another subject, did not make the run
        now = {name: value for name, value in now.items() if name not in RUNTIMES or name in self.versions}
        parts = sorted({*self.versions, *now})
        pairs = [VersionChange(part, self.versions.get(part, ""), now.get(part, "")) for part in parts]
        return tuple(change for change in pairs if change.then != change.now)


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
