"""How much of a device is used: what the operations of torch compute and move, held against what the device can."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode


@dataclass(frozen=True, slots=True)
class Peaks:
    """What a device can do in a second, by its maker's data sheet: bytes of its memory, operations in float32 and in bfloat16."""

    bytes_per_s: float
    flop_per_s: float
    bf16_flop_per_s: float


DATA_SHEETS = {
    "H200": Peaks(4.8e12, 67e12, 989e12),
    "H100": Peaks(3.35e12, 67e12, 989e12),
    "A100": Peaks(2.0e12, 19.5e12, 312e12),
}


@dataclass(frozen=True, slots=True)
class Cost:
    """What one image takes: floating-point operations of products and convolutions, and bytes that operations read and write."""

    flop: float
    moved_bytes: float


class _Moved(TorchDispatchMode):
    """Sums the bytes of what each operation takes and gives; a view moves nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if not func.is_view:
            tensors = [leaf for leaf in tree_leaves((args, kwargs, found)) if isinstance(leaf, torch.Tensor)]
            self.total += sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        return found


def cost_of(work: Callable[[], object], images: int) -> Cost:
    """Counts what `work` on so many images computes and moves, operation by operation, as they run one after the other.

    What is compiled otherwise runs in parts here, since nobody sees into it: its bytes are those of the parts.
    """
    moved, flop = _Moved(), FlopCounterMode(display=False)
    eager = torch.compiler.set_stance("force_eager") if hasattr(torch.compiler, "set_stance") else nullcontext()
    with eager, flop, moved:
        work()
    return Cost(flop.get_total_flops() / images, moved.total / images)


def busy_s(work: Callable[[], object], device: str) -> float:
    """Measures how long a GPU is at work for `work`, all gaps left out; elsewhere how long `work` takes."""
    started = now(device)
    if not device.startswith("cuda"):
        work()
        return now(device) - started
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiled:
        work()
        ended = now(device)
    busy_us = sum(event.self_device_time_total for event in profiled.key_averages())
    return busy_us / 1e6 or ended - started  # a machine whose counters may not be read


def data_sheet(device: str) -> Peaks | None:
    """Returns what the maker says of the device; None for one that is not known here."""
    if not device.startswith("cuda"):
        return None
    name = torch.cuda.get_device_name(device)
    return next((peaks for key, peaks in DATA_SHEETS.items() if key in name), None)


def copied_bytes_per_s(device: str, size: int) -> float:
    """Measures how many bytes a second a plain copy reads and writes: what memory gives in practice."""
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    best_s = float("inf")
    for _ in range(5):
        started = now(device)
        target.copy_(source)
        best_s = min(best_s, now(device) - started)
    return 2 * size / best_s


def now(device: str) -> float:
    """Returns the time when the device has done all that it was given."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
    return time.perf_counter()
