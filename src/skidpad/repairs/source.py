"""From a run to what is repaired: its drive, its relation, its findings, and the limit that is aimed at."""

from __future__ import annotations

import shlex
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from skidpad.core.errors import BadParametersError, BadRunError, SkidpadError, UnknownNameError
from skidpad.core.stimuli import Recipe
from skidpad.drives.opening import open_drive
from skidpad.kinds.kind import load_campaign
from skidpad.kinds.limits.campaign import Limits
from skidpad.kinds.limits.curves import Standing
from skidpad.kinds.limits.holding import read_hold, tested
from skidpad.kinds.pictures.campaign import DeepTest
from skidpad.kinds.pictures.judging import Originals
from skidpad.repairs.families import at_share
from skidpad.repairs.mutants import unchanged_drive
from skidpad.repairs.outcome import Reached
from skidpad.repairs.plan import Aim, Task
from skidpad.runs.folder import Run
from skidpad.subjects.description import STEERING

if TYPE_CHECKING:
    from pathlib import Path

    from skidpad.drives.drive import Drive
    from skidpad.kinds.limits.probes import Judge
    from skidpad.repairs.lessons import Loss, OwnStep
    from skidpad.subjects.base import Subject
    from skidpad.subjects.network_subject import NetworkSubject

LIMITS = "limits"
KINDS = ("deeptest", LIMITS)
"""Campaigns whose runs a repair can begin from: those of `skidpad test` and `skidpad limits`."""


def task_of(
    run: Run,
    subject: NetworkSubject,
    *,
    hold: str = "",
    source: str = "",
    referee: bool = True,
    device: str = "cpu",
    loss: Loss | None = None,
    step: OwnStep | None = None,
) -> Task:
    """Reads a run. hold: a limit to aim at, as fog.visibility_m=100, of a run of `skidpad limits`. source: `limits` if it must be one."""
    if source not in {"", LIMITS}:
        raise UnknownNameError.among("kind of run to repair --from", source, [LIMITS])
    kind = str(run.config.get("campaign"))
    if kind not in KINDS:
        raise BadRunError(
            f"{run.path} holds a campaign {kind!r}; a repair takes runs of `skidpad test`, `skidpad limits` and `skidpad drive`"
        )
    if source and kind != LIMITS:
        raise BadRunError(f"{run.path} is no run of `skidpad limits`; make one with `skidpad limits SUBJECT DRIVE`")
    if hold and kind != LIMITS:
        raise BadParametersError(f"--hold needs a run of `skidpad limits`, and {run.path} is another kind of run")
    if kind == LIMITS and not hold:
        raise BadParametersError("a repair from a run of `skidpad limits` aims at one limit; say which, as --hold fog.visibility_m=100")
    campaign = load_campaign(run.config, str(run.path), run.manifest)
    if not isinstance(campaign, DeepTest | Limits):
        raise BadRunError(f"{run.path} holds a campaign {kind!r}, which a repair cannot read")
    if campaign.settings.output != STEERING:
        raise BadRunError(
            f"{run.path} judges the output {campaign.settings.output!r}; a repair trains steering, for which drives have labels"
        )
    drive = unchanged_drive(run, campaign.settings.drive)
    aim = Aim(*read_hold(hold, campaign.rows)) if isinstance(campaign, Limits) else None
    return Task(
        subject=subject,
        drive=drive,
        relation=campaign.relation(Originals.of(run, len(drive))),
        findings=findings_of(run) if aim is None else (),
        wanted=() if aim is not None else tuple(campaign.stimuli),
        judge=referee_of(device) if referee else None,
        aim=aim,
        loss=loss,
        step=step,
    )


def opened(run: Path, subject: str) -> Run:
    """Opens the run that a repair begins from; says of a drive that it must be tested first."""
    try:
        return Run.open(run)
    except BadRunError:
        text = str(run)
        if not is_drive(text):
            raise
        net, drive = shlex.quote(subject), shlex.quote(text)
        raise BadRunError(
            f"{text} is a drive, and a repair begins with a run: test the network first, with `skidpad test {net} {drive} --out "
            f"runs/first`, and then use `skidpad repair {net} runs/first --out mended`"
        ) from None


def is_drive(text: str) -> bool:
    """Whether a text opens a drive."""
    try:
        open_drive(text)
    except (SkidpadError, OSError):
        return False
    return True


def referee_of(device: str) -> Judge:
    """Returns the referee on a device."""
    from skidpad.referee.verdict import judge  # noqa: PLC0415  its network is for those who ask it

    return partial(judge, device=device)


def findings_of(run: Run) -> tuple[tuple[int, Recipe], ...]:
    """Returns the findings that the referee kept, as frames and recipes, worst first."""
    table = run.findings(columns=("frame_index", "recipe"))
    texts = table["recipe"].to_pylist()
    known = {text: Recipe.from_json(text) for text in set(texts)}
    return tuple((frame, known[text]) for frame, text in zip(table["frame_index"].to_pylist(), texts, strict=True))


def reached(run: Run, aim: Aim, before: Subject, after: Subject, drive: Drive) -> Reached:
    """Tests the limit that was aimed at on frames that no training saw, before and after."""
    campaign = load_campaign(run.config, str(run.path), run.manifest)
    if not isinstance(campaign, Limits):
        raise BadRunError(f"{run.path} is no run of `skidpad limits`")
    recipe = Recipe((at_share(aim.row.stimulus, campaign.stimuli[aim.row.stimulus], aim.row.severity, aim.share, {}),))
    accepted = campaign.settings.accepted_share
    points = [tested(replace(campaign, subject=subject, drive=drive), recipe).point for subject in (before, after)]
    stands = [point.standing(accepted) for point in points]
    holds = [each is Standing.HOLDS for each in stands]
    return Reached(str(aim), points[0].failing, points[1].failing, holds[0], holds[1], accepted, stands[0].value, stands[1].value)
