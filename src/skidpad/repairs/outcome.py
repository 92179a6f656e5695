"""What a search for a repair brings: the trade-off on the validation stretch, and the recommended one judged where no training looked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from hashlib import sha256
from math import isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from skidpad.core.progress import Progress, silent
from skidpad.core.settings import jsonable
from skidpad.kinds.limits.curves import Standing
from skidpad.kinds.pictures.judging import JudgedOutput
from skidpad.kinds.pictures.page import relation_sentence
from skidpad.page.wording import percent
from skidpad.repairs.blending import write_network
from skidpad.repairs.choice import Refusal, chosen, refusals, summed_up
from skidpad.repairs.examples import Example, examples
from skidpad.repairs.folder import begin, leaving_nothing
from skidpad.repairs.lessons import RULES, named
from skidpad.repairs.plan import CLEAN, CONTROL, SEEN, UNSEEN_SET, Rate, SearchSettings, Task, Trained
from skidpad.repairs.search import Repairs
from skidpad.statistics.intervals import Interval, student_mean
from skidpad.subjects.description import STEERING, write_atomically

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skidpad.page.model import Page

RECOMMENDED = "recommended"

_JUDGED = {UNSEEN_SET: "conditions of families that no training saw", SEEN: "families that it was trained on"}
"""The sets whose failures decide whether a repair is confirmed, in words."""


class Finished(Protocol):
    """A repair that has an end, whatever it was begun from."""

    @property
    def verdict(self) -> str:
        """Says in a sentence or two what came of it."""

    @property
    def recommended(self) -> str:
        """Names what is recommended; empty where nothing is."""

    @property
    def doubts(self) -> tuple[str, ...]:
        """Says why it is not confirmed where it is judged; empty where it is."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What else is to be known."""

    def page(self) -> Page:
        """Returns the page."""

    def to_json(self) -> str:
        """Writes the figures."""


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """One set of pictures that no training saw. The rates of control and repaired are means over seeds, with Student's t intervals.

    change_beyond_control: by what share the failure rate, for clean pictures the error, lies above the control's; below 0 it fell.
    """

    pictures: str
    cases: int
    before: float
    control: Interval
    repaired: Interval
    change_beyond_control: Interval
    rmse_before_rad: float
    rmse_control_rad: Interval
    rmse_repaired_rad: Interval


@dataclass(frozen=True, slots=True)
class Reached:
    """Whether a limit that was aimed at holds, before and after, on frames that no training saw."""

    aim: str
    failing_before: Interval
    failing_after: Interval
    holds_before: bool
    holds_after: bool
    accepted_share: float
    standing_before: str = ""
    standing_after: str = ""
    """Values of `Standing`; a limit that does not hold may be one that nothing decides."""

    @property
    def said(self) -> str:
        """Says whether it was reached."""
        before, after = (
            f"{percent(each.estimate)} fail, at most {percent(each.high)}" for each in (self.failing_before, self.failing_after)
        )
        is_sure = self.failing_after.high <= self.accepted_share
        word = "reached" if is_sure else "reached on these frames, too few to be sure"
        if not self.holds_after:
            word = {
                Standing.REFUSED.value: "cannot be told, since the referee keeps too few of these pictures",
                Standing.OPEN.value: "not reached, though so few frames do not decide it",
            }.get(self.standing_after, "not reached")
        is_unknown = self.standing_before == Standing.REFUSED.value
        held = "it held before" if self.holds_before else "nor could it before" if is_unknown else "it did not hold before"
        return f"Aim, {self.aim}: {word} ({after}; accepted is {percent(self.accepted_share)}); {held} ({before})."


@dataclass(frozen=True, slots=True)
class Driven:
    """How many drives failed in a closed loop under one stimulus, of those that could be judged with every network."""

    stimulus: str
    drives: int
    failures_before: int
    failures_after: int
    failures_control: int | None = None
    """None where the control did not drive."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One repair. recommended: the name of the candidate, "" where none helps; tested by `rows`, chosen by `candidates`."""

    subject: str
    subject_sha256: str
    drive: str
    drive_sha256: str
    settings: SearchSettings
    seen: tuple[str, ...]
    unseen: tuple[str, ...]
    frames: tuple[int, int, int]
    before: Trained
    candidates: tuple[Trained, ...]
    recommended: str
    rows: tuple[JudgedRow, ...]
    notes: tuple[str, ...]
    relation: str = ""
    """What a mutant must hold to, in words."""
    validated: int = 0
    """How many mutants the stretch that chooses has."""
    reached: Reached | None = None
    driven: tuple[Driven, ...] = ()
    examples: tuple[Example, ...] = field(default=(), compare=False, repr=False)
    """Pictures for the page; the figures leave them out."""

    def row(self, pictures: str) -> JudgedRow | None:
        """Returns the row of one set of pictures, or None."""
        return next((row for row in self.rows if row.pictures == pictures), None)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Says where the judgement does not confirm the choice: no fewer failures than before or than the control, or too high a cost."""
        found, mends = [], False
        judged = [(words, row) for name, words in _JUDGED.items() if (row := self.row(name)) is not None and row.cases]
        for words, row in judged:
            rate, others = row.repaired.estimate, {"the network did before": row.before, "the control": row.control.estimate}
            mends |= rate < row.before
            # where nobody fails there is nothing to mend
            unbeaten = [name for name, other in others.items() if not (rate < other or rate == other == 0.0)]
            if unbeaten:
                found.append(f"on {words} it fails no less often than {' and than '.join(unbeaten)}")
        if judged and not mends and not found:
            found.append("it fails no less often than the network did before, which never failed")
        return (*found, *(() if self.is_affordable else ("it costs more clean accuracy than it may",)))

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Why each candidate but the recommended one is not recommended."""
        return refusals(self.before, self.candidates, self.settings.most_cost, self.recommended)

    @property
    def clean_rise(self) -> float:
        """By what share the clean error rose where it is judged; NaN where nothing was."""
        clean = self.row(CLEAN)
        return nan if clean is None or not clean.rmse_before_rad else clean.rmse_repaired_rad.estimate / clean.rmse_before_rad - 1.0

    @property
    def is_affordable(self) -> bool:
        """Whether the clean error rose by no more than it may where it is judged, too."""
        return not self.clean_rise > self.settings.most_cost

    @property
    def verdict(self) -> str:
        """Says in a sentence or two what came of it."""
        if not self.recommended:
            cost = percent(self.settings.most_cost)
            none = (
                "No repair helped: no candidate fails less often on the validation stretch than the network does and than one that was "
                f"trained as long without mutants, at a clean error at most {cost} higher and nine tenths of the response at least."
                f"{summed_up(self.refusals)} The network is unchanged.{self._control_helps}"
            )
            if not self.before.failure_rate:
                none = (
                    "No repair helped: on the validation stretch no mutant fails with the network as it is, so that there is nothing to "
                    "mend. Repair from a run with harder conditions or a narrower tolerance. The network is unchanged."
                )
            return none if self.reached is None else f"{none} {self.reached.said}"
        chosen_one = f"{self.recommended} is the best on the stretch that chooses, but where it is judged"
        said = [f"Not confirmed: {chosen_one}, {', and '.join(self.doubts)}." if self.doubts else f"Recommended: {self.recommended}."]
        for name, words in _JUDGED.items():
            row = self.row(name)
            if row is not None and row.cases:
                rates = [percent(each) for each in (row.repaired.estimate, row.before, row.control.estimate)]
                said.append(f"On {words} it fails on {rates[0]} instead of {rates[1]} (control {rates[2]}).")
        clean = self.row(CLEAN)
        if clean is not None:
            words = (
                f"The clean error is {clean.rmse_repaired_rad.estimate:.4f} rad instead of {clean.rmse_before_rad:.4f} "
                f"(control {clean.rmse_control_rad.estimate:.4f})"
            )
            dear = f": {percent(self.clean_rise)} more, though at most {percent(self.settings.most_cost)} was to be paid"
            said.append(f"{words}{'' if self.is_affordable else dear}.")
        if self.driven:
            drives, first, after = (
                sum(getattr(each, name) for each in self.driven) for name in ("drives", "failures_before", "failures_after")
            )
            controls = [each.failures_control for each in self.driven if each.failures_control is not None]
            beside = f" (control {sum(controls)})" if len(controls) == len(self.driven) else ""
            said.append(f"In the closed loop {after} of {drives} drives fail instead of {first}{beside}.")
        if self.reached is not None:
            said.append(self.reached.said)
        return " ".join(said)

    @property
    def _control_helps(self) -> str:
        """Says that further training alone may help, where it does on the stretch that chooses."""
        controls = [each for each in self.candidates if each.candidate.way == CONTROL and each.failure_rate < self.before.failure_rate]
        control = chosen(self.before, (), controls, self.settings.most_cost)
        if control is None:
            return ""
        rates = [percent(each.failure_rate) for each in (control, self.before)]
        file = f"candidates/{control.candidate.name}.toml"
        return f" More training without mutants may help: {file} fails on {rates[0]} there instead of {rates[1]}."

    def page(self) -> Page:
        """Returns the page."""
        from skidpad.repairs.page import repair_page  # noqa: PLC0415  templates are for those who write a page

        return repair_page(self)

    def to_json(self) -> str:
        """Writes the outcome; what is not a finite number becomes null."""
        figures = asdict(replace(self, examples=()))
        figures.pop("examples")
        told = {"verdict": self.verdict, "doubts": self.doubts, "refusals": self.refusals}
        return json.dumps(jsonable(figures | told), indent=2, allow_nan=False)


def search(task: Task, out: Path, settings: SearchSettings | None = None, progress: Progress = silent) -> Outcome:
    """Trains the candidates, chooses on the validation stretch, judges, and writes everything into the folder OUT.

    OUT/recommended.toml and .safetensors are the new subject, OUT/candidates holds every network that was trained, OUT/repair.json the
    figures and OUT/report.html the page. Called again after it was killed, it goes on to the same result.
    """
    settings = settings or SearchSettings()
    with leaving_nothing(out):
        check_folder(task, out, settings)
        return _searched(task, out, settings, progress)


def _searched(task: Task, out: Path, settings: SearchSettings, progress: Progress) -> Outcome:
    repairs = Repairs(task, out, settings, progress)
    candidates = repairs.candidates()
    before = repairs.before
    trained = [repairs.train(candidate) for candidate in candidates]
    longest = max(each.strength for each in candidates)
    controls = [repairs.train(each) for each in dict.fromkeys(each.control for each in candidates if each.strength == longest)]
    best = chosen(before, controls, trained, settings.most_cost)
    rows: tuple[JudgedRow, ...] = ()
    shown: tuple[Example, ...] = ()
    if best is not None:
        again = [replace(best.candidate, seed=seed) for seed in range(settings.seed, settings.seed + settings.seeds)]
        beside = [repairs.train(each.control) for each in again]
        repaired = [repairs.train(each) for each in again]
        rows = judged_rows(
            repairs.rates(task.subject.module),
            [repairs.rates(repairs.module_of(each)) for each in beside],
            [repairs.rates(repairs.module_of(each)) for each in repaired],
        )
        shown = examples(repairs, repairs.module_of(best))
    outcome = Outcome(
        subject=task.subject.description.name,
        subject_sha256=task.subject.sha256,
        drive=task.drive.name,
        drive_sha256=task.drive.sha256,
        settings=settings,
        seen=(*repairs.families.seen, *repairs.families.weathers),
        unseen=repairs.families.unseen,
        frames=(len(repairs.train_drive), len(repairs.validation_drive), len(repairs.judged_drive)),
        before=before,
        candidates=(*controls, *trained),
        recommended="" if best is None else best.candidate.name,
        rows=rows,
        notes=tuple(repairs.notes),
        relation=relation_sentence(task.relation, JudgedOutput.of(task.subject.description, STEERING)),
        validated=int(repairs.validation.pairs.kept.sum()),
        examples=shown,
    )
    if best is not None:
        _save(repairs, best, out)
    return outcome


def written(outcome: Finished, out: Path) -> None:
    """Writes the figures and the page; the figures last, since they say that the repair is finished."""
    from skidpad.page.writing import write_page  # noqa: PLC0415  templates are for those who write a page

    page = outcome.page()
    write_page(out / "report.html", page)
    write_page(out / "report.md", page)
    write_atomically(out / "repair.json", outcome.to_json().encode())


def _save(repairs: Repairs, best: Trained, out: Path) -> None:
    description = repairs.task.subject.description
    write_network(repairs.module_of(best), replace(description, name=f"{description.name}-repaired"), out / f"{RECOMMENDED}.safetensors")


def check_folder(task: Task, out: Path, settings: SearchSettings) -> None:
    """Refuses a folder that holds a finished repair, or one that was begun otherwise."""
    aim = "" if task.aim is None else str(task.aim)
    begun: dict[str, object] = {
        "rules": RULES,
        "subject": task.subject.sha256,
        "drive": task.drive.sha256,
        "aim": aim,
        # the text of a class of one's own may hold its place in memory, which the next process does not have
        "relation": repr(task.relation) if is_dataclass(task.relation) else named(type(task.relation)),
        "findings": _digest(task),
        "own": [named(each) for each in (task.loss, task.step)],
        "settings": asdict(replace(settings, device="", threads=1)),
    }
    begin(out, begun, asdict(SearchSettings()))


def _digest(task: Task) -> str:
    """Returns what the run brought, in short: another run over the same drive has other findings to learn from."""
    findings = [(frame, recipe.to_json()) for frame, recipe in task.findings]
    return sha256(json.dumps([findings, task.wanted, task.judge is not None]).encode()).hexdigest()


def judged_rows(
    before: Mapping[str, Rate], controls: Sequence[Mapping[str, Rate]], repaired: Sequence[Mapping[str, Rate]]
) -> tuple[JudgedRow, ...]:
    """Puts the first network, the controls and the repaired ones side by side, seed by seed."""
    rows = []
    for name, first in before.items():
        ways = [[each[name] for each in networks] for networks in (controls, repaired)]
        values = [[_value(name, rate) for rate in rates] for rates in ways]
        changes = [after / other - 1.0 if other else nan for other, after in zip(*values, strict=True)]
        rows.append(
            JudgedRow(
                pictures=name,
                cases=first.pictures,
                before=_value(name, first),
                control=_possible(name, student_mean(values[0])),
                repaired=_possible(name, student_mean(values[1])),
                change_beyond_control=_no_less_than(student_mean(changes), -1.0),
                rmse_before_rad=first.rmse_rad,
                rmse_control_rad=student_mean([rate.rmse_rad for rate in ways[0]]),
                rmse_repaired_rad=student_mean([rate.rmse_rad for rate in ways[1]]),
            )
        )
    return tuple(rows)


def _possible(name: str, found: Interval) -> Interval:
    """Cuts the interval of a rate at 0 and 1, which Student's t does not know of."""
    above = _no_less_than(found, 0.0)
    return above if name == CLEAN or isnan(found.high) else replace(above, high=min(1.0, found.high))


def _no_less_than(found: Interval, least: float) -> Interval:
    return found if isnan(found.low) else replace(found, low=max(least, found.low))


def _value(name: str, rate: Rate) -> float:
    return rate.rmse_rad if name == CLEAN else rate.failure_rate
