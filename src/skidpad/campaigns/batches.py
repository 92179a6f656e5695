"""How many frames a device is shown at a time."""

from __future__ import annotations

_CPU_FRAMES = 32
"""With 64, the maps of a first convolution are more than the allocator keeps, and the system clears new pages for each
batch: a tenth of the time. Fewer than 16 make the network itself slower."""

_GPU_FRAMES = 256
"""As many as a subject takes at once there."""


def cut(frames: int, lead: int = 0, device: str = "cpu") -> list[slice]:
    """Cuts `frames` frames into batches; how many workers there are does not matter.

    lead: the frames that each batch brings along from before it; batches are long enough that these are a third at most.
    """
    size = max(_CPU_FRAMES if device == "cpu" else _GPU_FRAMES, 2 * lead)
    return [slice(start, min(start + size, frames)) for start in range(0, frames, size)]
