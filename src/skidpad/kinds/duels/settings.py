"""The settings of a duel campaign: how often each kind of driver is trained, against whom, and how much is tested."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import isfinite
from typing import Any, Self

from skidpad.core.errors import SkidpadError, UnknownNameError
from skidpad.highway.training import Selection

GIVEN = "given"
"""The group of the adversaries that the user passes."""

HIGHWAY = "released"
"""The scenario of a duel that names none."""

RISK_AVERSION = -1.0
"""w_col of Eq. 2 as the paper sets it (section III)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DuelSettings:
    """One campaign of duels.

    scenario, pretraining: presets or TOML files; the second is where the ego learns and meets IDM. env: a scene of highway-env
    instead of the highway, "" for the engine. ego: a policy file or `module:function` to test instead of trained egos. fronts: policy
    files of adversaries to test against besides trained ones. egos, adversaries, repairs: trainings of each kind; adversaries are
    counted for each reward, repairs for each reward in `repair_against` (empty: all) and each weight in `w_col`. ego_selection: which
    weights of an ego's training are kept, `validation` or the paper's `window` (see `duels.selection`). test_runs x
    test_episodes: tests of every trained policy. cross_episodes: episodes of an ego against each of the other opponents.
    keep_episodes: records kept of each test; counts are of all.
    """

    scenario: str = HIGHWAY
    pretraining: str = "pretraining"
    env: str = ""
    ego: str = ""
    fronts: tuple[str, ...] = ()
    rewards: tuple[str, ...] = ("released",)
    repair_against: tuple[str, ...] = ()
    w_col: tuple[float, ...] = (RISK_AVERSION,)
    egos: int = 1
    adversaries: int = 1
    repairs: int = 1
    ego_selection: str = Selection.VALIDATION.value
    is_tested: bool = True
    train_episodes: int = 2000
    validation_episodes: int = 200
    test_runs: int = 1
    test_episodes: int = 2000
    cross_episodes: int = 500
    search_episodes: int = 50
    search_depth: int = 6
    keep_episodes: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("train_episodes", "validation_episodes", "test_runs", "test_episodes", "search_depth"):
            if getattr(self, name) < 1:
                raise SkidpadError(f"{name} must be at least 1; got {getattr(self, name)}")
        for name in ("egos", "adversaries", "repairs", "cross_episodes", "search_episodes", "keep_episodes"):
            if getattr(self, name) < 0:
                raise SkidpadError(f"{name} must not be negative; got {getattr(self, name)}")
        if not self.ego and self.egos < 1:
            raise SkidpadError("a duel needs an ego; pass one with --ego, or train at least one with --egos")
        if not self.w_col or any(not isfinite(weight) or weight > 0 for weight in self.w_col):
            raise SkidpadError(f"w_col takes weights of at most 0, e.g. -1 (the paper's) or -0.1; got {list(self.w_col)}")
        self._check_names()

    def _check_names(self) -> None:
        rules = [rule.value for rule in Selection]
        if self.ego_selection not in rules:
            raise UnknownNameError.among("selection rule", self.ego_selection, rules)
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
        if self.repairs and not self.groups:
            raise SkidpadError("a repair needs an adversary; train one (--rewards) or pass one (--front)")

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

    def to_config(self) -> dict[str, Any]:
        """Writes the settings as plain values for `config.toml`."""
        return {"campaign": "duel", **{name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Reads what `to_config` wrote; unknown keys are errors, missing ones keep their default."""
        known = {field.name for field in fields(cls)}
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in config.items() if name != "campaign"
        }
        for name in values:
            if name not in known:
                raise UnknownNameError.among("setting", name, known)
        if "w_col" in values:
            values["w_col"] = tuple(float(weight) for weight in values["w_col"])
        return cls(**values)
