"""Offline against online as a job, with its settings: the same scenarios both ways, and simulated against recorded drives.

Reference: offline and online testing, sections III-B (RQ0) and III-C (RQ1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np

from skidpad.core.errors import SkidpadError
from skidpad.core.images import FloatArray
from skidpad.core.progress import Progress, silent
from skidpad.core.settings import Count, Natural, OneOf, Positive
from skidpad.core.stimuli import Stimulus
from skidpad.core.units import AngleUnit
from skidpad.drives.opening import LostDrive
from skidpad.kinds import kind as kinds
from skidpad.kinds.drives.campaign import check_seconds, scenarios_of
from skidpad.kinds.drives.loop import Wheel
from skidpad.kinds.drives.records import SCHEMA, Case, scenario_json
from skidpad.kinds.drives.work import ClosedLoopRunner, DrivePhase
from skidpad.kinds.kind import CampaignSettings, RefereeName, RefereeUse, check_unchanged, drive_of, start_run, subject_of
from skidpad.kinds.shards import crew_for
from skidpad.oracles.lane_departure import ACCEPTABLE_MAE, ACCEPTABLE_MDCL
from skidpad.runs.folder import Run
from skidpad.runs.manifest import Manifest
from skidpad.stimuli.registry import WrittenStimulus, conditions_of, model_hashes
from skidpad.worlds.world import WORLDS

if TYPE_CHECKING:
    from skidpad.drives.drive import Drive
    from skidpad.runs.workers.protocol import Crew, Work, Workers
    from skidpad.subjects.base import Subject

EPSILON = 0.1
"""How far the steering of a comparable pair may be apart on average; offline and online testing, section III-B."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineVsOnlineSettings(CampaignSettings):
    """One comparison of a subject's results offline and online.

    drive: text for `open_drive`, a recorded drive with labels for RQ0; "" leaves RQ0 out. matched: scenarios of the restricted domain
    that are matched with it. scenarios: of `domain`, for RQ1. stimulus: what sits in front of the camera in RQ1 (see
    `stimuli.registry`). epsilon, mae_limit: in `unit`, which is `rad` for the numbers that
    Udacity's file holds (the paper computes with those), or `scaled25` for the degrees that the paper reads them as. mdcl_limit: of the
    normalised distance.

    Reference: offline and online testing, sections III-B and III-C.
    """

    campaign: ClassVar = "compare"

    subject: str
    drive: str = ""
    world: str = "built-in"
    domain: str = "extended"
    scenarios: Count = 50
    matched: Count = 100
    stimulus: str = "original"
    seconds: float = 20.0
    unit: Annotated[str, OneOf("unit of angles", AngleUnit)] = AngleUnit.RAD.value
    epsilon: Positive = EPSILON
    mae_limit: Positive = ACCEPTABLE_MAE
    mdcl_limit: Positive = ACCEPTABLE_MDCL
    width: Natural = 0
    referee: RefereeName = RefereeUse.ON.value
    seed: int = 0
    device: str = "cpu"

    def check_together(self) -> None:
        """Refuses settings that do not go together."""
        check_seconds(self.seconds)

    @property
    def unit_rad(self) -> float:
        """How many radians of the steering wheel one of the unit is."""
        return AngleUnit(self.unit).rad


MATCHED, OFFLINE, ONLINE = "matched", "offline", "online"
"""The phases: restricted scenarios driven by the truth for RQ0; those of RQ1 driven by the truth, and by the subject."""

_REAL, _RECORDED = "recorded-answers.bin", "recorded"
_BATCH = 64


@dataclass(frozen=True)
class OfflineVsOnline:
    """A campaign with everything loaded; `drive` is None where RQ0 is left out, and a LostDrive where it is gone."""

    settings: OfflineVsOnlineSettings
    subject: Subject
    drive: Drive | None
    scenarios: tuple[Case, ...]
    restricted: tuple[Case, ...]
    stimuli: Mapping[str, Stimulus] = field(default_factory=dict)

    @classmethod
    def load(cls, settings: OfflineVsOnlineSettings, seen: Manifest | None = None) -> Self:
        """Loads the subject, opens the drive and draws the scenarios, so that a wrong one ends the work at once."""
        WORLDS.get(settings.world)
        drive = drive_of(seen, settings.drive) if settings.drive else None
        if drive is not None and not isinstance(drive, LostDrive) and not drive.has_labels:
            raise SkidpadError(f"no frame of {drive.name!r} has a label, so that simulated steering cannot be matched; give another drive")
        subject = subject_of(seen, settings.subject, settings.device)
        _ = subject.description.steering_column  # a subject without steering ends the work here
        (condition,), stimuli = conditions_of((settings.stimulus,))
        # Simulated pictures are matched with recorded ones as they are.
        restricted = _cases("restricted", settings.matched, settings, conditions_of(())[0][0], {}) if drive is not None else ()
        cases = _cases(settings.domain, settings.scenarios, settings, condition, stimuli)
        return cls(settings, subject, drive, cases, restricted, stimuli)

    @property
    def hashes(self) -> Mapping[str, str]:
        """The hashes of the subject, the drive and all scenarios."""
        text = "\n".join(scenario_json(case.scenario) for case in (*self.restricted, *self.scenarios))
        drive = {"drive": self.drive.sha256} if self.drive is not None else {}
        return {"subject": self.subject.sha256, "scenarios": sha256(text.encode()).hexdigest(), **drive, **model_hashes(self.stimuli)}

    @cached_property
    def runner(self) -> ClosedLoopRunner:
        """What makes the drives."""
        s = self.settings
        is_refereed = kinds.asks_referee(s.referee)
        return ClosedLoopRunner(self.subject, s.world, self.stimuli, s.width, s.device, is_refereed)

    def start(self, out: Path) -> Run:
        """Makes the run folder."""
        recorded = () if self.drive is None else (self.drive.frame_shape,)
        return start_run(self, out, self.settings.to_config(), SCHEMA, self.runner.frame_shape, *recorded)

    def execute(self, run: Run, progress: Progress = silent, workers: Workers | None = None) -> None:
        """Computes what the run lacks; killed at any moment and executed again, it ends with the same records."""
        check_unchanged(self, run, SCHEMA)
        phases = [DrivePhase(OFFLINE, Wheel.TRUTH, self.scenarios), DrivePhase(ONLINE, Wheel.SUBJECT, self.scenarios)]
        with run.lock(), crew_for(self, run, workers, self.settings.device) as crew:
            if self.drive is not None:
                self._recorded_answers(run, crew, progress)
                phases.insert(0, DrivePhase(MATCHED, Wheel.TRUTH, self.restricted))
            run.finish(self.runner.execute(run, phases, crew, progress))

    def step(self, name: str, given: None) -> Work:  # noqa: ARG002  a drive needs nothing but its case
        """Returns the work of a step: making drives, or asking the subject about a block of the recording."""
        return self._recorded if name == _RECORDED else self.runner.step

    def item_name(self, step: str, item: Any) -> str:
        """Names the drives of an item, or the frames."""
        return f"frames {self._block(item)[0]} to {self._block(item)[-1]} of the recorded drive" if step == _RECORDED else str(item)

    def recorded_answers(self, run: Run) -> FloatArray:
        """Returns the subject's answers on the recorded drive, (frames,) radians, NaN for broken frames; asked once a run."""
        with crew_for(self, run, None, self.settings.device) as crew:
            return self._recorded_answers(run, crew, silent)

    def _recorded_answers(self, run: Run, crew: Crew, progress: Progress) -> FloatArray:
        if self.drive is None:
            return np.zeros(0)
        kept = run.read_state(_REAL)
        if kept is not None and len(kept) == 8 * len(self.drive):
            return np.frombuffer(kept, "<f8").astype(np.float64)
        answers = np.full(len(self.drive), np.nan)
        done = 0
        for block, part in crew.map(_RECORDED, None, range(-(-len(self.drive) // self._block_frames))):
            answers[self._block(block)] = part
            done += len(part)
            progress(done, len(self.drive), "recorded drive")
        run.write_state(_REAL, answers.astype("<f8").tobytes())
        return answers

    def _recorded(self, block: int, _: Progress) -> FloatArray:
        frames = self._block(block)
        answers = np.full(len(frames), np.nan)
        batch = self._recording.read(frames, 1 if self.settings.device == "cpu" else None, lead=self.subject.lead)
        if len(batch):
            answers[batch.indices - frames[0]] = self.subject.predict(batch.clip)[:, self.subject.description.steering_column]
        return answers

    @property
    def _recording(self) -> Drive:
        if self.drive is None:
            raise ValueError("the campaign has no recorded drive")
        return self.drive

    @property
    def _block_frames(self) -> int:
        return max(_BATCH, 2 * self.subject.lead)

    def _block(self, block: int) -> range:
        start = block * self._block_frames
        return range(start, min(start + self._block_frames, len(self._recording)))


def _cases(
    domain: str, count: int, settings: OfflineVsOnlineSettings, condition: WrittenStimulus, stimuli: Mapping[str, Stimulus]
) -> tuple[Case, ...]:
    drawn = scenarios_of(domain, count, (), settings.seconds, settings.seed)
    return tuple(
        Case(each.name, each.scenario, condition.text, condition.recipe(stimuli, settings.seed, slot), slot=slot)
        for slot, each in enumerate(drawn.scenarios)
    )


def load_offline_vs_online(config: Mapping[str, Any], seen: Manifest | None = None) -> OfflineVsOnline:
    """Tests a network offline and online on the same scenarios, and simulated against recorded drives."""
    return OfflineVsOnline.load(OfflineVsOnlineSettings.from_config(config), seen)
