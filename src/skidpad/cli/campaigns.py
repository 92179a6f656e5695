"""The commands about runs: test, resume, report, replay."""

from dataclasses import asdict
from math import degrees
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skidpad.cli.console import ERR, print_json, progress_bar, say, table
from skidpad.cli.subjects import Device, Json
from skidpad.core.errors import SkidpadError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skidpad.campaigns.deeptest import DeepTest
    from skidpad.campaigns.settings import DeepTestSettings
    from skidpad.campaigns.summary import Summary
    from skidpad.runs.folder import Run
    from skidpad.runs.replay import ReplayResult

RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the application."""
    app.command(name="test")(run_test)
    app.command(name="run")(run_file)
    for command in (resume, report, replay):
        app.command()(command)


def run_test(
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="A description, as model.toml.")],
    drive: Annotated[str, typer.Argument(metavar="DRIVE", help="A folder, READER:FOLDER, or `rendered`; ?to=0.6 and so on slice it.")],
    transforms: Annotated[str, typer.Option(help="Comma-separated names, see `skidpad list transforms`; all by default.")] = "",
    search: Annotated[str, typer.Option(help="Comma-separated: grid (Table 4's parameters), greedy (Algorithm 1), random.")] = "grid",
    relation: Annotated[str, typer.Option(help="label-mse (Eq. 2; default where there are labels) or steers-alike.")] = "",
    lambda_: Annotated[float | None, typer.Option("--lambda", help="Tolerance of label-mse, in MSEs of the originals; 5.")] = None,
    within_deg: Annotated[float | None, typer.Option(help="Tolerance of steers-alike, in degrees; 10.")] = None,
    criteria: Annotated[str, typer.Option(help="Comma-separated coverage criteria; the first guides greedy.")] = "nc",
    profile_drive: Annotated[str, typer.Option(help="Training drive for the neuron bounds of kmnc, nbc and snac.")] = "",
    seeds: Annotated[int, typer.Option(help="Seed frames of greedy and random, evenly spaced; 0 is all.")] = 100,
    max_failed_tries: Annotated[int, typer.Option(help="Algorithm 1's maxFailedTries.")] = 10,
    keep_activations: Annotated[bool, typer.Option(help="Store which neurons each picture activated.")] = False,
    seed: Annotated[int, typer.Option(help="Root of all randomness.")] = 0,
    device: Device = "cpu",
    out: Annotated[Path | None, typer.Option(help="Folder of the run; by default the next free one under runs/.")] = None,
    json: Json = False,
) -> None:
    """Test a network on a drive under transformations, judged by a metamorphic relation (DeepTest)."""
    from skidpad.campaigns.settings import DeepTestSettings
    from skidpad.drives import open_drive

    opened = open_drive(drive)
    chosen = relation or ("steers-alike" if within_deg is not None or not opened.has_labels else "label-mse")
    settings = DeepTestSettings(
        subject=str(Path(subject).absolute()),
        drive=opened.origin or drive,
        transforms=_names(transforms),
        searches=_names(search),
        relation=chosen,
        tolerance=_tolerance(chosen, lambda_, within_deg),
        criteria=_names(criteria),
        profile_drive=profile_drive and open_drive(profile_drive).origin,
        seeds=seeds,
        max_failed_tries=max_failed_tries,
        keep_activations=keep_activations,
        seed=seed,
        device=device,
    )
    run_campaign(settings, out or next_free(Path("runs"), Path(subject).stem), json)


def run_file(
    campaign: Annotated[Path, typer.Argument(metavar="CAMPAIGN", help="A TOML file of settings, as config.toml of any run.")],
    out: Annotated[Path | None, typer.Option(help="Folder of the run; by default the next free one under runs/.")] = None,
    json: Json = False,
) -> None:
    """Run a campaign that a TOML file describes; unknown keys are errors, and what was meant is copied into the run."""
    import tomllib

    try:
        config = tomllib.loads(campaign.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SkidpadError(f"cannot read the campaign {campaign}: {error}; it is a TOML file such as config.toml in a run") from error
    run_campaign(_settings(config, str(campaign)), out or next_free(Path("runs"), campaign.stem), json)


def resume(run: RunPath, json: Json = False) -> None:
    """Go on with a run that was stopped; it ends with the findings of one never stopped."""
    opened = _open(run)
    _execute(_campaign(opened), opened, json)


def report(run: RunPath, out: Annotated[Path | None, typer.Option(help="The HTML file; RUN/report.html by default.")] = None) -> None:
    """Write the self-contained HTML page of a run."""
    opened = _open(run)
    say(f"report: {_write_report(_campaign(opened), opened, out)}")


def replay(
    run: RunPath,
    finding: Annotated[str, typer.Argument(metavar="FINDING", help="A case id, or enough of its first digits.")],
    picture: Annotated[Path | None, typer.Option(help="Write the pair of pictures here, as pair.png.")] = None,
    json: Json = False,
) -> None:
    """Compute a finding again from its recipe and compare picture, answers and verdict; exit code 1 where they differ."""
    from skidpad.campaigns.replaying import replay_case

    opened = _open(run)
    campaign = _campaign(opened)
    result = replay_case(campaign, opened, finding)
    record = result.record
    if picture is not None:
        _write_pair(campaign, result, picture)
    if json:
        print_json(
            {
                "case_id": record.case_id,
                "frame_id": record.frame_id,
                "recipe": str(record.recipe),
                "reproduced": result.is_reproduced(),
                "picture": result.picture.value,
                "violated": result.violated,
                "original_deg": degrees(result.original_rad),
                "mutant_deg": degrees(result.mutant_rad),
                "answer_change_rad": result.answer_change_rad,
                "version_changes": [str(change) for change in result.version_changes],
            }
        )
    else:
        rows = [
            ("original (deg)", degrees(record.original_rad), degrees(result.original_rad)),
            ("mutant (deg)", degrees(record.mutant_rad), degrees(result.mutant_rad)),
            ("excess", record.excess, result.excess),
            ("verdict", _verdict(record.violated), _verdict(result.violated)),
            ("picture", record.picture or "not stored", result.picture_again),
        ]
        table(f"{record.case_id}: {record.recipe} on frame {record.frame_id}", ("", "in the run", "now"), rows)
        for change in result.version_changes:
            say(f"changed since: {change}")
        say("reproduced" if result.is_reproduced() else "NOT reproduced")
    if not result.is_reproduced():
        raise typer.Exit(1)


def run_campaign(settings: "DeepTestSettings", out: Path, json: bool) -> None:
    """Starts a run in `out`, executes it, reports."""
    from skidpad.campaigns.deeptest import DeepTest

    campaign = DeepTest.load(settings)
    _execute(campaign, campaign.start(out), json)


def next_free(folder: Path, name: str) -> Path:
    """Returns the first of folder/name-001, name-002, ... that does not exist."""
    return next(path for number in range(1, 10**6) if not (path := folder / f"{name}-{number:03d}").exists())


def _execute(campaign: "DeepTest", run: "Run", json: bool) -> None:
    from skidpad.campaigns.originals import Originals
    from skidpad.campaigns.summary import summarise
    from skidpad.report.deeptest import relation_sentence

    ERR.print(f"run: {run.path}", markup=False)
    with progress_bar("testing") as progress:
        campaign.execute(run, progress)
    summary = summarise(run, campaign.blank_tracker(campaign.profile(run)))
    page = _write_report(campaign, run, None)
    if json:
        print_json(_summary_json(run, summary, page))
    else:
        print_summary(run, summary, relation_sentence(campaign.relation(Originals.of(run, len(campaign.drive)))))
        say(f"report: {page}")


def print_summary(run: "Run", summary: "Summary", relation: str) -> None:
    """Prints findings by stimulus, coverage and the worst finding's replay command."""
    from skidpad.campaigns.summary import EPSILON_RAD2

    rows = [
        (rate.name, rate.cases, rate.findings, f"{rate.rate:.1%}", f"{rate.low:.1%} to {rate.high:.1%}")
        for rate in (*sorted(summary.by_stimulus, key=lambda rate: -rate.rate), summary.overall)
    ]
    table("findings", ("stimulus", "mutants", "findings", "rate", "95 % interval"), rows)
    say(f"relation: {relation}")
    for gain in summary.coverage:
        if not gain.stimulus and gain.total:
            covered = f"{gain.originals / gain.total:.1%} by the originals, {gain.together / gain.total:.1%} with the mutants"
            say(f"{gain.criterion} coverage: {covered} ({gain.total} regions)")
    if run.config.get("relation") == "label-mse" and summary.by_parameters:
        near = summary.near_original()
        say(
            f"harmless by Eq. 3 (MSE within {EPSILON_RAD2:.4f} rad^2 of the originals'): {len(near)} of {len(summary.by_parameters)} "
            f"transformations with parameters, with {sum(rate.findings for rate in near)} findings"
        )
    if summary.problems:
        say(f"{len(summary.problems)} broken frames were left out; `skidpad inspect` lists them")
    worst = run.findings(limit=1, columns=("case_id", "recipe", "frame_id")).to_pylist()
    if worst:
        say(f"worst finding: skidpad replay {run.path} {worst[0]['case_id']}")


def _summary_json(run: "Run", summary: "Summary", page: Path) -> dict[str, object]:
    return {
        "run": str(run.path),
        "report": str(page),
        "originals": summary.originals,
        "overall": {**asdict(summary.overall), "rate": summary.overall.rate},
        "by_stimulus": [{**asdict(rate), "rate": rate.rate} for rate in summary.by_stimulus],
        "coverage": [asdict(gain) for gain in summary.coverage],
        "problems": len(summary.problems),
    }


def _write_report(campaign: "DeepTest", run: "Run", out: Path | None) -> Path:
    from skidpad.report.deeptest import deeptest_report
    from skidpad.report.render import write_report

    page = out or run.path / "report.html"
    write_report(deeptest_report(run, campaign), page)
    return page


def _write_pair(campaign: "DeepTest", result: "ReplayResult", path: Path) -> None:
    from skidpad.core.images import write_image
    from skidpad.core.stimuli import Recipe
    from skidpad.report.arrows import pair_picture

    record = result.record
    original, mutant = (campaign.picture(record.frame_index, recipe) for recipe in (Recipe(), record.recipe))
    angles = (degrees(result.original_rad), degrees(result.mutant_rad), degrees(record.label_rad))
    caption = f"{record.recipe}: {_verdict(result.violated)}, {result.excess:.1f} times the tolerated error"
    write_image(path, pair_picture(original, mutant, *angles, caption=caption))


def _open(path: Path) -> "Run":
    from skidpad.runs.folder import Run

    return Run.open(path)


def _campaign(run: "Run") -> "DeepTest":
    from skidpad.campaigns.deeptest import DeepTest

    campaign = DeepTest.load(_settings(run.config, str(run.path)))
    for what, now in (("subject", campaign.subject.sha256), ("drive", campaign.drive.sha256)):
        if run.manifest.hashes.get(what) != now:
            ERR.print(f"note: the {what} is not the one that the run was made with", markup=False, soft_wrap=True)
    return campaign


def _settings(config: "Mapping[str, Any]", where: str) -> "DeepTestSettings":
    from skidpad.campaigns.settings import DeepTestSettings

    if config.get("campaign") != "deeptest":
        known = 'campaign = "deeptest"'
        raise SkidpadError(f"{where} names the campaign {config.get('campaign')!r}; this version knows {known}")
    return DeepTestSettings.from_config(config)


def _tolerance(relation: str, lambda_: float | None, within_deg: float | None) -> float:
    from skidpad.campaigns.settings import LAMBDA, WITHIN_DEG

    mine, other, option = (lambda_, within_deg, "--within-deg") if relation == "label-mse" else (within_deg, lambda_, "--lambda")
    if other is not None:
        raise SkidpadError(f"the relation of this run is {relation}, which takes no {option}; leave it out, or choose --relation")
    if mine is not None:
        return mine
    return LAMBDA if relation == "label-mse" else WITHIN_DEG


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _verdict(violated: bool) -> str:
    return "finding" if violated else "passed"
