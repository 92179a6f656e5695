"""Duels as a job: train egos, train adversaries against the best, test every column, repair the ego, and test what that brought.

Reference: adversarial testing, sections IV and V-A. Each training and each policy's tests are one shard of a run, so that a run that
was stopped goes on with the next; the shards of a phase run side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from skidpad.core.progress import Progress, silent
from skidpad.highway.rewards import REWARDS
from skidpad.highway.scenes import scene
from skidpad.kinds.duels.arena import Arena, EngineArena, SceneArena, scenario_named
from skidpad.kinds.duels.drivers import Drivers, Kept, KeptShards, learned
from skidpad.kinds.duels.estimate import duel_estimate, opponents_of
from skidpad.kinds.duels.phases import DuelWork
from skidpad.kinds.duels.records import SCHEMA
from skidpad.kinds.duels.settings import GIVEN, DuelSettings
from skidpad.kinds.estimating import PHASE
from skidpad.kinds.kind import check_unchanged, start_run
from skidpad.kinds.shards import Meter, crew_for, mapped, run_shards
from skidpad.runs.folder import Run
from skidpad.runs.manifest import Manifest
from skidpad.runs.workers.here import Here

if TYPE_CHECKING:
    from skidpad.runs.workers.protocol import Work, Workers


@dataclass(frozen=True)
class Duel:
    """A campaign with everything loaded."""

    settings: DuelSettings
    arena: Arena
    drivers: Drivers
    seen: Manifest | None = None

    @classmethod
    def load(cls, settings: DuelSettings, seen: Manifest | None = None) -> Self:
        """Reads scenarios, rewards and policies, so that a wrong one ends the work at once; policies only where they are needed."""
        for name in settings.rewards:
            REWARDS.get(name)
        arena: Arena
        if settings.env:
            arena = SceneArena(scene(settings.env))
        else:
            meeting, behind_idm = scenario_named(settings.scenario), scenario_named(settings.pretraining)
            arena = EngineArena(meeting.crowded(settings.adversaries_at_once), behind_idm.crowded(settings.adversaries_at_once))
        campaign = cls(settings, arena, Drivers(settings, arena.scenario), seen)
        if seen is not None:
            return campaign
        campaign.drivers.given_hashes()
        if settings.estimate:
            opponents_of(campaign.work(KeptShards({})))
        if settings.ego and settings.repairs:
            learned(campaign.drivers.ego(GIVEN), settings.ego)
        return campaign

    @property
    def hashes(self) -> Mapping[str, str]:
        """The scenarios in full, and the hashes of what the user brought."""
        scenarios = {"scenario": self.arena.scenario.to_json(), "pretraining": self.arena.pretraining.to_json()}
        if self.seen is not None:
            return {**self.seen.hashes, **scenarios}
        return scenarios | self.drivers.given_hashes()

    def start(self, out: Path) -> Run:
        """Makes the run folder."""
        return start_run(self, out, self.settings.to_config(), SCHEMA)

    def execute(self, run: Run, progress: Progress = silent, workers: Workers | None = None) -> None:
        """Computes what the run lacks; killed at any moment and executed again, it ends with the same records."""
        check_unchanged(self, run)
        phases = self.work(run).phases()
        estimated = self.settings.budget if self.settings.estimate else 0
        meter = Meter(progress, sum(phase.shards * phase.weight for phase in phases) + estimated)
        # highway-env holds the interpreter all the time, so that threads would only be in each other's way
        chosen = workers or (Here(1) if self.settings.env else None)
        with run.lock(), crew_for(self, run, chosen) as crew:
            for phase in phases:
                meter.begin(phase.name, phase.weight * len(run.completed(phase.name)))
                shards = mapped(crew, phase.name, KeptShards.of(run), meter, phase.weight)
                run_shards(run, phase.name, phase.shards, shards)
            work = self.work(run)
            work.drivers.write_policies()
            counts = {phase.name: phase.shards for phase in phases}
            if estimated:
                meter.begin(PHASE, 0)
                counts[PHASE] = duel_estimate(work).execute(run, crew, meter.part(estimated))
            run.finish(counts)

    def step(self, name: str, given: KeptShards) -> Work:
        """Returns the work of a phase, given what the phases before it keep."""
        return next(phase.work for phase in self.work(given).phases() if phase.name == name)

    def item_name(self, step: str, item: int) -> str:
        """Names a shard."""
        return f"shard {item} of {step}"

    def work(self, kept: Kept) -> DuelWork:
        """Returns the work on a run, or on what is known of it: its phases, and who drives in it."""
        return DuelWork(self.settings, self.arena, self.drivers.within(kept), kept)


def load_duel(config: Mapping[str, Any], seen: Manifest | None = None) -> Duel:
    """Trains a front vehicle to make an ego crash, tests who crashes against whom, and retrains the ego."""
    return Duel.load(DuelSettings.from_config(config), seen)
