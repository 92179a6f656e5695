"""One served drive: the world moves as its client says, and what the client does wrong is counted and said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic, sleep

import numpy as np

from skidpad.core.images import FloatArray, as_numpy
from skidpad.core.stimuli import Stimulus
from skidpad.kinds.drives.loop import AFTER_S, Course, seen
from skidpad.kinds.drives.records import Case
from skidpad.oracles.lane_departure import CAP_M
from skidpad.worlds.builtin import BuiltInWorld, steps_of
from skidpad.worlds.serve.simulators import Answer, DisconnectedError, FaultError, Moment, Pilot
from skidpad.worlds.world import STEP_S, EgoState

LEAST_M = 5.0
"""A car that has not come further says nothing about its steering."""


@dataclass(frozen=True, slots=True, eq=False)
class ServedCourse(Course):
    """A course, with the pedal, (steps,), -1 to 1, and the speed at each frame; answers that were clamped, or came unasked."""

    pedal: FloatArray = field(default_factory=lambda: np.zeros(0))
    speed_m_s: FloatArray = field(default_factory=lambda: np.zeros(0))
    clamped: int = 0
    unasked: int = 0


def serve_drive(world: BuiltInWorld, case: Case, stimuli: Mapping[str, Stimulus], pilot: Pilot, *, realtime: bool = False) -> ServedCourse:
    """Drives one case from a standing start, as the simulators begin, and returns its course.

    It ends as any closed-loop drive does: after its time, AFTER_S after the car has left its lane, or with an answer that is none.
    """
    state = world.reset([case.scenario], start_m_s=0.0)
    count = end = steps_of(case.scenario)
    log: list[tuple[float, float, float, float, float]] = []
    collided: int | None = None
    problem, before, answer = "", state, Answer(float(state.steering_rad[0]), 0.0)
    clamped = unasked = step = 0
    tick = monotonic()
    pilot.begin()
    while step < min(count, end):
        moment = _moment(world, case, stimuli, step, state, before, answer)
        lateral, truth = moment.lateral_m, float(world.truth_rad()[0])
        if moment.collided and collided is None:
            collided = step
        try:
            answer = _asked(pilot, moment)
        except FaultError as error:
            problem = str(error)
            log.append((lateral, np.nan, truth, 0.0, moment.speed_m_s))
            break
        clamped, unasked = clamped + answer.clamped, unasked + answer.unasked
        log.append((lateral, answer.steering_rad, truth, answer.pedal, moment.speed_m_s))
        if abs(lateral) >= CAP_M:
            end = min(end, step + 1 + round(AFTER_S / STEP_S))
        before, state = state, world.step(np.array([answer.steering_rad]), np.array([answer.pedal]))
        step += 1
        if realtime:
            tick = max(tick + STEP_S, monotonic())
            sleep(max(tick - monotonic(), 0.0))
    else:
        pilot.end(_moment(world, case, stimuli, step, state, before, answer))
    lateral_m, answers, truths, pedal, speed = np.array(log, np.float64).reshape(-1, 5).T
    came_m = float(speed.sum() * STEP_S)
    if not problem and came_m < LEAST_M:
        problem = f"the car came {came_m:.1f} m in {len(log) * STEP_S:.0f} s, too little to judge; its client gave it no throttle"
    return ServedCourse(lateral_m, answers, truths, collided, problem, pedal=pedal, speed_m_s=speed, clamped=clamped, unasked=unasked)


def _asked(pilot: Pilot, moment: Moment) -> Answer:
    """Asks; a client that is gone before its drive has begun is waited for again."""
    while True:
        try:
            return pilot.ask(moment)
        except DisconnectedError:
            if moment.step:
                raise
            pilot.begin()


def _moment(
    world: BuiltInWorld, case: Case, stimuli: Mapping[str, Stimulus], step: int, state: EgoState, before: EgoState, answer: Answer
) -> Moment:
    return Moment(
        step=step,
        time_s=step * STEP_S,
        frame=as_numpy(seen(world.frames(), [case.recipe], stimuli, time_s=step * STEP_S))[0],
        pose=state.poses[0],
        speed_m_s=float(state.speed_m_s[0]),
        acceleration_m_s2=float(state.speed_m_s[0] - before.speed_m_s[0]) / STEP_S,
        yaw_rate_rad_s=float(state.poses[0, 2] - before.poses[0, 2]) / STEP_S,
        steering_rad=float(state.steering_rad[0]),
        pedal=answer.pedal,
        lateral_m=float(world.lateral_m()[0]),
        collided=bool(world.collided()[0]),
    )
