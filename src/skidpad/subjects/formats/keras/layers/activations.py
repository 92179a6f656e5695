"""Activations, by name and as layers of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import nn

from skidpad.core.errors import BadSubjectError, UnknownNameError
from skidpad.subjects.formats.keras.building import Call, layer, parameter, pointwise
from skidpad.subjects.formats.keras.plan import Applied, Value
from skidpad.subjects.formats.keras.settings import Settings, layer_settings

_NAMED: Mapping[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "relu6": nn.ReLU6,
    "leaky_relu": lambda: nn.LeakyReLU(0.2),
    "elu": nn.ELU,
    "selu": nn.SELU,
    "celu": nn.CELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "swish": nn.SiLU,
    "mish": nn.Mish,
    "tanh": nn.Tanh,
    "hard_tanh": nn.Hardtanh,
    "tanh_shrink": nn.Tanhshrink,
    "soft_shrink": nn.Softshrink,
    "hard_shrink": nn.Hardshrink,
    "sigmoid": nn.Sigmoid,
    "log_sigmoid": nn.LogSigmoid,
    "hard_silu": nn.Hardswish,
    "hard_swish": nn.Hardswish,
    "softplus": nn.Softplus,
    "softsign": nn.Softsign,
    "squareplus": lambda: Applied(lambda value: 0.5 * (value + torch.sqrt(value * value + 4.0))),
    "exponential": lambda: Applied(torch.exp),
    "exp": lambda: Applied(torch.exp),
}
_ALONG_AXIS: Mapping[str, Callable[[int], nn.Module]] = {"softmax": nn.Softmax, "log_softmax": nn.LogSoftmax}
_WITH_ONE_NUMBER: Mapping[str, tuple[Callable[[float], nn.Module], float, tuple[str, ...]]] = {
    "LeakyReLU": (nn.LeakyReLU, 0.3, ("negative_slope", "alpha")),
    "ELU": (nn.ELU, 1.0, ("alpha",)),
    "ThresholdedReLU": (lambda theta: nn.Threshold(theta, 0.0), 1.0, ("theta",)),
}
"""Layers, what they are without a setting, and what the setting is called."""
_NONE = frozenset(("linear", "identity"))


def activation(call: Call, value: Value, *keys: str, default: str = "linear") -> nn.Module | None:
    """Returns the activation that a setting names for a value; None where it changes nothing."""
    found = call.settings.find(*keys)
    return _named(call, default if found is None else found, value)


def _named(call: Call, found: object, value: Value) -> nn.Module | None:
    if isinstance(found, Mapping):
        inner = layer_settings(found, f"{call.name}/activation")
        if inner.class_name == "function" and isinstance(found.get("config"), str):
            found = found["config"]
        else:
            return _as_layer(inner, call, value)
    if not isinstance(found, str):
        raise call.settings.bad("activation", "a name", found)
    if found in _NONE:
        return None
    if found == "hard_sigmoid":
        if call.origin.version >= 3:
            return nn.Hardsigmoid()  # x / 6 + 0.5; before Keras 3 it was steeper
        return Applied(lambda each: torch.clamp(0.2 * each + 0.5, 0.0, 1.0))
    if found in _ALONG_AXIS:
        return _ALONG_AXIS[found](value.last_axis)
    if found not in _NAMED:
        known = (*_NAMED, *_ALONG_AXIS, *_NONE, "hard_sigmoid")
        raise BadSubjectError(f"layer {call.name!r}: {UnknownNameError.among('Keras activation', found, known)}")
    return _NAMED[found]()


def _as_layer(settings: Settings, call: Call, value: Value) -> nn.Module:
    kind = settings.class_name
    if kind in _WITH_ONE_NUMBER:
        make, default, keys = _WITH_ONE_NUMBER[kind]
        return make(settings.number(*keys, default=default))
    if kind == "Softmax":
        axis = settings.wholes("axis", default=(-1,))
        if len(axis) != 1:
            raise settings.bad("axis", "one axis", axis)
        return nn.Softmax(value.tensor_axis(axis[0], settings.name))
    if kind == "ReLU":
        return _relu(settings)
    raise BadSubjectError(
        f"layer {call.name!r} has an activation of class {kind!r}, which skidpad does not know; make it a layer of its own"
    )


def _relu(settings: Settings) -> nn.Module:
    slope, threshold = settings.number("negative_slope", default=0.0), settings.number("threshold", default=0.0)
    maximum = settings.number("max_value", default=0.0) if settings.find("max_value") is not None else None
    if threshold == 0.0 and maximum is None:
        return nn.LeakyReLU(slope) if slope else nn.ReLU()
    if threshold == 0.0 and slope == 0.0 and maximum:
        return nn.Hardtanh(0.0, maximum) if maximum != 6.0 else nn.ReLU6()

    def bent(value: torch.Tensor) -> torch.Tensor:
        kept = value if maximum is None else value.clamp(max=maximum)
        return torch.where(value >= threshold, kept, slope * (value - threshold))

    return Applied(bent)


@pointwise("Activation")
def _build_activation(call: Call) -> Value:
    found = call.settings.find("activation")
    if found is None:
        raise call.settings.bad("activation", "a name", found)
    module = _named(call, found, call.value)
    return call.value if module is None else call.add(module, call.value)


@layer("Softmax")
@pointwise("LeakyReLU", "ELU", "ThresholdedReLU", "ReLU")
def _build_layer(call: Call) -> Value:
    return call.add(_as_layer(call.settings, call, call.value), call.value)


@layer("PReLU")
def _build_prelu(call: Call) -> Value:
    shared = call.settings.wholes("shared_axes", default=())
    value = call.value
    rank = len(value.shape)
    if any(not 1 <= axis <= rank for axis in shared):
        raise call.settings.bad("shared_axes", f"axes from 1 to {rank}", shared)
    shape = tuple(1 if axis in shared else size for axis, size in enumerate(value.shape, 1))
    if rank > 1 and shape[-1] != 1 and not any(size != 1 for size in shape[:-1]):
        value = call.plan.arranged(value, moved=True)
    (slopes,) = call.tensors(shape)
    if value.moved:
        slopes = slopes.movedim(-1, 0)
    if slopes.numel() in {1, slopes.shape[0]}:  # torch has one slope for all, or one for each place of the tensor's second axis
        module = nn.PReLU(slopes.numel(), device="meta")  # its weight is set below
        module.weight = parameter(slopes.reshape(-1))
        return call.add(module, value)
    return call.add(Applied(lambda each, slope: torch.relu(each) - slope * torch.relu(-each), slopes), value)
