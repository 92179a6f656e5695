"""skidpad train and evaluate: a network of the zoo on a drive, and how well any network drives as its labels say."""

import shlex
import sys
from collections import Counter
from dataclasses import asdict
from math import degrees
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skidpad.cli.runs import Device, Json, Seed, may_trust
from skidpad.cli.subjects import frame_warnings
from skidpad.core.errors import SkidpadError
from skidpad.page.terminal import facts, print_json, progress_bar, say, table, warn

if TYPE_CHECKING:
    from skidpad.core.images import FloatArray
    from skidpad.drives.drive import Drive
    from skidpad.oracles.error import PredictionError

Threads = Annotated[
    int, typer.Option(help="Threads on the CPU. More may be faster; a different number gives a slightly different network.")
]

Half = Annotated[
    bool, typer.Option("--half", help="Train in bfloat16: up to three times as fast on GPUs and on processors that have AVX512-BF16.")
]


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the application."""
    app.command()(train)
    app.command()(may_trust(evaluate))


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
    seed: Seed = 0,
    device: Device = "cpu",
    threads: Threads = 1,
    half: Half = False,
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
        half=half,
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


def evaluate(
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="A description, or a csv of answers: frame_id,steering_angle.")],
    drive: Annotated[str, typer.Argument(metavar="DRIVE", help="A drive with labels: a folder, READER:FOLDER, or `rendered`.")],
    worst: Annotated[int, typer.Option(help="How many of the worst frames to list.")] = 5,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Measure plain accuracy: MSE, RMSE, MAE, correlation and the worst frames.

    SUBJECT may be a csv of answers (frame_id,steering_angle in radians), to score a network that ran elsewhere.
    """
    from skidpad.drives import drive_warnings, load_predictions, open_drive
    from skidpad.oracles.doubts import doubts_of, doubts_payload
    from skidpad.oracles.error import prediction_error
    from skidpad.page.wording import counted

    opened = open_drive(drive)
    for warning in drive_warnings(opened):
        warn(warning)
    if not opened.has_labels:
        raise SkidpadError(f"no frame of {opened.name!r} has a label, so there is nothing to score; `skidpad test` works without labels")
    from_csv = Path(subject).suffix == ".csv"
    answers_rad, broken = (load_predictions(Path(subject), opened), 0) if from_csv else _predict(subject, opened, device)
    doubts = doubts_of(answers_rad, opened.steering_rad)
    parts = {"all": prediction_error(answers_rad, opened.steering_rad, worst)}
    if opened.public is not None:
        for name, mask in (("public", opened.public), ("private", ~opened.public)):
            parts[name] = prediction_error(answers_rad[mask], opened.steering_rad[mask], 0)
    if json:
        figures = {name: _figures(part, opened if name == "all" else None) for name, part in parts.items()}
        print_json({**figures, "doubts": doubts_payload(doubts)})
        return
    for doubt in doubts:
        say(f"doubt: {doubt.said}")
    rows = [
        (name, part.judged, part.mse_rad2, part.rmse_rad, part.mae_rad, degrees(part.mae_rad), part.correlation)
        for name, part in parts.items()
    ]
    columns = ("split", "frames", "MSE (rad^2)", "RMSE (rad)", "MAE (rad)", "MAE (deg)", "correlation")
    table(f"{subject} on {opened.name}", columns, rows)
    whole = parts["all"]
    if whole.not_finite or whole.without_label:
        silent = whole.not_finite - broken
        say(f"left out: {counted(broken, 'broken frame')}, {silent} without a finite answer, {whole.without_label} without a label")
    worst_rows = [
        (opened.frame_ids[row.index], *(degrees(value) for value in (row.answer_rad, row.label_rad, row.error_rad))) for row in whole.worst
    ]
    if worst_rows:
        table("worst frames", ("frame", "answer (deg)", "label (deg)", "error (deg)"), worst_rows)


def _predict(subject: str, drive: "Drive", device: str) -> "tuple[FloatArray, int]":
    from skidpad.oracles.error import steering_answers
    from skidpad.subjects.description import subject_path
    from skidpad.subjects.loading import load_subject

    network = load_subject(subject_path(subject), device)
    for warning in frame_warnings(network.description.input, drive):
        warn(warning)
    with progress_bar("predicting") as progress:
        return steering_answers(network, drive, progress)


def _figures(part: "PredictionError", drive: "Drive | None") -> dict[str, Any]:
    figures: dict[str, Any] = {name: value for name, value in asdict(part).items() if name != "worst"}
    if drive is not None:
        figures["worst"] = [{"frame_id": drive.frame_ids[row.index], **asdict(row)} for row in part.worst]
    return figures
