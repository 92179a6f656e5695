"""How many frames a second the built-in world renders at 320 x 160, with everything in the scene.

On the CPU: batches of 1 and 32, one and two threads, in five kinds of light and weather, and beside it what else can look out of a car
without a display, where it is installed: MetaDrive's front camera (0.3.0.1 carries its assets) and a bare road in panda3d. All of them
take turns in rounds, so that a busy machine disturbs them alike; a figure is the median over rounds of wall time. The processor time of
a frame is given beside, which other programs on the machine disturb less.

With `--device cuda`: batches of 1 to 4,096 frames of 64 scenes on the GPU, the median of several passes after compiling; frames stay
there. `agreement_mean` is the mean difference of a byte from the CPU's frames.

Run: python benchmarks/world.py [--quick] [--rounds 5] [--device cuda]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import dataclass, field
from statistics import harmonic_mean, mean, median

import numpy as np

from skidpad.worlds.camera import Camera
from skidpad.worlds.raycast import RayCaster
from skidpad.worlds.scenario import RoadKind
from skidpad.worlds.scene import build_scene
from ways.world_ways import CONDITIONS, HEIGHT_PX, WIDTH_PX, MetaDrive, Own, Panda3D, Way, everything, installed, journey

GPU_BATCHES = (1, 4, 16, 64, 256, 1024, 4096)


@dataclass
class Entry:
    """A way, how many frames it renders in a round, and its frames a second in each."""

    way: Way
    frames: int
    rates: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)

    def measure(self) -> None:
        """Renders one round."""
        begun, spent = time.perf_counter(), time.process_time()
        self.way.render(self.frames)
        self.rates.append(self.frames / (time.perf_counter() - begun))
        self.cpu_ms.append(1e3 * (time.process_time() - spent) / self.frames)

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
            others[package] = Entry(way(), max(int(share * frames), 4))
        else:
            print(f"{package} is not installed: it is not measured")
    entries = [*ways.values(), *others.values()]
    for entry in entries:
        entry.way.render(2)  # compiles, or loads
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
    for entry in others.values():
        print(f"{entry.way.name:30}{entry.rate:9,.1f} frames a second, {median(entry.cpu_ms):.1f} processor ms a frame")
    figures = {
        "cpu_frames_per_s": mixes[32, 2],
        "cpu_frames_per_s_batch_1": mixes[1, 2],
        "cpu_frames_per_s_one_thread": mixes[32, 1],
        "cpu_frames_per_s_sunny": ways["sunny", 32, 2].rate,
        "cpu_ms_per_frame": mean(spent),
    }
    for package, entry in others.items():
        figures[f"vs_{package}"] = mixes[32, 2] / entry.rate
        figures[f"vs_{package}_one_thread"] = mixes[1, 1] / entry.rate
    return figures


def on_gpu(device: str, rounds: int, batches: tuple[int, ...], scenes: int) -> dict[str, float]:
    import torch  # noqa: PLC0415 - not needed on the CPU

    from skidpad.worlds.torch_raycast import TorchRayCaster  # noqa: PLC0415 - likewise

    conditions, kinds = list(CONDITIONS.values()), (RoadKind.CURVED, RoadKind.STRAIGHT, RoadKind.ENTRY)
    built = [build_scene(everything(conditions[k % len(conditions)], kinds[k % len(kinds)], seed=k)) for k in range(scenes)]
    begun = time.perf_counter()
    caster = TorchRayCaster(built, Camera(WIDTH_PX, HEIGHT_PX), device)
    print(
        f"\nbaked {scenes} scenes in {time.perf_counter() - begun:.1f} s on {torch.cuda.get_device_name() if device == 'cuda' else device}"
    )
    routes = [journey(scene, 400) for scene in built]
    rng = np.random.default_rng(0)

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    begun = time.perf_counter()
    first = [k % scenes for k in range(8)]
    frames = caster.render(np.stack([routes[k][0][60] for k in first]), np.array([routes[k][1][60] for k in first]), np.array(first))
    wait()
    print(f"compiled in {time.perf_counter() - begun:.1f} s")
    apart = [
        np.abs(
            RayCaster(built[k], caster.camera).render(routes[k][0][60:61], routes[k][1][60:61])[0].astype(int) - frames[n].cpu().numpy()
        ).mean()
        for n, k in enumerate(first)
    ]
    figures = {"agreement_mean": float(np.mean(apart))}
    print(f"{'batch':>8}{'frames/s':>14}")
    for batch in batches:
        scene, step = rng.integers(0, scenes, batch), rng.integers(0, 400, batch)
        poses = torch.from_numpy(np.stack([routes[k][0][s] for k, s in zip(scene, step, strict=True)])).to(device)
        times = torch.from_numpy(np.array([routes[k][1][s] for k, s in zip(scene, step, strict=True)])).to(device)
        which = torch.from_numpy(scene).to(device)
        for _ in range(2):
            caster.render(poses, times, which)
        wait()
        rates = []
        repeats = max(1, 256 // batch) if device == "cuda" else 1
        for _ in range(rounds):
            begun = time.perf_counter()
            for _ in range(repeats):
                caster.render(poses, times, which)
            wait()
            rates.append(batch * repeats / (time.perf_counter() - begun))
        figures[f"gpu_frames_per_s_batch_{batch}"] = median(rates)
        print(f"{batch:8,}{median(rates):14,.0f}")
    figures["gpu_frames_per_s"] = max(value for name, value in figures.items() if name.startswith("gpu_frames_per_s_batch"))
    return figures


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Frames a second of the built-in world, beside what else is installed.")
    parser.add_argument("--quick", action="store_true", help="a few frames and one round: does it run?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu", help="cuda: the torch renderer on a GPU; torch-cpu: the same on the CPU, to try it out")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    rounds = 1 if given.quick else given.rounds
    print(f"{WIDTH_PX} x {HEIGHT_PX}, everything in the scene; load at the start: {os.getloadavg()[0]:.1f} of {os.cpu_count()}")
    if given.device == "cpu":
        figures = on_cpu(rounds, 8 if given.quick else 96)
    elif given.device == "torch-cpu":
        figures = on_gpu("cpu", 1, (1, 4), 5)
    else:
        figures = on_gpu(given.device, rounds, GPU_BATCHES[:5] if given.quick else GPU_BATCHES, 16 if given.quick else 64)
    print(f"load at the end: {os.getloadavg()[0]:.1f} of {os.cpu_count()}")
    print(json.dumps({name: round(value, 4) for name, value in figures.items()} | {"load": round(os.getloadavg()[0], 2)}))


if __name__ == "__main__":
    main()
