"""(a) DeepTest's way: one image at a time, and a Python loop over layers and neurons.

Reference: DeepTest, section 3.1; the order of the work is that of the authors' published program, which makes one pass
through the network for the answer and one more for each layer. `passes="one"` spares it those and takes every layer's value
from the first pass, by hooks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ways.case import NC_THRESHOLD, SECTIONS, Case, Found, observed, plain_input, to_input

Passes = Literal["one", "each layer"]


@dataclass
class Covered:
    """What is covered so far, by layer, neuron and region."""

    nc: dict[tuple[int, int], bool] = field(default_factory=dict)
    kmnc: dict[tuple[int, int, int], bool] = field(default_factory=dict)
    nbc: dict[tuple[int, int, str], bool] = field(default_factory=dict)


class DeepTestWay:
    """Tests one mutant after the other; `images` counts them."""

    def __init__(self, case: Case, *, nc_only: bool, passes: Passes = "one") -> None:
        self._case = case
        self._nc_only = nc_only
        self._passes = passes
        self._transforms = case.transforms()
        bounds = np.cumsum((0, *case.layer_widths))
        self._low = [case.profile.low.numpy()[a:b] for a, b in pairwise(bounds)]
        self._high = [case.profile.high.numpy()[a:b] for a, b in pairwise(bounds)]
        children = list(case.module.children())
        self._heads = [nn.Sequential(*children[: children.index(module) + 1]) for module in observed(case.module)]
        self.covered = Covered()
        self.images = 0
        self.findings = 0

    def run(self, places: Iterable[int]) -> None:
        """Tests every recipe on the frames at `places`, in the order of the paper: image by image, transform by transform."""
        for place in places:
            original_rad = 0.0
            for number, transform in enumerate(self._transforms):
                answer_rad = self._test(transform(self._case.frames[place]))
                if number == 0:
                    original_rad = answer_rad
                elif abs(answer_rad - original_rad) >= self._case.within_rad:
                    self.findings += 1

    @property
    def found(self) -> Found:
        """What was covered and found so far."""
        return Found(len(self.covered.nc), len(self.covered.kmnc), len(self.covered.nbc), self.findings)

    def _test(self, mutant: NDArray[np.uint8]) -> float:
        self.images += 1
        inputs = to_input(torch.from_numpy(plain_input(mutant)[np.newaxis]))
        with torch.inference_mode():
            if self._passes == "one":
                answer, outputs = self._hooked(inputs)
            else:
                answer = float(self._case.module(inputs)[0, 0])
                outputs = [head(inputs).numpy()[0] for head in self._heads]
        for layer, output in enumerate(outputs):
            self._update(layer, output)
        return answer

    def _hooked(self, inputs: torch.Tensor) -> tuple[float, list[NDArray[np.float32]]]:
        outputs: list[NDArray[np.float32]] = []
        hooks = [
            module.register_forward_hook(lambda _module, _args, output: outputs.append(output.numpy()[0]))
            for module in observed(self._case.module)
        ]
        answer = float(self._case.module(inputs)[0, 0])
        for hook in hooks:
            hook.remove()
        return answer, outputs

    def _update(self, layer: int, output: NDArray[np.float32]) -> None:
        values = [np.mean(output[neuron]) for neuron in range(len(output))]
        low, high = min(values), max(values)
        for neuron, value in enumerate(values):
            if high > low and (value - low) / (high - low) > NC_THRESHOLD:
                self.covered.nc[layer, neuron] = True
            if not self._nc_only:
                self._update_bounded(layer, neuron, value)

    def _update_bounded(self, layer: int, neuron: int, value: np.float32) -> None:
        low, high = self._low[layer][neuron], self._high[layer][neuron]
        if value < low:
            self.covered.nbc[layer, neuron, "below"] = True
        elif value > high:
            self.covered.nbc[layer, neuron, "above"] = True
        else:
            section = int((value - low) / (high - low) * SECTIONS) if high > low else 0
            self.covered.kmnc[layer, neuron, min(section, SECTIONS - 1)] = True
