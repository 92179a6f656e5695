"""The public API: what the command line does, in a few lines of Python (see docs/api.md).

Networks, drives, transforms and relations are given as objects or by name. Functions print nothing; a `Result` shows itself.
"""

from __future__ import annotations

import shutil
import tempfile
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary, finalize

from torch import nn

from skidpad.core.errors import BadDriveError, BadParametersError, BadSubjectError, SkidpadError
from skidpad.core.progress import Progress, silent
from skidpad.core.registry import MEMORY, giving
from skidpad.core.stimuli import Stimulus, Value
from skidpad.core.units import AngleUnit, Axle
from skidpad.drives import Drive
from skidpad.drives import open_drive as open_named_drive
from skidpad.kinds.exhibits import Motion, Side, Sight, exhibit_of
from skidpad.kinds.gating import check_gate, judged_cases
from skidpad.kinds.kind import Campaign, kind_of, load_campaign
from skidpad.kinds.shards import workers_of
from skidpad.oracles.error import PredictionError, prediction_error, steering_answers
from skidpad.oracles.relations import AnswersAlike, DecidesAlike, LabelMse, Relation, SteersAlike, SteersRight
from skidpad.page.arrows import pair_picture
from skidpad.page.html import write_page
from skidpad.page.pictures import embed
from skidpad.page.wording import counted, percent, plain
from skidpad.runs.findings import run_doubts, worst_finding
from skidpad.runs.folder import Run
from skidpad.runs.gate import ALL, Limits, Verdict
from skidpad.runs.replay import Replayed
from skidpad.statistics.intervals import Interval, wilson
from skidpad.stimuli.conditions.base import PhysicalCondition
from skidpad.stimuli.pictures import TRANSFORMS
from skidpad.stimuli.weather.pretrained import weather_path
from skidpad.subjects.description import STEERING, Colour, Crop, Description, Format, InputSpec, Output, Range
from skidpad.subjects.loading import load_subject
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.subjects.pretrained import subject_path

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from skidpad.core.images import NumpyFrames
    from skidpad.kinds.exhibits import Exhibit
    from skidpad.oracles.doubts import Doubt
    from skidpad.repairs.lessons import Loss, OwnStep
    from skidpad.repairs.outcome import Outcome
    from skidpad.subjects.base import Subject

    SubjectLike: TypeAlias = "str | Path | Subject"
    DriveLike: TypeAlias = "str | Path | Drive"
    StimulusLike: TypeAlias = "str | Transform | Stimulus"
    RunLike: TypeAlias = "str | Path | Run | Result"

_SHOWN_GROUPS = 12
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
    description = Description(name or type(module).__name__, "in memory", Format.EXPORT, spec, (output,))
    return NetworkSubject.of_module(module, description, device=device)


def open_drive(drive: str | Path) -> Drive:
    """Opens a recorded drive by its folder or by any text that the command line takes, as `rendered?frames=100&seed=3`."""
    return open_named_drive(str(drive))


class Transform:
    """A transform with its parameters, as `Brightness(shift=40)`; without any, its whole grid. `+` joins two to one stimulus."""

    _name = ""

    def __init__(self, **params: Value) -> None:
        values = ",".join(f"{name}={value}" for name, value in params.items())
        self._text = (self._name or type(self).__name__.lower()) + (f"({values})" if values else "")

    def __add__(self, other: object) -> str:
        return f"{self}+{other}"

    def __radd__(self, other: object) -> str:
        return f"{other}+{self}"

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<transform {self}>"


class Blur(Transform):
    """`kind`: averaging, gaussian, median or bilateral; `size` of its window in pixels."""


class Brightness(Transform):
    """Adds `shift` to every channel."""


class Contrast(Transform):
    """Multiplies every channel by `gain`."""


class DeepTestFog(Transform):
    """DeepTest's fog: `density`, 0 to 1; `seed` of its banks. `Fog` is the one in metres of visibility."""

    _name = "deeptest-fog"


class DeepTestRain(Transform):
    """DeepTest's rain: `intensity`, 0 to 1; `slant_deg`; `seed` of its streaks. `Rain` is the one in mm an hour."""

    _name = "deeptest-rain"


class Rotation(Transform):
    """Turns by `angle_deg`."""


class Scale(Transform):
    """Scales by `sx` and `sy`."""


class Shear(Transform):
    """Shears by `sx` and `sy`."""


class Translation(Transform):
    """Moves by `dx_px` and `dy_px`."""


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
    progress: Progress = silent,
    **settings: Any,
) -> Repaired:
    """Finds the repair that helps most at the least cost, and judges it where no training looked; as `skidpad repair`.

    source: a run of `test` or `limits`, or a drive with labels, whose mutants are then drawn from all conditions. loss: your own, of
    answers and what is right, (n,) radians each. step: your own training step, which returns the loss of a `Batch`. settings: see
    `skidpad.repairs.plan.SearchSettings`. A module that was wrapped is repaired too: its new weights are in the result.
    """
    from skidpad.repairs.outcome import search, written  # noqa: PLC0415  most programs repair nothing
    from skidpad.repairs.plan import SearchSettings, Task  # noqa: PLC0415  see above
    from skidpad.repairs.source import referee_of, task_of  # noqa: PLC0415  see above

    asked = load(subject) if isinstance(subject, str | Path) else subject
    if not isinstance(asked, NetworkSubject):
        raise BadSubjectError(f"{asked.description.name!r} is no torch network, so it cannot be trained here; export its mutants instead")
    chosen = SearchSettings(**{"device": str(asked.network.device), **settings})
    if isinstance(source, Drive):
        judge = referee_of(chosen.device) if chosen.referee else None
        task = Task(subject=asked, drive=source, relation=SteersAlike(), judge=judge, loss=loss, step=step)
    else:
        task = task_of(open_run(source).run, asked, hold=hold, referee=chosen.referee, device=chosen.device, loss=loss, step=step)
    outcome = search(task, Path(out), chosen, progress)
    written(outcome, Path(out))
    return Repaired(outcome, Path(out), asked)


@dataclass(frozen=True, eq=False)
class Repaired:
    """A finished repair. outcome: its figures; path: its folder."""

    outcome: Outcome
    path: Path
    _subject: NetworkSubject = field(repr=False)

    @property
    def module(self) -> nn.Module:
        """A copy of the network with the recommended weights; with its own where no repair helped."""
        from safetensors.torch import load_file  # noqa: PLC0415  most programs repair nothing

        module = deepcopy(self._subject.module)
        weights = self.path / "recommended.safetensors"
        if weights.exists():
            module.load_state_dict(load_file(weights))
        return module

    def __repr__(self) -> str:
        return self.outcome.verdict


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


@dataclass(frozen=True, eq=False)
class Finding:
    """One case that broke the relation. row: what the run keeps of it, angles in radians."""

    row: Mapping[str, Any]
    _exhibit: Exhibit = field(repr=False)
    _objects: Mapping[str, object] = field(repr=False)

    @property
    def case_id(self) -> str:
        """Names the case in its run."""
        return str(self.row["case_id"])

    @property
    def said(self) -> str:
        """What was done and how far the answer went, in words."""
        return f"{self._exhibit.title(self.row)}: {self._exhibit.how_far(self.row)}"

    def picture(self) -> NumpyFrames | None:
        """Renders the frame beside its mutant with both answers, (height, width, 3) RGB; None of drives and duels."""
        if self._exhibit.sight(self.row) is not Sight.PAIR:
            return None
        with giving(self._objects):
            original, mutant = (self._exhibit.picture(self.row, side) for side in (Side.ORIGINAL, Side.MUTANT))
        answers = self._exhibit.answers(self.row)
        return pair_picture(original, mutant, answers.original, answers.mutant, answers.label, caption=self.said, unit=answers.unit)

    def __repr__(self) -> str:
        return f"<finding {self.case_id}: {self.said}>"

    def _repr_html_(self) -> str:
        return f"<figure>{self._image()}<figcaption>{escape(self.said)}</figcaption></figure>"

    def _image(self) -> str:
        if self._exhibit.sight(self.row) is Sight.NOTHING:
            return ""
        picture = self.picture()
        if picture is not None:
            source = embed(picture)[0]
        else:
            with giving(self._objects):
                film = self._exhibit.film(self.row, Motion.STRIP)
            source = f"data:image/svg+xml;base64,{b64encode(film.encode()).decode('ascii')}"
        return f'<img src="{source}" alt="{escape(self._exhibit.told(self.row))}">'


class Findings(Sequence[Finding]):
    """The findings of a run, worst first; an Arrow table inside."""

    def __init__(self, result: Result) -> None:
        self._result = result
        self._table = result.run.findings()

    def to_arrow(self) -> pa.Table:
        """Returns the Arrow table: frame, recipe, answers, excess, ...; angles in radians."""
        return self._table

    def to_pylist(self) -> list[dict[str, Any]]:
        """Returns a dictionary for each finding."""
        rows: list[dict[str, Any]] = self._table.to_pylist()
        return rows

    def to_pandas(self) -> pd.DataFrame:
        """Returns a data frame, where pandas is installed."""
        try:
            return self._table.to_pandas()
        except ModuleNotFoundError as error:
            raise SkidpadError("to_pandas needs the package 'pandas': pip install pandas; to_arrow and to_pylist need nothing") from error

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        return self._result.finding(self._table.slice(range(len(self))[place], 1).to_pylist()[0])

    def __iter__(self) -> Iterator[Finding]:
        return (self[place] for place in range(len(self)))

    def __repr__(self) -> str:
        return f"<{counted(len(self), 'finding')}, worst first>"


@dataclass(frozen=True, eq=False)
class Result:
    """A run, and what was found in it. run: its folder, which `out` keeps; without `out` it goes with this object."""

    run: Run
    _objects: Mapping[str, object] = field(default_factory=dict, repr=False)

    @property
    def path(self) -> Path:
        """The folder of the run."""
        return self.run.path

    @cached_property
    def rates(self) -> Mapping[str, Interval]:
        """The share of judged cases that failed, with its 95 % interval: of `all`, then by group (transform, condition, ...)."""
        cases = judged_cases(self.run)
        parts = {group: cases.of(group) for group in (ALL, *cases.groups)}
        return {group: wilson(int(part.failed.sum()), len(part)) for group, part in parts.items()}

    @property
    def rate(self) -> float:
        """The share of judged cases that failed, 0 to 1."""
        return self.rates[ALL].estimate

    @cached_property
    def findings(self) -> Findings:
        """Everything that failed, worst first."""
        return Findings(self)

    @cached_property
    def worst(self) -> Finding | None:
        """The finding furthest beyond what was tolerated, one that the stimulus caused where there is one; None without findings."""
        case = worst_finding(self.run)
        return None if case is None else self.finding(self.run.find_row(case))

    @cached_property
    def doubts(self) -> tuple[Doubt, ...]:
        """What is odd about the answers on unchanged pictures; look here before trusting a rate."""
        return run_doubts(self.run)

    @cached_property
    def limits(self) -> Mapping[str, Mapping[str, Any]]:
        """How far the network holds, by severity: holds_to, fails_from, unit, curve, ...; empty for other runs than those of `limits`."""
        with giving(self._objects):
            rows = kind_of(self.run).figures(self._campaign(seen=True), self.run).get("limits", ())
        return {row["name"]: row for row in rows} if isinstance(rows, list) else {}

    def finding(self, case: str | Mapping[str, Any]) -> Finding:
        """Returns one case of the run, by its id or its row."""
        row = self.run.find_row(case) if isinstance(case, str) else case
        return Finding(row, self._exhibit, self._objects)

    def report(self, path: str | Path | None = None) -> Path:
        """Writes the page (.html, .md or .json), `report.html` in the run's folder by default, and returns where it is."""
        page = Path(path) if path is not None else self.path / "report.html"
        with giving(self._objects):
            write_page(page, kind_of(self.run).page(self._campaign(seen=True), self.run))
        return page

    def replay(self, finding: str = "worst") -> Mapping[str, Any]:
        """Computes a finding again and compares; the key `reproduced` tells whether it is the same."""
        case = worst_finding(self.run) if finding == "worst" else finding
        if case is None:
            raise SkidpadError(f"there are no findings in {self.path}, so none is the worst; name a case by its id")
        with giving(self._objects):
            again: Replayed = kind_of(self.run).part("replay", "replayed")(self._campaign(seen=False), self.run, case, None)
        return again.to_json()

    @cached_property
    def _exhibit(self) -> Exhibit:
        return exhibit_of(self.run.config)

    def _campaign(self, *, seen: bool) -> Campaign:
        return load_campaign(self.run.config, str(self.path), self.run.manifest if seen else None)

    def _rows(self) -> list[tuple[str, str, str, str, str]]:
        """Returns the rows of the table: all first, then the groups that fail most."""
        groups = sorted(self.rates.items(), key=lambda each: (each[0] != ALL, -each[1].estimate))
        return [
            (
                plain(name, 60),
                str(rate.n),
                str(round(rate.estimate * rate.n)),
                percent(rate.estimate),
                f"{percent(rate.low)} to {percent(rate.high)}",
            )
            for name, rate in groups[: _SHOWN_GROUPS + 1]
        ]

    def __repr__(self) -> str:
        rows = [("", "cases", "findings", "rate", "95 % interval"), *self._rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = [
            "  ".join(
                cell.ljust(width) if column == 0 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        ]
        doubts = [f"doubt: {doubt.said}" for doubt in self.doubts]
        worst = [] if self.worst is None else [f"worst: {self.worst.said}"]
        return "\n".join([*doubts, *lines, *worst])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{title}</th>" for title in ("", "cases", "findings", "rate", "95 % interval"))
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in self._rows())
        doubts = "".join(f"<p><strong>doubt:</strong> {escape(doubt.said)}</p>" for doubt in self.doubts)
        worst = "" if self.worst is None else self.worst._repr_html_()
        return f"{doubts}<table><tr>{head}</tr>{body}</table>{worst}"


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
            "skidpad.stimuli.pictures (docs/how-to/my-transform.md)"
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
