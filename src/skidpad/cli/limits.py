"""skidpad limits and odd: how far a network holds; and skidpad demo, which tests the bundled network and finds its limits."""

from pathlib import Path
from typing import Annotated

import typer

from skidpad.cli.runs import (
    Device,
    Drive,
    Json,
    JudgedOutput,
    Out,
    RunPath,
    Seed,
    Subject,
    Workers,
    may_trust,
    next_free,
    open_with_campaign,
    run_campaign,
)
from skidpad.core.errors import SkidpadError
from skidpad.page.terminal import say, tell, warn

_STATEMENT = "odd"
_SUFFIXES = (".md", ".json", ".html")


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the application."""
    app.command()(may_trust(limits))
    app.command()(may_trust(odd))


def limits(
    subject: Subject,
    drive: Drive,
    conditions: Annotated[
        str,
        typer.Option(
            help="Comma-separated: fog, camera-pitch, my_module:Mine, ... (docs/conditions.md, docs/camera-conditions.md); all by default."
        ),
    ] = "all",
    share: Annotated[float, typer.Option(help="Share of frames that may fail while the network still holds.")] = 0.05,
    within_deg: Annotated[
        float | None, typer.Option(help="A frame fails if its steering moves by this many degrees or more; default 10.")
    ] = None,
    output: JudgedOutput = "steering",
    relation: Annotated[str, typer.Option(help="See `skidpad list relations`; steers-alike by default.")] = "",
    within: Annotated[float | None, typer.Option(help="Tolerance of a relation other than steers-alike.")] = None,
    frames: Annotated[int, typer.Option(help="How many frames to show, evenly spaced over the drive; 0 is all.")] = 500,
    stretch_frames: Annotated[
        int,
        typer.Option(help="Neighbouring frames look alike: intervals count so many of them as one observation. 0: two seconds of frames."),
    ] = 0,
    steps: Annotated[int, typer.Option(help="Steps from harmless to worst; a limit is known to one step.")] = 32,
    pairs: Annotated[list[str] | None, typer.Option(help="Two conditions to map together, as fog,dusk; may be repeated.")] = None,
    online: Annotated[
        bool, typer.Option("--online", help="Also drive the built-in world, and find the severity from which the car leaves its lane.")
    ] = False,
    scenarios: Annotated[int, typer.Option(help="How many scenarios to drive under each severity, with --online.")] = 6,
    seconds: Annotated[float, typer.Option(help="How long each of these drives lasts.")] = 10.0,
    referee: Annotated[str, typer.Option(help="on: leave out pictures that are no longer the same scene; off: count them.")] = "on",
    seed: Seed = 0,
    device: Device = "cpu",
    workers: Workers = "",
    out: Out = None,
    json: Json = False,
) -> None:
    """Find how far a network holds: for each condition the severity that it holds to and the one that it fails from, in units."""
    from skidpad.drives import drive_warnings, open_drive
    from skidpad.kinds.limits.campaign import LimitsSettings
    from skidpad.oracles.relations import RELATIONS, SteersAlike
    from skidpad.stimuli.registry import allow_typed, split_texts
    from skidpad.subjects.description import subject_path

    opened = open_drive(drive)
    for warning in drive_warnings(opened):
        warn(warning)
    if within_deg is not None and (relation not in {"", SteersAlike.name} or within is not None):
        raise SkidpadError("--within-deg is the tolerance of steers-alike; give --within for another relation, and one of them alone")
    names = () if conditions.strip() == "all" else split_texts([conditions])
    if not names and conditions.strip() != "all":
        raise SkidpadError("--conditions is empty; name some, as fog,rain, or `all`")
    allow_typed(name for name in names if ":" in name)
    RELATIONS.allow([relation])
    settings = LimitsSettings(
        subject=str(subject_path(subject)),
        drive=opened.origin or drive,
        conditions=names,
        output=output,
        relation=SteersAlike.name if within_deg is not None else relation,
        tolerance=within_deg if within_deg is not None else within,
        accepted_share=share,
        frames=frames,
        stretch_frames=stretch_frames,
        steps=steps,
        pairs=tuple(pairs or ()),
        online=online,
        scenarios=scenarios,
        seconds=seconds,
        referee=referee,
        seed=seed,
        device=device,
    )
    folder = out or next_free(Path("runs"), f"limits-{Path(settings.subject).stem}")
    run_campaign(settings, folder, json, workers)
    for suffix in _SUFFIXES:
        _write(folder, folder / f"{_STATEMENT}{suffix}")
    (tell if json else say)(f"statement of the operational design domain: {folder / _STATEMENT}.md, .json and .html")


def odd(
    run: RunPath,
    out: Annotated[Path | None, typer.Option(help="A .md, .json or .html file; RUN/odd.md by default.")] = None,
) -> None:
    """Write the limits of a run as a statement of the operational design domain (ISO 34503, PAS 1883)."""
    path = out or run / f"{_STATEMENT}.md"
    _write(run, path)
    say(f"statement: {path}")


def _write(run: Path, path: Path) -> None:
    from skidpad.kinds.limits.odd import statement
    from skidpad.page.writing import write_text_whole

    if path.suffix not in _SUFFIXES:
        raise SkidpadError(f"a statement is written as {', '.join(_SUFFIXES)}; got {str(path)!r}")
    opened, campaign = open_with_campaign(run, seen=True)
    write_text_whole(path, statement(campaign, opened, path.suffix))
    opened.publish(path)


DEMO_FRAMES = 40
"""Of every tenth frame of a drive; with 330 mutants a frame, about half a minute on two cores."""

DEMO_WITHIN_DEG = 20.0
"""DeepRoad's second bound, far enough that a person sees it: ten degrees of a steering wheel are hard to tell on a straight road."""

DEMO_CONDITIONS = ("fog", "rain", "dusk", "low-sun", "exposure", "motion-blur", "lens-dirt", "wiper", "camera-pitch", "camera-yaw")
"""What the limits are looked for of: weather, light, exposure, glass and mounting."""


def demo(
    out: Out = None,
    frames: Annotated[int, typer.Option(help="How many frames to render and test.")] = DEMO_FRAMES,
    seed: Seed = 0,
    workers: Workers = "",
) -> None:
    """Test the bundled network on a rendered drive: findings, its limits, reports; no download, no GPU."""
    from skidpad.kinds.limits.campaign import LimitsSettings
    from skidpad.kinds.pictures.settings import DeepTestSettings
    from skidpad.subjects.description import pretrained

    drive = f"rendered?frames={10 * frames}&seed={1000 + seed}&wander_m=0&step=10"
    subject = pretrained("pilotnet-rendered")
    say(f"subject: PilotNet, trained on other rendered roads ({subject.name})")
    say(f"drive:   {frames} frames of a road it has never seen ({drive})")
    folder = out or next_free(Path("runs"), "demo")
    # its error on the originals is half a degree, so five times its square (Eq. 2) would call everything a fault
    settings = DeepTestSettings(
        subject=str(subject),
        drive=drive,
        searches=("grid", "greedy"),
        relation="steers-right",
        tolerance=DEMO_WITHIN_DEG,
        seeds=10,
        seed=seed,
    )
    run_campaign(settings, folder, json=False, workers=workers)
    say("")
    say("limits: how far it holds")
    limits = LimitsSettings(subject=str(subject), drive=drive, conditions=DEMO_CONDITIONS, relation="steers-right", seed=seed)
    run_campaign(limits, folder.with_name(f"{folder.name}-limits"), json=False, workers=workers)
