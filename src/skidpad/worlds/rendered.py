"""The reader `rendered`: drives through the built-in world that need no download.

The row is found by every `open_drive`, so this module stays light; what compiles and renders is imported when such a
drive is opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from skidpad.core.errors import BadDriveError
from skidpad.drives.drive import Drive
from skidpad.drives.readers import READERS, Option, Options, Reader
from skidpad.worlds.scenario.scenario import Weather

_LIMITS = {"frames": (1, 1_000_000), "width": (16, 4096), "height": (16, 4096), "wander_m": (0.0, 1.5)}


class Daytime(Enum):
    """The light of a drive; at dusk the sun stands a few degrees high."""

    DAY = "day"
    DUSK = "dusk"
    NIGHT = "night"


@dataclass(frozen=True, slots=True)
class RenderedSettings:
    """What a rendered drive depends on.

    domain: where its scenarios are drawn from. weathers, times: every road has one of these; none takes what the domain draws.
    wander_m: at most so far does the car stray from the middle of its lane; 0 keeps it there.
    """

    frames: int = 600
    seed: int = 0
    width_px: int = 320
    height_px: int = 160
    domain: str = "restricted"
    weathers: tuple[Weather, ...] = ()
    times: tuple[Daytime, ...] = ()
    wander_m: float = 0.5

    def __post_init__(self) -> None:
        given = {"frames": self.frames, "width": self.width_px, "height": self.height_px, "wander_m": self.wander_m}
        for name, value in given.items():
            low, high = _LIMITS[name]
            if not low <= value <= high:
                raise BadDriveError(f"option {name!r} of a rendered drive must be between {low:g} and {high:g}; got {value:g}")


@READERS.register("rendered")
class Rendered(Reader):
    """Opens a drive along seeded, winding roads of the built-in world, with the careful driver's steering as the label."""

    looks_for = "nothing: the drive is made"
    needs_path = False
    options = (
        Option("frames", "how many frames, 20 to a second; every 400 the drive goes on along another road", "600"),
        Option("seed", "which roads, surroundings, traffic and wandering", "0"),
        Option("width", "of the picture in pixels", "320"),
        Option("height", "of the picture in pixels", "160"),
        Option("domain", "of the scenarios, as for `skidpad drive`: restricted (a country road by a sunny day), extended", "restricted"),
        Option("weather", "sunny, fog, rain, snow, or several of them, as fog,rain; not given: as the domain has it"),
        Option("time", "day, dusk, night, or several of them; not given: as the domain has it"),
        Option("wander_m", "how far the car strays from the middle of its lane, 0 to 1.5 m; the label steers back", "0.5"),
    )

    def recognises(self, path: Path) -> bool:  # noqa: ARG002 - the protocol's; no folder is a rendered drive
        """Returns False: a rendered drive is never a folder."""
        return False

    def open(self, path: Path, options: Options) -> Drive:  # noqa: ARG002 - the protocol's; this reader takes no path
        """Plans the drive; frames are rendered when they are read."""
        settings = RenderedSettings(
            frames=options.whole("frames"),
            seed=options.whole("seed"),
            width_px=options.whole("width"),
            height_px=options.whole("height"),
            domain=options.text("domain"),
            weathers=options.choices("weather", Weather),
            times=options.choices("time", Daytime),
            wander_m=options.real("wander_m"),
        )
        from skidpad.worlds.journey import rendered_drive  # noqa: PLC0415 - numba and scipy, for this drive only

        return rendered_drive(settings)
