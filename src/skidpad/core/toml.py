"""Writing TOML, which the standard library only reads: plain values, lists, tables and lists of tables."""

import json
import math
import re
from collections.abc import Mapping, Sequence

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def dumps(table: Mapping[str, object]) -> str:
    """Writes a table so that `tomllib.loads` gives it back; plain values come before tables, else in the order given."""
    return "\n".join(_lines(table, ())).strip() + "\n"


def _lines(table: Mapping[str, object], path: tuple[str, ...]) -> list[str]:
    lines = [f"{_key(name)} = {_value(value)}" for name, value in table.items() if not _is_table(value)]
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


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(name)} = {_value(item)}" for name, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return "[" + ", ".join(map(_value, value)) + "]"
    raise TypeError(f"TOML holds text, numbers, truth values, lists and tables; got {value!r}")


def _text(text: str) -> str:
    # JSON's escapes are TOML's; only DEL is allowed in the one and not in the other
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
