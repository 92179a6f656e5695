"""Named rows that others may add to: transforms, criteria, readers, architectures, ..."""

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from skidpad.core.errors import UnknownNameError

T = TypeVar("T")


class Registry(Generic[T]):
    """Maps names to factories; the modules that hold the rows are imported in their order until one has the row that is looked for.

    A third-party package adds rows by an entry point in the group `skidpad.<plural>` that names a module.
    """

    def __init__(self, noun: str, plural: str, modules: tuple[str, ...]) -> None:
        self.noun = noun
        self.plural = plural
        self._modules = modules
        self._rows: dict[str, T] = {}
        self._loaded = False

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
        for module in () if self._loaded else self._modules:
            if name in self._rows:
                break
            import_module(module)
        if name not in self._rows:
            self._load()
        if name not in self._rows:
            raise UnknownNameError.among(self.noun, name, self._rows)
        return self._rows[name]

    def names(self) -> tuple[str, ...]:
        """Returns every name, in the order of registration."""
        self._load()
        return tuple(self._rows)

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        for module in self._modules:
            import_module(module)
        for point in entry_points(group=f"skidpad.{self.plural}"):
            point.load()
