"""From a text to what it names: rows that others may add to (transforms, criteria, readers, ...), and objects of a Python caller.

An object stands in a config as a text, and whoever opens that text is given the object. So every kind of campaign takes a network or
a drive in memory as it takes a name, and keeps plain texts in its settings.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar, cast

from skidpad.core import trust
from skidpad.core.errors import SkidpadError, UnknownNameError

T = TypeVar("T")
_REGISTRIES: list[Registry[Any]] = []


class Registry(Generic[T]):
    """Maps names to factories; the modules that hold the rows are imported in their order until one has the row that is looked for.

    A third-party package adds rows by an entry point in the group `skidpad.<plural>`: it names a module that registers rows, or a row
    itself, which then has the entry point's name. Code that is not installed as a package is named as `module:Name`.

    prefixes: families of rows that are made from what follows the colon, as `weather:rain`; each names the function that does so.
    """

    def __init__(self, noun: str, plural: str, modules: tuple[str, ...], prefixes: Mapping[str, str] | None = None) -> None:
        self.noun = noun
        self.plural = plural
        self.broken: dict[str, str] = {}
        """Entry points that cannot be loaded, with the reason; the others are there all the same."""
        self._modules = modules
        self._prefixes = prefixes or {}
        self._rows: dict[str, T] = {}
        self._loaded = False
        _REGISTRIES.append(self)

    def register(self, name: str) -> Callable[[T], T]:
        """Decorates a factory as the row `name`; a name can be taken only once."""

        def add(row: T) -> T:
            taken = self._rows.get(name)
            if taken is not None and taken is not row:
                raise ValueError(f"{self.noun} {name!r} is registered twice")
            self._rows[name] = row
            return row

        return add

    def get(self, name: str) -> T:
        """Returns the row `name`, or says which names there are."""
        prefix, colon, rest = name.partition(":")
        if colon and prefix in self._prefixes:
            return cast("T", _attribute(self._prefixes[prefix])(rest))
        if colon and name not in self._rows:
            return cast("T", _imported(name, self.noun))
        for module in () if self._loaded else self._modules:
            if name in self._rows:
                break
            import_module(module)
        if name not in self._rows:
            self._load()
        if name in self.broken:
            raise SkidpadError(f"the {self.noun} {name!r} cannot be used: {self.broken[name]}; mend or uninstall its package")
        if name not in self._rows:
            raise UnknownNameError.among(self.noun, name, self._rows)
        return self._rows[name]

    def names(self) -> tuple[str, ...]:
        """Returns every name, in the order of registration."""
        self._load()
        return tuple(self._rows)

    def built_in(self) -> Mapping[str, T]:
        """Returns the rows of skidpad's own modules alone; no package and nothing that a name could mean is imported for it."""
        for module in self._modules:
            import_module(module)
        return {name: row for name, row in self._rows.items() if getattr(row, "__module__", "") in self._modules}

    def allow(self, names: Iterable[str]) -> None:
        """Takes the word of a person who typed these names: the code that they mean may run."""
        for name in names:
            if ":" in name and name not in self._rows and name.partition(":")[0] not in self._prefixes:
                trust.allow(_code(name))

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        for module in self._modules:
            import_module(module)
        from importlib.metadata import entry_points  # noqa: PLC0415  a tenth of the time of `skidpad --help`

        for point in entry_points(group=f"skidpad.{self.plural}"):
            try:
                loaded = point.load()
                if not isinstance(loaded, ModuleType) and all(row is not loaded for row in self._rows.values()):
                    self.register(point.name)(loaded)
            except (Exception, SystemExit) as error:  # noqa: BLE001  a package may raise anything, and takes no other row with it
                package = f" of the package {point.dist.name}" if point.dist else ""
                self.broken[point.name] = f"{point.value}{package} raised {_reason(error)}"


def broken_plugins() -> tuple[str, ...]:
    """Returns what is wrong with each entry point that could not be loaded so far, in words."""
    return tuple(f"the {each.noun} {name!r} cannot be used: {why}" for each in _REGISTRIES for name, why in each.broken.items())


def _attribute(text: str) -> Any:
    module, _, name = text.partition(":")
    return reduce(getattr, name.split("."), import_module(module))


def _code(text: str) -> trust.Code:
    """Returns what importing `module:name` would run: the package, or the module and the files beside it, which it may import."""
    top = text.partition(":")[0].partition(".")[0]
    found = PathFinder.find_spec(top, [*sys.path, str(Path.cwd())])
    if found is None or not found.origin:
        return trust.Code(f"import the Python code {text!r}", Path.cwd(), remedy="")
    folder = Path(found.origin).parent
    files = folder.rglob("*.py") if found.submodule_search_locations else folder.glob("*.py")
    return trust.Code(f"import the Python code {text!r}", folder, tuple(files), remedy="")


def _imported(text: str, noun: str) -> Any:
    """Imports `module:name` from Python's path or the current folder, where a person allows it."""
    module, _, name = text.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        raise SkidpadError(f"a {noun} of your own is named as module:Name; got {text!r}")
    trust.require(_code(text))
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # last, so that it shadows nothing that is installed
    try:
        return _attribute(text)
    except (Exception, SystemExit) as error:  # the user's own code may raise anything
        raise SkidpadError(
            f"the {noun} {text!r} cannot be imported ({_reason(error)}); the module must lie in the current folder or on PYTHONPATH"
        ) from error


def _reason(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


MEMORY = "python:"
"""How the text of an object begins that has no file."""

_given: ContextVar[Mapping[str, object]] = ContextVar("skidpad_given", default={})  # noqa: B039 - it is replaced, never changed


@contextmanager
def giving(objects: Mapping[str, object]) -> Iterator[None]:
    """Hands objects over, by the text that stands for each, while the context lasts."""
    token = _given.set({**_given.get(), **objects})
    try:
        yield
    finally:
        _given.reset(token)


def given(text: str, kind: type[T] | tuple[type[T], ...] | None = None) -> T | None:
    """Returns the object that stands under a text, None where it is to be opened; a text of an object that is gone is refused."""
    found = _given.get().get(text)
    if found is not None and (kind is None or isinstance(found, kind)):
        return found  # type: ignore[return-value] # without a kind the caller knows what stands under the text
    if text.startswith(MEMORY):
        name = text.removeprefix(MEMORY)
        raise SkidpadError(
            f"{name!r} was an object in the Python process that made the run, and is not in this one; the run's report and gate work, but "
            "nothing can be computed again: save the object as a file, describe it, and test that"
        )
    return None
