"""The entry point: all commands, and the exit code of each error."""

import sys

import typer

from skidpad.cli import (
    drive,
    duel,
    findings,
    gate,
    limits,
    listing,
    referee,
    repair,
    replicate,
    scenarios,
    subjects,
    training,
    weather,
)
from skidpad.cli import runs as campaigns
from skidpad.core.errors import InterruptedRunError, SkidpadError
from skidpad.page.terminal import tell

app = typer.Typer(
    name="skidpad",
    help="Crash-tests driving networks before they drive.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(limits.demo)  # the first that a newcomer sees
for module in (
    training,
    subjects,
    campaigns,
    limits,
    drive,
    scenarios,
    duel,
    weather,
    findings,
    gate,
    repair,
    referee,
    replicate,
    listing,
):
    module.add_to(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        from skidpad import __version__

        typer.echo(f"skidpad {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Print the version."),  # the callback acts
) -> None:
    """Crash-tests driving networks before they drive."""


def main() -> None:
    """Runs the command line and turns every error of ours into one sentence and its exit code."""
    try:
        app()
    except InterruptedRunError as error:
        tell(str(error), "bold yellow", lines=True)
        sys.exit(error.exit_code)
    except SkidpadError as error:
        tell(f"error: {error}", "bold red", lines=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        tell("interrupted", "bold red")
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)


if __name__ == "__main__":
    main()
