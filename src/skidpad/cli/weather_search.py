"""skidpad weather search: the conditions of a learned weather under which a network errs most (TACTIC)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skidpad.cli.runs import RefereeOption, Workers, next_free, run_campaign
from skidpad.cli.subjects import Device, Json
from skidpad.cli.trust import may_trust


def add_to(app: typer.Typer) -> None:
    """Adds the command to the group of weather commands."""
    app.command()(may_trust(search))


def search(
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="A description, e.g. model.toml, or `demo`.")],
    drive: Annotated[str, typer.Argument(metavar="DRIVE", help="A folder, READER:FOLDER, or `rendered`; ?to=0.6 takes the first 60 %.")],
    weather: Annotated[str, typer.Option(help="A weather that `skidpad weather train --method munit` wrote.")],
    criterion: Annotated[str, typer.Option(help="Coverage that guides the search: kmnc or nbc; both are reported.")] = "nbc",
    conditions: Annotated[int, typer.Option(help="Conditions to find, one after the other.")] = 4,
    frames: Annotated[int, typer.Option(help="Scenes, evenly spaced over the drive; 0 is all.")] = 0,
    search: Annotated[str, typer.Option(help="Comma-separated: es, random-styles (R_c), random-search (RS), cma-es, map-elites.")] = "es",
    repeats: Annotated[int, typer.Option(help="How often to repeat each search.")] = 1,
    patience: Annotated[int, typer.Option(help="Stop a search after this many tries without an improvement.")] = 100,
    iterations: Annotated[int, typer.Option(help="Stop a search after this many tries in all; 0 for no limit.")] = 0,
    racing: Annotated[bool, typer.Option(help="Drop tries that cannot win before they have seen all scenes.")] = True,
    risk: Annotated[float, typer.Option(help="Risk of dropping a style that would have won; 0 drops only provable losers.")] = 0.001,
    at_once: Annotated[int, typer.Option(help="Tries to evaluate together; changes only the speed. 0 fills a batch.")] = 0,
    thresholds: Annotated[str, typer.Option(help="Error bounds in degrees; an error at the first one is a finding.")] = "10,20,30,40",
    style_limit: Annotated[float, typer.Option(help="Largest absolute value of a style's numbers; 0 for no limit.")] = 4.0,
    profile_drive: Annotated[str, typer.Option(help="Training drive for the bounds of the neurons; the drive itself by default.")] = "",
    validity: Annotated[
        str, typer.Option(help="Filter for scenes: off, structure, or a classifier's FILE or FILE=CLASS; refused scenes do not count.")
    ] = "off",
    output: Annotated[str, typer.Option(help="Which of the network's outputs to judge; it must be an angle.")] = "steering",
    referee: RefereeOption = "on",
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    device: Device = "cpu",
    workers: Workers = "",
    out: Annotated[Path | None, typer.Option(help="Folder of the run; by default the next free one under runs/.")] = None,
    json: Json = False,
) -> None:
    """Search a learned weather for the conditions under which a network errs most (TACTIC)."""
    from skidpad.cli.weather import degrees_of
    from skidpad.drives import open_drive
    from skidpad.kinds.pictures.styles.settings import TacticSettings
    from skidpad.search.protocol import SEARCHES
    from skidpad.subjects.pretrained import subject_path

    searches = tuple(part.strip() for part in search.split(",") if part.strip())
    SEARCHES.allow(searches)
    settings = TacticSettings(
        subject=str(subject_path(subject)),
        drive=open_drive(drive).origin or drive,
        weather=weather_file(weather),
        criterion=criterion,
        conditions=conditions,
        frames=frames,
        searches=searches,
        repeats=repeats,
        patience=patience,
        iterations=iterations,
        racing=racing,
        risk=risk,
        at_once=at_once,
        bounds_deg=degrees_of(thresholds),
        style_limit=style_limit,
        profile_drive=profile_drive and open_drive(profile_drive).origin,
        validity=validity_file(validity),
        output=output,
        referee=referee,
        seed=seed,
        device=device,
    )
    run_campaign(settings, out or next_free(Path("runs"), f"{Path(settings.subject).stem}-{Path(settings.weather).stem}"), json, workers)


def weather_file(text: str) -> str:
    """Returns where a weather lies: its file, or that of one that comes along."""
    from skidpad.stimuli.weather.pretrained import weather_path

    return str(weather_path(text).absolute())


def validity_file(text: str) -> str:
    """Returns the setting for a filter: nothing for `off`, a word, or where a file lies, with the class that was named."""
    from skidpad.kinds.pictures.styles.fitness import OFF, STRUCTURE, file_and_class
    from skidpad.stimuli.weather.pretrained import classifier_path

    if text in {"", OFF}:
        return ""
    if text == STRUCTURE:
        return text
    file, label = file_and_class(text)
    return f"{classifier_path(file).absolute()}{f'={label}' if label else ''}"
