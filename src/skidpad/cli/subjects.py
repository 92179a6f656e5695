"""skidpad inspect and trust: what a subject or a drive is and what is wrong with it, and what code a subject would run."""

import tomllib
from dataclasses import asdict
from math import degrees, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skidpad.cli.runs import Device, Json, may_trust
from skidpad.core.errors import BadSubjectError, SkidpadError
from skidpad.core.trust import forget, is_remembered, remember, store
from skidpad.core.units import Axle
from skidpad.page.terminal import facts, harmless, print_json, progress_bar, say, say_lines, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skidpad.core.images import FloatArray, NumpyFrames
    from skidpad.drives.drive import Drive
    from skidpad.subjects.base import Subject
    from skidpad.subjects.description import Output
    from skidpad.subjects.inputs import InputSpec


def propose_description(file: Path, json: bool) -> None:
    """Prints the description that a model file suggests, as TOML that can be kept beside it."""
    from skidpad.subjects.introspection import propose

    proposal = propose(file)
    if json:
        print_json(
            {
                "proposed": tomllib.loads(proposal.to_toml()),
                "guesses": sorted(proposal.guesses),
                "notes": list(proposal.notes),
                "lambdas_to_fill": list(proposal.lambdas),
                "description": str(file.with_suffix(".toml")),
            }
        )
        return
    # plain print: the text is a file, not prose to be wrapped
    named, beside = harmless(file.name), harmless(file.with_suffix(".toml").name)
    say_lines(f"# {named} has no description; keep this as {beside} and correct the guesses\n{proposal.to_toml()}")


def inspect_subject(path: str, device: str, json: bool, drive: "Drive | None" = None) -> None:
    """Prints layers, neurons, input, outputs, parameters, the answers on a grey frame and what the description leaves open.

    With a drive, also whether its frames reach the network in the proportions of its training.
    """
    from skidpad.subjects.loading import description_path, load_subject
    from skidpad.subjects.network_subject import NetworkSubject

    subject = load_subject(path, device)
    description = subject.description
    answers = subject.predict(grey_clip(description.input, subject.lead))[0]
    parameters = subject.network.parameters if isinstance(subject, NetworkSubject) else None
    layers = [(layer.name, layer.neurons) for layer in subject.layers]
    open_points = _open_points(description_path(Path(path)), subject)
    warnings = frame_warnings(description.input, drive) if drive is not None else []
    if json:
        print_json(
            {
                "name": description.name,
                "format": description.format.value,
                "architecture": description.architecture,
                "sha256": subject.sha256,
                "frames": subject.lead + 1,
                "parameters": parameters,
                "black_box": not layers,
                "neurons": sum(neurons for _, neurons in layers),
                "layers": dict(layers),
                "outputs": [
                    {
                        "name": output.name,
                        "unit": output.unit.value if output.unit else None,
                        "axle": output.axle.value if output.is_angle else None,
                        "grey_frame_answer": _shown(output, answer),
                    }
                    for output, answer in zip(description.outputs, answers, strict=True)
                ],
                "grey_frame_answer_deg": degrees(answers[description.steering_column]) if description.steers else None,
                "open_points": open_points,
                "warnings": warnings,
            }
        )
        return
    facts(f"subject {description.name}", _rows(subject, parameters, answers))
    if layers:
        table("layers", ("name", "neurons"), layers)
    else:
        say("a black box: its layers cannot be seen, so there is no coverage")
    for point in open_points:
        say(f"not said: {point}")
    for warning in warnings:
        say(f"warning: {warning}")


def frame_warnings(spec: "InputSpec", drive: "Drive") -> list[str]:
    """Returns what is wrong with a drive's frames for a network's input; refuses a drive of other cameras."""
    from skidpad.subjects.inputs import aspect_warning, check_cameras

    check_cameras(spec, drive.cameras, f"drive {drive.name!r}")
    height_px, width_px, _ = drive.frame_shape
    warning = aspect_warning(spec, height_px, width_px)
    return [warning] if warning is not None else []


def grey_clip(spec: "InputSpec", lead: int) -> "NumpyFrames":
    """Makes grey frames whose part that is left after the crop has the size of the input, (lead + 1, height, width, 3)."""
    import numpy as np

    crop = spec.crop
    height = round(spec.height_px / (1.0 - crop.top - crop.bottom))
    width = round(spec.width_px / (1.0 - crop.left - crop.right))
    return np.full((lead + 1, height, width * spec.views, 3), 128, np.uint8)


def _rows(subject: "Subject", parameters: int | None, answers: "FloatArray") -> list[tuple[str, object]]:
    description = subject.description
    spec = description.input
    cut = {side: share for side in ("top", "bottom", "left", "right") if (share := getattr(spec.crop, side))}
    low, high = (", ".join(f"{value:g}" for value in values) for values in (spec.range.low, spec.range.high))
    memory = f"{subject.lead + 1} frames, {spec.history.kind.value}" if subject.lead else None
    rows: list[tuple[str, object]] = [
        ("format", description.format.value),
        ("architecture", description.architecture),
        ("input", f"{spec.width_px} x {spec.height_px} px, {spec.colour.value}, {spec.layout.value}, 0..255 as {low} to {high}"),
        ("crop", ", ".join(f"{side} {100 * share:.0f} %" for side, share in cut.items()) or None),
        ("prepared by", ", ".join(_preparation(spec)) or None),
        ("memory", memory),
        ("parameters", parameters),
        ("neurons", sum(layer.neurons for layer in subject.layers) or None),
    ]
    rows += [(output.name, _meaning(output)) for output in description.outputs]
    rows += [
        (f"{output.name} on grey", _worded(output, answer)) for output, answer in zip(description.outputs, answers.tolist(), strict=True)
    ]
    return [*rows, ("sha256", subject.sha256)]


def _preparation(spec: "InputSpec") -> "Iterator[str]":
    """Names what few networks want besides a crop, a size, colours and a range, in order."""
    if spec.cameras is not None:
        yield f"joining the cameras {', '.join(spec.cameras.names)} by {spec.cameras.join.value}"
    if spec.undistort is not None:
        yield "undistortion"
    if spec.resize_first is not None:
        yield f"resizing to {spec.resize_first.width_px} x {spec.resize_first.height_px} px before the crop"
    if spec.equalise is not None:
        yield f"equalisation ({spec.equalise.kind.value}, {spec.equalise.channels.value})"
    if spec.standardise:
        yield "standardisation of each picture"


def _meaning(output: "Output") -> str:
    """Says what the network's own number is taken for: its unit, its axle and its sign."""
    unit = output.unit.value if output.unit is not None else "a plain number"
    axle = ""
    if output.is_angle:
        axle = (
            " of the steering wheel"
            if output.axle is Axle.STEERING_WHEEL
            else f" of the road wheels, {output.ratio:g} of the steering wheel each"
        )
    bins = output.bins
    of = f"the largest of {bins.count} bins from {bins.low:g} to {bins.high:g}, in " if output.numbers > 1 else ""
    return f"{of}{unit}{axle}{f', times {output.scale:g}' if output.scale != 1.0 else ''}"


def _shown(output: "Output", answer: float) -> float:
    return degrees(answer) if output.is_angle else float(answer)


def _worded(output: "Output", answer: float) -> str:
    if not isfinite(answer):
        return "no finite answer"
    if output.is_angle:
        return f"{degrees(answer):+.3f} deg of the steering wheel"
    return f"{answer:.4g} {output.unit.value}" if output.unit is not None else f"{answer:.4g}"


def _open_points(toml: Path, subject: "Subject") -> list[str]:
    """Returns what the description leaves to defaults, and whether a wrong size would go unnoticed."""
    from skidpad.subjects.description import left_to_default

    points = list(left_to_default(tomllib.loads(toml.read_text(encoding="utf-8"))))
    if subject.layers and _takes_other_sizes(subject):
        spec = subject.description.input
        points.append(
            f"the network also runs at other sizes, so nothing but the description says that it was trained at "
            f"{spec.width_px} x {spec.height_px} px"
        )
    return points


def _takes_other_sizes(subject: "Subject") -> bool:
    import torch

    from skidpad.subjects.inputs import described_shape, resized
    from skidpad.subjects.network_subject import CANNOT_RUN, NetworkSubject

    if not isinstance(subject, NetworkSubject):
        return False
    network = subject.network
    inputs = torch.zeros((network.fixed_batch or 1, *described_shape(resized(subject.description.input))), device=network.device)
    try:
        network.record(inputs)  # which looks at what it runs: torch's own LSTM reads past the end of weights of another size
    except (BadSubjectError, *CANNOT_RUN):
        return False
    return True


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the application."""
    app.command()(may_trust(inspect))
    app.command()(trust)


def inspect(
    what: Annotated[str, typer.Argument(metavar="SUBJECT|DRIVE", help="A description, a model file, or a drive.")],
    drive: Annotated[str | None, typer.Argument(metavar="DRIVE", help="With a SUBJECT: the drive to check it against.")] = None,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Describe a network or a drive and what is wrong with it; with both, also whether the frames fit the network.

    A file is a SUBJECT (a description, as model.toml) unless it is a recording; anything else is a DRIVE: a folder, READER:PATH, a
    URL, or `rendered`.
    For a model file without a description one is proposed: `skidpad inspect model.onnx > model.toml`, then correct the guesses.
    """
    from skidpad.drives.opening import is_recording
    from skidpad.subjects.description import subject_path
    from skidpad.subjects.formats.recognition import is_named_like_a_model

    path = subject_path(what)
    what = str(path) if what == "demo" else what
    if Path(what.partition("?")[0]).suffix == ".toml" or (path.is_file() and not is_recording(path)):
        _inspect_subject(what, drive, device, json)
    elif is_named_like_a_model(path) and not path.exists():
        raise SkidpadError(f"there is no model file {what!r}; look at the name, or inspect another")
    elif drive is not None:
        raise SkidpadError(f"{what!r} is no subject, so there is nothing that could see {drive!r}; give a description first, as model.toml")
    else:
        _inspect_drive(what, json)


def _inspect_drive(text: str, json: bool) -> None:
    from skidpad.drives import inspect_drive, open_drive

    with progress_bar("reading frames") as progress:
        report = inspect_drive(open_drive(text), progress)
    if json:
        payload = asdict(report)
        for row, kind in zip(payload["problems"], report.problems, strict=True):
            row["kind"] = kind.kind.value
            row["examples"] = [str(problem) for problem in kind.examples]
        read_as = report.labels_as
        payload["labels_as"] = {"unit": read_as.unit.value, "sign": read_as.sign, "axle": read_as.axle.value, "ratio": read_as.ratio}
        print_json({**payload, "warnings": list(report.warnings)})
        return
    rows: list[tuple[str, object]] = [
        ("frames", f"{report.count} ({report.readable} readable)"),
        ("size", f"{report.width_px} x {report.height_px} px" if report.width_px else None),
        ("rate", f"{report.rate_hz:.1f} Hz over {report.duration_s:.1f} s" if report.rate_hz and report.duration_s else None),
        ("longest gap", f"{report.longest_gap_s:.2f} s" if report.longest_gap_s is not None else None),
    ]
    if report.labels:
        labels = report.labels
        rows += [
            ("labels", f"{labels.count} of {report.count}"),
            ("recorded as", str(report.labels_as)),
            ("steering", f"{labels.min_deg:.1f} to {labels.max_deg:.1f} deg, mean {labels.mean_deg:.2f}, std {labels.std_deg:.2f}"),
            ("near straight", f"{100 * labels.straight_share:.0f} % of the labels"),
        ]
    else:
        rows.append(("labels", "none: relations that need the human's steering cannot be used"))
    facts(f"drive {report.name}", rows)
    for warning in report.warnings:
        say(f"warning: {warning}")
    if report.problems:
        kinds = [(kind.kind.value, kind.count, "; ".join(map(str, kind.examples[:2]))) for kind in report.problems]
        table("problems", ("kind", "count", "first"), kinds)
    elif not report.warnings:
        say("no problems found")


def _inspect_subject(path: str, drive: str | None, device: str, json: bool) -> None:
    from skidpad.drives import open_drive

    given, beside = Path(path), Path(path).with_suffix(".toml")
    # an empty description is what the shell makes of `skidpad inspect net.onnx > net.toml` before the command begins
    if given.is_file() and given.suffix != ".toml" and not (beside.is_file() and beside.stat().st_size):
        propose_description(given, json)
    else:
        inspect_subject(path, device, json, open_drive(drive) if drive is not None else None)


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
