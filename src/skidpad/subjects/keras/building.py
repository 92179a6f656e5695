"""What a layer's builder is given, and the table of builders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import torch
from torch import nn

from skidpad.core.errors import BadSubjectError
from skidpad.core.registry import Registry
from skidpad.subjects.keras.plan import Plan, Value
from skidpad.subjects.keras.settings import Settings
from skidpad.subjects.keras.stored import LayerWeights


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a network comes from: Keras's main version, and whether Theano ran it, which turns kernels round.

    Files of Keras 1 do not say what ran them; TensorFlow is assumed, as Keras 2 does when it reads them.
    """

    version: int = 2
    theano: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """One call of one layer: its settings, its weights, what it takes, and the plan that it adds its steps to.

    path: the layer's name with those of the models that it is in; calls of one layer have the same.
    """

    settings: Settings
    inputs: tuple[Value, ...]
    weights: LayerWeights
    plan: Plan
    origin: Origin
    path: str

    @property
    def name(self) -> str:
        """The layer's own name."""
        return self.settings.name

    @property
    def value(self) -> Value:
        """The one input."""
        if len(self.inputs) != 1:
            raise BadSubjectError(f"layer {self.name!r} ({self.settings.class_name}) takes one input; got {len(self.inputs)}")
        return self.inputs[0]

    def ranked(self, rank: int, *, moved: bool = False) -> Value:
        """The one input, which must have so many axes, in an order of axes."""
        if len(self.value.shape) != rank:
            raise BadSubjectError(f"layer {self.name!r} ({self.settings.class_name}) takes {rank} axes; got the shape {self.value.shape}")
        return self.plan.arranged(self.value, moved=moved)

    def add(self, module: nn.Module, *inputs: Value, shape: Sequence[int] | None = None) -> Value:
        """Adds a step on `inputs` whose value lies like the first of them, with another shape where given."""
        like = inputs[0] if shape is None else replace(inputs[0], shape=tuple(shape))
        return self.plan.add(self.path, module, inputs, like)

    def tensors(self, *shapes: tuple[int, ...]) -> list[torch.Tensor]:
        """Reads the layer's weights, which must have these shapes, as float32; shapes are checked before anything is read."""
        nodes = self.weights.nodes()
        found = [stored.shape for node in nodes if (stored := node.stored()) is not None]
        if found != list(shapes) or len(found) != len(nodes):
            if not nodes:
                raise BadSubjectError(f"layer {self.name!r} has no weights in the file; save the weights of the whole network")
            raise BadSubjectError(f"layer {self.name!r} needs weights of shapes {_listed(shapes)}; the file has {_listed(found)}")
        return [as_tensor(node.array()) for node in nodes]

    def stored_shapes(self) -> list[tuple[int, ...]]:
        """Tells the shapes of the layer's weights without reading them."""
        return [stored.shape for node in self.weights.nodes() if (stored := node.stored()) is not None]


def as_tensor(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> torch.Tensor:
    """Copies an array of the file into a float32 tensor of its own."""
    return torch.from_numpy(np.array(array, np.float32, order="C"))


def parameter(tensor: torch.Tensor) -> nn.Parameter:
    """Makes a weight that nobody trains yet."""
    return nn.Parameter(tensor.contiguous(), requires_grad=False)


def _listed(shapes: Sequence[tuple[int, ...]]) -> str:
    return ", ".join(str(shape) for shape in shapes) or "none"


Builder: TypeAlias = Callable[[Call], Value]

LAYERS: Registry[Builder] = Registry(
    "Keras layer",
    "keras_layers",
    tuple(
        f"skidpad.subjects.keras.layers.{module}"
        for module in ("activations", "convolutions", "dense", "merging", "normalisation", "pooling", "recurrent", "shapes", "wrappers")
    ),
)


def layer(*names: str) -> Callable[[Builder], Builder]:
    """Decorates the builder of a layer under all the names that Keras has given it."""

    def add(builder: Builder) -> Builder:
        for name in names:
            LAYERS.register(name)(builder)
        return builder

    return add


KEEPS_TIME: set[str] = set()
"""Layers that do the same to every number, so that moments may stay side by side in the batch."""


def pointwise(*names: str) -> Callable[[Builder], Builder]:
    """Decorates the builder of a layer that treats every number alike, wherever it lies."""
    KEEPS_TIME.update(names)
    return layer(*names)
