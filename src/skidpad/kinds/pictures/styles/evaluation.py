"""Looking at styles: scenes are decoded, shown to the subject and counted block by block, without waiting for the device.

The device is waited for once a style, or with racing at a few points on the way (after a sixteenth of the blocks, an eighth, ...),
where styles that cannot win are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import TYPE_CHECKING

import numpy as np
import torch

from skidpad.core.images import FloatArray, as_numpy
from skidpad.kinds.pictures.styles.fitness import (
    LARGEST_DIVERGENCE_RAD,
    Apart,
    FitnessWeights,
    Sighting,
    Tally,
    diversity,
    fitness,
    likely_bound,
    sighting,
    sound_bound,
)
from skidpad.kinds.pictures.styles.scenes import block_scenes
from skidpad.referee.network import QuickReferee
from skidpad.referee.verdict import Reason, judge
from skidpad.subjects.base import DeviceObservation
from skidpad.subjects.network_subject import NetworkSubject

if TYPE_CHECKING:
    from skidpad.core.images import Frames
    from skidpad.coverage.criteria import Criterion
    from skidpad.coverage.profile import Profile
    from skidpad.kinds.pictures.styles.scenes import Block, SceneSet
    from skidpad.stimuli.weather.decoding import FoldedDecoder
    from skidpad.stimuli.weather.validity import SceneFilter
    from skidpad.subjects.base import Subject


_RUNGS = 16


@dataclass(frozen=True)
class Looked:
    """A style and what it brought; `value` is -inf where it was dropped.

    sightings: at each rung. seen: how many scenes it was looked at on. measures: mean brightness and colour, where they were asked for.
    """

    style: FloatArray
    value: float
    diversity: float
    divergence_rad: float
    newly: int
    seen: int
    sightings: tuple[Sighting, ...]
    tally: Tally
    measures: tuple[float, float] = (0.0, 0.0)

    @property
    def dropped(self) -> bool:
        """Whether it was given up before the last scene."""
        return self.value == -inf


@dataclass(frozen=True)
class Goal:
    """What styles are looked at for, within one search: what is uncovered, and how much it weighs.

    uncovered: (neurons, sections) bool on the device. racing: whether tries may be dropped. measured: whether brightness and colour
    are wanted.
    """

    uncovered: torch.Tensor
    regions: int
    neurons: int
    weights: FitnessWeights
    racing: bool
    risk: float
    measured: bool = False

    @classmethod
    def of(
        cls, bits: torch.Tensor, total: int, weights: FitnessWeights, *, racing: bool = False, risk: float = 0.0, measured: bool = False
    ) -> Goal:
        """Makes the goal of covering what is not covered; bits: (neurons, sections) bool, total: how many regions can be entered."""
        open_regions = ~bits
        covered, neurons = torch.stack([bits.sum(), open_regions.any(1).sum()]).tolist()
        return cls(open_regions, max(total - int(covered), 0), int(neurons), weights, racing, risk, measured)


@dataclass
class _Entry:
    style: FloatArray
    norms: torch.Tensor
    tally: Tally
    figures: list[torch.Tensor] = field(default_factory=list)
    seen: int = 0
    dropped: bool = False


@dataclass(frozen=True)
class Glance:
    """One block of scenes under some styles, to be shown to the subject in one batch.

    norms: of the styles, (styles, ...). measured: whether brightness and colour are wanted. whole: whether the values of the neurons
    are wanted, rather than the regions that they enter. judged_from_rad: how far an answer must move for the whole referee to be asked
    about its picture; nobody's without it.
    """

    number: int
    norms: torch.Tensor
    measured: bool = False
    whole: bool = False
    judged_from_rad: float = inf


@dataclass(frozen=True)
class Glimpse:
    """What a glance brought, one style after the other; N scenes of each. It stays on the device until someone looks.

    answers: (styles x N,). regions: (styles x N, neurons). values: the same, where they were asked for. accepted: (styles x N,) bool,
    None without a filter. measures: (styles, 2), brightness and colour. frames: how many were decoded. kept: (styles x N,) bool, by the
    referee's quick looks, and reasons: the whole referee's, None where it was not asked, styles x N; both None without a referee.
    """

    answers: torch.Tensor
    regions: torch.Tensor | None
    values: torch.Tensor | None
    accepted: torch.Tensor | None
    measures: torch.Tensor | None
    frames: int
    kept: torch.Tensor | None = None
    reasons: tuple[Reason | None, ...] | None = None


ShowAll = Callable[[Sequence[Glance]], Iterable[Glimpse]]
"""Takes many glances and yields what they bring, in their order."""


class Evaluator:
    """Looks at styles for one subject, one weather and one set of scenes."""

    def __init__(
        self,
        scenes: SceneSet,
        decoder: FoldedDecoder,
        subject: Subject,
        column: int,
        criterion: Criterion,
        profile: Profile,
        scene_filter: SceneFilter | None = None,
        show_all: ShowAll | None = None,
        *,
        is_refereed: bool = False,
    ) -> None:
        """Takes the parts; show_all: who takes the glances, this evaluator itself without it.

        is_refereed: what the referee does not keep brings nothing.
        """
        self.scenes = scenes
        self.decoder = decoder
        self.subject = subject
        self.criterion = criterion
        self.profile = profile.to(decoder.device)
        self.show_all: ShowAll = show_all or partial(map, self.shown)
        self._column = column
        self._filter = scene_filter
        sources = scenes.sources if is_refereed else None
        self._referee = None if sources is None else QuickReferee(sources, str(decoder.device))
        self._original = torch.from_numpy(scenes.original).to(decoder.device)
        counted = scenes.counted
        self._counted = counted.to(decoder.device)
        self._all_counted = [bool(counted[block.scenes].all()) for block in scenes.blocks]
        self._counted_by = [int(counted[: block.scenes.stop].sum()) for block in scenes.blocks]
        self.frames_seen = 0

    @property
    def counted(self) -> int:
        """How many scenes the figures are over."""
        return self._counted_by[-1]

    @property
    def width(self) -> int:
        """How many styles fill a batch."""
        largest = max(block.count for block in self.scenes.blocks)
        return max(1, block_scenes(self.decoder) // largest)

    @property
    def rungs(self) -> tuple[int, ...]:
        """After how many blocks styles are compared: a sixteenth, an eighth, ... and all."""
        blocks = len(self.scenes.blocks)
        rung = max(1, -(-blocks // _RUNGS))
        steps: list[int] = []
        while rung < blocks:
            steps.append(rung)
            rung *= 2
        return (*steps, blocks)

    def look(self, styles: Sequence[FloatArray], goal: Goal, best: Looked | None = None) -> list[Looked]:
        """Looks at styles side by side; with racing, drops those that cannot beat the best."""
        norms = self.decoder.norms(torch.from_numpy(np.stack(styles)))
        entries = [_Entry(style, norms[place : place + 1], Tally(goal.uncovered, len(self.scenes))) for place, style in enumerate(styles)]
        start = 0
        for rung, stop in enumerate(self.rungs):
            alive = [entry for entry in entries if not entry.dropped]
            if not alive:
                break
            self._show(range(start, stop), alive, goal)
            seen = self.scenes.blocks[stop - 1].scenes.stop
            for entry in alive:
                entry.figures.append(entry.tally.figures(best.tally if best is not None else None, seen))
                entry.seen = seen
            if goal.racing and best is not None and stop < len(self.scenes.blocks):
                self._race(rung, alive, goal, best)
            start = stop
        return [self._looked(entry, goal) for entry in entries]

    def shown(self, glance: Glance) -> Glimpse:
        """Decodes one block under some styles and shows it to the subject."""
        block = self.scenes.blocks[glance.number]
        part = self.scenes.contents.part(block.rows)
        norms, styles = glance.norms, len(glance.norms)
        if styles > 1:
            norms = norms.repeat_interleave(len(part), 0)
            part = part.repeated(styles)
        frames = self.decoder.decode(part, norms, self.scenes.frame_size)
        seen = self._observe(frames)
        each = [frames if styles == 1 else frames[place * block.count : (place + 1) * block.count] for place in range(styles)]
        values = seen.values.to(self.decoder.device)
        answers = seen.answers[:, self._column].to(self.decoder.device)
        return Glimpse(
            answers,
            None if glance.whole else self.criterion.regions(values, self.subject.layers, self.profile),
            seen.values if glance.whole else None,
            self._accepted(block, each),
            torch.stack([_measures(some, block.count) for some in each]) if glance.measured else None,
            len(frames),
            self._kept(block, each),
            self._reasons(block, each, answers, glance.judged_from_rad),
        )

    def _kept(self, block: Block, each: Sequence[torch.Tensor]) -> torch.Tensor | None:
        """Tells which of the last N frames of each style the referee's quick looks keep."""
        if self._referee is None:
            return None
        return torch.cat([self._referee.kept(block.scenes, frames[len(frames) - block.count :]) for frames in each])

    def _reasons(
        self, block: Block, each: Sequence[torch.Tensor], answers: torch.Tensor, from_rad: float
    ) -> tuple[Reason | None, ...] | None:
        """Asks the whole referee about those of the last N frames of each style whose answers moved far enough."""
        if self._referee is None or self.scenes.sources is None or from_rad == inf:
            return None
        sources, device = self.scenes.sources[block.scenes], str(self.decoder.device)
        found: list[Reason | None] = []
        for place, frames in enumerate(each):
            moved = self.divergence_rad(block.scenes, answers[place * block.count : (place + 1) * block.count]) >= from_rad
            asked = np.flatnonzero(moved.cpu().numpy())
            changed = frames[len(frames) - block.count :][moved.to(frames.device)]
            said: list[Reason | None] = [None] * block.count
            for scene, reason in zip(asked.tolist(), judge(sources[asked], changed, device=device).reasons, strict=True):
                said[scene] = reason
            found += said
        return tuple(found)

    def _observe(self, clip: Frames) -> DeviceObservation:
        """Shows the subject a clip; the answers stay on the device where the subject can do so."""
        if isinstance(self.subject, NetworkSubject):
            return self.subject.observe_on_device(clip)
        seen = self.subject.observe(as_numpy(clip))
        return DeviceObservation(torch.from_numpy(seen.answers), seen.values)

    def _accepted(self, block: Block, each: Sequence[torch.Tensor]) -> torch.Tensor | None:
        """Tells which of the last N frames of each style the filter takes for scenes of the weather; None without a filter."""
        if self._filter is None or self.scenes.sources is None:
            return None
        sources = self.scenes.sources[block.scenes]
        kept = [np.asarray(self._filter.accepts(sources, frames[len(frames) - block.count :]), np.bool_) for frames in each]
        return torch.from_numpy(np.concatenate(kept)).to(self.decoder.device)

    def divergence_rad(self, scenes: slice, answers: torch.Tensor) -> torch.Tensor:
        """Returns |f(x) - f(g(x, s))| of the scenes, (N,); at most two turns, and so much for an answer that is no number."""
        distance = (answers.to(self.decoder.device) - self._original[scenes]).abs()
        return distance.nan_to_num(nan=LARGEST_DIVERGENCE_RAD).clamp(max=LARGEST_DIVERGENCE_RAD)

    def _show(self, numbers: Sequence[int], entries: list[_Entry], goal: Goal) -> None:
        together = max(len(entries), 1) if self.scenes.lead == 0 else 1
        groups = [entries[first : first + together] for first in range(0, len(entries), together)]
        norms = [torch.cat([entry.norms for entry in some]) for some in groups]
        glances = [Glance(number, some, goal.measured) for number in numbers for some in norms]
        tasks = [(number, some) for number in numbers for some in groups]
        for (number, some), shown in zip(tasks, self.show_all(glances), strict=True):
            for place, entry in enumerate(some):
                self._count(number, entry, shown, place)
            self.frames_seen += shown.frames

    def _count(self, number: int, entry: _Entry, shown: Glimpse, place: int) -> None:
        """Takes what a glance brought for the style at a place of it."""
        block = self.scenes.blocks[number]
        own = slice(place * block.count, (place + 1) * block.count)
        divergence = self.divergence_rad(block.scenes, shown.answers[own])
        regions = shown.regions[own].to(self.decoder.device) if shown.regions is not None else torch.empty(0)
        out = None if self._all_counted[number] else ~self._counted[block.scenes]
        if shown.accepted is not None:
            refused = ~shown.accepted[own].to(self.decoder.device)
            entry.tally.rejected += refused.sum()
            out = refused if out is None else out | refused
        if shown.kept is not None:
            apart = ~shown.kept[own].to(self.decoder.device)
            out = apart if out is None else out | apart
        if out is not None:
            divergence = divergence.masked_fill(out, 0.0)
            regions = regions.masked_fill(out[:, None], -1)
        entry.tally.add(block.scenes, regions, divergence)
        if shown.measures is not None:
            entry.tally.brightness += shown.measures[place].to(self.decoder.device) * block.count

    def _race(self, rung: int, alive: list[_Entry], goal: Goal, best: Looked) -> None:
        """Drops the styles that cannot win; the one place on the way where the device is waited for."""
        figures = torch.stack([entry.figures[-1] for entry in alive]).tolist()
        counted = self._counted_by[self.rungs[rung] - 1]
        if counted == 0:
            return
        for entry, row in zip(alive, figures, strict=True):
            now = sighting(row, counted)
            sound = sound_bound(now, self.counted, goal.neurons, goal.regions, LARGEST_DIVERGENCE_RAD)
            newly, divergence = sound.newly, sound.divergence
            if goal.risk > 0.0:
                likely = likely_bound(now, best.sightings[rung], best.sightings[-1], Apart(row[2], int(row[3])), goal.risk)
                newly, divergence = min(newly, likely.newly), min(divergence, likely.divergence)
            entry.dropped = fitness(newly, goal.regions, max(divergence, 0.0), goal.weights) <= best.value

    def _looked(self, entry: _Entry, goal: Goal) -> Looked:
        extra = torch.cat([torch.stack(entry.figures).flatten(), entry.tally.brightness]).tolist()
        rows = [extra[4 * place : 4 * place + 4] for place in range(len(entry.figures))]
        seen = [self._counted_by[stop - 1] for stop in self.rungs[: len(rows)]]
        sightings = tuple(sighting(row, count) for row, count in zip(rows, seen, strict=True))
        last = sightings[-1]
        mean = last.divergence_sum / max(last.seen, 1)
        value = -inf if entry.dropped else fitness(last.newly, goal.regions, mean, goal.weights)
        shown = max(entry.seen, 1) * 255.0
        measures = (extra[-2] / shown, extra[-1] / shown)
        return Looked(
            entry.style, value, diversity(last.newly, goal.regions), mean, last.newly, entry.seen, sightings, entry.tally, measures
        )


def _measures(frames: torch.Tensor, count: int) -> torch.Tensor:
    """Returns the mean brightness and colour of the last `count` frames, (2,) float64."""
    pixels = frames[len(frames) - count :].float()
    return torch.stack([pixels.mean(), (pixels.amax(-1) - pixels.amin(-1)).mean()]).double()
