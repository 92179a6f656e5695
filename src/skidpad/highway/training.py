"""Trains egos and adversaries, repairs egos, and decides which weights of a training are kept."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import inf, nan

import numpy as np

from skidpad.core.errors import BadParametersError
from skidpad.core.progress import Progress, silent
from skidpad.core.seeding import child_rng, child_seed
from skidpad.core.settings import Count, check
from skidpad.highway.dense import Lens, Vector, folded, lens_for, plain_lens, unfolded
from skidpad.highway.dqn import UPDATES, DqnSettings
from skidpad.highway.episodes import Episodes
from skidpad.highway.evaluation import drawn_starts, evaluate, find_sequences, scenario_against
from skidpad.highway.layout import CRASH, Side
from skidpad.highway.learning import Curve, Trainee, learn, learn_from_policy, new_curve, new_game, new_trainee, scripted, sparring_of
from skidpad.highway.opponents import AggressiveActions, Driver, Idm, Opponent, RandomActions, SearchedActions, check_fit
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
    worst_rate: float = nan
    """Of the opponents, the greatest failure rate."""
    ego_mps: float = nan

    def rank(self, side: Side, accepted_rate: float | None = None) -> tuple[float, float, int]:
        """Returns what the best validation of a side has the most of."""
        if side is Side.FRONT:
            return 0.0, self.mean_return, self.episode
        if accepted_rate is None:
            return -self.failure_rate, self.mean_return, self.episode
        return -max(self.worst_rate - accepted_rate, 0.0), self.ego_mps, self.episode


@dataclass(frozen=True, slots=True, eq=False)
class PolicyCandidate:
    """Weights that could be kept, and how they drove the validation episodes."""

    episode: int
    weights: Vector
    seen: tuple[Episodes, ...] = ()
    """One for each opponent."""


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

    episodes: Count = 2000
    dqn: DqnSettings = field(default_factory=DqnSettings)
    selection: Selection = Selection.VALIDATION
    validate_every: Count = 50
    """Training episodes between two validations."""
    validation_episodes: Count = 200
    """Shared by the opponents."""
    accepted_rate: float | None = None
    """Of the egos that crash in at most this share of the episodes with each opponent, the fastest is kept; None keeps the safest."""

    def __post_init__(self) -> None:
        check(self, BadParametersError)


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


def begun_policy(side: Side, scenario: Scenario, settings: TrainingSettings, seed: int, like: object = None) -> LearnedPolicy:
    """Returns what a training from scratch begins with: the weights of `like` where it has any, else random ones."""
    if isinstance(like, LearnedPolicy):
        return replace(like, role=side)
    spec = scenario.observation
    return random_policy(side, spec.hash, spec.size, settings.dqn.hidden, child_rng(seed, "initial weights"))


def train_ego(scenario: Scenario, settings: TrainingSettings, seed: int, *, progress: Progress = silent) -> Training:
    """Trains an ego from scratch against IDM."""
    start = begun_policy(Side.EGO, scenario, settings, seed)
    return _train(start, (Match(scenario, Idm()),), driving_reward(), settings, seed, progress)


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
    own = begun_policy(Side.FRONT, scenario, settings, seed, start or ego)
    return _train(own, (Match(scenario, ego),), reward, settings, seed, progress)


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
    return _train(ego, (Match(scenario, front),), reward or driving_reward(), settings, seed, progress)


@dataclass(frozen=True, slots=True)
class Match:
    """An opponent of the side that learns, and where the two meet."""

    scenario: Scenario
    opponent: Opponent
    weight: float = 1.0
    """How often it is met, among several."""


def repair_ego(
    ego: LearnedPolicy,
    matches: Sequence[Match],
    settings: TrainingSettings,
    seed: int,
    *,
    reward: Reward | None = None,
    progress: Progress = silent,
) -> Training:
    """Trains the ego on against many opponents, which take turns episode by episode in an order drawn from the seed.

    A search in the pool looks for sequences against the ego as it is after each `validate_every` episodes.
    """
    return _train(ego, matches, reward or driving_reward(), settings, seed, progress)


def _train(
    start: LearnedPolicy, matches: Sequence[Match], reward: Reward, settings: TrainingSettings, seed: int, progress: Progress
) -> Training:
    side = start.role
    fitted = [replace(match, scenario=scenario_against(match.scenario, match.opponent if side is Side.EGO else start)) for match in matches]
    for match in fitted:
        check_fit(start, side, match.scenario)
        check_fit(match.opponent, side.other, match.scenario)
    scenario = fitted[0].scenario
    lens = lens_for(scenario.observation) if settings.dqn.is_conditioned else plain_lens(start.shape.inputs)
    learners = scenario.fronts if side is Side.FRONT else 1
    weights = unfolded(start.weights, start.shape, lens)
    trainee = new_trainee(weights, start.shape, settings.dqn, learners, 1 + scenario.fronts)
    curve = new_curve(settings.episodes)
    session = _Session(fitted, start, lens, trainee, curve, settings, reward, seed)
    candidates: list[PolicyCandidate] = []
    rule, is_window = RunningMean(), settings.selection is Selection.WINDOW
    stride = 1 if is_window else settings.validate_every
    for first in range(0, settings.episodes, stride):
        done = min(first + stride, settings.episodes)
        session.run(first, done)
        if settings.selection is Selection.VALIDATION:
            candidates.append(PolicyCandidate(done, session.policy.weights, session.validate()))
        elif is_window and rule.is_kept(first, float(curve.returns[first])):
            candidates = [PolicyCandidate(done, session.policy.weights)]
        progress(done, settings.episodes, f"failure rate {(curve.outcomes[max(0, done - 100) : done] == CRASH).mean():.2f}")
    best = candidates[-1] if candidates else PolicyCandidate(settings.episodes, session.policy.weights)
    validations = tuple(_validation(candidate, reward, side, trainee) for candidate in candidates if candidate.seen)
    if validations:
        ranked = zip((validation.rank(side, settings.accepted_rate) for validation in validations), candidates, strict=True)
        best = max(ranked, key=lambda pair: pair[0])[1]
    facts = TrainingFacts(scenario.name, reward.name, seed, settings.episodes, best.episode)
    return Training(replace(start, weights=best.weights, facts=facts), curve, validations, int(trainee.learner.counts[UPDATES]))


def _validation(candidate: PolicyCandidate, reward: Reward, side: Side, trainee: Trainee) -> Validation:
    """Scores a candidate; every opponent counts the same."""
    returns = [float(seen.returns(reward, side, trainee.earned).mean()) for seen in candidate.seen]
    rates = [seen.failure_rate for seen in candidate.seen]
    speeds = [seen.mean_ego_mps for seen in candidate.seen]
    count = len(candidate.seen)
    return Validation(candidate.episode, sum(returns) / count, sum(rates) / count, max(rates), sum(speeds) / count)


@dataclass(frozen=True, slots=True, eq=False)
class _Session:
    """A training under way: drives its episodes, and validates the weights of the moment."""

    matches: Sequence[Match]
    start: LearnedPolicy
    lens: Lens
    trainee: Trainee
    curve: Curve
    settings: TrainingSettings
    reward: Reward
    seed: int

    @property
    def policy(self) -> LearnedPolicy:
        """The policy of the moment, as it sees the plain observation."""
        return replace(self.start, weights=folded(self.trainee.learner.online.copy(), self.start.shape, self.lens))

    def run(self, first: int, last: int) -> None:
        """Trains for the episodes first .. last - 1, compiled, or in Python where the opponent is a user's."""
        if len(self.matches) == 1:
            self._drive(self.matches[0], first, last)
            return
        drawn = {episode: self._drawn(episode) for episode in range(first, last)}
        for episode, match in drawn.items():
            self._drive(match, episode, episode + 1)

    def validate(self) -> tuple[Episodes, ...]:
        """Drives the validation episodes with each opponent; a search gets a tenth, since it takes as long as a hundred others."""
        seed, policy = child_seed(self.seed, "validation"), self.policy
        share = max(self.settings.validation_episodes // len(self.matches), 1)
        shares = [-(-share // 10) if isinstance(match.opponent, SearchedActions) else share for match in self.matches]
        return tuple(_validate(match, policy, count, seed) for match, count in zip(self.matches, shares, strict=True))

    def _drawn(self, episode: int) -> Match:
        weights = np.array([match.weight for match in self.matches])
        return self.matches[int(child_rng(self.seed, "opponent", episode).choice(len(weights), p=weights / weights.sum()))]

    def _drive(self, match: Match, first: int, last: int) -> None:
        side, opponent = self.start.role, match.opponent
        seed = child_seed(self.seed, "training")
        done = first / self.settings.episodes
        dqn = replace(self.settings.dqn, learning_rate=self.settings.dqn.learning_rate * (1.0 - done * self.settings.dqn.cooling))
        game = new_game(match.scenario.compiled(), self.reward.compiled(), dqn, side, seed, self.lens)
        if isinstance(opponent, SearchedActions):
            if side is Side.FRONT or len(self.matches) == 1:
                raise BadParametersError("cannot train against a search alone, which works on one frozen ego; train against a policy")
            starts = drawn_starts(match.scenario, seed, np.arange(first, last))
            found = find_sequences(match.scenario, self.policy, starts, opponent.depth, seed, np.arange(first, last))
            learn(game, self.trainee, scripted(found.actions[0, : found.lengths[0]].astype(np.int64)), self.curve, first, last)
            return
        sparring = sparring_of(opponent, side.other)
        if sparring is not None:
            learn(game, self.trainee, sparring, self.curve, first, last)
        elif isinstance(opponent, Idm | RandomActions | AggressiveActions):
            raise BadParametersError("IDM drives the front vehicle only; train the front vehicle against a policy")
        else:
            learn_from_policy(game, self.trainee, opponent, self.curve, first, last)


def _validate(match: Match, policy: LearnedPolicy, episodes: int, seed: int) -> Episodes:
    if policy.role is Side.EGO:
        return evaluate(match.scenario, policy, match.opponent, episodes, seed)
    if isinstance(match.opponent, Idm | SearchedActions):
        raise BadParametersError("IDM drives the front vehicle only; train the front vehicle against a policy")
    return evaluate(match.scenario, match.opponent, policy, episodes, seed)
