"""The public API: what the command line does, in a few lines of Python (see docs/api.md).

Networks, drives, transforms and relations are given as objects or by name. Functions print nothing; a `Result` shows itself.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary, finalize

from torch import nn

from skidpad.api.results import Repaired, Result
from skidpad.api.transforms import Transform
from skidpad.core.errors import BadDriveError, BadParametersError, BadRunError, BadSubjectError, SkidpadError, UnknownNameError
from skidpad.core.progress import Progress, silent
from skidpad.core.registry import MEMORY, giving
from skidpad.core.stimuli import Stimulus
from skidpad.core.units import AngleUnit, Axle
from skidpad.drives import Drive
from skidpad.drives import open_drive as open_named_drive
from skidpad.kinds.gating import check_gate
from skidpad.kinds.kind import load_campaign
from skidpad.kinds.shards import workers_of
from skidpad.oracles.error import PredictionError, prediction_error, steering_answers
from skidpad.oracles.relations import AnswersAlike, DecidesAlike, LabelMse, Relation, SteersAlike, SteersRight
from skidpad.runs.folder import Run
from skidpad.runs.gate import ALL, Limits, Verdict
from skidpad.stimuli.conditions.base import PhysicalCondition
from skidpad.stimuli.pictures import TRANSFORMS
from skidpad.stimuli.weather.pretrained import weather_path
from skidpad.subjects.description import IN_MEMORY, STEERING, Description, Format, Output, subject_path
from skidpad.subjects.inputs import Colour, Crop, InputSpec, Range
from skidpad.subjects.loading import load_subject
from skidpad.subjects.network_subject import NetworkSubject

if TYPE_CHECKING:
    from skidpad.repairs.driving.plan import DrivingSettings
    from skidpad.repairs.lessons import Loss, OwnStep
    from skidpad.subjects.base import Subject

    SubjectLike: TypeAlias = "str | Path | Subject"
    DriveLike: TypeAlias = "str | Path | Drive"
    StimulusLike: TypeAlias = "str | Transform | Stimulus"
    RunLike: TypeAlias = "str | Path | Run | Result"

_origins: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
"""The files of the subjects that `load` has read, so that a run of theirs names the file."""


def load(subject: str | Path, *, device: str = "cpu", trust: bool = False) -> Subject:
    """Loads the network that a description names, as `my-net.toml`, or `demo`; trust: run the code that it names."""
    path = subject_path(str(subject))
    loaded = load_subject(path, device, trust=trust)
    _origins[loaded] = str(path)
    return loaded


def wrap(
    module: nn.Module,
    *,
    width_px: int,
    height_px: int,
    colour: str = "rgb",
    low: float = 0.0,
    high: float = 1.0,
    crop: Mapping[str, float] | None = None,
    unit: str = "rad",
    axle: str = "steering-wheel",
    scale: float = 1.0,
    name: str = "",
    device: str = "cpu",
) -> Subject:
    """Makes a subject of a torch module whose one output is the steering; the arguments are keys of a description.

    low, high: what bytes 0 and 255 become. crop: shares of the frame, as {"top": 0.4}. A run keeps the hash of the weights and these
    words, not the module: its report and its gate work anywhere, but only this process can resume or replay it.
    """
    if not isinstance(module, nn.Module):
        raise BadSubjectError(
            f"wrap takes a torch.nn.Module; got {type(module).__name__}. Other models are black boxes: docs/black-boxes.md"
        )
    spec = InputSpec(width_px, height_px, Colour(colour), Range((low,), (high,)), Crop(**(crop or {})))
    output = Output(STEERING, AngleUnit(unit), scale, Axle(axle))
    # read by nobody: the module is the program already
    description = Description(name or type(module).__name__, IN_MEMORY, Format.EXPORT, spec, (output,))
    return NetworkSubject.of_module(module, description, device=device)


def open_drive(drive: str | Path) -> Drive:
    """Opens a recorded drive by its folder or by any text that the command line takes, as `rendered?frames=100&seed=3`."""
    return open_named_drive(str(drive))


def test(
    subject: SubjectLike,
    drive: DriveLike,
    stimulus: StimulusLike | Sequence[StimulusLike] = (),
    relation: str | Relation = "",
    *,
    out: str | Path | None = None,
    workers: str = "",
    progress: Progress = silent,
    **settings: Any,
) -> Result:
    """Tests a network on a drive under transforms, the preset's by default, judged by a relation (DeepTest); as `skidpad test`.

    out: keeps the run in this folder. workers: as `--workers`. settings: any other key of a run's `config.toml`, as seed, device,
    searches, criteria, output.
    """
    chosen = _stimuli(stimulus)
    return _run("deeptest", subject, drive, {"transforms": chosen, **_judged_by(relation), **settings}, out, workers, progress)


test.__test__ = False  # type: ignore[attr-defined] # `from skidpad import test` makes no test of it


def weather_test(
    subject: SubjectLike,
    drive: DriveLike,
    weather: str | Path | Sequence[str | Path],
    *,
    out: str | Path | None = None,
    workers: str = "",
    progress: Progress = silent,
    **settings: Any,
) -> Result:
    """Tests a network under learned weathers (DeepRoad); as `skidpad weather test`."""
    weathers = [str(weather_path(str(each)).absolute()) for each in ([weather] if isinstance(weather, str | Path) else weather)]
    return _run("deeproad", subject, drive, {"weathers": weathers, **settings}, out, workers, progress)


def drive(
    subject: SubjectLike,
    stimulus: StimulusLike | Sequence[StimulusLike] = (),
    *,
    out: str | Path | None = None,
    workers: str = "",
    progress: Progress = silent,
    **settings: Any,
) -> Result:
    """Lets a network steer through scenarios in a closed loop; as `skidpad drive`. settings: scenarios, domain, seconds, ..."""
    return _run("online", subject, None, {"stimuli": _stimuli(stimulus), **settings}, out, workers, progress)


def compare(
    subject: SubjectLike,
    drive: DriveLike | None = None,
    *,
    out: str | Path | None = None,
    workers: str = "",
    progress: Progress = silent,
    **settings: Any,
) -> Result:
    """Tests a network offline and online on the same scenarios; as `skidpad compare`. drive: a recorded one with labels."""
    return _run("compare", subject, drive, settings, out, workers, progress)


def limits(
    subject: SubjectLike,
    drive: DriveLike,
    conditions: str | Sequence[str] = (),
    relation: str | Relation = "",
    *,
    out: str | Path | None = None,
    workers: str = "",
    progress: Progress = silent,
    **settings: Any,
) -> Result:
    """Finds how far a network holds under each condition, all by default; as `skidpad limits`: see `Result.limits`.

    settings: any other key of a run's `config.toml`, as accepted_share, frames, pairs, online, scenarios.
    """
    chosen = [conditions] if isinstance(conditions, str) else list(conditions)
    return _run(
        "limits", subject, drive, {"conditions": tuple(filter(None, chosen)), **_judged_by(relation), **settings}, out, workers, progress
    )


def repair(
    subject: SubjectLike,
    source: RunLike | Drive,
    *,
    out: str | Path,
    loss: Loss | None = None,
    step: OwnStep | None = None,
    hold: str = "",
    closed_loop: int = 0,
    stimulus: str | Sequence[str] = (),
    domain: str = "extended",
    progress: Progress = silent,
    **settings: Any,
) -> Repaired:
    """Finds the repair that helps most at the least cost, and judges it where no training looked; as `skidpad repair`.

    source: a run of `test`, `limits` or `drive`, or a drive with labels, whose mutants are then drawn from all conditions. loss: your own,
    of answers and what is right, (n,) radians each. step: your own training step, which returns the loss of a `Batch`. hold: the limit to
    reach, as "fog.visibility_m=100", with a run of `limits`; `outcome.reached` says whether it holds. closed_loop: how many scenarios of
    a domain to drive before and after, without a stimulus and under each of `stimulus`, as "fog(visibility_m=20)". settings: see
    `skidpad.repairs.plan.SearchSettings`, with a run of `drive` `skidpad.repairs.driving.plan.DrivingSettings`. A module that was wrapped
    is repaired too: its new weights are in the result.
    """
    from skidpad.repairs.driving.plan import DRIVES, DrivingSettings  # noqa: PLC0415  most programs repair nothing
    from skidpad.repairs.outcome import search, written  # noqa: PLC0415  see above
    from skidpad.repairs.plan import SearchSettings, Task  # noqa: PLC0415  see above
    from skidpad.repairs.runs import ClosedLoop, repair_run, with_drives  # noqa: PLC0415  see above
    from skidpad.repairs.source import is_drive, referee_of  # noqa: PLC0415  see above

    asked = load(subject) if isinstance(subject, str | Path) else subject
    if not isinstance(asked, NetworkSubject):
        description = getattr(asked, "description", None)
        called = type(asked).__name__ if description is None else repr(description.name)
        raise BadSubjectError(
            f"{called} is no torch network, so it cannot be trained here; wrap a module with `skidpad.wrap`, or export the mutants"
        )
    if isinstance(source, str | Path) and not Path(source).is_dir() and is_drive(str(source)):
        raise BadRunError(f"{str(source)!r} is a drive, and a text names a run here; give it as open_drive({str(source)!r})")
    run = None if isinstance(source, Drive) else open_run(source).run
    is_driven = run is not None and run.config.get("campaign") == DRIVES
    known = [each.name for each in fields(DrivingSettings if is_driven else SearchSettings)]
    for name in settings:
        if name not in known:
            raise UnknownNameError.among("setting of a repair", name, known)
    settings = {"device": str(asked.network.device), **settings}
    if run is not None and is_driven:
        others = {"loss": loss, "step": step, "hold": hold, "closed_loop": closed_loop, "stimulus": stimulus}
        given = [name for name, value in others.items() if value]
        if given:
            raise BadParametersError(f"a repair from a run of `drive` trains and drives in its own way; leave out {', '.join(given)}")
        return _repaired_by_driving(asked, run, Path(out), DrivingSettings(**settings), progress)
    chosen = SearchSettings(**settings)
    loop = ClosedLoop.asked(closed_loop, (stimulus,) if isinstance(stimulus, str) else tuple(stimulus), domain)
    if isinstance(source, Drive):
        judge = referee_of(chosen.device) if chosen.referee else None
        task = Task(subject=asked, drive=source, relation=SteersAlike(), judge=judge, loss=loss, step=step)
        outcome = with_drives(search(task, Path(out), chosen, progress), asked, Path(out), chosen, loop, progress)
    else:
        run = open_run(source).run
        outcome = repair_run(asked, run, Path(out), chosen, hold=hold, loop=loop, loss=loss, step=step, progress=progress)
    written(outcome, Path(out))
    return Repaired(outcome, Path(out), asked)


def _repaired_by_driving(subject: NetworkSubject, run: Run, out: Path, settings: DrivingSettings, progress: Progress) -> Repaired:
    from skidpad.repairs.driving.outcome import drive_and_repair  # noqa: PLC0415  most programs repair nothing
    from skidpad.repairs.driving.plan import task_of  # noqa: PLC0415  see above
    from skidpad.repairs.outcome import written  # noqa: PLC0415  see above

    outcome = drive_and_repair(task_of(run, subject), out, settings, progress)
    written(outcome, out)
    return Repaired(outcome, out, subject)


def duel(*, out: str | Path | None = None, workers: str = "", progress: Progress = silent, **settings: Any) -> Result:
    """Trains a front vehicle that makes the ego crash, and the ego against it; as `skidpad duel`."""
    return _run("duel", None, None, settings, out, workers, progress)


def evaluate(subject: SubjectLike, drive: DriveLike, *, worst: int = 5, progress: Progress = silent) -> PredictionError:
    """Measures plain accuracy against the labels of a drive; as `skidpad evaluate`."""
    objects: dict[str, object] = {}
    texts = _subject_text(subject, objects), _drive_text(drive, objects)
    with giving(objects):
        asked, opened = load_subject(texts[0]), open_named_drive(texts[1])
    if not opened.has_labels:
        raise BadDriveError(f"no frame of {opened.name!r} has a label, so there is nothing to score; `test` works without labels")
    return prediction_error(steering_answers(asked, opened, progress)[0], opened.steering_rad, worst)


def open_run(run: RunLike) -> Result:
    """Opens the folder of a run, whichever command or function made it."""
    if isinstance(run, Result):
        return run
    return Result(run if isinstance(run, Run) else Run.open(Path(run)))


def replay(run: RunLike, finding: str = "worst") -> Mapping[str, Any]:
    """Computes a finding again and compares; as `skidpad replay --json`: the key `reproduced` tells whether it is the same."""
    return open_run(run).replay(finding)


def gate(
    run: RunLike,
    *,
    baseline: RunLike | None = None,
    max_rate: float | Mapping[str, float] | None = None,
    hold: str | Sequence[str] = (),
    **limits: Any,
) -> Verdict:
    """Holds a run against limits and a baseline; as `skidpad gate`. max_rate: of all cases, or by group, as {"fog": 0.1}.

    hold: the severities that a run of `limits` must hold to, as "fog.visibility_m=150". limits: max_new,
    max_rise, alpha, without_false_alarms, accept_doubts.
    """
    rates = {ALL: max_rate} if isinstance(max_rate, int | float) else dict(max_rate or {})
    other = None if baseline is None else open_run(baseline).run
    return check_gate(open_run(run).run, Limits(rates, hold=[hold] if isinstance(hold, str) else hold, **limits), other)


def _run(
    kind: str,
    subject: SubjectLike | None,
    drive: DriveLike | None,
    settings: Mapping[str, Any],
    out: str | Path | None,
    workers: str,
    progress: Progress,
) -> Result:
    """Starts and executes a campaign; what is empty among the settings is left to the kind's defaults."""
    objects: dict[str, object] = {}
    config: dict[str, Any] = {"campaign": kind}
    if subject is not None:
        config["subject"] = _subject_text(subject, objects)
        if isinstance(subject, NetworkSubject):
            config["device"] = str(subject.network.device)
    if drive is not None:
        config["drive"] = _drive_text(drive, objects)
    config |= {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items() if value not in ((), "", None)}
    if any(text.startswith(MEMORY) for text in objects) and workers not in {"", "1"}:
        raise SkidpadError(f"an object in memory cannot be handed to other processes; leave out workers={workers!r}, or save it as a file")
    folder = Path(out) if out is not None else Path(tempfile.mkdtemp(prefix="skidpad-"))
    try:
        with giving(objects):
            campaign = load_campaign(config, f"skidpad.{kind}")
            run = campaign.start(folder)
            campaign.execute(run, progress, workers_of(workers, str(config.get("device", "cpu"))))
    except BaseException:
        if out is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    result = Result(run, objects)
    if out is None:
        finalize(result, shutil.rmtree, folder, ignore_errors=True)
    return result


def _subject_text(subject: SubjectLike, objects: dict[str, object]) -> str:
    if isinstance(subject, str | Path):
        text = str(subject)
        return text if text.startswith(MEMORY) else str(subject_path(text))
    if isinstance(subject, nn.Module):
        raise BadSubjectError("a torch module does not say what pictures it takes; use wrap(module, width_px=..., height_px=...)")
    text = _origins.get(subject) or f"{MEMORY}{subject.description.name}@{subject.sha256[:12]}"
    objects[text] = subject
    return text


def _drive_text(drive: DriveLike, objects: dict[str, object]) -> str:
    opened = drive if isinstance(drive, Drive) else open_named_drive(str(drive))
    text = opened.origin or f"{MEMORY}{opened.name}@{opened.sha256[:12]}"
    objects[text] = opened
    return text


def _stimuli(stimulus: StimulusLike | Sequence[StimulusLike]) -> list[str]:
    many = stimulus if isinstance(stimulus, list | tuple) else [stimulus]
    return [_stimulus_text(each) for each in many]


def _stimulus_text(stimulus: Any) -> str:
    if isinstance(stimulus, str | Transform | PhysicalCondition):
        return str(stimulus)
    name = next((row for row in TRANSFORMS.names() if TRANSFORMS.get(row) is type(stimulus)), None)
    if name is None:
        raise BadParametersError(
            f"{type(stimulus).__name__} is no registered transform; decorate the class with @TRANSFORMS.register('a-name') from "
            "skidpad.stimuli.pictures (docs/how-to/transform.md)"
        )
    return name


def _judged_by(relation: str | Relation) -> dict[str, Any]:
    """Returns the settings of a relation: a name, or an object with its number."""
    if isinstance(relation, str):
        return {"relation": relation}
    numbers: dict[type, tuple[str, str]] = {
        SteersAlike: ("tolerance", "within_deg"),
        SteersRight: ("tolerance", "within_deg"),
        AnswersAlike: ("tolerance", "within"),
        LabelMse: ("tolerance", "lambda_"),
        DecidesAlike: ("threshold", "threshold"),
    }
    if type(relation) not in numbers:
        raise BadParametersError(f"{type(relation).__name__} is no relation with a known number; give its registered name")
    setting, number = numbers[type(relation)]
    return {"relation": relation.name, setting: float(getattr(relation, number))}
