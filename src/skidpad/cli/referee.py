"""The command `referee`: its word on a changed picture, and how well its network knows the road."""

import re
import time
from pathlib import Path
from typing import Annotated

import typer

from skidpad.cli.runs import Device, Json
from skidpad.core.errors import SkidpadError
from skidpad.page.terminal import facts, print_json, progress_bar, say

_PICTURES = (".jpg", ".jpeg", ".png")
_SPLIT_SEED = 7
_BATCH = 16


def add_to(app: typer.Typer) -> None:
    """Adds the command to the application."""
    app.command(name="referee")(referee)


def referee(
    pictures: Annotated[Path, typer.Argument(metavar="ORIGINAL|PICTURES", help="A picture, or a folder of pictures with --masks.")],
    changed: Annotated[Path | None, typer.Argument(metavar="[CHANGED]", help="The picture that a stimulus made of it.")] = None,
    masks: Annotated[
        Path | None, typer.Option(help="A folder of masks, PNG files with the pictures' names; a pixel's value is its class.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Draw both pictures with the roads that the referee sees here, as pair.png.")] = None,
    values: Annotated[
        str,
        typer.Option(help="Which value of a mask is which class.", show_default="road=1, marking=2, other=3, movable=4, own_car=5"),
    ] = "road=1,marking=2,other=3,movable=4,own_car=5",
    group: Annotated[str, typer.Option(help="Regular expression for the part of a name that tells which camera took a picture.")] = "",
    held_out: Annotated[float, typer.Option(help="With --group: share of the cameras to score on; --train uses the others.")] = 0.2,
    train: Annotated[Path | None, typer.Option(help="Teach a network from these pictures and write it to this file.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps of a training.")] = 12000,
    network: Annotated[Path | None, typer.Option(help="A network that --train wrote; the bundled one by default.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the training's random numbers.")] = 9,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Ask whether CHANGED still shows the scene of ORIGINAL; or score, or teach, the referee's network on labelled PICTURES."""
    if changed is not None:
        _pair(pictures, changed, out, device, json)
        return
    if masks is None:
        raise SkidpadError(f"give the picture that became of {pictures} as well, or a folder of pictures with --masks FOLDER")
    from skidpad.referee.network import Class, load_road_net, save_road_net, segmented
    from skidpad.referee.training import RefereeSettings, read_labelled, scores_of, train_referee

    found = _pairs(pictures, masks)
    scored, taught = _split(found, group, held_out)
    table = _values(values, [each.name.lower() for each in Class])
    if train is not None:
        data = read_labelled(taught, table)
        with progress_bar("teaching", "nothing was written") as progress:
            save_road_net(train_referee(data, RefereeSettings(steps=steps, seed=seed), device, progress), train)
    chosen = load_road_net(train or network).to(device)
    data = read_labelled(scored, table)
    frames = data.pictures[:_BATCH].permute(0, 2, 3, 1).numpy()
    segmented(chosen, frames)
    begun = time.process_time() if device == "cpu" else time.perf_counter()
    segmented(chosen, frames)
    took_s = (time.process_time() if device == "cpu" else time.perf_counter()) - begun
    scores = scores_of(chosen, data)
    payload = {
        "pictures": len(data),
        "network": str(train or network or "the bundled one"),
        **{f"{each.name.lower()}_iou": value for each, value in scores.by_class.items()},
        "drivable_iou": scores.drivable,
        "ms_per_picture": took_s / len(frames) * 1000.0,
    }
    if json:
        print_json(payload)
    else:
        facts("where the referee's network sees the road", list(payload.items()))
        say("IoU: intersection over union with the masks; drivable: road and markings together; ms: of processor time, or of the device's")


def _pair(original: Path, changed: Path, out: Path | None, device: str, json: bool) -> None:
    """Prints the referee's word on two files, and draws what it sees."""
    from skidpad.core.images import decode, why_not_decoded, write_image
    from skidpad.referee.network import roads_drawn
    from skidpad.referee.verdict import judge

    frames = []
    for file in (original, changed):
        try:
            data = file.read_bytes()
        except OSError as error:
            raise SkidpadError(f"cannot read {file}: {error.strerror}; give two picture files") from error
        frame = decode(data)
        if frame is None:
            raise SkidpadError(f"{file} is no picture that can be read ({why_not_decoded(data)}); give two picture files")
        frames.append(frame[None])
    found = judge(frames[0], frames[1], device=device)
    reason = found.reasons[0]
    payload = {
        "word": reason.word.value,
        "reason": reason.value,
        "road_overlap": float(found.overlap[0]),
        "edge_likeness": float(found.likeness[0]),
        "picture": None if out is None else str(write_image(out, roads_drawn(frames[0][0], frames[1][0], device))),
    }
    if json:
        print_json(payload)
    else:
        facts(f"{changed.name} beside {original.name}", [(name, value) for name, value in payload.items() if value is not None])
        say("road overlap: intersection over union of the two roads; edge likeness of the worst-matching part; 1 is the same")


def _pairs(pictures: Path, masks: Path) -> list[tuple[Path, Path]]:
    if not pictures.is_dir() or not masks.is_dir():
        raise SkidpadError(f"there is no folder {pictures if not pictures.is_dir() else masks}; give folders of pictures and of masks")
    files = [file for file in sorted(pictures.iterdir()) if file.suffix.lower() in _PICTURES]
    found = [(file, mask) for file in files if (mask := masks / f"{file.stem}.png").is_file()]
    if not found:
        raise SkidpadError(f"no picture in {pictures} has a mask in {masks}: {len(files)} pictures, and a mask is NAME.png for NAME.jpg")
    return found


def _split(found: list[tuple[Path, Path]], group: str, share: float) -> tuple[list[tuple[Path, Path]], list[tuple[Path, Path]]]:
    """Returns the pairs to score on and those to teach with; without a group, both are all."""
    if not group:
        return found, found
    import numpy as np

    try:
        named = [match.group(match.re.groups and 1) if (match := re.search(group, file.stem)) else "" for file, _ in found]
    except re.error as error:
        raise SkidpadError(f"--group {group!r} is no regular expression ({error}); as '_([0-9a-f]{{16}})_'") from error
    names = sorted(set(named))
    count = int(len(names) * share)
    if not 0 < count < len(names):
        raise SkidpadError(f"--group {group!r} tells {len(names)} cameras apart, of which a share of {share:g} cannot be held out")
    held = {names[place] for place in np.random.default_rng(_SPLIT_SEED).permutation(len(names))[:count]}
    sides = [[pair for pair, name in zip(found, named, strict=True) if (name in held) is side] for side in (True, False)]
    return sides[0], sides[1]


def _values(text: str, names: list[str]) -> dict[int, int]:
    table: dict[int, int] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        if name not in names or not value.isdigit() or int(value) > 255:
            raise SkidpadError(f"--values is as road=1,marking=2 with the classes {', '.join(names)} and bytes; got {part.strip()!r}")
        table[int(value)] = names.index(name)
    return table
