"""Activations, by name and as layers of their own, and normalisation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import torch
from torch import nn
from torch.nn import functional

from skidpad.core.errors import BadSubjectError, UnknownNameError
from skidpad.subjects.formats.keras.building import Call, layer, parameter, pointwise
from skidpad.subjects.formats.keras.plan import Applied, Value
from skidpad.subjects.formats.keras.stored import KerasSettings, layer_settings

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


def _as_layer(settings: KerasSettings, call: Call, value: Value) -> nn.Module:
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


def _relu(settings: KerasSettings) -> nn.Module:
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


class _BatchNorm(nn.Module):
    """Batch normalisation along one axis of the tensor."""

    weight: nn.Parameter | None
    bias: nn.Parameter | None
    mean: torch.Tensor
    variance: torch.Tensor

    def __init__(self, tensors: dict[str, torch.Tensor], axis: int, epsilon: float, momentum: float) -> None:
        super().__init__()
        self.weight = parameter(tensors["gamma"]) if "gamma" in tensors else None
        self.bias = parameter(tensors["beta"]) if "beta" in tensors else None
        self.register_buffer("mean", tensors["mean"])
        self.register_buffer("variance", tensors["variance"])
        self._axis, self._epsilon, self._momentum = axis, epsilon, momentum

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        parts = (self.mean, self.variance, self.weight, self.bias)
        normed = functional.batch_norm(value.transpose(1, self._axis), *parts, self.training, 1.0 - self._momentum, self._epsilon)
        return normed.transpose(1, self._axis)


@layer("BatchNormalization")
def _build_batch_norm(call: Call) -> Value:
    settings = call.settings
    axis = settings.wholes("axis", default=(-1,))
    if len(axis) != 1 or settings.whole("mode", default=0) == 1:
        raise BadSubjectError(f"layer {call.name!r} normalises along several axes or each example alone, which is not rebuilt")
    value = call.value
    rank = len(value.shape)
    if rank > 1 and axis[0] in {-1, rank}:
        value = call.plan.arranged(value, moved=True)
    place = value.tensor_axis(axis[0], call.name)
    size = value.shape[(axis[0] + rank + 1 if axis[0] < 0 else axis[0]) - 1]
    names = [name for name, key in (("gamma", "scale"), ("beta", "center")) if settings.flag(key, default=True)]
    names += ["mean", "variance"]
    tensors = dict(zip(names, call.tensors(*[(size,)] * len(names)), strict=True))
    momentum = min(max(settings.number("momentum", default=0.99), 0.0), 1.0)
    return call.add(_BatchNorm(tensors, place, settings.number("epsilon", default=1e-3), momentum), value)


@layer("LayerNormalization")
def _build_layer_norm(call: Call) -> Value:
    settings, value = call.settings, call.plan.arranged(call.value, moved=False)
    if settings.wholes("axis", default=(-1,)) not in {(-1,), (len(value.shape),)} or settings.flag("rms_scaling", default=False):
        raise BadSubjectError(f"layer {call.name!r} normalises along other axes than the last, which is not rebuilt")
    names = [name for name in ("scale", "center") if settings.flag(name, default=True)]
    found = dict(zip(names, call.tensors(*[(value.shape[-1],)] * len(names)), strict=True))
    size, epsilon = value.shape[-1:], settings.number("epsilon", default=1e-3)

    def norm(each: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None) -> torch.Tensor:
        return functional.layer_norm(each, size, weight, bias, epsilon)

    return call.add(Applied(norm, found.get("scale"), found.get("center")), value)


def _numbers(call: Call, key: str, default: float) -> torch.Tensor:
    found = call.settings.config.get(key)
    if not isinstance(found, list):
        return torch.tensor(call.settings.number(key, default=default))
    flat: list[object] = found
    while len(flat) == 1 and isinstance(flat[0], list):
        flat = flat[0]
    if not all(isinstance(item, int | float) and not isinstance(item, bool) for item in flat):
        raise call.settings.bad(key, "a number, or one for each channel", found)
    return torch.tensor(flat, dtype=torch.float32)


@pointwise("Rescaling")
def _build_rescaling(call: Call) -> Value:
    scale, offset = _numbers(call, "scale", 1.0), _numbers(call, "offset", 0.0)
    return _scaled(call, call.value, scale, offset)


def _scaled(call: Call, value: Value, scale: torch.Tensor, offset: torch.Tensor) -> Value:
    if max(scale.numel(), offset.numel()) > 1:
        size = value.shape[-1]
        if not {scale.numel(), offset.numel()} <= {1, size}:
            raise BadSubjectError(f"layer {call.name!r} scales {size} channels by {scale.numel()} and {offset.numel()} numbers")
        ones = (size, *(1,) * (len(value.shape) - 1)) if value.moved else (size,)
        scale, offset = (tensor.reshape(ones) if tensor.numel() > 1 else tensor for tensor in (scale, offset))
    fixed = (tensor.reshape(()) if tensor.numel() == 1 else tensor for tensor in (scale, offset))
    return call.add(Applied(lambda each, factor, shift: each * factor + shift, *fixed, trained=False), value)


@layer("Normalization")
def _build_normalization(call: Call) -> Value:
    """(x - mean) / sqrt(variance), from the config or learned by `adapt`; along the last axis, or the same everywhere."""
    settings, value = call.settings, call.value
    axis = settings.config.get("axis", -1)
    shape: tuple[int, ...] = () if axis is None or axis == [] else (value.shape[-1],)
    if shape and settings.wholes("axis", default=(-1,)) not in {(-1,), (len(value.shape),)}:
        raise BadSubjectError(f"layer {call.name!r} normalises along other axes than the last, which is not rebuilt")
    if settings.find("mean") is not None:
        mean, variance = _numbers(call, "mean", 0.0), _numbers(call, "variance", 1.0)
    else:
        stored = call.stored_shapes()
        if len(stored) not in {2, 3} or any(prod(found) != prod(shape) for found in stored[:2]):
            raise BadSubjectError(f"layer {call.name!r} has not learned what to subtract; call its adapt before saving")
        mean, variance = (tensor.reshape(shape) for tensor in call.tensors(*stored)[:2])
    deviation = variance.sqrt().clamp(min=1e-7)
    if settings.flag("invert", default=False):
        return _scaled(call, value, deviation, mean)
    return _scaled(call, value, 1.0 / deviation, -mean / deviation)
