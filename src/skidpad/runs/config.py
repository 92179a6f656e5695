"""The resolved settings of a campaign, as the TOML file in its run folder."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from skidpad.core import toml
from skidpad.core.errors import BadRunError

Plain: TypeAlias = "str | int | float | bool | Sequence[Plain] | Mapping[str, Plain] | None"
Config: TypeAlias = Mapping[str, Plain]


def write_config(config: Config) -> bytes:
    """Writes plain values as TOML; what is None is left out, as TOML has no word for it."""
    try:
        return toml.dumps(_table(config, "config")).encode("utf-8")
    except UnicodeEncodeError as error:
        raise BadRunError(f"the settings hold text that is not Unicode ({error.object!r}); rename that file or folder") from error


def read_config(data: bytes, where: str) -> Config:
    """Reads what `write_config` wrote; `where` names the folder in errors."""
    try:
        return toml.loads(data.decode("utf-8"))
    except ValueError as error:
        raise BadRunError(f"the settings of {where} are damaged ({error}); restore config.toml from a copy") from error


def _table(config: Config, path: str) -> dict[str, object]:
    return {name: _plain(value, f"{path}.{name}") for name, value in config.items() if value is not None}


def _plain(value: Plain, path: str) -> object:
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        return _table(value, path)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [_plain(item, f"{path}[{place}]") for place, item in enumerate(value)]
    raise TypeError(f"{path} must be a plain value (text, number, truth value, list or table); got {value!r}")
