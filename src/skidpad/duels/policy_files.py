"""Policies as files: safetensors with the weights, the role, the observation and how they were trained; never a pickle."""

import json
from dataclasses import asdict, fields
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from skidpad.core.errors import BadSubjectError
from skidpad.core.files import write_atomically
from skidpad.duels.dense import Shape, layers_of, size_of
from skidpad.duels.layout import ACTIONS, Side
from skidpad.duels.observation import ObservationSpec
from skidpad.duels.policies import LearnedPolicy, TrainingFacts
from skidpad.duels.scenes import place_of

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

    scenario: the name of where it will drive, for error messages; "" if there is none.
    """
    tensors, about = _read(path)
    if about.get("role") != role.name.lower():
        raise BadSubjectError(
            f"{path} was trained to drive the {about.get('role')} vehicle; a policy for the {role.name.lower()} is needed"
        )
    if about.get("observation") != spec.hash:
        raise BadSubjectError(
            f"{path} was trained {place_of(_trained_in(about), str(about.get('observation')))}, but should drive "
            f"{place_of(scenario, spec.hash)}; use the scenario that it was trained in, or train a new one"
        )
    shape = _shape_of(path, tensors)
    if shape.inputs != spec.size or shape.outputs != ACTIONS:
        raise BadSubjectError(
            f"{path} maps {shape.inputs} numbers to {shape.outputs} actions; this scenario shows {spec.size} and has {ACTIONS}"
        )
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
