"""skidpad replicate: a paper's figures, ours, and the gap."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skidpad.cli.runs import Device, Json, Seed, may_trust, names_of
from skidpad.page.terminal import OUT, print_json, progress_bar, say, table, tell

if TYPE_CHECKING:
    from skidpad.papers.scoreboard import Replication, Sheet

WIDE = 150
"""From so many columns on the terminal shows the notes and the tables behind the scoreboard."""


def add_to(app: typer.Typer) -> None:
    """Adds the group of commands, one a paper, to the application."""
    papers = typer.Typer(no_args_is_help=True, help="Repeat a paper's experiments, and show its figures next to ours.")
    for command in (deeptest, duel):
        papers.command()(may_trust(command))
    papers.command(name="offline-online")(may_trust(offline_online))
    papers.command()(may_trust(deeproad))
    papers.command()(may_trust(tactic))
    app.add_typer(papers, name="replicate")


def deeptest(
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="A description, e.g. model.toml.")],
    drive: Annotated[str, typer.Argument(metavar="DRIVE", help="A drive with labels that the network was not trained on.")],
    out: Annotated[Path, typer.Option(help="Folder of the runs, deeptest.json and deeptest.md; continues where it was stopped.")],
    train_drive: Annotated[str, typer.Option(help="The drive the network was trained on, for RQ5.")] = "",
    images: Annotated[int, typer.Option(help="At most this many evenly spaced frames for RQ2, RQ4 and RQ5.")] = 1000,
    seeds: Annotated[int, typer.Option(help="At most this many evenly spaced seed frames for RQ3.")] = 100,
    max_mutants: Annotated[int, typer.Option(help="RQ5 trains and tests on at most this many mutants, drawn at random.")] = 6000,
    epochs: Annotated[int | None, typer.Option(help="Epochs of RQ5's retraining; 10 by default.")] = None,
    control: Annotated[bool, typer.Option(help="RQ5 also retrains a second network for as many steps without the mutants.")] = True,
    seed: Seed = 0,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Answer DeepTest's five research questions on a network and a drive."""
    from skidpad.drives import open_drive
    from skidpad.papers.deeptest.paper import MODEL
    from skidpad.papers.deeptest.replication import replicate
    from skidpad.papers.deeptest.retraining import ReplicationSettings
    from skidpad.papers.scoreboard import named
    from skidpad.subjects.description import subject_path

    settings = ReplicationSettings(
        subject=str(subject_path(subject)),
        drive=open_drive(drive).origin,
        train_drive=open_drive(train_drive).origin if train_drive else "",
        images=images,
        seeds=seeds,
        max_mutants=max_mutants,
        epochs=epochs,
        control=control,
        seed=seed,
        device=device,
    )
    tell(f"runs: {out}")
    with progress_bar("replicating", "what is done is kept; go on with the same command") as progress:
        answer = replicate(settings, out, lambda name: named(progress, name))
    _show(
        answer,
        MODEL,
        f"written: {out / 'deeptest.json'} and {out / 'deeptest.md'}, with notes, all tables and the traps in the paper's figures",
        json=json,
    )


def duel(
    out: Annotated[Path, typer.Option(help="Folder of the run, duel.json, duel.md and report.html; continues where it was stopped.")],
    trainings: Annotated[int, typer.Option(help="Trainings of egos, of adversaries for each reward, and of repairs.")] = 10,
    train_episodes: Annotated[int, typer.Option(help="Episodes of a training.")] = 2000,
    tests: Annotated[int, typer.Option(help="Tests of every policy.")] = 10,
    test_episodes: Annotated[int, typer.Option(help="Episodes of a test.")] = 2000,
    rounds: Annotated[
        int, typer.Option(help="Also repair the ego against everybody, in so many rounds, to compare with the paper's repair.")
    ] = 0,
    quick: Annotated[bool, typer.Option(help="Two trainings of 300 episodes, three tests of 200: to see how it works.")] = False,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Make Table I of adversarial testing with reinforcement learning, for every reward, with figures that the paper leaves out."""
    from skidpad.papers.duel.replication import DuelReplicationSettings, replicate
    from skidpad.papers.duel.tables import PAPER

    small = DuelReplicationSettings(
        trainings=2, train_episodes=300, tests=3, test_episodes=200, cross_episodes=100, search_episodes=5, rounds=rounds, seed=seed
    )
    settings = DuelReplicationSettings(
        trainings=trainings,
        train_episodes=train_episodes,
        tests=tests,
        test_episodes=test_episodes,
        cross_episodes=min(test_episodes, 1000),
        search_episodes=min(test_episodes, 20),
        rounds=rounds,
        seed=seed,
    )
    tell(f"run: {out / 'run'}")
    with progress_bar("replicating", "what is done is kept; go on with the same command") as progress:
        answer = replicate(small if quick else settings, out, progress)
    _show(answer, PAPER, f"written: {out / 'duel.json'}, {out / 'duel.md'} and {out / 'report.html'}", json=json)


def offline_online(
    subjects: Annotated[
        list[str], typer.Argument(metavar="SUBJECT...", help="Descriptions, e.g. model.toml, or `demo` for the bundled network.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the runs, offline-online.json and .md; continues where it was stopped.")],
    drive: Annotated[str, typer.Option(help="A recorded drive with labels, to compare simulated drives with (RQ0).")] = "",
    scenarios: Annotated[int, typer.Option(help="Scenarios to test both offline and online (RQ1).")] = 50,
    matched: Annotated[int, typer.Option(help="Restricted scenarios to match with the recorded drive.")] = 100,
    seconds: Annotated[float, typer.Option(help="How long each drive lasts.")] = 20.0,
    unit: Annotated[str, typer.Option(help="Unit of errors: rad, the numbers in Udacity's file; or scaled25, degrees / 25.")] = "rad",
    seed: Seed = 0,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Answer RQ0 and RQ1 of the comparison of offline and online testing, for each subject given."""
    from skidpad.drives import open_drive
    from skidpad.kinds.drives.compare.campaign import OfflineVsOnlineSettings
    from skidpad.papers.offline_online import PAPER, replicate
    from skidpad.subjects.description import subject_path

    settings = OfflineVsOnlineSettings(
        subject="",
        drive=open_drive(drive).origin if drive else "",
        scenarios=scenarios,
        matched=matched,
        seconds=seconds,
        unit=unit,
        seed=seed,
        device=device,
    )
    tell(f"runs: {out}")
    with progress_bar("replicating", "what is done is kept; go on with the same command") as progress:
        answer = replicate([str(subject_path(subject)) for subject in subjects], settings, out, progress)
    _show(
        answer, PAPER, f"written: {out / 'offline-online.json'} and {out / 'offline-online.md'}; a report lies beside each run", json=json
    )


def deeproad(
    subjects: Annotated[list[str], typer.Argument(metavar="SUBJECT...", help="Descriptions, e.g. model.toml, or `demo`.")],
    drive: Annotated[str, typer.Option(help="The drive to translate, as Udacity CH2's test drive.")],
    weather: Annotated[
        list[str], typer.Option(help="A weather that `skidpad weather train` wrote, or a bundled one (rain, night, dusk); may be repeated.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the runs, deeproad.json and .md; continues where it was stopped, and grows.")],
    frames: Annotated[int, typer.Option(help="At most this many frames, every second, third and so on; 0 is all.")] = 0,
    thresholds: Annotated[str, typer.Option(help="Error bounds in degrees, ascending.")] = "10,20,30,40",
    style: Annotated[str, typer.Option(help="Style of MUNIT weathers: mean, real or random.")] = "mean",
    seed: Seed = 0,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Make DeepRoad's Table 2: inconsistent behaviours of every subject under every weather, next to the paper's."""
    from skidpad.cli.weather import degrees_of
    from skidpad.drives import open_drive
    from skidpad.kinds.pictures.weather.campaign import DeepRoadSettings
    from skidpad.papers.deeproad.paper import PAPER
    from skidpad.papers.deeproad.replication import replicate
    from skidpad.stimuli.weather.pretrained import weather_path
    from skidpad.subjects.description import subject_path

    settings = DeepRoadSettings(
        subject="",
        drive=open_drive(drive).origin or drive,
        weathers=tuple(str(weather_path(file).absolute()) for file in weather),
        thresholds_deg=degrees_of(thresholds),
        style=style,
        seed=seed,
        device=device,
    )
    tell(f"runs: {out}")
    with progress_bar("replicating", "what is done is kept; go on with the same command") as progress:
        answer = replicate([str(subject_path(subject)) for subject in subjects], settings, out, frames, progress)
    _show(
        answer,
        PAPER,
        f"written: {out / 'deeproad.json'} and {out / 'deeproad.md'}; a report lies beside each run",
        json=json,
        narrow=(answer.brief(),),
    )


def tactic(
    subjects: Annotated[list[str], typer.Argument(metavar="SUBJECT...", help="Descriptions, e.g. model.toml, or `demo`.")],
    drive: Annotated[str, typer.Option(help="The drive to translate, as Udacity CH2's test drive.")],
    weather: Annotated[
        list[str],
        typer.Option(
            help="A weather that `skidpad weather train --method munit` wrote, or a bundled one (rain, night, dusk); may be repeated."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the runs, tactic.json and .md; continues where it was stopped, and grows.")],
    criterion: Annotated[list[str] | None, typer.Option(help="What guides: nbc, kmnc; may be repeated. nbc by default.")] = None,
    search: Annotated[
        str, typer.Option(help="Comma-separated searches.", show_default="es, random-styles, random-search")
    ] = "es,random-styles,random-search",
    repeats: Annotated[int, typer.Option(help="How often each search is made; a larger number goes on with the same runs.")] = 10,
    frames: Annotated[int, typer.Option(help="Scenes, evenly spaced over the drive; 0 is all.")] = 0,
    conditions: Annotated[int, typer.Option(help="Conditions to find, one after the other.")] = 4,
    patience: Annotated[int, typer.Option(help="Tries without anything better that end a search.")] = 100,
    racing: Annotated[bool, typer.Option(help="Drop tries that can hardly win before they have seen all scenes.")] = True,
    profile_drive: Annotated[str, typer.Option(help="Training drive for the bounds of the neurons; the drive itself by default.")] = "",
    minutes: Annotated[float, typer.Option(help="Stop after so many minutes, with tables of what is finished; 0 is never.")] = 0.0,
    seed: Seed = 0,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Make TACTIC's Tables 5 to 16: critical conditions of every subject under every weather, with p and A12, next to the paper's."""
    from skidpad.cli.weather import weather_file
    from skidpad.drives import open_drive
    from skidpad.kinds.pictures.styles.campaign import TacticSettings
    from skidpad.papers.tactic.paper import PAPER
    from skidpad.papers.tactic.replication import replicate
    from skidpad.subjects.description import subject_path

    settings = TacticSettings(
        subject="",
        drive=open_drive(drive).origin or drive,
        weather="",
        conditions=conditions,
        frames=frames,
        searches=names_of(search),
        repeats=repeats,
        patience=patience,
        racing=racing,
        profile_drive=profile_drive and open_drive(profile_drive).origin,
        seed=seed,
        device=device,
    )
    tell(f"runs: {out}")
    files = [str(subject_path(subject)) for subject in subjects], [weather_file(text) for text in weather], criterion or ["nbc"]
    with progress_bar("replicating", "what is done is kept; go on with the same command") as progress:
        answer = replicate(*files, settings, out, minutes, progress)
    _show(answer, PAPER, f"written: {out / 'tactic.json'} and {out / 'tactic.md'}; a report lies beside each run", json=json)


def _show(answer: "Replication", paper: str, written: str, *, json: bool, narrow: "Sequence[Sheet]" = ()) -> None:
    """Prints a replication; a narrow terminal gets the scoreboard in brief, and what `narrow` adds."""
    from skidpad.papers.scoreboard import brief_sheet

    if json:
        print_json(answer.payload())
        return
    for fact in answer.facts():
        say(fact)
    for sheet in answer.sheets() if OUT.width >= WIDE else (brief_sheet("Scoreboard", paper, answer.rows()), *narrow):
        table(sheet.title, sheet.columns, sheet.rows)
        if sheet.note:
            say(sheet.note)
    say(written)
