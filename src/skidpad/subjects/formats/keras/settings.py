"""The settings of one layer, read from the file with checks, under the names of Keras 1, 2 and 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from skidpad.core.errors import BadSubjectError, UnknownNameError

_MAX_WHOLE = 10**7


@dataclass(frozen=True, slots=True)
class KerasSettings:
    """A layer's own name, its class, and what its config says.

    Every reader takes the names that the versions of Keras gave a setting, newest first; without a default it must be there.
    """

    name: str
    class_name: str
    config: Mapping[str, object]

    def find(self, *keys: str) -> object:
        """Returns the first setting that is there and not null, or None."""
        return next((self.config[key] for key in keys if self.config.get(key) is not None), None)

    def whole(self, *keys: str, default: int | None = None) -> int:
        """Reads a whole number within +-10 million."""
        value = self.find(*keys)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _MAX_WHOLE:
            raise self.bad(keys[0], "a whole number", value)
        return value

    def positive(self, *keys: str, default: int | None = None) -> int:
        """Reads a whole number above 0."""
        value = self.whole(*keys, default=default)
        if value < 1:
            raise self.bad(keys[0], "a whole number above 0", value)
        return value

    def number(self, *keys: str, default: float) -> float:
        """Reads a finite number."""
        value = self.find(*keys)
        if isinstance(value, Mapping):  # tf.keras writes some numbers as {"class_name": "__numpy__", "config": {"value": 0.1}}
            inner = value.get("config")
            value = inner.get("value") if isinstance(inner, Mapping) else value.get("value")
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise self.bad(keys[0], "a finite number", value)
        return float(value)

    def flag(self, *keys: str, default: bool) -> bool:
        """Reads true or false."""
        value = self.find(*keys)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.bad(keys[0], "true or false", value)
        return value

    def choice(self, options: Sequence[str], *keys: str, default: str) -> str:
        """Reads one of a few words."""
        value = self.find(*keys)
        if value is None:
            return default
        if value not in options:
            raise BadSubjectError(f"layer {self.name!r}: {UnknownNameError.among(f'value for {keys[0]}', str(value), options)}")
        return str(value)

    def wholes(self, *keys: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """Reads a list of whole numbers; one number is a list of one."""
        value = self.find(*keys)
        if value is None and default is not None:
            return default
        items: list[object] = list(value) if isinstance(value, list | tuple) else [value]
        whole = [item for item in items if isinstance(item, int) and not isinstance(item, bool) and abs(item) <= _MAX_WHOLE]
        if len(whole) != len(items):
            raise self.bad(keys[0], "whole numbers", value)
        return tuple(whole)

    def sizes(self, dims: int, *keys: str, default: int | None = None) -> tuple[int, ...]:
        """Reads one whole number above 0 for each spatial axis; one number stands for all."""
        values = self.wholes(*keys, default=None if default is None else (default,) * dims)
        values = values * dims if len(values) == 1 else values
        if len(values) != dims or min(values) < 1:
            raise self.bad(keys[0], f"{dims} whole numbers above 0", values)
        return values

    def borders(self, dims: int, *keys: str) -> tuple[tuple[int, int], ...]:
        """Reads how much lies before and after each spatial axis: n, (a, b) or ((a, b), (c, d)), as Keras takes them."""
        value = self.find(*keys)
        if isinstance(value, Mapping):  # Keras 1.1: {"top_pad": 1, ...}
            value = [[value.get(f"{side}_pad", 0) for side in pair] for pair in (("top", "bottom"), ("left", "right"))]
        items = list(value) if isinstance(value, list | tuple) else [value] * dims
        if dims == 1 and len(items) == 2:
            items = [items]
        pairs = [tuple(item) if isinstance(item, list | tuple) else (item, item) for item in items]
        whole = all(len(pair) == 2 and all(type(part) is int and 0 <= part <= _MAX_WHOLE for part in pair) for pair in pairs)
        if len(pairs) != dims or not whole:
            raise self.bad(keys[0], f"how much for each side of {dims} axes", value)
        return tuple((before, after) for before, after in pairs)

    @property
    def channels_first(self) -> bool:
        """Whether the channels come before the spatial axes."""
        options = ("channels_last", "channels_first", "tf", "th", "default")
        return self.choice(options, "data_format", "dim_ordering", default="channels_last") in {"channels_first", "th"}

    def inner(self, key: str) -> KerasSettings:
        """Reads a layer within the layer."""
        return layer_settings(self.find(key), f"{self.name}/{key}")

    def bad(self, key: str, wanted: str, got: object) -> BadSubjectError:
        """Makes the error of a setting that is not what it must be."""
        return BadSubjectError(f"layer {self.name!r} ({self.class_name}) needs {key} to be {wanted}; got {str(got)[:60]!r}")


_OWN_MODULES = ("keras", "tf_keras", "tensorflow.keras", "tensorflow.python.keras")


def layer_settings(entry: object, default_name: str) -> KerasSettings:
    """Reads one layer of a config; classes of packages other than Keras are refused, whatever they are called."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("class_name"), str):
        raise BadSubjectError(f"the config has {str(entry)[:60]!r} where the layer {default_name!r} belongs")
    config = entry.get("config")
    if isinstance(config, list):  # Sequential of Keras 1 and early 2
        config = {"layers": config}
    if not isinstance(config, Mapping):
        raise BadSubjectError(f"the layer {default_name!r} has no config")
    name = entry.get("name") or config.get("name") or default_name
    settings = KerasSettings(str(name), entry["class_name"], config)
    module, registered = entry.get("module"), entry.get("registered_name")
    custom = isinstance(registered, str) and ">" in registered and not registered.startswith("Keras>")
    if custom or (isinstance(module, str) and not module.startswith(_OWN_MODULES)):
        return KerasSettings(settings.name, f"{module or ''}.{settings.class_name}".strip("."), config)
    if isinstance(module, str) and ".ops." in module:
        return KerasSettings(settings.name, f"ops.{settings.class_name}", config)
    return settings
