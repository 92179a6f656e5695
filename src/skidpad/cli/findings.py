"""What is done with findings: replay, shrink, export, rules, rank, track, and the local page over a folder of runs."""

from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skidpad.cli.runs import Device, Finding, Json, RunPath, Subject, case_named, may_trust, open_with_campaign
from skidpad.core.errors import MissingExtraError, SkidpadError
from skidpad.page.terminal import print_json, progress_bar, say, table, warn

if TYPE_CHECKING:
    from skidpad.runs.replay import Replayed


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the application."""
    for command in (replay, shrink, export, rules, rank, track):
        app.command()(may_trust(command))
    app.command()(ui)


def replay(
    run: RunPath,
    finding: Finding,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the finding here: e.g. pair.png for pictures, film.svg for drives and duels.")
    ] = None,
    json: Json = False,
) -> None:
    """Compute a finding again and compare: identical, within a stated bound on another processor, or different (exit code 1)."""
    from skidpad.kinds.kind import kind_of

    opened, campaign = open_with_campaign(run)
    again: Replayed = kind_of(opened).part("replay", "replayed")(campaign, opened, case_named(opened, finding), picture)
    if json:
        print_json(again.to_json())
    else:
        table(again.title, ("", "in the run", "now"), again.rows)
        for line in (*again.remarks, *(f"changed since: {change}" for change in again.reproduction.changes), again.reproduction.said):
            say(line)
        if again.pictures:
            say("film strip: {}; moving: {}".format(*again.pictures) if len(again.pictures) > 1 else f"picture: {again.pictures[0]}")
    if not again.reproduction.is_reproduced:
        raise typer.Exit(1)


def shrink(
    run: RunPath,
    finding: Finding,
    out: Annotated[Path | None, typer.Option(help="Folder of the result; RUN/shrunk/FINDING by default.")] = None,
    json: Json = False,
) -> None:
    """Find the smallest stimulus that still fails: fewer steps, parameters nearer to where they change nothing, a shorter scenario."""
    from skidpad.kinds.shrinking import shrink_finding, shrunk_table, unchanged_words, write_shrunk
    from skidpad.oracles.error import scale_of_run, times_tolerated
    from skidpad.page.wording import counted

    opened, campaign = open_with_campaign(run)
    with progress_bar("shrinking") as progress:
        shrunk = shrink_finding(campaign, opened, case_named(opened, finding), progress)
    folder = out or opened.path / "shrunk" / shrunk.row["case_id"]
    files = write_shrunk(campaign, opened, shrunk, folder)
    if json:
        print_json({**shrunk_table(shrunk), "files": [str(path) for path in files]})
        return
    rows = [(change.name, change.before, change.after) for change in shrunk.changes]
    if rows:
        table(f"{shrunk.row['case_id']}, smaller", ("", "before", "after"), rows)
    else:
        say(f"{shrunk.row['case_id']} is as small as it gets: nothing can be left out, and no parameter be nearer to its identity")
    if shrunk.fails_unchanged:
        say(unchanged_words(shrunk))
    scale = scale_of_run(opened.config)
    both = (("before", shrunk.row["excess"]), ("after", shrunk.smallest["excess"]))
    words = [f"{times_tolerated(value, scale)} {when}" for when, value in both]
    took = f"{counted(shrunk.judged, 'stimulus', 'stimuli')} judged in {counted(shrunk.batches, 'batch', 'batches')}"
    say(f"{', '.join(words)}; {took}")
    say(f"written: {', '.join(str(path) for path in files)}")


def export(
    run: RunPath,
    finding: Finding,
    out: Annotated[Path, typer.Option(help="A new or empty folder.")],
    smallest: Annotated[bool, typer.Option("--smallest", help="Shrink the finding first and export its smallest case.")] = False,
    json: Json = False,
) -> None:
    """Write a finding as a bundle: frames, recipe, answers, hashes, versions, a film strip, and a ready pytest file."""
    from skidpad.kinds.bundles import export_finding
    from skidpad.kinds.shrinking import shrink_finding, unchanged_words

    opened, campaign = open_with_campaign(run)
    case = case_named(opened, finding)
    with progress_bar("exporting") as progress:
        shrunk = shrink_finding(campaign, opened, case, progress) if smallest else None
        bundle = export_finding(campaign, opened, case, out, shrunk)
    if json:
        print_json(
            {
                "case_id": bundle.case_id,
                "folder": str(bundle.folder),
                "title": bundle.evidence.title,
                "said": bundle.evidence.said,
                "test": None if bundle.test is None else str(bundle.test),
                "files": [str(path.relative_to(bundle.folder)) for path in bundle.files],
            }
        )
        return
    table(f"{bundle.case_id}: {bundle.evidence.title}", ("file", "what it is"), list(bundle.evidence.files.items()))
    say(f"{bundle.evidence.said[:1].upper()}{bundle.evidence.said[1:]}.")
    if shrunk is not None and shrunk.fails_unchanged:
        say(unchanged_words(shrunk))
    if bundle.test is not None:
        say(f"is the subject mended? pytest {bundle.test} --skidpad-subject mended.toml")
    say(f"bundle: {bundle.folder}")


def rules(run: RunPath, json: Json = False) -> None:
    """Say when a run's cases fail: rules learned on half of its scenarios, frames or episodes, and counted on the other half."""
    from skidpad.kinds.kind import kind_of
    from skidpad.kinds.ruling import how_learned, rules_figures
    from skidpad.page.wording import counted
    from skidpad.statistics.rules import learn_rules

    opened, campaign = open_with_campaign(run, seen=True)
    cases = kind_of(opened).part("traits", "explained by rules")(campaign, opened)
    if not len(cases.failed):
        raise SkidpadError(f"{opened.path} holds no case with a verdict, so there is nothing to learn; go on with `skidpad resume`")
    ruled = learn_rules(cases)
    if json:
        print_json({"run": opened.place, "cases": len(cases.failed), "failed": int(cases.failed.sum()), **rules_figures(ruled)})
        return
    failed = f"{int(cases.failed.sum())} of {counted(len(cases.failed), 'case')} failed"
    if ruled.is_starved:
        say(f"Too few cases to learn from: {failed}, and a rule is learned on some dozens of them; make a larger run.")
        return
    for rule in ruled.rules:
        say(str(rule))
    if not ruled.rules:
        say(f"No recorded property separates failing from passing cases: {failed}.")
    say(how_learned(ruled))


def rank(
    subject: Subject,
    tests: Annotated[str, typer.Argument(metavar="DRIVE|RUN", help="A drive, whose frames are ranked, or the folder of a `drive` run.")],
    by: Annotated[
        str,
        typer.Option(
            help="uncertainty (answers that waver), distance (unlike the others), coverage (new neurons), geometry (bends); scenarios also "
            "variety (unlike those before), road (its shape)."
        ),
    ] = "uncertainty",
    within_deg: Annotated[float, typer.Option(help="A frame fails where the answer is further than this from its label.")] = 10.0,
    first: Annotated[int, typer.Option(help="How many to list.")] = 10,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Order frames or scenarios so that failures come early; say how early (APFD), compared with a random and the ideal order."""
    from skidpad.drives import open_drive
    from skidpad.kinds.ranking import rank_frames, rank_scenarios
    from skidpad.runs.folder import Run
    from skidpad.subjects.description import subject_path
    from skidpad.subjects.loading import load_subject

    network = load_subject(subject_path(subject), device)
    is_run = (Path(tests) / "manifest.json").is_file()
    with progress_bar("ranking") as progress:
        if is_run:
            run = Run.open(Path(tests))
            if run.manifest.hashes.get("subject") != network.sha256:
                warn(
                    f"{tests} is a run of another subject than {subject}: its verdicts, and so the scores below, are not those of {subject}"
                )
            found = rank_scenarios(network, run, progress)
        else:
            found = rank_frames(network, open_drive(tests), within_deg, progress)
    if by not in found.orders:
        raise SkidpadError(f"no order named {by!r}; these can be made here: {', '.join(found.orders)}")
    failed = None if found.failed is None else int(found.failed.sum())
    names = [*found.orders, "ideal"]
    if json:
        print_json(
            {
                "tests": len(found.names),
                "failed": failed,
                "apfd": {name: found.apfd(name) for name in names} | {"random": 0.5},
                "by": by,
                "order": [found.names[place] for place in found.orders[by].tolist()],
            }
        )
        return
    if failed:
        rows = [(name, found.apfd(name)) for name in names]
        table(f"{failed} of {len(found.names)} fail; how early an order meets them", ("order", "APFD"), [*rows, ("random (expected)", 0.5)])
    else:
        say("no verdict is known, so that no order can be scored" if failed is None else f"none of {len(found.names)} fails")
    say(f"by {by}, first: {', '.join(found.names[place] for place in found.orders[by][:first].tolist())}")


def track(
    run: RunPath,
    to: Annotated[str, typer.Option(help="Address of an MLflow server, or a folder; MLFLOW_TRACKING_URI by default.")] = "",
    experiment: Annotated[str, typer.Option(help="The experiment in MLflow; created if it does not exist.")] = "skidpad",
    json: Json = False,
) -> None:
    """Write a run to MLflow: settings, figures, hashes and the report; a run that is already there is updated."""
    from dataclasses import asdict

    from skidpad.kinds.kind import kind_of
    from skidpad.kinds.tracking import track as write

    opened, campaign = open_with_campaign(run, seen=True)
    tracked = write(opened, kind_of(opened).figures(campaign, opened), uri=to, experiment=experiment)
    if json:
        print_json(asdict(tracked))
    else:
        say(f"run {tracked.run_id} of experiment {tracked.experiment!r} at {tracked.uri}, {tracked.metrics} metrics")


_NEEDED = ("duckdb", "fastapi", "uvicorn")


def ui(
    runs: Annotated[Path, typer.Argument(metavar="RUNS", help="A folder of runs, or one run.")] = Path("runs"),
    study: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="REAL SYNTHESISED", help="Ask how realistic scenes are: a folder of real and one of synthesised pictures."),
    ] = None,
    answers: Annotated[
        Path | None, typer.Option(help="Where the answers of --study are kept; RUNS/study-answers.jsonl by default.")
    ] = None,
    port: Annotated[int, typer.Option(help="The port on 127.0.0.1; 0 takes any that is free.")] = 8321,
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = False,
) -> None:
    """Show a folder of runs as a page in the browser: look at findings, filter, compare, tag; only for this machine."""
    from importlib.util import find_spec

    for package in _NEEDED:
        if find_spec(package) is None:
            raise MissingExtraError.of(package, "ui", "the page")

    from skidpad.ui.app import HOST, bound_socket, make_app, server_of
    from skidpad.ui.library import Library, RunsFolder
    from skidpad.ui.study import Study

    folder = RunsFolder(runs)
    questionnaire = Study.of(*study, answers or folder.root / "study-answers.jsonl") if study is not None else None
    with bound_socket(port) as taken, closing(Library(folder)) as library:
        address = f"http://{HOST}:{taken.getsockname()[1]}"
        server = server_of(make_app(library, questionnaire))
        say(f"runs of {folder.root}: {address}")
        if questionnaire is not None:
            say(f"questionnaire of {len(questionnaire.pairs)} pairs: {address}/study; its tally: {address}/study/tally")
        say("Ctrl-C ends the page")
        if open_browser:
            typer.launch(address)
        with suppress(KeyboardInterrupt):  # that is how a page ends
            server.run([taken])
