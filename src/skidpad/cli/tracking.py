"""The command that tells MLflow about a run."""

from typing import Annotated

import typer

from skidpad.cli.runs import RunPath, open_with_campaign
from skidpad.cli.subjects import Json
from skidpad.cli.trust import may_trust
from skidpad.page.terminal import print_json, say


def add_to(app: typer.Typer) -> None:
    """Adds the command to the application."""
    app.command()(may_trust(track))


def track(
    run: RunPath,
    to: Annotated[str, typer.Option(help="Address of an MLflow server, or a folder; MLFLOW_TRACKING_URI by default.")] = "",
    experiment: Annotated[str, typer.Option(help="The experiment in MLflow; created if it does not exist.")] = "skidpad",
    json: Json = False,
) -> None:
    """Write a run to MLflow: settings, figures, hashes and the report; a run that is already there is updated."""
    from dataclasses import asdict

    from skidpad.kinds.kind import kind_of
    from skidpad.kinds.tracking import track as write

    opened, campaign = open_with_campaign(run, seen=True)
    tracked = write(opened, kind_of(opened).figures(campaign, opened), uri=to, experiment=experiment)
    if json:
        print_json(asdict(tracked))
    else:
        say(f"run {tracked.run_id} of experiment {tracked.experiment!r} at {tracked.uri}, {tracked.metrics} metrics")
