"""skidpad inspect on a subject: what it is, what it answers to grey, what its description leaves open; or a proposed description."""

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from skidpad.cli.console import facts, harmless, print_json, say, say_lines, table
from skidpad.core.angles import Axle
from skidpad.core.errors import BadSubjectError

if TYPE_CHECKING:
    from skidpad.core.images import FloatArray, NumpyFrames
    from skidpad.drives.drive import Drive
    from skidpad.subjects.base import Subject
    from skidpad.subjects.description import InputSpec, Output


def propose_description(file: Path, json: bool) -> None:
    """Prints the description that a model file suggests, as TOML that can be kept beside it."""
    from skidpad.subjects.proposing import propose

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
                "grey_frame_answer_deg": float(np.degrees(answers[description.steering_column])) if description.steers else None,
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
    """Returns what is wrong with a drive's frames for a network's input."""
    from skidpad.subjects.shapes import aspect_warning

    height_px, width_px, _ = drive.frame_shape
    warning = aspect_warning(spec, height_px, width_px)
    return [warning] if warning is not None else []


def grey_clip(spec: "InputSpec", lead: int) -> "NumpyFrames":
    """Makes grey frames whose part that is left after the crop has the size of the input, (lead + 1, height, width, 3)."""
    crop = spec.crop
    height = round(spec.height_px / (1.0 - crop.top - crop.bottom))
    width = round(spec.width_px / (1.0 - crop.left - crop.right))
    return np.full((lead + 1, height, width, 3), 128, np.uint8)


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
        ("crop", ", ".join(f"{side} {share:.0%}" for side, share in cut.items()) or None),
        ("memory", memory),
        ("parameters", parameters),
        ("neurons", sum(layer.neurons for layer in subject.layers) or None),
    ]
    rows += [(output.name, _meaning(output)) for output in description.outputs]
    rows += [
        (f"{output.name} on grey", _worded(output, answer)) for output, answer in zip(description.outputs, answers.tolist(), strict=True)
    ]
    return [*rows, ("sha256", subject.sha256)]


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
    return f"{unit}{axle}{f', times {output.scale:g}' if output.scale != 1.0 else ''}"


def _shown(output: "Output", answer: float) -> float:
    return float(np.degrees(answer)) if output.is_angle else float(answer)


def _worded(output: "Output", answer: float) -> str:
    if not np.isfinite(answer):
        return "no finite answer"
    if output.is_angle:
        return f"{np.degrees(answer):+.3f} deg of the steering wheel"
    return f"{answer:.4g} {output.unit.value}" if output.unit is not None else f"{answer:.4g}"


def _open_points(toml: Path, subject: "Subject") -> list[str]:
    """Returns what the description leaves to defaults, and whether a wrong size would go unnoticed."""
    from skidpad.subjects.description_toml import left_to_default

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

    from skidpad.subjects.network import CANNOT_RUN
    from skidpad.subjects.network_subject import NetworkSubject
    from skidpad.subjects.shapes import described_shape, resized

    if not isinstance(subject, NetworkSubject):
        return False
    network = subject.network
    inputs = torch.zeros((network.fixed_batch or 1, *described_shape(resized(subject.description.input))), device=network.device)
    try:
        network.record(inputs)  # which looks at what it runs: torch's own LSTM reads past the end of weights of another size
    except (BadSubjectError, *CANNOT_RUN):
        return False
    return True
