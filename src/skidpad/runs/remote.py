"""Runs on servers: computed in a folder of the cache, and kept at the URL, which is the truth.

What a run writes is put at the URL, file by file and in the order of writing, before the run goes on. Killed at any moment, the
URL holds a run as a folder would; `pull` makes the working folder of any machine like it. Shards are named by their content and
do not depend on who computes them, so two machines that resume the same run do the same work twice and no harm.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Self

from skidpad.core.errors import BadRunError
from skidpad.core.files import exclusive, is_held, read_plain, write_atomically
from skidpad.drives.frames import map_ahead
from skidpad.drives.remote import RemoteFile, RemoteFiles, ServerGoneError, cache_folder

MARK = ".skidpad-url"
"""Stands in the working folder and says where the run is kept; so its path is as good as the URL."""

_COLLAPSED = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+):/+(?P<rest>[^/].*)", re.ASCII)  # Path("s3://b/r") is s3:/b/r
_OWN = re.compile(r"(?:config\.toml|schema\.json|manifest\.json|(?:segments|state)/\w[\w.+-]*)", re.ASCII)
_MANIFEST = "manifest.json"
_SEGMENTS = "segments"
_AT_ONCE = 8


def _working_folder(url: str) -> Path:
    name = re.sub(r"[^\w.-]", "_", url.rpartition("/")[2])
    return cache_folder() / "runs" / sha256(url.encode()).hexdigest()[:16] / name


@dataclass(frozen=True, slots=True)
class Mirror:
    """One run at a URL, and the folder of this machine that works on it."""

    remote: RemoteFiles
    folder: Path

    @classmethod
    def of(cls, path: Path) -> Self | None:
        """Returns the mirror of a URL that was taken for a path, or of a working folder; None for any other folder."""
        if path.exists():
            try:
                url = read_plain(path / MARK).decode("utf-8", "replace").strip()
            except (OSError, BadRunError):
                return None
            # In a folder from a stranger the mark must not lead to a server of theirs, so only the working folder of its URL has one.
            return cls(RemoteFiles(url), path) if path.resolve() == _working_folder(url).resolve() else None
        match = _COLLAPSED.fullmatch(str(path))
        if match is None:
            return None
        url = f"{match['scheme']}://{'/' if match['scheme'] == 'file' else ''}{match['rest']}".rstrip("/")
        return cls(RemoteFiles(url), _working_folder(url))

    def begin(self) -> None:
        """Makes an empty working folder for a new run; refused where the URL holds a run already."""
        if _MANIFEST in {file.path for file in self._listing()}:
            raise BadRunError(f"a run lies at {self.remote.url}; go on with it (skidpad resume {self.remote.url}) or choose another --out")
        self.folder.mkdir(parents=True, exist_ok=True)
        with exclusive(self.folder):
            self._write_mark()
            for path in self._local():
                path.unlink()

    def pull(self) -> None:
        """Makes the working folder like the URL; left as it is where a process of this machine works on it."""
        if is_held(self.folder):
            return
        files = self._listing()
        if _MANIFEST not in {file.path for file in files}:
            raise BadRunError(f"no run at {self.remote.url}; `skidpad test SUBJECT DRIVE --out {self.remote.url}` makes one")
        for name in (_SEGMENTS, "state"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        with exclusive(self.folder):
            self._write_mark()
            kept = {file.path for file in files}
            for path in self._local():
                if path.parent.name == _SEGMENTS and path.relative_to(self.folder).as_posix() not in kept:
                    path.unlink()  # computed here and never put there, so to everyone else it was not computed
            for _ in map_ahead(self._get, files, _AT_ONCE, 4 * _AT_ONCE):
                pass

    def push(self, path: Path, data: bytes) -> None:
        """Puts one file of the working folder at the URL; the manifest only where there is none."""
        name = path.relative_to(self.folder).as_posix()
        try:
            self.remote.write(name, data, new=name == _MANIFEST)
        except FileExistsError as error:
            raise BadRunError(f"another run was begun at {self.remote.url} at the same time; choose another --out") from error
        except (ServerGoneError, OSError, NotImplementedError) as error:
            begun = name != _MANIFEST and (self.folder / _MANIFEST).exists()
            way_out = (
                f"what is there stays; go on with: skidpad resume {self.remote.url}"
                if begun
                else "no run was begun; mend it or choose another --out"
            )
            raise BadRunError(f"{error or 'not allowed'}; {way_out}") from error

    def _listing(self) -> list[RemoteFile]:
        try:
            return [file for file in self.remote.listing() if _OWN.fullmatch(file.path)]
        except FileNotFoundError:
            return []
        except (OSError, NotImplementedError) as error:
            raise BadRunError(f"cannot list {self.remote.url}: {error or 'not allowed'}; check your credentials") from error

    def _get(self, file: RemoteFile) -> None:
        target = self.folder / file.path
        whole = file.path.startswith(f"{_SEGMENTS}/") and target.is_file() and target.stat().st_size == file.size
        if not whole:
            self.remote.download(file, target)

    def _local(self) -> list[Path]:
        return [path for path in self.folder.rglob("*") if path.is_file() and _OWN.fullmatch(path.relative_to(self.folder).as_posix())]

    def _write_mark(self) -> None:
        write_atomically(self.folder / MARK, f"{self.remote.url}\n".encode())
