"""The closed loop: cars side by side, what sits in front of their cameras, and the subject that steers them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from skidpad.core.images import LATE_S, BoolArray, Camera, Capture, FloatArray, Frames, IntArray, NumpyFrames, as_numpy
from skidpad.core.progress import Progress, silent
from skidpad.core.stimuli import Recipe, Stimulus
from skidpad.oracles.lane_departure import CAP_M
from skidpad.referee.verdict import Reason, judge
from skidpad.subjects.network_subject import NetworkSubject
from skidpad.subjects.session import start
from skidpad.worlds.world import STEP_S

if TYPE_CHECKING:
    from skidpad.subjects.base import Subject
    from skidpad.worlds.scenario.scenario import Scenario
    from skidpad.worlds.world import World


def seen(
    frames: Frames,
    recipes: Sequence[Recipe],
    stimuli: Mapping[str, Stimulus],
    running: BoolArray | None = None,
    time_s: float = 0.0,
    past: Sequence[Frames] = (),
) -> Frames:
    """Returns what each car's subject sees, (N, height, width, 3), where the frames are; a car's picture does not hang on its neighbours.

    running: (N,), who still looks; the others' pictures stay as they are. time_s: since the drives began. past: the frames of the
    steps before, the latest last, as many as a late camera may show.
    """
    alike: dict[Recipe, list[int]] = {}
    for car, recipe in enumerate(recipes):
        if recipe.steps and (running is None or running[car]):
            alike.setdefault(recipe, []).append(car)
    if not alike:
        return frames
    shown = frames.copy() if isinstance(frames, np.ndarray) else frames.clone()
    for recipe, cars in alike.items():
        for car, picture in zip(cars, recipe.apply(frames[cars], stimuli, _capture(frames, np.array(cars), time_s, past)), strict=True):
            shown[car] = picture
    return shown


def _capture(frames: Frames, cars: IntArray, time_s: float, past: Sequence[Frames]) -> Capture:
    """Returns how the frames of some cars were taken, with what each car's camera saw before."""

    def earlier(places: IntArray, then_s: FloatArray) -> Frames:
        ago = np.clip(np.ceil((time_s - then_s - LATE_S) / STEP_S), 0, len(past)).astype(np.int64)
        found = [(frames if not steps else past[-steps])[car] for car, steps in zip(cars[places].tolist(), ago.tolist(), strict=True)]
        if all(isinstance(each, np.ndarray) for each in found):
            return np.stack([as_numpy(each) for each in found])
        import torch  # noqa: PLC0415 - takes a second

        return torch.stack([torch.as_tensor(each) for each in found])

    height, width = int(frames.shape[1]), int(frames.shape[2])
    return Capture(Camera(width, height), np.full(len(cars), time_s), earlier)


def past_steps(stimuli: Mapping[str, Stimulus]) -> int:
    """Returns how many steps back the stimuli look."""
    return ceil(max((float(getattr(stimulus, "past_s", 0.0)) for stimulus in stimuli.values()), default=0.0) / STEP_S)


BATCH = 8
BATCHES = {"cpu": BATCH, "cuda": 128}
"""Frames that a network is always shown at once, by the kind of its device, filled up where there are fewer cars. A network's last bits
depend on the size of the batch, and with some libraries (MKL on AMD) on a picture's slot in it, but not on what the other slots hold."""

AFTER_S = 2.0
"""How long a car that has left its lane is watched."""

_REPORT_STEPS = 5


class Wheel(Enum):
    """Who steers: the subject (online), or the truth while the subject is only asked (offline)."""

    SUBJECT = "online"
    TRUTH = "offline"


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """One drive, a value a frame: where the car was, what the subject answered there, what was true. All of shape (steps,).

    lateral_m: from the middle of the lane, positive to the left. collided_step: the first frame at which the car had touched
    something, None for never. problem: why the drive ended early, "" where it did not; the frame of the problem is the last.
    reason: the referee's, of the pictures before the drive failed; None where it was not asked.
    """

    lateral_m: FloatArray
    answers_rad: FloatArray
    truth_rad: FloatArray
    collided_step: int | None = None
    problem: str = ""
    reason: Reason | None = None


class Eyes:
    """Asks a subject about the frames of some cars, each with its own memory, so that no car's answer depends on another's frames.

    slots: one number a car, (count,). Modulo the size of the batch it is the car's slot in every batch, alone or beside others, so that
    a network computes each answer the same way whoever else drives. That holds to the last bit with the same build of torch, the same
    instruction set, torch on one thread and the same size of the batch.
    """

    def __init__(self, subject: Subject, slots: Sequence[int]) -> None:
        self._subject = subject
        self._column = subject.description.steering_column
        # What is no network is asked about its cars alone, as many as there are.
        self._batch, self._slots = len(slots), np.arange(len(slots))
        if isinstance(subject, NetworkSubject):
            self._batch = min(subject.batch_size, BATCHES.get(subject.network.device.type, BATCH))
            self._slots = np.array(slots) % self._batch
        self._groups = self._together(np.arange(len(slots))) if subject.lead else []
        self._sessions = [start(subject, self._batch) for _ in self._groups]

    def answer(self, frames: Frames, running: BoolArray | None = None) -> FloatArray:
        """Shows each car its next frame, (count, height, width, 3) on any device, and returns the steering, (count,) radians.

        running: (count,), who is still asked; the others' answers are 0, and who has stopped once is never asked again.
        """
        asked = np.ones(len(frames), np.bool_) if running is None else running
        answers = np.zeros(len(frames), np.float64)
        if self._sessions:
            for cars, session in zip(self._groups, self._sessions, strict=True):
                if asked[cars].any():
                    answers[cars] = session.step(frames[self._filled(cars)])[self._slots[cars], self._column]
        elif isinstance(self._subject, NetworkSubject):
            # Without a past it does not matter who sits beside whom: those who still drive fill as few batches as they can.
            for cars in self._together(np.flatnonzero(asked)):
                answers[cars] = self._subject.predict(frames[self._filled(cars)])[self._slots[cars], self._column]
        elif asked.any():
            answers[asked] = self._subject.predict(frames[asked])[:, self._column]
        return answers

    def _together(self, cars: IntArray) -> list[IntArray]:
        """Splits cars into batches in which each has its own slot to itself."""
        batches: list[list[int]] = []
        taken = [0] * self._batch
        for car in cars.tolist():
            slot = self._slots[car]
            if taken[slot] == len(batches):
                batches.append([])
            batches[taken[slot]].append(car)
            taken[slot] += 1
        return [np.array(batch) for batch in batches]

    def _filled(self, cars: IntArray) -> IntArray:
        """Returns the car of each slot, the first one where a slot is free."""
        filled = np.full(self._batch, cars[0])
        filled[self._slots[cars]] = cars
        return filled


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """One step of N cars side by side, before they steer.

    slots: see `Eyes`. shown: what each subject sees, (N, height, width, 3). truth_rad: what a careful driver would steer, (N,). inside:
    (N,), who still drives and has neither left its lane nor touched anything so far; the others' pictures may be anything.
    """

    step: int
    slots: Sequence[int]
    shown: Frames
    truth_rad: FloatArray
    inside: BoolArray


Observer = Callable[[Moment], None]
"""Is shown every step of some drives; it changes nothing about them."""


def ride(
    world: World,
    scenarios: Sequence[Scenario],
    recipes: Sequence[Recipe],
    stimuli: Mapping[str, Stimulus],
    subject: Subject,
    wheel: Wheel = Wheel.SUBJECT,
    progress: Progress = silent,
    slots: Sequence[int] | None = None,
    *,
    is_refereed: bool = False,
    observer: Observer | None = None,
) -> list[Course]:
    """Drives the scenarios side by side, at most the world's width, each under its recipe, and returns their courses in order.

    slots: see `Eyes`; by default each car's place among the scenarios. is_refereed: ask the referee about some pictures of each drive that
    fails behind a stimulus. observer: is shown every step.

    A car ends by itself: after its scenario's time, AFTER_S after it has left its lane, or with an answer that is not finite. What the
    others do changes nothing about it.
    """
    world.reset(scenarios)
    count = len(scenarios)
    steps = [int(scenario.duration_s / STEP_S + 1e-9) for scenario in scenarios]
    places = range(count) if slots is None else slots
    eyes = Eyes(subject, places)
    log = np.empty((max(steps), 3, count))
    collided = np.full(count, -1)
    problems = [""] * count
    ends = np.array(steps)
    running, inside = np.ones(count, np.bool_), np.ones(count, np.bool_)
    watched = [Witnessed() if is_refereed and recipe.steps and wheel is Wheel.SUBJECT else None for recipe in recipes]
    past: deque[Frames] = deque(maxlen=past_steps(stimuli))
    for step in range(max(steps)):
        frames = world.frames(running)
        shown = seen(frames, recipes, stimuli, running, step * STEP_S, past)
        answers = eyes.answer(shown, running)
        past.append(frames)
        lateral, truth, touched = world.lateral_m(), world.truth_rad(), world.collided()
        log[step] = lateral, answers, truth
        inside &= running & (np.abs(lateral) < CAP_M) & ~touched
        if observer is not None:
            observer(Moment(step, places, shown, truth, inside.copy()))
        if step % WITNESS_STEPS == 0:
            for car in np.flatnonzero(running & (np.abs(lateral) < CAP_M) & (collided < 0)).tolist():
                witness = watched[car]
                if witness is not None:
                    witness.add(as_numpy(frames[car : car + 1])[0], as_numpy(shown[car : car + 1])[0])
        collided[running & touched & (collided < 0)] = step
        lost = running & ~np.isfinite(answers)
        for car in np.flatnonzero(lost).tolist():
            problems[car] = f"the subject answered {answers[car]} at frame {step} ({step * STEP_S:.2f} s), which steers nowhere"
        ends[lost] = step + 1
        if wheel is Wheel.SUBJECT:
            gone = running & ~lost & (np.abs(lateral) >= CAP_M)
            ends[gone] = np.minimum(ends[gone], step + 1 + round(AFTER_S / STEP_S))
        running = step + 1 < ends
        if step % _REPORT_STEPS == 0:
            progress(step, max(steps))
        if not running.any():
            break
        # Who has ended rolls on: nobody looks any more.
        world.step(np.where(running, answers if wheel is Wheel.SUBJECT else truth, 0.0))
    courses = [_course(log[: ends[car], :, car], int(collided[car]), problems[car]) for car in range(count)]
    return [
        course if witness is None or not _failed(course) else replace(course, reason=witness.reason(recipe, stimuli))
        for course, witness, recipe in zip(courses, watched, recipes, strict=True)
    ]


def _course(log: FloatArray, collided_step: int, problem: str) -> Course:
    lateral, answers, truth = log.T.copy()
    return Course(lateral, answers, truth, None if collided_step < 0 else collided_step, problem)


def _failed(course: Course) -> bool:
    return course.collided_step is not None or bool((np.abs(course.lateral_m) >= CAP_M).any())


WITNESS_STEPS = 10
"""Steps between pictures that are kept for the referee."""

_WITNESSED = 3


class Witnessed:
    """The last pictures of a drive before it failed, as they were and as the subject saw them."""

    def __init__(self) -> None:
        self._pairs: deque[tuple[NumpyFrames, NumpyFrames]] = deque(maxlen=_WITNESSED)

    def add(self, original: NumpyFrames, shown: NumpyFrames) -> None:
        """Keeps copies of one pair."""
        self._pairs.append((original.copy(), shown.copy()))

    def reason(self, recipe: Recipe, stimuli: Mapping[str, Stimulus]) -> Reason | None:
        """Returns what the referee says of most of them; of equals, the word on the last picture. None without any."""
        if not self._pairs:
            return None
        originals, shown = (np.stack(frames) for frames in zip(*self._pairs, strict=True))
        pixel_map = None
        if recipe.moves_camera(stimuli):
            originals = as_numpy(recipe.reference(originals, stimuli))
            pixel_map = recipe.pixel_map(stimuli, Camera.guess(shown.shape[1], shown.shape[2]))
        return Counter(reversed(judge(originals, shown, pixel_map).reasons)).most_common(1)[0][0]
