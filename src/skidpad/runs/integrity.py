"""Whether the files that decide the verdicts of a run are still those that it was made with.

The manifest holds the hashes of settings and columns, and one of its own content. That finds accidents and hasty edits; it is a
record and not a signature: whoever may write to the folder can write new hashes as well.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Self

MANIFEST = "manifest.json"
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
