"""A subject is described once: where its weights are, what it wants to see (`inputs`), what its answers mean.

The description is a small TOML beside the weights; it is read with errors that teach, and written back. The networks in `pretrained`
were trained by skidpad itself on its own rendered roads; each .training.json holds the command.
"""

import errno
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import Enum
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Annotated

from skidpad.core import files
from skidpad.core.errors import BadSubjectError, UnknownNameError
from skidpad.core.settings import Mark, Text, plain, read, read_toml, write_toml
from skidpad.core.units import STEERING_RATIO, AngleUnit, Axle, Unit
from skidpad.subjects.inputs import InputSpec

STEERING = "steering"
MAX_TIMEOUT_S = 86_400.0
MAX_RESTARTS = 1000
MAX_BINS = 1000
MAX_RATIO = 100.0
"""Road cars steer with 10 to 25."""

IN_MEMORY = "in memory"
"""The file of a network that a program made and no command can open."""


class Format(Enum):
    """How the network is given; no file is read by executing what it holds. A box is run, not read: see `Box`."""

    SAFETENSORS = "safetensors"
    STATE_DICT = "state-dict"
    TORCHSCRIPT = "torchscript"
    EXPORT = "export"
    ONNX = "onnx"
    KERAS = "keras"
    TFLITE = "tflite"
    BOX = "box"

    @property
    def weights_only(self) -> bool:
        """Tells whether the file holds tensors alone, so that the description must name an architecture."""
        return self in {Format.SAFETENSORS, Format.STATE_DICT}


class Decode(Enum):
    """How an output is read from the network's numbers: one number as it is, or the strongest of several bins."""

    NUMBER = "number"
    BINS = "bins"


@dataclass(frozen=True, slots=True)
class Bins:
    """Numbers that each stand for a value, evenly spaced from `low` for the first to `high` for the last.

    Reference: donkeycar, utils.py, linear_unbin; its steering has 15 bins from -1 to 1.
    """

    count: int = 15
    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not 2 <= self.count <= MAX_BINS:
            raise BadSubjectError(f"an output has 2 to {MAX_BINS} bins; got count = {self.count}")
        if not (isfinite(self.low) and isfinite(self.high) and self.low < self.high):
            raise BadSubjectError(f"bins go from a low to a higher value, as low = -1.0, high = 1.0; got {self.low:g} and {self.high:g}")

    @property
    def step(self) -> float:
        """How far apart the values of two neighbours are."""
        return (self.high - self.low) / (self.count - 1)


@dataclass(frozen=True, slots=True)
class Output:
    """One value of the network's answer; `answer * scale` is in `unit` (None where nobody says what it is).

    A negative scale flips the sign, for networks trained with left and right the other way round. An angle is of `axle`; where that
    is the road wheels, `ratio` says how many degrees of the steering wheel turn them by one. With `decode` as bins the network gives a
    number for each of `bins`, and the answer is the value of the largest.
    """

    name: Text
    unit: Unit | None = None
    scale: float = 1.0
    axle: Axle = Axle.STEERING_WHEEL
    ratio: float = STEERING_RATIO
    decode: Decode = Decode.NUMBER
    bins: Bins = Bins()

    def __post_init__(self) -> None:
        if not isfinite(self.scale) or self.scale == 0.0:
            raise BadSubjectError(f"the scale of output {self.name!r} must be finite and not zero; got {self.scale}")
        if self.name == STEERING and not self.is_angle:
            units = ", ".join(unit.value for unit in AngleUnit)
            raise BadSubjectError(f'the output {STEERING!r} needs a unit of angles ({units}); write unit = "rad"')
        if not 0.0 < self.ratio <= MAX_RATIO:
            raise BadSubjectError(
                f"the ratio of output {self.name!r} is degrees of the steering wheel for one of the road wheels, above 0 and at most "
                f"{MAX_RATIO:g}, as {STEERING_RATIO}; got {self.ratio:g}"
            )
        if self.axle is Axle.ROAD_WHEEL and not self.is_angle:
            raise BadSubjectError(f"output {self.name!r} is no angle, so it is of no axle; give it a unit of angles, or remove axle")
        if self.decode is Decode.NUMBER and self.bins != Bins():
            raise BadSubjectError(f'output {self.name!r} has bins, so it must be decoded; write decode = "bins", or remove bins')
        if self.axle is Axle.STEERING_WHEEL and self.ratio != STEERING_RATIO:
            raise BadSubjectError(
                f"output {self.name!r} has a ratio, which is for angles of the road wheels; "
                f'write axle = "{Axle.ROAD_WHEEL.value}", or remove ratio'
            )

    @property
    def is_angle(self) -> bool:
        """Whether the answer is an angle, which is radians inside and degrees at the surface."""
        return isinstance(self.unit, AngleUnit)

    @property
    def numbers(self) -> int:
        """How many of the network's numbers it is read from."""
        return self.bins.count if self.decode is Decode.BINS else 1

    @property
    def per_answer(self) -> float:
        """What one of the network's own numbers is in radians of the steering wheel, for an angle, else in the unit of the output."""
        of_axle = self.ratio if self.axle is Axle.ROAD_WHEEL else 1.0
        return self.scale * (self.unit.rad * of_axle if isinstance(self.unit, AngleUnit) else 1.0)


@dataclass(frozen=True, slots=True)
class Box:
    """A network that is only asked, never opened: exactly one of a Python callable, a program or an HTTP address.

    function: `module:name`. command: a program and its words. A box that has not answered a batch within `timeout_s` is dead;
    it is started again at most `restarts` times in a row.
    """

    function: Text | None = None
    command: Annotated[tuple[Text, ...], Mark.NOT_EMPTY] = ()
    url: Text | None = None
    timeout_s: float = 30.0
    restarts: int = 3

    def __post_init__(self) -> None:
        if sum((self.function is not None, bool(self.command), self.url is not None)) != 1:
            raise BadSubjectError('a box is one of function = "module:name", command = ["program", ...] and url = "http://..."')
        if not 0.0 < self.timeout_s <= MAX_TIMEOUT_S:
            raise BadSubjectError(f"timeout_s of a box is above 0 and at most {MAX_TIMEOUT_S:g}, a day; got {self.timeout_s:g}")
        if not 0 <= self.restarts <= MAX_RESTARTS:
            raise BadSubjectError(f"restarts of a box are 0 to {MAX_RESTARTS}; got {self.restarts}")


@dataclass(frozen=True, slots=True)
class Description:
    """The whole of what skidpad is told about a subject; files are relative to the TOML that holds the description.

    weights: the second file of a Keras pair. lambdas: what stands for each Lambda layer of a Keras file, as (layer, expression in x).
    """

    name: Text
    file: str
    format: Format
    input: InputSpec
    outputs: Annotated[tuple[Output, ...], Mark.REQUIRED] = (Output(STEERING, AngleUnit.RAD),)
    architecture: Text | None = None
    weights: Text | None = None
    lambdas: tuple[tuple[str, Text], ...] = ()
    box: Box | None = None

    def __post_init__(self) -> None:
        if (self.box is not None) != (self.format is Format.BOX):
            raise BadSubjectError('a black box has format = "box" and a table [box]; other formats have neither')
        if self.box is not None and self.file:
            raise BadSubjectError(f"a black box has no file; remove file = {self.file!r}")
        if self.box is not None and any(output.decode is Decode.BINS for output in self.outputs):
            raise BadSubjectError('a black box decodes its own bins and answers one number for each output; remove decode = "bins"')
        names = [output.name for output in self.outputs]
        if not names:
            raise BadSubjectError(f'a subject needs an output; write [[outputs]] with name = "{STEERING}" and unit = "rad"')
        near = [] if self.steers else get_close_matches(STEERING, names, n=1, cutoff=0.8)
        if near:
            raise BadSubjectError(f"no output is named {STEERING!r}, but one {near[0]!r}; did you mean {STEERING!r}?")
        if len(set(names)) != len(names):
            raise BadSubjectError(f"output names must differ; got {', '.join(names)}")
        if self.format.weights_only and self.architecture is None:
            raise BadSubjectError(
                f'a file of format {self.format.value!r} holds weights alone; name the network, as architecture = "pilotnet"'
            )

    def column(self, output: str) -> int:
        """Returns the position of a named output among the network's."""
        names = [known.name for known in self.outputs]
        if output not in names:
            raise UnknownNameError.among(f"output of {self.name!r}", output, names)
        return names.index(output)

    @property
    def steers(self) -> bool:
        """Whether one of the outputs is the steering."""
        return any(output.name == STEERING for output in self.outputs)

    @property
    def steering_column(self) -> int:
        """The position of the steering among the network's outputs."""
        if not self.steers:
            names = ", ".join(output.name for output in self.outputs)
            raise BadSubjectError(
                f"{self.name!r} has no output named {STEERING!r} (it has {names}), and labels are steering; "
                f"`skidpad test --output {self.outputs[0].name}` works without labels"
            )
        return self.column(STEERING)

    @property
    def steering(self) -> Output:
        """The steering output."""
        return self.outputs[self.steering_column]


def pretrained(name: str) -> Path:
    """Returns the description of a bundled network."""
    folder = Path(__file__).parent / "pretrained"
    known = [path.stem for path in folder.glob("*.toml")]
    if name not in known:
        raise UnknownNameError.among("pretrained network", name, known)
    return folder / f"{name}.toml"


def subject_path(text: str) -> Path:
    """Returns where a subject is described, absolute; the word `demo` is the bundled network."""
    return pretrained("pilotnet-rendered") if text == "demo" and not Path(text).exists() else Path(text).absolute()


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
        data = read_toml(text)
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
    return write_toml({**table, "input": spec, "outputs": outputs})


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
        is_full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        way_out = "free some space and run the same command again" if is_full else "choose a place that can be written"
        raise BadSubjectError(f"cannot write {path}: {error.strerror or error}; {way_out}") from error
