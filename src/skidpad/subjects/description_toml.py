"""The description as a small TOML beside the weights: reading it with errors that teach, and writing it back."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from difflib import get_close_matches
from enum import Enum
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from skidpad.core import toml
from skidpad.core.errors import BadSubjectError, UnknownNameError
from skidpad.core.units import STEERING_RATIO, UNITS, AngleUnit, Axle, Unit
from skidpad.subjects.description import (
    STEERING,
    Box,
    Colour,
    Crop,
    Description,
    Format,
    History,
    HistoryKind,
    InputSpec,
    Layout,
    Output,
    Range,
)
from skidpad.subjects.writing import write_atomically

E = TypeVar("E", bound=Enum)
T = TypeVar("T")


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
    try:
        return _description(_Table("the description", data), default_name)
    except (BadSubjectError, UnknownNameError) as error:
        further = [key for key in missing_keys(data) if f"key {key.partition(' ')[0]!r}" not in str(error)]
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

    Every key is spelled out but those of road wheels and of the frames' aspect, which few descriptions have: without them a
    description has the hash that it had before there were such keys, and what was run with it can go on.
    """
    file = {} if description.box else {"file": description.file}
    head: dict[str, object] = {"name": description.name, **file, "format": description.format.value}
    for key in ("architecture", "weights"):
        if getattr(description, key) is not None:
            head[key] = getattr(description, key)
    if description.lambdas:
        head["lambdas"] = dict(description.lambdas)
    spec = description.input
    table = {
        "width_px": spec.width_px,
        "height_px": spec.height_px,
        "colour": spec.colour.value,
        "layout": spec.layout.value,
        "crop": {side: getattr(spec.crop, side) for side in ("top", "bottom", "left", "right")},
        "range": {"low": _number_or_list(spec.range.low), "high": _number_or_list(spec.range.high)},
        "history": {"frames": spec.history.frames, "kind": spec.history.kind.value},
        **({"frame_aspect": spec.frame_aspect} if spec.frame_aspect is not None else {}),
    }
    outputs = [
        {
            "name": output.name,
            **({"unit": output.unit.value} if output.unit else {}),
            "scale": output.scale,
            **({"axle": output.axle.value, "ratio": output.ratio} if output.axle is Axle.ROAD_WHEEL else {}),
        }
        for output in description.outputs
    ]
    box = {"box": {key: value for key, value in asdict(description.box).items() if value not in (None, ())}} if description.box else {}
    return toml.dumps({**head, **box, "input": table, "outputs": outputs})


def description_hash(description: Description) -> str:
    """Hashes everything in a description that changes an answer; renaming the subject or its file does not."""
    plain = replace(description, name="", file="", input=replace(description.input, frame_aspect=None))
    return sha256(format_description(plain).encode()).hexdigest()


class _Table:
    """One table of the TOML whose keys are taken one by one; what is left over at the end is unknown."""

    def __init__(self, name: str, data: object) -> None:
        if not isinstance(data, dict):
            raise BadSubjectError(f"{name} must be a table of keys; got {data!r}")
        self.name = name
        self._data: Mapping[str, object] = data
        self._known: list[str] = []

    def take(self, key: str, read: Callable[[str, object], T], example: str, default: T | None = None) -> T:
        """Reads one key; without a default it must be there, and the error shows `example`."""
        self._known.append(key)
        if key not in self._data:
            if default is None:
                near = get_close_matches(key, [other for other in self._data if other not in self._known], n=1)
                got = f" and has the unknown key {near[0]!r}: did you mean {key!r}?" if near else f"; write, for example, {key} = {example}"
                raise BadSubjectError(f"{self.name} lacks the key {key!r}{got}")
            return default
        return read(f"{key} of {self.name}", self._data[key])

    def close(self) -> None:
        """Refuses the keys that nobody took."""
        for key in self._data:
            if key not in self._known:
                raise UnknownNameError.among(f"key of {self.name}", key, self._known)


def _description(table: _Table, default_name: str) -> Description:
    name = table.take("name", _text, '"pilotnet"', default_name)
    format_ = table.take("format", _choice(Format), '"safetensors"')
    file = "" if format_ is Format.BOX else table.take("file", _text, '"pilotnet.safetensors"')
    architecture = table.take("architecture", _text, '"pilotnet"', "")
    weights = table.take("weights", _text, '"model_weights.h5"', "")
    lambdas = table.take("lambdas", _lambdas, '{ lambda_1 = "x / 127.5 - 1" }', _NO_LAMBDAS)
    box = table.take("box", lambda _, value: _box(_Table("[box]", value)), "a table [box]") if format_ is Format.BOX else None
    spec = table.take("input", lambda _, value: _input(_Table("[input]", value)), "a table [input]")
    outputs = table.take("outputs", _outputs, "a table [[outputs]] with name and unit")
    table.close()
    return Description(name, file, format_, spec, outputs, architecture or None, weights or None, lambdas, box)


def _lambdas(name: str, value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        raise BadSubjectError(f'{name} must be a table of layers and expressions, as {{ lambda_1 = "x / 127.5 - 1" }}; got {value!r}')
    return tuple((layer, _text(f"{layer} of {name}", expression)) for layer, expression in value.items())


def _box(table: _Table) -> Box:
    made = Box(
        function=table.take("function", _text, '"my_module:steer"', "") or None,
        command=table.take("command", _words, '["python2", "serve.py"]', ()),
        url=table.take("url", _text, '"http://127.0.0.1:8000/steer"', "") or None,
        timeout_s=table.take("timeout_s", _number, "30.0", 30.0),
        restarts=table.take("restarts", _whole, "3", 3),
    )
    table.close()
    return made


def _input(table: _Table) -> InputSpec:
    aspect = table.take("frame_aspect", _numbers, "1.333", _NO_NUMBERS)
    if len(aspect) > 1:
        raise BadSubjectError(f"frame_aspect of [input] must be one number; got {len(aspect)}")
    spec = InputSpec(
        width_px=table.take("width_px", _whole, "200"),
        height_px=table.take("height_px", _whole, "66"),
        colour=table.take("colour", _choice(Colour), '"rgb"'),
        range=table.take("range", lambda _, value: _range(_Table("range of [input]", value)), "{ low = 0.0, high = 1.0 }"),
        crop=table.take("crop", lambda _, value: _crop(_Table("crop of [input]", value)), "{ top = 0.4 }", Crop()),
        layout=table.take("layout", _choice(Layout), '"nchw"', Layout.NCHW),
        history=table.take(
            "history", lambda _, value: _history(_Table("history of [input]", value)), '{ frames = 1, kind = "single" }', History()
        ),
        frame_aspect=aspect[0] if aspect else None,
    )
    table.close()
    return spec


def _range(table: _Table) -> Range:
    made = Range(table.take("low", _numbers, "-1.0"), table.take("high", _numbers, "1.0"))
    table.close()
    return made


def _crop(table: _Table) -> Crop:
    sides = {side: table.take(side, _number, "0.4", 0.0) for side in ("top", "bottom", "left", "right")}
    table.close()
    return Crop(**sides)


def _history(table: _Table) -> History:
    made = History(table.take("frames", _whole, "1"), table.take("kind", _choice(HistoryKind), '"single"'))
    table.close()
    return made


def _outputs(name: str, value: object) -> tuple[Output, ...]:
    if not isinstance(value, list):
        raise BadSubjectError(f"{name} must be tables [[outputs]], one for each number the network answers; got {value!r}")
    return tuple(_output(_Table(f"[[outputs]] number {number}", item)) for number, item in enumerate(value, 1))


def _output(table: _Table) -> Output:
    name = table.take("name", _text, '"steering"')
    unit = table.take("unit", _unit, '"rad"', _NO_UNIT)
    made = Output(
        name,
        unit[0] if unit else None,
        table.take("scale", _number, "1.0", 1.0),
        table.take("axle", _choice(Axle), '"road-wheel"', Axle.STEERING_WHEEL),
        table.take("ratio", _number, str(STEERING_RATIO), STEERING_RATIO),
    )
    table.close()
    return made


_NO_UNIT: tuple[Unit, ...] = ()
_NO_NUMBERS: tuple[float, ...] = ()
_NO_LAMBDAS: tuple[tuple[str, str], ...] = ()


def _unit(name: str, value: object) -> tuple[Unit, ...]:
    if not isinstance(value, str) or value not in UNITS:
        raise BadSubjectError(f"{name} must be one of {', '.join(UNITS)}; got {value!r}")
    return (UNITS[value],)


def _choice(kind: type[E]) -> Callable[[str, object], E]:
    def read(name: str, value: object) -> E:
        options = [str(option.value) for option in kind]
        if value not in options:
            raise BadSubjectError(str(UnknownNameError.among(f"value for {name}", str(value), options)))
        return kind(value)

    return read


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise BadSubjectError(f"{name} must be a text that is not empty; got {value!r}")
    return value


def _words(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise BadSubjectError(f'{name} must be a list of words, as ["python", "serve.py"]; got {value!r}')
    return tuple(_text(name, word) for word in value)


def _whole(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadSubjectError(f"{name} must be a whole number; got {value!r}")
    return value


def _number(name: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise BadSubjectError(f"{name} must be a number; got {value!r}")
    return float(value)


def _numbers(name: str, value: object) -> tuple[float, ...]:
    items = value if isinstance(value, list) else [value]
    return tuple(_number(name, item) for item in items)


def _number_or_list(values: tuple[float, ...]) -> float | list[float]:
    return values[0] if len(values) == 1 else list(values)
