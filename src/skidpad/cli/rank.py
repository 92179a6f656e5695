"""skidpad rank: which frames or scenarios to run first."""

from pathlib import Path
from typing import Annotated

import typer

from skidpad.cli.subjects import Device, Json
from skidpad.cli.trust import may_trust
from skidpad.core.errors import SkidpadError
from skidpad.page.terminal import print_json, progress_bar, say, table, warn


def add_to(app: typer.Typer) -> None:
    """Adds the command to the application."""
    app.command()(may_trust(rank))


def rank(
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="A description, e.g. model.toml, or `demo`.")],
    tests: Annotated[str, typer.Argument(metavar="DRIVE|RUN", help="A drive, whose frames are ranked, or the folder of a `drive` run.")],
    by: Annotated[
        str,
        typer.Option(
            help="uncertainty (answers that waver), distance (unlike the others), coverage (new neurons), geometry (bends); scenarios also "
            "variety (unlike those before), road (its shape)."
        ),
    ] = "uncertainty",
    within_deg: Annotated[float, typer.Option(help="A frame fails where the answer is further than this from its label.")] = 10.0,
    first: Annotated[int, typer.Option(help="How many to list.")] = 10,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Order frames or scenarios so that failures come early, and say how early they come (APFD), beside chance and the ideal."""
    from skidpad.drives import open_drive
    from skidpad.kinds.ranking import rank_frames, rank_scenarios
    from skidpad.runs.folder import Run
    from skidpad.subjects.loading import load_subject
    from skidpad.subjects.pretrained import subject_path

    network = load_subject(subject_path(subject), device)
    is_run = (Path(tests) / "manifest.json").is_file()
    with progress_bar("ranking") as progress:
        if is_run:
            run = Run.open(Path(tests))
            if run.manifest.hashes.get("subject") != network.sha256:
                warn(
                    f"{tests} is a run of another subject than {subject}: its verdicts, and so the scores below, are not those of {subject}"
                )
            found = rank_scenarios(network, run, progress)
        else:
            found = rank_frames(network, open_drive(tests), within_deg, progress)
    if by not in found.orders:
        raise SkidpadError(f"no order named {by!r}; these can be made here: {', '.join(found.orders)}")
    failed = None if found.failed is None else int(found.failed.sum())
    names = [*found.orders, "ideal"]
    if json:
        print_json(
            {
                "tests": len(found.names),
                "failed": failed,
                "apfd": {name: found.apfd(name) for name in names} | {"random": 0.5},
                "by": by,
                "order": [found.names[place] for place in found.orders[by].tolist()],
            }
        )
        return
    if failed:
        rows = [(name, found.apfd(name)) for name in names]
        table(f"{failed} of {len(found.names)} fail; how early an order meets them", ("order", "APFD"), [*rows, ("random (expected)", 0.5)])
    else:
        say("no verdict is known, so that no order can be scored" if failed is None else f"none of {len(found.names)} fails")
    say(f"by {by}, first: {', '.join(found.names[place] for place in found.orders[by][:first].tolist())}")
