"""What a repair from drives brings: the choice among rounds, and the chosen network judged where nobody trained or chose."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from math import nan
from typing import TYPE_CHECKING

import numpy as np

from skidpad.core.progress import Progress, silent
from skidpad.core.settings import jsonable
from skidpad.kinds.drives.campaign import features_of
from skidpad.page.wording import percent
from skidpad.repairs.blending import write_network
from skidpad.repairs.driving.page import driving_page, film_cards
from skidpad.repairs.driving.plan import DRAWN, NEAR, DrivingSettings, DrivingTask
from skidpad.repairs.driving.rounds import RULES, DrivingRepair, Taught
from skidpad.repairs.folder import begin, leaving_nothing
from skidpad.repairs.outcome import RECOMMENDED
from skidpad.repairs.plan import BEFORE, CONTROL
from skidpad.statistics.intervals import Interval, sign_flip, student_mean
from skidpad.worlds.scenario.scenario import table_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from skidpad.kinds.drives.records import Case
    from skidpad.page.model import FilmCard, Page
    from skidpad.repairs.driving.rounds import Driven

REPAIRED = "repaired"
NETWORKS = (BEFORE, CONTROL, REPAIRED)


@dataclass(frozen=True, slots=True)
class JudgedCase:
    """One scenario that judges, driven by every network: how far each strayed at most and by MDCL, and whether it failed.

    The tuples are of the first network, the control and the repaired one.
    """

    name: str
    features: str
    condition: str
    max_lateral_m: tuple[float, float, float]
    mdcl: tuple[float, float, float]
    failed: tuple[bool, bool, bool]


@dataclass(frozen=True, slots=True)
class JudgedHalf:
    """One half of the scenarios that judge. failures, mean_mdcl: of the first network, the control and the repaired one.

    mended: drives that failed and no longer do; newly_failing: those that fail only now; chance: how likely chance alone mends so many
    more than it breaks. mdcl_change: of the repaired one against the first network, drive by drive.
    """

    half: str
    drives: int
    failures: tuple[int, int, int]
    mean_mdcl: tuple[float, float, float]
    mended: int
    newly_failing: int
    chance: float
    mdcl_change: Interval

    @classmethod
    def of(cls, half: str, cases: Sequence[JudgedCase]) -> JudgedHalf:
        """Sums up the cases of one half."""
        failed = np.array([case.failed for case in cases], np.bool_).reshape(len(cases), 3)
        mdcl = np.array([case.mdcl for case in cases]).reshape(len(cases), 3)
        before, repaired = failed[:, 0], failed[:, 2]
        failures = failed.sum(axis=0).tolist()
        return cls(
            half,
            len(cases),
            (failures[0], failures[1], failures[2]),
            _three(mdcl.mean(axis=0).tolist()),
            int((before & ~repaired).sum()),
            int((~before & repaired).sum()),
            sign_flip(before.astype(np.int64) - repaired.astype(np.int64)),
            student_mean(mdcl[:, 2] - mdcl[:, 0]),
        )

    @property
    def said(self) -> str:
        """Says it in a sentence."""
        where = "drawn from the domain" if self.half == DRAWN else "near the worst drives of the run"
        before, control, repaired = self.failures
        first, beside, after = self.mean_mdcl
        return (
            f"Of {self.drives} scenarios {where} it fails in {repaired} instead of {before} (control {control}), at a mean MDCL of "
            f"{after:.3f} instead of {first:.3f} (control {beside:.3f})."
        )


@dataclass(frozen=True, slots=True)
class DrivingOutcome:
    """One repair from drives. recommended: the name of the round, "" where none helps; chosen by `rounds`, judged by `halves`.

    clean_rmse_rad: on frames of the clean drive that nobody trained or chose on, of the first network, the control and the repaired one.
    """

    subject: str
    subject_sha256: str
    run: str
    domain: str
    clean_drive: str
    failures: int
    drives: int
    settings: DrivingSettings
    before: Taught
    control: Taught
    rounds: tuple[Taught, ...]
    recommended: str
    halves: tuple[JudgedHalf, ...]
    clean_rmse_rad: tuple[float, float, float]
    cases: tuple[JudgedCase, ...]
    notes: tuple[str, ...]
    films: tuple[FilmCard, ...] = field(default=(), compare=False, repr=False)
    """For the page; the figures leave them out."""

    @property
    def clean_rise(self) -> float:
        """By what share the clean error rose where it is judged."""
        return self.clean_rmse_rad[2] / self.clean_rmse_rad[0] - 1.0 if self.clean_rmse_rad[0] else nan

    @property
    def is_affordable(self) -> bool:
        """Whether the clean error rose by no more than it may where it is judged, too."""
        return not self.clean_rise > self.settings.most_cost

    @property
    def doubts(self) -> tuple[str, ...]:
        """Says where the judgement does not confirm the choice: it does no better than before or than the control, or costs too much.

        Better is to fail in fewer of the drives that judge, or in as many and to stray less.
        """
        failures = np.array([case.failed for case in self.cases]).reshape(-1, 3).sum(axis=0).tolist()
        strays = np.array([case.mdcl for case in self.cases]).reshape(-1, 3).sum(axis=0).tolist()
        before, control, repaired = zip(failures, strays, strict=True)
        others = {"the network did before": before, "the control": control}
        unbeaten = [name for name, other in others.items() if not repaired < other]
        better = (f"it fails and strays no less than {' and than '.join(unbeaten)}",) if unbeaten else ()
        return (*better, *(() if self.is_affordable else ("it costs more clean accuracy than it may",)))

    @property
    def refusals(self) -> tuple[str, ...]:
        """Says of each round but the recommended one why it is not recommended."""
        others = [each for each in self.rounds if each.name != self.recommended]
        return tuple(refusal(self.before, self.control, each, self.settings.most_cost) for each in others)

    @property
    def verdict(self) -> str:
        """Says in a sentence or two what came of it."""
        if not self.recommended:
            none = (
                "No repair helped: on the scenarios that choose, no round does better than the network and than one that was trained as "
                f"long on the clean drive alone, at a clean error at most {percent(self.settings.most_cost)} higher."
            )
            return " ".join([none, *(f"{each}." for each in self.refusals), "The network is unchanged."])
        first, _, after = self.clean_rmse_rad
        dear = (
            ""
            if self.is_affordable
            else f": {percent(self.clean_rise)} more, though at most {percent(self.settings.most_cost)} may be paid"
        )
        clean = f"The clean error is {after:.4f} rad instead of {first:.4f}{dear}."
        best = f"{self.recommended} is the best on the scenarios that choose, but where it is judged"
        head = f"Not confirmed: {best}, {', and '.join(self.doubts)}." if self.doubts else f"Recommended: {self.recommended}."
        return " ".join([head, *(half.said for half in self.halves), clean])

    def page(self) -> Page:
        """Returns the page."""
        return driving_page(self)

    def to_json(self) -> str:
        """Writes the outcome; what is not a finite number becomes null."""
        figures = asdict(replace(self, films=()))
        figures.pop("films")
        told = {"verdict": self.verdict, "doubts": self.doubts, "refusals": self.refusals}
        return json.dumps(jsonable(figures | told), indent=2, allow_nan=False)


def drive_and_repair(task: DrivingTask, out: Path, settings: DrivingSettings, progress: Progress = silent) -> DrivingOutcome:
    """Drives and retrains in rounds, chooses, judges, and writes everything but figures and page into the folder OUT.

    OUT/recommended.toml and .safetensors are the new subject, OUT/candidates holds the network of every round and the control, OUT/work
    frames and drives. Called again after it was killed, it goes on to the same result.
    """
    repair = DrivingRepair(task, out, settings, progress)
    begun: dict[str, object] = {
        "rules": RULES,
        "subject": task.subject.sha256,
        "run": task.digest,
        "drive": repair.clean_sha256,
        "settings": asdict(replace(settings, device="", threads=1)),
    }
    with leaving_nothing(out):
        begin(out, begun, asdict(DrivingSettings()))
        return _driven_and_repaired(repair, out)


def _driven_and_repaired(repair: DrivingRepair, out: Path) -> DrivingOutcome:
    task, settings, before = repair.task, repair.settings, repair.before
    rounds = repair.rounds()
    control = repair.control(rounds[-1].frames)
    best = chosen(before, control, rounds, settings.most_cost)
    cases: tuple[JudgedCase, ...] = ()
    films: tuple[FilmCard, ...] = ()
    clean = (nan, nan, nan)
    if best is not None:
        networks = dict(zip(NETWORKS, (task.subject.module, *(repair.module_of(each.name) for each in (control, best))), strict=True))
        judged = repair.cases("judged", settings.judged_scenarios)
        cases = _judged(judged, [repair.drive(f"judged-{name}", module, judged) for name, module in networks.items()])
        pairs = {case.name: case for case in judged}
        runners = {name: repair.runner(networks[name]) for name in (BEFORE, REPAIRED)}
        films = film_cards(runners, [(pairs[each.name], each) for each in cases])
        clean = _three([repair.clean_rmse_rad(module, repair.clean_judged) for module in networks.values()])
        description = task.subject.description
        write_network(networks[REPAIRED], replace(description, name=f"{description.name}-repaired"), out / f"{RECOMMENDED}.safetensors")
    halves = [(half, [case for case in cases if case.name.startswith(half)]) for half in (DRAWN, NEAR)]
    return DrivingOutcome(
        subject=task.subject.description.name,
        subject_sha256=task.subject.sha256,
        run=task.run,
        domain=task.domain.name,
        clean_drive=repair.clean_name,
        failures=task.failures,
        drives=task.drives,
        settings=settings,
        before=before,
        control=control,
        rounds=tuple(rounds),
        recommended="" if best is None else best.name,
        halves=tuple(JudgedHalf.of(half, some) for half, some in halves if some),
        clean_rmse_rad=clean,
        cases=cases,
        notes=repair.notes,
        films=films,
    )


def chosen(before: Taught, control: Taught, rounds: Sequence[Taught], most_cost: float) -> Taught | None:
    """Returns the round that fails least, and then strays least, among those whose clean error rose by at most a share.

    None where it does no better than the first network and the control. The clean error may rise over that of either: what any further
    training costs is no cost of the drives.
    """
    limit = (1.0 + most_cost) * max(before.clean_rmse_rad, control.clean_rmse_rad)
    best = min((each for each in rounds if each.clean_rmse_rad <= limit), key=lambda each: each.badness, default=None)
    return best if best is not None and best.badness < min(before.badness, control.badness) else None


def refusal(before: Taught, control: Taught, taught: Taught, most_cost: float) -> str:
    """Says how a round did on the scenarios that choose, and why it is not recommended."""
    did = (
        f"{taught.name} fails in {taught.failures} of {taught.drives} drives instead of {before.failures}, at a mean MDCL of "
        f"{taught.mean_mdcl:.3f} instead of {before.mean_mdcl:.3f}"
    )
    clean, whose = max((before.clean_rmse_rad, "the network's"), (control.clean_rmse_rad, "the control's"))
    reasons = []
    if taught.clean_rmse_rad > (1.0 + most_cost) * clean:
        rise = percent(taught.clean_rmse_rad / clean - 1.0)
        blended = f" even at {percent(taught.blend)} of the way from the first weights" if taught.blend < 1.0 else ""
        reasons.append(f"its clean error is {rise} above {whose}{blended}, and {percent(most_cost)} is allowed")
    unbeaten = [name for name, other in (("the network", before), ("the control", control)) if not taught.badness < other.badness]
    if unbeaten:
        reasons.append(f"it does no better than {' and than '.join(unbeaten)}")
    return f"{did}; {' and '.join(reasons) or 'another round is better'}"


def _judged(cases: Sequence[Case], ways: Sequence[Driven]) -> tuple[JudgedCase, ...]:
    """Puts the drives of all networks side by side; those that could not be judged with one of them are left out."""
    found = []
    for place, case in enumerate(cases):
        if all(way.judged[place] for way in ways):
            lateral, mdcl = ([float(getattr(way, name)[place]) for way in ways] for name in ("max_lateral_m", "mdcl"))
            failed = [bool(way.failed[place]) for way in ways]
            features = features_of(table_of(case.scenario))
            found.append(JudgedCase(case.name, features, case.condition, _three(lateral), _three(mdcl), (failed[0], failed[1], failed[2])))
    return tuple(found)


def _three(values: Sequence[float]) -> tuple[float, float, float]:
    return values[0], values[1], values[2]
