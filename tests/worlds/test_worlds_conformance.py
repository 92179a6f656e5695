"""The built-in world does what every world must do, and a world that does not is caught by the check that it breaks."""

import numpy as np
import pytest
import torch

from skidpad.core.errors import BadParametersError
from skidpad.core.images import Camera
from skidpad.worlds.builtin import BuiltInWorld
from skidpad.worlds.conformance import CHECKS, NonconformingError, Tolerance, check_world
from skidpad.worlds.scenario.scenario import BadScenarioError
from skidpad.worlds.world import WORLDS

SMALL = Camera(64, 32)


def small() -> BuiltInWorld:
    return BuiltInWorld(2, camera=SMALL)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_the_built_in_world_conforms(check) -> None:
    check.run(small)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_it_conforms_on_a_gpu() -> None:
    assert check_world(lambda: BuiltInWorld(2, camera=SMALL, device="cuda")) == ()


def test_the_registry_makes_it() -> None:
    world = WORLDS.get("built-in")(3, 1)
    assert isinstance(world, BuiltInWorld)
    assert world.width == 3


class Mirrored(BuiltInWorld):
    def step(self, steering_rad):
        return super().step(-np.asarray(steering_rad))


class Following(BuiltInWorld):
    """Measures against the nearest lane, as MetaDrive's `vehicle.lane` does."""

    def lateral_m(self):
        lateral = super().lateral_m()
        return lateral - 3.5 * np.round(lateral / 3.5)


class Lenient(BuiltInWorld):
    def step(self, steering_rad):
        return super().step(np.nan_to_num(np.resize(steering_rad, len(self._scenes))))


class Slow(BuiltInWorld):
    def step(self, steering_rad):
        if self._steps % 2:
            self._steps += 1
            return self._motion.state
        return super().step(steering_rad)


class Rolling(BuiltInWorld):
    """Draws from a generator that nobody seeds again."""

    noise = np.random.default_rng(0)

    def step(self, steering_rad):
        return super().step(np.asarray(steering_rad) + 0.01 * self.noise.standard_normal(len(steering_rad)))


class Remembering(BuiltInWorld):
    touched = False

    def step(self, steering_rad):
        self.touched = True
        return super().step(steering_rad)

    def collided(self):
        return super().collided() | self.touched


class OneBuffer(BuiltInWorld):
    buffer = np.zeros((1, 32, 64, 3), np.uint8)

    def frames(self, wanted=None):
        self.buffer[:] = super().frames(wanted)[:1]
        return self.buffer


class FlippedCamera(BuiltInWorld):
    def frames(self, wanted=None):
        return np.ascontiguousarray(super().frames(wanted)[:, :, ::-1])


class BlueFirst(BuiltInWorld):
    def frames(self, wanted=None):
        return np.ascontiguousarray(super().frames(wanted)[..., ::-1])


class Ghostly(BuiltInWorld):
    """Drives through everything."""

    def collided(self):
        return np.zeros(len(self._scenes), np.bool_)


class Momentary(BuiltInWorld):
    """Tells a collision in the moment that it begins alone."""

    def collided(self):
        seen, self.told = super().collided() & ~getattr(self, "told", np.zeros(1, np.bool_)), super().collided()
        return seen


class Crowding(BuiltInWorld):
    """The first ego's steering pulls at all others."""

    def step(self, steering_rad):
        return super().step(np.asarray(steering_rad) + 0.05 * steering_rad[0] * (np.arange(len(steering_rad)) > 0))


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        (Mirrored, "signs"),
        (Following, "lane-is-fixed"),
        (Lenient, "refuses"),
        (Slow, "steps"),
        (Rolling, "same-again"),
        (Remembering, "forgets"),
        (OneBuffer, "pictures-move"),
        (FlippedCamera, "not-mirrored"),
        (BlueFirst, "is-rgb"),
        (Ghostly, "collides"),
        (Momentary, "collides"),
        (Crowding, "apart"),
    ],
)
def test_a_wrong_world_is_caught_by_name(wrong, name) -> None:
    check = next(check for check in CHECKS if check.name == name)
    with pytest.raises(NonconformingError, match=name):
        check.run(lambda: wrong(2, camera=SMALL))


@pytest.mark.parametrize("wrong", [FlippedCamera, BlueFirst, Ghostly])
def test_each_of_them_is_wrong_in_one_thing_alone(wrong) -> None:
    assert len(check_world(lambda: wrong(1, camera=SMALL))) == 1


class DarkAtTheLeft(BuiltInWorld):
    def frames(self, wanted=None):
        seen = super().frames(wanted).copy()
        seen[:, :, : seen.shape[2] // 2] //= 2
        return seen


@pytest.mark.parametrize("camera", [SMALL, Camera(), Camera(200, 66, pitch_deg=8.0), Camera(128, 128, fov_deg=100.0)])
def test_cameras_of_other_shapes_and_dirty_lenses_pass(camera: Camera) -> None:
    for check in CHECKS:
        if check.name in {"not-mirrored", "is-rgb"}:
            check.run(lambda: BuiltInWorld(1, camera=camera))
            check.run(lambda: DarkAtTheLeft(1, camera=camera))


def test_a_world_without_other_vehicles_need_not_collide() -> None:
    class Alone(Ghostly):
        def reset(self, scenarios):
            if any(scenario.vehicles for scenario in scenarios):
                raise BadScenarioError("this world shows no other vehicles")
            return super().reset(scenarios)

    assert check_world(lambda: Alone(1, camera=SMALL)) == ()


def test_a_tolerance_lets_a_world_that_is_not_exact_pass() -> None:
    check = next(check for check in CHECKS if check.name == "same-again")
    with pytest.raises(NonconformingError):
        check.run(lambda: Rolling(2, camera=SMALL))
    check.run(lambda: Rolling(2, camera=SMALL), Tolerance(pose_m=0.5, pixel=255.0))


def test_all_problems_are_told_at_once() -> None:
    found = check_world(lambda: Mirrored(1, camera=SMALL))
    assert {problem.partition(":")[0] for problem in found} == {"signs", "lane-is-fixed", "truth-keeps"}


def test_a_world_in_which_nothing_has_begun_says_so() -> None:
    world = small()
    for ask in (world.frames, world.lateral_m, world.truth_rad, world.collided):
        with pytest.raises(BadParametersError, match="reset"):
            ask()
    with pytest.raises(BadParametersError, match="1 to 2 scenarios"):
        world.reset([])
