"""A network of the user's own, built by the class or function that the description names, as `my_module:MyNet`."""

from __future__ import annotations

from inspect import Parameter, signature
from pathlib import Path

from torch import nn

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.description import InputSpec
from skidpad.subjects.named_code import named_code

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
