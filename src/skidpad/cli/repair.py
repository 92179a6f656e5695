"""skidpad repair: find the repair that helps most at the least cost, or retrain as DeepTest does."""

import json as json_module
from contextlib import contextmanager
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skidpad.cli.runs import Device, Json, Seed, may_trust, names_of, refuse_options_of
from skidpad.cli.training import Half, Threads
from skidpad.core.errors import BadParametersError, UnknownNameError
from skidpad.page.terminal import ERR, print_json, progress_bar, progress_lines, say, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from skidpad.core.progress import Progress
    from skidpad.page.model import Table
    from skidpad.repairs.outcome import Finished
    from skidpad.repairs.report import RepairReport
    from skidpad.runs.folder import Run

PAPER, SEARCH, DRIVES = "deeptest", "search", "online"
_OF_PAPER = ("transforms", "share", "split", "max_mutants", "from_scratch", "control")
_OF_DRIVES = ("rounds", "scenarios", "validation_scenarios", "judged_scenarios")
_OF_PICTURES = (
    *("source", "hold", "families", "unseen", "weathers", "train_weathers", "ways", "strengths", "train_share", "pictures"),
    *("learning_rates", "mirror_choice", "judged_frames", "seeds", "closed_loop", "stimulus", "domain"),
)
_OF_SEARCH = (*_OF_PICTURES, "most_cost", *_OF_DRIVES)


def add_to(app: typer.Typer) -> None:
    """Adds the command to the application."""
    app.command()(may_trust(repair))


def repair(
    context: typer.Context,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="A description of a network of the zoo, as model.toml; or `demo`.")],
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run of `skidpad test`, `limits` or `drive`.")],
    out: Annotated[Path | None, typer.Option(help="A new folder: candidates, the recommended subject, figures and report.")] = None,
    source: Annotated[str, typer.Option("--from", help="limits: RUN is a run of `skidpad limits`, and --hold says what to reach.")] = "",
    hold: Annotated[str, typer.Option(help="The limit to reach, as fog.visibility_m=80; with a run of `skidpad limits`.")] = "",
    export: Annotated[
        Path | None, typer.Option(help="Write mutants and labels into this new folder instead, for your own training.")
    ] = None,
    families: Annotated[
        str, typer.Option(help="Conditions to train on, as fog,dusk; by default those that the run tried, `all` for every one.")
    ] = "",
    unseen: Annotated[
        str,
        typer.Option(
            help="Groups or conditions to keep out of training and judge the repair by; `none` trains on all.",
            show_default="atmosphere, lens, shadows",
        ),
    ] = "atmosphere,lens,shadows",
    weathers: Annotated[
        str, typer.Option(help="Learned weathers to judge the repair by, never trained on; `none` for none.")
    ] = "night,rain",
    train_weathers: Annotated[
        str, typer.Option(help="Learned weathers to train on beside the conditions, as dusk; `none` for none.")
    ] = "none",
    ways: Annotated[
        str, typer.Option(help="Which repairs to try: findings, random, consistency, mix, looks, answers.", show_default="all of them")
    ] = "findings,random,consistency,mix,looks,answers",
    strengths: Annotated[
        str, typer.Option(help="Mutants per clean picture in training; each of --ways is tried with each of these.")
    ] = "1,3",
    learning_rates: Annotated[
        str, typer.Option(help="Learning rates to try, as 1e-3,3e-4; every way and strength is trained with each.")
    ] = "",
    train_share: Annotated[
        float | None,
        typer.Option(help="Share of the drive, by time, to train and choose on; the rest judges. Default 0.6; --export: all of it."),
    ] = None,
    pictures: Annotated[
        int, typer.Option(help="About how many random mutants to render for training; --ways looks and answers add twice as many looks.")
    ] = 4000,
    judged_frames: Annotated[int, typer.Option(help="Frames to judge under each severity.")] = 12,
    mirror_choice: Annotated[
        bool, typer.Option("--mirror-choice", help="Where candidates are chosen, measure clean error and response on mirrored frames, too.")
    ] = False,
    most_cost: Annotated[float, typer.Option(help="Largest rise of the error on clean pictures, as a share.")] = 0.02,
    seeds: Annotated[int, typer.Option(help="How often to train the recommended repair and its control.")] = 3,
    closed_loop: Annotated[int, typer.Option(help="Scenarios to drive with the network, the control and the repaired one; 0: none.")] = 0,
    stimulus: Annotated[
        list[str] | None, typer.Option(help="Stimulus in front of the camera in further drives of --closed-loop; may be repeated.")
    ] = None,
    domain: Annotated[str, typer.Option(help="Which domain the scenarios of --closed-loop are drawn from.")] = "extended",
    rounds: Annotated[int, typer.Option(help="Run of `skidpad drive`: how often the network drives and is retrained.")] = 3,
    scenarios: Annotated[int, typer.Option(help="Run of `skidpad drive`: scenarios to drive and learn from in each round.")] = 64,
    validation_scenarios: Annotated[
        int, typer.Option("--validation", help="Run of `skidpad drive`: scenarios to choose among the rounds.")
    ] = 48,
    judged_scenarios: Annotated[int, typer.Option("--judged", help="Run of `skidpad drive`: scenarios to judge the chosen round by.")] = 96,
    referee: Annotated[str, typer.Option(help="on: leave out mutants that no longer show the same scene; off: count them.")] = "on",
    preset: Annotated[str, typer.Option(help="search, or deeptest: the paper's retraining, which takes the options below.")] = "search",
    epochs: Annotated[
        int | None,
        typer.Option(
            help="How often training passes over the pictures; default 12 (run of `skidpad drive`: 8; deeptest: 10, from scratch 30)."
        ),
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Learning rate of the training; default 3e-4 (run of `skidpad drive` and from scratch: 1e-3).")
    ] = None,
    mirror: Annotated[bool, typer.Option(help="Flip half of the pictures, and the sign of their labels.")] = True,
    train_drive: Annotated[
        str,
        typer.Option(
            help="deeptest: clean frames to train on beside the mutants; by default those that the mutants were made of. Run of `skidpad "
            "drive`: a drive with labels to train on beside the network's own drives; by default a rendered one."
        ),
    ] = "",
    transforms: Annotated[
        str,
        typer.Option(
            help="deeptest: comma-separated stimuli whose mutants, and those of their combinations, are used.",
            show_default="deeptest-fog, deeptest-rain",
        ),
    ] = "deeptest-fog,deeptest-rain",
    share: Annotated[float, typer.Option(help="deeptest: share of the frames whose mutants are trained on; the rest is held out.")] = 0.66,
    split: Annotated[str, typer.Option(help="deeptest: random (the paper's; flatters) or time (contiguous blocks held out).")] = "random",
    max_mutants: Annotated[int, typer.Option(help="deeptest: render at most this many mutants, drawn at random.")] = 6000,
    from_scratch: Annotated[bool, typer.Option(help="deeptest: start from fresh weights instead of the subject's.")] = False,
    control: Annotated[bool, typer.Option(help="deeptest: retrain a second network as long without the mutants.")] = True,
    seed: Seed = 0,
    device: Device = "cpu",
    threads: Threads = 1,
    half: Half = False,
    json: Json = False,
) -> None:
    """Repair a network: try several ways, choose on held-out frames, judge on frames and conditions that no training saw.

    From a run of `skidpad drive`, the network drives in rounds and learns what a careful driver would have done where it came.

    If it is interrupted, the same command continues and ends with the same network.
    """
    from skidpad.repairs.source import opened as opened_run

    if referee not in {"on", "off"}:
        raise UnknownNameError.among("setting of the referee", referee, ["on", "off"])
    if preset not in {PAPER, SEARCH}:
        raise UnknownNameError.among("preset", preset, [SEARCH, PAPER])
    opened = opened_run(run, subject)
    is_driven = opened.config.get("campaign") == DRIVES and preset != PAPER and export is None
    if preset == PAPER and export is None:
        refuse_options_of(context, f"--preset {SEARCH}", _OF_SEARCH)
    else:
        refuse_options_of(context, f"--preset {PAPER}", _OF_PAPER)
        refuse_options_of(context, "runs of `skidpad test` and `skidpad limits`", (*_OF_PICTURES, "referee") if is_driven else ())
        refuse_options_of(context, "runs of `skidpad drive`", () if is_driven else _OF_DRIVES)
        refuse_options_of(context, f"--preset {PAPER} and to runs of `skidpad drive`", () if is_driven else ("train_drive",))
    if export is not None:
        from skidpad.repairs.export import export_mutants

        with _progress("exporting", f"remove {export} and start again") as progress:
            written = export_mutants(
                opened,
                export,
                families=_families(families),
                held_back=_listed(unseen),
                weathers=_listed(train_weathers),
                pictures=pictures,
                train_share=1.0 if train_share is None else train_share,
                seed=seed,
                progress=progress,
            )
        say(written.said)
        return
    if out is None:
        raise BadParametersError("--out names the new folder of the repair; or --export one for mutants and labels")
    if preset == PAPER:
        _paper(
            subject,
            opened,
            out,
            {
                "transforms": _listed(transforms),
                "share": share,
                "split": split,
                "max_mutants": max_mutants,
                "from_scratch": from_scratch,
                "epochs": epochs,
                "learning_rate": learning_rate,
                "mirror": mirror,
                "control": control,
                "kept_alone": referee == "on",
                "seed": seed,
                "device": device,
                "threads": threads,
                "half": half,
            },
            train_drive,
            json=json,
        )
        return
    if is_driven:
        chosen: dict[str, Any] = {
            "rounds": rounds,
            "scenarios": scenarios,
            "validation_scenarios": validation_scenarios,
            "judged_scenarios": judged_scenarios,
            "most_cost": most_cost,
            "mirror": mirror,
            "seed": seed,
            "device": device,
            "threads": threads,
            "half": half,
            "train_drive": train_drive,
            "epochs": epochs,
            "learning_rate": learning_rate,
        }
        _from_drives(subject, opened, out, {name: value for name, value in chosen.items() if value is not None}, json=json)
        return
    from skidpad.repairs.outcome import written as write_outcome
    from skidpad.repairs.plan import SearchSettings
    from skidpad.repairs.retraining import check_trainable
    from skidpad.repairs.runs import ClosedLoop, repair_run
    from skidpad.subjects.description import subject_path
    from skidpad.subjects.loading import load_network

    if learning_rate is not None and learning_rates:
        raise BadParametersError("--learning-rates takes the place of --learning-rate; give one of the two")
    given = {"epochs": epochs, "learning_rate": learning_rate, "train_share": train_share}
    settings = SearchSettings(
        families=_families(families),
        unseen=_listed(unseen),
        weathers=_listed(weathers),
        train_weathers=_listed(train_weathers),
        ways=_listed(ways),
        strengths=_numbers("--strengths", strengths, "1,3"),
        learning_rates=_numbers("--learning-rates", learning_rates, "1e-3,3e-4"),
        mirror_choice=mirror_choice,
        pictures=pictures,
        judged_frames=judged_frames,
        most_cost=most_cost,
        seeds=seeds,
        referee=referee == "on",
        mirror=mirror,
        seed=seed,
        device=device,
        threads=threads,
        half=half,
        **{name: value for name, value in given.items() if value is not None},  # type: ignore[arg-type] # each of its field's type
    )
    network = load_network(subject_path(subject), device)
    check_trainable(network)
    loop = ClosedLoop.asked(closed_loop, tuple(stimulus or ()), domain)
    with _progress("repairing", "what is done is kept; go on with the same command") as progress:
        outcome = repair_run(network, opened, out, settings, hold=hold, source=source, loop=loop, progress=progress)
    write_outcome(outcome, out)
    from skidpad.repairs.page import chosen_tables, judged_table

    _print(outcome, (*chosen_tables(outcome), *((judged_table(outcome),) if outcome.rows else ())), out, json=json)


def _from_drives(subject: str, run: "Run", out: Path, given: "dict[str, Any]", *, json: bool) -> None:
    """Repairs from a run of `skidpad drive`, by driving."""
    from skidpad.repairs.driving.outcome import drive_and_repair
    from skidpad.repairs.driving.page import judged_table, round_table
    from skidpad.repairs.driving.plan import DrivingSettings, task_of
    from skidpad.repairs.outcome import written as write_outcome
    from skidpad.repairs.retraining import check_trainable
    from skidpad.subjects.description import subject_path
    from skidpad.subjects.loading import load_network

    settings = DrivingSettings(**given)
    network = load_network(subject_path(subject), settings.device)
    check_trainable(network)
    with _progress("repairing", "what is done is kept; go on with the same command") as progress:
        outcome = drive_and_repair(task_of(run, network), out, settings, progress)
    write_outcome(outcome, out)
    _print(outcome, (round_table(outcome), *((judged_table(outcome),) if outcome.halves else ())), out, json=json)


@contextmanager
def _progress(label: str, go_on: str) -> "Iterator[Progress]":
    """Shows a bar on a terminal, and lines where there is none, as in a file."""
    with progress_bar(label, go_on) as bar:
        yield bar if ERR.is_terminal else progress_lines()


def _print(outcome: "Finished", tables: "Sequence[Table]", out: Path, *, json: bool) -> None:
    if json:
        print_json(json_module.loads(outcome.to_json()))
        return
    for shown in tables:
        table(shown.title, shown.columns, shown.rows)
    for note in outcome.notes:
        say(f"note: {note}")
    say(outcome.verdict)
    if outcome.recommended:
        ready = " (not confirmed: do not ship it)" if outcome.doubts else ""
        say(f"network: {out / 'recommended.toml'}{ready}")
    say(f"report: {out / 'report.html'}")


def _listed(text: str) -> tuple[str, ...]:
    return () if text.strip() == "none" else names_of(text)


def _families(text: str) -> tuple[str, ...]:
    from skidpad.repairs.families import families

    return tuple(families()) if text.strip() == "all" else _listed(text)


def _numbers(option: str, text: str, example: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in names_of(text))
    except ValueError as error:
        raise BadParametersError(f"{option} takes numbers, as {example}; got {text!r}") from error


def _paper(subject: str, run: "Run", out: Path, given: "dict[str, Any]", train_drive: str, *, json: bool) -> None:
    """Retrains as the paper does (DeepTest, RQ5)."""
    from skidpad.drives import open_drive
    from skidpad.repairs.retraining import check_free, check_repairable
    from skidpad.repairs.retraining import repair as repair_subject
    from skidpad.repairs.settings import RepairSettings, Split
    from skidpad.stimuli.pictures import TRANSFORMS
    from skidpad.subjects.description import subject_path
    from skidpad.subjects.loading import load_network

    for name in given["transforms"]:
        TRANSFORMS.get(name)
    if given["split"] not in {one.value for one in Split}:
        raise UnknownNameError.among("split", given["split"], [one.value for one in Split])
    settings = RepairSettings(**{**given, "split": Split(given["split"])})
    settings.training()  # a wrong number ends the work before the rendering, not after it
    check_free(out)
    network = load_network(subject_path(subject), settings.device)
    check_repairable(network)
    drive = open_drive(train_drive) if train_drive else None
    with _progress("repairing", "whole epochs are kept; go on with the same command") as progress:
        report = repair_subject(network, run, out, settings, drive, progress)
    if json:
        print_json(json_module.loads(report.to_json()))
    else:
        print_repair(report)


def print_repair(report: "RepairReport") -> None:
    """Prints what was trained on, and the errors before, after and of the control."""
    base = (
        f"{report.training_frames} frames of {report.training_drive}" if report.training_drive else f"{report.training_originals} originals"
    )
    say(f"trained {report.epochs} epochs on {base} and {report.training_mutants} mutants")
    controlled, rows = report.settings.control, report.improvements
    table(  # two tables, so that numbers stay whole on 80 columns
        f"{report.subject}: MSE (rad^2), {report.held_out_frames} frames held out ({report.settings.split.value})",
        ("held out", "before", "after", "change", *(("control", "beyond control") if controlled else ())),
        [
            (
                row.pictures,
                row.mse_before_rad2,
                row.mse_after_rad2,
                _percent(row.mse_change),
                *((row.mse_control_rad2, _percent(row.mse_change_beyond_control)) if controlled else ()),
            )
            for row in rows
        ],
    )
    table(
        f"{report.subject}: RMSE (rad)",
        ("held out", "pictures", "before", "after", *(("control",) if controlled else ())),
        [
            (row.pictures, row.cases, row.rmse_before_rad, row.rmse_after_rad, *((row.rmse_control_rad,) if controlled else ()))
            for row in rows
        ],
    )
    for note in report.notes:
        say(f"note: {note}")
    say(f"new subject: {report.toml}")


def _percent(share: float) -> str:
    return "-" if isnan(share) else f"{100 * share:+.0f} %"
