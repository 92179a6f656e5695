"""skidpad repair: retrain on what a run found, and measure before, after and a control."""

import json as json_module
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skidpad.cli.subjects import Device, Json
from skidpad.cli.training import Threads
from skidpad.cli.trust import may_trust
from skidpad.core.errors import UnknownNameError
from skidpad.page.terminal import print_json, progress_bar, say, table

if TYPE_CHECKING:
    from skidpad.repair.report import RepairReport


def add_to(app: typer.Typer) -> None:
    """Adds the command to the application."""
    app.command()(may_trust(repair))


def repair(
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="A description of a network of the zoo, as model.toml.")],
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run of `skidpad test`.")],
    out: Annotated[Path, typer.Option(help="Where the new subject goes: OUT.toml and OUT.safetensors.")],
    train_drive: Annotated[str, typer.Option(help="The drive the network was trained on; else the share's originals stand in.")] = "",
    transforms: Annotated[
        str, typer.Option(help="Comma-separated: mutants of these and their combinations are taken.")
    ] = "deeptest-fog,deeptest-rain",
    share: Annotated[float, typer.Option(help="Share of the frames whose mutants are trained on; the rest is held out.")] = 0.66,
    split: Annotated[str, typer.Option(help="random (the paper's; flatters) or time (contiguous blocks held out).")] = "random",
    max_mutants: Annotated[int, typer.Option(help="Render at most so many mutants, drawn at random.")] = 6000,
    from_scratch: Annotated[bool, typer.Option(help="Start from fresh weights instead of the subject's.")] = False,
    epochs: Annotated[int | None, typer.Option(help="Default: 10, from scratch 30.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Default: 3e-4, from scratch 1e-3.")] = None,
    mirror: Annotated[bool, typer.Option(help="Flip half of the pictures, and the sign of their labels.")] = True,
    control: Annotated[bool, typer.Option(help="Retrain a second network as long without the mutants, to compare with.")] = True,
    seed: Annotated[int, typer.Option(help="Root of all randomness.")] = 0,
    device: Device = "cpu",
    threads: Threads = 1,
    json: Json = False,
) -> None:
    """Retrain a network on a share of a run's mutants, and measure before and after on the held-out rest (DeepTest, RQ5).

    Killed and called again, it goes on from the checkpoints beside OUT.
    """
    from skidpad.drives import open_drive
    from skidpad.repair.retraining import check_free, check_repairable
    from skidpad.repair.retraining import repair as repair_subject
    from skidpad.repair.settings import RepairSettings, Split
    from skidpad.runs.folder import Run
    from skidpad.stimuli.pictures import TRANSFORMS
    from skidpad.subjects.loading import load_network
    from skidpad.subjects.pretrained import subject_path

    names = tuple(part.strip() for part in transforms.split(",") if part.strip())
    for name in names:
        TRANSFORMS.get(name)
    if split not in {one.value for one in Split}:
        raise UnknownNameError.among("split", split, [one.value for one in Split])
    settings = RepairSettings(
        transforms=names,
        share=share,
        split=Split(split),
        max_mutants=max_mutants,
        from_scratch=from_scratch,
        epochs=epochs,
        learning_rate=learning_rate,
        mirror=mirror,
        control=control,
        seed=seed,
        device=device,
        threads=threads,
    )
    settings.training()  # a wrong number ends the work before the rendering, not after it
    check_free(out)
    network = load_network(subject_path(subject), device)
    check_repairable(network)
    opened = Run.open(run)
    drive = open_drive(train_drive) if train_drive else None
    with progress_bar("repairing", "whole epochs are kept; go on with the same command") as progress:
        report = repair_subject(network, opened, out, settings, drive, progress)
    if json:
        print_json(json_module.loads(report.to_json()))
    else:
        print_repair(report)


def print_repair(report: "RepairReport") -> None:
    """Prints what was trained on, and the errors before, after and of the control."""
    base = (
        f"{report.training_frames} frames of {report.training_drive}" if report.training_drive else f"{report.training_originals} originals"
    )
    say(f"trained {report.epochs} epochs on {base} and {report.training_mutants} mutants")
    controlled, rows = report.settings.control, report.improvements
    table(  # two tables, so that numbers stay whole on 80 columns
        f"{report.subject}: MSE (rad^2), {report.held_out_frames} frames held out ({report.settings.split.value})",
        ("held out", "before", "after", "change", *(("control", "beyond control") if controlled else ())),
        [
            (
                row.pictures,
                row.mse_before_rad2,
                row.mse_after_rad2,
                _percent(row.mse_change),
                *((row.mse_control_rad2, _percent(row.mse_change_beyond_control)) if controlled else ()),
            )
            for row in rows
        ],
    )
    table(
        f"{report.subject}: RMSE (rad)",
        ("held out", "pictures", "before", "after", *(("control",) if controlled else ())),
        [
            (row.pictures, row.cases, row.rmse_before_rad, row.rmse_after_rad, *((row.rmse_control_rad,) if controlled else ()))
            for row in rows
        ],
    )
    for note in report.notes:
        say(f"note: {note}")
    say(f"new subject: {report.toml}")


def _percent(share: float) -> str:
    return "-" if isnan(share) else f"{share:+.0%}"
