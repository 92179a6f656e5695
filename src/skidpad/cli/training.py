"""skidpad train: a network of the zoo on a drive."""

import shlex
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from skidpad.cli.subjects import Device, Json
from skidpad.core.errors import SkidpadError
from skidpad.page.terminal import facts, print_json, progress_bar, say, warn

Threads = Annotated[
    int, typer.Option(help="Threads on the CPU. More may be faster; a different number gives a slightly different network.")
]


def add_to(app: typer.Typer) -> None:
    """Adds the command to the application."""
    app.command()(train)


def train(
    architecture: Annotated[str, typer.Argument(metavar="ARCHITECTURE", help="A name of `skidpad list architectures`.")],
    drive: Annotated[str, typer.Argument(metavar="DRIVE", help="A drive with labels; ?to=0.6 takes the first 60 % by time.")],
    out: Annotated[Path, typer.Option(help="Where to write OUT.safetensors, OUT.toml and OUT.training.json.")],
    epochs: Annotated[int, typer.Option(help="At most this many passes over the drive, in each stage.")] = 30,
    batch_size: Annotated[int, typer.Option(help="Pictures, or windows of pictures, per step.")] = 64,
    learning_rate: Annotated[float, typer.Option(help="Adam's first learning rate; it falls along a cosine.")] = 1e-3,
    patience: Annotated[int, typer.Option(help="Stop after this many epochs without a better validation.")] = 8,
    validation: Annotated[float, typer.Option(help="Share held out for validation, the last by time.")] = 0.15,
    mirror: Annotated[bool, typer.Option(help="Also train on mirrored frames.")] = True,
    resume: Annotated[bool, typer.Option(help="Continue from the checkpoint beside OUT.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    device: Device = "cpu",
    threads: Threads = 1,
    json: Json = False,
) -> None:
    """Train a network of the zoo on a drive, and describe it for the other commands.

    A network that looks back is trained on windows of consecutive frames; none reaches from the training into the validation.
    `chauffeur` is trained in two stages: its convolutions on single frames, then its LSTM on their features.
    """
    from skidpad.drives import drive_warnings, open_drive
    from skidpad.subjects.training.fitting import TrainingSettings
    from skidpad.subjects.training.training import train as fit_and_write

    settings = TrainingSettings(
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        patience=patience,
        validation_fraction=validation,
        mirror=mirror,
        seed=seed,
        device=device,
        threads=threads,
    )
    _check_out(out, resume)
    opened = open_drive(drive)
    for warning in drive_warnings(opened):
        warn(warning)
    command = shlex.join(["skidpad", *sys.argv[1:]])
    with progress_bar(f"training {architecture}", "whole epochs are kept; go on with the same command and --resume") as progress:
        report = fit_and_write(architecture, opened, out, settings, progress=progress, command=command, resume=resume)
    if json:
        payload = asdict(report)
        payload["saved"] = {name: str(value) for name, value in payload["saved"].items()}
        print_json({**payload, "curve_file": str(report.curve_file)})
        return
    stages = Counter(row.stage for row in report.fitted.curve)
    in_stages = f" ({', '.join(f'{name} {count}' for name, count in stages.items())})" if len(stages) > 1 else ""
    rows: list[tuple[str, object]] = [
        ("training frames", report.training_frames),
        ("validation frames", report.validation_frames),
        ("best epoch", f"{report.fitted.best_epoch} of {len(report.fitted.curve)}{in_stages}"),
        ("validation RMSE (rad)", report.validation_rmse_rad),
        ("RMSE of the mean label (rad)", report.mean_rmse_rad),
        ("frames left out", f"{report.broken_frames} broken, {report.unlabelled_frames} without a label"),
    ]
    facts(f"{architecture} on {drive}", rows)
    say(f"subject: {report.saved.toml}")


def _check_out(out: Path, resume: bool) -> None:
    """Refuses to write over a network or to forget a checkpoint."""
    from skidpad.subjects.training.training import beside

    if beside(out, ".toml").exists() or beside(out, ".safetensors").exists():
        raise SkidpadError(f"{beside(out, '.toml')} exists, and training writes over no network; choose another --out, or remove it")
    checkpoint = beside(out, ".checkpoint.pt")
    if checkpoint.exists() and not resume:
        raise SkidpadError(f"a training of {out} was stopped before its end; go on with --resume, or remove {checkpoint}")
    if resume and not checkpoint.exists():
        raise SkidpadError(f"there is no checkpoint {checkpoint} to go on from; leave --resume out")
