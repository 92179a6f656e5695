"""What the subject that was asked about a bundle did, as a picture; the bundle's own pictures show the subject that was found out."""

from __future__ import annotations

import json
import math
import os
import shlex
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skidpad import __version__
from skidpad.core.errors import SkidpadError
from skidpad.core.files import write_atomically
from skidpad.core.images import write_image
from skidpad.kinds.bundles import FINDING, FORMAT, JudgedPair, check_to_table
from skidpad.kinds.drives import filmstrip
from skidpad.kinds.drives.evidence import JudgedDrive
from skidpad.kinds.duels import film as duel_film
from skidpad.kinds.duels.evidence import JudgedDuel
from skidpad.kinds.evidence import Evidence, witness_of
from skidpad.kinds.kind import campaign_name
from skidpad.page.arrows import pair_picture
from skidpad.page.wording import plain
from skidpad.subjects.pretrained import subject_path

if TYPE_CHECKING:
    from skidpad.kinds.bundles import Scene
    from skidpad.kinds.shrinking import Shrunk
    from skidpad.runs.folder import Run


def suffix_of(scene: Scene) -> str:
    """Returns how the file of a scene's picture ends: pairs are pixels, films are drawings."""
    return ".png" if isinstance(scene, JudgedPair) else ".svg"


def draw_scene(scene: Scene, title: str, path: Path) -> None:
    """Draws what a subject did."""
    if isinstance(scene, JudgedPair):
        write_image(path, pair_picture(scene.original, scene.mutant, *scene.answers, caption=title, unit=scene.unit))
        return
    write_atomically(path, duel_film.standalone(_film(scene, title)).encode())


def _film(scene: Scene, title: str) -> str:
    if isinstance(scene, JudgedDrive):
        return filmstrip.strip("strip", title, filmstrip.film_of(scene.rides, scene.row))
    if isinstance(scene, JudgedDuel):
        film = duel_film.Film(scene.trace(), scene.driven.scenario.lanes, *scene.actions)
        return duel_film.film_strip("strip", title, film)
    raise TypeError(f"no picture is known for {type(scene).__name__}; add it here")


README, SUMS = "README.md", "SHA256SUMS"


@dataclass(frozen=True, slots=True)
class Bundle:
    """An exported finding; `test` is None where nobody can be asked about the case again."""

    folder: Path
    case_id: str
    evidence: Evidence
    test: Path | None
    files: tuple[Path, ...]


def export_finding(campaign: Any, run: Run, prefix: str, folder: Path, shrunk: Shrunk | None = None) -> Bundle:
    """Writes the case whose id begins with `prefix` into a new or empty folder; with `shrunk`, its smallest case instead.

    campaign: of the kind that the run names, as `load_campaign` gives it.
    """
    _check_free(folder)
    row = run.find_row(prefix) if shrunk is None else shrunk.smallest
    witness = witness_of(campaign, run)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        evidence = witness.testify(row, folder)
        evidence = replace(evidence, subject=_seen_from(folder, evidence.subject))
        case: str = row["case_id"]
        test = folder / f"test_finding_{case}.py" if evidence.check is not None and row["violated"] else None
        if test is not None:
            write_atomically(test, _test_source(case, evidence, test.name).encode())
            evidence = replace(evidence, files={**evidence.files, test.name: "fails until the subject is mended"})
        found = run.find_row(prefix)["case_id"]
        about = _about(run, row, evidence, found)
        write_atomically(folder / FINDING, (json.dumps(_plain(about), indent=2, ensure_ascii=False) + "\n").encode())
        evidence = replace(evidence, files={**evidence.files, FINDING: "recipe, answers, hashes, versions, settings"})
        write_atomically(folder / README, _readme(run, case, found, evidence, test).encode())
        files = tuple(sorted(path for path in folder.rglob("*") if path.is_file()))
        sums = "".join(f"{_sha256(path)}  {path.relative_to(folder).as_posix()}\n" for path in files)
        write_atomically(folder / SUMS, sums.encode())
    except OSError as error:
        raise SkidpadError(f"cannot write the bundle to {folder}: {error.strerror}; choose another --out") from error
    return Bundle(folder, case, evidence, test, (*files, folder / SUMS))


def _check_free(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SkidpadError(f"{folder} is in use; name an empty or a new folder with --out")


def _seen_from(folder: Path, subject: str) -> str:
    """Returns a path as it is from the bundle, so that both can move together; `demo` for the network that comes along."""
    if not Path(subject).is_absolute():
        return subject
    return "demo" if Path(subject) == subject_path("demo") else Path(os.path.relpath(subject, folder.absolute())).as_posix()


def _about(run: Run, row: Mapping[str, Any], evidence: Evidence, found: str) -> dict[str, Any]:
    return {
        "skidpad_bundle": FORMAT,
        "case_id": row["case_id"],
        "shrunk_from": found if found != row["case_id"] else None,
        "campaign": campaign_name(run.config, str(run.path)),
        "title": evidence.title,
        "said": evidence.said,
        "subject": evidence.subject,
        "recipe": evidence.recipe,
        "answers": evidence.answers,
        "check": None if evidence.check is None else check_to_table(evidence.check),
        "hashes": run.manifest.hashes,
        "versions": run.manifest.versions,
        "exported_by": __version__,
        "seed": run.manifest.seed,
        "settings": run.config,
        "record": row,
    }


def _plain(value: Any) -> Any:
    """Returns what JSON can hold: bytes as base64, what is no finite number as null."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _test_source(case: str, evidence: Evidence, name: str) -> str:
    said = f"{evidence.said[:1].upper()}{evidence.said[1:]}."
    lines = [f"Finding {case}: {evidence.title}.", "", said, "", "Fails until the subject is mended:", ""]
    lines += [f"    pytest {name}", f"    pytest {name} --skidpad-subject mended.toml"]
    text = "\n".join(_harmless(line) for line in lines)
    return (
        f'"""{text}\n"""\n\n'
        "from pathlib import Path\n\n"
        "from skidpad.pytest_plugin import assert_mended\n\n"
        f"SKIDPAD_SUBJECT = {evidence.subject!r}\n"
        '"""Who is asked where --skidpad-subject names nobody else; a path is seen from this file."""\n\n\n'
        f"def test_finding_{case}(skidpad_subject_name):\n"
        "    assert_mended(skidpad_subject_name, Path(__file__).parent)\n"
    )


def _harmless(line: str) -> str:
    """Returns a line that cannot end the text it stands in: names of frames and scenarios are foreign."""
    return plain(line, 300).replace("\\", "/").replace('"', "'")


def _readme(run: Run, case: str, found: str, evidence: Evidence, test: Path | None) -> str:
    at = shlex.quote(run.place)
    lines = [f"# Finding {case}", "", f"{plain(evidence.title, 300)}: {plain(evidence.said, 400)}.", ""]
    lines += ["| file | what it is |", "| --- | --- |"]
    lines += [f"| `{name}` | {what} |" for name, what in evidence.files.items()]
    if found != case:
        lines += ["", f"This is the smallest case that shrinking made of the finding {found}."]
    lines += ["", "Look again in the run, which must still be there:", "", f"    skidpad replay {at} {found}"]
    if test is not None:
        lines += ["", "Is the subject mended? Nothing but this folder is needed:", "", f"    pytest {test.name}"]
        lines += [f"    pytest {test.name} --skidpad-subject mended.toml"]
    lines += ["", f"The files are whole if `sha256sum --check {SUMS}` says so.", ""]
    return "\n".join(lines)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
