"""Which weights of a training are kept: the best on validation, those that the paper's program would keep, or the last."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from math import inf

from skidpad.core.errors import BadParametersError
from skidpad.core.progress import Progress, silent
from skidpad.core.seeding import child_rng, child_seed
from skidpad.highway.asking import check_fit
from skidpad.highway.dense import Vector
from skidpad.highway.dqn import UPDATES, DqnSettings
from skidpad.highway.episodes import Episodes
from skidpad.highway.evaluation import evaluate, scenario_against
from skidpad.highway.layout import CRASH, Side
from skidpad.highway.learning import Curve, Game, Trainee, learn, learn_from_policy, new_curve, new_game, new_trainee, sparring_of
from skidpad.highway.opponents import Driver, Idm, RandomActions, SearchedActions
from skidpad.highway.policies import LearnedPolicy, TrainingFacts, random_policy
from skidpad.highway.rewards import Reward, driving_reward
from skidpad.highway.scenario import Scenario

WINDOW_EPISODES = 50
"""Adversarial testing, section V-A."""

_GAIN = 1.1


class Selection(Enum):
    """The rule by which weights are kept."""

    VALIDATION = "validation"
    """Those that do best when acting greedily on the same validation episodes; the later of equals.

    An ego's are those with the fewest crashes and then the greatest mean return, because a crash matters to a tester but
    hardly lowers the return; a front vehicle's are those with the greatest mean return.
    All are scored when the training is over: a reward whose sum is never cleared pays each with the same, final sum.
    """
    WINDOW = "window"
    """Those that the program behind the paper keeps, by the mean return of about 50 training episodes; see `RunningMean`."""
    LAST = "last"
    """Those after the last episode."""


@dataclass(frozen=True, slots=True)
class Validation:
    """How the weights after some episodes did on the validation episodes, acting greedily."""

    episode: int
    mean_return: float
    failure_rate: float

    def rank(self, side: Side) -> tuple[float, float, int]:
        """Returns what the best validation of a side has the most of."""
        crashes = -self.failure_rate if side is Side.EGO else 0.0
        return crashes, self.mean_return, self.episode


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """Weights that could be kept, and how they drove the validation episodes."""

    episode: int
    weights: Vector
    seen: Episodes | None = None


@dataclass(slots=True)
class RunningMean:
    """Keeps the weights after an episode whose running mean of returns is a tenth above that of the weights kept before.

    The mean takes in each return with a weight of 1 / 50 and starts at 0; 50 episodes at least lie between two that are kept. Returns
    are those of training, explored actions among them, so that the weights kept need not be good ones.
    Reference: adversarial testing, section V-A, "the average reward over a window of 50 episodes", as rl-agents computes it.
    """

    mean: float = 0.0
    kept_mean: float = -inf
    kept_episode: int = 0

    def is_kept(self, episode: int, episode_return: float) -> bool:
        """Takes in the return of an episode, counted from 0, and tells whether the weights after it are kept."""
        self.mean += (episode_return - self.mean) / WINDOW_EPISODES
        if self.mean <= _GAIN * self.kept_mean or episode < self.kept_episode + WINDOW_EPISODES:
            return False
        self.kept_mean, self.kept_episode = self.mean, episode
        return True


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """How long to train and which weights to keep; the defaults are the paper's, except for the choice of weights.

    Deviates: the paper keeps weights by the mean reward of 50 training episodes (`Selection.WINDOW`). That mean is taken while the
    weights change and while actions are explored, and has picked egos with failure rates of up to 0.27 against IDM.
    """

    episodes: int = 2000
    dqn: DqnSettings = field(default_factory=DqnSettings)
    selection: Selection = Selection.VALIDATION
    validate_every: int = 50
    """Training episodes between two validations."""
    validation_episodes: int = 200

    def __post_init__(self) -> None:
        if min(self.episodes, self.validate_every, self.validation_episodes) < 1:
            raise BadParametersError(f"episodes, validate_every and validation_episodes are at least 1; got {self}")


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """A finished training: the policy that was kept, its curve, and every validation."""

    policy: LearnedPolicy
    curve: Curve
    """One number for each training episode: return, outcome's code, steps, epsilon."""
    validations: tuple[Validation, ...]
    updates: int

    @property
    def failure_rate(self) -> float:
        """The share of crashes among the last 100 training episodes, as in Table I."""
        return float((self.curve.outcomes[-100:] == CRASH).mean())


def train_ego(
    scenario: Scenario,
    settings: TrainingSettings,
    seed: int,
    *,
    front: Driver | Idm | None = None,
    reward: Reward | None = None,
    progress: Progress = silent,
) -> Training:
    """Trains an ego from scratch, against IDM unless another front vehicle is given."""
    spec = scenario.observation
    start = random_policy(Side.EGO, spec.hash, spec.size, settings.dqn.hidden, child_rng(seed, "initial weights"))
    return _train(scenario, start, front or Idm(), reward or driving_reward(), settings, seed, progress)


def train_front(
    scenario: Scenario,
    ego: Driver,
    reward: Reward,
    settings: TrainingSettings,
    seed: int,
    *,
    start: LearnedPolicy | None = None,
    progress: Progress = silent,
) -> Training:
    """Trains an adversary against the frozen ego; it starts from the ego's weights, or from `start` where the ego has none."""
    origin = start or ego
    if isinstance(origin, LearnedPolicy):
        own = replace(origin, role=Side.FRONT)
    else:
        spec = scenario.observation
        own = random_policy(Side.FRONT, spec.hash, spec.size, settings.dqn.hidden, child_rng(seed, "initial weights"))
    return _train(scenario, own, ego, reward, settings, seed, progress)


def retrain_ego(
    scenario: Scenario,
    ego: LearnedPolicy,
    front: Driver | Idm,
    settings: TrainingSettings,
    seed: int,
    *,
    reward: Reward | None = None,
    progress: Progress = silent,
) -> Training:
    """Continues training the ego, against the frozen adversary."""
    return _train(scenario, ego, front, reward or driving_reward(), settings, seed, progress)


def _train(
    scenario: Scenario,
    start: LearnedPolicy,
    opponent: Driver | Idm,
    reward: Reward,
    settings: TrainingSettings,
    seed: int,
    progress: Progress,
) -> Training:
    side = start.role
    if isinstance(opponent, SearchedActions):
        raise BadParametersError("cannot train against a search, which works on one frozen ego; train against a policy")
    scenario = scenario_against(scenario, opponent if side is Side.EGO else start)
    check_fit(start, side, scenario)
    check_fit(opponent, side.other, scenario)
    game = new_game(scenario.compiled(), reward.compiled(), settings.dqn, side, child_seed(seed, "training"))
    trainee, curve = new_trainee(start.weights, start.shape, settings.dqn), new_curve(settings.episodes)
    run = _runner(game, trainee, opponent, curve, side)
    candidates: list[Candidate] = []
    rule, is_window = RunningMean(), settings.selection is Selection.WINDOW
    stride = 1 if is_window else settings.validate_every
    for first in range(0, settings.episodes, stride):
        done = min(first + stride, settings.episodes)
        run(first, done)
        if settings.selection is Selection.VALIDATION:
            now = replace(start, weights=trainee.learner.online.copy())
            seen = _validate(scenario, now, opponent, settings.validation_episodes, child_seed(seed, "validation"))
            candidates.append(Candidate(done, now.weights, seen))
        elif is_window and rule.is_kept(first, float(curve.returns[first])):
            candidates = [Candidate(done, trainee.learner.online.copy())]
        progress(done, settings.episodes, f"failure rate {(curve.outcomes[max(0, done - 100) : done] == CRASH).mean():.2f}")
    best = candidates[-1] if candidates else Candidate(settings.episodes, trainee.learner.online.copy())
    validations = tuple(
        Validation(candidate.episode, float(candidate.seen.returns(reward, side, trainee.earned).mean()), candidate.seen.failure_rate)
        for candidate in candidates
        if candidate.seen is not None
    )
    if validations:
        ranked = zip((validation.rank(side) for validation in validations), candidates, strict=True)
        best = max(ranked, key=lambda pair: pair[0])[1]
    facts = TrainingFacts(scenario.name, reward.name, seed, settings.episodes, best.episode)
    return Training(replace(start, weights=best.weights, facts=facts), curve, validations, int(trainee.learner.counts[UPDATES]))


def _validate(scenario: Scenario, policy: LearnedPolicy, opponent: Driver | Idm, episodes: int, seed: int) -> Episodes:
    if policy.role is Side.EGO:
        return evaluate(scenario, policy, opponent, episodes, seed)
    if isinstance(opponent, Idm):
        raise BadParametersError("IDM drives the front vehicle only; train the front vehicle against a policy")
    return evaluate(scenario, opponent, policy, episodes, seed)


def _runner(game: Game, trainee: Trainee, opponent: Driver | Idm, curve: Curve, side: Side) -> Callable[[int, int], None]:
    """Returns what trains for the episodes first .. last - 1: compiled, or in Python where the opponent is a user's."""
    sparring = sparring_of(opponent, side.other)
    if sparring is not None:
        return lambda first, last: learn(game, trainee, sparring, curve, first, last)
    if isinstance(opponent, Idm | RandomActions):
        raise BadParametersError("IDM drives the front vehicle only; train the front vehicle against a policy")
    return lambda first, last: learn_from_policy(game, trainee, opponent, curve, first, last)
