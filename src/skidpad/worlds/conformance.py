"""Conformance checks: what a world must do before verdicts from it mean anything. Run them on any world.

In the test of an adapter: `check.run(make)` for each of CHECKS, or `check_world(make)` for all of them, where `make` is a function that
returns a new world. A check raises NonconformingError, which says what was expected and what was got.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from skidpad.core.errors import SkidpadError
from skidpad.core.images import FloatArray, NumpyFrames, as_numpy
from skidpad.worlds.scenario.scenario import BadScenarioError, Ego, OtherVehicle, RoadKind, RoadPlan, Scenario, Side, Surroundings
from skidpad.worlds.world import STEP_S, EgoState, World

MakeWorld = Callable[[], World]


class NonconformingError(SkidpadError):
    """A world failed a conformance check."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far two runs of one scenario may be apart; zero for a world that is exact to the byte.

    pose_m: metres and radians. pixel: grey levels. share: of the pixels that may differ by more than that, where surfaces that lie in
    one plane are drawn in any order.
    """

    pose_m: float = 0.0
    pixel: float = 0.0
    share: float = 0.0


EXACT = Tolerance()

_CALM = Surroundings(trees=0.2)
STRAIGHT = Scenario(road=RoadPlan(RoadKind.STRAIGHT), surroundings=_CALM, ego=Ego(speed_m_s=12.0), duration_s=12.0, seed=1)
BEND = Scenario(
    road=RoadPlan(RoadKind.CURVED, radius_m=150.0, side=Side.LEFT), surroundings=_CALM, ego=Ego(speed_m_s=12.0), duration_s=12.0, seed=2
)
_BLOCKED = replace(STRAIGHT, vehicles=(OtherVehicle(lane=1, ahead_m=30.0, speed_m_s=0.0),))
_CHANGED_LANE_M = 3.0
"""Beyond this distance a reference that follows the car would have jumped to the next lane."""


@dataclass(frozen=True, slots=True)
class WorldCheck:
    """One requirement on worlds, in a sentence, and the function that checks it."""

    name: str
    sentence: str
    _check: Callable[[MakeWorld, Tolerance], None] = field(repr=False)

    def run(self, make: MakeWorld, tolerance: Tolerance = EXACT) -> None:
        """Checks a new world; raises NonconformingError where it fails."""
        try:
            self._check(make, tolerance)
        except NonconformingError as error:
            raise NonconformingError(f"{self.name}: {self.sentence} {error}") from error


def check_world(make: MakeWorld, tolerance: Tolerance = EXACT) -> tuple[str, ...]:
    """Runs every check and returns the failures in words, none for a world that conforms."""
    found = []
    for check in CHECKS:
        try:
            check.run(make, tolerance)
        except NonconformingError as error:
            found.append(str(error))
    return tuple(found)


def _expect(holds: object, words: str) -> None:
    if not holds:
        raise NonconformingError(words)


def _sees(world: World) -> NumpyFrames:
    return as_numpy(world.frames()).copy()


def _drive(world: World, scenario: Scenario, steering: Callable[[World, int], FloatArray], steps: int) -> list[EgoState]:
    return [world.reset([scenario]), *(world.step(steering(world, step)) for step in range(steps))]


def _constant(angle_rad: float) -> Callable[[World, int], FloatArray]:
    return lambda _world, _step: np.array([angle_rad])


def _shapes(make: MakeWorld, _tolerance: Tolerance) -> None:
    world = make()
    _expect(world.width >= 1, f"got a width of {world.width}.")
    for moment in ("reset", "step"):
        state = world.reset([STRAIGHT]) if moment == "reset" else world.step(np.zeros(1))
        _expect(state.poses.shape == (1, 3), f"After {moment}, poses are of shape {state.poses.shape}.")
        frames = _sees(world)
        _expect(frames.dtype == np.uint8 and frames.ndim == 4 and frames.shape[::3] == (1, 3), f"Frames are {frames.dtype} {frames.shape}.")
        for name in ("lateral_m", "truth_rad", "collided"):
            values = getattr(world, name)()
            _expect(np.shape(values) == (1,) and np.all(np.isfinite(values)), f"After {moment}, {name}() gave {values!r}.")
        for name in ("speed_m_s", "steering_rad"):
            _expect(np.shape(getattr(state, name)) == (1,), f"After {moment}, {name} is {getattr(state, name)!r}.")


def _begins(make: MakeWorld, _tolerance: Tolerance) -> None:
    world = make()
    for scenario in (STRAIGHT, BEND):
        world.reset([scenario])
        _expect(abs(world.lateral_m()[0]) < 0.3, f"The first distance is {world.lateral_m()[0]:.2f} m.")
        _expect(not world.collided()[0], "It has already touched something.")


def _steps(make: MakeWorld, _tolerance: Tolerance) -> None:
    states = _drive(make(), STRAIGHT, _constant(0.0), 20)
    gone = np.linalg.norm(states[-1].poses[0, :2] - states[0].poses[0, :2])
    wanted = 20 * STEP_S * STRAIGHT.ego.speed_m_s
    _expect(abs(gone - wanted) < 0.05 * wanted, f"After 20 steps at {STRAIGHT.ego.speed_m_s:g} m/s it is {gone:.2f} m further.")


def _signs(make: MakeWorld, _tolerance: Tolerance) -> None:
    for angle_rad in (0.3, -0.3):
        world = make()
        states = _drive(world, STRAIGHT, _constant(angle_rad), 30)
        turned = states[-1].poses[0, 2] - states[0].poses[0, 2]
        moved = world.lateral_m()[0]
        _expect(turned * angle_rad > 0.0, f"Steering {angle_rad:+g} rad turned the heading by {turned:+.3f} rad.")
        _expect(moved * angle_rad > 0.0, f"Steering {angle_rad:+g} rad moved the car by {moved:+.2f} m.")


def _lane_is_fixed(make: MakeWorld, _tolerance: Tolerance) -> None:
    world = make()
    world.reset([STRAIGHT])
    furthest = 0.0
    for _ in range(160):
        # Across the road at a slant: left first, then straight on.
        world.step(np.array([0.5 if furthest < 0.5 else 0.0]))
        now = float(world.lateral_m()[0])
        _expect(now > furthest - 0.5, f"The distance fell from {furthest:.2f} m to {now:.2f} m while the car went on to the left.")
        furthest = max(furthest, now)
        if furthest > 2.0 * _CHANGED_LANE_M:
            return
    _expect(furthest > _CHANGED_LANE_M, f"After 8 s to the left the distance is {furthest:.2f} m.")


def _same_again(make: MakeWorld, tolerance: Tolerance) -> None:
    def wave(_world: World, step: int) -> FloatArray:
        return np.array([0.4 * np.sin(0.2 * step)])

    first, second = make(), make()
    one, two = (_drive(world, BEND, wave, 25)[-1] for world in (first, second))
    apart = float(np.abs(one.poses - two.poses).max())
    _expect(apart <= tolerance.pose_m, f"Two runs with the same steering ended {apart:g} apart.")
    _alike(_sees(first), _sees(second), tolerance, "Two runs with the same steering saw")


def _forgets(make: MakeWorld, tolerance: Tolerance) -> None:
    world = make()
    fresh = world.reset([BEND]).poses.copy()
    seen = _sees(world)
    _drive(world, STRAIGHT, _constant(0.4), 40)
    again = world.reset([BEND]).poses
    apart = float(np.abs(fresh - again).max())
    _expect(apart <= tolerance.pose_m, f"After another scenario it began {apart:g} from where it began first.")
    _expect(
        not world.collided()[0] and abs(world.lateral_m()[0]) < 0.3, "lateral_m() or collided() still report the scenario before the reset."
    )
    _alike(seen, _sees(world), tolerance, "Before and after another scenario it saw")


def _alike(first: NumpyFrames, second: NumpyFrames, tolerance: Tolerance, words: str) -> None:
    _expect(first.shape == second.shape, f"{words} pictures of shapes {first.shape} and {second.shape}.")
    apart = np.abs(first.astype(np.int64) - second.astype(np.int64)).max(-1)
    share = float((apart > tolerance.pixel).mean())
    _expect(
        share <= tolerance.share,
        f"{words} pictures that differ by up to {apart.max():g} grey levels, {100 * share:.1f} % of them too much.",
    )


def _pictures_move(make: MakeWorld, _tolerance: Tolerance) -> None:
    world = make()
    world.reset([BEND])
    frames = as_numpy(world.frames())
    kept = frames.copy()
    for _ in range(10):
        world.step(np.zeros(1))
    now = _sees(world)
    _expect(np.array_equal(frames, kept), "Frames returned earlier changed afterwards; return a copy.")
    _expect(not np.array_equal(kept, now), "After half a second at 12 m/s the picture is the same.")
    _expect(now.std() > 5.0, "The picture shows hardly anything.")


def _not_mirrored(make: MakeWorld, _tolerance: Tolerance) -> None:
    for angle_rad in (1.5, -1.5):
        world = make()
        states = _drive(world, STRAIGHT, _constant(angle_rad), _INTO_THE_TURN)
        frames = []
        for _ in range(_PICTURES):
            frames.append(_sees(world)[0])
            states.append(world.step(np.array([angle_rad])))
        # By the heading that the world reports, so that a wrong sign of the steering is not blamed on the camera.
        turned = float(states[-1].poses[0, 2] - states[_INTO_THE_TURN].poses[0, 2])
        way = "left" if turned > 0.0 else "right"
        moved = _moved_right_px(np.stack(frames))
        _expect(moved, f"While the car turned to the {way}, the picture did not move sideways.")
        _expect(moved * turned > 0.0, f"While the car turned to the {way}, so did the picture; mirror the frames.")


_INTO_THE_TURN, _PICTURES, _BETWEEN = 8, 12, 4
"""Steps until the car turns, how many pictures are then taken, and steps between two that are compared: some five degrees of turn."""


def _moved_right_px(frames: NumpyFrames) -> int:
    """Returns by how many pixels the content moves to the right in _BETWEEN frames: the shift at which vertical edges fit best.

    frames: (N, height, width, 3). Edges are taken from the logarithm, and those that stay in place are taken away, so that neither a dirty
    lens nor the car's own bonnet looks like a picture that stands still.
    """
    edges = np.diff(np.log1p(frames.astype(np.float64).mean(-1)), axis=2)
    edges -= np.median(edges, axis=0)
    before, after = edges[:-_BETWEEN], edges[_BETWEEN:]
    width = edges.shape[2]

    def fit(shift: int) -> float:
        low, high = max(shift, 0), width + min(shift, 0)
        one, two = before[:, :, low - shift : high - shift], after[:, :, low:high]
        scale = np.sqrt((one * one).sum() * (two * two).sum())
        return float((one * two).sum() / scale) if scale > 0.0 else 0.0

    return max(range(-(width // 4), width // 4 + 1), key=fit)


def _is_rgb(make: MakeWorld, _tolerance: Tolerance) -> None:
    world = make()
    world.reset([STRAIGHT])
    frame = _sees(world)[0].astype(np.float64)
    bluer = frame[..., 2] - frame[..., 0]
    sky, ground = float(bluer[: len(frame) // 4].mean()), float(bluer[len(frame) // 2 :].mean())
    _expect(
        sky > ground,
        f"In sunshine, blue minus red is {sky:.0f} in the upper quarter and {ground:.0f} in the lower half; the sky must be the bluer. "
        "Turn BGR into RGB: frames[..., ::-1].",
    )


def _collides(make: MakeWorld, _tolerance: Tolerance) -> None:
    world = make()
    try:
        world.reset([_BLOCKED])
    except BadScenarioError:
        # A world without other vehicles has nothing to run into.
        return
    _expect(not world.collided()[0], "collided() is True at the beginning, with the next car 30 m ahead.")
    touched = []
    for _ in range(round(4.0 / STEP_S)):
        world.step(world.truth_rad())
        touched.append(bool(world.collided()[0]))
    _expect(any(touched), "The ego drove at 12 m/s against a car that stands 30 m ahead, and collided() stayed False for 4 s.")
    first = touched.index(True)
    _expect(first * STEP_S > 1.0, f"A car that stands 30 m ahead was touched after {(first + 1) * STEP_S:.2f} s at 12 m/s.")
    _expect(all(touched[first:]), "collided() was True and then False again; it must stay True until the next reset.")


def _truth_keeps(make: MakeWorld, _tolerance: Tolerance) -> None:
    for scenario in (STRAIGHT, BEND):
        world = make()
        world.reset([scenario])
        furthest = 0.0
        for _ in range(round(scenario.duration_s / STEP_S) - 1):
            world.step(world.truth_rad())
            furthest = max(furthest, abs(float(world.lateral_m()[0])))
        _expect(furthest < 0.6, f"Steered by truth_rad() on a {scenario.road.kind.value} road, the car strayed {furthest:.2f} m.")
        _expect(not world.collided()[0], "Steered by truth_rad(), the car touched something.")


def _apart(make: MakeWorld, tolerance: Tolerance) -> None:
    world = make()
    if world.width < 2:
        return
    together = world.reset([STRAIGHT, BEND])
    for _ in range(20):
        together = world.step(np.array([0.6, 0.1]))
    seen, lateral = _sees(world)[1:], world.lateral_m()[1]
    alone = make()
    state = _drive(alone, BEND, _constant(0.1), 20)[-1]
    gap = max(float(np.abs(state.poses[0] - together.poses[1]).max()), abs(float(alone.lateral_m()[0] - lateral)))
    _expect(gap <= tolerance.pose_m, f"Beside another ego the car ended {gap:g} from where it ends alone.")
    _alike(seen, _sees(alone), tolerance, "Beside another ego and alone the car saw")


def _refuses(make: MakeWorld, _tolerance: Tolerance) -> None:
    world = make()
    world.reset([STRAIGHT])
    for wrong in (np.array([np.nan]), np.array([np.inf]), np.zeros(2)):
        try:
            world.step(wrong)
        except SkidpadError:
            continue
        _expect(holds=False, words=f"step({wrong}) was accepted.")
    try:
        world.reset([replace(STRAIGHT, ego=replace(STRAIGHT.ego, speed_m_s=float("nan")))])
    except BadScenarioError:
        return
    _expect(holds=False, words="A scenario whose speed is not a number was accepted; raise BadScenarioError.")


CHECKS = (
    WorldCheck("shapes", "Every answer has the shape and type that the World protocol states.", _shapes),
    WorldCheck("begins", "A scenario begins in the middle of the ego's lane, touching nothing.", _begins),
    WorldCheck("steps", "One step is STEP_S at the scenario's speed.", _steps),
    WorldCheck("signs", "Steering to the left is positive, and so is the distance to the left of the lane's middle.", _signs),
    WorldCheck("lane-is-fixed", "lateral_m() measures against the scenario's lane, which does not follow the car.", _lane_is_fixed),
    WorldCheck("same-again", "The same steering gives the same drive.", _same_again),
    WorldCheck("forgets", "A reset leaves nothing of the previous scenario.", _forgets),
    WorldCheck("pictures-move", "Frames show where the car is now, and frames returned earlier do not change.", _pictures_move),
    WorldCheck("not-mirrored", "What lies to the left of the car is at the left of the picture.", _not_mirrored),
    WorldCheck("is-rgb", "Frames are RGB, red first.", _is_rgb),
    WorldCheck("collides", "collided() is True from the moment the ego runs into another car.", _collides),
    WorldCheck("truth-keeps", "A car steered by truth_rad() keeps its lane.", _truth_keeps),
    WorldCheck("apart", "Egos do not influence one another.", _apart),
    WorldCheck("refuses", "Steering and scenarios that make no sense are refused with one of skidpad's errors.", _refuses),
)
