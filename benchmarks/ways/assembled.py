"""(b) The best a user would assemble: OpenCV in a DataLoader, batched torch with hooks, dnn-tip, NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

import cv2
import numpy as np
import torch
from dnn_tip.neuron_coverage import KMNC, NAC, NBC
from numpy.typing import NDArray
from torch import nn
from torch.utils.data import DataLoader, Dataset

from ways.case import HEIGHT_PX, NC_THRESHOLD, SECTIONS, WIDTH_PX, Case, Found, observed, plain_input, threads, to_input

BATCH = 64


@dataclass(frozen=True)
class Setting:
    """What a user can turn: worker processes and threads of the network."""

    workers: int
    torch_threads: int

    def __str__(self) -> str:
        return f"{self.workers} workers, {self.torch_threads} torch threads"


class Mutants(Dataset[torch.Tensor]):
    """Batches of network inputs as bytes, made whole in a worker: nothing but small arrays passes between processes."""

    def __init__(self, case: Case) -> None:
        self._frames = case.frames
        self._transforms = case.transforms()

    def __len__(self) -> int:
        return (len(self._frames) * len(self._transforms) + BATCH - 1) // BATCH

    def __getitem__(self, number: int) -> torch.Tensor:
        count = len(self._frames)
        places = range(number * BATCH, min((number + 1) * BATCH, count * len(self._transforms)))
        small = np.empty((len(places), HEIGHT_PX, WIDTH_PX, 3), np.uint8)
        for slot, place in enumerate(places):
            small[slot] = plain_input(self._transforms[place // count](self._frames[place % count]))
        return torch.from_numpy(small)


class Assembled:
    """Tests all mutants, recipe by recipe, in batches that cross recipes; the workers live as long as this object."""

    def __init__(self, case: Case, workers: int) -> None:
        self._case = case
        # channels last throughout: nearly twice as fast as the default order on this network
        self._module = deepcopy(case.module).to(memory_format=torch.channels_last)
        self._loader = DataLoader(
            Mutants(case),
            batch_size=None,
            num_workers=workers,
            persistent_workers=True,
            prefetch_factor=4,
            multiprocessing_context="fork",
            worker_init_fn=_one_thread,
        )
        widths = case.layer_widths
        low, high = (_by_layer(values.numpy(), widths) for values in (case.profile.low, case.profile.high))
        std = [np.zeros_like(layer) for layer in low]
        self._nac = NAC(NC_THRESHOLD)
        self._kmnc = KMNC(low, high, SECTIONS)
        self._nbc = NBC(low, high, std, 0.0)
        neurons = sum(widths)
        self._covered_nc = np.zeros(neurons, np.bool_)
        self._covered_kmnc = np.zeros((neurons, SECTIONS), np.bool_)
        self._covered_nbc = np.zeros((neurons, 2), np.bool_)
        self._findings = 0

    @property
    def found(self) -> Found:
        """What was covered so far, and found by the last run."""
        return Found(int(self._covered_nc.sum()), int(self._covered_kmnc.sum()), int(self._covered_nbc.sum()), self._findings)

    def run(self, setting: Setting, *, nc_only: bool) -> None:
        """Tests all mutants."""
        answers: list[NDArray[np.float32]] = []
        with threads(setting.torch_threads, 1), torch.inference_mode():
            for answer, layers in self._forward():
                answers.append(answer)
                self._cover(layers, nc_only=nc_only)
        together = np.concatenate(answers)
        original_rad = together[: len(self._case.frames)]
        deviation_rad = np.abs(together.reshape(-1, len(original_rad)) - original_rad)
        self._findings = int((deviation_rad[1:] >= self._case.within_rad).sum())

    def _forward(self) -> Iterator[tuple[NDArray[np.float32], list[NDArray[np.float32]]]]:
        layers: list[NDArray[np.float32]] = []

        def keep(_module: nn.Module, _args: object, output: torch.Tensor) -> None:
            layers.append((output.mean(dim=(2, 3)) if output.ndim == 4 else output).numpy())

        hooks = [child.register_forward_hook(keep) for child in observed(self._module)]
        try:
            for small in self._loader:
                inputs = to_input(small)
                layers.clear()
                answer = self._module(inputs)
                yield answer[:, 0].numpy(), list(layers)
        finally:
            for hook in hooks:
                hook.remove()

    def _cover(self, layers: list[NDArray[np.float32]], *, nc_only: bool) -> None:
        self._covered_nc |= self._nac([_scaled(layer) for layer in layers])[1].any(axis=0)
        if not nc_only:
            self._covered_kmnc |= self._kmnc(layers)[1].any(axis=0)
            self._covered_nbc |= self._nbc(layers)[1].any(axis=0)


def _scaled(layer: NDArray[np.float32]) -> NDArray[np.float32]:
    low, high = layer.min(axis=1, keepdims=True), layer.max(axis=1, keepdims=True)
    return (layer - low) / np.where(high > low, high - low, 1.0)


def _by_layer(values: NDArray[np.float32], widths: tuple[int, ...]) -> list[NDArray[np.float32]]:
    return np.split(values, np.cumsum(widths)[:-1])


def _one_thread(_worker: int) -> None:
    cv2.setNumThreads(1)
    torch.set_num_threads(1)
