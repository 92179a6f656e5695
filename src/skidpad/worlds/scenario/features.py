"""Features of scenarios, and maps of them: how different are the scenarios that were found?

A map divides scenarios into cells, as curvature x weather; a search for diversity keeps the worst scenario of every cell.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod

from skidpad.core.errors import BadParametersError
from skidpad.core.registry import Registry
from skidpad.worlds.render.weather import visibility_m
from skidpad.worlds.scenario.scenario import RoadKind, Scenario, Weather

DEFAULT_FEATURES = ("curvature", "weather")


@dataclass(frozen=True, slots=True)
class ScenarioFeature:
    """Divides scenarios into a few named bins. bin_of: which, counted from 0."""

    name: str
    about: str
    bins: tuple[str, ...]
    bin_of: Callable[[Scenario], int]


FEATURES: Registry[ScenarioFeature] = Registry("feature", "features", ("skidpad.worlds.scenario.features",))


def _add(name: str, about: str, bins: Iterable[str], bin_of: Callable[[Scenario], int]) -> None:
    FEATURES.register(name)(ScenarioFeature(name, about, tuple(bins), bin_of))


def _add_measured(name: str, about: str, unit: str, edges: tuple[float, ...], measure: Callable[[Scenario], float]) -> None:
    """A number in bins; `edges` rise, and a value on an edge is in the bin above it."""
    between = [f"{low:g}-{high:g} {unit}".strip() for low, high in pairwise(edges)]
    bins = (f"below {edges[0]:g} {unit}".strip(), *between, f"{edges[-1]:g} {unit}".strip() + " and more")
    _add(name, about, bins, lambda scenario: bisect_right(edges, measure(scenario)))


def curvature_per_km(scenario: Scenario) -> float:
    """Returns the curvature of the road's bends in 1/km; 0 where it is straight."""
    return 1000.0 / scenario.road.radius_m if scenario.road.kind is RoadKind.CURVED else 0.0


def lateral_m_s2(scenario: Scenario) -> float:
    """Returns how hard the ego is pushed sideways in the bends, along the centreline."""
    return scenario.ego.speed_m_s**2 * curvature_per_km(scenario) / 1000.0


_WEATHERS, _KINDS = list(Weather), list(RoadKind)

_add(
    "curvature",
    "how sharp the bends are: straight, or by their radius",
    ("straight", "200 m and more", "100-200 m", "60-100 m", "below 60 m"),
    lambda scenario: bisect_right((1e-9, 5.0 + 1e-9, 10.0 + 1e-9, 1000.0 / 60.0 + 1e-9), curvature_per_km(scenario)),
)
_add("weather", "what falls or hangs in the air", [each.value for each in _WEATHERS], lambda s: _WEATHERS.index(s.conditions.weather))
_add("light", "day or night", ("day", "night"), lambda s: int(s.conditions.night))
_add("road", "the kind of road", [each.value for each in _KINDS], lambda s: _KINDS.index(s.road.kind))
_add("lanes", "lanes in each direction", ("1", "2", "3", "4"), lambda s: min(max(s.road.lanes, 1), 4) - 1)
_add_measured("speed", "the ego's speed", "m/s", (10.0, 14.0, 18.0, 22.0), lambda s: s.ego.speed_m_s)
_add_measured("lateral", "how hard the bends push sideways", "m/s²", (0.5, 1.0, 1.5, 2.0, 2.5), lateral_m_s2)
_add_measured("visibility", "how far one sees", "m", (50.0, 100.0, 200.0, 1000.0), lambda s: visibility_m(s.conditions))
_add("traffic", "other vehicles", ("none", "1-2", "3-4", "5 and more"), lambda s: min((len(s.vehicles) + 1) // 2, 3))
_add_measured("trees", "how dense the trees stand", "", (0.25, 0.5, 0.75), lambda s: s.surroundings.trees)


@dataclass(frozen=True, slots=True)
class FeatureMap:
    """A grid of cells, one axis for each feature."""

    features: tuple[ScenarioFeature, ...]

    def __post_init__(self) -> None:
        names = [feature.name for feature in self.features]
        if not names or len(set(names)) != len(names):
            raise BadParametersError(f"a map needs one or more different features; got {', '.join(names) or 'none'}")

    @classmethod
    def of(cls, *names: str) -> FeatureMap:
        """Makes the map of the named features; curvature x weather unless told."""
        return cls(tuple(FEATURES.get(name) for name in names or DEFAULT_FEATURES))

    @property
    def shape(self) -> tuple[int, ...]:
        """How many bins each feature has."""
        return tuple(len(feature.bins) for feature in self.features)

    def __len__(self) -> int:
        return prod(self.shape)

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return product(*map(range, self.shape))

    def cell(self, scenario: Scenario) -> tuple[int, ...]:
        """Returns the cell of a scenario, one bin for each feature."""
        return tuple(feature.bin_of(scenario) for feature in self.features)

    def label(self, cell: tuple[int, ...]) -> str:
        """Names a cell, as `60-100 m, fog`."""
        return ", ".join(feature.bins[number] for feature, number in zip(self.features, cell, strict=True))
