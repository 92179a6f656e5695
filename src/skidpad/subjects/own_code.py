"""Code that a description names, as `module:name`, imported where a person trusts it."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from functools import reduce
from importlib import import_module, machinery
from inspect import Parameter, signature
from pathlib import Path
from types import CodeType

from torch import nn

from skidpad.core import trust
from skidpad.core.errors import BadSubjectError
from skidpad.subjects.inputs import InputSpec


@dataclass(frozen=True, slots=True)
class NamedCode:
    """What a name stands for, and the file that defines it (None where there is none, as for compiled modules)."""

    value: object
    source: Path | None


def trusted_code(text: str, folder: Path) -> trust.Code:
    """Returns what importing `module:name` would run; a module may import its neighbours, so they count."""
    return trust.Code(f"import the Python code {text!r}", folder, python_beside(folder, text))


def python_beside(folder: Path, text: str) -> tuple[Path, ...]:
    """Returns what `text` may import from a folder: all modules in it, and the packages that the text or any of these files names."""
    files = [file for file in folder.glob("*") if file.name.endswith(_IMPORTED) and file.is_file()]
    packages = {path.name: path for path in folder.glob("*") if path.name.isidentifier() and path.name != _CACHE and path.is_dir()}
    words = _words(text.encode()).union(*map(_words_of, files))
    while named := words & packages.keys():
        found = [file for name in named for file in _modules_under(packages.pop(name))]
        files += found
        words = words.union(*map(_words_of, found))
    return tuple(files)


_IMPORTED = tuple(machinery.all_suffixes())
_CACHE = "__pycache__"


def _modules_under(package: Path) -> list[Path]:
    files: list[Path] = []
    known: set[str] = set()
    for place, folders, names in os.walk(package, followlinks=True):  # as Python does, but no folder twice
        is_new = (real := os.path.realpath(place)) not in known
        known.add(real)
        folders[:] = [name for name in folders if name != _CACHE] if is_new else []
        files += [Path(place, name) for name in names if name.endswith(_IMPORTED)]
    return [file for file in files if file.is_file()]


def _words(text: bytes) -> set[str]:
    return {word.decode("utf-8", "replace") for word in re.findall(rb"[\w\x80-\xff]+", text)}


def _words_of(file: Path) -> set[str]:
    return _words(file.read_bytes())


class _Source(machinery.SourceFileLoader):
    """Compiles the source that a person has looked at; what `__pycache__` of a stranger's folder holds may be anything."""

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 - as importlib calls it
        code: CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return code


_homes: set[Path] = set()
"""The folders that code was imported from."""


def _finder(place: str) -> machinery.FileFinder:
    """Finds modules in those folders and their packages; a hook of Python's import."""
    homes = [home for home in _homes if Path(place).is_relative_to(home)]
    if not any(all(part.isidentifier() for part in Path(place).relative_to(home).parts) for home in homes):
        raise ImportError(f"{place} is imported as usual")
    kinds = (
        (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
        (_Source, machinery.SOURCE_SUFFIXES),
        (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES),
    )
    return machinery.FileFinder(place, *kinds)


def _add_home(folder: Path) -> None:
    if _finder not in sys.path_hooks:
        sys.path_hooks.insert(0, _finder)
    if folder not in _homes:
        _homes.add(folder)
        sys.path_importer_cache.pop(str(folder), None)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def named_code(text: str, folder: Path, purpose: str) -> NamedCode:
    """Imports `module:name` from `folder`, else from where Python finds it; `purpose` begins the errors. Asks for trust.

    The folder is put at the end of Python's path and stays there, so that the module may import its neighbours whenever it
    likes, and can shadow nothing that is installed.
    """
    module_name, _, name = text.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), *name.split("."))):
        raise BadSubjectError(f'{purpose} is named as "module:name", where module.py lies beside the description; got {text!r}')
    trust.require(trusted_code(text, folder))
    folder = folder.resolve()
    _add_home(folder)
    try:
        module = import_module(module_name)
    except (Exception, SystemExit) as error:  # the user's own code may raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise BadSubjectError(f"{purpose}, {text!r}, cannot be imported from {folder} or Python's path ({reason})") from error
    source = Path(module.__file__).resolve() if module.__file__ else None
    _check_home(module_name, folder, source)
    try:
        value = reduce(getattr, name.split("."), module)
    except AttributeError as error:
        raise BadSubjectError(f"{purpose}: the module {module_name!r} ({source}) has no {name!r}; correct {text!r}") from error
    return NamedCode(value, source)


def _check_home(module_name: str, folder: Path, source: Path | None) -> None:
    """Refuses a module of the same name from elsewhere: Python knows one module of a name, the user means the one in the folder."""
    beside = folder.joinpath(*module_name.split("."))
    meant = next((file for file in (beside.with_suffix(".py"), beside / "__init__.py") if file.is_file()), None)
    if meant is not None and source != meant.resolve():
        raise BadSubjectError(f"another module named {module_name!r} was imported from {source}, not {meant}; rename the file {meant.name}")


_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def own_network(name: str, spec: InputSpec, folder: Path) -> nn.Module:
    """Imports `module:name` and calls it: without arguments, or with the InputSpec where it has a parameter without default."""
    builder = named_code(name, folder, "the architecture").value
    if not callable(builder):
        raise BadSubjectError(f"the architecture {name!r} is a {type(builder).__name__} and cannot be called; name a class or a function")
    try:
        needed = [
            given for given in signature(builder).parameters.values() if given.default is Parameter.empty and given.kind in _POSITIONAL
        ]
        made = builder(spec) if needed else builder()
    except (Exception, SystemExit) as error:  # the user's own code may raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise BadSubjectError(
            f"the architecture {name!r} could not be built ({reason}); it is called without arguments, or with the InputSpec where it "
            "has a parameter without default"
        ) from error
    if not isinstance(made, nn.Module):
        raise BadSubjectError(f"the architecture {name!r} must give a torch.nn.Module; got a {type(made).__name__}")
    return made
