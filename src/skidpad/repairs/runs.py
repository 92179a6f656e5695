"""A repair from a run: the search, the limit that was aimed at, and drives in a closed loop before and after."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from safetensors.torch import load_file

from skidpad.core.errors import BadParametersError, BadRunError
from skidpad.core.progress import Progress, silent
from skidpad.core.registry import MEMORY, giving
from skidpad.kinds.drives.campaign import domain_lasting
from skidpad.kinds.drives.summary import DriveVerdict, summarise
from skidpad.kinds.kind import load_campaign
from skidpad.repairs.outcome import RECOMMENDED, Driven, Outcome, search
from skidpad.repairs.plan import BEFORE, CONTROL
from skidpad.repairs.source import reached, task_of
from skidpad.runs.folder import Run
from skidpad.stimuli.registry import conditions_of
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.subjects.training.fitting import copied

if TYPE_CHECKING:
    from pathlib import Path

    from skidpad.repairs.lessons import Loss, OwnStep
    from skidpad.repairs.plan import SearchSettings


ORIGINAL = "original"
"""The stimulus that changes nothing."""


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """Drives that are made before and after."""

    scenarios: int
    stimuli: tuple[str, ...]
    domain: str = "extended"
    seconds: float = 20.0

    @classmethod
    def asked(cls, scenarios: int, stimuli: tuple[str, ...], domain: str) -> ClosedLoop | None:
        """Returns what to drive; None for no scenarios, which then have no stimulus either."""
        if stimuli and scenarios <= 0:
            raise BadParametersError(
                f"a stimulus is for drives in a closed loop; say how many, as --closed-loop 20; got {', '.join(stimuli)}"
            )
        if scenarios <= 0:
            return None
        domain_lasting(domain, 0.0)  # a name that is none ends the work before the repair, not after it
        conditions_of(stimuli)
        return cls(scenarios, stimuli, domain)


def repair_run(
    subject: NetworkSubject,
    run: Run,
    out: Path,
    settings: SearchSettings,
    *,
    hold: str = "",
    source: str = "",
    loop: ClosedLoop | None = None,
    loss: Loss | None = None,
    step: OwnStep | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Repairs the network of a run; the outcome is not written yet."""
    task = task_of(run, subject, hold=hold, source=source, referee=settings.referee, device=settings.device, loss=loss, step=step)
    outcome = with_drives(search(task, out, settings, progress), subject, out, settings, loop, progress)
    if task.aim is not None:
        _, judged = task.drive.split(settings.train_share)
        after = _trained(subject, out / f"{RECOMMENDED}.safetensors") if outcome.recommended else subject
        outcome = replace(outcome, reached=reached(run, task.aim, subject, after, judged))
    return outcome


def with_drives(
    outcome: Outcome, subject: NetworkSubject, out: Path, settings: SearchSettings, loop: ClosedLoop | None, progress: Progress = silent
) -> Outcome:
    """Adds drives in a closed loop with the first network, the control and the recommended one, where any are asked for."""
    if loop is None or not outcome.recommended:
        return outcome
    best = next((each.candidate for each in outcome.candidates if each.candidate.name == outcome.recommended), None)
    control = "" if best is None else best.control.name
    return replace(outcome, driven=driven(subject, out, settings, loop, progress, control))


def _trained(subject: NetworkSubject, weights: Path) -> NetworkSubject:
    module = copied(subject.module)
    module.load_state_dict(load_file(weights))
    return NetworkSubject.of_module(module.eval(), subject.description, device=str(subject.network.device))


def driven(
    subject: NetworkSubject, out: Path, settings: SearchSettings, loop: ClosedLoop, progress: Progress, control: str = ""
) -> tuple[Driven, ...]:
    """Drives the same scenarios with the first network, the control and the recommended one; drives that are there are not made again.

    Every network drives without a stimulus, too. Only drives that could be judged with all of them count.
    """
    places = {BEFORE: None, CONTROL: out / "candidates" / f"{control}.safetensors", "after": out / f"{RECOMMENDED}.safetensors"}
    networks = {name: place for name, place in places.items() if place is None or place.is_file()}
    found = {name: _driven_by(name, subject, place, out, settings, loop, progress) for name, place in networks.items()}
    counts: dict[str, list[tuple[str, ...]]] = {}
    for case in found[BEFORE]:
        if all(case in verdicts for verdicts in found.values()):
            counts.setdefault(case[1], []).append(tuple(name for name, verdicts in found.items() if verdicts[case]))
    return tuple(
        Driven(
            condition,
            len(cases),
            sum(BEFORE in failed for failed in cases),
            sum("after" in failed for failed in cases),
            sum(CONTROL in failed for failed in cases) if CONTROL in found else None,
        )
        for condition, cases in counts.items()
    )


def _driven_by(
    name: str, subject: NetworkSubject, weights: Path | None, out: Path, settings: SearchSettings, loop: ClosedLoop, progress: Progress
) -> dict[tuple[str, str], bool]:
    """Returns which of the drives of one network fail, by scenario and condition; those that could not be judged are left out."""
    network = subject if weights is None else _trained(subject, weights)
    described = None if weights is None else weights.with_suffix(".toml")
    is_file = described is not None and described.is_file()
    text = str(described.absolute()) if described is not None and is_file else f"{MEMORY}{subject.description.name}@{network.sha256[:12]}"
    config = {
        "campaign": "online",
        "subject": text,
        "domain": loop.domain,
        "scenarios": loop.scenarios,
        "stimuli": list(dict.fromkeys((ORIGINAL, *loop.stimuli))),
        "seconds": loop.seconds,
        "seed": settings.seed,
        "device": settings.device,
    }
    folder = out / "drives" / name
    with giving({} if is_file else {text: network}):
        campaign = load_campaign(config, "the closed loop")
        if (folder / "config.toml").exists():
            run = Run.open(folder)
            if any(run.config.get(key, config[key]) != config[key] for key in ("domain", "scenarios", "stimuli", "seconds", "seed")):
                raise BadRunError(f"{folder} holds drives of another --closed-loop, --stimulus or --domain; remove {folder.parent}")
        else:
            run = campaign.start(folder)
        campaign.execute(run, progress)
    judged = {DriveVerdict.PASS, DriveVerdict.FAIL, DriveVerdict.FLAKY}
    cases = [case for case in summarise(run).cases if case.verdict in judged]
    return {(case.scenario_name, case.condition): case.verdict is not DriveVerdict.PASS for case in cases}
