"""skidpad drive, compare and serve: a network at the wheel in a closed loop, the same scenarios offline, and programs that drive."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

import typer

from skidpad.cli.runs import (
    Device,
    Json,
    Out,
    RefereeOption,
    Seed,
    Subject,
    Workers,
    check_estimate,
    may_trust,
    names_of,
    next_free,
    run_campaign,
)
from skidpad.page.terminal import tell, warn

SECONDS = 20.0
COMPETITION = "sdc-competition"

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
        help="Stimulus in front of the camera: original, fog, fog+blur, brightness(shift=40), weather:rain, module:MyStimulus; "
        "several with commas, or given again.",
    ),
]
Repeats = Annotated[int, typer.Option(help="How often to repeat each drive; if verdicts differ, it is FLAKY.")]
Seconds = Annotated[float | None, typer.Option(help=f"Length of each drive in seconds; default {SECONDS:g}, or what a scenario file says.")]


@dataclass(frozen=True)
class Roads:
    """What is driven, however it is steered: the words of the command line as the settings of a campaign have them."""

    files: tuple[str, ...]
    stimuli: tuple[str, ...]
    seconds: float

    @classmethod
    def of(cls, scenario: Sequence[Path] | None, stimulus: Sequence[str] | None, seconds: float | None) -> Self:
        """Checks the stimuli and prints the warnings about scenario files, which are driven all the same."""
        from skidpad.stimuli.registry import allow_typed, split_texts

        stimuli = split_texts(stimulus or ())
        allow_typed(stimuli)
        for path in scenario or ():
            from skidpad.worlds.scenario.files import read_scenarios

            for text in read_scenarios(path).warnings:
                warn(text)
        length = (0.0 if scenario else SECONDS) if seconds is None else seconds
        return cls(tuple(str(path.absolute()) for path in scenario or ()), stimuli, length)


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the application."""
    app.command()(may_trust(drive))
    app.command()(may_trust(compare))
    app.command()(may_trust(serve))


def drive(
    context: typer.Context,
    subject: Subject,
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
    from skidpad.kinds.drives.campaign import OnlineSettings
    from skidpad.search.protocol import SEARCHES
    from skidpad.subjects.description import subject_path
    from skidpad.worlds.world import WORLDS

    check_estimate(context, estimate=estimate, budget=budget)
    searches = names_of(search)
    WORLDS.allow([world])
    SEARCHES.allow(searches)
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


def compare(
    subject: Subject,
    drive: Annotated[
        str, typer.Option(help="A recorded drive with labels, to compare simulated drives with (RQ0); without it that is left out.")
    ] = "",
    world: Annotated[str, typer.Option(help="Where to drive: built-in, or an adapter's name.")] = "built-in",
    domain: Annotated[str, typer.Option(help="The domain model that scenarios are drawn from: extended or restricted.")] = "extended",
    scenarios: Annotated[int, typer.Option(help="Scenarios to test both offline and online (RQ1); the paper has 50.")] = 50,
    matched: Annotated[int, typer.Option(help="Simulated scenarios to match with --drive (RQ0); the paper has 100.")] = 100,
    stimulus: Annotated[str, typer.Option(help="Stimulus in front of the camera, offline and online: fog, weather:rain, ...")] = "original",
    seconds: Annotated[float, typer.Option(help="How long each drive lasts.")] = SECONDS,
    unit: Annotated[
        str,
        typer.Option(help="Unit of epsilon and MAE: rad, the numbers in Udacity's file; scaled25, degrees / 25, as the paper reads them."),
    ] = "rad",
    epsilon: Annotated[float, typer.Option(help="Largest mean difference in steering of two comparable drives.")] = 0.1,
    mae_limit: Annotated[float, typer.Option(help="A scenario is acceptable offline if its MAE is below this.")] = 0.1,
    mdcl_limit: Annotated[
        float,
        typer.Option(
            help="A scenario is acceptable online if the maximum distance from the lane's centre (MDCL, 1 is 1.5 m) is below this."
        ),
    ] = 0.7,
    width: Annotated[int, typer.Option(help="Scenarios to drive side by side; changes only the speed. 0: 16, on a GPU 128.")] = 0,
    referee: RefereeOption = "on",
    seed: Seed = 0,
    device: Device = "cpu",
    workers: Workers = "",
    out: Out = None,
    json: Json = False,
) -> None:
    """Test a network offline and online on the same scenarios: do the two agree, and how often is offline testing wrong?"""
    from skidpad.drives import open_drive
    from skidpad.kinds.drives.compare.campaign import OfflineVsOnlineSettings
    from skidpad.stimuli.registry import allow_typed
    from skidpad.subjects.description import subject_path
    from skidpad.worlds.world import WORLDS

    allow_typed([stimulus])
    WORLDS.allow([world])
    settings = OfflineVsOnlineSettings(
        subject=str(subject_path(subject)),
        drive=open_drive(drive).origin if drive else "",
        world=world,
        domain=domain,
        scenarios=scenarios,
        matched=matched,
        stimulus=stimulus,
        seconds=seconds,
        unit=unit,
        epsilon=epsilon,
        mae_limit=mae_limit,
        mdcl_limit=mdcl_limit,
        width=width,
        referee=referee,
        seed=seed,
        device=device,
    )
    warn_of_rendering(device, world)
    run_campaign(settings, out or next_free(Path("runs"), f"compare-{Path(settings.subject).stem}"), json, workers)


def serve(
    simulator: Annotated[
        str, typer.Option("--as", metavar="udacity|donkey|sdc-competition", help="Simulator or competition tool to act as.")
    ],
    port: Annotated[int, typer.Option(help="Port of the connection with the client; 0 is the usual one: 4567, 9091 or 4545.")] = 0,
    host: Annotated[str, typer.Option(help="Address of the connection. By default only programs on this machine take part.")] = "127.0.0.1",
    connect: Annotated[bool, typer.Option(help="Donkey: connect to a client that listens, as gym-donkeycar 1.0 from PyPI does.")] = False,
    name: Annotated[str, typer.Option(help="What the report calls the client.")] = "",
    domain: Domain = "restricted",
    scenarios: Scenarios = 10,
    scenario: ScenarioFiles = None,
    stimulus: Stimuli = None,
    repeats: Repeats = 1,
    seconds: Seconds = None,
    timeout: Annotated[float, typer.Option(help="Seconds that the client may take to answer a frame.")] = 15.0,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the client.")] = 300.0,
    realtime: Annotated[
        bool, typer.Option(help="At most 20 frames a second, for clients that drive by the clock, as donkeycar does.")
    ] = False,
    seed: Seed = 0,
    out: Out = None,
    json: Json = False,
) -> None:
    """Act as the Udacity or Donkey simulator for an unmodified client and judge how it drives, or as a tool of the SDC competition."""
    from skidpad.core.errors import SkidpadError, UnknownNameError
    from skidpad.kinds.drives.served.campaign import ServedSettings
    from skidpad.worlds.serve.simulators import SIMULATORS

    if simulator == COMPETITION:
        _prioritise(host, port)
        return
    if simulator not in SIMULATORS:
        raise UnknownNameError.among("simulator", simulator, SIMULATORS)
    if connect and simulator != "donkey":
        raise SkidpadError("--connect is for Donkey clients; a drive.py is always connected to")
    roads = Roads.of(scenario, stimulus, seconds)
    settings = ServedSettings(
        simulator=simulator,
        name=name,
        host=host,
        port=port,
        connects=connect,
        domain=domain,
        scenarios=scenarios,
        files=roads.files,
        stimuli=roads.stimuli,
        repeats=repeats,
        seconds=roads.seconds,
        timeout_s=timeout,
        wait_s=wait,
        realtime=realtime,
        seed=seed,
    )
    played = SIMULATORS[simulator]
    where = f"{host}:{port or played.port}"
    if simulator == "udacity" or connect:
        tell(f"Playing the {simulator} simulator for {played.client} at {where}; start it now, or once the run has begun.")
    else:
        tell(f"Playing the {simulator} simulator at {where}; start {played.client} once the run has begun.")
    run_campaign(settings, out or next_free(Path("runs"), f"serve-{simulator}"), json)


def _prioritise(host: str, port: int) -> None:
    """Orders tests for whoever asks, until it is interrupted."""
    from threading import Event

    from skidpad.kinds.competition import PORT, serving

    with serving(host, port or PORT) as bound:
        tell(f"Ordering tests of the self-driving-car test prioritisation competition at {host}:{bound}; end it with Ctrl-C.")
        Event().wait()
