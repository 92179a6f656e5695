"""Drives as an estimator asks for them: points of a domain model."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from skidpad.core.images import BoolArray, FloatArray
from skidpad.core.stimuli import Recipe
from skidpad.kinds.drives.loop import Wheel
from skidpad.kinds.drives.records import Case, build_records
from skidpad.kinds.estimating import PHASE, FailureEstimate
from skidpad.statistics.rare import Batch, Goal, Method

if TYPE_CHECKING:
    import pyarrow as pa

    from skidpad.kinds.drives.settings import OnlineSettings
    from skidpad.kinds.drives.work import ClosedLoopRunner
    from skidpad.runs.workers.protocol import Crew
    from skidpad.worlds.scenario.domain import Domain
    from skidpad.worlds.scenario.scenario import Scenario


BATCH = 32
"""Drives that an estimator asks for at once, where nobody says; plain Monte Carlo is looked at after so many."""


@dataclass(frozen=True, eq=False)
class DriveSimulation:
    """Drives a subject through scenarios of a domain."""

    domain: Domain
    runner: ClosedLoopRunner

    @property
    def dimensions(self) -> int:
        """How many variables the domain has."""
        return len(self.domain.variables)

    def is_valid(self, points: FloatArray) -> BoolArray:
        """Tells which scenarios obey the domain's constraints, (N,)."""
        return np.array([not self.domain.violations(self._scenario(point)) for point in points], np.bool_)

    def records(self, batch: Batch, first: int, crew: Crew) -> pa.Table:
        """Drives a batch."""
        cases = [
            Case(f"{PHASE}-{first + place:05d}", self._scenario(point), batch.stage, Recipe(), slot=first + place)
            for place, point in enumerate(batch.points)
        ]
        courses = self.runner.courses_by(crew, cases, Wheel.SUBJECT) if cases else []
        return build_records(cases, courses, Wheel.SUBJECT, self.runner.world, self.runner.subject.sha256)

    def _scenario(self, point: FloatArray) -> Scenario:
        # A scenario's own seed hangs on its point alone, so that the same point drives the same.
        seed = int.from_bytes(blake2b(point.tobytes(), digest_size=4).digest(), "big")
        return self.domain.decode(point, seed)


def drive_estimate(settings: OnlineSettings, domain: Domain, runner: ClosedLoopRunner) -> FailureEstimate:
    """Returns the estimate that the settings ask for."""
    goal = Goal(settings.scenarios, settings.stop_below, settings.within, batch=settings.width or BATCH)
    return FailureEstimate(DriveSimulation(domain, runner), Method(settings.estimate), goal, settings.seed)
