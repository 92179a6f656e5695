"""A recorded drive made again: by asking the subject anew, and from its recorded steering for pictures."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import degrees, isfinite, isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from skidpad.core.errors import SkidpadError
from skidpad.core.images import Frames, NumpyFrames, as_numpy
from skidpad.core.stimuli import Stimulus
from skidpad.kinds.drives.loop import Wheel, past_steps, seen
from skidpad.kinds.drives.records import Case, unpack
from skidpad.page.svg import write_film
from skidpad.runs.manifest import VersionChange
from skidpad.runs.replay import Replayed, Reproduction
from skidpad.runs.workers.here import pinned
from skidpad.worlds.builtin import BuiltInWorld
from skidpad.worlds.world import STEP_S, WORLDS

if TYPE_CHECKING:
    from skidpad.kinds.drives.campaign import Online
    from skidpad.kinds.drives.compare.campaign import OfflineVsOnline
    from skidpad.kinds.drives.work import ClosedLoopRunner
    from skidpad.runs.folder import Run


_COMPARED = (
    *("steps", "max_lateral_m", "mdcl", "departed_at_s", "collided_at_s", "mae_rad", "problem", "violated"),
    *("lateral_m", "answers_rad", "truth_rad"),
)


BOUND_M, BOUND_RAD = 0.02, 0.02
"""How far a drive on another processor may lie from the one of the run at any frame. 26 extended scenarios of 10 s with the network that
comes along, under AVX2 and SSE4.1 instead of AVX-512: at most 0.004 m and 0.0055 rad, and every drive ended at the same frame."""


class Stage(Protocol):
    """What it takes to show a recorded drive again; `ClosedLoopRunner` has it, and so has one who never loads the subject."""

    @property
    def world(self) -> str:
        """A row of WORLDS."""
        ...

    @property
    def stimuli(self) -> Mapping[str, Stimulus]:
        """What recipes name."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class OnlineReplay:
    """A record and the same drive made again, alone."""

    row: Mapping[str, Any]
    again: Mapping[str, Any]
    version_changes: tuple[VersionChange, ...]

    @property
    def differences(self) -> tuple[str, ...]:
        """The columns that came out differently, to the last bit."""
        return tuple(name for name in _COMPARED if not _same(self.row[name], self.again[name]))

    @property
    def reproduction(self) -> Reproduction:
        """Compares every column; on another processor the last bits of an answer differ, and the loop makes them grow."""
        bound = f"{BOUND_M:g} m, {BOUND_RAD:g} rad and a frame"
        return Reproduction(self.differences, _is_near(self.row, self.again), bound, self.version_changes)

    @property
    def is_reproduced(self) -> bool:
        """Tells whether the drive is that of the run."""
        return self.reproduction.is_reproduced


def _is_near(row: Mapping[str, Any], again: Mapping[str, Any]) -> bool:
    """Tells whether two drives end alike, and lie within the bound at every frame."""
    if (row["violated"], row["problem"]) != (again["violated"], again["problem"]) or abs(row["steps"] - again["steps"]) > 1:
        return False
    times = [(row[name], again[name]) for name in ("departed_at_s", "collided_at_s")]
    if not all(_same(then, now) or abs(then - now) < 1.5 * STEP_S for then, now in times):
        return False
    bounds = {"lateral_m": BOUND_M, "answers_rad": BOUND_RAD, "truth_rad": BOUND_RAD}
    steps = min(row["steps"], again["steps"])
    series = {name: (unpack(row[name])[:steps], unpack(again[name])[:steps]) for name in bounds}
    return all(np.allclose(now, then, rtol=0.0, atol=bounds[name], equal_nan=True) for name, (then, now) in series.items())


def replay_drive(runner: ClosedLoopRunner, run: Run, prefix: str) -> OnlineReplay:
    """Makes the drive whose case id begins with `prefix` again, with nobody beside it."""
    row = run.find_row(prefix)
    with pinned():  # as in the run: torch on one thread, or the last bits would differ
        again = runner.records([Case.from_row(row)], Wheel(row["mode"])).to_pylist()[0]
    return OnlineReplay(row, again, run.manifest.changes())


_SHOWN = ("steps", "mdcl", "max_lateral_m", "departed_at_s", "collided_at_s", "mae_rad", "violated", "problem")


def replay_finding(campaign: Online | OfflineVsOnline, run: Run, finding: str, picture: Path | None = None) -> Replayed:
    """Makes a recorded drive again and compares everything; draws it where asked."""
    return replayed(campaign.runner, replay_drive(campaign.runner, run, finding), picture)


def replayed(stage: Stage, result: OnlineReplay, picture: Path | None) -> Replayed:
    """Words how a drive and its record compare; draws it where asked."""
    row = result.row
    drawn: tuple[Path, ...] = () if picture is None else _write_film(stage, result, picture)
    remarks = [f"scenario: {row['scenario']}"]
    if isfinite(row["mae_rad"]):
        remarks.append(f"mean distance of its answers from the truth: {degrees(row['mae_rad']):.2f} degrees of the steering wheel")
    return Replayed(
        title=f"{row['case_id']}: {row['mode']}, {row['scenario_name']}, {row['condition']}",
        rows=tuple((name, _known(row[name]), _known(result.again[name])) for name in _SHOWN),
        figures={
            "case_id": row["case_id"],
            "scenario": row["scenario"],
            "recipe": row["recipe"],
            **{name: result.again[name] for name in _SHOWN},
            "pictures": [str(path) for path in drawn],
        },
        reproduction=result.reproduction,
        remarks=tuple(remarks),
        pictures=drawn,
    )


def _known(value: object) -> object:
    """Returns what a table shows of a value: nothing where it never happened or was not measured."""
    return None if value == "" or (isinstance(value, float) and not isfinite(value)) else value


def _write_film(stage: Stage, result: OnlineReplay, path: Path) -> tuple[Path, Path]:
    """Writes the strip and the same moving; returns both paths."""
    from skidpad.kinds.drives.filmstrip import film_of, moving, strip  # noqa: PLC0415  film strips are drawn from replays

    film = film_of(stage, result.row)
    title = f"{result.row['scenario_name']}, {result.row['condition']}"
    return write_film(path, strip("strip", title, film), moving("moving", title, film))


def frames_at(stage: Stage, row: Mapping[str, Any], steps: Sequence[int]) -> list[NumpyFrames]:
    """Returns what the subject saw at some steps of a recorded drive, in rising order; the subject is not asked.

    The world is steered as recorded; one that is not deterministic may show something else. The built-in one is rendered by the CPU,
    whatever rendered the run: nobody sees the difference, and no GPU is needed to look at a drive.
    """
    case = Case.from_row(row)
    world = WORLDS.get(stage.world)(1, 1)
    pedal = unpack(row["pedal"]) if row.get("pedal") is not None else None
    if pedal is None:
        world.reset([case.scenario])
    elif isinstance(world, BuiltInWorld):
        world.reset([case.scenario], start_m_s=0.0)
    else:
        raise SkidpadError(f"the world {stage.world!r} has no pedals, so a served drive cannot be shown again in it")
    steering = unpack(row["answers_rad" if row["mode"] == Wheel.SUBJECT.value else "truth_rad"])
    pictures: list[NumpyFrames] = []
    back = past_steps(stage.stimuli)
    past: deque[Frames] = deque(maxlen=back)
    for step in range(max(steps, default=-1) + 1):
        if any(step <= wanted <= step + back for wanted in steps):
            frames = world.frames()
            if step in steps:
                pictures.append(as_numpy(seen(frames, [case.recipe], stage.stimuli, time_s=step * STEP_S, past=past))[0])
            past.append(frames)
        wanted = np.nan_to_num(steering[step : step + 1])
        if pedal is not None and isinstance(world, BuiltInWorld):
            world.step(wanted, pedal[step : step + 1])
        else:
            world.step(wanted)
    return pictures


def _same(stored: object, now: object) -> bool:
    return stored == now or (isinstance(stored, float) and isinstance(now, float) and isnan(stored) and isnan(now))
