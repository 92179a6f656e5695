"""Batch normalisation, layer normalisation, and fixed scaling of the input."""

from __future__ import annotations

from math import prod

import torch
from torch import nn
from torch.nn import functional

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.formats.keras.building import Call, layer, parameter, pointwise
from skidpad.subjects.formats.keras.plan import Applied, Value


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
