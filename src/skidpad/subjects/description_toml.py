"""The description as a small TOML beside the weights: reading it with errors that teach, and writing it back."""

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from skidpad.core import files, toml
from skidpad.core.errors import BadSubjectError
from skidpad.core.settings import plain, read
from skidpad.core.units import AngleUnit, Axle
from skidpad.subjects.description import STEERING, Decode, Description, Format


def minimal_description(file: str, format_: Format) -> str:
    """Returns the shortest TOML that could describe `file`, for a user to copy and correct."""
    architecture = 'architecture = "pilotnet"\n' if format_.weights_only else ""
    return (
        f'file = "{file}"\nformat = "{format_.value}"\n{architecture}\n'
        '[input]\nwidth_px = 200\nheight_px = 66\ncolour = "yuv"\nrange = { low = -1.0, high = 1.0 }\n\n'
        '[[outputs]]\nname = "steering"\nunit = "rad"\n'
    )


def read_description(path: Path) -> Description:
    """Reads the description at `path`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadSubjectError(f"cannot read the description {path}: {error}") from error
    return parse_description(text, str(path), default_name=path.stem)


def write_description(path: Path, description: Description) -> None:
    """Writes the description to `path`, whole or not at all."""
    write_atomically(path, format_description(description).encode())


def parse_description(text: str, where: str = "description", default_name: str = "subject") -> Description:
    """Reads a description from TOML text; `where` names it in errors."""
    try:
        data = toml.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadSubjectError(f"{where} is not TOML: {error}") from error
    except RecursionError as error:
        raise BadSubjectError(f"{where} is no description: its lists or tables are nested too deeply; one has three levels") from error
    if data.get("file") == "":
        raise BadSubjectError(f"{where}: file must not be empty; write the name of the network's file")
    try:
        # a black box has no file
        left_out = {"name": default_name} | ({"file": ""} if data.get("format") == Format.BOX.value else {})
        return read(Description, left_out | data, "the description", BadSubjectError)
    except BadSubjectError as error:
        further = [key for key in missing_keys(data) if repr(key.partition(" ")[0]) not in str(error)]
        more = f"; also missing: {', '.join(further)}" if further else ""
        raise BadSubjectError(f"{where}: {error}{more}") from error


def missing_keys(data: Mapping[str, object]) -> tuple[str, ...]:
    """Returns every key that a description must have and the parsed TOML has not, as `colour of [input]`."""
    box = data.get("format") == Format.BOX.value
    wanted = ["format", *(["box"] if box else ["file"]), "input", "outputs"]
    if data.get("format") in {kind.value for kind in Format if kind.weights_only}:
        wanted.append("architecture")
    missing = [key for key in wanted if key not in data]
    spec = data.get("input")
    if isinstance(spec, dict):
        missing += [f"{key} of [input]" for key in ("width_px", "height_px", "colour", "range") if key not in spec]
    outputs = data.get("outputs")
    for number, output in enumerate(outputs if isinstance(outputs, list) else [], 1):
        if isinstance(output, dict):
            needed = ("name", "unit") if output.get("name") == STEERING else ("name",)
            missing += [f"{key} of [[outputs]] number {number}" for key in needed if key not in output]
    return tuple(missing)


def left_to_default(data: Mapping[str, object]) -> tuple[str, ...]:
    """Returns what a parsed description does not say and skidpad therefore takes for granted, in words."""
    found = data.get("input")
    spec: Mapping[str, object] = found if isinstance(found, dict) else {}
    taken = {"crop": "nothing is cut away", "layout": "nchw", "history": "one frame at a time"}
    said = [f"{key} of [input]: {words}" for key, words in taken.items() if key not in spec]
    outputs = data.get("outputs")
    for number, output in enumerate(outputs if isinstance(outputs, list) else [], 1):
        if isinstance(output, dict) and "unit" not in output:
            said.append(f"unit of [[outputs]] number {number}: a plain number")
        elif isinstance(output, dict) and "axle" not in output and output["unit"] in {unit.value for unit in AngleUnit}:
            said.append(f"axle of [[outputs]] number {number}: the angle is of the steering wheel")
    return tuple(said)


def format_description(description: Description) -> str:
    """Writes a description as TOML, so that `parse_description` gives the same one back.

    Every key is spelled out but those that few descriptions have, as those of road wheels, bins and equalisation: without them a
    description has the hash that it had before there were such keys, and what was run with it can go on.
    """
    table = plain(description)
    table["input"] = {"width_px": 0, "height_px": 0, "colour": "", "layout": "", "crop": {}, **table["input"]}  # the order that hashes know
    if not description.input.standardise:
        del table["input"]["standardise"]
    for output in table["outputs"]:
        if output["axle"] == Axle.STEERING_WHEEL.value:
            del output["axle"], output["ratio"]
        if output["decode"] == Decode.NUMBER.value:
            del output["decode"], output["bins"]
    if description.box:
        del table["file"]
        table["box"] = {key: value for key, value in table["box"].items() if value != []}
    if not description.lambdas:
        del table["lambdas"]
    spec, outputs = table.pop("input"), table.pop("outputs")
    return toml.dumps({**table, "input": spec, "outputs": outputs})


def description_hash(description: Description) -> str:
    """Hashes everything in a description that changes an answer; renaming the subject or its file does not."""
    plain = replace(description, name="", file="", input=replace(description.input, frame_aspect=None))
    return sha256(format_description(plain).encode()).hexdigest()


def write_atomically(path: Path, data: bytes) -> None:
    """Writes a file of a subject, and the folder it is to be in, or says that the place cannot be written."""
    with _writable(path):
        files.write_atomically(path, data)


def discard(path: Path) -> None:
    """Removes a file that may not be there; makes the folder it would be in, so that a bad place is known before the work."""
    with _writable(path):
        path.unlink(missing_ok=True)


@contextmanager
def _writable(path: Path) -> Iterator[None]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise BadSubjectError(f"cannot write {path}: {error.strerror or error}; choose a place that can be written") from error
