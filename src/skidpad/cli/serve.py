"""skidpad serve: be the simulator that somebody's program was written for."""

from pathlib import Path
from typing import Annotated

import typer

from skidpad.cli.drive import Domain, Out, Repeats, Roads, ScenarioFiles, Scenarios, Seconds, Seed, Stimuli
from skidpad.cli.runs import Json, may_trust, next_free, run_campaign
from skidpad.page.terminal import tell

COMPETITION = "sdc-competition"


def add_to(app: typer.Typer) -> None:
    """Adds the command to the application."""
    app.command()(may_trust(serve))


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
