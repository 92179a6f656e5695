"""Do searches find more distinct failures than chance? Cells of the map that hold a failure, at the same budget, ten repeats each.

drive     scenarios of a domain in which the bundled network leaves its lane; cells are bends x weathers, as on a run's page
duel      starts and actions of a random front that make an ego crash; cells are lanes x gaps x when the front first changes lanes

All searches and repeats drive side by side, generation by generation, since a GPU drives hundreds of cars as fast as a few; each learns
from its own alone. Repeats have seeds of their own. Compared with `random` by an exact Mann-Whitney U test and A12.

Run: python benchmarks/search_distinct.py --problem duel --ego policies/train-ego-000.safetensors [--budget 400] [--repeats 10]
     python benchmarks/search_distinct.py --problem drive --device cuda [--domain restricted] [--seconds 10] [--budget 200]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from skidpad.core.images import FloatArray
from skidpad.core.stimuli import Recipe
from skidpad.highway.engine import START_DRAWS, START_EGO_LANE, START_FRONT_LANE
from skidpad.highway.evaluation import starts_from
from skidpad.highway.layout import ACTIONS, Action
from skidpad.kinds.drives.campaign import Online, OnlineSettings, domain_lasting
from skidpad.kinds.drives.loop import Wheel
from skidpad.kinds.drives.records import Case, build_records
from skidpad.kinds.drives.search import cell_at, fitness_of
from skidpad.kinds.duels.campaign import Duel
from skidpad.kinds.duels.drivers import KeptShards
from skidpad.kinds.duels.estimate import DuelSimulation, nearness
from skidpad.kinds.duels.settings import DuelSettings
from skidpad.runs.workers.here import pinned
from skidpad.search.protocol import SEARCHES, Fitness, SearchTask
from skidpad.search.vectors import Cube
from skidpad.statistics.ranks import a12, mann_whitney
from skidpad.subjects.description import subject_path

GENERATION = 8


@dataclass(frozen=True)
class Problem:
    """A simulation of points of the unit cube, and the cell that each falls into."""

    dimensions: int
    cell: Callable[[FloatArray], str]
    simulate: Callable[[FloatArray], list[Fitness]]


def drives(given: argparse.Namespace) -> Problem:
    settings = OnlineSettings(
        subject=str(subject_path(given.subject)),
        domain=given.domain,
        scenarios=1,
        seconds=given.seconds,
        device=given.device,
        referee="off",
    )
    runner, domain = Online.load(settings).runner, domain_lasting(given.domain, given.seconds)

    def simulate(points: FloatArray) -> list[Fitness]:
        made = [domain.decode(point, seed=number) for number, point in enumerate(points)]
        fine = [not domain.violations(each) for each in made]
        cases = [Case(f"{k:05d}", each, "", Recipe(), slot=k) for k, each in enumerate(made) if fine[k]]
        courses = runner.courses(cases, Wheel.SUBJECT, given.threads)
        rows = iter(build_records(cases, courses, Wheel.SUBJECT, runner.world, runner.subject.sha256).to_pylist())
        return [fitness_of(next(rows)) if is_fine else Fitness(float("nan")) for is_fine in fine]

    return Problem(len(domain.variables), partial(cell_at, domain), simulate)


GAPS_M = (15.0, 25.0, 40.0)


def duels(given: argparse.Namespace) -> Problem:
    settings = DuelSettings(ego=given.ego, scenario=given.scenario, rewards=(), repairs=0, is_tested=False, estimate="monte-carlo")
    simulation = DuelSimulation(Duel.load(settings).work(KeptShards({})), ("random",))
    scenario = simulation.work.arena.scenario

    def cell(point: FloatArray) -> str:
        numbers = np.minimum(point, 1.0 - 1e-9)
        start = starts_from(scenario, numbers[None, :START_DRAWS])[0]
        gap = int(np.searchsorted(GAPS_M, start[4] - start[1] - 5.0))
        changes = np.flatnonzero(np.isin((numbers[START_DRAWS:] * ACTIONS).astype(int), (int(Action.LEFT), int(Action.RIGHT))))
        first = int(np.searchsorted((1, 3, 6), changes[0] if len(changes) else 99, side="right"))
        return f"{start[START_EGO_LANE] == start[START_FRONT_LANE]} {gap} {first}"

    def simulate(points: FloatArray) -> list[Fitness]:
        values = np.empty(len(points))
        for _, episodes, places in simulation.driven(points):
            values[places] = nearness(episodes)
        return [Fitness(float(value), cell(point)) for value, point in zip(values, points, strict=True)]

    return Problem(simulation.dimensions, cell, simulate)


def searched(problem: Problem, names: Sequence[str], given: argparse.Namespace) -> dict[str, list[dict[str, int]]]:
    searches = {
        (name, repeat): SEARCHES.get(name)(
            SearchTask(Cube(problem.dimensions, problem.cell), given.seed + 1000 * repeat + 17 * place, given.budget)
        )
        for place, name in enumerate(names)
        for repeat in range(given.repeats)
    }
    failures: dict[tuple[str, int], list[str]] = {key: [] for key in searches}
    first = dict.fromkeys(searches, 0)
    tried = dict.fromkeys(searches, 0)
    began = time.perf_counter()
    while any(not search.done for search in searches.values()):
        asked = {key: search.ask(GENERATION) for key, search in searches.items() if not search.done}
        told = iter(problem.simulate(np.concatenate([np.stack(points) for points in asked.values()])))
        for key, points in asked.items():
            found = [next(told) for _ in points]
            searches[key].tell(found)
            for fitness in found:
                tried[key] += 1
                if fitness.value >= 1.0:
                    failures[key].append(fitness.cell)
                    first[key] = first[key] or tried[key]
        if not given.quiet:
            print(f"  {min(tried.values())} of {given.budget} each, {time.perf_counter() - began:.0f} s", flush=True)
    return {
        name: [
            {"cells": len(set(failures[name, k])), "failures": len(failures[name, k]), "first": first[name, k]}
            for k in range(given.repeats)
        ]
        for name in names
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Distinct failures of searches beside random, at the same budget.")
    parser.add_argument("--problem", choices=("drive", "duel"), default="duel")
    parser.add_argument("--searches", default="random,map-elites,surrogate,es")
    parser.add_argument("--subject", default="demo")
    parser.add_argument("--ego", default="")
    parser.add_argument("--scenario", default="released")
    parser.add_argument("--domain", default="restricted")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--seed", type=int, default=90210)
    parser.add_argument("--quiet", action="store_true")
    given = parser.parse_args()
    names = [name.strip() for name in given.searches.split(",")]
    with pinned():
        found = searched(drives(given) if given.problem == "drive" else duels(given), names, given)
    chance = [float(each["cells"]) for each in found[names[0]]]
    print(f"{given.problem}: budget {given.budget}, {given.repeats} repeats")
    print(f"{'search':14}{'cells, mean (least to most)':>30}{'failures':>10}{'first at':>10}{'p':>10}{'A12':>7}")
    rows = {}
    for name in names:
        cells = [float(each["cells"]) for each in found[name]]
        p, size = mann_whitney(cells, chance).p_value, a12(cells, chance).size
        firsts = [each["first"] for each in found[name] if each["first"]]
        failed = float(np.mean([each["failures"] for each in found[name]]))
        first = f"{np.median(firsts):.0f}" if firsts else "never"
        print(f"{name:14}{f'{np.mean(cells):.1f} ({min(cells):.0f} to {max(cells):.0f})':>30}{failed:10.1f}{first:>10}{p:10.2g}{size:7.2f}")
        rows[name] = {"repeats": found[name], "p_value": p, "a12": size}
    print(json.dumps({"problem": given.problem, "budget": given.budget, "searches": rows}))


if __name__ == "__main__":
    main()
