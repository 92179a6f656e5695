"""Findings as folders: what is written of a case, and how any later subject is asked about it again without the run that found it."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from skidpad import __version__
from skidpad.core.errors import SkidpadError, UnknownNameError
from skidpad.core.files import write_atomically
from skidpad.core.settings import jsonable
from skidpad.kinds.kind import KINDS, campaign_name, kind_of
from skidpad.page.wording import plain
from skidpad.subjects.base import Subject
from skidpad.subjects.description import subject_path
from skidpad.subjects.loading import load_subject

if TYPE_CHECKING:
    from skidpad.kinds.shrinking import Shrunk
    from skidpad.runs.folder import Run

FINDING = "finding.json"
FORMAT = 1
"""The version of a bundle's layout."""


class DrawnScene(Protocol):
    """What can be drawn of a judgement; suffix: how the file ends, as pairs are pixels and films are drawings."""

    suffix: ClassVar[str]

    def draw(self, title: str, path: Path) -> None:
        """Draws what the subject did."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Judgement:
    """How a subject did on a bundled case, and what it did, in words and as something to draw (None where there is nothing)."""

    holds: bool
    said: str
    scene: DrawnScene | None = None


class Check(Protocol):
    """A bundled case that judges subjects: a dataclass of plain values. kind: its name in the file, as among `Kind.checks`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    kind: ClassVar[str]

    def judge(self, folder: Path, subject: str | Path | Subject) -> Judgement:
        """Asks a subject, loaded or by the text that names it, about the case whose files lie in `folder`."""
        ...


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was written of a case into a folder.

    title: the case in one line. said: what went wrong, in a sentence. subject: the text that names whom to ask, "" where there is none.
    files: what was written, with what each is, by its name within the folder. recipe: the stimulus as plain values.
    """

    title: str
    said: str
    subject: str
    files: Mapping[str, str]
    recipe: object
    answers: Mapping[str, object]
    check: Check | None


class Exporter(Protocol):
    """Shows the cases of one run; rows have the columns of the run, and need not be among its records."""

    def draw(self, row: Mapping[str, Any], folder: Path, stem: str) -> tuple[Path, ...]:
        """Draws a case as one picture or film strip (and what moves), named after the stem."""
        ...

    def export(self, row: Mapping[str, Any], folder: Path) -> Evidence:
        """Writes everything that there is of a case."""
        ...


def read_check(folder: Path) -> Check:
    """Reads the check of a bundle."""
    path = folder / FINDING
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        version, values = table["skidpad_bundle"], dict(table["check"])
        kind = values.pop("kind")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SkidpadError(f"{folder} is no bundle: {FINDING} cannot be read ({error}); `skidpad export RUN FINDING` writes one") from error
    if version != FORMAT:
        raise SkidpadError(f"the bundle {folder} has format {version}, and this skidpad reads {FORMAT}; export the finding anew")
    checks = {name: check for each in KINDS.names() for name, check in KINDS.get(each).checks.items()}
    if kind not in checks:
        raise UnknownNameError.among("kind of bundle", str(kind), checks)
    try:
        made: Check = checks[kind](**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})
    except TypeError as error:
        raise SkidpadError(f"the check in {path} is damaged ({error}); export the finding anew") from error
    return made


def judge_bundle(folder: Path, subject: str | Path | Subject) -> Judgement:
    """Asks a subject about the case of a bundle; the run that found it is not needed."""
    return read_check(folder).judge(folder, subject)


def loaded(subject: str | Path | Subject) -> Subject:
    """Returns a subject, read from its description where only that is named (`demo` is bundled)."""
    return load_subject(subject_path(str(subject))) if isinstance(subject, str | Path) else subject


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
    exporter = kind_of(run).part("exporter", "exported")(campaign, run)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        evidence = exporter.export(row, folder)
        evidence = replace(evidence, subject=_seen_from(folder, evidence.subject))
        case: str = row["case_id"]
        test = folder / f"test_finding_{case}.py" if evidence.check is not None and row["violated"] else None
        if test is not None:
            write_atomically(test, _test_source(case, evidence, test.name).encode())
            evidence = replace(evidence, files={**evidence.files, test.name: "fails until the subject is mended"})
        found = run.find_row(prefix)["case_id"]
        about = _about(run, row, evidence, found)
        write_atomically(folder / FINDING, (json.dumps(jsonable(about), indent=2, ensure_ascii=False) + "\n").encode())
        evidence = replace(evidence, files={**evidence.files, FINDING: "recipe, answers, hashes, versions, settings"})
        write_atomically(folder / README, _readme(run, case, found, evidence, test).encode())
        files = tuple(sorted(path for path in folder.rglob("*") if path.is_file()))
        sums = "".join(f"{_sha256(path)}  {path.relative_to(folder).as_posix()}\n" for path in files)
        write_atomically(folder / SUMS, sums.encode())
    except OSError as error:
        raise SkidpadError(f"cannot write the bundle to {folder}: {error.strerror}; choose another --out") from error
    return Bundle(folder, case, evidence, test, (*files, folder / SUMS))


def _values(check: Check) -> dict[str, Any]:
    return {field.name: getattr(check, field.name) for field in fields(check)}


def _check_free(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SkidpadError(f"{folder} is in use; name an empty or a new folder with --out")


def _seen_from(folder: Path, subject: str) -> str:
    """Returns a path as it is from the bundle, so that both can move together; `demo` for the bundled network."""
    if not Path(subject).is_absolute():
        return subject
    return "demo" if Path(subject) == subject_path("demo") else Path(os.path.relpath(subject, folder.absolute())).as_posix()


def _about(run: Run, row: Mapping[str, Any], evidence: Evidence, found: str) -> dict[str, Any]:
    return {
        "skidpad_bundle": FORMAT,
        "case_id": row["case_id"],
        "shrunk_from": found if found != row["case_id"] else None,
        "campaign": campaign_name(run.config, run.place),
        "title": evidence.title,
        "said": evidence.said,
        "subject": evidence.subject,
        "recipe": evidence.recipe,
        "answers": evidence.answers,
        "check": None if evidence.check is None else {"kind": evidence.check.kind, **_values(evidence.check)},
        "hashes": run.manifest.hashes,
        "versions": run.manifest.versions,
        "exported_by": __version__,
        "seed": run.manifest.seed,
        "settings": run.config,
        "record": row,
    }


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
