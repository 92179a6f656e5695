"""Code that a description names, as `module:name`, imported where a person trusts it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path

from torch import nn

from skidpad.core import trust
from skidpad.core.errors import BadSubjectError
from skidpad.subjects.description import InputSpec


@dataclass(frozen=True, slots=True)
class NamedCode:
    """What a name stands for, and the file that defines it (None where there is none, as for compiled modules)."""

    value: object
    source: Path | None


def is_code_name(text: str) -> bool:
    """Tells whether a text names code, `module:name`, and not a row of a registry."""
    return ":" in text


def trusted_code(text: str, folder: Path) -> trust.Code:
    """Returns what importing `module:name` would run; a module may import its neighbours, so all Python files beside it count."""
    package = folder / text.partition(":")[0].partition(".")[0]
    files = (*folder.glob("*.py"), *package.rglob("*.py"))
    return trust.Code(f"import the Python code {text!r}", folder, tuple(filter(Path.is_file, files)))


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
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
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
