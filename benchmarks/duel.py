"""How many policy steps a duel drives in a second of processor time: the compiled engine beside highway-env itself.

Every way drives the same two-vehicle highway with random actions of both drivers, begins new episodes as old ones end, and shows at
each policy step what both drivers see. highway-env is measured as it comes (its observation goes through pandas) and with a plain
observation in NumPy; the engine from compiled code, as the learner calls it, and from Python in batches.

The ways take turns in rounds, so that a busy machine disturbs all of them alike; a figure is the median over rounds of process time
(one thread each). Compiling is not counted: it is done once and kept.

Run: python benchmarks/duel.py [--quick] [--rounds 5] [--hz 5] [--scenario released]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Protocol

from skidpad.highway.scenes import PRESETS, preset
from ways.duel_ways import Batched, Compiled, Plain, Stock


class Way(Protocol):
    """One way to drive."""

    name: str

    def run(self, policy_steps: int) -> int:
        """Drives at least so many policy steps and returns how many were driven."""
        ...


@dataclass
class Entry:
    """A way, how much it drives in a round, and its policy steps a processor second in each."""

    way: Way
    policy_steps: int
    rates: list[float] = field(default_factory=list)

    def measure(self) -> None:
        """Drives one round."""
        begun = time.process_time()
        driven = self.way.run(self.policy_steps)
        self.rates.append(driven / (time.process_time() - begun))

    @property
    def rate(self) -> float:
        """The median over rounds."""
        return median(self.rates)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Policy steps a processor second: the compiled engine against highway-env.")
    parser.add_argument("--quick", action="store_true", help="a few steps and one round: does it run?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hz", type=int, default=5, help="simulation steps a second; the paper has 5, the published snapshot 15")
    parser.add_argument("--scenario", default="released", choices=[name for name in PRESETS if name != "pretraining"])
    given = parser.parse_args()
    if given.quick:
        given.rounds = 1
    return given


def main() -> None:
    given = arguments()
    scenario = replace(preset(given.scenario), simulation_hz=given.hz)
    share = 0.05 if given.quick else 1.0
    entries = {
        "compiled": Entry(Compiled(scenario), int(500_000 * share)),
        "batched": Entry(Batched(scenario), int(500_000 * share)),
        "plain": Entry(Plain(scenario), int(1_000 * share)),
        "stock": Entry(Stock(scenario), int(200 * share)),
    }
    print(f"scenario {scenario.name!r} at {given.hz} Hz, two vehicles; load at the start: {os.getloadavg()[0]:.1f} of {os.cpu_count()}")
    for entry in entries.values():
        entry.way.run(1)  # compiles, or imports
    for _ in range(given.rounds):
        for entry in entries.values():
            entry.measure()
    print(f"\n{'':34}{'policy steps / CPU s':>21}{'x stock':>10}{'x plain':>10}  in each round")
    for entry in entries.values():
        rounds = " ".join(f"{rate:,.0f}" for rate in entry.rates)
        ratios = f"{entry.rate / entries['stock'].rate:10,.1f}{entry.rate / entries['plain'].rate:10,.1f}"
        print(f"{entry.way.name:34}{entry.rate:21,.0f}{ratios}  {rounds}")
    print(f"load at the end: {os.getloadavg()[0]:.1f} of {os.cpu_count()}")
    figures = {
        "vs_highway_env": entries["compiled"].rate / entries["stock"].rate,
        "vs_highway_env_plain": entries["compiled"].rate / entries["plain"].rate,
        "batched_vs_highway_env": entries["batched"].rate / entries["stock"].rate,
        "batched_vs_highway_env_plain": entries["batched"].rate / entries["plain"].rate,
        "engine_steps_per_cpu_s": entries["compiled"].rate,
        "batched_steps_per_cpu_s": entries["batched"].rate,
        "highway_env_steps_per_cpu_s": entries["stock"].rate,
        "highway_env_plain_steps_per_cpu_s": entries["plain"].rate,
        "simulation_hz": given.hz,
        "rounds": given.rounds,
        "load": os.getloadavg()[0],
    }
    print(json.dumps({name: round(value, 4) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
