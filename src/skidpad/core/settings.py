"""Settings: frozen dataclasses read from plain values (TOML, JSON) and written back; annotations hold types and ranges. And TOML and JSON.

Why not a library: cattrs 26.2 (1 MB with attrs, 25 ms to import) takes "no" for true; pydantic 2.14 (9 MB with its core, 21 ms) takes it
for false and ignores unknown keys unless told otherwise; msgspec 0.22 (0.6 MB, 10 ms) cannot refuse unknown keys of a dataclass. None
suggests the key that was meant, so each needs a layer for its messages that is nearly as long as this module, which imports nothing new.
"""

from __future__ import annotations

import json
import re
import tomllib
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from math import isfinite
from numbers import Integral, Real
from operator import ge, gt, le, lt
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from skidpad.core.errors import SkidpadError, UnknownNameError

T = TypeVar("T")

_BOUNDS = {"least": ("at least", ge), "above": ("above", gt), "most": ("at most", le), "below": ("below", lt)}


@dataclass(frozen=True, slots=True)
class Within:
    """The range of a number, as in `Annotated[int, Within(least=1)]`."""

    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None

    def __contains__(self, value: float) -> bool:
        return all(getattr(self, name) is None or holds(value, getattr(self, name)) for name, (_, holds) in _BOUNDS.items())

    def __str__(self) -> str:
        return " and ".join(f"{words} {getattr(self, name):g}" for name, (words, _) in _BOUNDS.items() if getattr(self, name) is not None)


@dataclass(frozen=True, slots=True)
class OneOf:
    """The texts that a setting may be: the values of an Enum, or names. noun: what they are, for errors."""

    noun: str
    options: type[Enum] | tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The texts."""
        return self.options if isinstance(self.options, tuple) else tuple(str(option.value) for option in self.options)


class Mark(Enum):
    """What else an annotation may say of a field."""

    REQUIRED = "a file must say it, although Python has a default"
    NOT_EMPTY = "an empty text or list is refused when it is read"
    ONE_OR_MORE = "a single value stands for a list of one"


Natural = Annotated[int, Within(least=0)]
Count = Annotated[int, Within(least=1)]
Positive = Annotated[float, Within(above=0)]
Text = Annotated[str, Mark.NOT_EMPTY]


def read(type_: type[T], table: object, whole: str, error: type[SkidpadError] = SkidpadError, *, noun: str = "key") -> T:
    """Makes a dataclass of plain values; keys left out take their defaults, unknown ones and wrong values are refused by name.

    whole: what errors call the table, as "the scenario". noun: what they call its keys. A class may name properties in `DERIVED`, which
    are written beside the fields; a file that contradicts them is refused.
    """
    return _Reader(whole, error, noun).table(type_, table, "")


def check(made: object, error: type[SkidpadError] = SkidpadError) -> None:
    """Refuses a dataclass made in Python whose fields are not what their annotations say; for `__post_init__`."""
    reader = _Reader("", error, "setting")
    for name, kind in _schema(type(made))[0].items():
        reader.value(kind, getattr(made, name), name)


def plain(value: Any) -> Any:
    """Writes dataclasses, Enums and tuples as tables, values and lists; what is None is left out of tables."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        kinds, _ = _schema(type(value))
        table = {name: _written(kind, getattr(value, name)) for name, kind in kinds.items()}
        return plain(table | {name: getattr(value, name) for name in getattr(value, "DERIVED", ())})
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items() if item is not None}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value


def jsonable(value: Any) -> Any:
    """Returns what JSON can hold of dataclasses, Enums, tables and lists: bytes as base64, and null for what is no finite number."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: jsonable(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): jsonable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    return None if isinstance(value, float) and not isfinite(value) else value


def _written(kind: Any, value: Any) -> Any:
    if get_origin(kind) is Annotated and Mark.ONE_OR_MORE in kind.__metadata__ and len(value) == 1:
        return value[0]
    return dict(value) if _is_pairs(kind) else value


@cache
def _schema_of(type_: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Returns the annotation of each field of a dataclass, and the fields that a file must have."""
    hints = get_type_hints(type_, include_extras=True)
    kinds = {field.name: hints[field.name] for field in fields(type_)}
    without = {each.name for each in fields(type_) if each.default is MISSING and each.default_factory is MISSING}
    return kinds, tuple(name for name, kind in kinds.items() if name in without or Mark.REQUIRED in getattr(kind, "__metadata__", ()))


_schema: Callable[[Any], tuple[dict[str, Any], tuple[str, ...]]] = _schema_of  # mypy does not take a class for hashable


def _is_pairs(kind: Any) -> bool:
    """Tells whether a field is `tuple[tuple[str, X], ...]`, which is a table in a file."""
    item = get_args(kind)[0] if get_origin(kind) is tuple else None
    return get_origin(item) is tuple and len(get_args(item)) == 2 and get_args(item)[0] is str


_WORDS = {str: ("a text", "texts", '"..."'), int: ("a whole number", "whole numbers", "1"), float: ("a number", "numbers", "1.0")}
_WORDS[bool] = ("true or false", "truth values", "true")
_OTHERS = ("a value", "values", '"..."')


def _bare(kind: Any) -> Any:
    """Returns a type without its annotations and without None."""
    if get_origin(kind) is Annotated:
        return _bare(get_args(kind)[0])
    if get_origin(kind) in {Union, UnionType}:
        return _bare(next(option for option in get_args(kind) if option is not NoneType))
    return kind


def _example(kind: Any, path: str) -> str:
    bare = _bare(kind)
    if get_origin(bare) is tuple:
        item = _bare(get_args(bare)[0])
        return f"a table [[{path}]]" if is_dataclass(item) else f"[{_example(item, path)}]"
    if is_dataclass(bare):
        return f"a table [{path}]"
    return f'"{next(iter(bare)).value}"' if issubclass(bare, Enum) else _WORDS[bare][2]


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # a whole number of too many digits
        text = "a number of thousands of digits"
    return text if len(text) <= 200 else f"{text[:200]}..."


@dataclass(frozen=True, slots=True)
class _Reader:
    whole: str
    error: type[SkidpadError]
    noun: str

    def table(self, type_: type[T], table: object, path: str) -> T:
        name = f"[{path}]" if path else self.whole
        if not isinstance(table, Mapping):
            raise self.error(f"{name} must be a table of keys; got {_shown(table)}")
        (kinds, needed), derived = _schema(type_), getattr(type_, "DERIVED", ())
        for key in table:
            if key not in kinds and key not in derived:
                raise self._unknown(f"{self.noun} of {name}", key, (*kinds, *derived))
        inside = f"{path}." if path else ""
        for key in needed:
            if key not in table:
                example = _example(kinds[key], inside + key)
                how = f"add {example}" if example.startswith("a ") else f"write, for example, {key} = {example}"
                raise self.error(f"{name} lacks the {self.noun} {key!r}; {how}")
        made = type_(**{key: self.value(kinds[key], value, inside + key) for key, value in table.items() if key in kinds})
        for key in derived:
            if key in table and table[key] != getattr(made, key):
                raise self.error(f"{inside}{key} must be {getattr(made, key)!r}, as the rest says; got {_shown(table[key])}")
        return made

    def value(self, kind: Any, value: object, path: str) -> Any:  # noqa: PLR0911  # one for each kind of type
        origin, parts = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return self._annotated(parts[0], parts[1:], value, path)
        if origin in {Union, UnionType}:
            options = [option for option in parts if option is not NoneType]
            if value is None and NoneType in parts:
                return None
            return self.value(options[0], value, path) if len(options) == 1 else self._choice(options, value, path)
        if origin is tuple:
            return self._items(kind, value, path)
        if is_dataclass(kind):
            return value if isinstance(value, kind) else self.table(kind, value, path)  # type: ignore[arg-type]  # a class, not an instance
        if issubclass(kind, Enum):
            return self._choice([kind], value, path)
        made = _scalar(kind, value)
        if made is None:
            words = "a finite number" if isinstance(value, float) and not isfinite(value) else _WORDS[kind][0]
            raise self.error(f"{path} must be {words}; got {_shown(value)}")
        return made

    def _annotated(self, kind: Any, marks: tuple[object, ...], value: object, path: str) -> Any:
        if Mark.ONE_OR_MORE in marks and not isinstance(value, list | tuple):
            value = [value]
        made = self.value(kind, value, path)
        if Mark.NOT_EMPTY in marks and not made:
            raise self.error(f"{path} must not be empty; write it out, or remove it")
        for mark in marks:
            if isinstance(mark, OneOf) and made not in mark.names:
                raise self._unknown(mark.noun, made, mark.names)
            if isinstance(mark, Within) and made not in mark:
                raise self.error(f"{path} must be {mark}; got {_shown(made)}")
        return made

    def _items(self, kind: Any, value: object, path: str) -> tuple[Any, ...]:
        item, *rest = get_args(kind)
        if _is_pairs(kind):
            if not isinstance(value, Mapping):
                raise self.error(
                    f"{path} must be a table of names and {_WORDS.get(_bare(get_args(item)[1]), _OTHERS)[1]}; got {_shown(value)}"
                )
            return tuple((name, self.value(get_args(item)[1], each, f"{path}.{name}")) for name, each in value.items())
        count = None if rest == [...] else 1 + len(rest)
        if not isinstance(value, list | tuple) or (count is not None and len(value) != count):
            bare = _bare(item)
            words = (
                f"tables [[{path}]], one for each"
                if is_dataclass(bare)
                else f"a list of {f'{count} ' if count else ''}{_WORDS.get(bare, _OTHERS)[1]}"
            )
            raise self.error(f"{path} must be {words}; got {_shown(value)}")
        return tuple(self.value(item, each, f"{path}.{number}") for number, each in enumerate(value, 1))

    def _choice(self, kinds: list[type[Enum]], value: object, path: str) -> Enum:
        options = {str(option.value): option for kind in kinds for option in kind}
        if isinstance(value, Enum) and value in options.values():
            return value
        if not isinstance(value, str) or value not in options:
            raise self._unknown(f"value for {path}", value, tuple(options))
        return options[value]

    def _unknown(self, noun: str, got: object, names: tuple[str, ...]) -> SkidpadError:
        unknown = UnknownNameError.among(noun, str(got), names)
        return unknown if issubclass(UnknownNameError, self.error) else self.error(str(unknown))


def _scalar(kind: type, value: object) -> object:
    """Returns a value as `kind`, None where it is no such thing; 2.0 is a whole number, true is none."""
    if kind in {bool, str} or isinstance(value, bool):
        return value if type(value) is kind or (kind is str and isinstance(value, str)) else None
    if kind is int and isinstance(value, Integral):
        return int(value)
    try:
        number = float(value) if isinstance(value, Real) else float("nan")
    except OverflowError:
        return None
    if not isfinite(number) or (kind is int and not (number.is_integer() and abs(number) <= 2**53)):
        return None
    return kind(number)


_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_MAX_DEPTH = 32
_LONG_KEY = re.compile(rf"(?<![\w\"'-])(?:[\w\"'-]+[ \t]*\.[ \t]*){{{_MAX_DEPTH}}}", re.ASCII)
"""A key of so many parts, over which the parser broods for a time that grows with their square."""


def read_toml(text: str) -> dict[str, Any]:
    """Reads TOML; what is nested deeper than any settings are is a TOMLDecodeError too, and not the end of the interpreter's stack."""
    too_deep = f"it is nested more than {_MAX_DEPTH} deep"
    if _LONG_KEY.search(text):
        raise tomllib.TOMLDecodeError(too_deep)
    try:
        table = tomllib.loads(text)
    except RecursionError as error:
        raise tomllib.TOMLDecodeError(too_deep) from error
    except tomllib.TOMLDecodeError:
        raise
    except ValueError as error:  # a number of too many digits
        raise tomllib.TOMLDecodeError(str(error)) from error
    waiting: list[tuple[object, int]] = [(table, 0)]
    while waiting:
        value, depth = waiting.pop()
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        if inner and depth >= _MAX_DEPTH:
            raise tomllib.TOMLDecodeError(too_deep)
        waiting += [(each, depth + 1) for each in inner]
    return table


def write_toml(table: Mapping[str, object]) -> str:
    """Writes a table so that `read_toml` gives it back; plain values come before tables, else in the order given.

    The writer is our own: the hash of a description is that of its text, and tomli-w lays lists out otherwise, so every hash of a stored
    run that has a list would change.
    """
    return "\n".join(_toml_lines(table, ())).strip() + "\n"


def _toml_lines(table: Mapping[str, object], path: tuple[str, ...]) -> list[str]:
    lines = [f"{_toml_key(name)} = {_toml_value(value, '.'.join((*path, name)))}" for name, value in table.items() if not _is_table(value)]
    for name, value in table.items():
        inner = (*path, name)
        heading = ".".join(map(_toml_key, inner))
        if isinstance(value, Mapping):
            lines += ["", f"[{heading}]", *_toml_lines(value, inner)]
        elif _is_table(value) and isinstance(value, Sequence):
            for row in value:
                lines += ["", f"[[{heading}]]", *_toml_lines(row, inner)]
    return lines


def _is_table(value: object) -> bool:
    rows = isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 0 and all(isinstance(row, Mapping) for row in value)
    return isinstance(value, Mapping) or rows


def _toml_key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _toml_text(name)


def _toml_value(value: object, where: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _toml_text(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml_key(name)} = {_toml_value(item, f'{where}.{name}')}" for name, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return "[" + ", ".join(_toml_value(item, where) for item in value) + "]"
    raise TypeError(f"{where} must be a plain value (text, number, truth value, list or table); got {value!r}")


def _toml_text(text: str) -> str:
    # JSON's escapes are TOML's; only DEL is allowed in the one and not in the other
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
