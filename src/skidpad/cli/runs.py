"""The commands test, run, resume and report, and what they share with others: options, trust, and how a campaign is run."""

import shlex
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skidpad.core.errors import SkidpadError
from skidpad.core.trust import trusting
from skidpad.page.terminal import print_json, progress_bar, say, tell, warn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skidpad.kinds.kind import Campaign, CampaignSettings
    from skidpad.page.model import Page
    from skidpad.runs.folder import Run
    from skidpad.runs.workers.protocol import Workers as CampaignWorkers


Device = Annotated[str, typer.Option(help="Where networks run: cpu or cuda.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
_Trust = Annotated[bool, typer.Option("--trust", help="Let this subject's own code run, for this command only; see `skidpad trust`.")]


def may_trust(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command that loads a subject the option --trust, which holds until the command ends."""

    @wraps(command)
    def run(*args: Any, trust: bool = False, **kwargs: Any) -> None:
        with trusting() if trust else nullcontext():
            command(*args, **kwargs)

    taken = signature(command, eval_str=True)
    option = Parameter("trust", Parameter.KEYWORD_ONLY, default=False, annotation=_Trust)
    run.__signature__ = taken.replace(parameters=[*taken.parameters.values(), option])  # type: ignore[attr-defined] # what typer reads
    run.__annotations__ = {name: each.annotation for name, each in taken.parameters.items()} | {"trust": _Trust, "return": None}
    return run


def refuse_options_of(context: typer.Context, owner: str, options: Sequence[str]) -> None:
    """Refuses options that only `owner` reads, where a user gave them without it; options: names of the command's parameters."""
    given = [name for name in options if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"]
    if given:
        written = {parameter.name: parameter.opts[0] for parameter in context.command.params}
        named = " and ".join(written[name] for name in given)
        way_out = "give that, or " if owner.startswith("--") else ""
        raise SkidpadError(f"{named} {'belongs' if len(given) == 1 else 'belong'} to {owner}; {way_out}leave {named} out")


def check_estimate(context: typer.Context, *, estimate: bool, budget: int) -> None:
    """Refuses options of an estimate that nobody asked for, and one that may make nothing."""
    if not estimate:
        refuse_options_of(context, "--estimate", ("method", "stop_below", "within", "budget"))
    if estimate and budget < 1:
        raise SkidpadError(f"--budget is the most that an estimate may make, at least 1; got {budget}")


def _refuse_empty(context: typer.Context, parameter: typer.CallbackParam, value: str) -> str:
    """Refuses an empty word, as an unset variable of a shell gives it; left out altogether, the option is empty too."""
    source = context.get_parameter_source(str(parameter.name))
    if not value and source is not None and source.name == "COMMANDLINE":
        raise SkidpadError("--workers is empty; name who computes, as --workers 2, or leave it out")
    return value


Workers = Annotated[
    str,
    typer.Option(
        metavar="N|ray|ray:auto|ray:HOST:PORT|ray://HOST:PORT",
        help="Number of worker processes (1: this process), or a Ray cluster: started here (ray), the one this machine belongs to "
        "(ray:auto, ray:HOST:PORT), or one reached from outside (ray://). Results are identical.",
        callback=_refuse_empty,
    ),
]
RefereeOption = Annotated[
    str,
    typer.Option(
        "--referee", help="on: findings whose picture no longer shows the same scene are set apart. off: all count, as in the papers."
    ),
]
Subject = Annotated[str, typer.Argument(metavar="SUBJECT", help="A description, e.g. model.toml, or `demo` for the bundled network.")]
Drive = Annotated[str, typer.Argument(metavar="DRIVE", help="A folder, READER:FOLDER, or `rendered`; ?to=0.6 takes the first 60 %.")]
JudgedOutput = Annotated[str, typer.Option(help="Which of the network's outputs to judge, by the name in its description.")]
StimulusOn = Annotated[
    str, typer.Option(help="For networks that see several frames: change all of them (window), or only the newest (last-frame).")
]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers.")]
Out = Annotated[Path | None, typer.Option(help="Folder of the run; by default the next free one under runs/.")]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]
Finding = Annotated[str, typer.Argument(metavar="FINDING", help="A case id, enough of its first digits, or `worst`.")]


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the application."""
    app.command(name="test")(may_trust(run_test))
    app.command(name="run")(may_trust(run_file))
    for command in (resume, report):
        app.command()(may_trust(command))


def run_test(
    subject: Subject,
    drive: Drive,
    stimulus: Annotated[
        list[str] | None,
        typer.Option(
            "--stimulus",
            "--transforms",
            help="What to apply: fog, fog(visibility_m=100), weather:rain, module:MyStimulus (see `skidpad list transforms`). "
            "+ combines (rotation+fog), commas separate. Those of --preset by default.",
        ),
    ] = None,
    search: Annotated[
        str, typer.Option(help="Comma-separated: grid (each stimulus at each of its strengths), greedy (coverage-guided pairs), random.")
    ] = "grid",
    output: JudgedOutput = "steering",
    relation: Annotated[str, typer.Option(help="See `skidpad list relations`; by default one that suits output and drive.")] = "",
    lambda_: Annotated[
        float | None,
        typer.Option(
            "--lambda", help="label-mse: a mutant fails if its squared error is above this many times the originals' MSE; default 5."
        ),
    ] = None,
    within_deg: Annotated[float | None, typer.Option(help="Tolerance of steers-alike, in degrees; default 10.")] = None,
    within: Annotated[float | None, typer.Option(help="Tolerance of answers-alike, in the output's unit, or of your own relation.")] = None,
    threshold: Annotated[float | None, typer.Option(help="Threshold of decides-alike; default 0.5.")] = None,
    criteria: Annotated[
        str, typer.Option(help="Neuron coverage to report, comma-separated (see `skidpad list criteria`); the first guides greedy.")
    ] = "nc",
    profile_drive: Annotated[
        str, typer.Option(help="Drive that the network was trained on: kmnc, nbc and snac learn from it what is usual for each neuron.")
    ] = "",
    stimulus_on: StimulusOn = "window",
    seeds: Annotated[int, typer.Option(help="How many frames greedy and random start from, evenly spaced; 0 is all.")] = 100,
    max_failed_tries: Annotated[
        int, typer.Option(help="How many tries without new coverage greedy makes on a frame before it gives up (maxFailedTries).")
    ] = 10,
    keep_activations: Annotated[bool, typer.Option(help="Store which neurons each picture activated.")] = False,
    preset: Annotated[
        str, typer.Option(help="What to try if no --stimulus is named: conditions (in physical units), or deeptest (its Table 4).")
    ] = "conditions",
    referee: RefereeOption = "on",
    seed: Seed = 0,
    device: Device = "cpu",
    workers: Workers = "",
    out: Out = None,
    json: Json = False,
) -> None:
    """Test a network on a drive under conditions or transformations, judged by a metamorphic relation (DeepTest)."""
    from skidpad.coverage.criteria import CRITERIA
    from skidpad.drives import drive_warnings, open_drive
    from skidpad.kinds.pictures.settings import DeepTestSettings
    from skidpad.oracles.relations import RELATIONS
    from skidpad.search.protocol import SEARCHES
    from skidpad.stimuli.registry import allow_typed, split_texts
    from skidpad.subjects.description import subject_path

    opened = open_drive(drive)
    for warning in drive_warnings(opened):
        warn(warning)
    chosen, value = _relation(relation, {"lambda": lambda_, "within-deg": within_deg, "within": within, "threshold": threshold})
    stimuli = split_texts(stimulus or ())
    allow_typed(stimuli)
    SEARCHES.allow(names_of(search))
    CRITERIA.allow(names_of(criteria))
    RELATIONS.allow([relation])
    settings = DeepTestSettings(
        subject=str(subject_path(subject)),
        drive=opened.origin or drive,
        transforms=stimuli,
        searches=names_of(search),
        output=output,
        relation=chosen,
        tolerance=None if threshold is not None else value,
        threshold=0.5 if threshold is None else threshold,
        criteria=names_of(criteria),
        profile_drive=profile_drive and open_drive(profile_drive).origin,
        stimulus_on=stimulus_on,
        seeds=seeds,
        max_failed_tries=max_failed_tries,
        keep_activations=keep_activations,
        preset=preset,
        referee=referee,
        seed=seed,
        device=device,
    )
    run_campaign(settings, out or next_free(Path("runs"), Path(subject).stem), json, workers)


def run_file(
    campaign: Annotated[Path, typer.Argument(metavar="CAMPAIGN", help="A TOML file of settings, e.g. config.toml of any run.")],
    workers: Workers = "",
    out: Out = None,
    json: Json = False,
) -> None:
    """Run a campaign that a TOML file describes; unknown keys are errors, and the resolved settings are saved in the run."""
    from skidpad.core.settings import read_toml
    from skidpad.kinds.kind import load_campaign

    try:
        config = read_toml(campaign.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SkidpadError(f"cannot read the campaign {campaign}: {error}; it is a TOML file such as config.toml in a run") from error
    chosen = _workers(workers, config)
    try:
        loaded = load_campaign(config, str(campaign))
    except SkidpadError as error:
        if str(campaign) in str(error):
            raise
        raise type(error)(f"{campaign}: {error}") from error
    _execute(loaded, loaded.start(out or next_free(Path("runs"), campaign.stem)), json, chosen)


def resume(run: RunPath, workers: Workers = "", json: Json = False) -> None:
    """Continue a run that was stopped; its findings are those of an uninterrupted run, whatever --workers is."""
    opened = _open(run)
    opened.refuse_altered()
    if damage := opened.damage("it is computed again" if len(opened.damaged) == 1 else "they are computed again"):
        warn(damage)
    _execute(_campaign(opened), opened, json, _workers(workers, opened.config))


def report(
    run: RunPath,
    out: Annotated[
        Path | None,
        typer.Option(help="The file: .html, .md (Markdown) or .json (the page's texts and tables); RUN/report.html by default."),
    ] = None,
    json: Json = False,
) -> None:
    """Write the page of a run: HTML that needs no other file, Markdown or JSON."""
    from skidpad.kinds.kind import kind_of
    from skidpad.page.writing import write_page
    from skidpad.runs.tags import Tags

    opened = _open(run)
    for trouble in (opened.damage(), Tags.of(opened.path).damage()):
        if trouble:
            warn(trouble)
    path = out or opened.path / "report.html"
    campaign = _campaign(opened, seen=True)
    page = kind_of(opened).page(campaign, opened)
    write_page(path, page)
    opened.publish(path)
    if json:
        print_json(_payload(campaign, opened, page, path))
    else:
        say_doubts(opened)
        say(f"report: {path}")


def run_campaign(settings: "CampaignSettings", out: Path, json: bool, workers: str = "") -> None:
    """Starts a run in `out`, executes it, reports; for the commands of any kind of campaign."""
    from skidpad.kinds.kind import load_campaign

    config = settings.to_config()
    chosen = _workers(workers, config)
    campaign = load_campaign(config, "the command")
    _execute(campaign, campaign.start(out), json, chosen)


def open_with_campaign(path: Path, *, seen: bool = False) -> "tuple[Run, Campaign]":
    """Opens a run and loads its campaign, for commands that look at a finding again; seen: at what is written down alone."""
    opened = _open(path)
    return opened, _campaign(opened, seen=seen)


def case_named(run: "Run", text: str) -> str:
    """Returns the case that a user means: `worst` is the finding furthest beyond what was tolerated that the stimulus caused."""
    if text != "worst":
        return text
    from skidpad.runs.findings import worst_finding

    found = worst_finding(run)
    if found is None:
        raise SkidpadError(f"there are no findings in {run.path}, so none is the worst; name a case by its id")
    return found


def next_free(folder: Path, name: str) -> Path:
    """Returns the first of folder/name-001, name-002, ... that does not exist."""
    return next(path for number in range(1, 10**6) if not (path := folder / f"{name}-{number:03d}").exists())


def _workers(text: str, config: "Mapping[str, Any]") -> "CampaignWorkers | None":
    from skidpad.kinds.shards import workers_of

    return workers_of(text, str(config.get("device", "cpu")), warn)


def _execute(campaign: "Campaign", run: "Run", json: bool, workers: "CampaignWorkers | None") -> None:
    from skidpad.kinds.kind import kind_of
    from skidpad.page.writing import UnwrittenError, write_page

    tell(f"run: {run.place}")
    with progress_bar("testing") as progress:
        campaign.execute(run, progress, workers)
    page = kind_of(run).page(campaign, run)
    path = run.path / "report.html"
    if not json:
        say_doubts(run)
        _show(page, run)  # before the page is written, which may find no room
    try:
        write_page(path, page)
    except UnwrittenError as error:
        again = f"skidpad report {shlex.quote(run.place)}"
        raise UnwrittenError(f"{error}; all findings are kept, and the page is written by: {again}") from error
    run.publish(path)
    if json:
        print_json(_payload(campaign, run, page, path))
    else:
        say(f"report: {path}")


def _show(page: "Page", run: "Run") -> None:
    """Prints the page, and what shows the worst finding again; doubts are told before."""
    from dataclasses import replace

    from skidpad.kinds.kind import kind_of
    from skidpad.page.terminal import show_page
    from skidpad.runs.findings import run_doubts, worst_finding

    told = {doubt.said for doubt in run_doubts(run)}
    show_page(replace(page, warnings=tuple(warning for warning in page.warnings if warning not in told)))
    if worst := worst_finding(run):
        say(f"{kind_of(run).worst}: skidpad replay {run.place} {worst}")


def say_doubts(run: "Run") -> None:
    """Says what is odd about a run's answers on unchanged pictures; before any figure, since figures do not show it."""
    from skidpad.runs.findings import run_doubts

    for doubt in run_doubts(run):
        say(f"doubt: {doubt.said}")


def _payload(campaign: "Campaign", run: "Run", page: "Page", path: Path) -> "Mapping[str, object]":
    from skidpad.kinds.kind import kind_of
    from skidpad.oracles.doubts import doubts_payload
    from skidpad.page.model import tags_payload
    from skidpad.runs.findings import Refereed, run_doubts
    from skidpad.runs.tags import Tags

    evidence = {"evidence": run.integrity.state, "damaged_tags": Tags.of(run.path).damaged, "doubts": doubts_payload(run_doubts(run))}
    return {
        "run": run.place,
        "report": str(path),
        **evidence,
        **kind_of(run).figures(campaign, run),
        **tags_payload(page.tags),
        **Refereed.of(run).to_json(),
    }


def _open(path: Path) -> "Run":
    from skidpad.runs.folder import Run

    opened = Run.open(path)
    if opened.integrity.altered:
        warn(f"{opened.place}: {opened.integrity.doubt}")
    return opened


def _campaign(run: "Run", *, seen: bool = False) -> "Campaign":
    from skidpad.kinds.kind import load_campaign

    campaign = load_campaign(run.config, str(run.path), run.manifest if seen else None)
    for what, now in campaign.hashes.items():
        if run.manifest.hashes.get(what) != now:
            tell(f"note: the {what} is not the one that the run was made with")
    return campaign


_RELATION_OF = {"lambda": "label-mse", "within-deg": "steers-alike", "within": "answers-alike", "threshold": "decides-alike"}
"""Each option that sets a relation's number names the relation as well."""


def _relation(relation: str, options: "Mapping[str, float | None]") -> tuple[str, float | None]:
    """Returns the relation that was chosen, by name or by its option ("" for neither), and its number."""
    given = {name: value for name, value in options.items() if value is not None}
    chosen = relation or next((_RELATION_OF[name] for name in given), "")
    for name in given:
        if _RELATION_OF[name] != chosen and (name != "within" or chosen in _RELATION_OF.values()):
            raise SkidpadError(f"the relation of this run is {chosen}, which takes no --{name}; leave it out, or choose --relation")
    return chosen, next(iter(given.values()), None)


def names_of(text: str) -> tuple[str, ...]:
    """Returns the parts of a text that are separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())
