"""Training on any backend, one step at a time in Python: for the scenes of highway-env, which the compiled learner does not know.

The learner itself, its memory and its rewards are those of `learning`; only the simulator differs. Weights are chosen by
greedy validation episodes, as in `training`: an ego's by the fewest crashes and then the return, a front vehicle's by the return.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from skidpad.core.errors import BadParametersError, BadSubjectError
from skidpad.core.progress import Progress, silent
from skidpad.core.seeding import child_rng, child_seed
from skidpad.highway.backend import Backend, asked
from skidpad.highway.dense import Vector, best_output, forward, layers_of
from skidpad.highway.dqn import WRITTEN, draw, remember, update
from skidpad.highway.layout import ACTIONS, CRASH, RUNNING, TIMEOUT, Action, Outcome, Side
from skidpad.highway.learning import Game, Trainee, epsilon_after, new_curve, new_game, new_trainee
from skidpad.highway.opponents import Driver, Idm, SearchedActions, check_fit
from skidpad.highway.policies import LearnedPolicy, TrainingFacts
from skidpad.highway.rewards import Reward, begin_episode, driving_reward, pay
from skidpad.highway.training import Selection, Training, TrainingSettings, Validation, begun_policy


def train_ego_on(backend: Backend, settings: TrainingSettings, seed: int, *, progress: Progress = silent) -> Training:
    """Trains an ego from scratch against the backend's IDM."""
    start = begun_policy(Side.EGO, backend.scenario, settings, seed)
    return _train(backend, start, Idm(), driving_reward(), settings, seed, progress)


def train_front_on(
    backend: Backend, ego: Driver, reward: Reward, settings: TrainingSettings, seed: int, *, progress: Progress = silent
) -> Training:
    """Trains an adversary against the frozen ego, from the ego's weights where it has any."""
    start = begun_policy(Side.FRONT, backend.scenario, settings, seed, ego)
    return _train(backend, start, ego, reward, settings, seed, progress)


def retrain_ego_on(
    backend: Backend,
    ego: LearnedPolicy,
    front: Driver,
    reward: Reward,
    settings: TrainingSettings,
    seed: int,
    *,
    progress: Progress = silent,
) -> Training:
    """Continues training the ego, against the frozen adversary."""
    return _train(backend, ego, front, reward, settings, seed, progress)


@dataclass(slots=True)
class _Lesson:
    """One training at work: what does not change, what does, and against whom."""

    backend: Backend
    game: Game
    trainee: Trainee
    opponent: Driver | Idm
    then: Vector
    """Room for what is seen after a step, (padded inputs,)."""
    steps: int = 0

    def play(self, episode: int, seed: int, *, is_learning: bool) -> tuple[float, int, int]:
        """Plays one episode and returns its reward, outcome's code and steps; without learning, greedily and without a trace."""
        game, trainee, backend = self.game, self.trainee, self.backend
        rng = child_rng(seed, "exploration", episode)
        earned = trainee.earned[0] if is_learning else trainee.earned[0].copy()
        backend.reset(seed, episode)
        begin_episode(game.reward, earned)
        total, count, code = 0.0, 0, RUNNING
        self._look(trainee.x[0])
        while code == RUNNING:
            own = self._choose(rng, is_learning=is_learning)
            pair = (own, self._answer(seed, episode, count)) if game.side == Side.EGO else (self._answer(seed, episode, count), own)
            outcome = backend.step(*pair)
            code = RUNNING if outcome is None else outcome.code
            reward = pay(game.reward, backend.scenario.lanes, backend.state, game.side, outcome is Outcome.CRASH, earned)
            self._look(self.then)
            if is_learning:
                self._learn(own, reward, code, rng)
            trainee.x[0] = self.then
            total, count = total + reward, count + 1
        return total, code, count

    def _look(self, into: Vector) -> None:
        seen = self.backend.observe(Side(self.game.side))
        into[: len(seen)] = seen

    def _choose(self, rng: np.random.Generator, *, is_learning: bool) -> int:
        if is_learning and rng.random() < epsilon_after(self.game.exploration, self.steps):
            return int(rng.integers(ACTIONS))
        learner = self.trainee.learner
        forward(layers_of(learner.online, learner.shape), self.trainee.x, self.trainee.room)
        return int(best_output(self.trainee.room.q[0], ACTIONS))

    def _answer(self, seed: int, episode: int, step: int) -> int:
        other = Side(self.game.side).other
        if isinstance(self.opponent, Idm):
            return int(Action.IDLE)
        answers = asked(self.opponent, self.backend, other, seed, episode, step)
        if answers.complaints:
            raise BadSubjectError(f"training stopped in episode {episode}: {answers.complaints[0].message}")
        return int(answers.actions[0])

    def _learn(self, own: int, reward: float, code: int, rng: np.random.Generator) -> None:
        trainee = self.trainee
        # running out of time does not end the episode for the learner, as on the engine
        remember(trainee.replay, trainee.x[0], own, reward, self.then, 1.0 if code in {RUNNING, TIMEOUT} else 0.0)
        if trainee.replay.counts[WRITTEN] >= len(trainee.rows):
            draw(trainee.replay, np.uint64(rng.integers(2**63)), 0, trainee.rows, trainee.batch)
            update(trainee.learner, self.game.rates, trainee.batch, ACTIONS)
        self.steps += 1


def _train(
    backend: Backend,
    start: LearnedPolicy,
    opponent: Driver | Idm | SearchedActions,
    reward: Reward,
    settings: TrainingSettings,
    seed: int,
    progress: Progress,
) -> Training:
    side, scenario = start.role, backend.scenario
    if isinstance(opponent, SearchedActions):
        raise BadSubjectError("cannot train against a search, which works on one frozen ego; train against a policy")
    if settings.selection is not Selection.VALIDATION:
        raise BadParametersError(f"on a backend weights are kept by validation; got {settings.selection.value!r}")
    check_fit(start, side, scenario)
    check_fit(opponent, side.other, scenario)
    paid = _scaled(reward, scenario.target_speeds_mps)
    game = new_game(scenario.compiled(), paid.compiled(), settings.dqn, side, child_seed(seed, "training"))
    trainee = new_trainee(start.weights, start.shape, settings.dqn)
    lesson = _Lesson(backend, game, trainee, opponent, np.zeros_like(trainee.x[0]))
    curve = new_curve(settings.episodes)
    best, weights, chosen = (-np.inf, -np.inf, 0), start.weights, 0
    validations: list[Validation] = []
    for episode in range(settings.episodes):
        curve.returns[episode], curve.outcomes[episode], curve.steps[episode] = lesson.play(episode, game.seed, is_learning=True)
        curve.epsilons[episode] = epsilon_after(game.exploration, lesson.steps)
        if (episode + 1) % settings.validate_every == 0 or episode + 1 == settings.episodes:
            seen = [
                lesson.play(number, child_seed(seed, "validation"), is_learning=False) for number in range(settings.validation_episodes)
            ]
            mean, crashed = float(np.mean([total for total, _, _ in seen])), float(np.mean([code == CRASH for _, code, _ in seen]))
            validations.append(Validation(episode + 1, mean, crashed))
            rank = validations[-1].rank(side)
            if rank > best:
                best, weights, chosen = rank, lesson.trainee.learner.online.copy(), episode + 1
        recent = curve.outcomes[max(0, episode - 99) : episode + 1]
        progress(episode + 1, settings.episodes, f"failure rate {(recent == CRASH).mean():.2f}")
    facts = TrainingFacts(scenario.name, reward.name, seed, settings.episodes, chosen)
    return Training(replace(start, weights=weights, facts=facts), curve, tuple(validations), int(lesson.trainee.learner.counts[0]))


def _scaled(reward: Reward, speeds_mps: tuple[float, ...]) -> Reward:
    """Returns the reward with the speeds that the scene's vehicles can have, or driving faster would be worth nothing there."""
    return replace(reward, quality=replace(reward.quality, slow_mps=speeds_mps[0], fast_mps=speeds_mps[-1]))
