"""Policies map observations to actions: learned ones, and those that users bring."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from skidpad.core.errors import BadSubjectError
from skidpad.core.files import write_atomically
from skidpad.core.images import IntArray
from skidpad.core.trust import Code, require
from skidpad.highway.dense import Activations, Matrix, Shape, Vector, activations_for, best_output, forward, layers_of, size_of
from skidpad.highway.layout import ACTIONS, VEHICLES, Side
from skidpad.highway.observation import ObservationSpec
from skidpad.highway.scenes import place_of

_BLOCK = 64
"""Rows that go through the network at once, so that their activations stay in the near cache."""


class Policy(Protocol):
    """Maps what is seen to actions, row by row and without a memory; the same observation gives the same action."""

    def act(self, observations: NDArray[np.float32]) -> IntArray:
        """Returns the actions, (N,) of 0 .. 4, for observations, (N, features)."""


@dataclass(frozen=True, slots=True)
class TrainingFacts:
    """How a policy was trained; kept in its file."""

    scenario: str = ""
    reward: str = ""
    seed: int = -1
    episodes: int = 0
    chosen_episode: int = 0
    """After how many episodes the kept weights were the best."""


@dataclass(frozen=True, slots=True, eq=False)
class LearnedPolicy:
    """A network of two hidden layers that answers with the action of the greatest value."""

    role: Side
    spec_hash: str
    """The hash of the observation that it was trained on."""
    shape: Shape
    weights: Vector
    """The flat vector of `dense`, float32."""
    facts: TrainingFacts = field(default_factory=TrainingFacts)

    def __post_init__(self) -> None:
        if self.weights.shape != (size_of(self.shape),) or self.weights.dtype != np.float32:
            raise BadSubjectError(
                f"a policy of shape {tuple(self.shape)} has {size_of(self.shape)} float32 weights; "
                f"got {self.weights.dtype} of shape {self.weights.shape}"
            )
        if self.shape.outputs != ACTIONS:
            raise BadSubjectError(f"a policy chooses among {ACTIONS} actions; got a network with {self.shape.outputs} outputs")

    def act(self, observations: NDArray[np.float32]) -> IntArray:
        """Returns the actions of the greatest values, (N,); a row gives the same action in any batch."""
        rows = np.ascontiguousarray(observations, np.float32)
        if rows.ndim != 2 or rows.shape[1] != self.shape.inputs:
            raise BadSubjectError(f"this policy sees (N, {self.shape.inputs}) numbers; got an array of shape {rows.shape}")
        actions = np.empty(len(rows), np.int64)
        padded = self.shape.padded()
        x = np.zeros((_BLOCK, padded.inputs), np.float32)
        _choose_many(self.weights, padded, rows, x, activations_for(self.shape, _BLOCK), actions)
        return actions


@njit(nogil=True, cache=True, error_model="numpy")
def _choose_many(weights: Vector, shape: Shape, rows: Matrix, x: Matrix, room: Activations, actions: IntArray) -> None:
    layers = layers_of(weights, shape)
    for start in range(0, len(rows), len(x)):
        count = min(len(rows) - start, len(x))
        for i in range(count):
            for n in range(rows.shape[1]):
                x[i, n] = rows[start + i, n]
        even = count + count % 2
        part = Activations(room.h1[:even], room.h2[:even], room.q[:even])
        forward(layers, x[:even], part)
        for i in range(count):
            actions[start + i] = best_output(room.q[i], ACTIONS)


def random_policy(role: Side, spec_hash: str, inputs: int, hidden: tuple[int, int], rng: np.random.Generator) -> LearnedPolicy:
    """Returns an untrained policy: weights and biases uniform within 1 / sqrt(the layer's inputs), as torch's Linear starts.

    Speeds are observed in m/s, so that a wider start begins with values far from any reward, and correcting them kills most units.
    """
    shape = Shape(inputs, *hidden, ACTIONS)
    weights = np.zeros(size_of(shape), np.float32)
    layers = layers_of(weights, shape.padded())
    for matrix, bias, before, after in (
        (layers.w1, layers.b1, shape.inputs, shape.first),
        (layers.w2, layers.b2, shape.first, shape.second),
        (layers.w3, layers.b3, shape.second, shape.outputs),
    ):
        limit = 1.0 / np.sqrt(before)
        matrix[:before, :after] = rng.uniform(-limit, limit, (before, after))
        bias[:after] = rng.uniform(-limit, limit, after)
    return LearnedPolicy(role, spec_hash, shape, weights)


@dataclass(frozen=True, slots=True)
class CallablePolicy:
    """A user's function as a policy: observations (N, features), float32, to actions (N,)."""

    function: Callable[[NDArray[np.float32]], object]
    name: str = "callable"

    def act(self, observations: NDArray[np.float32]) -> IntArray:
        """Returns the function's answer unchecked; the caller checks every action."""
        return np.asarray(self.function(np.asarray(observations, np.float32)))

    def __call__(self, observations: NDArray[np.float32]) -> IntArray:
        """Does the same as `act`, so that a user's function can wrap it."""
        return self.act(observations)


class _Predicts(Protocol):
    """What a model of stable-baselines3 can do."""

    def predict(self, observation: NDArray[np.float32], *, deterministic: bool) -> tuple[object, object]:
        """Returns actions and, for recurrent models, a state."""


def from_stable_baselines(model: _Predicts, name: str = "stable-baselines3") -> CallablePolicy:
    """Wraps a loaded model of stable-baselines3 that was trained on flat observations; it acts deterministically.

    Files of stable-baselines3 are pickles: load them yourself if you trust them, and pass the model.
    """
    return CallablePolicy(lambda observations: model.predict(observations, deterministic=True)[0], name)


def policy_named(target: str) -> CallablePolicy:
    """Imports `module:function`, which runs that module's code; asks for trust, since a run's settings may come from elsewhere."""
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise BadSubjectError(f"name your own policy as module:function; got {target!r}")
    require(Code(f"import the Python code {target!r}", Path.cwd(), remedy=""))
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        missing = "is it on PYTHONPATH?" if error.name == module_name else "install what it imports"
        raise BadSubjectError(f"cannot import the module of policy {target!r}: {error}; {missing}") from error
    except (Exception, SystemExit) as error:  # the user's own code may raise anything
        raise BadSubjectError(f"the module of policy {target!r} raised {type(error).__name__}: {error}") from error
    given = getattr(module, name, None)
    if isinstance(given, CallablePolicy):
        return CallablePolicy(given.function, target)
    if given is None:
        raise BadSubjectError(f"module {module_name!r} has no {name!r}; name a function that it defines")
    if not callable(given):
        raise BadSubjectError(f"{target!r} is a {type(given).__name__}; name a function of observations (N, features)")
    return CallablePolicy(given, target)


METADATA_KEY = "skidpad duel policy"
"""One key with canonical JSON, because safetensors writes several keys in an order that differs from run to run."""
_NAMES = ("layer1.weight", "layer1.bias", "layer2.weight", "layer2.bias", "layer3.weight", "layer3.bias")


def policy_bytes(policy: LearnedPolicy) -> bytes:
    """Returns the file: weights as (out, in) matrices and (out,) biases, float32, without padding; the same policy, the same bytes."""
    padded, shape = layers_of(policy.weights, policy.shape.padded()), policy.shape
    widths = ((shape.inputs, shape.first), (shape.first, shape.second), (shape.second, shape.outputs))
    tensors = {}
    for index, (before, after) in enumerate(widths):
        tensors[_NAMES[2 * index]] = np.ascontiguousarray(padded[2 * index][:before, :after].T)
        tensors[_NAMES[2 * index + 1]] = padded[2 * index + 1][:after].copy()
    about = {"role": policy.role.name.lower(), "observation": policy.spec_hash, "training": asdict(policy.facts)}
    data: bytes = save(tensors, {METADATA_KEY: json.dumps(about, sort_keys=True)})
    return data


def save_policy(policy: LearnedPolicy, path: Path) -> None:
    """Writes the file whole or not at all."""
    write_atomically(path, policy_bytes(policy))


def load_policy(path: Path, role: Side, spec: ObservationSpec, scenario: str = "") -> LearnedPolicy:
    """Reads a policy that drives as `role` and sees `spec`; any other file is refused with the reason.

    A policy that was trained with one front vehicle can drive among several; it ignores all but the nearest, or all but the ego.
    scenario: the name of where it will drive, for error messages; "" if there is none.
    """
    tensors, about = _read(path)
    if about.get("role") != role.name.lower():
        raise BadSubjectError(
            f"{path} was trained to drive the {about.get('role')} vehicle; a policy for the {role.name.lower()} is needed"
        )
    narrow = replace(spec, vehicles=min(spec.vehicles, VEHICLES))
    seen = narrow if about.get("observation") == narrow.hash else spec
    if about.get("observation") != seen.hash:
        raise BadSubjectError(
            f"{path} was trained {place_of(_trained_in(about), str(about.get('observation')))}, but should drive "
            f"{place_of(scenario, spec.hash)}; use the scenario that it was trained in, or train a new one"
        )
    shape = _shape_of(path, tensors)
    if shape.inputs != seen.size or shape.outputs != ACTIONS:
        raise BadSubjectError(
            f"{path} maps {shape.inputs} numbers to {shape.outputs} actions; this scenario shows {seen.size} and has {ACTIONS}"
        )
    shape = shape._replace(inputs=spec.size)
    weights = np.zeros(size_of(shape), np.float32)
    views = layers_of(weights, shape.padded())
    for index in range(3):
        matrix, bias = tensors[_NAMES[2 * index]], tensors[_NAMES[2 * index + 1]]
        views[2 * index][: matrix.shape[1], : matrix.shape[0]] = matrix.T
        views[2 * index + 1][: len(bias)] = bias
    return LearnedPolicy(role, spec.hash, shape, weights, _facts(path, about.get("training")))


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, object]]:
    """Returns the tensors and what the file says about itself."""
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # no mapping: it has keys() alone
    except FileNotFoundError as error:
        raise BadSubjectError(f"no policy at {path}; name a .safetensors file") from error
    except (SafetensorError, OSError) as error:
        raise BadSubjectError(
            f"{path} is not a complete safetensors file: {error}; skidpad reads no other format, because loading one can run code; "
            "pass your own code as module:function (docs/duels.md shows how for stable-baselines3)"
        ) from error
    try:
        about = json.loads(metadata.get(METADATA_KEY, "null"))
    except json.JSONDecodeError:
        about = None
    if not isinstance(about, dict):
        raise BadSubjectError(f"{path} holds no duel policy (its metadata has no {METADATA_KEY!r}); name a file written by skidpad")
    return tensors, about


def _shape_of(path: Path, tensors: dict[str, np.ndarray]) -> Shape:
    if set(tensors) != set(_NAMES):
        raise BadSubjectError(f"{path} should hold {', '.join(_NAMES)}; got {', '.join(sorted(tensors)) or 'nothing'}")
    first, second, third = (tensors[name] for name in _NAMES[::2])
    biases = [tensors[name].shape for name in _NAMES[1::2]]
    fits = all(matrix.ndim == 2 and matrix.dtype == np.float32 for matrix in (first, second, third))
    if (
        not fits
        or second.shape[1] != first.shape[0]
        or third.shape[1] != second.shape[0]
        or biases != [(len(m),) for m in (first, second, third)]
    ):
        found = ", ".join(f"{name} {tensors[name].dtype}{tensors[name].shape}" for name in _NAMES)
        raise BadSubjectError(f"the layers in {path} do not fit together as float32 (out, in) matrices and (out,) biases; got {found}")
    if not all(np.isfinite(tensor).all() for tensor in tensors.values()):
        raise BadSubjectError(f"{path} holds weights that are not finite; train it again")
    return Shape(first.shape[1], first.shape[0], second.shape[0], third.shape[0])


def _trained_in(about: dict[str, object]) -> str:
    """Returns the scenario that the file names, "" where it names none."""
    training = about.get("training")
    return str(training.get("scenario", "")) if isinstance(training, dict) else ""


def _facts(path: Path, table: object) -> TrainingFacts:
    known = [item.name for item in fields(TrainingFacts)]
    if not isinstance(table, dict) or not set(table) <= set(known):
        raise BadSubjectError(
            f"the training facts in {path} should be among {', '.join(known)}; got {table!r}; was it written by a newer version?"
        )
    return TrainingFacts(**table)
