"""The learning loop: drive a step, remember it, update the network; all compiled if the opponent is.

All randomness derives from (seed, episode), so the same seed gives bit-identical weights.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from skidpad.core.errors import BadSubjectError
from skidpad.core.images import FloatArray, IntArray
from skidpad.highway.dense import Activations, Lens, Matrix, Shape, Vector, activations_for, best_output, forward, layers_of, plain_lens
from skidpad.highway.dqn import (
    WRITTEN,
    Batch,
    DqnSettings,
    Learner,
    Rates,
    ReplayMemory,
    draw,
    draw_crashes,
    empty_batch,
    keep_last,
    learner_from,
    new_memory,
    rates_of,
    remember,
    update,
)
from skidpad.highway.engine import new_state, reset, step
from skidpad.highway.layout import ACTIONS, CRASH, EGO, FRONT, OVERTAKEN, RUNNING, TIMEOUT, VEHICLES, Action, Params, Side, action_of
from skidpad.highway.observation import observe
from skidpad.highway.opponents import AggressiveActions, ConstantActions, Idm, RandomActions, aggressive_action, ask_driver, random_action
from skidpad.highway.policies import LearnedPolicy, Policy
from skidpad.highway.randomness import LEARNER_STREAM, stream_key, uniform, whole
from skidpad.highway.rewards import MEMORY_FIELDS, RewardParams, begin_episode, pay

IDM_KIND, RANDOM_KIND, CONSTANT_KIND, NETWORK_KIND, AGGRESSIVE_KIND, SCRIPT_KIND = 0, 1, 2, 3, 4, 5
_STEPS, _COUNTER = 0, 1
_BEFORE_CRASH = 6
"""Steps that are kept of an episode with a crash."""


class Sparring(NamedTuple):
    """A frozen opponent as compiled code reads it."""

    kind: int
    action: int
    """The constant action, and the one after the end of a script."""
    script: IntArray
    """The actions of a script, step by step; empty for every other kind."""
    shape: Shape
    """Padded."""
    weights: Vector
    x: Matrix
    room: Activations


class Exploration(NamedTuple):
    """Epsilon after t steps is end + (start - end) exp(-t / steps)."""

    start: float
    end: float
    steps: float


class Trainee(NamedTuple):
    """Everything that changes while a side learns, and its scratch buffers; front vehicles learn together, in one network."""

    learner: Learner
    replay: ReplayMemory
    crashes: ReplayMemory
    """The last steps before crashes; none where no batch asks for them."""
    earned: FloatArray
    """What Eq. 4 remembers, a row for each vehicle that learns."""
    counts: IntArray
    """Steps driven so far, and random numbers used within the episode."""
    batch: Batch
    rows: IntArray
    x: Matrix
    room: Activations
    then: Matrix
    state: FloatArray


class Curve(NamedTuple):
    """One number for each training episode, (episodes,)."""

    returns: FloatArray
    outcomes: IntArray
    steps: IntArray
    epsilons: FloatArray


class Game(NamedTuple):
    """What does not change while a side learns."""

    params: Params
    reward: RewardParams
    rates: Rates
    exploration: Exploration
    side: int
    seed: int
    is_overtaking_an_end: bool
    crash_rows: int
    """How many rows of a batch are steps before crashes."""
    lens: Lens


def new_trainee(weights: Vector, shape: Shape, settings: DqnSettings, learners: int = 1, vehicles: int = VEHICLES) -> Trainee:
    """Returns a side of so many vehicles that has not learned yet and starts from the weights."""
    rows = max(learners + learners % 2, 2)
    return Trainee(
        learner=learner_from(weights, shape, settings.batch),
        replay=new_memory(shape, settings.memory),
        crashes=new_memory(shape, settings.memory // 4 if settings.crash_share else 1),
        earned=np.zeros((learners, MEMORY_FIELDS)),
        counts=np.zeros(2, np.int64),
        batch=empty_batch(shape, settings.batch),
        rows=np.zeros(settings.batch, np.int64),
        x=np.zeros((rows, shape.padded().inputs), np.float32),
        room=activations_for(shape, rows),
        then=np.zeros((learners, shape.padded().inputs), np.float32),
        state=new_state(vehicles),
    )


def new_curve(episodes: int) -> Curve:
    """Returns room for the curve of a training."""
    return Curve(np.zeros(episodes), np.zeros(episodes, np.int64), np.zeros(episodes, np.int64), np.zeros(episodes))


def new_game(params: Params, reward: RewardParams, settings: DqnSettings, side: Side, seed: int, lens: Lens | None = None) -> Game:
    """Returns the fixed part of a training."""
    inputs = params.observed_vehicles * len(params.feature_codes)
    exploration = Exploration(settings.exploration_start, settings.exploration_end, settings.exploration_steps)
    crash_rows, is_end = round(settings.crash_share * settings.batch), settings.is_overtaking_an_end
    return Game(params, reward, rates_of(settings), exploration, int(side), seed, is_end, crash_rows, lens or plain_lens(inputs))


def sparring_of(opponent: object, side: Side) -> Sparring | None:
    """Returns the opponent in the form of compiled code; None for a policy that only Python can ask."""
    shape = opponent.shape if isinstance(opponent, LearnedPolicy) else Shape(1, 1, 1, ACTIONS)
    weights = opponent.weights if isinstance(opponent, LearnedPolicy) else np.zeros(0, np.float32)
    if isinstance(opponent, Idm) and side is Side.FRONT:
        kind = IDM_KIND
    elif isinstance(opponent, RandomActions):
        kind = RANDOM_KIND
    elif isinstance(opponent, AggressiveActions):
        kind = AGGRESSIVE_KIND
    elif isinstance(opponent, ConstantActions):
        kind = CONSTANT_KIND
    elif isinstance(opponent, LearnedPolicy):
        kind = NETWORK_KIND
    else:
        return None
    action = int(opponent.action) if isinstance(opponent, ConstantActions) else int(Action.IDLE)
    x = np.zeros((2, shape.padded().inputs), np.float32)
    return Sparring(kind, action, np.zeros(0, np.int64), shape.padded(), weights, x, activations_for(shape, 2))


def scripted(actions: IntArray) -> Sparring:
    """Returns an opponent that plays the actions one after another and then keeps lane and speed."""
    kept = sparring_of(ConstantActions(), Side.FRONT)
    if kept is None:
        raise BadSubjectError("a constant action is not compiled")
    return kept._replace(kind=SCRIPT_KIND, script=np.ascontiguousarray(actions, np.int64))


@njit(nogil=True, cache=True, error_model="numpy")
def epsilon_after(exploration: Exploration, steps: int) -> float:
    """Returns the share of random actions after so many steps."""
    fallen: float = np.exp(-steps / exploration.steps)
    return exploration.end + (exploration.start - exploration.end) * fallen


@njit(nogil=True, cache=True, error_model="numpy")
def _greedy(weights: Vector, shape: Shape, params: Params, state: FloatArray, side: int, x: Matrix, room: Activations) -> int:
    observe(params, state, side, x[0])
    forward(layers_of(weights, shape), x, room)
    return best_output(room.q[0], ACTIONS)


@njit(nogil=True, cache=True, error_model="numpy")
def _spar(game: Game, sparring: Sparring, state: FloatArray, episode: int, index: int) -> int:
    """Returns the opponent's action; that of front vehicles is joint."""
    if sparring.kind == SCRIPT_KIND and index < len(sparring.script):
        return int(sparring.script[index])
    if game.side == FRONT:
        return _spar_one(game, sparring, state, EGO, episode, index)
    joint = 0
    for vehicle in range(game.params.vehicles - 1, EGO, -1):
        joint = joint * ACTIONS + _spar_one(game, sparring, state, vehicle, episode, index)
    return joint


@njit(nogil=True, cache=True, error_model="numpy")
def _spar_one(game: Game, sparring: Sparring, state: FloatArray, vehicle: int, episode: int, index: int) -> int:
    if sparring.kind == NETWORK_KIND:
        return _greedy(sparring.weights, sparring.shape, game.params, state, vehicle, sparring.x, sparring.room)
    if sparring.kind == RANDOM_KIND:
        return random_action(game.seed, episode, vehicle, index)
    if sparring.kind == AGGRESSIVE_KIND:
        return aggressive_action(state, vehicle)
    return sparring.action


@njit(nogil=True, cache=True, error_model="numpy")
def _look(game: Game, trainee: Trainee, vehicle: int, out: Vector) -> None:
    """Writes what the learner's network sees from one vehicle; `out` is padded."""
    observe(game.params, trainee.state, vehicle, out)
    if not game.lens.is_plain:
        raw = out.copy()
        for column in range(len(game.lens.offset)):
            value = game.lens.offset[column]
            for row in range(len(game.lens.offset)):
                value += raw[row] * game.lens.matrix[row, column]
            out[column] = value


@njit(nogil=True, cache=True, error_model="numpy")
def begin(game: Game, trainee: Trainee, episode: int) -> None:
    """Starts a training episode."""
    reset(game.params, game.seed, episode, trainee.state)
    begin_episode(game.reward, trainee.earned)
    trainee.counts[_COUNTER] = 0


@njit(nogil=True, cache=True, error_model="numpy")
def choose(game: Game, trainee: Trainee, episode: int) -> int:
    """Returns the learner's next action, by chance with probability epsilon; that of front vehicles is joint."""
    key = stream_key(game.seed, episode, LEARNER_STREAM)
    learners = len(trainee.earned)
    for place in range(learners):
        _look(game, trainee, game.side + place, trainee.x[place])
    forward(layers_of(trainee.learner.online, trainee.learner.shape), trainee.x, trainee.room)
    joint, unit = 0, 1
    for place in range(learners):
        counter = trainee.counts[_COUNTER]
        trainee.counts[_COUNTER] += 2
        action = best_output(trainee.room.q[place], ACTIONS)
        if uniform(key, counter) < epsilon_after(game.exploration, trainee.counts[_STEPS]):
            action = whole(key, counter + 1, ACTIONS)
        joint += unit * action
        unit *= ACTIONS
    return joint


@njit(nogil=True, cache=True, error_model="numpy")
def absorb(game: Game, trainee: Trainee, curve: Curve, episode: int, own: int, other: int) -> int:
    """Drives the step that both have chosen, learns from it and returns the outcome's code.

    Running out of time does not end the episode for the learner: it still bootstraps from the next state. Front vehicles learn from
    what each of them saw, did and earned; the crash that counts for all of them is the ego's.
    """
    ego, front = (own, other) if game.side == EGO else (other, own)
    code = step(game.params, trainee.state, ego, front)
    goes_on = 1.0 if code in {RUNNING, TIMEOUT} or (code == OVERTAKEN and not game.is_overtaking_an_end) else 0.0
    learners = len(trainee.earned)
    for place in range(learners):
        vehicle = game.side + place
        reward = pay(game.reward, game.params.lanes, trainee.state, vehicle, code == CRASH, trainee.earned[place])
        _look(game, trainee, vehicle, trainee.then[place])
        action = own if game.side == EGO else action_of(own, vehicle)
        remember(trainee.replay, trainee.x[place], action, reward, trainee.then[place], goes_on)
        if trainee.replay.counts[WRITTEN] >= len(trainee.rows):
            key = stream_key(game.seed, episode, LEARNER_STREAM)
            trainee.counts[_COUNTER] = draw(trainee.replay, key, trainee.counts[_COUNTER], trainee.rows, trainee.batch)
            if game.crash_rows > 0:
                trainee.counts[_COUNTER] = draw_crashes(trainee.crashes, key, trainee.counts[_COUNTER], game.crash_rows, trainee.batch)
            update(trainee.learner, game.rates, trainee.batch, ACTIONS)
        curve.returns[episode] += reward / learners
    if game.crash_rows > 0 and code == CRASH:
        keep_last(trainee.replay, trainee.crashes, learners * min(_BEFORE_CRASH, curve.steps[episode] + 1))
    trainee.counts[_STEPS] += 1
    curve.outcomes[episode] = code
    curve.steps[episode] += 1
    curve.epsilons[episode] = epsilon_after(game.exploration, trainee.counts[_STEPS])
    return code


@njit(nogil=True, cache=True, error_model="numpy")
def learn(game: Game, trainee: Trainee, sparring: Sparring, curve: Curve, first: int, last: int) -> None:
    """Trains for the episodes first .. last - 1 against a compiled opponent, without the interpreter's lock."""
    for episode in range(first, last):
        begin(game, trainee, episode)
        code = RUNNING
        while code == RUNNING:
            own = choose(game, trainee, episode)
            other = _spar(game, sparring, trainee.state, episode, curve.steps[episode])
            code = absorb(game, trainee, curve, episode, own, other)


def learn_from_policy(game: Game, trainee: Trainee, opponent: Policy, curve: Curve, first: int, last: int) -> None:
    """Trains as `learn` does, against any policy; a policy that fails stops the training."""
    for episode in range(first, last):
        begin(game, trainee, episode)
        code = RUNNING
        while code == RUNNING:
            own = choose(game, trainee, episode)
            number, step_index = np.array([episode]), int(curve.steps[episode])
            answers = ask_driver(opponent, game.params, trainee.state[None], Side(game.side).other, game.seed, number, step_index)
            if answers.complaints:
                raise BadSubjectError(f"training stopped in episode {episode}: {answers.complaints[0].message}")
            code = absorb(game, trainee, curve, episode, own, int(answers.actions[0]))
