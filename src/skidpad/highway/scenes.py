"""The scenes of highway-env, besides the highway, in which a duel can be driven: merge, exit, intersection, roundabout.

They run only on highway-env, with other traffic. In every scene both drivers have the five meta-actions, and an episode
ends as a crash when the ego crashes with anyone, as overtaken where the road runs straight, else as a timeout.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from skidpad.core.errors import UnknownNameError
from skidpad.highway.observation import Feature, ObservationSpec, Quantity
from skidpad.highway.scenario import FrontDriver, Scenario, SpacingMode


@dataclass(frozen=True, slots=True)
class Scene:
    """A scene of highway-env as a duel; the scenario's start fields are unused, since the scene places its own vehicles."""

    name: str
    environment: str
    """The class within highway-env."""
    scenario: Scenario
    has_two_drivers: bool
    """Whether the scene honours `controlled_vehicles = 2`; where not, the vehicle nearest ahead of the ego is taken over."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """What differs from the scene's own configuration."""
    end_x_m: float | None = None
    """Where the scene itself ends the episode, along x."""


def _square(half_m: float, speed_mps: float) -> ObservationSpec:
    """An observation for scenes around the origin, all scaled, five vehicles."""
    return ObservationSpec(
        features=(
            Feature(Quantity.PRESENCE),
            Feature(Quantity.X, -half_m, half_m),
            Feature(Quantity.Y, -half_m, half_m),
            Feature(Quantity.VX, -speed_mps, speed_mps),
            Feature(Quantity.VY, -speed_mps, speed_mps),
            Feature(Quantity.COS_HEADING),
            Feature(Quantity.SIN_HEADING),
        ),
        vehicles=5,
    )


_ALONG_ROAD = ObservationSpec(
    features=(
        Feature(Quantity.PRESENCE),
        Feature(Quantity.X, -1200.0, 1200.0),
        Feature(Quantity.Y, -32.0, 32.0),
        Feature(Quantity.VX, -40.0, 40.0),
        Feature(Quantity.VY, -40.0, 40.0),
    ),
    vehicles=5,
)

MERGE = Scene(
    name="merge",
    environment="highway_env.envs.merge_env.MergeEnv",
    scenario=Scenario("merge", overtake_end_m=3.0, simulation_hz=15, episode_steps=20, observation=_ALONG_ROAD),
    has_two_drivers=False,
    end_x_m=370.0,
)
EXIT = Scene(
    name="exit",
    environment="highway_env.envs.exit_env.ExitEnv",
    scenario=Scenario(
        "exit",
        lanes=6,
        overtake_end_m=3.0,
        target_speeds_mps=(18.0, 24.0, 30.0),
        simulation_hz=5,
        episode_steps=18,
        observation=_ALONG_ROAD,
    ),
    has_two_drivers=True,
)
INTERSECTION = Scene(
    name="intersection",
    environment="highway_env.envs.intersection_env.IntersectionEnv",
    scenario=Scenario(
        "intersection",
        lanes=1,
        target_speeds_mps=(0.0, 4.5, 9.0),
        simulation_hz=15,
        episode_steps=13,
        observation=_square(100.0, 20.0),
    ),
    has_two_drivers=True,
    settings=MappingProxyType({"other_vehicles_type": "skidpad.highway.stock.CrossingTraffic"}),
)
ROUNDABOUT = Scene(
    name="roundabout",
    environment="highway_env.envs.roundabout_env.RoundaboutEnv",
    scenario=Scenario(
        "roundabout",
        target_speeds_mps=(0.0, 8.0, 16.0),
        simulation_hz=15,
        episode_steps=11,
        observation=_square(100.0, 15.0),
    ),
    has_two_drivers=False,
)

SCENES: Mapping[str, Scene] = MappingProxyType({scene.name: scene for scene in (MERGE, EXIT, INTERSECTION, ROUNDABOUT)})


def place_of(scenario: str, observation: str) -> str:
    """Describes where a policy was trained or is used, from the scenario's name ("" if unknown) and its observation's hash."""
    if not scenario:
        return f"on observation {observation}"
    return (
        f"in the scene {scenario!r} (observation {observation})"
        if scenario in SCENES
        else f"on the highway {scenario!r} (observation {observation})"
    )


def scene(name: str) -> Scene:
    """Returns the scene `name`; an unknown name raises an error that lists the scenes."""
    if name not in SCENES:
        raise UnknownNameError.among("scene", name, SCENES)
    return SCENES[name]


PAPER = Scenario(
    name="paper",
    spacing_mode=SpacingMode.METRES,
    spacing=(0.5, 2.0),
    ego_speed_mps=(20.0, 30.0),
    front_speed_mps=(20.0, 30.0),
    overtake_end_m=0.0,
    simulation_hz=5,
)
"""The case study as printed: 0.5 to 2 m between the vehicles, speeds within [20, 30] m/s, overtaken once the ego is level.

Reference: adversarial testing, sections III and V-A.
"""

RELEASED = Scenario(name="released", spacing=(0.5, 2.0), overtake_end_m=3.0, simulation_hz=15)
"""The published snapshot: [0.5, 2] is a spacing ratio, both start at 25 m/s, overtaken from 3 m on, simulated at 15 Hz.

Deviates: from the paper's text in each of these, as the authors' program does; the random baseline reaches 0.39 only this way.
"""

PRETRAINING = Scenario(
    name="pretraining",
    spacing=(1.0, 1.0),
    ego_start_ratio=1.5,
    front_speed_mps=(21.0, 24.0),
    simulation_hz=5,
    front=FrontDriver.IDM,
)
"""Where the snapshot trains its ego: IDM in front, overtaking does not end the episode.

The snapshot's ratio of 1.5 places the ego itself along the road; the vehicle in front follows at ratio 1.
"""

PRESETS: Mapping[str, Scenario] = MappingProxyType({preset.name: preset for preset in (PAPER, RELEASED, PRETRAINING)})


def preset(name: str) -> Scenario:
    """Returns the preset `name`; an unknown name raises an error that lists the presets."""
    if name not in PRESETS:
        raise UnknownNameError.among("scenario preset", name, PRESETS)
    return PRESETS[name]
