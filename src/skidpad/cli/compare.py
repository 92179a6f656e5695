"""skidpad compare: the same scenarios offline and online, and simulated against recorded drives."""

from pathlib import Path
from typing import Annotated

import typer

from skidpad.cli.drive import SECONDS, warn_of_rendering
from skidpad.cli.runs import RefereeOption, Workers, next_free, run_campaign
from skidpad.cli.subjects import Device, Json
from skidpad.cli.trust import may_trust


def add_to(app: typer.Typer) -> None:
    """Adds the command to the application."""
    app.command()(may_trust(compare))


def compare(
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="A description, e.g. model.toml, or `demo` for the bundled network.")],
    drive: Annotated[
        str, typer.Option(help="A recorded drive with labels, to compare simulated drives with (RQ0); without it that is left out.")
    ] = "",
    world: Annotated[str, typer.Option(help="Where to drive: built-in, or an adapter's name.")] = "built-in",
    domain: Annotated[str, typer.Option(help="The domain model that scenarios are drawn from: extended or restricted.")] = "extended",
    scenarios: Annotated[int, typer.Option(help="Scenarios to test both offline and online (RQ1); the paper has 50.")] = 50,
    matched: Annotated[int, typer.Option(help="Simulated scenarios to match with --drive (RQ0); the paper has 100.")] = 100,
    stimulus: Annotated[str, typer.Option(help="Stimulus in front of the camera, offline and online: fog, weather:rain, ...")] = "original",
    seconds: Annotated[float, typer.Option(help="How long each drive lasts.")] = SECONDS,
    unit: Annotated[
        str,
        typer.Option(help="Unit of epsilon and MAE: rad, the numbers in Udacity's file; scaled25, degrees / 25, as the paper reads them."),
    ] = "rad",
    epsilon: Annotated[float, typer.Option(help="Largest mean difference in steering of two comparable drives.")] = 0.1,
    mae_limit: Annotated[float, typer.Option(help="A scenario is acceptable offline if its MAE is below this.")] = 0.1,
    mdcl_limit: Annotated[
        float,
        typer.Option(
            help="A scenario is acceptable online if the maximum distance from the lane's centre (MDCL, 1 is 1.5 m) is below this."
        ),
    ] = 0.7,
    width: Annotated[int, typer.Option(help="Scenarios to drive side by side; changes only the speed. 0: 16, on a GPU 128.")] = 0,
    referee: RefereeOption = "on",
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    device: Device = "cpu",
    workers: Workers = "",
    out: Annotated[Path | None, typer.Option(help="Folder of the run; by default the next free one under runs/.")] = None,
    json: Json = False,
) -> None:
    """Test a network offline and online on the same scenarios: do the two agree, and how often is offline testing wrong?"""
    from skidpad.drives import open_drive
    from skidpad.kinds.drives.compare.settings import OfflineVsOnlineSettings
    from skidpad.stimuli.grammar import allow_typed
    from skidpad.subjects.pretrained import subject_path
    from skidpad.worlds.world import WORLDS

    allow_typed([stimulus])
    WORLDS.allow([world])
    settings = OfflineVsOnlineSettings(
        subject=str(subject_path(subject)),
        drive=open_drive(drive).origin if drive else "",
        world=world,
        domain=domain,
        scenarios=scenarios,
        matched=matched,
        stimulus=stimulus,
        seconds=seconds,
        unit=unit,
        epsilon=epsilon,
        mae_limit=mae_limit,
        mdcl_limit=mdcl_limit,
        width=width,
        referee=referee,
        seed=seed,
        device=device,
    )
    warn_of_rendering(device, world)
    run_campaign(settings, out or next_free(Path("runs"), f"compare-{Path(settings.subject).stem}"), json, workers)
