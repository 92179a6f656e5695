"""A repair from a run: the search, the limit that was aimed at, and drives in a closed loop before and after."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from safetensors.torch import load_file

from skidpad.core.progress import Progress, silent
from skidpad.core.registry import MEMORY, giving
from skidpad.kinds.drives.summary import DriveVerdict, summarise
from skidpad.kinds.kind import load_campaign
from skidpad.repairs.outcome import RECOMMENDED, Driven, Outcome, search
from skidpad.repairs.source import reached, task_of
from skidpad.runs.folder import Run
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.subjects.training.fitting import copied

if TYPE_CHECKING:
    from pathlib import Path

    from skidpad.repairs.lessons import Loss, OwnStep
    from skidpad.repairs.plan import SearchSettings


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """Drives that are made before and after."""

    scenarios: int
    stimuli: tuple[str, ...]
    domain: str = "extended"
    seconds: float = 20.0


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
    outcome = search(task, out, settings, progress)
    if loop is not None and outcome.recommended:
        outcome = replace(outcome, driven=driven(subject, out, settings, loop, progress))
    if task.aim is not None:
        _, judged = task.drive.split(settings.train_share)
        after = _recommended(subject, out) if outcome.recommended else subject
        outcome = replace(outcome, reached=reached(run, task.aim, subject, after, judged))
    return outcome


def _recommended(subject: NetworkSubject, out: Path) -> NetworkSubject:
    module = copied(subject.module)
    module.load_state_dict(load_file(out / f"{RECOMMENDED}.safetensors"))
    return NetworkSubject.of_module(module.eval(), subject.description, device=str(subject.network.device))


def driven(subject: NetworkSubject, out: Path, settings: SearchSettings, loop: ClosedLoop, progress: Progress) -> tuple[Driven, ...]:
    """Drives the same scenarios with the first and the recommended network; drives that are there are not made again."""
    counts: dict[str, dict[str, tuple[int, int]]] = {}
    text = f"{MEMORY}{subject.description.name}@{subject.sha256[:12]}"
    for name, asked in (("before", text), ("after", str((out / f"{RECOMMENDED}.toml").absolute()))):
        config = {
            "campaign": "online",
            "subject": asked,
            "domain": loop.domain,
            "scenarios": loop.scenarios,
            "stimuli": list(loop.stimuli),
            "seconds": loop.seconds,
            "seed": settings.seed,
            "device": settings.device,
        }
        folder = out / "drives" / name
        with giving({text: subject}):
            campaign = load_campaign(config, "the closed loop")
            run = Run.open(folder) if (folder / "config.toml").exists() else campaign.start(folder)
            campaign.execute(run, progress)
        counts[name] = {}
        for case in summarise(run).cases:
            if case.verdict in {DriveVerdict.PASS, DriveVerdict.FAIL, DriveVerdict.FLAKY}:
                drives, failed = counts[name].get(case.condition, (0, 0))
                counts[name][case.condition] = (drives + 1, failed + (case.verdict is not DriveVerdict.PASS))
    return tuple(
        Driven(condition, drives, failed, counts["after"].get(condition, (0, 0))[1])
        for condition, (drives, failed) in counts["before"].items()
    )
