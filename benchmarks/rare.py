"""How many simulations an estimate of a rare failure takes, beside plain Monte Carlo for an interval of the same width.

Two problems whose truth is known. Tails of a normal distribution, by a formula. Duels on the compiled highway, by driving millions of
them: a vehicle cuts in before an ego that keeps its distance, and brakes; both speeds, the gap, the moment and how long it brakes vary.
How rare the crash is, is set by a rule that looks at plain duels alone, never at an estimate: of the median gaps in GAPS_M, the first
with at most RARE crashes a duel. The rule, the truth and each repeat have seeds of their own. Coverage is the share of intervals that
hold the truth.

With --ego, the duels are those of `skidpad duel --estimate`: a policy file against a random front, from the scenario's starts.

Run: python benchmarks/rare.py [--quick] [--repeats 20] [--truth 2000000] [--seed 50000]
     python benchmarks/rare.py --ego runs/duel-001/policies/repair-released-w0-000.safetensors --truth 1000000 --repeats 10 --seed 61000
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from statistics import NormalDist, median

import numpy as np
from numba import njit
from scipy.special import ndtri

from skidpad.core.images import FloatArray
from skidpad.highway.engine import START_FIELDS, place, step
from skidpad.highway.layout import CRASH, EGO, FIELDS, FRONT, LANE, SPEED, TARGET_LANE, VEHICLES, Action, Params, X, Y
from skidpad.highway.scenario import Scenario
from skidpad.kinds.duels.campaign import Duel
from skidpad.kinds.duels.drivers import KeptShards
from skidpad.kinds.duels.estimate import DuelSimulation, nearness
from skidpad.kinds.duels.settings import DuelSettings
from skidpad.statistics.intervals import Interval, wilson
from skidpad.statistics.rare import Estimate, Goal, Method, estimate

STEPS = 12
DIMENSIONS = 6
GAPS_M, RARE = tuple(range(20, 125, 5)), 2e-4
"""Median gaps at the start that are tried in turn, and the crashes a duel below which one is taken."""
_IDLE, _SLOWER, _LEFT, _RIGHT = int(Action.IDLE), int(Action.SLOWER), int(Action.LEFT), int(Action.RIGHT)


@njit(cache=True)
def _ego(state: FloatArray) -> int:
    """Keeps 1 s behind whoever is in its lane, or about to be."""
    ahead_m = state[FRONT, X] - state[EGO, X]
    shares = state[FRONT, LANE] == state[EGO, LANE] or state[FRONT, TARGET_LANE] == state[EGO, LANE]
    return _SLOWER if shares and 0.0 < ahead_m < 5.0 + state[EGO, SPEED] else _IDLE


@njit(cache=True)
def _duel(params: Params, gap_m: float, z: FloatArray) -> float:
    """Returns 1 for a crash, else the nearer to 1 the less room there was between the two."""
    start, state = np.zeros(START_FIELDS), np.zeros((VEHICLES, FIELDS))
    lane = 1.0 if z[0] > 0 else 0.0
    start[0], start[1], start[2] = lane, 200.0, 27.0 + 2.0 * z[1]
    start[3], start[5] = 1.0 - lane, start[2] - 2.0 - 1.5 * z[2]
    start[4] = start[1] + 5.0 + gap_m * np.exp(-0.3 * z[3])
    place(params, start, state)
    cut_in, brakes_until = int(3.0 + max(z[4], -3.0)), int(max(2.0 * z[5], 0.0))
    least = 100.0
    for index in range(STEPS):
        front = (_RIGHT if lane == 1.0 else _LEFT) if index == cut_in else _SLOWER if cut_in < index <= cut_in + brakes_until else _IDLE
        if step(params, state, _ego(state), front) == CRASH:
            return 1.0
        if abs(state[FRONT, Y] - state[EGO, Y]) < 2.0:  # beside one another, but for the gap along the road
            least = min(least, abs(state[FRONT, X] - state[EGO, X]) - 5.0)
    return 1.0 / (1.0 + max(least, 1e-6) / 5.0)


@njit(cache=True)
def _duels(params: Params, gap_m: float, z: FloatArray) -> FloatArray:
    found = np.empty(len(z))
    for index in range(len(z)):
        found[index] = _duel(params, gap_m, z[index])
    return found


def duels(gap_m: float) -> Callable[[FloatArray], FloatArray]:
    params = Scenario("rare", lanes=2, episode_steps=STEPS).compiled()
    return lambda points: _duels(params, gap_m, ndtri(points))


def ego_duels(path: str) -> tuple[Callable[[FloatArray], FloatArray], int]:
    """Returns the duels of a policy with a random front, and how many numbers decide one."""
    settings = DuelSettings(ego=path, rewards=(), repairs=0, is_tested=False, estimate=Method.MONTE_CARLO.value)
    simulation = DuelSimulation(Duel.load(settings).work(KeptShards({})), ("random",))
    return lambda points: nearness(simulation.driven(points)[0][1]), simulation.dimensions


def plain(drive: Callable[[FloatArray], FloatArray], count: int, seed: int, dimensions: int = DIMENSIONS) -> Interval:
    """Drives plain duels, in blocks of 10,000."""
    rng, blocks = np.random.default_rng(seed), max(count // 10_000, 1)
    return wilson(sum(int((drive(rng.random((10_000, dimensions))) >= 1.0).sum()) for _ in range(blocks)), blocks * 10_000)


def tail(dimensions: int, probability: float) -> Callable[[FloatArray], FloatArray]:
    far = -NormalDist().inv_cdf(probability)
    return lambda points: -ndtri(points).sum(axis=1) / np.sqrt(dimensions) / far


def row(name: str, method: Method, truth: float, found: list[Estimate]) -> dict[str, object]:
    covered = np.mean([each.interval.low <= truth <= each.interval.high for each in found])
    return {
        "problem": name,
        "method": method.value,
        "truth": truth,
        "estimate": float(np.mean([each.interval.estimate for each in found])),
        "coverage": float(covered),
        "simulations": median(each.simulations for each in found),
        "plain": median(each.plain_simulations for each in found),
        "factor": median(each.plain_simulations / each.simulations for each in found),
        "stopped": sum(each.stopped != "the budget is spent" for each in found),
        "took": "/".join(sorted({each.method.value for each in found})),
    }


def show(rows: list[dict[str, object]], known: Interval) -> None:
    print(f"{'problem':16}{'method':14}{'truth':>10}{'estimate':>10}{'holds':>8}{'made':>10}{'plain':>12}{'factor':>9}{'within':>8}  took")
    for each in rows:
        print(
            f"{each['problem']:16}{each['method']:14}{each['truth']:10.2g}{each['estimate']:10.2g}{each['coverage']:8.0%}"
            f"{each['simulations']:10,.0f}{each['plain']:12,.0f}{each['factor']:9.2f}{each['stopped']:8}  {each['took']}"
        )
    print(json.dumps({"duel_truth": known.estimate, "rows": rows}))


def main() -> None:
    parser = argparse.ArgumentParser(description="Simulations for an estimate of a rare failure, beside plain Monte Carlo.")
    parser.add_argument("--quick", action="store_true", help="few repeats: does it run?")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--truth", type=int, default=2_000_000, help="duels that are driven to know the truth")
    parser.add_argument("--seed", type=int, default=50_000, help="of the first repeat; the rule and the truth have the two before it")
    parser.add_argument("--ego", default="", help="a policy file, whose duels with a random front are estimated instead")
    chosen = parser.parse_args()
    rows: list[dict[str, object]] = []
    repeats, many, few = (2, 20_000, 20_000) if chosen.quick else (chosen.repeats, chosen.truth, 200_000)
    seeds = range(chosen.seed, chosen.seed + repeats)
    if chosen.ego:
        drive, dimensions = ego_duels(chosen.ego)
        known = plain(drive, many, chosen.seed - 1, dimensions)
        print(f"{known.n:,} plain, {known.estimate:.3g} crash ({known.low:.3g} to {known.high:.3g})", flush=True)
        found = [estimate(drive, Method.IMPORTANCE, dimensions, Goal(20_000, batch=500), seed) for seed in seeds]
        show([row("ego", Method.IMPORTANCE, known.estimate, found)], known)
        return
    gap_m = next((gap for gap in GAPS_M if plain(duels(gap), few, chosen.seed - 2).estimate <= RARE), GAPS_M[-1])
    drive = duels(gap_m)
    known = plain(drive, many, chosen.seed - 1)
    print(f"duels, median gap {gap_m} m: {known.n:,} plain, {known.estimate:.3g} crash ({known.low:.3g} to {known.high:.3g})", flush=True)
    for dimensions, probability in ((5, 1e-3), (5, 1e-4), (5, 1e-6)):
        for method, budget in ((Method.IMPORTANCE, 20_000), (Method.SPLITTING, 60_000)):
            found = [estimate(tail(dimensions, probability), method, dimensions, Goal(budget), seed) for seed in seeds]
            rows.append(row(f"tail of {probability:g}", method, probability, found))
    for method, budget in ((Method.AUTO, 20_000), (Method.IMPORTANCE, 20_000), (Method.SPLITTING, 120_000)):
        found = [estimate(drive, method, DIMENSIONS, Goal(budget), seed) for seed in seeds]
        rows.append(row("duels", method, known.estimate, found))
    show(rows, known)


if __name__ == "__main__":
    main()
