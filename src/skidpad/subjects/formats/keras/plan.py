"""The steps of a rebuilt network, and how its values lie in memory while it runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

import torch
from torch import nn

from skidpad.core.errors import BadSubjectError

_MAX_VALUE = 2**27
"""The most numbers that one layer may make of one input: 64 maps of a picture in full HD."""
_MAX_STEPS = 20_000


@dataclass(frozen=True, slots=True)
class Value:
    """What a step gives: a place among the values and the shape of one example, in Keras's order of axes.

    moved: the tensor has Keras's last axis first, as torch's convolutions want (a picture (H, W, C) is the tensor (N, C, H, W)).
    times: with it the tensor's first axis is batch x times, as layers that are applied to each moment want.
    """

    slot: int
    shape: tuple[int, ...]
    moved: bool = False
    times: int | None = None

    @property
    def last_axis(self) -> int:
        """Where the tensor has Keras's last axis."""
        return 1 if self.moved else len(self.shape)

    def tensor_axis(self, axis: int, layer: str) -> int:
        """Tells where the tensor has an axis that Keras counts with the batch as 0, or from the end."""
        rank = len(self.shape)
        axis = axis + rank + 1 if axis < 0 else axis
        if not 1 <= axis <= rank:
            raise BadSubjectError(f"layer {layer!r} works along axis {axis} of an input of shape {self.shape}")
        if not self.moved:
            return axis
        return 1 if axis == rank else axis + 1


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One module, the values it takes, the one it gives, and those that nobody needs after it."""

    module: str
    inputs: tuple[int, ...]
    output: int
    last_uses: tuple[int, ...] = ()


class Applied(nn.Module):
    """Applies a function to its inputs and, after them, to tensors of its own, parameters where they are `trained`."""

    def __init__(self, function: Callable[..., torch.Tensor], *tensors: torch.Tensor | None, trained: bool = True) -> None:
        super().__init__()
        self._function, self._names = function, tuple(f"weight{number}" for number in range(len(tensors)))
        for name, tensor in zip(self._names, tensors, strict=True):
            if trained:
                self.register_parameter(name, None if tensor is None else nn.Parameter(tensor.contiguous(), requires_grad=False))
            else:
                self.register_buffer(name, tensor, persistent=False)

    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        """Returns the function's value."""
        return self._function(*values, *(getattr(self, name) for name in self._names))


def rearranged(order: Sequence[int]) -> Applied:
    """Makes a view of the same numbers with the axes in another order."""
    return Applied(lambda value: value.permute(tuple(order)))


def reshaped(shape: Sequence[int]) -> Applied:
    """Gives the same numbers another shape; the first axis is what is left."""
    return Applied(lambda value: value.reshape(-1, *shape))


class KerasNetwork(nn.Module):
    """Runs the steps; gives one tensor, or a tuple in the order of the file's outputs."""

    def __init__(self, modules: dict[str, nn.Module], steps: Sequence[PlanStep], source: int, answers: Sequence[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleDict(modules)
        self._steps = tuple(steps)
        self._source = source
        self._answers = tuple(answers)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """Returns the answers for a batch in the file's own layout."""
        values = {self._source: inputs}
        for step in self._steps:
            values[step.output] = self.layers[step.module](*(values[slot] for slot in step.inputs))
            for slot in step.last_uses:
                del values[slot]
        answers = tuple(values[slot] for slot in self._answers)
        return answers[0] if len(answers) == 1 else answers


class Plan:
    """Collects steps while the layers are built."""

    def __init__(self) -> None:
        self._modules: dict[str, nn.Module] = {}
        self._first: dict[str, nn.Module] = {}
        self._steps: list[PlanStep] = []
        self._slots = 0

    def source(self, shape: tuple[int, ...]) -> Value:
        """Makes the value that comes from outside."""
        self._slots += 1
        return Value(self._slots - 1, _checked("input", shape))

    def add(self, layer: str, module: nn.Module, inputs: Sequence[Value], like: Value) -> Value:
        """Adds a step and returns its value, which looks like `like`; the modules of one layer share their weights."""
        if len(self._steps) >= _MAX_STEPS:
            raise BadSubjectError(f"the network has more than {_MAX_STEPS} steps")
        first = self._first.setdefault(layer, module)
        if first is not module and any(True for _ in module.parameters()):
            _tie(module, first)
        key = re.sub(r"\W", "_", layer)
        while key in self._modules or hasattr(nn.ModuleDict, key) or key == "training":
            key += "_"
        self._modules[key] = module
        made = replace(like, slot=self._slots, shape=_checked(layer, like.shape))
        self._slots += 1
        self._steps.append(PlanStep(key, tuple(value.slot for value in inputs), made.slot))
        return made

    def arranged(self, value: Value, *, moved: bool) -> Value:
        """Brings the tensor into one of the two orders of axes."""
        rank = len(value.shape)
        if value.moved == moved or rank < 2:
            return value
        order = (0, rank, *range(1, rank)) if moved else (0, *range(2, rank + 1), 1)
        return self.add("arranged", rearranged(order), (value,), replace(value, moved=moved))

    def folded(self, value: Value, layer: str) -> Value:
        """Puts the moments of every example side by side in the batch."""
        if value.times is not None:
            return value
        if len(value.shape) < 2:
            raise BadSubjectError(f"layer {layer!r} is applied to each moment, but its input {value.shape} has no time")
        value = self.arranged(value, moved=False)
        rest = value.shape[1:]
        return self.add("folded", reshaped(rest), (value,), replace(value, shape=rest, times=value.shape[0]))

    def unfolded(self, value: Value) -> Value:
        """Undoes `folded`."""
        if value.times is None:
            return value
        value = self.arranged(value, moved=False)
        shape = (value.times or 0, *value.shape)
        return self.add("unfolded", reshaped(shape), (value,), replace(value, shape=shape, times=None))

    def network(self, source: Value, answers: Sequence[Value]) -> KerasNetwork:
        """Makes the network; steps that no answer needs are dropped, and so are values after their last use."""
        needed = [self.arranged(self.unfolded(value), moved=False).slot for value in answers]
        seen, kept = set(needed), list[PlanStep]()
        alive = {source.slot, *needed}
        for step in reversed(self._steps):  # backwards, so that a value's first sight is its last use
            if step.output in seen:
                kept.append(replace(step, last_uses=tuple(sorted(set(step.inputs) - seen - alive))))
                seen |= set(step.inputs)
        used = {step.module for step in kept}
        modules = {key: module for key, module in self._modules.items() if key in used}
        return KerasNetwork(modules, kept[::-1], source.slot, needed)


def _checked(layer: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    if not shape or min(shape) < 1:
        raise BadSubjectError(f"layer {layer!r} leaves nothing of its input: its shape would be {shape}; is the input too small?")
    if prod(shape) > _MAX_VALUE:
        raise BadSubjectError(f"layer {layer!r} makes {shape} of every input, more than {_MAX_VALUE} numbers")
    return shape


def _tie(module: nn.Module, first: nn.Module) -> None:
    """Lets a second call of a layer use the weights of its first."""
    theirs = dict(first.named_modules())
    for path, part in module.named_modules():
        other = theirs.get(path)
        if other is not None:
            for name, tensor in other.named_parameters(recurse=False):
                setattr(part, name, tensor)
            for name, tensor in other.named_buffers(recurse=False):
                setattr(part, name, tensor)
