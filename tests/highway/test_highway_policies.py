"""Policies as files and as a user's own code: what is kept, what is refused."""

import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load, load_file, save_file

from skidpad.core.errors import BadSubjectError
from skidpad.highway.dense import Shape
from skidpad.highway.evaluation import evaluate
from skidpad.highway.layout import ACTIONS, Side
from skidpad.highway.observation import ObservationSpec
from skidpad.highway.opponents import RandomActions
from skidpad.highway.policies import (
    METADATA_KEY,
    CallablePolicy,
    LearnedPolicy,
    TrainingFacts,
    from_stable_baselines,
    load_policy,
    policy_bytes,
    policy_named,
    random_policy,
    save_policy,
)
from skidpad.highway.scenes import RELEASED

SPEC = RELEASED.observation


def learned(seed: int = 0, hidden: tuple[int, int] = (16, 24), role: Side = Side.EGO, spec: ObservationSpec = SPEC) -> LearnedPolicy:
    policy = random_policy(role, spec.hash, spec.size, hidden, np.random.default_rng(seed))
    return replace(policy, facts=TrainingFacts("released", "quality-of-driving", seed, 2000, 1550))


@given(st.integers(0, 20), st.tuples(st.integers(1, 40), st.integers(1, 40)), st.sampled_from(list(Side)))
@settings(max_examples=20)
def test_a_file_gives_back_the_policy(tmp_path_factory: pytest.TempPathFactory, seed: int, hidden: tuple[int, int], role: Side) -> None:
    path = tmp_path_factory.mktemp("policy") / "p.safetensors"
    policy = learned(seed, hidden, role)
    save_policy(policy, path)
    back = load_policy(path, role, SPEC)
    assert back.weights.tobytes() == policy.weights.tobytes()
    assert (back.shape, back.role, back.spec_hash, back.facts) == (policy.shape, policy.role, policy.spec_hash, policy.facts)
    assert policy_bytes(back) == path.read_bytes()


def test_a_file_holds_plain_matrices_and_says_what_it_is(tmp_path: Path) -> None:
    policy = learned()
    save_policy(policy, tmp_path / "p.safetensors")
    tensors = load_file(tmp_path / "p.safetensors")
    assert tensors["layer1.weight"].shape == (16, 8)
    assert tensors["layer3.weight"].shape == (ACTIONS, 24)
    seen = np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32) * 10
    h = seen
    for index in (1, 2, 3):
        h = h @ tensors[f"layer{index}.weight"].T + tensors[f"layer{index}.bias"]
        h = np.maximum(h, 0.0) if index < 3 else h
    assert policy.act(seen).tolist() == h.argmax(1).tolist()
    with safe_open(tmp_path / "p.safetensors", framework="numpy") as file:
        about = json.loads(file.metadata()[METADATA_KEY])
    assert (about["role"], about["observation"], about["training"]["chosen_episode"]) == ("ego", SPEC.hash, 1550)


def test_the_wrong_role_observation_or_width_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.safetensors"
    save_policy(learned(), path)
    with pytest.raises(BadSubjectError, match="trained to drive the ego vehicle; a policy for the front is needed"):
        load_policy(path, Side.FRONT, SPEC)
    other = replace(SPEC, is_absolute=not SPEC.is_absolute)
    facts = learned().facts
    with pytest.raises(BadSubjectError) as refused:
        load_policy(path, Side.EGO, other, "merge")
    assert f"on the highway {facts.scenario!r} (observation {SPEC.hash})" in str(refused.value)
    assert f"should drive in the scene 'merge' (observation {other.hash}); use the scenario" in str(refused.value)
    save_policy(replace(learned(), facts=TrainingFacts()), path)
    with pytest.raises(BadSubjectError, match=f"trained on observation {SPEC.hash}, but should drive on observation {other.hash}"):
        load_policy(path, Side.EGO, other)
    narrow = random_policy(Side.EGO, SPEC.hash, SPEC.size - 1, (8, 8), np.random.default_rng(0))
    save_policy(narrow, path)
    with pytest.raises(BadSubjectError, match=f"maps 7 numbers to 5 actions; this scenario shows {SPEC.size}"):
        load_policy(path, Side.EGO, SPEC)


def _rewritten(path: Path, **changes: np.ndarray | None) -> None:
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
    tensors = load_file(path) | {name.replace("__", "."): value for name, value in changes.items()}
    save_file({name: value for name, value in tensors.items() if value is not None}, path, metadata)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layer2__weight": None}, "should hold layer1.weight"),
        ({"extra": np.zeros(1, np.float32)}, "should hold layer1.weight"),
        ({"layer2__weight": np.zeros((24, 17), np.float32)}, "do not fit together"),
        ({"layer2__bias": np.zeros(23, np.float32)}, "do not fit together"),
        ({"layer1__weight": np.zeros((16, 8), np.float64)}, "do not fit together"),
        ({"layer1__weight": np.full((16, 8), np.nan, np.float32)}, "not finite"),
        ({"layer3__weight": np.zeros((4, 24), np.float32), "layer3__bias": np.zeros(4, np.float32)}, "to 4 actions"),
    ],
)
def test_damaged_layers_are_refused(tmp_path: Path, changes: dict[str, np.ndarray | None], message: str) -> None:
    path = tmp_path / "p.safetensors"
    save_policy(learned(), path)
    _rewritten(path, **changes)
    with pytest.raises(BadSubjectError, match=message):
        load_policy(path, Side.EGO, SPEC)


def test_what_is_no_policy_is_refused_without_running_it(tmp_path: Path) -> None:
    with pytest.raises(BadSubjectError, match="no policy at"):
        load_policy(tmp_path / "none.safetensors", Side.EGO, SPEC)

    class Trap:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (tmp_path / "sprung",))

    for name, data in (("pickle", pickle.dumps(Trap())), ("short", policy_bytes(learned())[:100]), ("empty", b"")):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(BadSubjectError, match="not a complete safetensors file"):
            load_policy(tmp_path / name, Side.EGO, SPEC)
    assert not (tmp_path / "sprung").exists()
    save_file({"w": np.zeros(3, np.float32)}, tmp_path / "foreign")
    with pytest.raises(BadSubjectError, match="holds no duel policy"):
        load_policy(tmp_path / "foreign", Side.EGO, SPEC)
    about = {"role": "ego", "observation": SPEC.hash, "training": {"x": 1}}
    save_file(load(policy_bytes(learned())), tmp_path / "newer", {METADATA_KEY: json.dumps(about)})
    with pytest.raises(BadSubjectError, match="newer version"):
        load_policy(tmp_path / "newer", Side.EGO, SPEC)


def test_a_policy_refuses_observations_and_weights_of_another_shape() -> None:
    with pytest.raises(BadSubjectError, match=r"sees \(N, 8\) numbers; got an array of shape \(3, 7\)"):
        learned().act(np.zeros((3, 7), np.float32))
    with pytest.raises(BadSubjectError, match="float32 weights"):
        LearnedPolicy(Side.EGO, "", Shape(8, 16, 24, 5), np.zeros(10, np.float32))
    with pytest.raises(BadSubjectError, match="among 5 actions"):
        replace(learned(), shape=Shape(8, 16, 24, 6))


def always_left(observations: np.ndarray) -> np.ndarray:
    return np.zeros(len(observations), np.int64)


def test_a_callable_is_taken_only_by_its_name() -> None:
    policy = policy_named(f"{__name__}:always_left")
    assert policy.act(np.zeros((4, 8), np.float32)).tolist() == [0, 0, 0, 0]
    for target, message in (
        ("no-colon", "module:function"),
        (":f", "module:function"),
        ("skidpad_has_no_such_module:f", "cannot import the module"),
        ("json:no_such", "has no 'no_such'"),
        ("json:__name__", "is a str"),
    ):
        with pytest.raises(BadSubjectError, match=message):
            policy_named(target)


WRAPPED = CallablePolicy(always_left)


def test_a_wrapped_policy_is_taken_by_its_name_and_can_be_called() -> None:
    policy = policy_named(f"{__name__}:WRAPPED")
    assert policy.name == f"{__name__}:WRAPPED"
    assert policy(np.zeros((2, 8), np.float32)).tolist() == policy.act(np.zeros((2, 8), np.float32)).tolist() == [0, 0]


def test_a_module_that_fails_while_it_is_imported_is_told(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "skidpad_broken_policy.py").write_text("1 / 0", encoding="utf-8")
    (tmp_path / "skidpad_needy_policy.py").write_text("import skidpad_no_such_module", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BadSubjectError, match="raised ZeroDivisionError: division by zero"):
        policy_named("skidpad_broken_policy:f")
    with pytest.raises(BadSubjectError, match="install what it imports"):
        policy_named("skidpad_needy_policy:f")


def test_a_model_of_stable_baselines_drives_deterministically() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    stable_baselines3 = pytest.importorskip("stable_baselines3")

    class Still(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (SPEC.size,), np.float32)
        action_space = gymnasium.spaces.Discrete(ACTIONS)

        def reset(self, *, seed: int | None = None, options: dict[str, object] | None = None):
            return np.zeros(SPEC.size, np.float32), {}

        def step(self, action: int):
            return np.zeros(SPEC.size, np.float32), 0.0, True, False, {}

    model = stable_baselines3.DQN("MlpPolicy", Still(), buffer_size=10, seed=0, device="cpu", policy_kwargs={"net_arch": [16]})
    policy = from_stable_baselines(model)
    seen = np.random.default_rng(0).normal(size=(30, SPEC.size)).astype(np.float32) * 10
    assert policy.act(seen).tolist() == model.predict(seen, deterministic=True)[0].tolist()
    drives = [evaluate(RELEASED, policy, RandomActions(), 20, 0) for _ in range(2)]
    assert np.array_equal(drives[0].ego_actions, drives[1].ego_actions)
    assert not drives[0].failures


def test_a_learned_policy_and_the_same_as_a_callable_drive_the_same_episodes() -> None:
    policy = learned(3)
    own, brought = (evaluate(RELEASED, ego, RandomActions(), 60, 5) for ego in (policy, CallablePolicy(policy.act)))
    for name in ("outcomes", "steps", "ego_actions", "front_actions", "starts"):
        assert np.array_equal(getattr(own, name), getattr(brought, name)), name
