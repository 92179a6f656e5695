"""The settings of a duel campaign: how often each kind of driver is trained, against whom, and how much is tested."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from skidpad.core.errors import SkidpadError, UnknownNameError
from skidpad.core.settings import Count, Mark, Natural, OneOf, Positive, Within
from skidpad.highway.layout import MAX_FRONTS
from skidpad.highway.training import Selection
from skidpad.kinds.kind import CampaignSettings
from skidpad.statistics.rare import Method

GIVEN = "given"
"""The group of the adversaries that the user passes."""

HIGHWAY = "released"
"""The scenario of a duel that names none."""

RISK_AVERSION = -1.0
"""w_col of Eq. 2 as the paper sets it (section III)."""

ROUND_TRAININGS = 4
"""A round retrains the ego for as many episodes as so many other trainings have, since it meets so many opponents."""


CRASH_COST = 5.0
"""What a crash costs an ego that is repaired in rounds, where a slow step costs at most 0.1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DuelSettings(CampaignSettings):
    """One campaign of duels.

    scenario, pretraining: presets or TOML files; the second is where the ego learns and meets IDM. env: a scene of highway-env
    instead of the highway, "" for the engine. ego: a policy file or `module:function` to test instead of trained egos. fronts: policy
    files of adversaries to test against besides trained ones. egos, adversaries, repairs: trainings of each kind; adversaries are
    counted for each reward, repairs for each reward in `repair_against` (empty: all) and each weight in `w_col`. ego_selection: which
    weights of an ego's training are kept, `validation` or the paper's `window` (see `duels.selection`). test_runs x
    test_episodes: tests of every trained policy. cross_episodes: episodes of an ego against each of the other opponents.
    keep_episodes: records kept of each test; counts are of all. rounds: of a repair against a population, 0 for none; it is repeated
    `repairs` times. Each round trains an adversary of every reward in `pool_rewards` against the ego of the moment, adds them to the
    pool and retrains the ego for `round_episodes`; after_rewards: of the adversaries that are trained against the repaired egos and
    only test them (not `paper`, whose adversaries make nobody crash); crash_cost: what a crash costs it, where a slow step costs at
    most 0.1; with several costs the whole is done for each. adversaries_at_once: front vehicles in one scene, all of them driven by
    one policy.
    estimate: a method of `statistics.rare`, which tells how likely a crash is, from at most `budget` duels from the scenario's starts with
    the opponents in `against`, each as likely as the others (none: the given ones, else a random front), instead of tests; stop_below,
    within: when it may stop earlier (see `rare.Goal`); "" for no estimate.
    """

    campaign: ClassVar = "duel"

    scenario: str = HIGHWAY
    pretraining: str = "pretraining"
    env: str = ""
    ego: str = ""
    fronts: tuple[str, ...] = ()
    rewards: tuple[str, ...] = ("released",)
    repair_against: tuple[str, ...] = ()
    w_col: tuple[Annotated[float, Within(most=0)], ...] = (RISK_AVERSION,)
    egos: Natural = 1
    adversaries: Natural = 1
    repairs: Natural = 1
    ego_selection: Annotated[str, OneOf("selection rule", Selection)] = Selection.VALIDATION.value
    is_tested: bool = True
    train_episodes: Count = 2000
    validation_episodes: Count = 200
    test_runs: Count = 1
    test_episodes: Count = 2000
    cross_episodes: Natural = 500
    search_episodes: Natural = 50
    search_depth: Count = 6
    keep_episodes: Natural = 2000
    rounds: Natural = 0
    pool_rewards: tuple[str, ...] = ("released", "sound", "paper")
    after_rewards: tuple[str, ...] = ("released", "sound")
    round_episodes: Count = 8000
    crash_cost: Annotated[tuple[Positive, ...], Mark.ONE_OR_MORE] = (CRASH_COST,)
    adversaries_at_once: Annotated[int, Within(least=1, most=MAX_FRONTS)] = 1
    estimate: Annotated[str, OneOf("method of estimating", ("", *(method.value for method in Method)))] = ""
    against: tuple[str, ...] = ()
    budget: Count = 100_000
    stop_below: Annotated[float, Within(least=0)] = 0.0
    within: Annotated[float, Within(least=0)] = 0.3
    seed: int = 0

    def check_together(self) -> None:
        """Refuses settings that do not go together."""
        if not self.ego and self.egos < 1:
            raise SkidpadError("a duel needs an ego; pass one with --ego, or train at least one with --egos")
        if not self.crash_cost or len(set(self.crash_cost)) != len(self.crash_cost):
            raise SkidpadError(f"--crash-cost takes one or more costs, each once, e.g. 10 or 1,3,10; got {list(self.crash_cost)}")
        if not self.w_col:
            raise SkidpadError("w_col takes at least one weight, e.g. -1 (the paper's) or -0.1; got none")
        if self.estimate and (self.env or self.rewards or self.repairs or self.is_tested or self.adversaries_at_once > 1):
            raise SkidpadError(
                "an estimate drives on the built-in highway behind one front vehicle, and neither trains adversaries nor repairs nor tests"
            )
        self._check_names()

    def _check_names(self) -> None:
        if self.env and self.scenario != HIGHWAY:
            raise SkidpadError(
                f"a scene of highway-env has its own road; use --scenario or --env, not both; got {self.scenario!r} and {self.env!r}"
            )
        if self.env and self.ego_selection != Selection.VALIDATION.value:
            raise SkidpadError(f"in a scene of highway-env, ego_selection must be 'validation'; got ego_selection={self.ego_selection!r}")
        if GIVEN in self.rewards:
            raise SkidpadError(f"{GIVEN!r} names the adversaries passed with --front; rename the reward")
        for what, names in (("reward", self.rewards), ("w_col", tuple(map(str, self.w_col)))):
            if len(set(names)) != len(names):
                raise SkidpadError(f"name each {what} only once; got {', '.join(names)}")
        for name in self.repair_against:
            if name not in self.groups:
                raise UnknownNameError.among("adversary to repair against", name, self.groups)
        if self.repairs and not self.groups and not self.rounds:
            raise SkidpadError("a repair needs an adversary; train one (--rewards) or pass one (--front)")
        if self.rounds and (not self.repairs or not self.pool_rewards):
            raise SkidpadError(f"a repair in rounds needs --repairs of at least 1 and a reward in pool_rewards; got {self.repairs} repairs")
        if self.adversaries_at_once > 1 and self.env:
            raise SkidpadError(
                f"several adversaries at once drive on the built-in highway only; drop --adversaries-at-once or --env; got {self.env!r}"
            )
        if self.rounds and self.env:
            raise SkidpadError(f"a repair in rounds works on the built-in highway only; drop --rounds or --env; got {self.env!r}")

    @property
    def groups(self) -> tuple[str, ...]:
        """The kinds of adversaries: the rewards that some are trained by, and `given` where policy files are."""
        return (*(self.rewards if self.adversaries else ()), *((GIVEN,) if self.fronts else ()))

    def members(self, group: str) -> int:
        """Returns how many adversaries a group has."""
        return len(self.fronts) if group == GIVEN else self.adversaries

    @property
    def repaired(self) -> tuple[str, ...]:
        """The groups whose best adversary an ego is retrained against."""
        return (self.repair_against or self.groups) if self.repairs else ()
