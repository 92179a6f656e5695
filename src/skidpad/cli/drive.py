"""skidpad drive: a network at the wheel, through scenarios in a closed loop."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

import typer

from skidpad.cli.runs import RefereeOption, Workers, check_estimate, next_free, run_campaign
from skidpad.cli.subjects import Device, Json
from skidpad.cli.trust import may_trust
from skidpad.page.terminal import warn

SECONDS = 20.0

Domain = Annotated[str, typer.Option(help="The domain model that scenarios are drawn from: restricted or extended.")]
Scenarios = Annotated[int, typer.Option(help="How many scenarios to draw.")]
ScenarioFiles = Annotated[
    list[Path] | None,
    typer.Option("--scenario", help="A scenario file (.toml, .json, .xosc), or a folder of them, instead of drawn ones; may be repeated."),
]
Stimuli = Annotated[
    list[str] | None,
    typer.Option(
        "--stimulus",
        help="What sits in front of the camera: original, fog, fog+blur, brightness(shift=40), weather:demo-rain, module:MyStimulus; "
        "several with commas, or given again.",
    ),
]
Repeats = Annotated[int, typer.Option(help="How often to repeat each drive; if verdicts differ, it is FLAKY.")]
Seconds = Annotated[float | None, typer.Option(help=f"Length of each drive in seconds; default {SECONDS:g}, or what a scenario file says.")]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers.")]
Out = Annotated[Path | None, typer.Option(help="Folder of the run; by default the next free one under runs/.")]


@dataclass(frozen=True)
class Roads:
    """What is driven, however it is steered: the words of the command line as the settings of a campaign have them."""

    files: tuple[str, ...]
    stimuli: tuple[str, ...]
    seconds: float

    @classmethod
    def of(cls, scenario: Sequence[Path] | None, stimulus: Sequence[str] | None, seconds: float | None) -> Self:
        """Checks the stimuli and prints the warnings about scenario files, which are driven all the same."""
        from skidpad.stimuli.grammar import allow_typed, split_texts

        stimuli = split_texts(stimulus or ())
        allow_typed(stimuli)
        for path in scenario or ():
            from skidpad.worlds.scenario.files import read_scenarios

            for text in read_scenarios(path).warnings:
                warn(text)
        length = (0.0 if scenario else SECONDS) if seconds is None else seconds
        return cls(tuple(str(path.absolute()) for path in scenario or ()), stimuli, length)


def add_to(app: typer.Typer) -> None:
    """Adds the command to the application."""
    app.command()(may_trust(drive))


def drive(
    context: typer.Context,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="A description, e.g. model.toml, or `demo` for the bundled network.")],
    world: Annotated[str, typer.Option(help="Where to drive: built-in, or an adapter's name.")] = "built-in",
    domain: Domain = "restricted",
    scenarios: Scenarios = 50,
    scenario: ScenarioFiles = None,
    stimulus: Stimuli = None,
    search: Annotated[
        str,
        typer.Option(help="Comma-separated: random, es, map-elites, surrogate, cma-es, cma-me; each tries --scenarios of its own."),
    ] = "",
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Estimate how likely a failure is in the domain, with an interval; see --budget.")
    ] = False,
    method: Annotated[
        str, typer.Option(help="How to estimate: auto (chooses after a pilot, and says which), monte-carlo, importance, splitting.")
    ] = "auto",
    stop_below: Annotated[float, typer.Option(help="Stop an estimate once its upper bound is below this, as 1e-3.")] = 0.0,
    within: Annotated[
        float, typer.Option(help="Stop when the interval is within this share of the estimate; 0: use the whole budget.")
    ] = 0.3,
    budget: Annotated[int, typer.Option(help="Largest number of drives for an estimate.")] = 1000,
    repeats: Repeats = 1,
    seconds: Seconds = None,
    width: Annotated[
        int,
        typer.Option(help="Scenarios to drive side by side; 0: 16, on a GPU 128, with --search 8. A search learns after each such group."),
    ] = 0,
    referee: RefereeOption = "on",
    seed: Seed = 0,
    device: Device = "cpu",
    workers: Workers = "",
    out: Out = None,
    json: Json = False,
) -> None:
    """Let a network steer through scenarios and measure how far it strays from its lane (online testing)."""
    from skidpad.kinds.drives.settings import OnlineSettings
    from skidpad.search.vectors import VECTOR_SEARCHES
    from skidpad.subjects.pretrained import subject_path
    from skidpad.worlds.world import WORLDS

    check_estimate(context, estimate=estimate, budget=budget)
    searches = tuple(part.strip() for part in search.split(",") if part.strip())
    WORLDS.allow([world])
    VECTOR_SEARCHES.allow(searches)
    roads = Roads.of(scenario, stimulus, seconds)
    settings = OnlineSettings(
        subject=str(subject_path(subject)),
        world=world,
        domain=domain,
        scenarios=budget if estimate else scenarios,
        files=roads.files,
        stimuli=roads.stimuli,
        searches=searches,
        estimate=method if estimate else "",
        stop_below=stop_below,
        within=within,
        repeats=repeats,
        seconds=roads.seconds,
        width=width,
        referee=referee,
        seed=seed,
        device=device,
    )
    warn_of_rendering(device, world)
    run_campaign(settings, out or next_free(Path("runs"), f"drive-{Path(settings.subject).stem}"), json, workers)


def warn_of_rendering(device: str, world: str) -> None:
    """Says so where a GPU was asked for and the CPU renders."""
    if device == "cpu":
        return
    from skidpad.worlds.builtin import rendering_warning

    text = rendering_warning(device, world)
    if text:
        warn(text)
