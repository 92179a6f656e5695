"""Tries other limits of registers, exact arithmetic and other blocks for the GPU renderer's second kernel; on a GPU only, about a minute.

Run: python -W ignore benchmarks/world_variants.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from numba import cuda

from skidpad.core.images import Camera
from skidpad.worlds.render import gpu as gpu_kernels
from skidpad.worlds.render.gpu import GpuRayCaster
from skidpad.worlds.render.scene import build_scene
from ways.world_ways import CONDITIONS, HEIGHT_PX, WIDTH_PX, everything, journey

FRAMES = 2048
VARIANTS = [
    # fast arithmetic, registers, rows of a block
    (True, 80, 8),
    (True, 64, 8),
    (True, 96, 8),
    (True, 128, 8),
    (False, 80, 8),
    (True, 80, 4),
    (True, 96, 4),
    (True, 64, 16),
]


def timed(name: str, call: Callable[[], object], repeats: int = 5) -> None:
    begun = time.perf_counter()
    call()
    torch.cuda.synchronize()
    first = time.perf_counter() - begun
    begun = time.perf_counter()
    for _ in range(repeats):
        call()
    torch.cuda.synchronize()
    took = (time.perf_counter() - begun) / repeats
    print(f"{name:34}{1e6 * took / FRAMES:8.2f} us a frame{FRAMES / took:12,.0f} frames/s  (first call {first:.1f} s)", flush=True)


def main() -> None:
    scenes = [build_scene(everything(conditions, seed=k)) for k, conditions in enumerate(CONDITIONS.values())]
    caster = GpuRayCaster(scenes, Camera(WIDTH_PX, HEIGHT_PX))
    routes = [journey(scene, 400) for scene in scenes]
    rng = np.random.default_rng(0)
    scene, step = rng.integers(0, len(scenes), FRAMES), rng.integers(0, 400, FRAMES)
    pairs = list(zip(scene.tolist(), step.tolist(), strict=True))
    poses, times = np.stack([routes[k][0][s] for k, s in pairs]), np.array([routes[k][1][s] for k, s in pairs])
    frames = torch.empty((FRAMES, HEIGHT_PX, WIDTH_PX, 3), dtype=torch.uint8, device="cuda")
    tensors = (torch.from_numpy(poses).cuda(), torch.from_numpy(times).cuda(), torch.from_numpy(scene.astype(np.int32)).cuda(), frames)
    given = [cuda.as_cuda_array(tensor) for tensor in tensors]
    original, reference = gpu_kernels.paint.py_func, None
    timed("as it is, both kernels", lambda: caster.launch(*given))
    for fast, registers, rows in VARIANTS:
        gpu_kernels.BLOCK = (gpu_kernels.WARP, rows, 1)
        gpu_kernels.paint = cuda.jit(fastmath=fast, max_registers=registers)(original)
        timed(f"fast={fast} registers={registers} rows={rows}", lambda: caster.launch(*given))
        reference = frames[::16].int() if reference is None else reference
        apart = (frames[::16].int() - reference).abs()
        print(f"    differs from the first by {apart.float().mean().item():.5f} on average, {apart.max().item()} at most", flush=True)


if __name__ == "__main__":
    main()
