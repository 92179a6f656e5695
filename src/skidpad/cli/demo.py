"""skidpad demo: conditions, findings and limits of the bundled network in the built-in world."""

from pathlib import Path
from typing import Annotated

import typer

from skidpad.cli.runs import Workers, next_free, run_campaign
from skidpad.page.terminal import say

FRAMES = 40
"""Of every tenth frame of a drive; with 330 mutants a frame, about half a minute on two cores."""

WITHIN_DEG = 20.0
"""DeepRoad's second bound, far enough that a person sees it: ten degrees of a steering wheel are hard to tell on a straight road."""

CONDITIONS = ("fog", "rain", "dusk", "low-sun", "exposure", "motion-blur", "lens-dirt", "wiper", "camera-pitch", "camera-yaw")
"""What the limits are looked for of: weather, light, exposure, glass and mounting."""


def add_to(app: typer.Typer) -> None:
    """Adds the command to the application."""
    app.command()(demo)


def demo(
    out: Annotated[Path | None, typer.Option(help="Folder of the run; by default the next free one under runs/.")] = None,
    frames: Annotated[int, typer.Option(help="How many frames to render and test.")] = FRAMES,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    workers: Workers = "",
) -> None:
    """Test the bundled network on a rendered drive: findings, its limits, reports; no download, no GPU."""
    from skidpad.kinds.limits.settings import LimitsSettings
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
        tolerance=WITHIN_DEG,
        seeds=10,
        seed=seed,
    )
    run_campaign(settings, folder, json=False, workers=workers)
    say("")
    say("limits: how far it holds")
    limits = LimitsSettings(subject=str(subject), drive=drive, conditions=CONDITIONS, relation="steers-right", seed=seed)
    run_campaign(limits, folder.with_name(f"{folder.name}-limits"), json=False, workers=workers)
