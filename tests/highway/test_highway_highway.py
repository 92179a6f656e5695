"""highway-env as a backend: the same outcomes as the engine's for whole episodes, the other scenes, and what is told when it is missing."""

import sys
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
from numpy.typing import NDArray

from skidpad.core.errors import BadParametersError, MissingExtraError
from skidpad.core.seeding import child_seed
from skidpad.highway.backend import EngineBackend, highway_backend, play_on
from skidpad.highway.episodes import Episodes
from skidpad.highway.evaluation import evaluate
from skidpad.highway.layout import CRASHED, IS_IDM, SPEED, Action, Outcome, Side
from skidpad.highway.opponents import ConstantActions, Driver, Idm, RandomActions
from skidpad.highway.policies import CallablePolicy, random_policy
from skidpad.highway.rewards import REWARDS
from skidpad.highway.scenario import FrontDriver, Scenario
from skidpad.highway.scenes import PRETRAINING, RELEASED, SCENES, Scene
from skidpad.highway.training import TrainingSettings, retrain_ego, train_ego, train_front

FAST = replace(RELEASED, simulation_hz=5)
FASTER, SLOWER = ConstantActions(Action.FASTER), ConstantActions(Action.SLOWER)


def network(role: Side, seed: int) -> Driver:
    return random_policy(role, FAST.observation.hash, FAST.observation.size, (16, 16), np.random.default_rng(seed))


def assert_same(first: Episodes, second: Episodes) -> None:
    assert np.array_equal(first.outcomes, second.outcomes)
    assert np.array_equal(first.steps, second.steps)
    assert np.array_equal(first.ego_actions, second.ego_actions)
    assert np.array_equal(first.front_actions, second.front_actions)
    assert np.array_equal(first.starts, second.starts)
    assert np.allclose(first.speeds_mps, second.speeds_mps, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize(
    ("scenario", "ego", "front"),
    [(FAST, FASTER, SLOWER), (FAST, network(Side.EGO, 1), network(Side.FRONT, 2)), (PRETRAINING, RandomActions(), Idm())],
    ids=["constant", "networks", "idm"],
)
def test_episodes_end_alike_on_the_engine_in_batches_and_on_highway_env(scenario: Scenario, ego: Driver, front: Driver | Idm) -> None:
    numbers = np.arange(6)
    batches = evaluate(scenario, ego, front, len(numbers), 4)
    assert_same(play_on(EngineBackend(scenario), ego, front, 4, numbers), batches)
    assert_same(play_on(highway_backend(scenario), ego, front, 4, numbers), batches)


@pytest.mark.slow
@pytest.mark.parametrize("pair", range(3))
def test_networks_end_a_hundred_episodes_alike(pair: int) -> None:
    numbers = np.arange(100)
    ego, front = network(Side.EGO, 2 * pair), network(Side.FRONT, 2 * pair + 1)
    scenario = FAST if pair else RELEASED
    assert_same(play_on(highway_backend(scenario), ego, front, 8, numbers), evaluate(scenario, ego, front, 100, 8))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_trained_networks_end_a_hundred_episodes_alike_in_highway_env_with_its_own_observation() -> None:
    settings = TrainingSettings(episodes=600)
    ego = train_ego(PRETRAINING, settings, 0).policy
    front = train_front(RELEASED, ego, REWARDS.get("sound")(), settings, 0).policy
    repaired = retrain_ego(RELEASED, ego, front, replace(settings, episodes=200), 0).policy
    crashes = []
    for scenario, driver, other in ((PRETRAINING, ego, Idm()), (RELEASED, ego, front), (RELEASED, repaired, front)):
        engine = evaluate(scenario, driver, other, 100, 8)
        assert_same(play_on(highway_backend(scenario, is_stock_observed=True), driver, other, 8, np.arange(100)), engine)
        crashes.append(engine.count(Outcome.CRASH))
    assert crashes[1] > 60, "networks that have learned nothing would prove little"


def test_a_broken_policy_ends_its_episode_as_an_error() -> None:
    def broken(observations: NDArray[np.float32]) -> object:
        return np.full(len(observations), np.nan if observations[0, 1] > 2 else 1.0)

    engine, highway = (
        play_on(backend, CallablePolicy(broken), SLOWER, 2, np.arange(8)) for backend in (EngineBackend(FAST), highway_backend(FAST))
    )
    assert_same(engine, highway)
    assert 0 < engine.count(Outcome.ERROR) < 8
    assert engine.failures == highway.failures
    assert all("the policy answered nan" in failure.message for failure in engine.failures)


def test_the_front_driver_has_to_fit_the_scenario() -> None:
    with pytest.raises(BadParametersError, match="has 'idm' in front; got ConstantActions"):
        play_on(EngineBackend(PRETRAINING), FASTER, SLOWER, 0, np.arange(1))
    with pytest.raises(BadParametersError, match="has 'policy' in front; got Idm"):
        play_on(EngineBackend(FAST), FASTER, Idm(), 0, np.arange(1))


@pytest.mark.parametrize("scene", SCENES.values(), ids=lambda scene: scene.name)
def test_every_scene_is_a_duel(scene: Scene) -> None:
    backend = highway_backend(scene=scene)
    stock = highway_backend(scene=scene, is_stock_observed=True)
    for one in (backend, stock):
        one.reset(3, 1)
    vehicles = backend.environment.road.vehicles
    ego, front = backend.environment.controlled_vehicles
    assert ego in vehicles
    assert front in vehicles
    assert backend.start is None
    before = backend.state
    for side in Side:
        assert np.abs(backend.observe(side) - stock.observe(side)).max() < 1e-6
    backend.step(Action.FASTER, Action.SLOWER)
    stock.step(Action.FASTER, Action.FASTER)
    # the second action reaches the front vehicle, and only that differs
    assert backend.state[Side.FRONT, 3] < stock.state[Side.FRONT, 3]
    assert not np.array_equal(backend.state, before)


@pytest.mark.parametrize("scene", [SCENES["merge"], SCENES["roundabout"]], ids=lambda scene: scene.name)
def test_episodes_in_a_scene_end_and_come_again(scene: Scene) -> None:
    scenario = replace(scene.scenario, episode_steps=6)
    numbers = np.arange(3)
    first = play_on(highway_backend(scenario, scene), RandomActions(), RandomActions(), 5, numbers)
    again = play_on(highway_backend(scenario, scene), RandomActions(), RandomActions(), 5, numbers[::-1].copy())
    assert np.array_equal(first.outcomes, again.outcomes[::-1])
    assert np.array_equal(first.speeds_mps, again.speeds_mps[::-1], equal_nan=True)
    assert (first.steps <= 6).all()
    assert {Outcome.of_code(int(code)) for code in first.outcomes} <= {Outcome.CRASH, Outcome.OVERTAKEN, Outcome.TIMEOUT}


@pytest.mark.parametrize("scene", SCENES.values(), ids=lambda scene: scene.name)
def test_idm_in_front_of_a_scene_is_highway_envs_own_and_takes_no_actions(scene: Scene) -> None:
    from highway_env.vehicle.behavior import IDMVehicle

    scenario = replace(scene.scenario, front=FrontDriver.IDM)
    backend, other = highway_backend(scenario, scene), highway_backend(scenario, scene)
    for one in (backend, other):
        one.reset(3, 1)
    assert backend.environment.controlled_vehicles == [backend.environment.vehicle]
    assert backend.state[Side.FRONT, IS_IDM] == 1
    place = backend.state[Side.FRONT, :2]
    fronts = [vehicle for vehicle in backend.environment.road.vehicles if np.array_equal(vehicle.position, place)]
    assert [isinstance(front, IDMVehicle) for front in fronts] == [True]
    policy = highway_backend(scene=scene)
    policy.reset(3, 1)
    assert np.array_equal(policy.state[Side.FRONT, :4], backend.state[Side.FRONT, :4]), "who drives does not alter the start"
    for _ in range(2):
        backend.step(Action.IDLE, Action.SLOWER)
        other.step(Action.IDLE, Action.FASTER)
    assert np.array_equal(backend.state, other.state)


def behind_a_slower_vehicle(front: FrontDriver) -> tuple[float, bool]:
    """Returns the front vehicle's speed after two steps of idling 45 m behind a wall at 15 m/s, and whether it crashed."""
    from highway_env.vehicle.kinematics import Vehicle

    scene = SCENES["merge"]
    backend = highway_backend(replace(scene.scenario, front=front), scene)
    backend.reset(0, 0)
    road, state = backend.environment.road, backend.state
    driven = next(vehicle for vehicle in road.vehicles if np.array_equal(vehicle.position, state[Side.FRONT, :2]))
    slow = [Vehicle(road, [driven.position[0] + 45.0, lane * 4.0], 0.0, 15.0) for lane in range(2)]  # both lanes: no way round
    road.vehicles = [backend.environment.vehicle, driven, *slow]
    for _ in range(2):
        backend.step(Action.SLOWER, Action.IDLE)
    return float(backend.state[Side.FRONT, SPEED]), bool(driven.crashed)


def test_behind_a_slower_vehicle_idm_brakes_and_an_idling_front_does_not() -> None:
    speed_mps, has_crashed = behind_a_slower_vehicle(FrontDriver.IDM)
    assert speed_mps < 20.0
    assert not has_crashed
    idle_mps, _ = behind_a_slower_vehicle(FrontDriver.POLICY)
    assert idle_mps > 20.0


def test_idm_in_front_drives_as_in_the_merge_that_nobody_touched() -> None:
    from highway_env.envs.merge_env import MergeEnv

    scene = SCENES["merge"]
    backend = highway_backend(replace(scene.scenario, front=FrontDriver.IDM), scene)
    backend.reset(2, 0)
    settings = {"simulation_frequency": 15, "policy_frequency": 1, "neighbour_vehicles_connected_lanes": True}
    own = MergeEnv({**settings, "action": {"type": "DiscreteMetaAction", "target_speeds": list(scene.scenario.target_speeds_mps)}})
    own.reset(seed=child_seed(2, "merge", 0) % 2**32)
    same = next(vehicle for vehicle in own.road.vehicles if np.array_equal(vehicle.position, backend.state[Side.FRONT, :2]))
    for _ in range(4):
        backend.step(Action.IDLE, Action.IDLE)
        own.step(int(Action.IDLE))
        assert np.array_equal(same.position, backend.state[Side.FRONT, :2])
        assert same.speed == backend.state[Side.FRONT, SPEED]


def test_a_wreck_of_the_front_alone_is_no_failure_of_the_ego() -> None:
    backend = highway_backend(scene=SCENES["merge"])
    backend.reset(0, 0)
    ego, front = backend.environment.controlled_vehicles
    front.crashed = True
    assert backend.step(Action.IDLE, Action.IDLE) is not Outcome.CRASH
    assert backend.state[Side.FRONT, CRASHED] == 1
    ego.crashed = True
    assert backend.step(Action.IDLE, Action.IDLE) is Outcome.CRASH


def test_an_intersection_leaves_the_rules_of_the_highway_alone() -> None:
    from highway_env.vehicle.behavior import IDMVehicle

    before = IDMVehicle.DISTANCE_WANTED, IDMVehicle.COMFORT_ACC_MAX, IDMVehicle.COMFORT_ACC_MIN
    highway_backend(scene=SCENES["intersection"]).reset(0, 0)
    assert before == (IDMVehicle.DISTANCE_WANTED, IDMVehicle.COMFORT_ACC_MAX, IDMVehicle.COMFORT_ACC_MIN)


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("stock", "highway_env.envs.common.abstract"),
        ("gym_env", "gymnasium"),
        ("parallel_env", "pettingzoo"),
        ("stable_baselines_env", "stable_baselines3.common.vec_env"),
    ],
)
def test_without_a_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, module: str, package: str) -> None:
    monkeypatch.delitem(sys.modules, f"skidpad.highway.{module}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"skidpad\[duel\]"):
        import_module(f"skidpad.highway.{module}")


def test_a_backend_that_has_not_begun_says_so() -> None:
    with pytest.raises(RuntimeError, match="call reset or place"):
        _ = highway_backend(FAST).state
