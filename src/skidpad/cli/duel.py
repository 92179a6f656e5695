"""skidpad duel: trains an adversary that makes an ego crash, tests both, and retrains the ego."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from skidpad.cli.runs import Json, Out, Seed, Workers, check_estimate, names_of, next_free, open_with_campaign, run_campaign
from skidpad.core.errors import SkidpadError
from skidpad.core.trust import trusting
from skidpad.page.terminal import say

TRAIN_EPISODES, SCENE_TRAIN_EPISODES = 2000, 100
TEST_EPISODES, SCENE_TEST_EPISODES = 2000, 50
CROSS_EPISODES, SCENE_CROSS_EPISODES = 500, 20
SEARCH_EPISODES = 50
CRASH_COST = "5"
SCENE_VALIDATION_EPISODES = 10
"""A scene of highway-env takes a thousand times as long as the engine, so its budgets are small."""

Scenario = Annotated[str, typer.Option(help="Preset (released: the paper's program; paper: its text) or a TOML file.")]
Env = Annotated[str, typer.Option(help="highway-env scene to use instead of the built-in highway: merge, exit, intersection, roundabout.")]
Rewards = Annotated[str, typer.Option(help="Rewards to train adversaries with, comma-separated; see `skidpad list duel-rewards`.")]
Weights = Annotated[
    str,
    typer.Option(
        "--w-col", help="Collision weight in the retrained ego's reward (Eq. 2), at most 0; several, e.g. -1,-0.5,-0.1, are compared."
    ),
]
Episodes = Annotated[
    int | None, typer.Option(help=f"Episodes per training; default {TRAIN_EPISODES}, or {SCENE_TRAIN_EPISODES} with --env.")
]
Tests = Annotated[int | None, typer.Option(help=f"Episodes per test; default {TEST_EPISODES}, or {SCENE_TEST_EPISODES} with --env.")]
Runs = Annotated[int, typer.Option(help="Number of tests per policy.")]
Rounds = Annotated[
    int,
    typer.Option(
        help="Also repair the ego against everybody, in so many rounds: IDM, random, slow and aggressive drivers, the search, "
        "and adversaries trained anew in each round."
    ),
]
CrashCost = Annotated[
    str,
    typer.Option(
        help="With --rounds: cost of a crash, where a slow step costs 0.1; less makes a faster, riskier ego. Several, e.g. 1,3,10, are "
        "compared."
    ),
]
AtOnce = Annotated[int, typer.Option(help="Front vehicles in one scene, 1 to 3; one policy drives all of them.")]
Ego = Annotated[str, typer.Option(help="Your own ego: a .safetensors file written by skidpad, or module:function.")]
Front = Annotated[
    list[str] | None,
    typer.Option(help="Adversary to test against: a .safetensors file written by skidpad, or module:function. Repeatable."),
]


def add_to(app: typer.Typer) -> None:
    """Adds the group of commands to the application."""
    duels = typer.Typer(invoke_without_command=True, help="Duels on a highway: can the vehicle in front make your ego crash?")
    duels.callback()(duel)
    for command in (train, repair):
        duels.command()(command)
    duels.command(name="test")(run_test)
    app.add_typer(duels, name="duel")


def duel(
    context: typer.Context,
    ego: Ego = "",
    env: Env = "",
    scenario: Scenario = "released",
    rewards: Rewards = "released",
    w_col: Weights = "-1",
    repairs: Annotated[int | None, typer.Option(help="How often to retrain the ego; default 1, or 0 if --ego is a function.")] = None,
    rounds: Rounds = 0,
    crash_cost: CrashCost = CRASH_COST,
    adversaries_at_once: AtOnce = 1,
    train_episodes: Episodes = None,
    test_episodes: Tests = None,
    test_runs: Runs = 1,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Only estimate how likely the ego crashes, with an interval; see --budget.")
    ] = False,
    against: Annotated[
        str,
        typer.Option(
            help="Front vehicles that the ego meets in an estimate, equally often: idm, random, slow, aggressive, given (see --front)."
        ),
    ] = "",
    front: Front = None,
    method: Annotated[
        str, typer.Option(help="How to estimate: auto (chooses after a pilot, and says which), monte-carlo, importance, splitting.")
    ] = "auto",
    stop_below: Annotated[float, typer.Option(help="Stop an estimate once its upper bound is below this, as 1e-4.")] = 0.0,
    within: Annotated[
        float, typer.Option(help="Stop when the interval is within this share of the estimate; 0: use the whole budget.")
    ] = 0.3,
    budget: Annotated[int, typer.Option(help="Largest number of duels for an estimate.")] = 100_000,
    seed: Seed = 0,
    workers: Workers = "",
    out: Out = None,
    json: Json = False,
) -> None:
    """Train an ego and an adversary, test them, retrain the ego, and write a report; takes about two minutes."""
    if context.invoked_subcommand is not None:
        return
    check_estimate(context, estimate=estimate, budget=budget)
    if estimate:
        wanted = {"estimate": method, "against": names_of(against), "stop_below": stop_below, "within": within, "budget": budget}
        settings = _met(ego, front, env, scenario, seed) | {"is_tested": False, **wanted}
        _run(settings | _budgets(env, train_episodes, None), out, "duel-estimate", json, workers)
        return
    if front or against:
        raise SkidpadError("--front and --against belong to --estimate; `skidpad duel test` and `skidpad duel repair` take --front as well")
    is_function = bool(ego) and not _is_file(ego)
    count = (0 if is_function else 1) if repairs is None else repairs
    if is_function and repairs is None and not json:
        say("note: the ego is a function, which cannot be retrained; it will only be tested")
    settings = _met(ego, None, env, scenario, seed) | {
        "rewards": names_of(rewards),
        "w_col": _weights(w_col),
        "repairs": count,
        "rounds": rounds,
        "crash_cost": _costs(crash_cost, rounds),
        "adversaries_at_once": adversaries_at_once,
        "test_runs": test_runs,
    }
    _run(settings | _budgets(env, train_episodes, test_episodes), out, "duel", json, workers)


def train(
    egos: Annotated[int, typer.Option(help="Egos to train; adversaries train against the one that does best against IDM.")] = 1,
    adversaries: Annotated[int, typer.Option(help="Adversaries to train for each reward.")] = 1,
    ego: Ego = "",
    env: Env = "",
    scenario: Scenario = "released",
    rewards: Rewards = "released",
    adversaries_at_once: AtOnce = 1,
    train_episodes: Episodes = None,
    seed: Seed = 0,
    workers: Workers = "",
    out: Out = None,
    json: Json = False,
) -> None:
    """Train egos against IDM and adversaries against the best ego; writes the policies into RUN/policies."""
    settings = _met(ego, None, env, scenario, seed) | {
        "rewards": names_of(rewards),
        "egos": egos,
        "adversaries": adversaries,
        "adversaries_at_once": adversaries_at_once,
        "is_tested": False,
    }
    _run(settings | _budgets(env, train_episodes, None), out, "duel-train", json, workers)


def run_test(
    ego: Ego,
    front: Front = None,
    env: Env = "",
    scenario: Scenario = "released",
    adversaries_at_once: AtOnce = 1,
    test_episodes: Tests = None,
    test_runs: Runs = 1,
    seed: Seed = 0,
    workers: Workers = "",
    out: Out = None,
    json: Json = False,
) -> None:
    """Test an ego against IDM, a random front vehicle, a search for crashes, and the adversaries you name."""
    settings = _met(ego, front, env, scenario, seed) | {"adversaries_at_once": adversaries_at_once, "test_runs": test_runs}
    _run(settings | _budgets(env, None, test_episodes), out, "duel-test", json, workers)


def repair(
    ego: Ego,
    front: Front = None,
    repairs: Annotated[int, typer.Option(help="How often to retrain the ego.")] = 1,
    w_col: Weights = "-1",
    rounds: Rounds = 0,
    crash_cost: CrashCost = CRASH_COST,
    adversaries_at_once: AtOnce = 1,
    env: Env = "",
    scenario: Scenario = "released",
    train_episodes: Episodes = None,
    test_episodes: Tests = None,
    test_runs: Runs = 1,
    seed: Seed = 0,
    workers: Workers = "",
    out: Out = None,
    json: Json = False,
) -> None:
    """Retrain an ego against the adversaries you name, and test what it gained and lost."""
    if repairs < 1:
        raise SkidpadError(f"a repair retrains the ego at least once; got --repairs {repairs} (`skidpad duel test` tests it as it is)")
    if not front and not rounds:
        raise SkidpadError(
            "a repair needs an adversary; give one with --front FILE, such as those that `skidpad duel train` writes, or train some "
            "with --rounds"
        )
    settings = _met(ego, front, env, scenario, seed) | {
        "repairs": repairs,
        "rounds": rounds,
        "crash_cost": _costs(crash_cost, rounds),
        "adversaries_at_once": adversaries_at_once,
        "w_col": _weights(w_col),
        "test_runs": test_runs,
    }
    _run(settings | _budgets(env, train_episodes, test_episodes), out, "duel-repair", json, workers)


def _met(ego: str, front: list[str] | None, env: str, scenario: str, seed: int) -> dict[str, Any]:
    """Returns the settings that say who meets whom and where, with nothing trained and nobody repaired."""
    fronts = [_absolute(name) for name in front or []]
    where = {"env": env, "scenario": _absolute(scenario, ".toml"), "seed": seed}
    return {"ego": _absolute(ego), "fronts": fronts, **where, "rewards": [], "repairs": 0}


def _run(settings: dict[str, Any], out: Path | None, name: str, json: bool, workers: str) -> None:
    from skidpad.kinds.duels.settings import DuelSettings

    path = out or next_free(Path("runs"), name)
    with trusting():  # the person who types the command names its policies
        run_campaign(DuelSettings.from_config(settings), path, json, workers)
    _fail_if_unmeasured(path)


def _fail_if_unmeasured(path: Path) -> None:
    """Fails a run in which no episode of the ego was judged, so that it does not look like a pass."""
    from skidpad.kinds.duels.campaign import Duel
    from skidpad.kinds.duels.summary import summarise

    run, campaign = open_with_campaign(path, seen=True)
    reason = summarise(campaign.work(run)).unmeasured if isinstance(campaign, Duel) else ""
    if reason:
        raise SkidpadError(f"{reason}; the run is kept in {path}; fix the policy and run it again")


def _budgets(env: str, train_episodes: int | None, test_episodes: int | None) -> dict[str, int]:
    from skidpad.kinds.duels.settings import ROUND_TRAININGS

    is_scene = bool(env)
    tests = (SCENE_TEST_EPISODES if is_scene else TEST_EPISODES) if test_episodes is None else test_episodes
    trainings = (SCENE_TRAIN_EPISODES if is_scene else TRAIN_EPISODES) if train_episodes is None else train_episodes
    budgets = {
        "train_episodes": trainings,
        "round_episodes": ROUND_TRAININGS * trainings,
        "test_episodes": tests,
        "cross_episodes": min(tests, SCENE_CROSS_EPISODES if is_scene else CROSS_EPISODES),
        "search_episodes": min(tests, SEARCH_EPISODES),
    }
    return budgets | ({"validation_episodes": SCENE_VALIDATION_EPISODES} if is_scene else {})


def _is_file(target: str) -> bool:
    return Path(target).suffix == ".safetensors" or Path(target).is_file()


def _absolute(target: str, suffix: str = ".safetensors") -> str:
    """Makes a file's path absolute, so that the run finds it from any folder; leaves other names unchanged."""
    return str(Path(target).absolute()) if target and (Path(target).suffix == suffix or Path(target).is_file()) else target


def _costs(text: str, rounds: int) -> list[float]:
    """Reads --crash-cost, which nothing else takes; a config may hold one without rounds, as runs of older versions do."""
    costs = _weights(text, "--crash-cost", "1,3,10")
    if not rounds and text != CRASH_COST and len(set(costs)) == len(costs):
        raise SkidpadError(f"--crash-cost belongs to a repair in rounds; add --rounds 1, or leave it out; got {text}")
    return costs


def _weights(text: str, option: str = "--w-col", example: str = "-1,-0.5,-0.1") -> list[float]:
    try:
        return [float(part) for part in names_of(text)]
    except ValueError as error:
        raise SkidpadError(f"{option} takes numbers, e.g. {example}; got {text!r}") from error
