"""A repair from a run: the search, the limit that was aimed at, and drives in a closed loop before and after."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from skidpad.core.errors import BadSubjectError
from skidpad.core.progress import Progress, silent
from skidpad.kinds.kind import load_campaign
from skidpad.repair.outcome import RECOMMENDED, Outcome, search
from skidpad.repair.retraining import check_trainable
from skidpad.repair.source import reached, task_of
from skidpad.runs.folder import Run
from skidpad.subjects.loading import load_subject

if TYPE_CHECKING:
    from pathlib import Path

    from skidpad.repair.search import SearchSettings
    from skidpad.subjects.network_subject import NetworkSubject


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """Drives that are made before and after."""

    scenarios: int
    stimuli: tuple[str, ...]
    domain: str = "extended"


@dataclass(frozen=True, slots=True)
class Driven:
    """How many drives failed, before and after."""

    drives: int
    failures_before: int
    failures_after: int


def repair_run(
    subject: NetworkSubject,
    run: Run,
    out: Path,
    settings: SearchSettings,
    *,
    hold: str = "",
    source: str = "",
    loop: ClosedLoop | None = None,
    progress: Progress = silent,
) -> Outcome:
    """Repairs the network of a run; the outcome is not written yet."""
    check_trainable(subject)
    task = task_of(run, subject, hold=hold, source=source, referee=settings.referee, device=settings.device)
    outcome = search(task, out, settings, progress)
    if not outcome.recommended:
        return outcome
    after = load_subject(out / f"{RECOMMENDED}.toml", settings.device)
    if task.aim is not None:
        _, judged = task.drive.split(settings.train_share)
        outcome = replace(outcome, reached=reached(run, task.aim, subject, after, judged))
    return outcome
