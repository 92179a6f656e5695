"""How many frames a second the built-in world renders at 320 x 160, with everything in the scene.

On the CPU: batches of 1 and 32, one and two threads, in five kinds of light and weather, and beside it what else can look out of a car
without a display, where it is installed: MetaDrive's front camera (0.3.0.1 carries its assets; without traffic and terrain, or a frame
takes it seconds) and a bare road in panda3d, each in a process of its own. All of them take turns in rounds, so that a busy machine
disturbs them alike; a figure is the median over rounds of wall time. Processor time is given beside, which other programs disturb less.

With `--device cuda`: batches of 1 to 4,096 frames of 64 scenes on the GPU, the median of several passes after compiling; frames stay
there. `agreement_mean` is the mean difference of a byte from the CPU's frames, `agreement_beyond_4` the share that differs by more than 4.

Run: python benchmarks/world.py [--quick] [--rounds 5] [--device cuda [--profile]]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import harmonic_mean, mean, median

import numpy as np

from skidpad.core.images import Camera, IntArray
from skidpad.worlds.render.raycast import RayCaster
from skidpad.worlds.render.scene import build_scene
from skidpad.worlds.scenario.scenario import RoadKind
from ways.world_ways import CONDITIONS, HEIGHT_PX, WIDTH_PX, Elsewhere, MetaDrive, Own, Panda3D, Way, everything, installed, journey, timed

GPU_BATCHES = (1, 8, 32, 128, 512, 1024, 4096)


@dataclass
class Entry:
    """A way, how many frames it renders in a round, and its frames a second in each."""

    way: Way | Elsewhere
    frames: int
    rates: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)

    def measure(self) -> None:
        """Renders one round."""
        taken = self.way.timed(self.frames) if isinstance(self.way, Elsewhere) else timed(self.way, self.frames)
        if taken is not None:
            self.rates.append(taken[0])
            self.cpu_ms.append(taken[1])

    @property
    def rate(self) -> float:
        """The median over rounds."""
        return median(self.rates)


def on_cpu(rounds: int, frames: int) -> dict[str, float]:
    ways = {
        (name, batch, threads): Entry(Own(conditions, batch, threads), frames)
        for name, conditions in CONDITIONS.items()
        for batch, threads in ((1, 1), (1, 2), (32, 1), (32, 2))
    }
    others: dict[str, Entry] = {}
    for package, way, share in (("metadrive", MetaDrive, 0.1), ("panda3d", Panda3D, 0.5)):
        if installed(package):
            others[package] = Entry(Elsewhere(way), max(int(share * frames), 4))
        else:
            print(f"{package} is not installed: it is not measured")
    entries = [*ways.values(), *others.values()]
    for entry in entries:
        # Compiles, or loads; what cannot is left out.
        _ = entry.way.timed(2) if isinstance(entry.way, Elsewhere) else timed(entry.way, 2)
    for _ in range(rounds):
        for entry in entries:
            entry.measure()
    print(f"\n{'frames a second':30}" + "".join(f"{name:>9}" for name in CONDITIONS) + f"{'all':>9}")
    mixes = {}
    for batch, threads in ((1, 1), (1, 2), (32, 1), (32, 2)):
        rates = [ways[name, batch, threads].rate for name in CONDITIONS]
        mixes[batch, threads] = harmonic_mean(rates)
        title = f"batch {batch}, {threads} thread{'s' * (threads > 1)}"
        print(f"{title:30}" + "".join(f"{rate:9,.0f}" for rate in [*rates, mixes[batch, threads]]))
    spent = [median(ways[name, 32, 1].cpu_ms) for name in CONDITIONS]
    print(f"{'processor ms a frame':30}" + "".join(f"{value:9.2f}" for value in [*spent, mean(spent)]))
    others = {package: entry for package, entry in others.items() if entry.rates}
    for entry in others.values():
        print(f"{entry.way.name:30}{entry.rate:9,.1f} frames a second, {median(entry.cpu_ms):.1f} processor ms a frame")
    figures = {
        "cpu_frames_per_s": mixes[32, 2],
        "cpu_frames_per_s_batch_1": mixes[1, 2],
        "cpu_frames_per_s_one_thread": mixes[32, 1],
        "cpu_frames_per_s_sunny": ways["sunny", 32, 2].rate,
        "cpu_ms_per_frame": mean(spent),
        "cpu_frames_per_processor_s": 1e3 / mean(spent),
    }
    for package, entry in others.items():
        figures[f"vs_{package}"] = mixes[32, 2] / entry.rate
        figures[f"vs_{package}_one_thread"] = mixes[1, 1] / entry.rate
        figures[f"vs_{package}_processor_time"] = median(entry.cpu_ms) / mean(spent)
    return figures


def on_gpu(rounds: int, batches: tuple[int, ...], scenes: int, *, profiled: bool) -> dict[str, float]:
    import torch  # noqa: PLC0415 - not needed on the CPU

    from skidpad.worlds.render.gpu import GpuRayCaster  # noqa: PLC0415 - likewise

    conditions, kinds = list(CONDITIONS.values()), (RoadKind.CURVED, RoadKind.STRAIGHT, RoadKind.ENTRY)
    built = [build_scene(everything(conditions[k % len(conditions)], kinds[k % len(kinds)], seed=k)) for k in range(scenes)]
    begun = time.perf_counter()
    caster = GpuRayCaster(built, Camera(WIDTH_PX, HEIGHT_PX))
    print(f"\nbaked {scenes} scenes in {time.perf_counter() - begun:.1f} s on {torch.cuda.get_device_name()}", flush=True)
    routes = [journey(scene, 400) for scene in built]
    rng = np.random.default_rng(0)

    def views(scene: IntArray, step: IntArray) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        pairs = list(zip(scene.tolist(), step.tolist(), strict=True))
        poses, times = np.stack([routes[k][0][s] for k, s in pairs]), np.array([routes[k][1][s] for k, s in pairs])
        return torch.from_numpy(poses).cuda(), torch.from_numpy(times).cuda(), torch.from_numpy(scene).cuda()

    begun = time.perf_counter()
    first = np.arange(10) % scenes
    frames = caster.render(*views(first, np.full(10, 60)))
    torch.cuda.synchronize()
    print(f"compiled in {time.perf_counter() - begun:.1f} s\n{'batch':>8}{'frames/s':>14}", flush=True)
    figures = {}
    for batch in batches:
        chosen = views(rng.integers(0, scenes, batch), rng.integers(0, 400, batch))
        for _ in range(2):
            caster.render(*chosen)
        torch.cuda.synchronize()
        rates = []
        repeats = max(1, 4096 // batch) if batch > 1 else 500
        for _ in range(rounds):
            begun = time.perf_counter()
            for _ in range(repeats):
                caster.render(*chosen)
            torch.cuda.synchronize()
            rates.append(batch * repeats / (time.perf_counter() - begun))
        figures[f"gpu_frames_per_s_batch_{batch}"] = median(rates)
        print(f"{batch:8,}{median(rates):14,.0f}", flush=True)
    figures["gpu_frames_per_s"] = max(figures.values())
    if profiled:
        profile(lambda: caster.render(*chosen), batch)
    apart = np.array(
        [
            np.abs(RayCaster(built[k], caster.camera).render(routes[k][0][60:61], routes[k][1][60:61])[0].astype(int) - frame)
            for k, frame in zip(first.tolist(), frames.cpu().numpy().astype(int), strict=True)
        ]
    )
    figures["agreement_mean"], figures["agreement_beyond_4"] = float(apart.mean()), float((apart > 4).mean())
    return figures


def profile(render: Callable[[], object], frames: int) -> None:
    """Prints which kernels the GPU's time goes into."""
    from torch.profiler import ProfilerActivity  # noqa: PLC0415 - not needed on the CPU
    from torch.profiler import profile as watch  # noqa: PLC0415 - likewise

    with watch(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as watched:
        render()
    kernels = sorted(
        (entry for entry in watched.key_averages() if entry.self_device_time_total > 0), key=lambda e: -e.self_device_time_total
    )
    print(f"\n{'kernel':60}{'calls':>7}{'us a frame':>12}")
    for entry in kernels[:16]:
        print(f"{entry.key[:58]:60}{entry.count:7}{entry.self_device_time_total / frames:12.3f}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Frames a second of the built-in world, beside what else is installed.")
    parser.add_argument("--quick", action="store_true", help="a few frames and one round: does it run?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: on a GPU")
    parser.add_argument("--profile", action="store_true", help="on a GPU: where its time goes")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    rounds = 1 if given.quick else given.rounds
    print(f"{WIDTH_PX} x {HEIGHT_PX}, everything in the scene; load at the start: {os.getloadavg()[0]:.1f} of {os.cpu_count()}")
    if given.device == "cpu":
        figures = on_cpu(rounds, 32 if given.quick else 96)
    else:
        figures = on_gpu(rounds, GPU_BATCHES[::3] if given.quick else GPU_BATCHES, 10 if given.quick else 64, profiled=given.profile)
    print(f"load at the end: {os.getloadavg()[0]:.1f} of {os.cpu_count()}")
    print(json.dumps({name: round(value, 4) for name, value in figures.items()} | {"load": round(os.getloadavg()[0], 2)}))


if __name__ == "__main__":
    main()
