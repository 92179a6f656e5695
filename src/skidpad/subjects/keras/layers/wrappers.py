"""Layers around layers: the same for every moment, and both directions of time."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from skidpad.core.errors import BadSubjectError
from skidpad.subjects.keras.building import Call, layer
from skidpad.subjects.keras.layers.merging import LAYER_OF_MODE
from skidpad.subjects.keras.layers.recurrent import recurrent
from skidpad.subjects.keras.plan import Value
from skidpad.subjects.keras.settings import Settings


class _Reversed(nn.Module):
    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Returns the moments in the other order."""
        return value.flip(1)


@layer("Bidirectional")
def _build_bidirectional(call: Call) -> Value:
    """Two recurrent layers; the second reads time backwards, and its answers are put back in order."""
    settings = call.settings
    inner = settings.inner("layer")
    if inner.class_name not in {"LSTM", "GRU", "SimpleRNN"}:
        raise BadSubjectError(f"layer {call.name!r} reads {inner.class_name!r} in both directions, which is not rebuilt")
    backward = settings.inner("backward_layer") if settings.find("backward_layer") is not None else inner
    count = len(call.weights.nodes())
    forwards = not inner.flag("go_backwards", default=False)
    values: list[Value] = []
    for number, direction in enumerate((inner, backward)):
        turned = {**direction.config, "go_backwards": forwards is (number == 1)}
        one = replace(call, settings=Settings(direction.name, direction.class_name, turned), path=f"{call.path}/{number}")
        values.append(recurrent(one, inner.class_name, list(range(number * count // 2, (number + 1) * count // 2))))
    if inner.flag("return_sequences", default=False):
        values[1] = call.plan.add(f"{call.path}/ordered", _Reversed(), (values[1],), values[1])
    mode = settings.choice(("concat", "sum", "mul", "ave"), "merge_mode", default="concat")
    return LAYER_OF_MODE[mode](replace(call, inputs=tuple(values), path=f"{call.path}/merged"))
