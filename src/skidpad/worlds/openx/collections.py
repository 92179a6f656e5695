"""Public collections of OpenSCENARIO files: fetched from where their authors publish them, and kept only if nothing of them has changed."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path, PurePosixPath

from skidpad.core.errors import SkidpadError
from skidpad.core.files import write_atomically
from skidpad.core.registry import Registry
from skidpad.drives.http_files import HttpFiles

_MAX_BYTES = 64 << 20
_KEPT = (".xosc", ".xodr", "LICENSE", "README.md")


@dataclass(frozen=True, slots=True)
class Collection:
    """Scenarios at one commit of a public repository. sha256: of the files that are kept, by name and content (`content_sha256`)."""

    about: str
    address: str
    sha256: str
    scenarios: str
    """The folder that holds scenarios to play."""


COLLECTIONS: Registry[Collection] = Registry("collection of scenarios", "collections", ("skidpad.worlds.openx.collections",))

COLLECTIONS.register("alks")(
    Collection(
        "UN R157's tests of automated lane keeping systems, by BMW and ASAM (MPL-2.0)",
        "https://codeload.github.com/asam-oss/OSC-ALKS-scenarios/tar.gz/de21f223672ea5e426d5d113e0b3645b4b33e72f",
        "a6e694a31a7eab60561b77be6a57187fa06a4b71b1753714321da865a76624f4",
        "logical_scenarios/concrete_scenarios",
    )
)
COLLECTIONS.register("ncap")(
    Collection(
        "Euro NCAP's tests of collision avoidance, by Vector (MPL-2.0)",
        "https://codeload.github.com/vectorgrp/OSC-NCAP-scenarios/tar.gz/ee7aa111386a47ada64b001338e688d9134a83b0",
        "24a96de8e32362106a5886c6951e2eae081585a4075b56eff6d1a7dc5257ec98",
        "OpenSCENARIO/NCAP/AEB_C2C_2023/Variations",
    )
)


def content_sha256(files: Mapping[str, bytes]) -> str:
    """Returns the hash of files by their names and contents, whatever archive they came in."""
    told = "".join(f"{name}\0{sha256(files[name]).hexdigest()}\n" for name in sorted(files))
    return sha256(told.encode()).hexdigest()


def fetch(collection: Collection, out: Path, address: str = "") -> list[Path]:
    """Fetches a collection into a new or empty folder; nothing is written unless everything is as it was. address: another place."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise SkidpadError(f"{str(out)!r} is in use; name an empty or a new folder to fetch the scenarios to")
    where = address or collection.address
    try:
        content = HttpFiles().cat_file(where)
    except OSError as error:
        raise SkidpadError(f"cannot fetch {where}: {error}") from error
    files = _unpacked(content, where)
    found = content_sha256(files)
    if found != collection.sha256:
        raise SkidpadError(f"what came from {where} is not what it was: its SHA-256 is {found}, and should be {collection.sha256}")
    paths = [out / name for name in sorted(files)]
    for path, name in zip(paths, sorted(files), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, files[name])
    return paths


def _unpacked(content: bytes, where: str) -> dict[str, bytes]:
    """Returns the files of a packed repository that are kept, without the folder around them."""
    files: dict[str, bytes] = {}
    total = 0
    try:
        with tarfile.open(fileobj=BytesIO(content), mode="r:gz") as archive:
            for member in archive:
                total += member.size
                if total > _MAX_BYTES:
                    raise SkidpadError(f"what came from {where} grows to more than {_MAX_BYTES >> 20} MiB")
                name = PurePosixPath(*PurePosixPath(member.name).parts[1:])
                if not member.isreg() or ".." in name.parts or name.is_absolute() or not name.name.endswith(_KEPT):
                    continue
                file = archive.extractfile(member)
                files[str(name)] = b"" if file is None else file.read()
    except (tarfile.TarError, OSError, EOFError) as error:
        raise SkidpadError(f"what came from {where} is no packed repository: {error}") from error
    return files
