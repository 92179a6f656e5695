"""skidpad demo: everything once, on the built-in world, with the network that comes along."""

from pathlib import Path
from typing import Annotated

import typer

from skidpad.cli.runs import Workers, next_free, run_campaign
from skidpad.page.terminal import say

FRAMES = 160
"""With 90 mutants a frame, about half a minute on two cores."""


def add_to(app: typer.Typer) -> None:
    """Adds the command to the application."""
    app.command()(demo)


def demo(
    out: Annotated[Path | None, typer.Option(help="Folder of the run; by default the next free one under runs/.")] = None,
    frames: Annotated[int, typer.Option(help="How many frames to render and test.")] = FRAMES,
    seed: Annotated[int, typer.Option(help="Root of all randomness.")] = 0,
    workers: Workers = "",
) -> None:
    """Test the network that comes with skidpad on a rendered drive: findings, coverage, a report; no download, no GPU."""
    from skidpad.kinds.pictures.judging import WITHIN_DEG
    from skidpad.kinds.pictures.settings import DeepTestSettings
    from skidpad.subjects.pretrained import pretrained

    drive = f"rendered?frames={frames}&seed={1000 + seed}"
    subject = pretrained("pilotnet-rendered")
    say(f"subject: PilotNet, trained on other rendered roads ({subject.name})")
    say(f"drive:   {frames} frames of a road it has never seen ({drive})")
    # its error on the originals is half a degree, so five times its square (Eq. 2) would call everything a fault
    settings = DeepTestSettings(
        subject=str(subject),
        drive=drive,
        searches=("grid", "greedy"),
        relation="steers-alike",
        tolerance=WITHIN_DEG,
        seeds=10,
        seed=seed,
    )
    run_campaign(settings, out or next_free(Path("runs"), "demo"), json=False, workers=workers)
