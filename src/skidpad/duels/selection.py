"""Which weights of a training are kept: the best on validation, those that the paper's program would keep, or the last."""

from dataclasses import dataclass
from enum import Enum
from math import inf

from skidpad.duels.dense import Vector
from skidpad.duels.episodes import Episodes
from skidpad.duels.layout import Side

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
