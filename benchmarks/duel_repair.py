"""What the settings of a repair against everybody do: crash rate and speed with each front vehicle, for one ego and one seed each.

An ego of 2,000 episodes and two adversaries of 1,500 are trained first. The ego is then retrained against IDM, random, slow and
aggressive drivers, the search and both adversaries, once for each cost of a crash; adversaries trained afterwards meet the result.

Run: python benchmarks/duel_repair.py [--cost 0.5,1,2,5,10] [--episodes 4000] [--idm-share 0.333] [--discount 0.9] [--speed-unit 2.5]
"""

from __future__ import annotations

import argparse
import json
import sys

from skidpad.highway import dense
from skidpad.highway.dqn import DqnSettings
from skidpad.highway.evaluation import evaluate
from skidpad.highway.layout import Action
from skidpad.highway.opponents import AggressiveActions, ConstantActions, Idm, Opponent, PlannedActions, RandomActions, SearchedActions
from skidpad.highway.policies import LearnedPolicy
from skidpad.highway.rewards import REWARDS, careful_reward
from skidpad.highway.scenario import Scenario
from skidpad.highway.scenes import PRETRAINING, RELEASED
from skidpad.highway.training import Match, TrainingSettings, repair_ego, train_ego, train_front

REWARDS_USED = ("released", "sound")
VALIDATIONS = 200
EPISODES, SEARCHES = 1000, 50


def scenario_of(front: Opponent) -> Scenario:
    """IDM is met where the ego learned to drive."""
    return PRETRAINING if isinstance(front, Idm) else RELEASED


def repaired(ego: LearnedPolicy, fronts: dict[str, Opponent], cost: float, given: argparse.Namespace) -> LearnedPolicy:
    """Retrains the ego against all of them."""
    count = len(fronts)
    weights = {"idm": count * given.idm_share, "random": count / 6.0}
    matches = [Match(scenario_of(front), front, weights.get(name, 1.0)) for name, front in fronts.items()]
    dqn = DqnSettings(
        discount=given.discount,
        memory=200_000,
        target_every=200,
        exploration_start=0.5,
        exploration_end=0.03,
        exploration_steps=4.0 * given.episodes,
        cooling=0.95,
        crash_share=0.25,
        is_overtaking_an_end=False,
        is_conditioned=True,
    )
    settings = TrainingSettings(
        episodes=given.episodes,
        dqn=dqn,
        validate_every=max(given.episodes // 20, 1),
        validation_episodes=VALIDATIONS * count,
        accepted_rate=0.02,
    )
    return repair_ego(ego, matches, settings, 31, reward=careful_reward(cost)).policy


def measured(ego: LearnedPolicy | PlannedActions, front: Opponent) -> tuple[float, float]:
    """Crashes in percent and the ego's mean speed in m/s; few episodes where each is searched."""
    is_searched = isinstance(front, SearchedActions) or isinstance(ego, PlannedActions)
    driven = evaluate(scenario_of(front), ego, front, SEARCHES if is_searched else EPISODES, 77)
    return round(100.0 * driven.failure_rate, 2), round(driven.mean_ego_mps, 1)


def main() -> None:
    """Prints a line of JSON for an ego that knows its opponent, and one for each cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cost", default="0.5,1,2,5,10")
    parser.add_argument("--episodes", type=int, default=4000)
    parser.add_argument("--idm-share", type=float, default=1 / 3)
    parser.add_argument("--discount", type=float, default=0.9)
    parser.add_argument("--speed-unit", type=float, default=2.5)
    given = parser.parse_args()
    dense._SPEED_MPS = given.speed_unit  # noqa: SLF001 - what is varied here is a constant elsewhere
    ego = train_ego(PRETRAINING, TrainingSettings(episodes=2000), 11).policy
    learned = TrainingSettings(episodes=1500)
    fronts: dict[str, Opponent] = {
        "idm": Idm(),
        "random": RandomActions(),
        "slow": ConstantActions(Action.SLOWER),
        "aggressive": AggressiveActions(),
        "search": SearchedActions(5),
        **{name: train_front(RELEASED, ego, REWARDS.get(name)(), learned, 21).policy for name in REWARDS_USED},
    }
    bounds = {name: measured(PlannedActions(), front) for name, front in fronts.items() if not isinstance(front, SearchedActions)}
    sys.stdout.write(json.dumps({"possible": bounds}) + "\n")
    for cost in map(float, given.cost.split(",")):
        better = repaired(ego, fronts, cost, given)
        figures = {name: measured(better, front) for name, front in fronts.items()}
        for name in REWARDS_USED:
            figures[f"{name} afterwards"] = measured(better, train_front(RELEASED, better, REWARDS.get(name)(), learned, 41).policy)
        sys.stdout.write(json.dumps({"cost": cost, **figures}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
