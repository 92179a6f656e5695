"""How many frames a shard has, how many a device is shown at a time, and how many threads keep it at work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skidpad.workers.pinning import cores

if TYPE_CHECKING:
    from skidpad.drives.drive import Drive

_CPU_FRAMES = 32
"""With 64, the maps of a first convolution are more than the allocator keeps, and the system clears new pages for each
batch: a tenth of the time. Fewer than 16 make the network itself slower."""

_GPU_FRAMES = 256
"""As many as a subject takes at once there."""

_GPU_PIXELS = _GPU_FRAMES * 320 * 240
"""Of a batch on a GPU: a transform takes some 60 bytes a pixel while it works, in every thread that feeds the GPU."""

_SHARD_FRAMES = 64

_GPU_SHARD_BYTES = 1 << 28
"""Of a shard's frames, which stay on the GPU while its mutants are made."""

_GPU_LANES = 8
"""What breaks a relation is hashed, a fifth of a millisecond a picture: one thread cannot keep up with a GPU."""


def cut(frames: int, lead: int = 0, device: str = "cpu", frame_px: int = 0) -> list[slice]:
    """Cuts `frames` frames of `frame_px` pixels into batches; how many workers there are does not matter.

    lead: the frames that each batch brings along from before it; batches are long enough that these are a third at most.
    """
    most = _CPU_FRAMES if device == "cpu" else min(_GPU_FRAMES, _GPU_PIXELS // max(frame_px, 1))
    size = max(most, 2 * lead, 1)
    return [slice(start, min(start + size, frames)) for start in range(0, frames, size)]


def default_shard_frames(lead: int, device: str, drive: Drive) -> int:
    """Returns how many frames a shard has where nobody says: enough that a subject's memory is at most half of what is shown.

    On a GPU they are a whole batch where their memory allows it.
    """
    fitting = 0
    if device != "cpu":
        height, width, channels = drive.frame_shape
        fitting = min(_GPU_FRAMES, _GPU_SHARD_BYTES // (height * width * channels))
    return max(_SHARD_FRAMES, 2 * lead, fitting)


def lanes(device: str) -> int:
    """Returns how many threads of this process compute: 0 (a thread a core) on the CPU, a few that feed a GPU."""
    return 0 if device == "cpu" else min(_GPU_LANES, cores())
