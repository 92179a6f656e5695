"""What the shards of a duel run keep beside their records: policies and counts, which later shards build on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple, dataclass, field, fields
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

import numpy as np
from safetensors.numpy import load, save

from skidpad.core.errors import BadRunError, BadSubjectError
from skidpad.core.files import write_atomically
from skidpad.core.images import FloatArray, IntArray
from skidpad.highway.layout import CRASH, Action, Side
from skidpad.highway.opponents import (
    AggressiveActions,
    ConstantActions,
    Driver,
    Idm,
    Opponent,
    PlannedActions,
    RandomActions,
    SearchedActions,
)
from skidpad.highway.policies import LearnedPolicy, load_policy, policy_bytes, policy_named
from skidpad.highway.training import Validation
from skidpad.kinds.duels.settings import GIVEN, DuelSettings
from skidpad.runs.folder import Run

if TYPE_CHECKING:
    from skidpad.highway.scenario import Scenario
    from skidpad.highway.training import Training


State = TypeVar("State")


class Kept(Protocol):
    """A run, or what a worker far from its folder is given of it."""

    def completed(self, phase: str) -> set[int]:
        """Returns the shards of a phase that are kept."""
        ...

    def coverage(self, phase: str, unpack: Callable[[bytes], State], merge: Callable[[State, State], State]) -> Mapping[str, State]:
        """Merges the states of a phase by name, in the order of shards."""
        ...


@dataclass(frozen=True, slots=True)
class KeptShards:
    """The states of all shards of a run at one moment, by phase and index; small enough to be sent."""

    shards: Mapping[str, Mapping[int, Mapping[str, bytes]]]

    @classmethod
    def of(cls, run: Run) -> Self:
        """Reads them from a run."""
        found: dict[str, dict[int, Mapping[str, bytes]]] = {}
        for segment in run.segments():
            found.setdefault(segment.phase, {})[segment.index] = segment.coverage()
        return cls(found)

    def completed(self, phase: str) -> set[int]:
        """Returns the shards of a phase that are kept."""
        return set(self.shards.get(phase, {}))

    def coverage(self, phase: str, unpack: Callable[[bytes], State], merge: Callable[[State, State], State]) -> Mapping[str, State]:
        """Merges the states of a phase by name, in the order of shards."""
        merged: dict[str, State] = {}
        for _, states in sorted(self.shards.get(phase, {}).items()):
            for name, data in states.items():
                state = unpack(data)
                merged[name] = merge(merged[name], state) if name in merged else state
        return merged


IDM, RANDOM, SEARCH, SLOW, AGGRESSIVE = "idm", "random", "search", "slow", "aggressive"
ORACLE = "oracle"
"""The ego that knows what the front vehicle will do."""
POLICIES = "policies"
"""The folder of a run in which its trained policies lie as files of their own."""

_HASH_DIGITS = 16
_TRAINED = re.compile(r"(?P<phase>[a-z][a-z0-9-]*)-(?P<index>\d{3})", re.ASCII)


def trained_name(phase: str, index: int) -> str:
    """Names the policy of one training of a phase, as `train-released-003`."""
    return f"{phase}-{index:03d}"


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRecord:
    """What a run keeps of a training besides the policy: a number for each episode, and the validations."""

    returns: FloatArray
    outcomes: IntArray
    steps: IntArray
    validations: tuple[Validation, ...]
    updates: int

    @property
    def failure_rate(self) -> float:
        """Crashes among the last 100 episodes, as in Table I."""
        return float((self.outcomes[-100:] == CRASH).mean())

    @classmethod
    def of(cls, training: Training) -> Self:
        """Takes from a training what is kept."""
        return cls(
            training.curve.returns,
            training.curve.outcomes,
            training.curve.steps,
            training.validations,
            training.updates,
        )

    def pack(self) -> bytes:
        """Writes the record as bytes; equal records give equal bytes."""
        arrays = {
            "returns": self.returns.astype(np.float64),
            "outcomes": self.outcomes.astype(np.int64),
            "steps": self.steps.astype(np.int64),
            "validations": np.array([astuple(seen) for seen in self.validations], np.float64).reshape(-1, len(fields(Validation))),
            "updates": np.array([self.updates], np.int64),
        }
        data: bytes = save(arrays)
        return data

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Reads what `pack` wrote."""
        arrays = load(data)
        validations = tuple(Validation(int(episode), *seen) for episode, *seen in arrays["validations"].tolist())
        return cls(arrays["returns"], arrays["outcomes"], arrays["steps"], validations, int(arrays["updates"][0]))


@dataclass(frozen=True)
class Drivers:
    """Finds drivers by name; those of the run are read from what its shards keep, once."""

    settings: DuelSettings
    scenario: Scenario
    kept: Kept | None = None
    _loaded: dict[str, tuple[Opponent, str]] = field(default_factory=dict)

    def within(self, kept: Kept) -> Drivers:
        """Returns the same for a run, or what is known of it."""
        return Drivers(self.settings, self.scenario, kept, {})

    def front(self, name: str) -> Opponent:
        """Returns the driver of a front vehicle."""
        return self._get(name, Side.FRONT)[0]

    def ego(self, name: str) -> Driver:
        """Returns the driver of an ego."""
        driver = self._get(name, Side.EGO)[0]
        if isinstance(driver, Idm | SearchedActions):
            raise BadRunError(f"{name!r} can drive only the front vehicle, not the ego")
        return driver

    def tested_ego(self, name: str) -> Driver | PlannedActions:
        """Returns who drives the ego in a test: a driver, or the plan of one that knows its opponent."""
        return PlannedActions() if name == ORACLE else self.ego(name)

    def hash(self, name: str, side: Side) -> str:
        """Returns what tells two drivers of one name apart: of a policy its file's hash, of a built-in its settings."""
        return f"{ORACLE}{json.dumps(asdict(PlannedActions()))}" if name == ORACLE else self._get(name, side)[1]

    def given_hashes(self) -> dict[str, str]:
        """Returns the hashes of what the user brought, by name."""
        named = {"ego": (GIVEN, Side.EGO)} if self.settings.ego else {}
        named |= {f"front {index}": (trained_name(GIVEN, index), Side.FRONT) for index in range(len(self.settings.fronts))}
        return {what: self.hash(name, side) for what, (name, side) in named.items()}

    def training(self, name: str) -> TrainingRecord:
        """Returns what is kept of the training of a policy of the run."""
        return TrainingRecord.unpack(self._blob(name, "curve"))

    def renamed(self, name: str, new: str) -> dict[str, bytes]:
        """Returns what a shard keeps of a training that takes over the policy of an earlier one."""
        return {f"{new}.{what}": self._blob(name, what) for what in ("policy", "curve")}

    def write_policies(self) -> None:
        """Writes every trained policy of the run as a file of its own, for other runs to use."""
        for phase in self._run().phases():
            if phase.startswith(("train-", "repair-")):
                for index in sorted(self._run().completed(phase)):
                    self.policy_file(trained_name(phase, index))

    def policy_file(self, name: str) -> Path:
        """Returns the file of a trained policy, written anew where it is not what the run holds."""
        data = self._blob(name, "policy")
        path = self._run().path / POLICIES / f"{name}.safetensors"
        if not path.is_file() or path.read_bytes() != data:
            path.parent.mkdir(exist_ok=True)
            write_atomically(path, data)
        return path

    def _get(self, name: str, side: Side) -> tuple[Opponent, str]:
        if name not in self._loaded:
            self._loaded[name] = self._find(name, side)
        return self._loaded[name]

    def _find(self, name: str, side: Side) -> tuple[Opponent, str]:
        if name == ORACLE:
            raise BadRunError(f"{name!r} plans against one opponent; nobody else can meet it")
        built_in: Mapping[str, Idm | RandomActions | SearchedActions | ConstantActions | AggressiveActions] = {
            IDM: Idm(),
            RANDOM: RandomActions(),
            SEARCH: SearchedActions(self.settings.search_depth),
            SLOW: ConstantActions(Action.SLOWER),
            AGGRESSIVE: AggressiveActions(),
        }
        if name in built_in:
            driver = built_in[name]
            values = json.dumps(asdict(driver), sort_keys=True)
            return driver, f"{name}{'' if values == '{}' else values}"
        if name == GIVEN:
            return open_policy(self.settings.ego, Side.EGO, self.scenario)
        if name.startswith(f"{GIVEN}-"):
            return open_policy(self.settings.fronts[int(name.rpartition("-")[2])], Side.FRONT, self.scenario)
        with TemporaryDirectory(prefix="skidpad-policy-") as folder:
            path = Path(folder) / f"{name}.safetensors"
            path.write_bytes(self._blob(name, "policy"))
            return open_policy(str(path), side, self.scenario)

    def _blob(self, name: str, what: str) -> bytes:
        match = _TRAINED.fullmatch(name)
        phase = match["phase"] if match else ""
        blobs = self._kept().coverage(phase, bytes, lambda kept, _: kept) if match else {}
        try:
            return blobs[f"{name}.{what}"]
        except KeyError as error:
            place = f" {self.kept.path}" if isinstance(self.kept, Run) else ""
            raise BadRunError(f"the run{place} has not trained {name!r} yet; resume it first") from error

    def _kept(self) -> Kept:
        if self.kept is None:
            raise BadRunError("this driver belongs to a run; open the run first")
        return self.kept

    def _run(self) -> Run:
        if not isinstance(self.kept, Run):
            raise BadRunError("policies are written into a run's folder; open the run first")
        return self.kept


def packed_training(name: str, training: Training) -> dict[str, bytes]:
    """Returns what a shard keeps of a training, by name."""
    return {f"{name}.policy": policy_bytes(training.policy), f"{name}.curve": TrainingRecord.of(training).pack()}


def open_policy(target: str, role: Side, scenario: Scenario) -> tuple[Driver, str]:
    """Opens a policy file, or imports `module:function`; returns the driver and its hash."""
    path = Path(target)
    if path.suffix == ".safetensors" or path.is_file():
        policy = load_policy(path, role, scenario.observation, scenario.name)
        return policy, sha256(policy_bytes(policy)).hexdigest()[:_HASH_DIGITS]
    if ":" not in target:
        raise BadSubjectError(f"no policy at {target!r}; name a .safetensors file written by skidpad, or module:function")
    return policy_named(target), f"{target} {_source_hash(target.partition(':')[0])}".strip()


def _source_hash(module: str) -> str:
    """Returns the hash of a module's file; "" where it has none."""
    found = find_spec(module)
    if found is None or not found.origin or not Path(found.origin).is_file():
        return ""
    return sha256(Path(found.origin).read_bytes()).hexdigest()[:_HASH_DIGITS]


def learned(driver: Opponent, what: str) -> LearnedPolicy:
    """Returns a policy that can be trained on, or says why this one cannot."""
    if not isinstance(driver, LearnedPolicy):
        raise BadSubjectError(
            f"{what} is a function, which cannot be retrained; pass a policy file (.safetensors), or skip the repair (--repairs 0)"
        )
    return driver
