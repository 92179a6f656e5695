"""The learning loop: drive a step, remember it, update the network; all compiled if the opponent is.

All randomness derives from (seed, episode), so the same seed gives bit-identical weights.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from skidpad.core.errors import BadSubjectError
from skidpad.core.images import FloatArray, IntArray
from skidpad.highway.asking import ask
from skidpad.highway.dense import Activations, Matrix, Shape, Vector, activations_for, best_output, forward, layers_of
from skidpad.highway.dqn import (
    WRITTEN,
    Batch,
    DqnSettings,
    Learner,
    Rates,
    ReplayMemory,
    draw,
    empty_batch,
    learner_from,
    new_memory,
    rates_of,
    remember,
    update,
)
from skidpad.highway.engine import new_state, reset, step
from skidpad.highway.layout import ACTIONS, CRASH, EGO, OVERTAKEN, RUNNING, TIMEOUT, Action, Params, Side
from skidpad.highway.lens import Lens, plain_lens
from skidpad.highway.observation import observe
from skidpad.highway.opponents import AggressiveActions, ConstantActions, Idm, RandomActions, aggressive_action, random_action
from skidpad.highway.policies import LearnedPolicy, Policy
from skidpad.highway.randomness import LEARNER_STREAM, stream_key, uniform, whole
from skidpad.highway.rewards import RewardParams, begin_episode, fresh_memory, pay

IDM_KIND, RANDOM_KIND, CONSTANT_KIND, NETWORK_KIND, AGGRESSIVE_KIND, SCRIPT_KIND = 0, 1, 2, 3, 4, 5
_STEPS, _COUNTER = 0, 1


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
    """Everything that changes while a side learns, and its scratch buffers."""

    learner: Learner
    replay: ReplayMemory
    earned: FloatArray
    """What Eq. 4 remembers."""
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
    lens: Lens


def new_trainee(weights: Vector, shape: Shape, settings: DqnSettings) -> Trainee:
    """Returns a side that has not learned yet and starts from the weights."""
    return Trainee(
        learner=learner_from(weights, shape, settings.batch),
        replay=new_memory(shape, settings.memory),
        earned=fresh_memory(),
        counts=np.zeros(2, np.int64),
        batch=empty_batch(shape, settings.batch),
        rows=np.zeros(settings.batch, np.int64),
        x=np.zeros((2, shape.padded().inputs), np.float32),
        room=activations_for(shape, 2),
        then=np.zeros((1, shape.padded().inputs), np.float32),
        state=new_state(),
    )


def new_curve(episodes: int) -> Curve:
    """Returns room for the curve of a training."""
    return Curve(np.zeros(episodes), np.zeros(episodes, np.int64), np.zeros(episodes, np.int64), np.zeros(episodes))


def new_game(params: Params, reward: RewardParams, settings: DqnSettings, side: Side, seed: int, lens: Lens | None = None) -> Game:
    """Returns the fixed part of a training."""
    inputs = params.observed_vehicles * len(params.feature_codes)
    exploration = Exploration(settings.exploration_start, settings.exploration_end, settings.exploration_steps)
    return Game(params, reward, rates_of(settings), exploration, int(side), seed, settings.is_overtaking_an_end, lens or plain_lens(inputs))


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
    other = 1 - game.side
    if sparring.kind == NETWORK_KIND:
        return _greedy(sparring.weights, sparring.shape, game.params, state, other, sparring.x, sparring.room)
    if sparring.kind == RANDOM_KIND:
        return random_action(game.seed, episode, other, index)
    if sparring.kind == AGGRESSIVE_KIND:
        return aggressive_action(state, other)
    if sparring.kind == SCRIPT_KIND and index < len(sparring.script):
        return int(sparring.script[index])
    return sparring.action


@njit(nogil=True, cache=True, error_model="numpy")
def _look(game: Game, trainee: Trainee, out: Vector) -> None:
    """Writes what the learner's network sees; `out` is padded."""
    observe(game.params, trainee.state, game.side, out)
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
    """Returns the learner's next action, by chance with probability epsilon."""
    key = stream_key(game.seed, episode, LEARNER_STREAM)
    counter = trainee.counts[_COUNTER]
    trainee.counts[_COUNTER] += 2
    _look(game, trainee, trainee.x[0])
    forward(layers_of(trainee.learner.online, trainee.learner.shape), trainee.x, trainee.room)
    best = best_output(trainee.room.q[0], ACTIONS)
    if uniform(key, counter) < epsilon_after(game.exploration, trainee.counts[_STEPS]):
        return whole(key, counter + 1, ACTIONS)
    return best


@njit(nogil=True, cache=True, error_model="numpy")
def absorb(game: Game, trainee: Trainee, curve: Curve, episode: int, own: int, other: int) -> int:
    """Drives the step that both have chosen, learns from it and returns the outcome's code.

    Running out of time does not end the episode for the learner: it still bootstraps from the next state.
    """
    ego, front = (own, other) if game.side == EGO else (other, own)
    code = step(game.params, trainee.state, ego, front)
    reward = pay(game.reward, game.params.lanes, trainee.state, game.side, code == CRASH, trainee.earned)
    _look(game, trainee, trainee.then[0])
    goes_on = 1.0 if code in {RUNNING, TIMEOUT} or (code == OVERTAKEN and not game.is_overtaking_an_end) else 0.0
    remember(trainee.replay, trainee.x[0], own, reward, trainee.then[0], goes_on)
    if trainee.replay.counts[WRITTEN] >= len(trainee.rows):
        key = stream_key(game.seed, episode, LEARNER_STREAM)
        trainee.counts[_COUNTER] = draw(trainee.replay, key, trainee.counts[_COUNTER], trainee.rows, trainee.batch)
        update(trainee.learner, game.rates, trainee.batch, ACTIONS)
    trainee.counts[_STEPS] += 1
    curve.returns[episode] += reward
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
    seen = np.empty((1, game.params.observed_vehicles * len(game.params.feature_codes)), np.float32)
    for episode in range(first, last):
        begin(game, trainee, episode)
        code = RUNNING
        while code == RUNNING:
            own = choose(game, trainee, episode)
            observe(game.params, trainee.state, 1 - game.side, seen[0])
            answers = ask(opponent, seen)
            if answers.complaints:
                raise BadSubjectError(f"training stopped in episode {episode}: {answers.complaints[0].message}")
            code = absorb(game, trainee, curve, episode, own, int(answers.actions[0]))
