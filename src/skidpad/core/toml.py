"""TOML: written, which the standard library cannot (plain values, lists, tables and lists of tables), and read with care.

The writer is our own: the hash of a description is that of its text, and tomli-w lays lists out otherwise, so every hash of a stored
run that has a list would change.
"""

import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_MAX_DEPTH = 32
_LONG_KEY = re.compile(rf"(?<![\w\"'-])(?:[\w\"'-]+[ \t]*\.[ \t]*){{{_MAX_DEPTH}}}", re.ASCII)
"""A key of so many parts, over which the parser broods for a time that grows with their square."""


def loads(text: str) -> dict[str, Any]:
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


def dumps(table: Mapping[str, object]) -> str:
    """Writes a table so that `loads` gives it back; plain values come before tables, else in the order given."""
    return "\n".join(_lines(table, ())).strip() + "\n"


def _lines(table: Mapping[str, object], path: tuple[str, ...]) -> list[str]:
    lines = [f"{_key(name)} = {_value(value, '.'.join((*path, name)))}" for name, value in table.items() if not _is_table(value)]
    for name, value in table.items():
        inner = (*path, name)
        heading = ".".join(map(_key, inner))
        if isinstance(value, Mapping):
            lines += ["", f"[{heading}]", *_lines(value, inner)]
        elif _is_table(value) and isinstance(value, Sequence):
            for row in value:
                lines += ["", f"[[{heading}]]", *_lines(row, inner)]
    return lines


def _is_table(value: object) -> bool:
    rows = isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 0 and all(isinstance(row, Mapping) for row in value)
    return isinstance(value, Mapping) or rows


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _text(name)


def _value(value: object, where: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(name)} = {_value(item, f'{where}.{name}')}" for name, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return "[" + ", ".join(_value(item, where) for item in value) + "]"
    raise TypeError(f"{where} must be a plain value (text, number, truth value, list or table); got {value!r}")


def _text(text: str) -> str:
    # JSON's escapes are TOML's; only DEL is allowed in the one and not in the other
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
