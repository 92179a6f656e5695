"""Dense layers, and layers that do something while training alone."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from skidpad.subjects.keras.building import Call, layer, parameter, pointwise
from skidpad.subjects.keras.layers.activations import activation
from skidpad.subjects.keras.plan import Value


class _Dense(nn.Module):
    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        self.weight = parameter(weight)
        self.bias = None if bias is None else parameter(bias)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Returns the product along the last axis."""
        return functional.linear(value, self.weight, self.bias)


@layer("Dense")
def _build_dense(call: Call) -> Value:
    settings = call.settings
    value = call.plan.arranged(call.value, moved=False)
    units, inputs = settings.positive("units", "output_dim"), value.shape[-1]
    bias = settings.flag("use_bias", "bias", default=True)
    found = call.tensors((inputs, units), *([(units,)] if bias else []))
    made = call.add(_Dense(found[0].T, found[1] if bias else None), value, shape=(*value.shape[:-1], units))
    module = activation(call, made, "activation")
    return made if module is None else call.plan.add(f"{call.path}/activation", module, (made,), made)


@pointwise("Dropout")
def _build_dropout(call: Call) -> Value:
    return call.add(nn.Dropout(min(max(call.settings.number("rate", "p", default=0.5), 0.0), 1.0)), call.value)


@layer("SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D")
def _build_spatial_dropout(call: Call) -> Value:
    dims = int(call.settings.class_name[-2])
    value = call.ranked(dims + 1, moved=not call.settings.channels_first)
    kind = {1: nn.Dropout1d, 2: nn.Dropout2d, 3: nn.Dropout3d}[dims]
    return call.add(kind(min(max(call.settings.number("rate", "p", default=0.5), 0.0), 1.0)), value)


@pointwise(
    *("GaussianNoise", "GaussianDropout", "AlphaDropout", "ActivityRegularization", "Identity", "RandomFlip", "RandomRotation"),
    *("RandomZoom", "RandomContrast", "RandomBrightness", "RandomTranslation"),
)
def _build_nothing(call: Call) -> Value:
    """These change values while training alone; here they never do."""
    return call.value
