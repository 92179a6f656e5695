"""skidpad weather classifier, realism and render: tell weathers apart, measure how real synthesised ones are, render sets of them."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skidpad.cli.runs import Device, Json, Seed, names_of
from skidpad.core.errors import SkidpadError
from skidpad.page.terminal import print_json, progress_bar, say, table

if TYPE_CHECKING:
    from skidpad.kinds.pictures.weather.realism import Realism, RealismLine
    from skidpad.stimuli.weather.classifier import ClassifierCard
    from skidpad.stimuli.weather.realism import RealismRow


def add_to(weathers: typer.Typer) -> None:
    """Adds the commands to the group `weather`."""
    for command in (classifier, realism, render):
        weathers.command()(command)


def classifier(
    pictures: Annotated[
        list[str], typer.Option("--set", help="CLASS=FOLDER or CLASS=DRIVE, as snow_day=weather/snow_day; given again for every set.")
    ],
    out: Annotated[Path, typer.Option(help="Where to write OUT.safetensors and OUT.toml.")],
    epochs: Annotated[int, typer.Option(help="How often to go through --samples.")] = 10,
    samples: Annotated[int, typer.Option(help="Crops an epoch, evenly from the classes and their sets.")] = 2560,
    rendered: Annotated[bool, typer.Option(help="Say that the pictures were rendered.")] = False,
    seed: Seed = 0,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Learn to tell weathers apart, and show the confusion on held-out pictures; one or two minutes on a CPU."""
    from skidpad.stimuli.weather.classifier import ClassifierSettings, ClassSet, learn_classifier, save_classifier

    sets = [ClassSet(*_pair(text)) for text in pictures]
    settings = ClassifierSettings(epochs=epochs, samples=samples, seed=seed, device=device)
    with progress_bar("learning to tell weathers apart") as progress:
        card, weights = learn_classifier(sets, settings, rendered=rendered, progress=progress)
    card = save_classifier(out, card, weights)
    if json:
        print_json({**asdict(card), "accuracy": card.accuracy, "file": str(out)})
    else:
        _show_classifier(card)
        say(f"classifier: {out}")


def realism(
    source: Annotated[str, typer.Option("--from", metavar="DRIVE", help="The whole drive; frames are taken from its held-out parts.")],
    classifier: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="What `skidpad weather classifier` wrote, or demo-classifier (bundled: rendered clear days, rain and snow).",
        ),
    ],
    weather: Annotated[
        list[str] | None,
        typer.Option(
            help="FILE or a bundled weather's name (`skidpad list weathers`); with its class FILE=CLASS; under a condition "
            "FILE+fog(visibility_m=200). May be repeated."
        ),
    ] = None,
    real: Annotated[
        list[str] | None, typer.Option(help="Real pictures: FOLDER of a class's name, or CLASS=FOLDER; may be repeated.")
    ] = None,
    transforms: Annotated[
        str, typer.Option(help="DeepTest's weathers to measure beside them; '' for none.")
    ] = "deeptest-fog,deeptest-rain",
    frames: Annotated[int, typer.Option(help="Frames of the drive, evenly from its held-out parts.")] = 64,
    clips: Annotated[
        int, typer.Option(help="Clips of 5 neighbouring frames from there, each under one style, for flicker; 0 for none.")
    ] = 4,
    styles: Annotated[str, typer.Option(help="How a scene's style is drawn: random (N(0, 1)) or real (as real pictures have).")] = "random",
    judge: Annotated[
        list[Path] | None,
        typer.Option(
            help="Weights that tell where the road is, as `skidpad referee --train` writes; the referee's by default. Several vote."
        ),
    ] = None,
    pictures: Annotated[Path | None, typer.Option(help="Write a grid of the synthesised scenes to this .png or .jpg.")] = None,
    seed: Seed = 0,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Measure how real synthesised weather is, whether the road is where it was, and whether a drive flickers."""
    from skidpad.kinds.pictures.weather.realism import RealismSettings, measure_realism
    from skidpad.stimuli.weather.pretrained import classifier_path

    settings = RealismSettings(
        drive=source,
        classifier=str(classifier_path(classifier)),
        weathers=tuple(weather or ()),
        real=tuple(real or ()),
        transforms=names_of(transforms),
        frames=frames,
        clips=clips,
        styles=styles,
        judges=tuple(str(file) for file in judge or ()),
        seed=seed,
        device=device,
    )
    with progress_bar("measuring realism") as progress:
        found = measure_realism(settings, progress, grid=pictures)
    if json:
        print_json(_payload(found))
    else:
        _show_realism(found)


def render(
    weather: Annotated[str, typer.Option(help="clear, rain, snow, fog, dusk, night, rain-night or snow-night.")],
    out: Annotated[Path, typer.Option(help="An empty or new folder for the pictures.")],
    count: Annotated[int, typer.Option(help="How many pictures, each of another road.")] = 300,
    size: Annotated[str, typer.Option(help="Width x height in pixels.")] = "256x256",
    fov_deg: Annotated[float, typer.Option(help="The camera's horizontal field of view.")] = 62.0,
    supersample: Annotated[
        int, typer.Option(help="Render at this many times the width and height, and average, for smoother pictures.")
    ] = 1,
    quality: Annotated[int, typer.Option(min=1, max=100, help="JPEG quality, 1 to 100.")] = 85,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Render pictures of a weather of the built-in world, to learn it from where no recorded set exists."""
    from skidpad.core.images import Camera
    from skidpad.worlds.render.weather_sets import rendered_weather, write_set

    command = shlex.join(["skidpad", *sys.argv[1:]])
    with progress_bar(f"rendering {weather}") as progress:
        camera = Camera(*_size(size), fov_deg=fov_deg)
        row = rendered_weather(weather)
        written = write_set(out, row, count, camera, seed, quality, supersample=supersample, command=command, progress=progress)
    if json:
        print_json({"folder": str(out), "weather": weather, "pictures": count, "bytes": written})
    else:
        say(f"{count} pictures of {weather} in {out}, {written / 1e6:.1f} MB")


def _pair(text: str) -> tuple[str, str]:
    label, equals, origin = text.partition("=")
    if not equals or not label or not origin:
        raise SkidpadError(f"a set is written CLASS=FOLDER, as night=weather/night; got {text!r}")
    return label, origin


def _size(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)x(\d+)", text.strip())
    if found is None:
        raise SkidpadError(f"a size is written WIDTHxHEIGHT, as 256x256; got {text!r}")
    return int(found[1]), int(found[2])


def _show_classifier(card: ClassifierCard) -> None:
    from skidpad.page.wording import percent

    rows = [(label, *card.confusion[place], percent(card.recall(label))) for place, label in enumerate(card.classes)]
    table("held-out pictures: what they are, and what they were called", ("is", *card.classes, "right"), rows)
    sets = [
        (each.label, each.origin, each.training, each.held_out, percent(each.held_out_right / max(each.held_out, 1))) for each in card.sets
    ]
    table("sets", ("class", "from", "learned", "held out", "right"), sets)
    say(f"accuracy {percent(card.accuracy)}; held out: {card.split}")


def _show_realism(found: Realism) -> None:
    from skidpad.page.wording import percent
    from skidpad.stimuli.weather.gauge import LEAST_IOU

    pictures = "rendered" if found.classifier.rendered else "real"
    say(f"The classifier puts {percent(found.classifier.accuracy)} of held-out {pictures} pictures in their class.")
    columns = ("class", "pictures", "in the class (95 %)", "scene kept", "told from real", "nearer to real")
    table("does it look like the weather?", columns, [_cells(line) for line in found.lines])
    say("told from real: 50 % is not at all; nearer: how much of the way from the recorded frames to real pictures (MMD)")
    names = (
        "class",
        "pictures",
        "road IoU",
        f"below {LEAST_IOU:g}",
        "not kept",
        "of the kept",
        "unsteady",
        "of the steady",
        "contrast near",
        "far",
        "flicker",
        "recorded",
    )
    table(
        "what is left of the road, of contrast and of steadiness",
        names,
        [_drive_cells(line) for line in found.lines if line.drive is not None],
    )
    say("road IoU: the drivable area before and after; not kept: scenes that the referee refuses or doubts, which no campaign counts")
    say("unsteady: scenes whose road the judge sees elsewhere in other light; of the kept, of the steady: IoU, share below")
    say("contrast: the share that is left; flicker: grey levels between neighbouring frames")
    for note in found.notes:
        say(f"note: {note}")


def _cells(line: RealismLine) -> tuple[object, ...]:
    row, test = line.row, line.row.against_real
    return (
        row.target,
        _name(row),
        f"{row.right} of {row.total} ({100 * line.share.low:.0f} to {100 * line.share.high:.0f} %)",
        None if row.kept is None else f"{row.kept} of {row.total}",
        None if test is None else f"{100 * test.accuracy:.0f} %, p {test.accuracy_p:.3f}",
        None if line.nearer is None or row.kind == "untranslated" else f"{100 * line.nearer:.0f} %",
    )


def _drive_cells(line: RealismLine) -> tuple[object, ...]:
    from skidpad.page.wording import percent

    drive = line.drive
    if drive is None:
        return ()
    shares = (drive.contrast_near, drive.contrast_far)
    return (
        line.row.target,
        _name(line.row),
        None if drive.road_iou is None else f"{drive.road_iou:.3f}",
        None if drive.road_iou_below is None else percent(drive.road_iou_below),
        percent(drive.not_kept),
        _iou_and_below(drive.kept_road_iou, drive.kept_road_iou_below),
        percent(drive.unsteady),
        _iou_and_below(drive.steady_road_iou, drive.steady_road_iou_below),
        *(None if share is None else f"{100 * share:.0f} %" for share in shares),
        *(None if levels is None else f"{levels:.1f}" for levels in (drive.flicker, drive.flicker_recorded)),
    )


def _name(row: RealismRow) -> str:
    """Names pictures; those of the drive stand in each class as a control."""
    return "recorded frames, unchanged" if row.kind == "untranslated" else row.name


def _iou_and_below(mean: float | None, below: float | None) -> str | None:
    from skidpad.page.wording import percent

    return None if mean is None or below is None else f"{mean:.3f}, {percent(below)}"


def _payload(found: Realism) -> dict[str, Any]:
    return {
        "classes": list(found.classifier.classes),
        "classifier_accuracy": found.classifier.accuracy,
        "split": found.split,
        "notes": list(found.notes),
        "rows": [
            {
                **asdict(line.row),
                "share": line.share.estimate,
                "share_low": line.share.low,
                "share_high": line.share.high,
                "nearer": line.nearer,
                **({} if line.drive is None else asdict(line.drive)),
            }
            for line in found.lines
        ],
    }
