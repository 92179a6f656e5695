"""skidpad weather: learn a weather from pictures, test under it, search its worst condition."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skidpad.cli import weather_realism
from skidpad.cli.runs import (
    Device,
    Drive,
    Json,
    Out,
    RefereeOption,
    Seed,
    StimulusOn,
    Subject,
    Workers,
    may_trust,
    names_of,
    next_free,
    run_campaign,
)
from skidpad.cli.weather_training import train
from skidpad.core.errors import BadRunError, SkidpadError
from skidpad.page.terminal import print_json, progress_bar, say, table, warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skidpad.kinds.pictures.weather.summary import BoundCount, Ranked


def add_to(app: typer.Typer) -> None:
    """Adds the group of commands to the application."""
    weathers = typer.Typer(no_args_is_help=True, help="Weather learned from pictures: learn it, test under it, search its worst condition.")
    weathers.command()(train)
    weathers.command(name="test")(may_trust(run_test))
    weathers.command()(rank)
    weathers.command()(fetch)
    weather_realism.add_to(weathers)
    weathers.command()(may_trust(search))
    app.add_typer(weathers, name="weather")


def run_test(
    subject: Subject,
    drive: Drive,
    weather: Annotated[
        list[str], typer.Option(help="A weather that `skidpad weather train` wrote, or a bundled one (rain, night, dusk); may be repeated.")
    ],
    thresholds: Annotated[
        str, typer.Option(help="Error bounds in degrees, ascending; an error at the first one is a finding.")
    ] = "10,20,30,40",
    style: Annotated[
        str, typer.Option(help="Styles of MUNIT weathers: mean or real (as the pictures it learned from have), or random (N(0, 1)).")
    ] = "",
    styles: Annotated[
        int | None, typer.Option(help="How many styles to draw, from N(0, 1) unless --style is given. Default: only the mean style.")
    ] = None,
    output: Annotated[str, typer.Option(help="Which of the network's outputs to judge; it must be an angle.")] = "steering",
    stimulus_on: StimulusOn = "window",
    subject_device: Annotated[
        str, typer.Option(help="Where the subject runs; default: as --device, or the CPU if it cannot run there.")
    ] = "",
    seed: Seed = 0,
    referee: RefereeOption = "on",
    device: Device = "cpu",
    workers: Workers = "",
    out: Out = None,
    json: Json = False,
) -> None:
    """Test a network under learned weathers: every frame translated, steering compared with that on the frame as it is (DeepRoad)."""
    from skidpad.drives import open_drive
    from skidpad.kinds.pictures.weather.campaign import DeepRoadSettings
    from skidpad.stimuli.weather.pretrained import weather_path
    from skidpad.subjects.description import subject_path

    opened = open_drive(drive)
    settings = DeepRoadSettings(
        subject=str(subject_path(subject)),
        drive=opened.origin or drive,
        weathers=tuple(str(weather_path(file).absolute()) for file in weather),
        thresholds_deg=degrees_of(thresholds),
        style=style or ("mean" if styles is None else "random"),
        styles=1 if styles is None else styles,
        output=output,
        stimulus_on=stimulus_on,
        referee=referee,
        seed=seed,
        device=device,
        subject_device=subject_device,
    )
    run_campaign(settings, out or next_free(Path("runs"), f"{Path(subject).stem}-weather"), json, workers)


def rank(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Finished runs of `weather test`, one for each subject.")],
    json: Json = False,
) -> None:
    """Rank subjects by robustness: runs over the same drive, weathers and bounds, the most consistent subject first.

    A subject that always answers the same, or as no steering wheel can, comes last and has no rank.
    """
    from skidpad.kinds.pictures.weather.campaign import DeepRoad, DeepRoadSettings
    from skidpad.kinds.pictures.weather.summary import check_comparable, ranked, summarise_road
    from skidpad.oracles.doubts import senseless
    from skidpad.runs.findings import run_doubts
    from skidpad.runs.folder import Run

    for path in runs:
        # a URL is no folder of this machine
        if not path.is_dir() and ":/" not in str(path):
            makes = shlex.join(("skidpad", "weather", "test", "SUBJECT", "DRIVE", "--weather", "FILE", "--out", str(path)))
            raise BadRunError(f"no run folder at {path}; `{makes}` makes one")
    opened = [Run.open(path) for path in runs]
    check_comparable(opened)
    results = []
    for run in opened:
        campaign = DeepRoad.load_road(DeepRoadSettings.from_config(run.config), run.manifest)
        results.append((campaign.subject.description.name, [summarise_road(run, campaign)]))
    _show_ranking(ranked(results, [senseless(run_doubts(run)) for run in opened]), json=json)


def fetch(
    url: Annotated[str, typer.Argument(metavar="URL", help="Address of the weather's card, NAME.toml, with NAME.safetensors beside it.")],
    sha256: Annotated[str, typer.Option(metavar="HASH", help="SHA-256 of the card's file, as given by its publisher.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder to keep the two files in.")] = Path("weathers"),
    json: Json = False,
) -> None:
    """Fetch a weather that someone else learned (http, https, file), and keep it only if its SHA-256 is right.

    The card names the hash of the weights, so one hash pins both files. After an interruption, the same command continues.
    """
    from skidpad.kinds.weathers import lost_road_words
    from skidpad.stimuli.weather.fetching import fetch_weather

    command = shlex.join(["skidpad", *sys.argv[1:]])
    with progress_bar("fetching", f"go on with the same command: {command}") as progress:
        fetched = fetch_weather(url, sha256, out, progress)
    card = fetched.card
    warning = lost_road_words(card)
    if json:
        files = [str(weather_file) for weather_file in fetched.files]
        shown = {"weather": str(fetched.path), "files": files, "sha256": fetched.sha256, "downloaded": fetched.downloaded}
        shown |= {"name": card.name, "method": card.method.value, "size_px": card.size_px, "weights_sha256": card.weights_sha256}
        shown["drawn"] = card.drawn
        print_json({**shown, "road_lost": card.road_lost, "warnings": [warning] if warning else []})
        return
    state = "SHA-256 as it should be" if fetched.downloaded else "already there and intact, not fetched again"
    say(f"weather {card.name}: {card.method.value.upper()}, {card.size_px} px, {card.steps:,} steps{card.drawn_words}; {state}")
    if warning:
        warn(warning)
        return
    test = shlex.join(("skidpad", "weather", "test", "SUBJECT", "DRIVE", "--weather", str(fetched.path)))
    say(f"test under it: {test}")


def degrees_of(text: str) -> tuple[float, ...]:
    """Reads a list of degrees; in which order they must be, the settings know."""
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise SkidpadError(f"thresholds are degrees, as 10,20,30,40; got {text!r}") from error


def _show_ranking(rows: Sequence[Ranked], *, json: bool) -> None:
    """Prints subjects, the most consistent first."""
    if json:
        placed = [(row, None if row.senseless else place) for place, row in enumerate(rows, 1)]
        print_json({"ranking": [{**asdict(row), "moved_in_spreads": row.moved, "rank": place} for row, place in placed]})
        return
    bounds = [f"{bound.threshold_deg:g} deg" for bound in rows[0].counts]
    cells = [
        (
            "-" if row.senseless else place,
            row.subject,
            *(bound.inconsistent for bound in row.counts),
            row.counts[0].cases,
            _share(row.counts[0]),
            row.mean_deg,
            row.spread_deg,
            row.moved,
        )
        for place, row in enumerate(rows, 1)
    ]
    columns = ("rank", "subject", *bounds, "cases", f"share at {bounds[0]}", "mean change (deg)", "spread (deg)", "change / spread")
    table("subjects by robustness, the most consistent first", columns, cells)
    unranked = "; ".join(f"{row.subject} {row.senseless}" for row in rows if row.senseless)
    if unranked:
        say(f"not ranked: {unranked}")
    say(
        "spread is the standard deviation of a subject's answers on the frames as they are: one that hardly steers is consistent without "
        "being robust; where change / spread is 1, the answer says as little as one to another frame"
    )


def _share(bound: BoundCount) -> str:
    from skidpad.page.wording import interval, percent

    """Words a share with its interval."""
    return f"{percent(bound.rate)} ({interval(bound.low, bound.high)})" if bound.cases else "-"


def search(
    subject: Subject,
    drive: Drive,
    weather: Annotated[
        list[str],
        typer.Option(help="One weather: a file that `skidpad weather train --method munit` wrote, or a bundled one (rain, night, dusk)."),
    ],
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
    seed: Seed = 0,
    device: Device = "cpu",
    workers: Workers = "",
    out: Out = None,
    json: Json = False,
) -> None:
    """Search a learned weather for the conditions under which a network errs most (TACTIC)."""
    from skidpad.drives import open_drive
    from skidpad.kinds.pictures.styles.campaign import TacticSettings
    from skidpad.search.protocol import SEARCHES
    from skidpad.subjects.description import subject_path

    searches = names_of(search)
    SEARCHES.allow(searches)
    settings = TacticSettings(
        subject=str(subject_path(subject)),
        drive=open_drive(drive).origin or drive,
        weather=weather_file(_only(weather)),
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


def _only(weathers: Sequence[str]) -> str:
    """Returns the only weather that was given. The option is a list because typer would silently keep the last of several strings."""
    if len(weathers) > 1:
        raise SkidpadError(f"a search takes one weather; run it once for each of {', '.join(weathers)}")
    return weathers[0]


def weather_file(text: str) -> str:
    """Returns where a weather lies: its file, or that of a bundled one."""
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
