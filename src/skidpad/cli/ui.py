"""skidpad ui: the local page over a folder of runs."""

from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated

import typer

from skidpad.core.errors import MissingExtraError
from skidpad.page.terminal import say

_NEEDED = ("duckdb", "fastapi", "uvicorn")


def add_to(app: typer.Typer) -> None:
    """Adds the command to the application."""
    app.command()(ui)


def ui(
    runs: Annotated[Path, typer.Argument(metavar="RUNS", help="A folder of runs, or one run.")] = Path("runs"),
    study: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="REAL SYNTHESISED", help="Ask how realistic scenes are: a folder of real and one of synthesised pictures."),
    ] = None,
    answers: Annotated[
        Path | None, typer.Option(help="Where the answers of --study are kept; RUNS/study-answers.jsonl by default.")
    ] = None,
    port: Annotated[int, typer.Option(help="The port on 127.0.0.1; 0 takes any that is free.")] = 8321,
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = False,
) -> None:
    """Show a folder of runs as a page in the browser: look at findings, filter, compare, tag; only for this machine."""
    from importlib.util import find_spec

    for package in _NEEDED:
        if find_spec(package) is None:
            raise MissingExtraError.of(package, "ui", "the page")

    from skidpad.ui.app import HOST, bound_socket, make_app, server_of
    from skidpad.ui.library import Library, RunsFolder
    from skidpad.ui.study import Study

    folder = RunsFolder(runs)
    questionnaire = Study.of(*study, answers or folder.root / "study-answers.jsonl") if study is not None else None
    with bound_socket(port) as taken, closing(Library(folder)) as library:
        address = f"http://{HOST}:{taken.getsockname()[1]}"
        server = server_of(make_app(library, questionnaire))
        say(f"runs of {folder.root}: {address}")
        if questionnaire is not None:
            say(f"questionnaire of {len(questionnaire.pairs)} pairs: {address}/study; its tally: {address}/study/tally")
        say("Ctrl-C ends the page")
        if open_browser:
            typer.launch(address)
        with suppress(KeyboardInterrupt):  # that is how a page ends
            server.run([taken])
