"""skidpad trust, and --trust of the commands that load a subject: a person's word that its code may run."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any

import typer

from skidpad.core.errors import SkidpadError
from skidpad.core.trust import forget, is_remembered, remember, store, trusting
from skidpad.page.terminal import say

_Trust = Annotated[bool, typer.Option("--trust", help="Let this subject's own code run, for this command only; see `skidpad trust`.")]


def may_trust(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command that loads a subject the option --trust, which holds until the command ends."""

    @wraps(command)
    def run(*args: Any, trust: bool = False, **kwargs: Any) -> None:
        with trusting() if trust else nullcontext():
            command(*args, **kwargs)

    taken = signature(command, eval_str=True)
    option = Parameter("trust", Parameter.KEYWORD_ONLY, default=False, annotation=_Trust)
    run.__signature__ = taken.replace(parameters=[*taken.parameters.values(), option])  # type: ignore[attr-defined] # what typer reads
    run.__annotations__ = {name: each.annotation for name, each in taken.parameters.items()} | {"trust": _Trust, "return": None}
    return run


def add_to(app: typer.Typer) -> None:
    """Adds the command to the application."""
    app.command()(trust)


def trust(
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="A description, e.g. model.toml, or a model file.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    forget_it: Annotated[bool, typer.Option("--forget", help="Stop trusting this subject.")] = False,
) -> None:
    """Show what code a subject would run, and remember that you trust it until any of it changes.

    Code is what a description names as a black box or as module:name, and TorchScript. Other model files run none.
    """
    from skidpad.subjects.description import subject_path
    from skidpad.subjects.loading import subject_code

    codes = subject_code(subject_path(subject))
    if not codes:
        say(f"{subject} runs no code; there is nothing to trust")
        return
    if forget_it:
        forget(codes)
        say(f"{subject} is no longer trusted")
        return
    for code in codes:
        say(f"{subject} would {code}")
        for file in sorted(code.files):
            say(f"  {file}")
    if all(map(is_remembered, codes)):
        say("you trust it already")
        return
    if not yes and not typer.confirm("Have you looked at it, and do you trust it?"):
        raise SkidpadError(f"{subject} is not trusted; nothing was changed")
    remember(codes)
    say(f"trusted until it changes; your word is kept in {store()}")
