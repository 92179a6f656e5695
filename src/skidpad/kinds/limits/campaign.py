"""The search for limits as a job, and its settings: severities in rounds, each placed by what the rounds before it found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from skidpad.core.errors import BadDriveError, BadParametersError, SkidpadError
from skidpad.core.progress import Progress, silent
from skidpad.core.settings import Count, Natural, OneOf, Positive, Within
from skidpad.core.stimuli import Recipe, Stimulus
from skidpad.drives.opening import LostDrive
from skidpad.kinds.drives.campaign import scenarios_of
from skidpad.kinds.drives.loop import Wheel
from skidpad.kinds.drives.records import Case
from skidpad.kinds.drives.work import ClosedLoopRunner, Drives
from skidpad.kinds.kind import CampaignSettings, asks_referee, check_unchanged, drive_of, start_run, subject_of
from skidpad.kinds.limits.curves import LimitRow, row_named, rows_of
from skidpad.kinds.limits.probes import DRIVES, PROBES, SCHEMA, FrameSample, Judge, Probe, ProbePart, ProbeWork, drive_records
from skidpad.kinds.limits.summary import Found, online_phase, pair_phase, round_phase
from skidpad.kinds.pictures.judging import JudgedOutput, Originals, check_relation, default_relation, default_tolerance, relation_of
from skidpad.kinds.pictures.settings import NOTES, DeepTestSettings
from skidpad.kinds.shards import crew_for, mapped, mapped_parts, run_shards
from skidpad.oracles.relations import LabelMse, SteersAlike
from skidpad.referee.verdict import judge
from skidpad.runs.folder import Run
from skidpad.runs.manifest import Manifest
from skidpad.runs.records import ORIGINALS, ShardResult
from skidpad.stimuli.registry import ORIGINAL, model_hashes

if TYPE_CHECKING:
    from skidpad.core.images import NumpyFrames
    from skidpad.drives.drive import Drive
    from skidpad.kinds.drives.loop import Course
    from skidpad.oracles.relations import Relation
    from skidpad.runs.workers.protocol import Crew, Work, Workers
    from skidpad.subjects.base import Subject

REFEREE = ("on", "off")


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsSettings(CampaignSettings):
    """One search for limits.

    subject: path of a description. drive: text for `open_drive`. conditions: names of conditions or of their severities; empty means
    all. output, relation, tolerance, threshold: as in `skidpad test`, by default `steers-alike`. accepted_share: of frames that may
    fail where a network still holds. frames: how many of the drive are shown, evenly spaced (0: all). stretch_frames: neighbouring
    frames that are drawn together by the bootstrap (0: those of two seconds). steps: into how many steps the way from harmless to
    worst is cut; limits are found to one of them. pairs: two severities each, as "fog,dusk". online: whether the built-in world is
    driven too; scenarios, domain, seconds: what is driven there. referee: whether changed pictures that are another scene are left out.
    """

    campaign: ClassVar = "limits"
    notes: ClassVar = NOTES

    subject: str
    drive: str
    conditions: tuple[str, ...] = ()
    output: str = "steering"
    relation: str = ""
    tolerance: Positive | None = None
    threshold: float = 0.5
    accepted_share: Annotated[float, Within(above=0, below=1)] = 0.05
    frames: Natural = 500
    stretch_frames: Natural = 0
    steps: Annotated[int, Within(least=4, most=1024)] = 32
    pairs: tuple[str, ...] = ()
    online: bool = False
    scenarios: Count = 6
    domain: str = "restricted"
    seconds: Annotated[float, Within(least=1, most=120)] = 10.0
    referee: Annotated[str, OneOf("setting of the referee", REFEREE)] = "on"
    seed: int = 0
    device: str = "cpu"

    def check_together(self) -> None:
        """Refuses settings that do not go together."""
        if self.steps % 4:
            raise SkidpadError(f"steps is a multiple of 4, since the search begins at the quarters of the way; got {self.steps}")


_CHECKED = 8
"""Frames that are looked at before anything begins: do they show anything, and a road?"""

_BLANK_LEVELS = 4.0
"""Grey levels by which a picture with something in it varies."""


@dataclass(frozen=True)
class Limits:
    """A campaign with everything loaded. judge: the referee, None where nobody asks it."""

    settings: LimitsSettings
    subject: Subject
    drive: Drive
    rows: tuple[LimitRow, ...]
    stimuli: Mapping[str, Stimulus]
    judge: Judge | None = None

    @classmethod
    def load(cls, settings: LimitsSettings, seen: Manifest | None = None) -> Self:
        """Loads the subject, opens the drive, looks up every name and looks at some frames, so that what is wrong ends the work at once."""
        rows, made = rows_of(settings.conditions, settings.steps, settings.pairs)
        subject = subject_of(seen, settings.subject, settings.device)
        drive = drive_of(seen, settings.drive)
        if isinstance(drive, LostDrive):
            return cls(settings, subject, drive, rows, made)
        campaign = cls(resolved(settings, subject, drive), subject, drive, rows, made, default_judge(settings, drive.views))
        campaign.check_pairs()
        if seen is None:
            campaign.check_frames()
        return campaign

    @cached_property
    def judged(self) -> JudgedOutput:
        """Which of the subject's outputs is judged."""
        return JudgedOutput.of(self.subject.description, self.settings.output)

    @cached_property
    def sample(self) -> FrameSample:
        """The frames that are shown."""
        return FrameSample.of(self.drive, self.settings.frames, self.settings.stretch_frames, self.subject.lead)

    @cached_property
    def pairs(self) -> tuple[tuple[LimitRow, LimitRow], ...]:
        """The pairs of severities that are mapped."""
        found = []
        for text in self.settings.pairs:
            names = [name.strip() for name in text.split(",")]
            if len(names) != 2:
                raise BadParametersError(f"a pair is two conditions with a comma, as fog,dusk; got {text!r}")
            first, second = (row_named(name, self.rows) for name in names)
            if first.stimulus == second.stimulus:
                raise BadParametersError(f"a pair is of two conditions; {first.name} and {second.name} are both {first.stimulus}")
            found.append((first, second))
        return tuple(found)

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """The drives of the built-in world without any stimulus; none where nothing is driven."""
        s = self.settings
        if not s.online:
            return ()
        drawn = scenarios_of(s.domain, s.scenarios, (), s.seconds, s.seed).scenarios
        return tuple(Case(each.name, each.scenario, ORIGINAL, Recipe(), 0, slot) for slot, each in enumerate(drawn))

    @property
    def runner(self) -> ClosedLoopRunner:
        """What makes the drives."""
        return ClosedLoopRunner(self.subject, "built-in", self.stimuli, 0, self.settings.device)

    @property
    def hashes(self) -> Mapping[str, str]:
        """The hashes of subject and drive, and of the models behind conditions."""
        return {"subject": self.subject.sha256, "drive": self.drive.sha256, **model_hashes(self.stimuli)}

    def relation(self, originals: Originals) -> Relation:
        """Returns the relation that judges this campaign's answers."""
        s = self.settings
        judging = DeepTestSettings(subject=s.subject, drive=s.drive, relation=s.relation, tolerance=s.tolerance, threshold=s.threshold)
        return relation_of(judging, self.judged, self.drive, originals)

    def start(self, out: Path) -> Run:
        """Makes the run folder."""
        return start_run(self, out, {**self.settings.to_config(), "unit": self.judged.stored_unit}, SCHEMA, self.drive.frame_shape)

    def execute(self, run: Run, progress: Progress = silent, workers: Workers | None = None) -> None:
        """Computes what the run lacks; each round follows from the records of those before it, so that a resumed run is the same run."""
        check_unchanged(self, run, SCHEMA)
        shards: dict[str, int] = {}
        # Conditions are painted on the CPU: a thread a core feeds the GPU, too.
        with run.lock(), crew_for(self, run, workers) as crew:
            shards[ORIGINALS] = len(self.sample.chunks)
            run_shards(run, ORIGINALS, shards[ORIGINALS], mapped(crew, ORIGINALS, None), progress)
            originals = Originals.of(run, len(self.drive))
            if not np.isfinite(originals.answer).any():
                raise SkidpadError(
                    f"{self.subject.description.name!r} has no finite {self.judged.name} on any frame of {self.drive.name!r}, "
                    "so that there is nothing to hold; look at both with `skidpad inspect`"
                )
            found = Found.of_originals(self, run)
            work = partial(self._probes, run, crew, originals, progress)
            self._rounds(found, round_phase, found.wanted, work, shards)
            for number, pair in enumerate(self.pairs):
                self._rounds(found, partial(pair_phase, number), partial(found.wanted_cells, pair), work, shards)
            if self.cases:
                self._rounds(found, online_phase, found.wanted_drives, partial(self._drives, run, crew, progress), shards)
            run.finish(shards)

    def _rounds(
        self,
        found: Found,
        phase_of: Callable[[int], str],
        wanted: Callable[[], Sequence[Probe]],
        work: Callable[[str, Sequence[Probe]], None],
        shards: dict[str, int],
    ) -> None:
        """Makes round after round until nothing more is wanted."""
        for number in count():
            probes = wanted()
            if not probes:
                return
            phase = phase_of(number)
            work(phase, probes)
            shards[phase] = len(probes)
            found.add(phase)

    def _probes(self, run: Run, crew: Crew, originals: Originals, progress: Progress, phase: str, probes: Sequence[Probe]) -> None:
        def parts(index: int) -> list[ProbePart]:
            return [ProbePart(probes[index], chunk) for chunk in range(len(self.sample.chunks))]

        def whole(index: int, tables: Sequence[pa.Table]) -> ShardResult:
            return ShardResult(phase, index, pa.concat_tables(tables).combine_chunks())

        run_shards(run, phase, len(probes), mapped_parts(crew, PROBES, originals, parts, whole), progress)

    def _drives(self, run: Run, crew: Crew, progress: Progress, phase: str, probes: Sequence[Probe]) -> None:
        def cases(index: int) -> tuple[Case, ...]:
            return tuple(replace(case, condition=str(probes[index]), recipe=probes[index].recipe) for case in self.cases)

        def parts(index: int) -> list[Drives]:
            return [Drives(cases(index), Wheel.SUBJECT, crew.spare_cores(len(probes)))]

        def whole(index: int, courses: Sequence[Sequence[Course]]) -> ShardResult:
            return ShardResult(phase, index, drive_records(probes[index], cases(index), courses[0]))

        run_shards(run, phase, len(probes), mapped_parts(crew, DRIVES, None, parts, whole), progress)

    def step(self, name: str, given: Any) -> Work:
        """Returns the work of a step."""
        if name == DRIVES:
            return self.runner.step
        work = ProbeWork(self, given)
        return work.originals if name == ORIGINALS else work.probe

    def item_name(self, step: str, item: Any) -> str:
        """Names an item for people."""
        if step == DRIVES:
            return str(item)
        chunk = item.chunk if isinstance(item, ProbePart) else item
        frames = self.sample.indices[self.sample.chunks[chunk]]
        under = f" under {item.probe}" if isinstance(item, ProbePart) else ""
        return f"frames {frames[0]} to {frames[-1]}{under}"

    def check_pairs(self) -> None:
        """Refuses pairs of which one is not among the rows."""
        _ = self.pairs

    def check_frames(self) -> None:
        """Refuses a drive that is too short, shows nothing, or has no road."""
        frames, stretch = len(self.sample.indices), self.sample.stretch
        if frames < 2 * stretch or frames < _CHECKED:
            wanted = max(2 * stretch, _CHECKED)
            raise BadDriveError(
                f"`limits` needs at least {wanted} frames here{'' if stretch == 1 else f', two stretches of {stretch}'}; "
                f"{self.drive.name!r} gives {frames}: take a longer drive, more --frames or a shorter --stretch-frames"
            )
        some = some_frames(self)
        if not len(some):
            return  # the originals will say what is wrong
        if not np.any(some.std(axis=(1, 2, 3)) >= _BLANK_LEVELS):
            raise BadDriveError(
                f"the frames of {self.drive.name!r} show nothing: the {len(some)} that were looked at are of one colour each; "
                "look at the drive with `skidpad inspect`"
            )
        if self.judge is None:
            return
        verdicts = self.judge(some, some, None)
        if all(word.value != "kept" for word in verdicts.words):
            reason = str(verdicts.reasons[0].value)
            raise BadDriveError(
                f"the referee keeps none of {len(some)} unchanged frames of {self.drive.name!r} ({reason}), so that it cannot tell whether "
                "a condition keeps the scene; take a drive on a road, or leave it out with --referee off"
            )


def some_frames(campaign: Limits) -> NumpyFrames:
    """Reads a few of the frames, evenly spaced."""
    indices = campaign.sample.indices
    places = np.linspace(0, len(indices) - 1, min(_CHECKED, len(indices))).round().astype(np.int64)
    return campaign.drive.read(indices[places]).frames


def is_grey(frames: NumpyFrames) -> bool:
    """Tells whether frames have no colour at all."""
    return bool(len(frames)) and bool(np.all(frames[..., :1] == frames))


def default_judge(settings: LimitsSettings, views: int) -> Judge | None:
    """Returns the referee of the settings for frames of so many cameras; None where it is off."""
    return partial(judge, device=settings.device, views=views) if asks_referee(settings.referee) else None


def resolved(settings: LimitsSettings, subject: Subject, drive: Drive) -> LimitsSettings:
    """Fills in what the settings leave to the subject and the drive, so that a run stores what was done."""
    output = JudgedOutput.of(subject.description, settings.output)
    usual = default_relation(output, drive)
    relation = settings.relation or (SteersAlike.name if usual == LabelMse.name else usual)
    check_relation(relation, output, drive)
    tolerance = default_tolerance(relation, output) if settings.tolerance is None else settings.tolerance
    sample = FrameSample.of(drive, settings.frames, settings.stretch_frames, subject.lead)
    return replace(settings, relation=relation, tolerance=tolerance, stretch_frames=sample.stretch)


def load_limits(config: Mapping[str, Any], seen: Manifest | None = None) -> Limits:
    """Finds how far a network holds under each condition."""
    return Limits.load(LimitsSettings.from_config(config), seen)
